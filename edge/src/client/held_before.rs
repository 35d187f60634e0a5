//! What of a tree its destination held before the copy: where it lands that counts as resumed,
//! and where it fails as nothing.

use super::outcome::CopyStats;
use farline_core::transfer::Layout;
use farline_core::units::ByteRanges;
use std::collections::{BTreeSet, HashSet};

/// What a copy had found to be held when an attempt ended.
#[derive(Clone, Debug)]
pub(super) struct HeldBefore {
    /// Of all its trees.
    bytes: u64,
    /// Where that lies in the tree that the attempt was to move.
    tree: ByteRanges,
}

impl CopyStats {
    /// What was held before this copy of all that has landed.
    pub(super) fn resumed(&self) -> u64 {
        self.resumed_bytes.saturating_add(self.landed_held)
    }

    /// So much of the tree that moves, in its space of bytes, is held and does not come.
    pub(super) fn hold(&mut self, held: ByteRanges) {
        // Of one tree the last word stands for those before it; a server may say what it likes.
        let of_others = self.resumed_bytes - self.held.total();
        self.resumed_bytes = of_others.saturating_add(held.total());
        self.held = held;
    }

    /// The tree of `layout` is over: what was held counts, but for entries that were named as
    /// failed since there were `named` of them, and for those that `stay` as they are.
    pub(super) fn settle_held(&mut self, layout: &Layout, named: usize, stay: &BTreeSet<usize>) {
        let failures = self.failures.iter().skip(named);
        let failed: HashSet<&[u8]> = failures.map(|(path, _)| &path[..]).collect();
        let mut unlanded = ByteRanges::new();
        if !failed.is_empty() || !stay.is_empty() {
            for (index, entry) in layout.entries().iter().enumerate() {
                let is_out = stay.contains(&index) || failed.contains(&entry.path[..]);
                if is_out && let Some(start) = layout.start_of(index) {
                    unlanded.insert(start..start.saturating_add(entry.len()));
                }
            }
        }
        let held = std::mem::take(&mut self.held);
        self.resumed_bytes -= bytes_within(&held, &unlanded);
        self.unlanded = unlanded;
    }

    /// What is held by the word of the attempt that ends.
    pub(super) fn held_before(&self) -> HeldBefore {
        HeldBefore { bytes: self.resumed_bytes, tree: self.held.clone() }
    }

    /// Counts of what landed in the end what was held at the `first` attempt that moved anything:
    /// what that one and later ones moved was not there before this copy.
    pub(super) fn count_held_at(&mut self, first: &HeldBefore) {
        self.resumed_bytes = first.bytes - bytes_within(&first.tree, &self.unlanded);
    }
}

/// Bytes that are in both sets.
fn bytes_within(held: &ByteRanges, places: &ByteRanges) -> u64 {
    let common = places.iter().flat_map(|place| held.overlapping(place));
    common.map(|part| part.end - part.start).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::test_entries::entry;
    use crate::mover::BLOCK_LEN;
    use farline_core::transfer::EntryKind;
    use farline_core::units::{Error, ErrorCode, Fault, Span};

    const LENS: [u64; 4] = [100, 50, 30, 20];

    /// Files a, b, c and d, one behind the other.
    fn layout() -> Layout {
        let file = |(name, len): (&str, u64)| entry(name, EntryKind::File { len });
        Layout::new(["a", "b", "c", "d"].into_iter().zip(LENS).map(file).collect(), BLOCK_LEN)
    }

    /// Names files as failed, each by a letter.
    fn fail(stats: &mut CopyStats, names: &str) {
        let error = Error::new(Fault::Refused, ErrorCode::PermissionDenied, "no");
        stats.failures.extend(names.bytes().map(|name| (vec![name], error.clone())));
    }

    fn first(len: u64) -> ByteRanges {
        std::iter::once(0..len).collect()
    }

    /// All of a is held, and of b and d all but the last ten bytes.
    fn held() -> ByteRanges {
        [0..140, 180..190].into_iter().collect()
    }

    /// What is said to have been moved, and resumed, where these bytes landed.
    fn said(mut stats: CopyStats, landed: u64) -> (u64, u64) {
        stats.bytes = landed;
        let outcome = stats.outcome(Span::from_secs(1), Span::ZERO, 0);
        (outcome.moved_bytes, outcome.resumed_bytes)
    }

    #[test]
    fn what_was_held_of_what_fails_is_neither_moved_nor_resumed() {
        for (failed, stays, landed, expected) in [
            ("", None, 200, (50, 150)),
            ("b", None, 150, (40, 110)),
            ("ac", None, 70, (20, 50)),
            ("c", Some(3), 150, (10, 140)),
            ("abcd", None, 0, (0, 0)),
        ] {
            let mut stats = CopyStats::default();
            // Of another source, whose files have the same names.
            fail(&mut stats, "ab");
            stats.hold(first(10));
            stats.hold(held());
            let named = stats.failures.len();
            fail(&mut stats, failed);
            stats.settle_held(&layout(), named, &stays.into_iter().collect());
            assert_eq!(said(stats, landed), expected, "without {failed}");
        }
    }

    #[test]
    fn of_what_an_attempt_moved_nothing_was_held_whatever_fails() {
        let mut stats = CopyStats::default();
        // A tree before this one.
        stats.hold(first(7));
        stats.settle_held(&layout(), 0, &BTreeSet::new());
        let before = stats.checkpoint();
        stats.hold(held());
        let before_any = stats.held_before();
        stats.restore(before);
        // Another attempt finds more, and two files fail of which part was held, or none.
        stats.hold(first(180));
        fail(&mut stats, "bc");
        stats.settle_held(&layout(), 0, &BTreeSet::new());
        stats.count_held_at(&before_any);
        assert_eq!(said(stats, 7 + 120), (10, 7 + 110));
    }
}

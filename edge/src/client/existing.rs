//! `--no-clobber` and `--skip-same`: which files stay as they are at the destination.
//!
//! They are looked at before data moves, not under a lock: a file that another process makes
//! meanwhile is replaced, whole, as ever.

use super::control::Control;
use super::copy::Copy;
use super::listing;
use super::local::Destination;
use crate::stores::{join, stat};
use farline_core::gridftp::Pathname;
use farline_core::gridftp::client::Request;
use farline_core::transfer::{Entry, EntryKind, Layout};
use farline_core::units::{ByteRanges, Error, ErrorCode};
use std::collections::BTreeSet;

/// What becomes of what is at the destination already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Existing {
    /// It is replaced, each file whole.
    #[default]
    Replace,
    /// It stays, whatever it is.
    Keep,
    /// Files of the same size and modification time stay.
    KeepSame,
}

/// Looks asked for at once: a few segments, so that neither end waits for the other to read.
const LOOKS_AT_ONCE: usize = 64;

const SECOND: i64 = 1_000_000_000;

impl Existing {
    /// Whether `there`, which stands where `ours` is to go, stays.
    fn keeps(self, ours: &Entry, there: &Entry) -> bool {
        let is_file = |entry: &Entry| matches!(entry.kind, EntryKind::File { .. });
        // Many servers tell whole seconds only.
        let is_coarse = ours.modified_ns % SECOND == 0 || there.modified_ns % SECOND == 0;
        let unit = if is_coarse { SECOND } else { 1 };
        match self {
            Existing::Replace => false,
            Existing::Keep => true,
            Existing::KeepSame => {
                is_file(ours)
                    && is_file(there)
                    && ours.len() == there.len()
                    && ours.modified_ns.div_euclid(unit) == there.modified_ns.div_euclid(unit)
            }
        }
    }
}

/// Which of `entries` stay as they are on this host, by their number; notes their names.
pub(super) fn kept_here(
    copy: &mut Copy<'_>,
    place: &Destination,
    entries: &[Entry],
) -> BTreeSet<usize> {
    let (existing, Destination::Files { root, start }) = (copy.options.existing, place) else {
        return BTreeSet::new();
    };
    if existing == Existing::Replace {
        return BTreeSet::new();
    }
    let stays = |ours: &Entry| match stat(root, &join(start, &ours.path), &ours.path) {
        Ok(there) => existing.keeps(ours, &there),
        // A device or FIFO is there too.
        Err(error) => existing == Existing::Keep && error.code == ErrorCode::NotAFile,
    };
    let leaves = entries.iter().enumerate().filter(|(_, entry)| entry.kind != EntryKind::Directory);
    let kept: BTreeSet<usize> =
        leaves.filter(|(_, entry)| stays(entry)).map(|(index, _)| index).collect();
    note(copy, &kept, entries, |entry| join(start, &entry.path));
    kept
}

/// The same at a server, where the entries go to the paths that `path_of` says.
pub(super) async fn kept_there(
    copy: &mut Copy<'_>,
    control: &mut Control,
    entries: &[Entry],
    path_of: impl Fn(&Entry) -> Pathname,
) -> Result<BTreeSet<usize>, Error> {
    let existing = copy.options.existing;
    let mut kept = BTreeSet::new();
    if existing == Existing::Replace {
        return Ok(kept);
    }
    let leaves: Vec<usize> =
        (0..entries.len()).filter(|&index| entries[index].kind != EntryKind::Directory).collect();
    for some in leaves.chunks(LOOKS_AT_ONCE) {
        let looks: Vec<u64> = some
            .iter()
            .map(|&index| control.request(Request::Stat(path_of(&entries[index]))))
            .collect();
        for (&index, look) in some.iter().zip(looks) {
            let there = control.looked(look).await?;
            if there.is_some_and(|there| {
                existing.keeps(&entries[index], &listing::entry(Vec::new(), &there))
            }) {
                kept.insert(index);
            }
        }
    }
    note(copy, &kept, entries, |entry| path_of(entry).as_bytes().to_vec());
    Ok(kept)
}

/// Names what stays; one file alone has no path below its source, and is named by its target.
fn note(
    copy: &mut Copy<'_>,
    kept: &BTreeSet<usize>,
    entries: &[Entry],
    target: impl Fn(&Entry) -> Vec<u8>,
) {
    let name =
        |entry: &Entry| if entry.path.is_empty() { target(entry) } else { entry.path.clone() };
    copy.stats.skipped.extend(kept.iter().map(|&index| name(&entries[index])));
}

/// `entries` without those that stay.
pub(super) fn without(entries: Vec<Entry>, kept: &BTreeSet<usize>) -> Vec<Entry> {
    entries
        .into_iter()
        .enumerate()
        .filter(|(index, _)| !kept.contains(index))
        .map(|(_, entry)| entry)
        .collect()
}

/// The blocks of `layout` in which nothing lies but what stays: they need not come.
pub(super) fn blocks_of(layout: &Layout, kept: &BTreeSet<usize>) -> ByteRanges {
    let mut blocks = ByteRanges::new();
    if !kept.is_empty() {
        for block in (0..layout.block_count()).map(|index| layout.block(index)) {
            if layout.pieces(block.offset, block.len).all(|piece| kept.contains(&piece.entry)) {
                blocks.insert(block.range());
            }
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(len: u64, modified_ns: i64) -> Entry {
        Entry {
            path: b"f".to_vec(),
            kind: EntryKind::File { len },
            mode: 0o644,
            modified_ns,
            changed_ns: 0,
        }
    }

    #[test]
    fn the_same_file_has_the_same_size_and_known_time() {
        let same = |a: &Entry, b: &Entry| Existing::KeepSame.keeps(a, b);
        let ours = file(5, 7 * SECOND + 3);
        assert!(same(&ours, &file(5, 7 * SECOND + 3)));
        assert!(same(&ours, &file(5, 7 * SECOND)), "told in whole seconds");
        assert!(!same(&ours, &file(5, 7 * SECOND + 4)));
        assert!(!same(&ours, &file(6, 7 * SECOND + 3)));
        assert!(!same(&ours, &file(5, 8 * SECOND)));
        assert!(!same(&ours, &Entry { kind: EntryKind::Directory, ..ours.clone() }));
        assert!(Existing::Keep.keeps(&ours, &file(9, 0)) && !Existing::Replace.keeps(&ours, &ours));
    }

    #[test]
    fn a_block_with_one_wanted_file_comes_whole() {
        let layout =
            Layout::new(vec![file(100, 0), file(100, 0), file(1024, 0), file(3000, 0)], 1024);
        assert_eq!(blocks_of(&layout, &BTreeSet::from([0, 2])).to_string(), "1024-2048");
        assert_eq!(blocks_of(&layout, &BTreeSet::from([0, 1, 3])).to_string(), "0-200,2048-5048");
    }
}

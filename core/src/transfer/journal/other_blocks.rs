//! Blocks that were journaled in another length than the layout's: what is known of the same bytes.

use super::super::digest::{DigestAlgorithm, Digests, PieceDigest};
use super::super::layout::Layout;
use std::collections::BTreeMap;
use std::ops::Range;

/// The length in bytes and the value of each block, by its offset.
type Values = BTreeMap<u64, (u64, [u8; 32])>;

/// Blocks shorter than the layout's, until all that one of those consists of have come.
#[derive(Debug, Default)]
pub(super) struct ShorterBlocks {
    /// By the file and the length that its blocks have, the last perhaps shorter.
    files: BTreeMap<(usize, u64), Values>,
}

impl ShorterBlocks {
    /// Takes in the value of the bytes `range` of `entry`, a file of `layout` that was journaled in
    /// blocks of `journaled` bytes, which is not the layout's; returns what of the file is known by
    /// it now.
    pub(super) fn take(
        &mut self,
        (layout, digests): (&Layout, &mut Digests),
        algorithm: DigestAlgorithm,
        (entry, journaled, range): (usize, u64, Range<u64>),
        value: [u8; 32],
    ) -> Option<Range<u64>> {
        let (len, block) = (layout.entries()[entry].len(), layout.block_len() as u64);
        let index = range.start / block;
        let whole = index * block..len.min((index + 1).saturating_mul(block));
        if journaled > block {
            let taken = digests.insert_longer(layout, entry, range.clone(), value);
            return taken.then_some(range);
        }
        let parts = self.files.entry((entry, journaled)).or_default();
        parts.insert(range.start, (range.end - range.start, value));
        let (mut at, mut found) = (whole.start, Vec::new());
        for (&start, &part) in parts.range(whole.clone()) {
            if start != at {
                return None;
            }
            at += part.0;
            found.push(part);
        }
        if at != whole.end {
            return None;
        }
        parts.retain(|start, _| !whole.contains(start));
        digests.insert(&PieceDigest::joined(layout, (entry, index), &found, algorithm)?);
        Some(whole)
    }

    /// Nothing is known of `entry` any more.
    pub(super) fn forget(&mut self, entry: usize) {
        self.files.retain(|(of, _), _| *of != entry);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FileFacts, PartialOrigin, Recovered, Replay, begin, blocks, file, ranges};
    use super::*;
    use crate::transfer::{Entry, EntryKind};
    use crate::units::{ByteRanges, Rng};
    use proptest::prelude::*;

    fn entry(path: &str, len: u64) -> Entry {
        Entry {
            path: path.as_bytes().to_vec(),
            kind: EntryKind::File { len },
            mode: 0o644,
            modified_ns: 1,
            changed_ns: 9,
            attributes: None,
        }
    }

    fn replay(layout: &Layout, origin: PartialOrigin, journal: &[u8]) -> Recovered {
        let mut replay = Replay::new(layout, b"", origin);
        replay.all(journal);
        replay.finish()
    }

    /// The value of each piece of `layout`, as a sender computes them.
    fn pieces(layout: &Layout, files: &[Vec<u8>], algorithm: DigestAlgorithm) -> Vec<PieceDigest> {
        let blocks = (0..layout.block_count()).map(|index| layout.block(index));
        let of = |block: crate::transfer::Block| {
            layout.pieces(block.offset, block.len).map(|piece| {
                let from = piece.file_offset as usize;
                let bytes = &files[piece.entry][from..from + piece.len];
                PieceDigest::of(layout, &piece, bytes, algorithm)
            })
        };
        blocks.flat_map(of).collect()
    }

    /// Journals those pieces of files in blocks of `block_len` that `is_held` picks.
    fn journaled(
        files: &[Vec<u8>],
        entries: &[Entry],
        (block_len, algorithm): (usize, DigestAlgorithm),
        mut is_held: impl FnMut() -> bool,
        to: &mut Vec<u8>,
    ) {
        let layout = Layout::new(entries.to_vec(), block_len);
        let origin = PartialOrigin { source: [5; 32], digests: Some(algorithm) };
        begin(&origin, block_len, to);
        for (number, entry) in (0..).zip(entries) {
            file(number, &FileFacts::of(entry), &entry.path, to);
        }
        for piece in pieces(&layout, files, algorithm) {
            if is_held() {
                blocks(piece.entry() as u32, piece.index(), &[*piece.value()], to);
            }
        }
    }

    proptest! {
        /// Whatever was journaled, in whatever lengths: what is said to be held makes the file's
        /// own digest with the rest.
        #[test]
        fn what_was_held_in_other_blocks_completes_the_digest(
            seed in any::<u64>(),
            lens in prop::collection::vec(0u64..40_000, 1..5),
            lengths in prop::collection::vec(0u32..5, 1..4),
            now in 0u32..5,
            share in 1u64..5,
        ) {
            let mut rng = Rng::new(seed);
            let files: Vec<Vec<u8>> = lens
                .iter()
                .map(|&len| (0..len).map(|_| rng.next_u64() as u8).collect())
                .collect();
            let names = ["a", "b", "c", "d"];
            let entries: Vec<Entry> =
                names.iter().zip(&lens).map(|(name, &len)| entry(name, len)).collect();
            let layout = Layout::new(entries.clone(), 1024 << now);
            for algorithm in DigestAlgorithm::ALL {
                let mut journal = Vec::new();
                for length in &lengths {
                    let is_held = || rng.below(share) == 0;
                    journaled(&files, &entries, (1024 << length, algorithm), is_held, &mut journal);
                }
                let origin = PartialOrigin { source: [5; 32], digests: Some(algorithm) };
                let Recovered { matches, held, mut digests, .. } =
                    replay(&layout, origin, &journal);
                prop_assert!(matches);
                let held_of = |entry| held.get(&entry).cloned().unwrap_or_default();
                for piece in pieces(&layout, &files, algorithm) {
                    let from = piece.index() * layout.block_len() as u64;
                    let to = lens[piece.entry()].min(from + layout.block_len() as u64);
                    if !held_of(piece.entry()).contains(&(from..to)) {
                        digests.insert(&piece);
                    }
                }
                for (index, content) in files.iter().enumerate() {
                    let expected = PieceDigest::of(
                        &Layout::of_file(content.len() as u64, 1 << 20),
                        &crate::transfer::Piece {
                            entry: 0, file_offset: 0, block_offset: 0, len: content.len(),
                        },
                        content,
                        algorithm,
                    );
                    prop_assert_eq!(digests.digest(index), Some(*expected.value()), "{:?}", lens);
                    if share == 1 && algorithm == DigestAlgorithm::Crc64Nvme {
                        prop_assert_eq!(held_of(index).total(), lens[index], "all was held");
                    }
                }
            }
        }
    }

    #[test]
    fn little_is_lost_of_a_file_in_other_blocks() {
        let len = 20 * 4096 + 1500;
        let files = [(0..len).map(|at| (at % 251) as u8).collect::<Vec<u8>>()];
        let entries = [entry("a", len as u64)];
        let held = |algorithm, before: usize, now: usize| {
            let (mut journal, mut count) = (Vec::new(), 0);
            // All but the second block.
            let is_held = || {
                count += 1;
                count != 2
            };
            journaled(&files, &entries, (before, algorithm), is_held, &mut journal);
            let origin = PartialOrigin { source: [5; 32], digests: Some(algorithm) };
            let layout = Layout::new(entries.to_vec(), now);
            replay(&layout, origin, &journal).held.remove(&0).expect("held").to_string()
        };
        for algorithm in DigestAlgorithm::ALL {
            assert_eq!(held(algorithm, 1024, 1024), format!("0-1024,2048-{len}"));
            assert_eq!(held(algorithm, 1024, 4096), format!("4096-{len}"));
        }
        assert_eq!(held(DigestAlgorithm::Crc64Nvme, 4096, 1024), format!("0-4096,8192-{len}"));
        // What the end of a file leaves of a block is no node of its tree.
        assert_eq!(held(DigestAlgorithm::Blake3, 4096, 1024), "0-4096,8192-81920");
    }

    #[test]
    fn ranges_are_as_good_in_any_blocks() {
        let origin = PartialOrigin { source: [5; 32], digests: None };
        let mut held = ByteRanges::new();
        held.insert(3..5000);
        let mut journal = Vec::new();
        begin(&origin, 4096, &mut journal);
        file(0, &FileFacts::of(&entry("a", 9000)), b"a", &mut journal);
        ranges(0, &held, &mut journal);
        let back = replay(&Layout::new(vec![entry("a", 9000)], 1024), origin, &journal);
        assert_eq!((back.held[&0].clone(), back.block_len), (held, Some(4096)));
    }
}

//! Values of pieces that arrived and are not written yet, block by block: a full staging pool has
//! pieces of hundreds of thousands of files of some bytes each.

use super::PieceValue;
use crate::transfer::digest::PieceDigest;
use std::collections::BTreeMap;

/// The bytes of a value of which the rest are zeros: a CRC.
const SHORT: usize = 8;
const LONG: usize = 32;

/// Pieces by their entries and the blocks of those.
#[derive(Debug, Default)]
pub(super) struct NotedPieces(BTreeMap<(usize, u64), NotedBlock>);

/// The pieces of one block, by the first of them: all others are the first blocks of their files,
/// if a block has several.
#[derive(Debug)]
struct NotedBlock {
    entries: Box<[u32]>,
    /// As many bytes of each as the longest has that are not zero.
    values: Box<[u8]>,
    /// How many are not written.
    left: usize,
}

impl NotedPieces {
    /// Notes the pieces of one block, in their order.
    pub(super) fn insert(&mut self, block: &[PieceDigest]) {
        let Some(first) = block.first() else { return };
        let is_short = |piece: &PieceDigest| piece.value()[SHORT..].iter().all(|&byte| byte == 0);
        let len = if block.iter().all(is_short) { SHORT } else { LONG };
        let noted = NotedBlock {
            entries: block.iter().map(|piece| piece.entry() as u32).collect(),
            values: block.iter().flat_map(|piece| &piece.value()[..len]).copied().collect(),
            left: block.len(),
        };
        self.0.insert((first.entry(), first.index()), noted);
    }

    /// Takes the value of a piece that is written, once.
    pub(super) fn take(&mut self, entry: usize, index: u64) -> Option<PieceValue> {
        let (&key, block) = self.0.range_mut(..=(entry, index)).next_back()?;
        let at = block.entries.binary_search(&u32::try_from(entry).ok()?).ok()?;
        if index != (if at == 0 { key.1 } else { 0 }) {
            return None;
        }
        let len = block.values.len() / block.entries.len();
        let value = PieceValue::new(block.values.get(at * len..)?.get(..len)?);
        block.left = block.left.saturating_sub(1);
        if block.left == 0 {
            self.0.remove(&key);
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::{Entry, EntryKind, Layout};
    use crate::units::Rng;

    #[test]
    fn each_piece_has_its_own_value() {
        let mut rng = Rng::new(8);
        for round in 0..200 {
            let lens = (0..rng.below(60)).map(|_| match rng.below(4) {
                0 => rng.below(5_000),
                1 => 0,
                _ => rng.below(200),
            });
            let entry = |len: u64| Entry {
                path: b"f".to_vec(),
                kind: EntryKind::File { len },
                mode: 0o644,
                modified_ns: 0,
                changed_ns: 0,
                attributes: None,
            };
            let layout = Layout::new(lens.map(entry).collect(), 1024);
            let mut noted = NotedPieces::default();
            let mut all = Vec::new();
            for block in (0..layout.block_count()).map(|index| layout.block(index)) {
                let pieces = layout.pieces(block.offset, block.len).map(|piece| {
                    let mut value = [0; LONG];
                    let len = if round % 2 == 0 { SHORT } else { LONG };
                    value[..len].fill_with(|| rng.next_u64() as u8);
                    PieceDigest::known(&layout, piece.entry, piece.file_offset / 1024, value)
                });
                let pieces: Vec<_> = pieces.collect();
                noted.insert(&pieces);
                all.extend(pieces);
            }
            for entry in 0..layout.entries().len() {
                assert!(noted.take(entry, 7_000).is_none(), "no file is as long");
            }
            while !all.is_empty() {
                let piece = all.swap_remove(rng.below(all.len() as u64) as usize);
                let value = noted.take(piece.entry(), piece.index()).map(|value| value.bytes());
                assert_eq!(value, Some(*piece.value()));
            }
            assert!(noted.0.is_empty(), "what is written takes no memory");
        }
    }
}

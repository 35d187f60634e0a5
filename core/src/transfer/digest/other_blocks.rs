//! What was computed of a file in blocks of another length than its layout has now.

use super::DigestAlgorithm;
use super::{Digests, FileDigest, Layout, PieceDigest, blake3_tree, crc_of, crc64, padded};
use std::ops::Range;

impl PieceDigest {
    /// That of block `index` of `entry` in `layout`, from the shorter ones that it consists of: the
    /// length in bytes and the value of each, in their order.
    pub fn joined(
        layout: &Layout,
        (entry, index): (usize, u64),
        parts: &[(u64, [u8; 32])],
        algorithm: DigestAlgorithm,
    ) -> Option<PieceDigest> {
        let known = |value| PieceDigest::known(layout, entry, index, value);
        if let [(_, value)] = parts {
            return Some(known(*value));
        }
        let is_file = layout.entries()[entry].len() <= layout.block_len() as u64;
        let value = match algorithm {
            DigestAlgorithm::Crc64Nvme => {
                let parts: Vec<_> =
                    parts.iter().map(|(len, value)| (*len, crc_of(value))).collect();
                padded(crc64::joined(&parts))
            }
            DigestAlgorithm::Blake3 => {
                let values: Vec<_> = parts.iter().map(|(_, value)| *value).collect();
                blake3_tree::joined(&values, is_file)?
            }
        };
        Some(known(value))
    }
}

impl Digests {
    /// Takes in the value of the bytes `range` of `entry`, a file of `layout`: once one block, of
    /// which the layout has several now. Returns whether they are all known by it; where some were
    /// known before, or BLAKE3 has no node for what the end of a file left of a block, nothing
    /// changes.
    pub fn insert_longer(
        &mut self,
        layout: &Layout,
        entry: usize,
        range: Range<u64>,
        value: [u8; 32],
    ) -> bool {
        let (len, block) = (layout.entries()[entry].len(), layout.block_len() as u64);
        let Some(file) = self.files.get_mut(entry) else { return false };
        let blocks = range.start / block..range.end.div_ceil(block);
        let is_file = range == (0..len);
        let count = blocks.end.saturating_sub(blocks.start);
        let known = match file {
            FileDigest::Crc64(sum) => {
                if !sum.lacks(blocks.clone()) {
                    return false;
                }
                sum.add(blocks, crc_of(&value)).map(padded)
            }
            FileDigest::Awaited | FileDigest::Blake3(_) if is_file => Some(value),
            FileDigest::Blake3(subtrees) => {
                let height = count.trailing_zeros();
                let is_node = count.is_power_of_two() && range.end - range.start == count * block;
                if !is_node || !subtrees.lacks(blocks.start, height) {
                    return false;
                }
                subtrees.insert(blocks.start, height, value)
            }
            _ => return false,
        };
        self.know(entry, known);
        true
    }
}

//! BLAKE3 of files whose blocks arrive in any order.
//!
//! A block is an aligned power of two of BLAKE3's 1 KiB chunks, so its chaining value is a node of
//! the file's own tree (BLAKE3 specification, section 2.1, "Tree Structure") and the file's digest
//! comes from the blocks' without reading a byte twice. Neighbours are joined as soon as both are
//! there, so memory follows the disorder, not the file.

use blake3::hazmat::{
    ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root,
};
use std::collections::BTreeMap;

/// The chaining value of a block that is not the whole file, at `offset` of it.
pub(super) fn chaining_value(offset: u64, bytes: &[u8]) -> ChainingValue {
    blake3::Hasher::new().set_input_offset(offset).update(bytes).finalize_non_root()
}

/// Looked at again and again, out of a processor's cache.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// The chaining value of so many zeros at `offset`; of a whole file of them its digest.
pub(super) fn value_of_zeros(offset: u64, len: usize, is_file: bool) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.set_input_offset(offset);
    let mut left = len;
    while left > 0 {
        let part = left.min(ZEROS.len());
        hasher.update(&ZEROS[..part]);
        left -= part;
    }
    if is_file { *hasher.finalize().as_bytes() } else { hasher.finalize_non_root() }
}

/// What is known of one file's tree.
#[derive(Debug)]
pub(super) struct Subtrees {
    /// Joined subtrees by (first block, height).
    nodes: BTreeMap<(u64, u32), ChainingValue>,
    /// Blocks in the file.
    blocks: u64,
}

impl Subtrees {
    /// Nothing of a file of `blocks` blocks.
    pub(super) fn new(blocks: u64) -> Subtrees {
        Subtrees { nodes: BTreeMap::new(), blocks }
    }

    /// Takes the chaining value of `1 << height` blocks from `first` on in; returns the file's
    /// digest once every block is there. What is there already in part changes nothing.
    pub(super) fn insert(
        &mut self,
        first: u64,
        height: u32,
        value: ChainingValue,
    ) -> Option<[u8; 32]> {
        if !self.lacks(first, height) {
            return None;
        }
        let (nodes, blocks) = (&mut self.nodes, self.blocks);
        let (mut at, mut height, mut value) = (first, height, value);
        // Join upwards while the sibling is there. The root is left: it is finalised differently.
        loop {
            let span = 1u64 << height;
            let (left, right) = if at & span == 0 { (at, at + span) } else { (at - span, at) };
            let joins_to_root = left == 0 && right + span >= blocks;
            let sibling = if left == at { right } else { left };
            if right + span > blocks || joins_to_root {
                break;
            }
            let Some(other) = nodes.remove(&(sibling, height)) else { break };
            value = if left == at {
                merge_subtrees_non_root(&value, &other, Mode::Hash)
            } else {
                merge_subtrees_non_root(&other, &value, Mode::Hash)
            };
            (at, height) = (left, height + 1);
        }
        nodes.insert((at, height), value);
        root(nodes, blocks)
    }

    /// Whether the `1 << height` blocks from `first` on are of the file, and none of them is there,
    /// alone or joined with its neighbours.
    pub(super) fn lacks(&self, first: u64, height: u32) -> bool {
        let end = first.saturating_add(1 << height);
        let above = height..=64 - self.blocks.leading_zeros();
        end <= self.blocks
            && self.nodes.range((first, 0)..(end, 0)).next().is_none()
            && !above
                .into_iter()
                .any(|height| self.nodes.contains_key(&(first >> height << height, height)))
    }
}

/// The value of pieces of one power of two that lie one behind the other, the last perhaps shorter,
/// by that of each: the digest of a file that they are the whole of, else their chaining value.
pub(super) fn joined(pieces: &[ChainingValue], is_file: bool) -> Option<[u8; 32]> {
    let nodes = (0..).zip(pieces).map(|(at, value)| ((at, 0), *value)).collect();
    match is_file {
        true => root_of(&nodes, pieces.len() as u64),
        false => subtree(&nodes, 0, pieces.len() as u64),
    }
}

/// The root from the joined nodes, once they cover every block.
fn root(nodes: &BTreeMap<(u64, u32), ChainingValue>, blocks: u64) -> Option<[u8; 32]> {
    // Cheap refusal first: the nodes of a whole file are at most one for each bit of `blocks`, plus
    // the last partial join.
    if nodes.keys().map(|&(_, height)| 1u64 << height).sum::<u64>() != blocks {
        return None;
    }
    root_of(nodes, blocks)
}

fn root_of(nodes: &BTreeMap<(u64, u32), ChainingValue>, blocks: u64) -> Option<[u8; 32]> {
    if blocks < 2 {
        return None;
    }
    let split = 1u64 << (63 - (blocks - 1).leading_zeros());
    let left = subtree(nodes, 0, split)?;
    let right = subtree(nodes, split, blocks - split)?;
    Some(*merge_subtrees_root(&left, &right, Mode::Hash).as_bytes())
}

/// The chaining value of `count` blocks from `at`: BLAKE3 puts the largest power of two that leaves
/// a rest on the left.
fn subtree(
    nodes: &BTreeMap<(u64, u32), ChainingValue>,
    at: u64,
    count: u64,
) -> Option<ChainingValue> {
    if count.is_power_of_two()
        && let Some(value) = nodes.get(&(at, count.trailing_zeros()))
    {
        return Some(*value);
    }
    if count < 2 {
        return None;
    }
    let split = 1u64 << (63 - (count - 1).leading_zeros());
    let left = subtree(nodes, at, split)?;
    let right = subtree(nodes, at + split, count - split)?;
    Some(merge_subtrees_non_root(&left, &right, Mode::Hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_in_order_keep_few_nodes() {
        let mut subtrees = Subtrees::new(1000);
        for index in 0..999 {
            let digest = subtrees.insert(index, 0, chaining_value(index * 1024, &[7; 1024]));
            assert_eq!(digest, None, "the last block is missing");
            assert!(subtrees.nodes.len() <= 12, "{} nodes after {index}", subtrees.nodes.len());
        }
    }
}

//! BLAKE3 digests of files whose blocks arrive in any order.
//!
//! A block is an aligned power of two of BLAKE3's 1 KiB chunks, so its chaining value is a node of
//! the file's own tree (BLAKE3 specification, section 2.1, "Tree Structure") and the file's digest
//! comes from the blocks' without reading a byte twice. Neighbours are joined as soon as both are
//! there, so memory follows the disorder, not the file.

use super::layout::{Layout, Piece};
use crate::units::{Error, ErrorCode, Fault};
use blake3::hazmat::{
    ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root,
};
use std::collections::{BTreeMap, BTreeSet};

/// A BLAKE3 digest of a whole file.
pub type Digest = [u8; 32];

/// What one piece contributes to its file's digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceDigest {
    entry: usize,
    /// The block's place within the file.
    index: u64,
    value: ChainingValue,
    /// Whether `value` is the digest of the whole file rather than of a part.
    whole: bool,
}

impl PieceDigest {
    /// What was computed before, of block `index` of `entry` in `layout`.
    pub fn known(layout: &Layout, entry: usize, index: u64, value: [u8; 32]) -> PieceDigest {
        let whole = layout.entries()[entry].len() <= layout.block_len() as u64;
        PieceDigest { entry, index, value, whole }
    }

    /// Which entry of the layout the piece belongs to.
    pub fn entry(&self) -> usize {
        self.entry
    }

    /// Which block of its file the piece is.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// The digest of a file that is one piece, else the piece's chaining value.
    pub fn value(&self) -> &[u8; 32] {
        &self.value
    }

    /// Hashes `bytes`, the content of `piece`, a piece of `layout`.
    pub fn of(layout: &Layout, piece: &Piece, bytes: &[u8]) -> PieceDigest {
        let whole = piece.len as u64 == layout.entries()[piece.entry].len();
        let mut hasher = blake3::Hasher::new();
        let value = if whole {
            *hasher.update(bytes).finalize().as_bytes()
        } else {
            hasher.set_input_offset(piece.file_offset).update(bytes).finalize_non_root()
        };
        PieceDigest {
            entry: piece.entry,
            index: piece.file_offset / layout.block_len() as u64,
            value,
            whole,
        }
    }
}

/// The digest of a block, from its pieces in their order (`docs/protocol.md`, clause I-3).
#[derive(Debug, Default)]
pub struct BlockDigest(blake3::Hasher);

impl BlockDigest {
    /// Takes the next piece in.
    pub fn add(&mut self, piece: &PieceDigest) {
        self.0.update(&piece.value);
    }

    /// The digest of the pieces so far.
    pub fn finish(&self) -> Digest {
        *self.0.finalize().as_bytes()
    }
}

/// The digests of a layout's files, as far as their pieces are known.
#[derive(Debug)]
pub struct Digests {
    files: Vec<FileDigest>,
    /// Files of which the sender did not vouch for every block.
    doubted: BTreeSet<usize>,
    computed: bool,
}

#[derive(Debug)]
enum FileDigest {
    /// Joined subtrees by (first block, height) and the number of blocks in the file.
    Partial {
        nodes: BTreeMap<(u64, u32), ChainingValue>,
        blocks: u64,
    },
    Known(Digest),
    /// Its source could not be read whole.
    Failed,
}

/// What the sender says of one file when all its bytes have gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DigestVerdict {
    /// The digest of what was read and sent.
    Read(Digest),
    /// Read in part, because the receiver held the rest: each block had its digest with it (clause
    /// T-7).
    Part,
    /// The source could not be read whole: what was sent in its place is worthless.
    Unreadable,
    /// No digest was computed, by agreement.
    Uncomputed,
}

impl DigestVerdict {
    /// Bytes of one verdict on the wire: a status byte, then the digest.
    pub const WIRE_LEN: usize = 33;

    /// The wire form.
    pub fn encode(self) -> [u8; DigestVerdict::WIRE_LEN] {
        let mut wire = [0; DigestVerdict::WIRE_LEN];
        wire[0] = match self {
            DigestVerdict::Unreadable => 0,
            DigestVerdict::Read(_) => 1,
            DigestVerdict::Part => 2,
            DigestVerdict::Uncomputed => 3,
        };
        if let DigestVerdict::Read(digest) = self {
            wire[1..].copy_from_slice(&digest);
        }
        wire
    }

    /// Reads the list of verdicts on the entries of `layout`.
    ///
    /// # Errors
    /// When it is malformed, or of another number of entries: the sender's fault.
    pub fn decode_for(layout: &Layout, wire: &[u8]) -> Result<Vec<DigestVerdict>, Error> {
        DigestVerdict::decode_all(wire)
            .filter(|verdicts| verdicts.len() == layout.entries().len())
            .ok_or_else(|| {
                Error::new(
                    Fault::There,
                    ErrorCode::BadDigests,
                    "the list of digests does not fit the list of files",
                )
            })
    }

    /// Reads the wire form of a list of verdicts; `None` when its length or a status is wrong.
    pub fn decode_all(wire: &[u8]) -> Option<Vec<DigestVerdict>> {
        if !wire.len().is_multiple_of(DigestVerdict::WIRE_LEN) {
            return None;
        }
        let one = |wire: &[u8]| match wire[0] {
            0 => Some(DigestVerdict::Unreadable),
            1 => wire[1..].try_into().ok().map(DigestVerdict::Read),
            2 => Some(DigestVerdict::Part),
            3 => Some(DigestVerdict::Uncomputed),
            _ => None,
        };
        wire.chunks(DigestVerdict::WIRE_LEN).map(one).collect()
    }
}

impl Digests {
    /// No piece known yet, except that empty entries have the digest of nothing.
    pub fn new(layout: &Layout) -> Digests {
        let file = |len: u64| match len {
            0 => FileDigest::Known(*blake3::hash(b"").as_bytes()),
            len => FileDigest::Partial {
                nodes: BTreeMap::new(),
                blocks: len.div_ceil(layout.block_len() as u64),
            },
        };
        let files = layout.entries().iter().map(|entry| file(entry.len())).collect();
        Digests { files, doubted: BTreeSet::new(), computed: true }
    }

    /// Those of a transfer that computes none, by agreement (clause I-5).
    pub fn uncomputed(layout: &Layout) -> Digests {
        Digests { computed: false, ..Digests::new(layout) }
    }

    /// Whether digests are computed at all.
    pub fn are_computed(&self) -> bool {
        self.computed
    }

    /// Notes that the sender did not vouch for a block of `entry`.
    pub fn doubt(&mut self, entry: usize) {
        self.doubted.insert(entry);
    }

    /// Whether every block of `entry` is known and was compared with what the sender read.
    pub fn is_vouched(&self, entry: usize) -> bool {
        self.digest(entry).is_some() && !self.doubted.contains(&entry)
    }

    /// Takes a piece's digest in; a piece that came before changes nothing.
    pub fn insert(&mut self, piece: &PieceDigest) {
        let Some(file) = self.files.get_mut(piece.entry) else { return };
        let FileDigest::Partial { nodes, blocks } = file else { return };
        if piece.whole {
            *file = FileDigest::Known(piece.value);
            return;
        }
        // Held already, alone or joined with its neighbours.
        let heights = 0..=64 - blocks.leading_zeros();
        if piece.index >= *blocks
            || heights
                .into_iter()
                .any(|height| nodes.contains_key(&(piece.index >> height << height, height)))
        {
            return;
        }
        let (mut at, mut height, mut value) = (piece.index, 0u32, piece.value);
        // Join upwards while the sibling is there. The root is left: it is finalised differently.
        loop {
            let span = 1u64 << height;
            let (left, right) = if at & span == 0 { (at, at + span) } else { (at - span, at) };
            let joins_to_root = left == 0 && right + span >= *blocks;
            let sibling = if left == at { right } else { left };
            if right + span > *blocks || joins_to_root {
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
        if let Some(root) = root(nodes, *blocks) {
            *file = FileDigest::Known(root);
        }
    }

    /// Forgets every piece of `entry`, a file of `layout`.
    pub fn forget(&mut self, layout: &Layout, entry: usize) {
        let len = layout.entries()[entry].len();
        if len > 0 {
            self.files[entry] = FileDigest::Partial {
                nodes: BTreeMap::new(),
                blocks: len.div_ceil(layout.block_len() as u64),
            };
        }
    }

    /// Marks a file whose source could not be read.
    pub fn fail(&mut self, entry: usize) {
        if let Some(file) = self.files.get_mut(entry) {
            *file = FileDigest::Failed;
        }
    }

    /// The digest of `entry`, once every piece of it is known and none failed.
    pub fn digest(&self, entry: usize) -> Option<Digest> {
        match self.files.get(entry)? {
            FileDigest::Known(digest) => Some(*digest),
            FileDigest::Partial { .. } | FileDigest::Failed => None,
        }
    }

    /// What to tell the receiver of each entry, when all that it lacked was sent.
    pub fn verdicts(&self) -> Vec<DigestVerdict> {
        let verdict = |file: &FileDigest| match file {
            FileDigest::Failed => DigestVerdict::Unreadable,
            _ if !self.computed => DigestVerdict::Uncomputed,
            FileDigest::Known(digest) => DigestVerdict::Read(*digest),
            FileDigest::Partial { .. } => DigestVerdict::Part,
        };
        self.files.iter().map(verdict).collect()
    }
}

/// The root from the joined nodes, once they cover every block.
fn root(nodes: &BTreeMap<(u64, u32), ChainingValue>, blocks: u64) -> Option<Digest> {
    // Cheap refusal first: the nodes of a whole file are at most one for each bit of `blocks`, plus
    // the last partial join.
    if nodes.keys().map(|&(_, height)| 1u64 << height).sum::<u64>() != blocks || blocks < 2 {
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
    use crate::units::Rng;

    #[test]
    fn blocks_in_any_order_give_the_digest_of_the_file() {
        let mut rng = Rng::new(3);
        for len in [
            0u64,
            1,
            1023,
            1024,
            1025,
            2048,
            2049,
            3 * 1024,
            5000,
            8192,
            8193,
            64 * 1024 - 1,
            100_000,
        ] {
            let content: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
            let layout = Layout::of_file(len, 1024);
            for _ in 0..20 {
                let mut order: Vec<u64> = (0..layout.block_count()).collect();
                for i in (1..order.len()).rev() {
                    order.swap(i, rng.below(i as u64 + 1) as usize);
                }
                let mut digests = Digests::new(&layout);
                // What is sent twice changes nothing.
                let again: Vec<u64> = order.iter().copied().filter(|_| rng.below(3) == 0).collect();
                for index in again.iter().copied().chain(order).chain(again.iter().copied()) {
                    let block = layout.block(index);
                    let piece = layout
                        .pieces(block.offset, block.len)
                        .next()
                        .expect("a block of a file has a piece");
                    let from = piece.file_offset as usize;
                    let digest = PieceDigest::of(&layout, &piece, &content[from..from + piece.len]);
                    digests.insert(&digest);
                }
                assert_eq!(
                    digests.digest(0),
                    Some(*blake3::hash(&content).as_bytes()),
                    "{len} bytes"
                );
            }
        }
    }

    #[test]
    fn blocks_in_order_keep_few_nodes() {
        let layout = Layout::of_file(1024 * 1000, 1024);
        let mut digests = Digests::new(&layout);
        for index in 0..999 {
            let piece = Piece { entry: 0, file_offset: index * 1024, block_offset: 0, len: 1024 };
            digests.insert(&PieceDigest::of(&layout, &piece, &[7; 1024]));
            let FileDigest::Partial { nodes, .. } = &digests.files[0] else {
                panic!("not whole yet")
            };
            assert!(nodes.len() <= 12, "{} nodes after block {index}", nodes.len());
        }
        assert_eq!(digests.digest(0), None, "the last block is missing");
    }

    #[test]
    fn verdicts_cross_the_wire() {
        let verdicts = [
            DigestVerdict::Read([9; 32]),
            DigestVerdict::Unreadable,
            DigestVerdict::Part,
            DigestVerdict::Uncomputed,
        ];
        let wire: Vec<u8> = verdicts.iter().flat_map(|verdict| verdict.encode()).collect();
        assert_eq!(DigestVerdict::decode_all(&wire).as_deref(), Some(&verdicts[..]));
        assert_eq!(DigestVerdict::decode_all(&wire[1..]), None);
        assert_eq!(DigestVerdict::decode_all(&[5; 33]), None);
    }
}

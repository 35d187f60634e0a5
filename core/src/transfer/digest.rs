//! Digests of files whose blocks arrive in any order: CRC-64/NVME ([`crc64`]) or BLAKE3
//! ([`blake3_tree`]).
//!
//! Both are joined from what the blocks contribute, without reading a byte twice. A CRC of 64 bits
//! finds every burst of up to 64 wrong bits, and misses other accidents once in 2^64; whoever means
//! to change a file can keep its CRC, but not its BLAKE3.

mod blake3_tree;
mod crc64;
mod other_blocks;
mod verdict_list;

pub use crc64::{crc64_with, crc64_with_zeros};
pub use verdict_list::VerdictList;

use super::layout::{Layout, Piece};
use std::collections::BTreeSet;
use std::fmt;

/// A digest of a whole file. Of a shorter one than 32 bytes the rest are zeros.
pub type Digest = [u8; 32];

/// What files are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DigestAlgorithm {
    /// 8 bytes, big-endian, at the speed of memory: against accidents.
    Crc64Nvme,
    /// 32 bytes: against accidents and intent.
    Blake3,
}

impl DigestAlgorithm {
    /// Every one.
    pub const ALL: [DigestAlgorithm; 2] = [DigestAlgorithm::Crc64Nvme, DigestAlgorithm::Blake3];

    /// Its name on the wire and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            DigestAlgorithm::Crc64Nvme => "crc64nvme",
            DigestAlgorithm::Blake3 => "blake3",
        }
    }

    /// The one of that name.
    pub fn named(name: &str) -> Option<DigestAlgorithm> {
        DigestAlgorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// The extended attribute in which a file's digest is kept with it, in lower-case hexadecimal.
    pub fn attribute(self) -> &'static str {
        match self {
            DigestAlgorithm::Crc64Nvme => "user.farline.crc64nvme",
            DigestAlgorithm::Blake3 => "user.farline.blake3",
        }
    }

    /// The bytes of a digest that are not padding.
    pub fn digest_len(self) -> usize {
        match self {
            DigestAlgorithm::Crc64Nvme => 8,
            DigestAlgorithm::Blake3 => 32,
        }
    }
}

impl fmt::Display for DigestAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DigestAlgorithm::Crc64Nvme => "CRC-64/NVME",
            DigestAlgorithm::Blake3 => "BLAKE3",
        })
    }
}

fn crc_of(padded: &Digest) -> u64 {
    padded[..8].iter().fold(0, |crc, &byte| crc << 8 | u64::from(byte))
}

fn padded(crc: u64) -> Digest {
    let mut digest = [0; 32];
    digest[..8].copy_from_slice(&crc.to_be_bytes());
    digest
}

/// What one piece contributes to its file's digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceDigest {
    entry: usize,
    /// The block's place within the file.
    index: u64,
    value: [u8; 32],
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

    /// The digest of a file that is one piece; else the piece's CRC, or its chaining value.
    pub fn value(&self) -> &[u8; 32] {
        &self.value
    }

    /// Digests `bytes`, the content of `piece`, a piece of `layout`.
    pub fn of(
        layout: &Layout,
        piece: &Piece,
        bytes: &[u8],
        algorithm: DigestAlgorithm,
    ) -> PieceDigest {
        let whole = piece.len as u64 == layout.entries()[piece.entry].len();
        let value = match algorithm {
            DigestAlgorithm::Crc64Nvme => padded(crc64::crc(bytes)),
            DigestAlgorithm::Blake3 if whole => *blake3::hash(bytes).as_bytes(),
            DigestAlgorithm::Blake3 => blake3_tree::chaining_value(piece.file_offset, bytes),
        };
        PieceDigest::at(layout, piece, value, whole)
    }

    /// The same of a piece that is all zeros, which are not there to be looked at: by CRC-64/NVME
    /// in no time worth counting; BLAKE3 has no way around them.
    pub fn of_zeros(layout: &Layout, piece: &Piece, algorithm: DigestAlgorithm) -> PieceDigest {
        let whole = piece.len as u64 == layout.entries()[piece.entry].len();
        let value = match algorithm {
            DigestAlgorithm::Crc64Nvme => padded(crc64_with_zeros(0, piece.len as u64)),
            DigestAlgorithm::Blake3 => {
                blake3_tree::value_of_zeros(piece.file_offset, piece.len, whole)
            }
        };
        PieceDigest::at(layout, piece, value, whole)
    }

    fn at(layout: &Layout, piece: &Piece, value: [u8; 32], whole: bool) -> PieceDigest {
        let index = piece.file_offset / layout.block_len() as u64;
        PieceDigest { entry: piece.entry, index, value, whole }
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
    /// None where no digests are computed, by agreement (clause I-5).
    algorithm: Option<DigestAlgorithm>,
}

/// Two words: a tree has millions of files, of which most are one piece.
#[derive(Debug)]
enum FileDigest {
    /// The file is one piece, which has not come.
    Awaited,
    Crc64(Box<crc64::Sum>),
    Blake3(Box<blake3_tree::Subtrees>),
    /// Nobody computes it.
    Uncomputed,
    KnownCrc64(u64),
    KnownBlake3(Box<Digest>),
    /// Its source could not be read whole.
    Failed,
}

impl FileDigest {
    /// That of a file of `len` bytes, of which nothing is known.
    fn new(layout: &Layout, len: u64, algorithm: Option<DigestAlgorithm>) -> FileDigest {
        let block = layout.block_len() as u64;
        match algorithm {
            None => FileDigest::Uncomputed,
            Some(DigestAlgorithm::Crc64Nvme) if len == 0 => FileDigest::KnownCrc64(crc64::crc(b"")),
            Some(DigestAlgorithm::Blake3) if len == 0 => {
                FileDigest::KnownBlake3(Box::new(*blake3::hash(b"").as_bytes()))
            }
            Some(_) if len <= block => FileDigest::Awaited,
            Some(DigestAlgorithm::Crc64Nvme) => {
                FileDigest::Crc64(Box::new(crc64::Sum::new(layout, len)))
            }
            Some(DigestAlgorithm::Blake3) => {
                let blocks = len.div_ceil(block);
                FileDigest::Blake3(Box::new(blake3_tree::Subtrees::new(blocks)))
            }
        }
    }

    fn known(&self) -> Option<Digest> {
        match self {
            FileDigest::KnownCrc64(crc) => Some(padded(*crc)),
            FileDigest::KnownBlake3(digest) => Some(**digest),
            _ => None,
        }
    }
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

    /// Whether a wire form may begin so.
    fn is_status(byte: u8) -> bool {
        byte <= 3
    }

    /// Reads the wire form; `None` when its length or its status is wrong.
    fn decode(wire: &[u8]) -> Option<DigestVerdict> {
        let (status, digest) = wire.split_first()?;
        let digest = digest.try_into().ok()?;
        match status {
            0 => Some(DigestVerdict::Unreadable),
            1 => Some(DigestVerdict::Read(digest)),
            2 => Some(DigestVerdict::Part),
            3 => Some(DigestVerdict::Uncomputed),
            _ => None,
        }
    }
}

impl Digests {
    /// No piece known yet, except that empty entries have the digest of nothing.
    pub fn new(layout: &Layout, algorithm: Option<DigestAlgorithm>) -> Digests {
        let files =
            layout.entries().iter().map(|entry| FileDigest::new(layout, entry.len(), algorithm));
        Digests { files: files.collect(), doubted: BTreeSet::new(), algorithm }
    }

    /// What is computed, if anything is.
    pub fn algorithm(&self) -> Option<DigestAlgorithm> {
        self.algorithm
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
        let known = match file {
            FileDigest::Awaited => piece.whole.then_some(piece.value),
            FileDigest::Crc64(sum) => {
                sum.add(piece.index..piece.index + 1, crc_of(&piece.value)).map(padded)
            }
            FileDigest::Blake3(subtrees) => subtrees.insert(piece.index, 0, piece.value),
            _ => None,
        };
        self.know(piece.entry, known);
    }

    /// Notes the digest of `entry`, once it is known.
    fn know(&mut self, entry: usize, digest: Option<Digest>) {
        if let (Some(digest), Some(algorithm)) = (digest, self.algorithm) {
            self.files[entry] = match algorithm {
                DigestAlgorithm::Crc64Nvme => FileDigest::KnownCrc64(crc_of(&digest)),
                DigestAlgorithm::Blake3 => FileDigest::KnownBlake3(Box::new(digest)),
            };
        }
    }

    /// Forgets every piece of `entry`, a file of `layout`.
    pub fn forget(&mut self, layout: &Layout, entry: usize) {
        self.files[entry] = FileDigest::new(layout, layout.entries()[entry].len(), self.algorithm);
    }

    /// Marks a file whose source could not be read.
    pub fn fail(&mut self, entry: usize) {
        if let Some(file) = self.files.get_mut(entry) {
            *file = FileDigest::Failed;
        }
    }

    /// The digest of `entry`, once every piece of it is known and none failed.
    pub fn digest(&self, entry: usize) -> Option<Digest> {
        self.files.get(entry)?.known()
    }

    /// What to tell the receiver of each entry, when all that it lacked was sent.
    pub fn verdicts(&self) -> Vec<DigestVerdict> {
        (0..self.files.len()).map(|entry| self.verdict(entry)).collect()
    }

    /// What to tell of `entry`.
    pub fn verdict(&self, entry: usize) -> DigestVerdict {
        match &self.files[entry] {
            FileDigest::Failed => DigestVerdict::Unreadable,
            _ if self.algorithm.is_none() => DigestVerdict::Uncomputed,
            known => known.known().map_or(DigestVerdict::Part, DigestVerdict::Read),
        }
    }
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
            for round in 0..20 {
                let algorithm = DigestAlgorithm::ALL[round % 2];
                let mut order: Vec<u64> = (0..layout.block_count()).collect();
                for i in (1..order.len()).rev() {
                    order.swap(i, rng.below(i as u64 + 1) as usize);
                }
                let mut digests = Digests::new(&layout, Some(algorithm));
                // What is sent twice changes nothing.
                let again: Vec<u64> = order.iter().copied().filter(|_| rng.below(3) == 0).collect();
                for index in again.iter().copied().chain(order).chain(again.iter().copied()) {
                    let block = layout.block(index);
                    let piece = layout
                        .pieces(block.offset, block.len)
                        .next()
                        .expect("a block of a file has a piece");
                    let from = piece.file_offset as usize;
                    let digest = PieceDigest::of(
                        &layout,
                        &piece,
                        &content[from..from + piece.len],
                        algorithm,
                    );
                    digests.insert(&digest);
                }
                let expected = match algorithm {
                    DigestAlgorithm::Crc64Nvme => padded(crc_fast::crc64_nvme(&content)),
                    DigestAlgorithm::Blake3 => *blake3::hash(&content).as_bytes(),
                };
                assert_eq!(digests.digest(0), Some(expected), "{len} bytes, {algorithm}");
            }
        }
    }

    #[test]
    fn zeros_have_the_digests_that_a_look_at_them_gives() {
        let mut rng = Rng::new(4);
        for _ in 0..100 {
            // One piece, two, and several; some longer than what is hashed at once.
            let block_len = 1024 << rng.below(9);
            let len = rng.below(4 * block_len as u64) + 1;
            let layout = Layout::of_file(len, block_len);
            for index in 0..layout.block_count() {
                let block = layout.block(index);
                let piece = layout.pieces(block.offset, block.len).next().expect("of a file");
                for algorithm in DigestAlgorithm::ALL {
                    assert_eq!(
                        PieceDigest::of_zeros(&layout, &piece, algorithm),
                        PieceDigest::of(&layout, &piece, &vec![0; piece.len], algorithm),
                        "{algorithm} of block {index} of {len} zeros in blocks of {block_len}"
                    );
                }
            }
        }
        // Nobody looked at these.
        let layout = Layout::of_file(1 << 62, 1 << 40);
        let piece = Piece { entry: 0, file_offset: 0, block_offset: 0, len: 1 << 40 };
        let digest = PieceDigest::of_zeros(&layout, &piece, DigestAlgorithm::Crc64Nvme);
        assert_eq!(crc_of(digest.value()), crc64_with_zeros(0, 1 << 40));
    }

    #[test]
    fn a_file_of_a_large_tree_costs_two_words() {
        assert_eq!(size_of::<FileDigest>(), 16);
    }
}

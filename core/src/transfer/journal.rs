//! The journal of a partial transfer: records of what is durable, and their replay, which is
//! resume.
//!
//! `docs/protocol.md`, clauses. A record is its payload's length and CRC32C (4 bytes
//! each, big-endian) and the payload; reading ends at the first record that is cut or damaged, so a
//! write that a crash tore costs only what it would have said.

mod by_path;
mod other_blocks;
mod survey;

pub use survey::{Survey, Surveyed};

use super::digest::{DigestAlgorithm, Digests, PieceDigest};
use super::layout::{Entry, Layout};
use crate::units::ByteRanges;
use by_path::EntriesByPath;
use crc_fast::crc32_iscsi;
use other_blocks::ShorterBlocks;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The version of the records.
const VERSION: u8 = 1;
/// Bytes before each payload.
pub const HEAD_LEN: usize = 8;
/// The longest payload: what a reader must be ready to hold.
pub const MAX_PAYLOAD: usize = 256 * 1024;
/// Blocks that one record names at most.
const MAX_BLOCKS: usize = 4096;
/// The shortest block that is journaled: BLAKE3's chunk.
const LEAST_BLOCK: u64 = 1024;
/// The bytes of a block's value.
const VALUE: usize = 32;

const BEGIN: u8 = 1;
/// As Farline wrote it before it knew the time of a file's last change.
const FILE_UNCHANGED: u8 = 2;
const BLOCKS: u8 = 3;
const RANGES: u8 = 4;
const FORGET: u8 = 5;
const FILE: u8 = 6;
const LANDED: u8 = 7;

/// What a partial transfer is a part of, besides its place and its files (clause R-5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialOrigin {
    /// The source's identity.
    pub source: [u8; 32],
    /// What blocks are journaled with, if they are with anything: the values that this needs.
    pub digests: Option<DigestAlgorithm>,
}

/// How the record that begins a run names what blocks are journaled with.
fn number_of(digests: Option<DigestAlgorithm>) -> u8 {
    match digests {
        None => 0,
        Some(DigestAlgorithm::Blake3) => 1,
        Some(DigestAlgorithm::Crc64Nvme) => 2,
    }
}

/// Appends the record that begins a run.
pub fn begin(origin: &PartialOrigin, block_len: usize, to: &mut Vec<u8>) {
    let mut payload = vec![BEGIN, VERSION];
    payload.extend((block_len as u32).to_be_bytes());
    payload.push(number_of(origin.digests));
    payload.extend(origin.source);
    record(&payload, to);
}

/// What tells one state of a source file from another (clause R-5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileFacts {
    /// Its length in bytes.
    pub len: u64,
    /// When it was last written to, nanoseconds since the Unix epoch.
    pub modified_ns: i64,
    /// When it last changed in any way; 0 where nobody knows.
    pub changed_ns: i64,
}

impl FileFacts {
    /// Those of a listed file.
    pub fn of(entry: &Entry) -> FileFacts {
        let (modified_ns, changed_ns) = (entry.modified_ns, entry.changed_ns);
        FileFacts { len: entry.len(), modified_ns, changed_ns }
    }

    /// Reads those in a record of `kind` behind the file's number; returns also the path.
    fn parse(kind: u8, rest: &[u8]) -> Option<(FileFacts, &[u8])> {
        let (len, rest) = number::<8>(rest)?;
        let (modified, rest) = number::<8>(rest)?;
        let (changed, path) = if kind == FILE { number::<8>(rest)? } else { (0, rest) };
        Some((FileFacts { len, modified_ns: modified as i64, changed_ns: changed as i64 }, path))
    }
}

/// Appends the record that names a file, by its path below the place and its facts; later records
/// call it `number`.
pub fn file(number: u32, facts: &FileFacts, path: &[u8], to: &mut Vec<u8>) {
    let mut payload = vec![FILE];
    payload.extend(number.to_be_bytes());
    payload.extend(facts.len.to_be_bytes());
    payload.extend(facts.modified_ns.to_be_bytes());
    payload.extend(facts.changed_ns.to_be_bytes());
    payload.extend(path);
    record(&payload, to);
}

/// Appends the records of blocks of file `number` from `first` on, by their values.
pub fn blocks(number: u32, first: u64, values: &[[u8; VALUE]], to: &mut Vec<u8>) {
    for (i, part) in values.chunks(MAX_BLOCKS).enumerate() {
        let mut payload = vec![BLOCKS];
        payload.extend(number.to_be_bytes());
        payload.extend((first + (i * MAX_BLOCKS) as u64).to_be_bytes());
        payload.extend(part.as_flattened());
        record(&payload, to);
    }
}

/// Appends the records of ranges of file `number`.
pub fn ranges(number: u32, held: &ByteRanges, to: &mut Vec<u8>) {
    let all: Vec<Range<u64>> = held.iter().collect();
    for part in all.chunks(MAX_BLOCKS) {
        let mut payload = vec![RANGES];
        payload.extend(number.to_be_bytes());
        for range in part {
            payload.extend(range.start.to_be_bytes());
            payload.extend(range.end.to_be_bytes());
        }
        record(&payload, to);
    }
}

/// What tells a file that landed from any other under its name, and from itself after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LandedFile {
    /// Its inode number.
    pub inode: u64,
    /// When it last changed in any way, nanoseconds since the Unix epoch: when it took its name.
    pub changed_ns: i64,
}

/// Appends the record that file `number` has its final name.
pub fn landed(number: u32, file: &LandedFile, to: &mut Vec<u8>) {
    let mut payload = vec![LANDED];
    payload.extend(number.to_be_bytes());
    payload.extend(file.inode.to_be_bytes());
    payload.extend(file.changed_ns.to_be_bytes());
    record(&payload, to);
}

/// Reads one such record behind its kind.
fn parse_landed(rest: &[u8]) -> Option<(u32, LandedFile)> {
    let (number_of, rest) = number::<4>(rest)?;
    let (inode, rest) = number::<8>(rest)?;
    let (changed, []) = number::<8>(rest)? else { return None };
    Some((number_of as u32, LandedFile { inode, changed_ns: changed as i64 }))
}

/// Appends the record that takes back what earlier ones say of the file at `path`.
pub fn forget(path: &[u8], to: &mut Vec<u8>) {
    let mut payload = vec![FORGET];
    payload.extend(path);
    record(&payload, to);
}

fn record(payload: &[u8], to: &mut Vec<u8>) {
    to.extend((payload.len() as u32).to_be_bytes());
    to.extend(crc32_iscsi(payload).to_be_bytes());
    to.extend(payload);
}

/// The length of the payload behind `head`; `None` when no record begins so.
pub fn payload_len(head: &[u8; HEAD_LEN]) -> Option<usize> {
    let len = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
    (1..=MAX_PAYLOAD).contains(&len).then_some(len)
}

/// Reads a journal for the transfer that is to go on from it.
#[derive(Debug)]
pub struct Replay<'a> {
    layout: &'a Layout,
    origin: PartialOrigin,
    by_path: EntriesByPath,
    /// Journal numbers to entries of the layout; `None` where the file is not the same.
    numbers: BTreeMap<u32, Option<usize>>,
    /// Bytes of each block that the run which is read journaled; none before the first run.
    block_len: Option<u64>,
    matches: bool,
    held: BTreeMap<usize, ByteRanges>,
    landed: BTreeMap<usize, LandedFile>,
    digests: Digests,
    shorter: ShorterBlocks,
    paths: BTreeSet<Vec<u8>>,
    valid_len: u64,
}

/// What a journal says that the receiver holds.
#[derive(Debug)]
pub struct Recovered {
    /// Whether the journal is of the same transfer; if not, nothing is held.
    pub matches: bool,
    /// Bytes of each file, by entry.
    pub held: BTreeMap<usize, ByteRanges>,
    /// Files that have their final names, by entry.
    pub landed: BTreeMap<usize, LandedFile>,
    /// The digests of what is held.
    pub digests: Digests,
    /// Every file that a partial may be left of, by its path below the place.
    pub paths: BTreeSet<Vec<u8>>,
    /// Bytes of each block that its last run journaled; none where it says nothing.
    pub block_len: Option<u64>,
    /// Bytes of the journal that are good; the next record goes there.
    pub valid_len: u64,
}

impl<'a> Replay<'a> {
    /// A journal for the files of `layout` from `origin`, of which nothing is read yet. `prefix` is
    /// the path of the layout below the place that the journal is of (clause R-1).
    pub fn new(layout: &'a Layout, prefix: &[u8], origin: PartialOrigin) -> Replay<'a> {
        Replay {
            layout,
            origin,
            by_path: EntriesByPath::new(prefix),
            numbers: BTreeMap::new(),
            block_len: None,
            matches: false,
            held: BTreeMap::new(),
            landed: BTreeMap::new(),
            digests: Digests::new(layout, origin.digests),
            shorter: ShorterBlocks::default(),
            paths: BTreeSet::new(),
            valid_len: 0,
        }
    }

    /// Takes one record in; false when it is damaged or makes no sense here, and reading must end.
    pub fn record(&mut self, head: &[u8; HEAD_LEN], payload: &[u8]) -> bool {
        let sum = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
        if payload_len(head) != Some(payload.len()) || sum != crc32_iscsi(payload) {
            return false;
        }
        let understood = self.understand(payload).is_some();
        if understood {
            self.valid_len += (HEAD_LEN + payload.len()) as u64;
        }
        understood
    }

    /// Takes a whole journal in, as far as it is good.
    pub fn all(&mut self, mut journal: &[u8]) {
        while let Some((head, rest)) = journal.split_first_chunk::<HEAD_LEN>() {
            let Some(payload) = payload_len(head).and_then(|len| rest.get(..len)) else { return };
            if !self.record(head, payload) {
                return;
            }
            journal = &rest[payload.len()..];
        }
    }

    /// What the journal said.
    pub fn finish(self) -> Recovered {
        let Replay { matches, mut held, mut landed, mut digests, paths, .. } = self;
        let Replay { block_len, valid_len, .. } = self;
        if !matches {
            held.clear();
            landed.clear();
            digests = Digests::new(self.layout, self.origin.digests);
        }
        Recovered { matches, held, landed, digests, paths, block_len, valid_len }
    }

    fn understand(&mut self, payload: &[u8]) -> Option<()> {
        let (&kind, rest) = payload.split_first()?;
        if kind != BEGIN && self.block_len.is_none() {
            return None;
        }
        match kind {
            BEGIN => {
                let (version, rest) = rest.split_first()?;
                let (block_len, rest) = number::<4>(rest)?;
                let (&digests, source) = rest.split_first()?;
                let source: [u8; 32] = source.try_into().ok()?;
                let same = *version == VERSION
                    && block_len.is_power_of_two()
                    && block_len >= LEAST_BLOCK
                    && source == self.origin.source
                    && digests == number_of(self.origin.digests);
                // A second run of the same transfer begins no new one.
                self.matches = same && (self.matches || self.block_len.is_none());
                self.block_len = Some(block_len);
            }
            FILE | FILE_UNCHANGED => {
                let (number_of, rest) = number::<4>(rest)?;
                let (facts, path) = FileFacts::parse(kind, rest)?;
                let entry = self.by_path.find(self.layout, path).filter(|&entry| {
                    self.matches && FileFacts::of(&self.layout.entries()[entry]) == facts
                });
                // The same name with other facts: what was said of the file before is of another
                // one.
                if entry.is_none() {
                    self.drop_path(path);
                }
                self.paths.insert(path.to_vec());
                self.numbers.insert(number_of as u32, entry);
            }
            BLOCKS => {
                let (number_of, rest) = number::<4>(rest)?;
                let (first, values) = number::<8>(rest)?;
                let (values, []) = values.as_chunks::<VALUE>() else { return None };
                let entry = *self.numbers.get(&(number_of as u32))?;
                let (Some(entry), Some(algorithm)) = (entry, self.origin.digests) else {
                    return Some(());
                };
                let (len, block) = (self.layout.entries()[entry].len(), self.block_len?);
                let is_same = block == self.layout.block_len() as u64;
                for (i, value) in (0u64..).zip(values) {
                    let index = first.checked_add(i)?;
                    let start = index.checked_mul(block).filter(|start| *start < len)?;
                    let range = start..start.saturating_add(block).min(len);
                    let known = match is_same {
                        true => {
                            let piece = PieceDigest::known(self.layout, entry, index, *value);
                            self.digests.insert(&piece);
                            Some(range)
                        }
                        false => {
                            let known = (self.layout, &mut self.digests);
                            self.shorter.take(known, algorithm, (entry, block, range), *value)
                        }
                    };
                    if let Some(range) = known {
                        self.held.entry(entry).or_default().insert(range);
                    }
                }
            }
            RANGES => {
                let (number_of, pairs) = number::<4>(rest)?;
                let (pairs, []) = pairs.as_chunks::<16>() else { return None };
                let entry = *self.numbers.get(&(number_of as u32))?;
                let (Some(entry), false) = (entry, self.origin.digests.is_some()) else {
                    return Some(());
                };
                for pair in pairs {
                    let ((start, end), len) = (
                        (number::<8>(&pair[..8])?.0, number::<8>(&pair[8..])?.0),
                        self.layout.entries()[entry].len(),
                    );
                    if start >= end || end > len {
                        return None;
                    }
                    self.held.entry(entry).or_default().insert(start..end);
                }
            }
            LANDED => {
                let (number_of, file) = parse_landed(rest)?;
                let entry = *self.numbers.get(&number_of)?;
                entry.map(|entry| self.landed.insert(entry, file));
            }
            FORGET => self.drop_path(rest),
            _ => return None,
        }
        Some(())
    }

    fn drop_path(&mut self, path: &[u8]) {
        self.paths.remove(path);
        if let Some(entry) = self.by_path.find(self.layout, path) {
            self.held.remove(&entry);
            self.landed.remove(&entry);
            self.digests.forget(self.layout, entry);
            self.shorter.forget(entry);
            self.numbers.values_mut().filter(|of| **of == Some(entry)).for_each(|of| *of = None);
        }
    }
}

impl Recovered {
    /// Takes back what is said of `entry`: its partial is not there.
    pub fn drop_entry(&mut self, layout: &Layout, entry: usize) {
        self.held.remove(&entry);
        self.landed.remove(&entry);
        self.digests.forget(layout, entry);
    }

    /// The blocks of the space that are held whole (clause R-6); what is held of others is as good
    /// as not.
    pub fn blocks(&self, layout: &Layout) -> ByteRanges {
        let mut whole = ByteRanges::new();
        if self.held.is_empty() {
            return whole;
        }
        for block in (0..layout.block_count()).map(|index| layout.block(index)) {
            let held = |entry, range: Range<u64>| {
                self.held.get(&entry).is_some_and(|held| held.contains(&range))
            };
            if layout.pieces(block.offset, block.len).all(|piece| {
                held(piece.entry, piece.file_offset..piece.file_offset + piece.len as u64)
            }) {
                whole.insert(block.range());
            }
        }
        whole
    }
}

/// `prefix/path`, either of which may be empty.
pub fn below(prefix: &[u8], path: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if prefix.is_empty() || path.is_empty() { b"" } else { b"/" };
    [prefix, slash, path].concat()
}

/// The big-endian number of `N` bytes at the front.
fn number<const N: usize>(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (first, rest) = bytes.split_first_chunk::<N>()?;
    Some((first.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::layout::EntryKind;
    use proptest::prelude::*;

    const BLOCK: usize = 1024;

    fn layout(files: &[(&str, u64, i64)]) -> Layout {
        let entry = |&(path, len, modified_ns): &(&str, u64, i64)| Entry {
            path: path.as_bytes().to_vec(),
            kind: EntryKind::File { len },
            mode: 0o644,
            modified_ns,
            changed_ns: 9,
            attributes: None,
        };
        Layout::new(files.iter().map(entry).collect(), BLOCK)
    }

    fn facts(len: u64, modified_ns: i64) -> FileFacts {
        FileFacts { len, modified_ns, changed_ns: 9 }
    }

    fn origin(digests: bool) -> PartialOrigin {
        PartialOrigin { source: [5; 32], digests: digests.then_some(DigestAlgorithm::Blake3) }
    }

    #[test]
    fn a_file_that_only_changed_its_ctime_starts_again() {
        let mut journal = Vec::new();
        begin(&origin(true), BLOCK, &mut journal);
        file(0, &facts(5000, 1), b"a", &mut journal);
        blocks(0, 0, &[[1; 32]; 3], &mut journal);
        let same = layout(&[("a", 5000, 1)]);
        assert_eq!(replay(&same, origin(true), &journal).held.len(), 1);
        let mut entries = same.entries().to_vec();
        entries[0].changed_ns += 1;
        let changed = replay(&Layout::new(entries, BLOCK), origin(true), &journal);
        assert!(changed.held.is_empty() && changed.paths.contains(&b"a"[..]), "{changed:?}");
        // Of what an earlier Farline wrote nobody knows.
        let mut payload = vec![FILE_UNCHANGED, 0, 0, 0, 0];
        payload.extend(5000u64.to_be_bytes());
        payload.extend(1i64.to_be_bytes());
        payload.push(b'a');
        let mut earlier = Vec::new();
        begin(&origin(true), BLOCK, &mut earlier);
        record(&payload, &mut earlier);
        blocks(0, 0, &[[1; 32]; 3], &mut earlier);
        let unknown = replay(&same, origin(true), &earlier);
        assert!(unknown.held.is_empty() && unknown.paths.contains(&b"a"[..]), "{unknown:?}");
        assert_eq!(unknown.valid_len, earlier.len() as u64);
    }

    fn replay(layout: &Layout, origin: PartialOrigin, journal: &[u8]) -> Recovered {
        let mut replay = Replay::new(layout, b"", origin);
        replay.all(journal);
        replay.finish()
    }

    #[test]
    fn the_journal_replays_for_its_own_source_and_file_only() {
        let before = layout(&[("a", 5000, 1), ("b", 10, 2)]);
        let mut journal = Vec::new();
        begin(&origin(true), BLOCK, &mut journal);
        file(0, &facts(5000, 1), b"a", &mut journal);
        file(1, &facts(10, 2), b"b", &mut journal);
        blocks(0, 1, &[[1; 32], [2; 32]], &mut journal);
        blocks(1, 0, &[[3; 32]], &mut journal);
        let back = replay(&before, origin(true), &journal);
        assert!(back.matches && back.valid_len == journal.len() as u64);
        assert_eq!(back.held[&0].to_string(), "1024-3072");
        assert_eq!(back.digests.digest(1), Some([3; 32]));
        assert_eq!(
            back.blocks(&before).to_string(),
            "1024-3072",
            "the block that a's end and b share is held in part"
        );
        let changed = replay(&layout(&[("a", 5000, 9), ("b", 10, 2)]), origin(true), &journal);
        assert_eq!((changed.held.get(&0), changed.held[&1].to_string()), (None, "0-10".to_owned()));
        assert!(changed.paths.contains(&b"a"[..]), "its stale partial can be found");
        let crc = PartialOrigin { digests: Some(DigestAlgorithm::Crc64Nvme), ..origin(true) };
        for other in [origin(false), crc, PartialOrigin { source: [6; 32], ..origin(true) }] {
            let other = replay(&before, other, &journal);
            assert!(!other.matches && other.held.is_empty() && other.paths.len() == 2);
        }
        forget(b"a", &mut journal);
        assert_eq!(replay(&before, origin(true), &journal).held.keys().collect::<Vec<_>>(), [&1]);
    }

    #[test]
    fn what_landed_is_told_until_it_is_another_file() {
        let file_at = |changed_ns| LandedFile { inode: 77, changed_ns };
        let layout = layout(&[("a", 5000, 1), ("b", 10, 2)]);
        let mut journal = Vec::new();
        begin(&origin(true), BLOCK, &mut journal);
        file(3, &facts(5000, 1), b"a", &mut journal);
        file(4, &facts(10, 2), b"b", &mut journal);
        landed(3, &file_at(-5), &mut journal);
        landed(4, &file_at(6), &mut journal);
        let back = replay(&layout, origin(true), &journal);
        assert_eq!(back.landed, BTreeMap::from([(0, file_at(-5)), (1, file_at(6))]));
        assert!(replay(&layout, origin(false), &journal).landed.is_empty(), "another transfer");
        forget(b"b", &mut journal);
        file(5, &facts(5000, 9), b"a", &mut journal);
        assert!(replay(&layout, origin(true), &journal).landed.is_empty());
    }

    #[test]
    fn ranges_are_replayed_where_no_digests_are_kept() {
        let layout = layout(&[("a", 5000, 1)]);
        let mut held = ByteRanges::new();
        held.insert(3..50);
        held.insert(100..5000);
        let mut journal = Vec::new();
        begin(&origin(false), BLOCK, &mut journal);
        file(0, &facts(5000, 1), b"a", &mut journal);
        ranges(0, &held, &mut journal);
        assert_eq!(replay(&layout, origin(false), &journal).held[&0], held);
    }

    proptest! {
        #[test]
        fn a_torn_or_flipped_journal_says_less_and_nothing_else(cut in 0usize..400, flip in 0usize..3200, flips in any::<bool>()) {
            let layout = layout(&[("a", 5000, 1)]);
            let mut journal = Vec::new();
            begin(&origin(true), BLOCK, &mut journal);
            file(0, &facts(5000, 1), b"a", &mut journal);
            for index in 0..5 {
                blocks(0, index, &[[index as u8; 32]], &mut journal);
            }
            let whole = replay(&layout, origin(true), &journal).held[&0].total();
            prop_assert_eq!(whole, 5000);
            if flips {
                let bit = flip % (journal.len() * 8);
                journal[bit / 8] ^= 1 << (bit % 8);
            } else {
                journal.truncate(cut);
            }
            let back = replay(&layout, origin(true), &journal);
            prop_assert!(back.valid_len <= journal.len() as u64);
            for range in back.held.get(&0).into_iter().flat_map(ByteRanges::iter) {
                prop_assert!(range.start % 1024 == 0 && range.end <= 5000);
            }
            // Writing goes on behind what is good.
            journal.truncate(back.valid_len as usize);
            let before = back.held.get(&0).map_or(0, ByteRanges::total);
            if before > 0 {
                blocks(0, 4, &[[4; 32]], &mut journal);
                prop_assert!(replay(&layout, origin(true), &journal).held[&0].total() >= before);
            }
        }

        #[test]
        fn any_bytes_replay_without_panic(kind in 0u8..8, bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            let layout = layout(&[("a", 5000, 1)]);
            let mut journal = Vec::new();
            begin(&origin(true), BLOCK, &mut journal);
            file(0, &facts(5000, 1), b"a", &mut journal);
            let mut payload = vec![kind];
            payload.extend(&bytes);
            record(&payload, &mut journal);
            journal.extend(bytes);
            let _ = replay(&layout, origin(true), &journal);
        }
    }
}

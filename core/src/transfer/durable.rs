//! What a receiver has written, what of it is durable, and what its journal must say next.
//!
//! A piece is noted with its value when it arrives, written when the store has it, and durable when
//! the store says so of a batch. Only then do its records exist (`docs/protocol.md`, clause R-4):
//! the order is in the types, a [`Batch`] must be settled for its records.

mod noted;

use super::digest::PieceDigest;
use super::journal::{self, PartialOrigin};
use super::layout::Layout;
use crate::units::ByteRanges;
use noted::NotedPieces;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// The account of one transfer's pieces at the receiver.
#[derive(Debug)]
pub struct Durability {
    layout: Arc<Layout>,
    /// The path of the layout below the journal's place.
    prefix: Vec<u8>,
    origin: PartialOrigin,
    noted: NotedPieces,
    written: Pieces,
    /// Entries whose names the journal has from this run.
    named: EntrySet,
    begun: bool,
    /// Bytes of the space.
    durable: ByteRanges,
}

/// Entries, a bit each: in the end all of millions.
#[derive(Debug, Default)]
struct EntrySet(Vec<u64>);

impl EntrySet {
    /// Returns whether it was not there.
    fn insert(&mut self, entry: usize) -> bool {
        let (word, bit) = (entry / 64, 1 << (entry % 64));
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        let was_there = self.0[word] & bit != 0;
        self.0[word] |= bit;
        !was_there
    }
}

/// The value of a piece in two words: what is staged of files of some bytes each has many of them.
#[derive(Debug)]
enum PieceValue {
    /// Zeros follow: a CRC.
    Short([u8; 8]),
    Long(Box<[u8; 32]>),
}

impl PieceValue {
    /// Of `value` what follows in 32 bytes are zeros.
    fn new(value: &[u8]) -> PieceValue {
        match value.split_first_chunk() {
            Some((short, rest)) if rest.iter().all(|&byte| byte == 0) => PieceValue::Short(*short),
            _ => {
                let mut bytes = Box::new([0; 32]);
                bytes[..value.len()].copy_from_slice(value);
                PieceValue::Long(bytes)
            }
        }
    }

    fn bytes(&self) -> [u8; 32] {
        match self {
            PieceValue::Short(short) => {
                let mut bytes = [0; 32];
                bytes[..short.len()].copy_from_slice(short);
                bytes
            }
            PieceValue::Long(bytes) => **bytes,
        }
    }
}

#[derive(Debug, Default)]
struct Pieces {
    values: Vec<(usize, u64, PieceValue)>,
    ranges: BTreeMap<usize, ByteRanges>,
}

/// Pieces that were written and are to be made durable together.
#[derive(Debug)]
#[must_use = "what is in it is journaled only when it is settled"]
pub struct Batch {
    pieces: Pieces,
    entries: BTreeSet<usize>,
}

impl Batch {
    /// The files to make durable, by entry.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.entries.iter().copied()
    }
}

impl Durability {
    /// Nothing written; `held` of the space is durable from before. `begun` says whether the
    /// journal has this origin's beginning.
    pub fn new(
        layout: Arc<Layout>,
        prefix: Vec<u8>,
        origin: PartialOrigin,
        held: ByteRanges,
        begun: bool,
    ) -> Durability {
        let (noted, written, named) =
            (NotedPieces::default(), Pieces::default(), EntrySet::default());
        Durability { layout, prefix, origin, noted, written, named, begun, durable: held }
    }

    /// The pieces of a block, in their order, arrived and were found good; their writing follows.
    pub fn record(&mut self, block: &[PieceDigest]) {
        if self.origin.digests.is_some() {
            self.noted.insert(block);
        }
    }

    /// Bytes of a file are in the store.
    pub fn wrote(&mut self, entry: usize, range: Range<u64>) {
        if self.origin.digests.is_none() {
            self.written.ranges.entry(entry).or_default().insert(range);
            return;
        }
        let index = range.start / self.layout.block_len() as u64;
        // A piece without a value cannot be journaled: it is sent again after a crash.
        if let Some(value) = self.noted.take(entry, index) {
            self.written.values.push((entry, index, value));
        }
    }

    /// What has been written since the last batch; `None` when nothing was.
    pub fn batch(&mut self) -> Option<Batch> {
        let pieces = std::mem::take(&mut self.written);
        let entries: BTreeSet<usize> = pieces
            .values
            .iter()
            .map(|&(entry, ..)| entry)
            .chain(pieces.ranges.keys().copied())
            .collect();
        (!entries.is_empty()).then_some(Batch { pieces, entries })
    }

    /// The batch's files are durable: returns the records to append to the journal, and the
    /// files of the batch that are durable whole by now, each block as its sender read it.
    pub fn commit(&mut self, batch: Batch) -> (Vec<u8>, Vec<usize>) {
        let Batch { mut pieces, entries } = batch;
        let mut records = Vec::new();
        if !std::mem::replace(&mut self.begun, true) {
            journal::begin(&self.origin, self.layout.block_len(), &mut records);
        }
        for &entry in &entries {
            if self.named.insert(entry) {
                let item = &self.layout.entries()[entry];
                let path = journal::below(&self.prefix, &item.path);
                journal::file(entry as u32, &journal::FileFacts::of(item), &path, &mut records);
            }
        }
        pieces.values.sort_unstable_by_key(|&(entry, index, _)| (entry, index));
        let block = self.layout.block_len() as u64;
        for run in pieces.values.chunk_by(|a, b| a.0 == b.0 && a.1 + 1 == b.1) {
            let (entry, first) = (run[0].0, run[0].1);
            let values: Vec<[u8; 32]> = run.iter().map(|(.., value)| value.bytes()).collect();
            journal::blocks(entry as u32, first, &values, &mut records);
            let end = (first + run.len() as u64)
                .saturating_mul(block)
                .min(self.layout.entries()[entry].len());
            self.mark(entry, first * block..end);
        }
        for (entry, held) in &pieces.ranges {
            journal::ranges(*entry as u32, held, &mut records);
            held.iter().for_each(|range| self.mark(*entry, range));
        }
        // Only a block's value says that it is as it was read.
        let whole = entries
            .into_iter()
            .filter(|&entry| self.origin.digests.is_some() && self.is_whole(entry));
        let whole = whole.collect();
        (records, whole)
    }

    fn is_whole(&self, entry: usize) -> bool {
        let len = self.layout.entries()[entry].len();
        let start = self.layout.start_of(entry);
        start.is_some_and(|start| self.durable.contains(&(start..start.saturating_add(len))))
    }

    /// Bytes of the space that are durable and journaled, once the records of the last batch are.
    pub fn durable(&self) -> &ByteRanges {
        &self.durable
    }

    fn mark(&mut self, entry: usize, range: Range<u64>) {
        if let Some(start) = self.layout.start_of(entry) {
            self.durable.insert(start.saturating_add(range.start)..start.saturating_add(range.end));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::journal::Replay;
    use crate::transfer::{DigestAlgorithm, Entry, EntryKind};
    use crate::units::Rng;

    #[test]
    fn only_settled_pieces_are_journaled_and_each_once() {
        let layout = Arc::new(Layout::of_file(5000, 1024));
        let origin = PartialOrigin { source: [1; 32], digests: Some(DigestAlgorithm::Blake3) };
        let mut account =
            Durability::new(Arc::clone(&layout), Vec::new(), origin, ByteRanges::new(), false);
        for index in 0..4 {
            account.record(&[PieceDigest::known(&layout, 0, index, [index as u8; 32])]);
        }
        account.wrote(0, 1024..2048);
        account.wrote(0, 0..1024);
        account.wrote(0, 4096..5000);
        let batch = account.batch().expect("two pieces");
        account.wrote(0, 3072..4096);
        assert!(account.durable().is_empty(), "a batch is only a plan");
        let (journal, whole) = account.commit(batch);
        assert!(whole.is_empty(), "two blocks are missing");
        let mut replay = Replay::new(&layout, b"", origin);
        replay.all(&journal);
        let held = replay.finish().held.remove(&0).expect("held");
        assert_eq!(held.to_string(), "0-2048", "what had no value is not held");
        assert_eq!(account.durable(), &held);
        let batch = account.batch().expect("one more");
        let _ = account.commit(batch);
        assert_eq!(account.durable().to_string(), "0-2048,3072-4096");
        assert!(account.batch().is_none());
    }

    #[test]
    fn a_file_is_whole_when_its_last_block_is_durable() {
        let entry = |path: &str| Entry {
            path: path.as_bytes().to_vec(),
            kind: EntryKind::File { len: 1500 },
            mode: 0o644,
            modified_ns: 1,
            changed_ns: 1,
            attributes: None,
        };
        let layout = Arc::new(Layout::new(vec![entry("a"), entry("b")], 1024));
        let account = |digests: bool, held| {
            let digests = digests.then_some(DigestAlgorithm::Crc64Nvme);
            let origin = PartialOrigin { source: [1; 32], digests };
            Durability::new(Arc::clone(&layout), Vec::new(), origin, held, false)
        };
        let mut rng = Rng::new(5);
        for _ in 0..100 {
            let mut account = account(true, ByteRanges::new());
            let mut pieces = vec![(0, 0), (0, 1), (1, 0), (1, 1)];
            let mut left = [2, 2];
            while !pieces.is_empty() {
                let (entry, index) = pieces.swap_remove(rng.below(pieces.len() as u64) as usize);
                account.record(&[PieceDigest::known(&layout, entry, index, [7; 32])]);
                account.wrote(entry, index * 1024..1500.min(index * 1024 + 1024));
                left[entry] -= 1;
                let batch = account.batch().expect("a piece");
                let expected: &[usize] = if left[entry] == 0 { &[entry] } else { &[] };
                assert_eq!(account.commit(batch).1, expected);
            }
        }
        // The rest of one that an earlier run began.
        let start = layout.start_of(1).expect("it has bytes");
        let mut resumed =
            account(true, ByteRanges::from_iter(std::iter::once(start..start + 1024)));
        resumed.record(&[PieceDigest::known(&layout, 1, 1, [7; 32])]);
        resumed.wrote(1, 1024..1500);
        let batch = resumed.batch().expect("a piece");
        assert_eq!(resumed.commit(batch).1, [1]);
        let mut unchecked = account(false, ByteRanges::new());
        unchecked.wrote(0, 0..1500);
        let batch = unchecked.batch().expect("a file");
        assert!(unchecked.commit(batch).1.is_empty(), "nobody said what was read");
    }
}

//! Where each file of a tree lies in the space of bytes that a transfer moves.
//!
//! A file that is longer than a block starts on a block boundary, so that its blocks are aligned
//! parts of it and their digests join into the file's own. A shorter file goes into what is left of
//! the current block when it fits, else into the next block: no short file crosses a boundary. What
//! is skipped belongs to no file and is never sent.

use super::attributes::Attributes;
use crate::units::{ByteRanges, Bytes};
use std::ops::Range;
use std::sync::Arc;

/// One thing of a tree: a file, a directory or a symbolic link, with the metadata that travels with
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The path below the tree's root, `/`-separated, without `.`, `..` or a leading `/`; empty for
    /// the root itself.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: EntryKind,
    /// Permission bits (`0o7777` at most).
    pub mode: u32,
    /// Modification time, nanoseconds since the Unix epoch.
    pub modified_ns: i64,
    /// When content or inode last changed (ctime), nanoseconds since the Unix epoch: unlike the
    /// modification time nobody can put it back. 0 where nobody knows.
    pub changed_ns: i64,
    /// What else of it travels, where that is asked for.
    pub attributes: Option<Box<Attributes>>,
}

/// What an [`Entry`] is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A directory.
    Directory,
    /// A regular file of `len` bytes.
    File {
        /// Its length in bytes.
        len: u64,
    },
    /// A file that stands at the destination when all others have landed: it gets this name too,
    /// or, where that is its name, stays.
    There {
        /// Its path below the tree's root.
        at: Box<[u8]>,
    },
    /// A symbolic link.
    Symlink {
        /// The text of the link.
        target: Box<[u8]>,
    },
}

impl Entry {
    /// Bytes of the space that this entry takes: its length for a file, else none.
    pub fn len(&self) -> u64 {
        match self.kind {
            EntryKind::File { len } => len,
            EntryKind::Directory | EntryKind::Symlink { .. } | EntryKind::There { .. } => 0,
        }
    }

    /// Whether it takes no bytes of the space.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A contiguous run of the space: the unit of staging, sending and checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Where it starts in the space.
    pub offset: u64,
    /// How many bytes it has.
    pub len: usize,
}

impl Block {
    /// The bytes of the space that it covers.
    pub fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.len as u64
    }
}

/// The part of one file that lies in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The entry, by its place in the layout.
    pub entry: usize,
    /// Where in the file the piece starts.
    pub file_offset: u64,
    /// Where in the block the piece starts.
    pub block_offset: usize,
    /// Bytes in the piece.
    pub len: usize,
}

/// The longest block, in bytes: what a slot of a staging pool holds.
pub const LONGEST_BLOCK: usize = 1 << 20;
/// The shortest block of a tree, in bytes: below this headers and system calls would cost more than
/// an even end wins.
pub const SHORTEST_BLOCK: usize = 64 << 10;
/// So many blocks a tree has at least, while they need not be shorter than the shortest: four for
/// each of the most channels that a transfer opens, so that none waits long for the last ones.
const LEAST_BLOCKS: u64 = 64;

/// The length of the blocks of a tree with `payload` bytes, where `most` is agreed
/// (`docs/protocol.md`, clause T-12): a power of two.
pub(super) fn block_len(payload: u64, most: Bytes) -> usize {
    let most = most.0.clamp(SHORTEST_BLOCK as u64, LONGEST_BLOCK as u64);
    let wanted = most.min(payload / LEAST_BLOCKS).max(SHORTEST_BLOCK as u64);
    1 << wanted.ilog2()
}

/// A tree laid out in one space of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    entries: Vec<Entry>,
    /// The files that are not empty, by their entries: of fewer than 2^32, for a manifest has its
    /// end before.
    files: Vec<u32>,
    /// Where what lies before it ends, of each [`APART`]th of them: of millions the others are
    /// found from there.
    marks: Vec<u64>,
    end: u64,
    block_len: usize,
    payload: u64,
}

/// Files from one mark to the next.
const APART: usize = 16;

/// Where a file of `len` bytes starts behind what ends at `cursor`, in blocks of `block` bytes.
fn start_behind(cursor: u64, len: u64, block: u64) -> u64 {
    let left = block - cursor % block;
    match !cursor.is_multiple_of(block) && len > left {
        true => cursor.saturating_add(left),
        false => cursor,
    }
}

impl Layout {
    /// Lays `entries` out in blocks of `block_len` bytes, a power of two of at least 1 KiB
    /// (BLAKE3's chunk).
    ///
    /// Both ends compute the same layout from the same manifest.
    ///
    /// # Panics
    /// When `block_len` is not such a power of two: a constant of the caller, never a peer's word.
    pub fn new(entries: Vec<Entry>, block_len: usize) -> Layout {
        assert!(
            block_len.is_power_of_two() && block_len >= 1024,
            "a block is a power of two of at least 1 KiB"
        );
        let block = block_len as u64;
        let (mut cursor, mut payload) = (0u64, 0u64);
        let (mut files, mut marks) = (Vec::new(), Vec::new());
        for (index, entry) in (0..).zip(&entries).filter(|(_, entry)| !entry.is_empty()) {
            if files.len() % APART == 0 {
                marks.push(cursor);
            }
            files.push(index);
            cursor = start_behind(cursor, entry.len(), block).saturating_add(entry.len());
            payload = payload.saturating_add(entry.len());
        }
        Layout { entries, files, marks, end: cursor, block_len, payload }
    }

    /// Lays `entries` out in blocks as long as clause T-12 has it; 1 MiB where no `most` is agreed.
    pub fn within(entries: Vec<Entry>, most: Option<Bytes>) -> Layout {
        let payload = entries.iter().map(Entry::len).fold(0, u64::saturating_add);
        Layout::new(entries, most.map_or(LONGEST_BLOCK, |most| block_len(payload, most)))
    }

    /// A layout of one file of `len` bytes: what a plain `STOR` or `RETR` moves.
    pub fn of_file(len: u64, block_len: usize) -> Layout {
        let entry = Entry {
            path: Vec::new(),
            kind: EntryKind::File { len },
            mode: 0o644,
            modified_ns: 0,
            changed_ns: 0,
            attributes: None,
        };
        Layout::new(vec![entry], block_len)
    }

    /// Every entry, in the manifest's order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// How many of them are regular files.
    pub fn files(&self) -> u64 {
        let is_file = |entry: &&Entry| matches!(entry.kind, EntryKind::File { .. });
        self.entries.iter().filter(is_file).count() as u64
    }

    /// Bytes in a full block.
    pub fn block_len(&self) -> usize {
        self.block_len
    }

    /// Bytes of all files together: what travels, without the skipped parts of the space.
    pub fn payload(&self) -> u64 {
        self.payload
    }

    /// How many blocks there are, the last perhaps short.
    pub fn block_count(&self) -> u64 {
        self.end.div_ceil(self.block_len as u64)
    }

    /// Block `index`; every block from 0 to [`Self::block_count`] has at least one byte.
    pub fn block(&self, index: u64) -> Block {
        let offset = index * self.block_len as u64;
        let limit = offset + self.block_len as u64;
        let mark = self.marks.partition_point(|&end| end < limit).saturating_sub(1);
        let last = self.files_from(mark).take_while(|file| file.start < limit).last();
        let before = self.marks.get(mark).copied();
        let used = last.map(|file| file.end).or(before).map_or(offset, |end| end.min(limit));
        Block { offset, len: (used.saturating_sub(offset)) as usize }
    }

    /// Where `entry` starts in the space; `None` when it takes no bytes.
    pub fn start_of(&self, entry: usize) -> Option<u64> {
        // Entries lie in the space in their order.
        let at = self.files.binary_search(&u32::try_from(entry).ok()?).ok()?;
        self.files_from(at / APART).nth(at % APART).map(|file| file.start)
    }

    /// The files that are not empty from a mark on, in their order.
    fn files_from(&self, mark: usize) -> impl Iterator<Item = PlacedFile> + '_ {
        let mut cursor = self.marks.get(mark).copied().unwrap_or(self.end);
        self.files.iter().skip(mark.saturating_mul(APART)).map(move |&entry| {
            let entry = entry as usize;
            let len = self.entries[entry].len();
            let start = start_behind(cursor, len, self.block_len as u64);
            cursor = start.saturating_add(len);
            PlacedFile { start, end: cursor, entry }
        })
    }

    /// Whether `block` is one of the layout's own blocks, whole.
    pub fn is_block(&self, block: &Block) -> bool {
        let index = block.offset / self.block_len as u64;
        block.len > 0 && index < self.block_count() && self.block(index) == *block
    }

    /// The pieces of files in the bytes `offset..offset + len` of the space, ascending; skipped
    /// parts yield nothing.
    pub fn pieces(&self, offset: u64, len: usize) -> impl Iterator<Item = Piece> + '_ {
        let end = offset.saturating_add(len as u64);
        let mark = self.marks.partition_point(|&before| before <= offset).saturating_sub(1);
        self.files_from(mark).take_while(move |file| file.start < end).filter_map(move |file| {
            let (from, to) = (file.start.max(offset), file.end.min(end));
            (from < to).then(|| Piece {
                entry: file.entry,
                file_offset: from - file.start,
                block_offset: (from - offset) as usize,
                len: (to - from) as usize,
            })
        })
    }

    /// The blocks that a receiver which holds `held` of the space lacks, whole or in parts, in
    /// order.
    pub fn blocks_without(
        self: &Arc<Layout>,
        held: &ByteRanges,
    ) -> impl Iterator<Item = Block> + Send + use<> {
        let (layout, held) = (Arc::clone(self), held.clone());
        (0..layout.block_count()).flat_map(move |index| {
            let gaps = held.gaps(layout.block(index).range());
            gaps.into_iter()
                .map(|gap| Block { offset: gap.start, len: (gap.end - gap.start) as usize })
        })
    }
}

/// Where a file lies in the space.
struct PlacedFile {
    start: u64,
    end: u64,
    entry: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn files(lens: &[u64]) -> Vec<Entry> {
        let entry = |(i, &len): (usize, &u64)| Entry {
            path: format!("f{i}").into_bytes(),
            kind: EntryKind::File { len },
            mode: 0o644,
            modified_ns: 0,
            changed_ns: 0,
            attributes: None,
        };
        lens.iter().enumerate().map(entry).collect()
    }

    #[test]
    fn small_files_share_a_block_and_large_ones_start_one() {
        let layout = Layout::new(files(&[100, 0, 900, 200, 5000]), 1024);
        assert_eq!(layout.block(0), Block { offset: 0, len: 1000 });
        assert_eq!(layout.block(1), Block { offset: 1024, len: 200 });
        assert_eq!(layout.block(2), Block { offset: 2048, len: 1024 });
        assert_eq!(layout.block_count(), 2 + 5);
        let pieces: Vec<_> = layout.pieces(0, 1000).collect();
        assert_eq!(pieces[0], Piece { entry: 0, file_offset: 0, block_offset: 0, len: 100 });
        assert_eq!(pieces[1], Piece { entry: 2, file_offset: 0, block_offset: 100, len: 900 });
    }

    #[test]
    fn blocks_shrink_with_the_tree_and_no_further() {
        let len = |payload| block_len(payload, Bytes::mib(1)) >> 10;
        assert_eq!([0, 1 << 20, 4 << 20, 10 << 20].map(len), [64, 64, 64, 128]);
        assert_eq!([63 << 20, 64 << 20, 1 << 40, u64::MAX].map(len), [512, 1024, 1024, 1024]);
        assert_eq!(block_len(1 << 40, Bytes(200_000)), 128 << 10, "a power of two");
        assert_eq!(
            (block_len(1 << 40, Bytes(0)), block_len(1 << 40, Bytes::mib(9))),
            (64 << 10, 1 << 20)
        );
    }

    #[test]
    fn an_empty_tree_has_no_blocks() {
        let layout = Layout::new(files(&[0, 0]), 1024);
        assert_eq!((layout.block_count(), layout.payload()), (0, 0));
        assert_eq!(layout.pieces(0, 10).count(), 0);
    }

    proptest! {
        #[test]
        fn blocks_carry_every_byte_of_every_file_once(lens in prop::collection::vec(prop_oneof![Just(0u64), 0u64..300, 0u64..9000], 0..90)) {
            let layout = Layout::new(files(&lens), 1024);
            let mut seen: Vec<Vec<u8>> = lens.iter().map(|&len| vec![0; len as usize]).collect();
            for index in 0..layout.block_count() {
                let block = layout.block(index);
                prop_assert!(block.len > 0 && block.len <= 1024);
                let mut at = 0;
                for piece in layout.pieces(block.offset, block.len) {
                    prop_assert_eq!(piece.block_offset, at, "a block has no holes");
                    at += piece.len;
                    let whole = piece.len as u64 == lens[piece.entry];
                    prop_assert!(whole || piece.file_offset % 1024 == 0, "a piece is a whole file \
                        or an aligned part");
                    let from = piece.file_offset as usize;
                    for byte in &mut seen[piece.entry][from..from + piece.len] { *byte += 1; }
                }
                prop_assert_eq!(at, block.len);
            }
            prop_assert!(seen.iter().flatten().all(|&count| count == 1));
            prop_assert_eq!(layout.payload(), lens.iter().sum::<u64>());
            for (entry, &len) in lens.iter().enumerate() {
                let start = layout.start_of(entry);
                prop_assert_eq!(start.is_some(), len > 0);
                let first = start.and_then(|start| layout.pieces(start, 1).next());
                prop_assert!(first.is_none_or(|piece| (piece.entry, piece.file_offset) == (entry, 0)));
            }
        }
    }
}

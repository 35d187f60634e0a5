//! One suite for all store drivers, gated by what each says that it can: what a capability grants
//! works, and what it denies is refused.
//!
//! [`conform`] runs it over fresh stores of one driver. A driver is done when it passes.

mod cases;
mod drivers;

use super::driver::{Access, LandingOptions, Store, StoreCapabilities};
use super::{Landed, Landing, ResumeState};
use farline_core::gridftp::checked::is_zeros;
use farline_core::transfer::journal::PartialOrigin;
use farline_core::transfer::{
    Block, DigestAlgorithm, DigestVerdict, Digests, Entry, EntryKind, Layout, PieceDigest,
};
use std::sync::Arc;

/// Bytes of a block.
pub(super) const BLOCK: usize = 4096;
/// Where everything goes in a store that has paths.
pub(super) const START: &[u8] = b"run/7";

type Feed = Box<dyn Fn(&[u8])>;

/// A fresh store, and the far ends of one that is a stream.
pub(super) struct Site {
    pub(super) store: Arc<dyn Store>,
    pub(super) capabilities: StoreCapabilities,
    /// Gives it bytes to read, and ends them.
    pub(super) feed: Feed,
    /// What was written to it since it was asked last, once the sink is gone.
    pub(super) taken: Box<dyn Fn() -> Vec<u8>>,
    /// What has to stay as long as the store.
    pub(super) _keep: Box<dyn std::any::Any>,
}

/// Runs every case over stores that `fresh` makes.
pub(super) fn conform(name: &str, fresh: impl Fn() -> Site) {
    for (says, case) in cases::CASES {
        let site = fresh();
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case(&site)));
        assert!(ran.is_ok(), "{name}: {says}: failed");
    }
}

impl Site {
    pub(super) fn is_ordered(&self) -> bool {
        self.capabilities.access == Access::Ordered
    }

    pub(super) fn start(&self) -> &'static [u8] {
        if self.capabilities.paths { START } else { b"" }
    }

    /// Begins to write `files`, each a path and its bytes.
    pub(super) fn write<'a>(&self, files: &[(&'a str, Vec<u8>)]) -> Writing<'a> {
        let layout = layout_of(files);
        let sink = self.store.sink(self.start(), &layout, LandingOptions::lenient(false));
        Writing::new(sink.expect("a sink"), layout, files)
    }

    /// Brings `files` and lands them.
    pub(super) fn bring(&self, files: &[(&str, Vec<u8>)]) -> Landed {
        let mut writing = self.write(files);
        writing.sink.make_folders().expect("folders");
        writing.bring(|_| true);
        writing.land()
    }

    /// What is at `path` below the start, read in parts of a length that is no block's.
    pub(super) fn read(&self, path: &str) -> Option<Vec<u8>> {
        let at = match (path.is_empty(), self.start().is_empty()) {
            (true, _) => self.start().to_vec(),
            (false, true) => path.as_bytes().to_vec(),
            (false, false) => [self.start(), b"/", path.as_bytes()].concat(),
        };
        let entries = self.store.list(&at).ok()?.entries;
        let [entry] = &entries[..] else { return None };
        assert!(entry.path.is_empty(), "one file is listed by an empty path");
        let mut bytes = vec![0xee; usize::try_from(entry.len()).expect("short")];
        let layout = Arc::new(Layout::new(entries, BLOCK));
        let source = self.store.source(&at, &layout).expect("a source");
        for (number, part) in bytes.chunks_mut(1000).enumerate() {
            source.read(0, number as u64 * 1000, part).expect("read");
        }
        Some(bytes)
    }
}

/// Files on their way into a sink.
pub(super) struct Writing<'a> {
    pub(super) sink: Box<dyn Landing>,
    pub(super) layout: Arc<Layout>,
    pub(super) digests: Digests,
    /// What was held when it began.
    pub(super) resume_state: Option<ResumeState>,
    files: Vec<(&'a str, Vec<u8>)>,
}

impl<'a> Writing<'a> {
    fn new(
        sink: Box<dyn Landing>,
        layout: Arc<Layout>,
        files: &[(&'a str, Vec<u8>)],
    ) -> Writing<'a> {
        let digests = Digests::new(&layout, Some(DigestAlgorithm::Crc64Nvme));
        Writing { sink, layout, digests, resume_state: None, files: files.to_vec() }
    }

    /// The same, which claims its place as a transfer from `source`.
    pub(super) fn from(mut self, source: u8) -> Writing<'a> {
        let digests = Some(DigestAlgorithm::Crc64Nvme);
        self.resume_state =
            self.sink.begin(PartialOrigin { source: [source; 32], digests }).expect("begun");
        if let Some(resume_state) = &mut self.resume_state {
            let fresh = Digests::new(&self.layout, digests);
            self.digests = std::mem::replace(&mut resume_state.digests, fresh);
        }
        self
    }

    pub(super) fn blocks(&self) -> Vec<Block> {
        (0..self.layout.block_count()).map(|index| self.layout.block(index)).collect()
    }

    /// Writes the blocks that `wants` wants, in ascending order, each vouched for.
    pub(super) fn bring(&mut self, wants: impl Fn(&Block) -> bool) {
        for block in self.blocks().into_iter().filter(wants) {
            self.put(block);
        }
    }

    /// Writes one block.
    pub(super) fn put(&mut self, block: Block) {
        for piece in self.layout.pieces(block.offset, block.len) {
            let from = piece.file_offset as usize;
            let path = &self.layout.entries()[piece.entry].path;
            let named = |(name, _): &&(&str, Vec<u8>)| name.as_bytes() == path;
            let bytes = &self.files.iter().find(named).expect("a file").1[from..from + piece.len];
            let digest = PieceDigest::of(&self.layout, &piece, bytes, DigestAlgorithm::Crc64Nvme);
            self.digests.insert(&digest);
            self.sink.record(std::slice::from_ref(&digest));
            match is_zeros(bytes) {
                true => self.sink.write_zeros(piece.entry, piece.file_offset, piece.len as u64),
                false => self.sink.write(piece.entry, piece.file_offset, bytes),
            }
            .expect("written");
        }
    }

    /// Lands it, with what came for what was sent.
    pub(super) fn land(&self) -> Landed {
        self.land_as(&self.digests.verdicts())
    }

    pub(super) fn land_as(&self, verdicts: &[DigestVerdict]) -> Landed {
        self.sink.land(Some((&verdicts.iter().copied().collect(), &self.digests)))
    }

    /// Where an entry is in the layout.
    pub(super) fn index(&self, path: &str) -> usize {
        let named = |entry: &Entry| entry.path == path.as_bytes();
        self.layout.entries().iter().position(named).expect("an entry")
    }
}

/// A folder that holds `files`, or the one file whose path is empty.
fn layout_of(files: &[(&str, Vec<u8>)]) -> Arc<Layout> {
    let entry = |path: &str, kind| Entry {
        path: path.as_bytes().to_vec(),
        kind,
        mode: 0o755,
        modified_ns: 1_000_000_000,
        changed_ns: 0,
        attributes: None,
    };
    let mut entries = Vec::new();
    if !matches!(files, [("", _)]) {
        entries.push(entry("", EntryKind::Directory));
    }
    for (path, bytes) in files {
        for (at, _) in path.match_indices('/') {
            let above = entry(&path[..at], EntryKind::Directory);
            if !entries.contains(&above) {
                entries.push(above);
            }
        }
        entries.push(entry(path, EntryKind::File { len: bytes.len() as u64 }));
    }
    Arc::new(Layout::new(entries, BLOCK))
}

/// Bytes of which no two blocks are alike.
pub(super) fn bytes(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at / BLOCK * 31 + at % 251) as u8 ^ seed).collect()
}

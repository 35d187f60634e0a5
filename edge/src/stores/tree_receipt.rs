//! Which files of a tree have landed in a copy to or from a stock server that may be killed: a
//! journal on this host, because such a server keeps none.
//!
//! `docs/protocol.md`, clause G-9. For each file it has two records of those of every other journal:
//! what the source was, and what landed.

use super::partial::lock_journal;
use super::receipts::{read, state_folder};
use farline_core::transfer::journal::{self, FileFacts, Origin};
use std::collections::BTreeMap;
use std::fs::{DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};

/// What ends the names of these journals.
const TAIL: &str = ".landed.farline";
const BLOCK_LEN: usize = 1 << 20;

/// The locked journal of one tree.
#[derive(Debug)]
pub(crate) struct TreeReceipt {
    file: File,
    path: PathBuf,
    /// Where the next record goes; `None` when one could not be written.
    end: Option<u64>,
    records: u32,
    before: BTreeMap<Vec<u8>, LandedBefore>,
}

/// A file that landed in an earlier run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LandedBefore {
    /// The source then.
    source: FileFacts,
    /// What landed, as its host says it.
    pub(crate) landed: FileFacts,
    /// Whether both were compared by a checksum.
    pub(crate) is_compared: bool,
}

impl TreeReceipt {
    /// Opens the journal of the tree that is known as `source` and goes to `target`. Without a state
    /// folder, or while another copy holds it, there is none: then all is sent again.
    pub(crate) fn begin(target: &[&[u8]], source: [u8; 32]) -> Option<TreeReceipt> {
        TreeReceipt::begin_in(&state_folder()?.join("trees"), target, source)
    }

    fn begin_in(folder: &Path, target: &[&[u8]], source: [u8; 32]) -> Option<TreeReceipt> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).ok()?;
        let mut hasher = blake3::Hasher::new_derive_key("farline 2026 tree at a stock server");
        for part in target {
            hasher.update(&(part.len() as u64).to_be_bytes()).update(part);
        }
        let name = format!("{}{TAIL}", &hasher.finalize().to_hex()[..32]);
        let file = lock_journal(&File::open(folder).ok()?, name.as_bytes()).ok()??;
        let (survey, end) = read(&file);
        let mut receipt = TreeReceipt {
            file,
            path: folder.join(name),
            end: None,
            records: 0,
            before: BTreeMap::new(),
        };
        if survey.source() == Some(source) {
            let files = survey.files();
            for (path, at_source) in &files {
                let Some(path) = path.strip_prefix(b"s") else { continue };
                let landed = |kind: &[u8]| files.get(&[kind, path].concat());
                let found = landed(b"c").map(|landed| (landed, true));
                let Some((landed, is_compared)) =
                    found.or_else(|| landed(b"d").map(|landed| (landed, false)))
                else {
                    continue;
                };
                let (source, landed) = (at_source.facts, landed.facts);
                receipt.before.insert(path.to_vec(), LandedBefore { source, landed, is_compared });
            }
            receipt.records = u32::try_from(files.len()).ok()?;
            receipt.file.set_len(end).ok()?;
            receipt.end = Some(end);
        } else {
            receipt.file.set_len(0).ok()?;
            receipt.end = Some(0);
            let mut records = Vec::new();
            journal::begin(&Origin { source, digests: None }, BLOCK_LEN, &mut records);
            receipt.append(&records);
        }
        Some(receipt)
    }

    /// What landed at `path` of a source that is still as it was.
    pub(crate) fn before(&self, path: &[u8], source: &FileFacts) -> Option<LandedBefore> {
        self.before.get(path).copied().filter(|before| before.source == *source)
    }

    /// Notes that `source` has landed at `path` as `landed`.
    pub(crate) fn record(
        &mut self,
        path: &[u8],
        source: &FileFacts,
        landed: &FileFacts,
        is_compared: bool,
    ) {
        let mut records = Vec::new();
        let kind: &[u8] = if is_compared { b"c" } else { b"d" };
        journal::file(self.records, source, &[b"s", path].concat(), &mut records);
        journal::file(self.records + 1, landed, &[kind, path].concat(), &mut records);
        self.records += 2;
        self.append(&records);
    }

    /// No fsync: what a crash of this host takes from the journal is sent again.
    fn append(&mut self, records: &[u8]) {
        self.end = self
            .end
            .filter(|&at| self.file.write_all_at(records, at).is_ok())
            .map(|at| at + records.len() as u64);
    }

    /// The copy came to its end: the next begins anew.
    pub(crate) fn finish(self) {
        // Gone already is as good.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_landed_is_known_while_its_source_is_the_same() {
        let dir = tempfile::tempdir().expect("a folder");
        let facts = |len| FileFacts { len, modified_ns: 5, changed_ns: 6 };
        let begin = |source: u8| {
            TreeReceipt::begin_in(dir.path(), &[b"ftp://h", b"/t"], [source; 32]).expect("begun")
        };
        let mut receipt = begin(1);
        receipt.record(b"a", &facts(1), &facts(2), true);
        receipt.record(b"b/c", &facts(3), &facts(3), false);
        drop(receipt);
        // A torn record is as if it were not.
        let path =
            std::fs::read_dir(dir.path()).expect("a folder").next().expect("one").expect("it");
        let mut bytes = std::fs::read(path.path()).expect("there");
        bytes.extend([1, 2, 3]);
        std::fs::write(path.path(), bytes).expect("written");
        let mut receipt = begin(1);
        let a = receipt.before(b"a", &facts(1)).expect("known");
        assert_eq!((a.landed, a.is_compared), (facts(2), true));
        assert_eq!(receipt.before(b"a", &facts(9)), None, "it changed");
        assert!(receipt.before(b"b/c", &facts(3)).is_some_and(|it| !it.is_compared));
        receipt.record(b"d", &facts(4), &facts(4), true);
        drop(receipt);
        assert!(begin(1).before(b"d", &facts(4)).is_some());
        assert!(begin(2).before(b"a", &facts(1)).is_none(), "another source");
        begin(1).finish();
        assert_eq!(std::fs::read_dir(dir.path()).expect("a folder").count(), 0);
    }
}

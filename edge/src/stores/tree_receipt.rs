//! Which files of a tree have landed in a copy to or from a stock server that may be killed: a
//! journal on this host, because such a server keeps none.
//!
//! `docs/protocol.md`, clause G-9. For each file it has two records of those of every other
//! journal: what the source was, and what landed.

use super::leftover::lock_if_free;
use super::partial::lock_journal;
use super::receipts::{is_held, read, state_folder};
use super::storage_error;
use farline_core::transfer::journal::{self, FileFacts, PartialOrigin};
use farline_core::units::Error;
use std::collections::BTreeMap;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What ends the names of these journals, and where they lie in the state folder.
const TAIL: &str = ".landed.farline";
const FOLDER: &str = "trees";
/// What begins the path of the record that says where the tree goes.
const NAME: &[u8] = b"n";
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
    /// Opens the journal of the tree that is known as `source` and goes to `target`, `name` for
    /// people. Without a state folder, or while another copy holds it, there is none: then all is
    /// sent again.
    pub(crate) fn begin(target: &[&[u8]], name: &[u8], source: [u8; 32]) -> Option<TreeReceipt> {
        TreeReceipt::begin_in(&state_folder()?.join(FOLDER), target, name, source)
    }

    fn begin_in(
        folder: &Path,
        target: &[&[u8]],
        name: &[u8],
        source: [u8; 32],
    ) -> Option<TreeReceipt> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).ok()?;
        let mut hasher = blake3::Hasher::new_derive_key("farline 2026 tree at a stock server");
        for part in target {
            hasher.update(&(part.len() as u64).to_be_bytes()).update(part);
        }
        let file_name = format!("{}{TAIL}", &hasher.finalize().to_hex()[..32]);
        let file = lock_journal(&File::open(folder).ok()?, file_name.as_bytes()).ok()??;
        let (survey, end) = read(&file);
        let mut receipt = TreeReceipt {
            file,
            path: folder.join(file_name),
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
            journal::begin(&PartialOrigin { source, digests: None }, BLOCK_LEN, &mut records);
            journal::file(0, &FileFacts::default(), &[NAME, name].concat(), &mut records);
            receipt.records = 1;
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

/// A copy of a tree to or from a stock server that was broken off, as `farline partials` finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LandedTree {
    /// The journal.
    pub journal: PathBuf,
    /// Where the tree goes: `ftp://host:port/path`, its path as it is at the server, or a path
    /// here.
    pub target: Vec<u8>,
    /// Files that have landed there.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// When the last of them did.
    pub changed: SystemTime,
    /// Whether a running copy holds the journal; `None` when this cannot be told.
    pub running: Option<bool>,
}

impl LandedTree {
    /// Every one that this user's copies left.
    ///
    /// # Errors
    /// When the folder of the journals is there and cannot be read.
    pub fn all() -> Result<Vec<LandedTree>, Error> {
        let Some(folder) = state_folder().map(|state| state.join(FOLDER)) else {
            return Ok(Vec::new());
        };
        LandedTree::all_in(&folder)
            .map_err(|error| storage_error("read", folder.as_os_str().as_bytes(), &error))
    }

    fn all_in(folder: &Path) -> io::Result<Vec<LandedTree>> {
        let items = match std::fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            items => items?.collect::<io::Result<Vec<_>>>()?,
        };
        let found = items.iter().filter_map(|item| LandedTree::read(&item.path()));
        let mut found: Vec<LandedTree> = found.collect();
        found.sort_by(|a, b| a.target.cmp(&b.target));
        Ok(found)
    }

    fn read(path: &Path) -> Option<LandedTree> {
        path.file_name().filter(|name| name.as_bytes().ends_with(TAIL.as_bytes()))?;
        // Whoever ended meanwhile has left nothing.
        let file = File::open(path).ok()?;
        let running = is_held(&file);
        let changed = file.metadata().and_then(|meta| meta.modified()).ok()?;
        let records = read(&file).0.files();
        let mut named = records.keys().filter_map(|path| path.strip_prefix(NAME));
        let target = named.next()?.to_vec();
        let is_landed = |path: &[u8]| {
            [&b"c"[..], b"d"].into_iter().any(|kind| records.contains_key(&[kind, path].concat()))
        };
        let landed = records.iter().filter_map(|(path, at_source)| {
            let path = path.strip_prefix(b"s").filter(|path| is_landed(path));
            path.map(|_| at_source.facts.len)
        });
        let (files, bytes) = landed.fold((0, 0), |(files, bytes), len| (files + 1, bytes + len));
        Some(LandedTree { journal: path.to_owned(), target, files, bytes, changed, running })
    }

    /// Gives up what the journal knows; what landed stays where it is.
    ///
    /// # Errors
    /// When a running copy holds it, or it cannot be removed.
    pub fn forget(&self) -> Result<(), Error> {
        let Some(_lock) = lock_if_free(&self.journal)? else { return Ok(()) };
        std::fs::remove_file(&self.journal)
            .map_err(|error| storage_error("remove", self.journal.as_os_str().as_bytes(), &error))
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
            let target: [&[u8]; 2] = [b"ftp://h", b"/t"];
            TreeReceipt::begin_in(dir.path(), &target, b"ftp://h/t", [source; 32]).expect("begun")
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
        let held = begin(1);
        let all = || LandedTree::all_in(dir.path()).expect("listed");
        let [tree] = &all()[..] else { panic!("{:?}", all()) };
        assert_eq!((&tree.target[..], tree.files, tree.bytes), (&b"ftp://h/t"[..], 3, 8));
        assert_eq!(tree.running, Some(true));
        assert!(tree.forget().is_err(), "a copy holds it");
        drop(held);
        assert_eq!(all()[0].running, Some(false));
        assert!(begin(2).before(b"a", &facts(1)).is_none(), "another source");
        assert_eq!(all()[0].files, 0);
        all()[0].forget().expect("removed");
        assert_eq!(all(), []);
        begin(1).finish();
        assert_eq!(std::fs::read_dir(dir.path()).expect("a folder").count(), 0);
    }
}

//! One file that has no name until it lands, or until it is known not to be short: it needs no
//! journal, no lock and no temporary name, which are most of what a short file costs. What comes of
//! it to a node that is killed is gone without a trace. A long one has its temporary name and the
//! lock on its place as any other transfer.

use super::new_name::{is_there, link_unnamed, rename_new};
use super::openfile::{DirectIo, OpenFile};
use super::partial::{Partial, Place};
use super::root::Root;
use super::walk::{is_no_file, not_replaced};
use super::{Landed, Landing, ReadBack, Sink, is_special};
use crate::sys::files::sync_folder;
use crate::sys::lock::lock;
use farline_core::transfer::{Digests, Layout, VerdictList};
use farline_core::units::Error;
use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// What has more bytes is not short.
const SHORT: u64 = 64 << 10;

/// A layout of one file, of any length, on its way to a path below a root.
#[derive(Debug)]
pub(crate) struct UnnamedFile {
    root: Arc<Root>,
    path: Vec<u8>,
    layout: Arc<Layout>,
    folder: OwnedFd,
    name: Vec<u8>,
    file: OpenFile,
    written: AtomicU64,
    /// The lock on its place, once it has a temporary name.
    held: Mutex<Option<Partial>>,
    only_new: bool,
    is_left: AtomicBool,
}

impl UnnamedFile {
    /// A file for `path`; `None` where a transfer that keeps a journal has its place there or left
    /// something, and where none can be made so: the file system does not know it, or nobody may
    /// write there, which [`PosixSink`](super::PosixSink) says.
    pub(crate) fn create(
        root: &Arc<Root>,
        path: &[u8],
        layout: &Arc<Layout>,
        only_new: bool,
    ) -> Option<UnnamedFile> {
        let (folder, name) = root.parent(path).ok()?;
        let journal = Place::of(path, layout).journal();
        let journal =
            statat(&folder, OsStr::from_bytes(&journal), AtFlags::SYMLINK_NOFOLLOW).map(drop);
        if journal != Err(Errno::NOENT) || is_special(&folder, &name) {
            return None;
        }
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        let file = openat(&folder, c".", flags, Mode::from_raw_mode(0o666)).ok()?;
        Some(UnnamedFile {
            root: Arc::clone(root),
            path: path.to_vec(),
            layout: Arc::clone(layout),
            folder,
            name,
            file: OpenFile::to_write(file.into(), &DirectIo::default()),
            written: AtomicU64::new(0),
            held: Mutex::default(),
            only_new,
            is_left: AtomicBool::new(false),
        })
    }

    fn is_left(&self) -> bool {
        self.is_left.load(Ordering::Relaxed)
    }

    fn failed(&self, error: &io::Error) -> Error {
        self.root.error("write", &self.path, error)
    }

    /// Makes it durable, and then its name.
    fn take_name(&self) -> Result<(), Error> {
        let failed = |error: io::Error| self.failed(&error);
        self.file.file.sync_all().map_err(failed)?;
        let is_long = lock(&self.held).is_some();
        match if is_long { Err(Errno::EXIST) } else { self.link(&self.name) } {
            Err(Errno::EXIST) => self.replace()?,
            linked => linked.map_err(|errno| failed(errno.into()))?,
        }
        sync_folder(&self.folder).map_err(failed)
    }

    /// Takes the place of what may have its name, which only what has another can.
    fn replace(&self) -> Result<(), Error> {
        let failed = |errno: Errno| self.failed(&errno.into());
        let there = statat(&self.folder, OsStr::from_bytes(&self.name), AtFlags::SYMLINK_NOFOLLOW);
        if there.is_ok() && self.only_new {
            return Err(is_there(&self.root, &self.path));
        }
        if there.is_ok_and(|stat| is_no_file(&stat)) {
            return Err(not_replaced(&self.root, &self.path));
        }
        self.hold_place()?;
        let mut held = lock(&self.held);
        let Some(partial) = held.take() else { return Ok(()) };
        let (from, to) = (self.temporary(&partial), OsStr::from_bytes(&self.name));
        let from = OsStr::from_bytes(&from);
        let renamed = match self.only_new {
            true => rename_new((&self.folder, from), (&self.folder, to)),
            false => renameat(&self.folder, from, &self.folder, to),
        };
        if let Err(errno) = renamed {
            // It goes with its name when this is dropped.
            *held = Some(partial);
            return Err(match errno {
                Errno::EXIST if self.only_new => is_there(&self.root, &self.path),
                _ => failed(errno),
            });
        }
        partial.finish(&self.root);
        Ok(())
    }

    /// Locks its place and gives it its temporary name there, unless it has it.
    fn hold_place(&self) -> Result<(), Error> {
        let mut held = lock(&self.held);
        if held.is_some() {
            return Ok(());
        }
        let place = Place::of(&self.path, &self.layout);
        let (partial, _) = Partial::begin(&self.root, place, &self.layout, None)?;
        let temporary = self.temporary(&partial);
        let linked = match self.link(&temporary) {
            // Under the lock nobody else writes it.
            Err(Errno::EXIST) => {
                self.remove(&temporary);
                self.link(&temporary)
            }
            linked => linked,
        };
        match linked {
            Ok(()) => *held = Some(partial),
            Err(errno) => {
                partial.give_back(&self.root);
                return Err(self.failed(&errno.into()));
            }
        }
        Ok(())
    }

    fn temporary(&self, held: &Partial) -> Vec<u8> {
        let place = held.aside().unwrap_or_else(|| Place::of(&self.path, &self.layout));
        place.temporary(&place.prefix, &self.name)
    }

    fn remove(&self, name: &[u8]) {
        // It may be gone already.
        let _ = unlinkat(&self.folder, OsStr::from_bytes(name), AtFlags::empty());
    }

    /// So many bytes more are about to be written; returns whether they are.
    fn takes(&self, len: u64) -> Result<bool, Error> {
        if self.is_left() {
            return Ok(false);
        }
        if self.written.fetch_add(len, Ordering::Relaxed).saturating_add(len) > SHORT {
            self.hold_place()?;
        }
        Ok(true)
    }

    /// Gives it a name that nothing has.
    fn link(&self, name: &[u8]) -> Result<(), Errno> {
        link_unnamed(&self.file.file, &self.folder, name)
    }
}

impl Sink for UnnamedFile {
    fn write(&self, _entry: usize, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        if !self.takes(bytes.len() as u64)? {
            return Ok(());
        }
        self.file.write_all_at(bytes, offset).map_err(|error| self.failed(&error))?;
        // The disk begins while the network still brings.
        super::landing::write_back(&self.file, offset, bytes.len());
        Ok(())
    }

    fn write_zeros(&self, _entry: usize, offset: u64, len: u64) -> Result<(), Error> {
        if !self.takes(len)? {
            return Ok(());
        }
        self.file.write_zeros_at(len, offset).map_err(|error| self.failed(&error))
    }
}

impl Landing for UnnamedFile {
    fn leave(&self, entries: &BTreeSet<usize>) {
        self.is_left.store(entries.contains(&0), Ordering::Relaxed);
    }

    fn read_back(&self, _entry: usize) -> Result<Option<ReadBack>, Error> {
        let file = self.file.file.try_clone().map_err(|error| self.failed(&error))?;
        let (root, path) = (Arc::clone(&self.root), self.path.clone());
        Ok(Some(Box::new(move |at, into| {
            file.read_exact_at(into, at).map_err(|error| root.error("read", &path, &error))
        })))
    }

    fn land(&self, check: Option<(&VerdictList, &Digests)>) -> Landed {
        let left = if self.is_left() { BTreeSet::from([0]) } else { BTreeSet::new() };
        Landed::each(&self.layout, &left, check, |_, _| self.take_name())
    }
}

impl Drop for UnnamedFile {
    /// What did not land leaves nothing.
    fn drop(&mut self) {
        if let Some(partial) = lock(&self.held).take() {
            self.remove(&self.temporary(&partial));
            partial.give_back(&self.root);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::PosixSink;
    use super::*;
    use crate::mover::{BLOCK_LEN, UNKNOWN_LEN};
    use farline_core::units::ErrorCode;

    fn file(root: &Arc<Root>, path: &[u8]) -> Option<UnnamedFile> {
        UnnamedFile::create(root, path, &Arc::new(Layout::of_file(UNKNOWN_LEN, BLOCK_LEN)), false)
    }

    fn names(folder: &std::path::Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).expect("a folder");
        let name = |entry: io::Result<std::fs::DirEntry>| entry.expect("entry").file_name();
        let mut names: Vec<_> =
            entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn nothing_is_there_before_it_lands_and_nothing_else_after() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Arc::new(Root::open(folder.path()).expect("open"));
        for (round, content) in [b"first", b"other"].into_iter().enumerate() {
            let Some(file) = file(&root, b"f") else {
                panic!("no unnamed files in {}", folder.path().display());
            };
            file.write(0, 0, content).expect("written");
            assert_eq!(names(folder.path()).len(), round, "it has no name");
            let mut back = [0; 5];
            let read = file.read_back(0).expect("open").expect("kept");
            read(0, &mut back).expect("read");
            assert_eq!(&back, content);
            let landed = file.land(None);
            assert!(landed.failures.is_empty(), "{landed:?}");
            assert_eq!(names(folder.path()), ["f"]);
            assert_eq!(std::fs::read(folder.path().join("f")).expect("read"), content);
        }
        drop(file(&root, b"g").expect("a file"));
        assert_eq!(names(folder.path()), ["f"], "what does not land leaves nothing");

        let long = file(&root, b"f").expect("a file");
        long.write(0, 0, &[7; 60_000]).expect("written");
        long.write(0, 60_000, &[7; 60_000]).expect("written");
        assert_eq!(names(folder.path()).len(), 3, "its journal and its temporary name");
        assert!(file(&root, b"f").is_none(), "who comes next hears that its place is held");
        assert_eq!(std::fs::read(folder.path().join("f")).expect("read"), b"other");
        drop(long);
        assert_eq!(names(folder.path()), ["f"]);
        let long = file(&root, b"f").expect("a file");
        long.write_zeros(0, 0, 120_000).expect("written");
        assert!(long.land(None).failures.is_empty());
        assert_eq!(names(folder.path()), ["f"]);
        assert_eq!(std::fs::read(folder.path().join("f")).expect("read"), [0; 120_000]);
    }

    #[test]
    fn of_two_that_may_replace_nothing_the_first_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Arc::new(Root::open(folder.path()).expect("open"));
        let layout = Arc::new(Layout::of_file(UNKNOWN_LEN, BLOCK_LEN));
        let begun = |name: &[u8]| UnnamedFile::create(&root, name, &layout, true).expect("a file");
        for (name, len) in [("short", 10), ("long", 120_000)] {
            let (first, second) = (begun(name.as_bytes()), begun(name.as_bytes()));
            first.write(0, 0, b"first").expect("written");
            assert!(first.land(None).failures.is_empty());
            second.write_zeros(0, 0, len).expect("written");
            let failures = second.land(None).failures;
            assert_eq!(failures[0].1.code, ErrorCode::PermissionDenied, "{failures:?}");
            drop(second);
            assert_eq!(std::fs::read(folder.path().join(name)).expect("kept"), b"first");
        }
        // Written out by the sink that has a name from the start.
        let sink = |name: &[u8]| {
            let new = PosixSink::new(Arc::clone(&root), name.to_vec(), Arc::clone(&layout), false);
            new.only_new(true)
        };
        let late = sink(b"long");
        late.open(0).expect("opened");
        let late = late.land(None);
        assert_eq!(late.failures[0].1.code, ErrorCode::PermissionDenied, "{late:?}");
        assert!(sink(b"long").in_place(0).open(0).is_err(), "it is another's");
        assert_eq!(names(folder.path()), ["long", "short"]);
    }

    #[test]
    fn what_another_holds_or_what_is_no_file_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Arc::new(Root::open(folder.path()).expect("open"));
        let layout = Arc::new(Layout::of_file(UNKNOWN_LEN, BLOCK_LEN));
        let (partial, _) = Partial::begin(&root, Place::of(b"f", &layout), &layout, None)
            .expect("the place is free");
        assert!(file(&root, b"f").is_none(), "it is another's");
        assert!(file(&root, b"g").is_some(), "its neighbour is not");
        partial.finish(&root);
        assert!(file(&root, b"none/f").is_none(), "there is no such folder");

        let late = file(&root, b"s").expect("a file");
        let _socket =
            std::os::unix::net::UnixListener::bind(folder.path().join("s")).expect("bind");
        let failures = late.land(None).failures;
        assert_eq!(failures.first().map(|(_, error)| error.code), Some(ErrorCode::SpecialFile));
        let late = file(&root, b"d").expect("a file");
        std::fs::create_dir(folder.path().join("d")).expect("folder");
        assert_eq!(late.land(None).failures.len(), 1, "a folder is not replaced");
        drop(late);
        assert_eq!(names(folder.path()), ["d", "s"]);
    }
}

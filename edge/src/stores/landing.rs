//! Writes the files of a tree under temporary names beside their targets, and lands them whole: digest, fsync, rename.
//!
//! A reader of the destination sees the old file or the new one, never a part. What fails is removed and named; the rest
//! lands. Partial writes that the protocol makes in place (`APPE`, `REST`, `ESTO A`) use [`PosixSink::in_place`].

use super::root::Root;
use super::walk::{is_special, join};
use super::{Sink, storage_error};
use crate::sys::files::start_writeback;
use farline_core::transfer::{Digests, Entry, EntryKind, Layout, Verdict};
use farline_core::units::{Error, Fault};
use rustix::fs::{AtFlags, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, openat, renameat, symlinkat, unlinkat, utimensat};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// From this many files on, one `syncfs` is cheaper than an `fsync` each.
const SYNC_TOGETHER: usize = 16;

/// What became of a transfer's entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Landed {
    /// Regular files that landed.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What did not land, and why.
    pub failures: Vec<(Vec<u8>, Error)>,
}

/// The files of a layout below a folder of a root, being written.
#[derive(Debug)]
pub struct PosixSink {
    root: Arc<Root>,
    start: Vec<u8>,
    layout: Arc<Layout>,
    /// Marks this transfer's temporary names.
    tag: String,
    /// Write into the target itself, from this offset on.
    in_place: Option<u64>,
    /// Set modes and times from the layout's entries.
    metadata: bool,
    open: Mutex<HashMap<usize, (Arc<File>, u64)>>,
    landed: AtomicBool,
}

impl PosixSink {
    /// Files of `layout` below `start`; an entry with an empty path is `start` itself. `metadata` says whether the
    /// entries' modes and times are to be set or, for a plain `STOR`, unknown.
    pub fn new(root: Arc<Root>, start: Vec<u8>, layout: Arc<Layout>, metadata: bool) -> PosixSink {
        let mut tag = [0u8; 6];
        // Only collisions between transfers are at stake, and O_EXCL catches those.
        let _ = rustix::rand::getrandom(&mut tag[..], rustix::rand::GetRandomFlags::empty());
        let tag = tag.iter().map(|byte| format!("{byte:02x}")).collect();
        let open = Mutex::new(HashMap::new());
        PosixSink { root, start, layout, tag, in_place: None, metadata, open, landed: AtomicBool::new(false) }
    }

    /// The same sink, but writing into the existing target from `offset` on: no temporary name, no landing.
    #[must_use]
    pub fn in_place(mut self, offset: u64) -> PosixSink {
        self.in_place = Some(offset);
        self
    }

    /// Makes the file of `entry` now, so that what stands in its way is known before data moves.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn open(&self, entry: usize) -> Result<(), Error> {
        self.file(entry).map(drop)
    }

    /// Makes the tree's folders, so that writing finds them.
    ///
    /// # Errors
    /// When one cannot be made.
    pub fn make_folders(&self) -> Result<(), Error> {
        for entry in self.layout.entries().iter().filter(|entry| entry.kind == EntryKind::Directory) {
            self.root.create_directories(&self.path(entry))?;
        }
        Ok(())
    }

    /// Lands every file whose digest is what the sender says (`verdicts`, by entry), or every file when there are none.
    pub fn land(&self, check: Option<(&[Verdict], &Digests)>) -> Landed {
        self.landed.store(true, Ordering::Release);
        let mut landed = Landed::default();
        let open = std::mem::take(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner));
        for (index, (file, _)) in open {
            // Files whose length was not known are open until now.
            let entry = &self.layout.entries()[index];
            if let Err(error) = self.set_metadata(entry, &file) {
                landed.failures.push((entry.path.clone(), error));
            }
        }
        if self.in_place.is_some() {
            landed.files = 1;
            return landed;
        }
        let mut good = Vec::new();
        for (index, entry) in self.layout.entries().iter().enumerate() {
            let ready = match entry.kind {
                EntryKind::Directory => Ok(()),
                EntryKind::Symlink { .. } => Ok(()),
                EntryKind::File { .. } => check_digest(index, check).and_then(|()| self.complete(entry)),
            };
            match ready {
                Ok(()) => good.push(entry),
                Err(error) => {
                    self.remove_temporary(entry);
                    landed.failures.push((entry.path.clone(), error));
                }
            }
        }
        let files = good.iter().filter(|entry| matches!(entry.kind, EntryKind::File { .. })).count();
        let together = files >= SYNC_TOGETHER;
        if together && let Err(error) = self.sync_all() {
            landed.failures.push((self.start.clone(), error));
            return landed;
        }
        for entry in good {
            match self.land_one(entry, !together) {
                Ok(()) if matches!(entry.kind, EntryKind::File { .. }) => {
                    landed.files += 1;
                    landed.bytes += entry.len();
                }
                Ok(()) => {}
                Err(error) => {
                    self.remove_temporary(entry);
                    landed.failures.push((entry.path.clone(), error));
                }
            }
        }
        self.finish_folders(&mut landed);
        if together && let Err(error) = self.sync_all() {
            landed.failures.push((self.start.clone(), error));
        }
        landed
    }

    fn path(&self, entry: &Entry) -> Vec<u8> {
        join(&self.start, &entry.path)
    }

    /// `.name.TAG.farline`, the name cut where the file system's limit of 255 bytes asks for it.
    fn temporary(&self, name: &[u8]) -> Vec<u8> {
        let tail = format!(".{}.farline", self.tag);
        let kept = &name[..name.len().min(254 - tail.len())];
        // A cut name may meet another one; what was cut off tells them apart.
        if kept.len() < name.len() {
            let mark = blake3::hash(name).to_hex();
            let kept = &kept[..kept.len() - 16];
            return [b".", kept, &mark.as_bytes()[..16], tail.as_bytes()].concat();
        }
        [b".", kept, tail.as_bytes()].concat()
    }

    /// Opens the folder of `entry`, and its name and temporary name in it.
    fn place(&self, entry: &Entry) -> Result<(OwnedFd, Vec<u8>, Vec<u8>), Error> {
        let path = self.path(entry);
        let (folder, name) = self.root.parent(&path).map_err(|error| storage_error("write", &path, &error))?;
        let temporary = self.temporary(&name);
        Ok((folder, name, temporary))
    }

    fn create(&self, entry: &Entry) -> Result<File, Error> {
        let path = self.path(entry);
        let failed = |error: io::Error| storage_error("write", &path, &error);
        if self.in_place.is_some() {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOCTTY;
            return self.root.open_beneath(&path, flags, 0o666).map(File::from).map_err(failed);
        }
        let (folder, name, temporary) = self.place(entry)?;
        if is_special(&folder, &name) {
            let message = format!("{} is a device, FIFO or socket and is not replaced", String::from_utf8_lossy(&path));
            return Err(Error::new(Fault::You, "special-file", message));
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        // A file with metadata of its own is private until it has it.
        let mode = Mode::from_raw_mode(if self.metadata { 0o600 } else { 0o666 });
        openat(&folder, OsStr::from_bytes(&temporary), flags, mode).map(File::from).map_err(|errno| failed(errno.into()))
    }

    /// The file of an entry, made at its first use.
    fn file(&self, index: usize) -> Result<Arc<File>, Error> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((file, _)) = open.get(&index) {
            return Ok(Arc::clone(file));
        }
        // Created under the lock: two threads with two pieces of one file make it once.
        let entry = &self.layout.entries()[index];
        let file = Arc::new(self.create(entry)?);
        open.insert(index, (Arc::clone(&file), entry.len()));
        Ok(file)
    }

    /// Notes that `len` more bytes of an entry are written; answers whether these were the last.
    fn wrote(&self, index: usize, len: usize) -> bool {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((_, left)) = open.get_mut(&index) else { return false };
        *left = left.saturating_sub(len as u64);
        let last = *left == 0;
        if last {
            open.remove(&index);
        }
        last
    }

    fn set_metadata(&self, entry: &Entry, file: &File) -> Result<(), Error> {
        if !self.metadata || self.in_place.is_some() {
            return Ok(());
        }
        let failed = |error: io::Error| storage_error("set mode and time of", &self.path(entry), &error);
        // Set-user-id and its kin do not cross machines.
        file.set_permissions(Permissions::from_mode(entry.mode & 0o777)).map_err(failed)?;
        rustix::fs::futimens(file, &times(entry)).map_err(|errno| failed(errno.into()))
    }

    /// Makes sure that the temporary file is there with its metadata, also when no byte of it ever came.
    fn complete(&self, entry: &Entry) -> Result<(), Error> {
        if entry.is_empty() {
            let file = self.create(entry)?;
            self.set_metadata(entry, &file)?;
        }
        Ok(())
    }

    fn land_one(&self, entry: &Entry, sync: bool) -> Result<(), Error> {
        let path = self.path(entry);
        let failed = |error: io::Error| storage_error("write", &path, &error);
        let (folder, name, temporary) = match &entry.kind {
            EntryKind::Directory => return Ok(()),
            EntryKind::File { .. } => self.place(entry)?,
            EntryKind::Symlink { target } => {
                let (folder, name, temporary) = self.place(entry)?;
                let at = OsStr::from_bytes(&temporary);
                let made = symlinkat(OsStr::from_bytes(target), &folder, at)
                    .and_then(|()| utimensat(&folder, at, &times(entry), AtFlags::SYMLINK_NOFOLLOW));
                made.map_err(|errno| failed(errno.into()))?;
                (folder, name, temporary)
            }
        };
        if is_special(&folder, &name) {
            let message = format!("{} is a device, FIFO or socket and is not replaced", String::from_utf8_lossy(&path));
            return Err(Error::new(Fault::You, "special-file", message));
        }
        let is_file = matches!(entry.kind, EntryKind::File { .. });
        let (from, to) = (OsStr::from_bytes(&temporary), OsStr::from_bytes(&name));
        if sync && is_file {
            let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let file = openat(&folder, from, flags, Mode::empty()).map(File::from).map_err(|errno| failed(errno.into()))?;
            file.sync_all().map_err(failed)?;
        }
        renameat(&folder, from, &folder, to).map_err(|errno| failed(errno.into()))?;
        if sync && is_file {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let folder = openat(&folder, c".", flags, Mode::empty()).map(File::from).map_err(|errno| failed(errno.into()))?;
            folder.sync_all().map_err(failed)?;
        }
        Ok(())
    }

    /// Modes and times of folders come last: writing into a folder changes its time and needs its write bit.
    fn finish_folders(&self, landed: &mut Landed) {
        if !self.metadata {
            return;
        }
        for entry in self.layout.entries().iter().rev().filter(|entry| entry.kind == EntryKind::Directory) {
            let path = self.path(entry);
            let set = self.root.open_beneath(&path, OFlags::RDONLY | OFlags::DIRECTORY, 0).and_then(|fd| {
                let file = File::from(fd);
                // The root of a copy may be a folder that was there before and belongs to others.
                if !entry.path.is_empty() {
                    file.set_permissions(Permissions::from_mode(entry.mode & 0o777))?;
                }
                Ok(rustix::fs::futimens(&file, &times(entry))?)
            });
            // A folder above the copy that is not ours keeps its time: the copy itself is whole.
            if let Err(error) = set
                && !entry.path.is_empty()
            {
                landed.failures.push((entry.path.clone(), storage_error("set mode and time of", &path, &error)));
            }
        }
    }

    fn sync_all(&self) -> Result<(), Error> {
        let synced =
            self.root.open_beneath(b"", OFlags::RDONLY | OFlags::DIRECTORY, 0).and_then(|fd| Ok(rustix::fs::syncfs(&fd)?));
        synced.map_err(|error| storage_error("make durable", &self.start, &error))
    }

    fn remove_temporary(&self, entry: &Entry) {
        if self.in_place.is_none()
            && entry.kind != EntryKind::Directory
            && let Ok((folder, _, temporary)) = self.place(entry)
        {
            // It may never have been made.
            let _ = unlinkat(&folder, OsStr::from_bytes(&temporary), AtFlags::empty());
        }
    }
}

impl Sink for PosixSink {
    fn write(&self, entry: usize, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let file = self.file(entry)?;
        let at = self.in_place.unwrap_or(0).saturating_add(offset);
        let item = &self.layout.entries()[entry];
        file.write_all_at(bytes, at).map_err(|error| storage_error("write", &self.path(item), &error))?;
        // The disk begins while the network still brings: else the whole file waits for the fsync at its end.
        start_writeback(&file, at, bytes.len());
        // Only when every thread's write is done: a later one would change the time again.
        if self.wrote(entry, bytes.len()) { self.set_metadata(item, &file) } else { Ok(()) }
    }
}

impl Drop for PosixSink {
    /// A transfer that did not come to its landing leaves no temporary files.
    fn drop(&mut self) {
        if !self.landed.load(Ordering::Acquire) {
            for entry in self.layout.entries().iter().filter(|entry| matches!(entry.kind, EntryKind::File { .. })) {
                self.remove_temporary(entry);
            }
        }
    }
}

pub(super) fn check_digest(index: usize, check: Option<(&[Verdict], &Digests)>) -> Result<(), Error> {
    let Some((verdicts, digests)) = check else { return Ok(()) };
    match (verdicts.get(index), digests.digest(index)) {
        (Some(Verdict::Read(sent)), Some(got)) if *sent == got => Ok(()),
        (Some(Verdict::Unreadable), _) => {
            Err(Error::new(Fault::There, "source-unreadable", "the sender could not read the file whole")
                .hint("see the sender's own message; copy the file again"))
        }
        (Some(Verdict::Read(_)), _) => {
            Err(Error::new(Fault::Between, "digest-mismatch", "the BLAKE3 digest of what arrived differs from what was sent")
                .hint("memory, a network card or a middlebox changed bytes; copy the file again"))
        }
        (None, _) => Err(Error::new(Fault::There, "digest-missing", "the sender said no digest for the file")),
    }
}

fn times(entry: &Entry) -> Timestamps {
    let modified = Timespec {
        tv_sec: entry.modified_ns.div_euclid(1_000_000_000),
        tv_nsec: entry.modified_ns.rem_euclid(1_000_000_000) as _,
    };
    Timestamps { last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT as _ }, last_modification: modified }
}

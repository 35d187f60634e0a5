//! Short files of a tree that have no name until they land.
//!
//! Two calls in their folder, under its lock, become one: by the thousand that is a third of what a
//! file costs. What a crash takes of them is what had not landed, and comes again.

use super::finish::mode;
use super::{PosixSink, SPARSE_FROM};
use crate::stores::file_limit::FileLimit;
use crate::stores::new_name::link_unnamed;
use crate::stores::openfile::OpenFile;
use crate::sys::lock::lock;
use crate::sys::pacing_limits::PacingLimit;
use farline_core::transfer::Entry;
use farline_core::units::Error;
use rustix::fs::{Mode, OFlags, Stat, fstat, openat};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Resource, getrlimit};
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Once, OnceLock};

/// How many there are at once in this process, at most: one for each four descriptors that it may
/// have.
const MOST: u64 = 8_192;
const DESCRIPTORS_EACH: u64 = 4;

/// How many there are in this process.
static IN_USE: AtomicU64 = AtomicU64::new(0);

/// How many unnamed files one transfer has: which, stands in the table of its entries.
#[derive(Debug, Default)]
pub(super) struct UnnamedFiles {
    count: AtomicU64,
    /// The file system makes none, or the names are taken already, which costs more than it saves.
    is_over: AtomicBool,
}

impl UnnamedFiles {
    /// One more that the table has not yet.
    fn make(&self, folder: &OwnedFd, mode: u32, limit: &FileLimit) -> Option<File> {
        if self.is_over.load(Ordering::Relaxed) {
            return None;
        }
        if IN_USE.fetch_add(1, Ordering::Relaxed) >= most() {
            IN_USE.fetch_sub(1, Ordering::Relaxed);
            limit.strike(PacingLimit::UnnamedFiles);
            return None;
        }
        make_room(folder);
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        let made = openat(folder, c".", flags, Mode::from_raw_mode(mode));
        if made.is_err() {
            IN_USE.fetch_sub(1, Ordering::Relaxed);
            // What is wrong with the place is said where it is tried with a name.
            self.is_over.store(true, Ordering::Relaxed);
        } else {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        made.ok().map(File::from)
    }
}

impl Drop for UnnamedFiles {
    fn drop(&mut self) {
        IN_USE.fetch_sub(*self.count.get_mut(), Ordering::Relaxed);
    }
}

fn most() -> u64 {
    static MOST_HERE: OnceLock<u64> = OnceLock::new();
    *MOST_HERE.get_or_init(|| {
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        (descriptors / DESCRIPTORS_EACH).min(MOST)
    })
}

/// Has the kernel enlarge its table of this process's descriptors once: it waits for all
/// processors, and would at each doubling.
fn make_room(any: &OwnedFd) {
    static MADE: Once = Once::new();
    MADE.call_once(|| {
        let least = i32::try_from(most()).unwrap_or(0);
        drop(fcntl_dupfd_cloexec(any, least));
    });
}

impl PosixSink {
    /// The unnamed file of an entry, if it has one.
    pub(super) fn unnamed_of(&self, index: usize) -> Option<Arc<OpenFile>> {
        lock(&self.state).entries.unnamed(index)
    }

    /// It has its name.
    pub(super) fn is_named(&self, index: usize) {
        // Closed outside the lock.
        let removed = lock(&self.state).entries.remove_unnamed(index);
        if removed.is_some() {
            self.unnamed.count.fetch_sub(1, Ordering::Relaxed);
            IN_USE.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The file of an entry without a name: one that is there `again`, or a new one where that may
    /// be. It may where it lands soon, among many, and nothing of it is to be set by its name.
    pub(super) fn unnamed_file(
        &self,
        index: usize,
        entry: &Entry,
        again: bool,
    ) -> Option<Arc<OpenFile>> {
        if again {
            return self.unnamed_of(index);
        }
        if !self.lands_soon || self.attributes.is_some() || entry.len() >= SPARSE_FROM {
            return None;
        }
        // One that stays open until it lands has a place, or a name.
        let Some(place) = self.limit.place() else {
            self.limit.strike(PacingLimit::UnnamedFiles);
            return None;
        };
        let (folder, _) = self.folder.parent(&self.root, &self.path(entry)).ok()?;
        // Nobody finds it before it lands: it may have its own mode.
        let mode = if self.metadata { mode(entry) } else { 0o666 };
        let file = self.unnamed.make(&folder, mode, &self.limit)?;
        let file = Arc::new(OpenFile::to_write(file, &self.direct).at_place(Some(place)));
        lock(&self.state).entries.add_unnamed(index, Arc::clone(&file));
        Some(file)
    }

    /// Gives an unnamed file its name; where something has it, a temporary one first. Returns what
    /// there is to know of it then.
    pub(super) fn land_unnamed(&self, entry: &Entry, file: &File) -> Result<Stat, Error> {
        let path = self.path(entry);
        let failed = |error: io::Error| self.root.error("write", &path, &error);
        let (folder, name) = self.folder.parent(&self.root, &path).map_err(failed)?;
        match link_unnamed(file, &folder, &name) {
            Err(Errno::EXIST) => {
                // Those behind it are likely there as well.
                self.unnamed.is_over.store(true, Ordering::Relaxed);
                let temporary = self.temporary(entry, &name);
                let stat = fstat(file).map_err(|errno| failed(errno.into()))?;
                // It has that where its name was refused before; nothing links a file again that
                // lost its last name.
                if stat.st_nlink == 0 {
                    self.remove_temporary(entry);
                    link_unnamed(file, &folder, &temporary)
                        .map_err(|errno| failed(errno.into()))?;
                }
                self.set_mode(entry, file).map_err(failed)?;
                self.replace((&folder, &name, &temporary), entry)?;
            }
            linked => linked.map_err(|errno| failed(errno.into()))?,
        }
        let mut stat = fstat(file).map_err(|errno| failed(errno.into()))?;
        if stat.st_nlink > 1 {
            // The other is the temporary one that it has had since its name was refused.
            self.remove_temporary(entry);
            stat = fstat(file).map_err(|errno| failed(errno.into()))?;
        }
        if !self.metadata || stat.st_mode & 0o7777 == mode(entry) {
            return Ok(stat);
        }
        // The process's mask, or what its folder says of new files, took rights away.
        self.set_mode(entry, file).map_err(failed)?;
        fstat(file).map_err(|errno| failed(errno.into()))
    }

    fn set_mode(&self, entry: &Entry, file: &File) -> io::Result<()> {
        match self.metadata {
            true => file.set_permissions(Permissions::from_mode(mode(entry))),
            false => Ok(()),
        }
    }
}

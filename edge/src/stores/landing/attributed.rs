//! What a sink sets besides content, mode and time, and the files of a tree that are there already.

use super::{Landed, PosixSink};
use crate::stores::attributes::{NotSet, open_at};
use crate::stores::in_short;
use crate::stores::walk::join;
use crate::sys::lock::lock;
use farline_core::transfer::{Digests, Entry, EntryKind};
use farline_core::units::{Error, ErrorCode, Fault};
use rustix::fs::{AtFlags, FileType, OFlags, Stat, linkat, statat, unlinkat};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

impl PosixSink {
    /// Sets what was asked for on `name` of `folder`, which becomes or is `entry`.
    pub(super) fn set_attributes(
        &self,
        (folder, name): (&OwnedFd, &[u8]),
        entry: &Entry,
    ) -> Result<(), Error> {
        let Some(setter) = &self.attributes else { return Ok(()) };
        let set = || {
            let (at, stat) = open_at(folder, name)?;
            lock(setter).set((&at, &stat), entry)
        };
        set().map_err(|error: io::Error| {
            self.root.error("set attributes of", &self.path(entry), &error)
        })
    }

    /// Keeps with each file that landed what it was compared by, where that is asked for.
    pub(super) fn keep_digests(&self, landed: &Landed, digests: &Digests) {
        let Some(setter) = self.attributes.as_ref() else { return };
        let mut setter = lock(setter);
        let Some(algorithm) = digests.algorithm().filter(|_| setter.wanted.digest) else { return };
        let failed: BTreeSet<&[u8]> = landed.failures.iter().map(|(path, _)| &path[..]).collect();
        for (index, entry) in self.layout.entries().iter().enumerate() {
            let is_file = matches!(entry.kind, EntryKind::File { .. });
            if !is_file || failed.contains(&entry.path[..]) {
                continue;
            }
            let Some(digest) = digests.digest(index) else { continue };
            if lock(&self.state).entries.is_kept(index) {
                continue;
            }
            let opened = self.place(entry).and_then(|(folder, name, _)| {
                open_at(&folder, &name)
                    .map_err(|error| self.root.error("open", &self.path(entry), &error))
            });
            match opened {
                Ok((at, stat)) => setter.keep_digest((&at, &stat), algorithm, &digest),
                // Somebody took it away: it has landed, and that is all that was to be done.
                Err(_) => setter.not_set.extended += 1,
            }
        }
    }

    /// Sets what was asked for on the folder of `entry`; returns whether anything was.
    pub(super) fn set_folder(&self, entry: &Entry) -> Option<io::Result<()>> {
        let setter = self.attributes.as_ref()?;
        let set = || {
            let path = self.path(entry);
            let at = self.root.open_beneath(&path, OFlags::PATH | OFlags::DIRECTORY, 0)?;
            let stat = statat(&at, c"", AtFlags::EMPTY_PATH)?;
            lock(setter).set((&at, &stat), entry)
        };
        Some(set())
    }

    /// Whether the folder that a tree begins with gets a mode: one that was there before the copy
    /// only where that is asked for.
    pub(super) fn sets_mode_of_top(&self, is_made: bool) -> bool {
        self.attributes.as_ref().map_or(is_made, |setter| lock(setter).wanted.modes)
    }

    /// What could not be set for lack of the right to.
    pub(super) fn not_set(&self) -> NotSet {
        self.attributes.as_ref().map(|setter| lock(setter).not_set).unwrap_or_default()
    }

    /// Gives the file at `at` the name of `entry`, unless it has it, and sets what was asked for.
    pub(super) fn land_there(&self, entry: &Entry, at: &[u8]) -> Result<(), Error> {
        let path = self.path(entry);
        let failed = |error: io::Error| self.root.error("link", &path, &error);
        let (folder, name, temporary) = self.place(entry)?;
        let old = join(&self.start, at);
        let (from, from_name) = self.root.parent(&old).map_err(failed)?;
        let look = |folder: &OwnedFd, name: &[u8]| {
            statat(folder, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW)
        };
        let is = look(&from, &from_name)
            .map_err(|errno| self.root.error("link to", &old, &errno.into()))?;
        if FileType::from_raw_mode(is.st_mode) != FileType::RegularFile {
            let message = format!("{} is no file any more", in_short(&self.root.shown(&old)));
            return Err(Error::new(Fault::You, ErrorCode::NotAFile, message));
        }
        let here = look(&folder, &name).ok();
        let is_it = |here: &Stat| (here.st_dev, here.st_ino) == (is.st_dev, is.st_ino);
        if !here.as_ref().is_some_and(is_it) {
            self.refuse_to_replace(here.as_ref(), entry)?;
            let (from_name, between) =
                (OsStr::from_bytes(&from_name), OsStr::from_bytes(&temporary));
            // One that a crash left.
            let _ = unlinkat(&folder, between, AtFlags::empty());
            linkat(&from, from_name, &folder, between, AtFlags::empty())
                .map_err(|errno| failed(errno.into()))?;
            let taken = self.take_name((&folder, &name, &temporary), &path);
            // Two names of one file stay two when one is to take the other's place.
            let _ = unlinkat(&folder, between, AtFlags::empty());
            taken.map_err(failed)?;
        }
        self.set_attributes((&folder, &name), entry)
    }
}

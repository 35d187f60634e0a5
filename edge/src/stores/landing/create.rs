//! Makes the folders and the files that bytes go into.

use super::super::file_limit::LEAST_OPEN;
use super::super::in_short;
use super::super::openfile::OpenFile;
use super::super::walk::{is_no_file, is_special};
use super::protected::open_again;
use super::table::OpenStep;
use super::{Names, PosixSink, SPARSE_FROM, UNKNOWN_LEN};
use crate::sys::lock::{lock, wait};
use crate::sys::pacing_limits::PacingLimit;
use farline_core::transfer::journal::below;
use farline_core::transfer::{Entry, EntryKind};
use farline_core::units::{Error, ErrorCode, Fault};
use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// Folders that were not there before a transfer.
#[derive(Debug, Default)]
pub(super) struct MadeFolders {
    /// Of these entries.
    entries: Vec<u32>,
    /// The folder that all goes into.
    has_place: bool,
}

impl MadeFolders {
    /// Whether the folder that the tree begins with is among them.
    pub(super) fn has_top(&self) -> bool {
        self.entries.first() == Some(&0)
    }

    /// Whether the folder of the entry `index` is among them.
    fn has(&self, index: usize) -> bool {
        // They are made in the order of the list.
        u32::try_from(index).is_ok_and(|index| self.entries.binary_search(&index).is_ok())
    }
}

impl PosixSink {
    /// Makes the tree's folders, so that writing finds them.
    ///
    /// # Errors
    /// When one cannot be made.
    pub fn make_folders(&self) -> Result<(), Error> {
        let mut refused = BTreeMap::new();
        for (index, entry) in self.layout.entries().iter().enumerate() {
            if entry.kind != EntryKind::Directory || lock(&self.state).entries.is_kept(index) {
                continue;
            }
            match self.make_folder(index, entry) {
                Err(error) if !entry.path.is_empty() && self.costs_one_place(&error) => {
                    refused.insert(self.path(entry), error.clone());
                    self.refuse_entry(index, error);
                }
                made => made?,
            }
        }
        self.refuse_below(&refused);
        Ok(())
    }

    fn make_folder(&self, index: usize, entry: &Entry) -> Result<(), Error> {
        let path = self.path(entry);
        self.make_own_folder(Some(index), &path)?;
        if self.metadata && self.may_change(index) {
            lock(&self.state).opened_up.open_up(&self.root, &path)?;
        }
        Ok(())
    }

    /// Whether mode, time and ACL of the folder of the entry `index` may be changed: where nothing
    /// is replaced, of one alone that was made for this.
    pub(super) fn may_change(&self, index: usize) -> bool {
        let state = lock(&self.state);
        !state.entries.is_kept(index) && (!self.only_new || state.made.has(index))
    }

    /// Makes the folder `path`, of the entry `index` or the one that all goes into, and notes it if
    /// it was not there. Those above belong to nobody.
    pub(super) fn make_own_folder(&self, index: Option<usize>, path: &[u8]) -> Result<(), Error> {
        let mut is_new = false;
        // What is private is so from the beginning.
        let mode = match index.filter(|_| self.metadata) {
            Some(index) => self.layout.entries()[index].mode & 0o777 | 0o700,
            None => 0o777,
        };
        self.root.create_directories_and_tell(path, mode, |made| is_new |= made == path)?;
        if is_new {
            let made = &mut lock(&self.state).made;
            match index.map(u32::try_from) {
                Some(Ok(index)) => made.entries.push(index),
                Some(Err(_)) => {}
                None => made.has_place = true,
            }
        }
        Ok(())
    }

    /// Takes back the folders that were made, of a transfer of which nothing is kept. What somebody
    /// else put something into stays.
    pub(super) fn remove_made_folders(&self) {
        let made = std::mem::take(&mut lock(&self.state).made);
        let remove = |path: &[u8]| {
            if let Ok((folder, name)) = self.root.parent(path) {
                // Not empty, or gone: either is as good.
                let _ = unlinkat(&folder, OsStr::from_bytes(&name), AtFlags::REMOVEDIR);
            }
        };
        // A folder stands in a list before what is in it.
        for &index in made.entries.iter().rev() {
            remove(&self.path(&self.layout.entries()[index as usize]));
        }
        if made.has_place {
            remove(&self.place.folder);
        }
    }

    /// Opens the folder of `entry`, and its name and temporary name in it.
    pub(super) fn place(&self, entry: &Entry) -> Result<Names, Error> {
        let path = self.path(entry);
        let (folder, name) = self
            .folder
            .parent(&self.root, &path)
            .map_err(|error| self.root.error("write", &path, &error))?;
        let temporary = self.temporary(entry, &name);
        Ok((folder, name, temporary))
    }

    /// The name under which `entry`, called `name` at the end, is written.
    pub(super) fn temporary(&self, entry: &Entry, name: &[u8]) -> Vec<u8> {
        let place = self.aside.get().unwrap_or(&self.place);
        place.temporary(&below(&place.prefix, &entry.path), name)
    }

    /// Opens the file that bytes of `entry` go into: makes it anew, or opens `again` what is there.
    pub(super) fn create(&self, entry: &Entry, again: bool) -> Result<File, Error> {
        let path = self.path(entry);
        let failed = |error: io::Error| self.root.error("write", &path, &error);
        let special = || {
            let message = format!(
                "{} is a device, FIFO or socket and is not written to",
                in_short(&self.root.shown(&path))
            );
            Error::new(Fault::You, ErrorCode::SpecialFile, message)
        };
        if self.in_place.is_some() {
            // Looked at before it is opened: opening a FIFO waits for a reader, and opening a
            // device may do anything.
            if self.root.stat(&path).is_ok_and(|stat| is_no_file(&stat)) {
                return Err(special());
            }
            // Should it become one meanwhile, nothing waits.
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOCTTY | OFlags::NONBLOCK;
            let new = if self.only_new { OFlags::EXCL } else { OFlags::empty() };
            let file = self.root.open_beneath(&path, flags | new, 0o666).map_err(failed)?;
            let stat = rustix::fs::fstat(&file).map_err(|errno| failed(errno.into()))?;
            return if is_no_file(&stat) { Err(special()) } else { Ok(file.into()) };
        }
        let (folder, name, temporary) = self.place(entry)?;
        // What is short is here before it is worth a look; it is looked at when it lands.
        if entry.len() >= SPARSE_FROM && is_special(&folder, &name) {
            return Err(special());
        }
        if again {
            return open_again(&folder, &temporary).map_err(failed);
        }
        let at = OsStr::from_bytes(&temporary);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        // A file with metadata of its own is private until it has it.
        let mode = Mode::from_raw_mode(if self.metadata { 0o600 } else { 0o666 });
        let opened = openat(&folder, at, flags, mode).or_else(|errno| match errno {
            // Under the lock nobody else writes it: what is there was left by a run that journaled
            // nothing.
            Errno::EXIST => {
                let _ = unlinkat(&folder, at, AtFlags::empty());
                openat(&folder, at, flags, mode)
            }
            errno => Err(errno),
        });
        let file = opened.map(File::from).map_err(|errno| failed(errno.into()))?;
        if self.is_sparse(entry) {
            // Before anybody writes: what is left out at the end is a hole then, not a shorter
            // file.
            file.set_len(entry.len()).map_err(failed)?;
        }
        Ok(file)
    }

    /// Whether zeros of a new file may be left out: where its length is known.
    pub(super) fn is_sparse(&self, entry: &Entry) -> bool {
        self.in_place.is_none() && entry.len() >= SPARSE_FROM && entry.len() < UNKNOWN_LEN
    }

    /// The file of an entry, made at its first use, and whether it was there before; nothing where
    /// what comes of it is dropped.
    pub(super) fn file(&self, index: usize) -> Result<Option<(Arc<OpenFile>, bool)>, Error> {
        let entry = &self.layout.entries()[index];
        let mut state = lock(&self.state);
        let again = loop {
            match state.entries.open(index) {
                OpenStep::Write { file, is_again } => return Ok(Some((file, is_again))),
                OpenStep::Drop => return Ok(None),
                OpenStep::Wait => {
                    state.waiting += 1;
                    state = wait(&self.opened, state);
                    state.waiting -= 1;
                }
                OpenStep::Make => break false,
                OpenStep::OpenAgain => break true,
            }
        };
        drop(state);
        // Not under the lock: files by the thousand are made by all threads at once.
        let file = match self.lock_place() {
            Err(error) => Err(error),
            Ok(()) => match self.unnamed_file(index, entry, again) {
                Some(file) => Ok(Some(file)),
                None => self.named_file(index, entry, again),
            },
        };
        let mut state = lock(&self.state);
        match &file {
            Ok(Some(file)) => {
                let closed = state.entries.opened(index, Arc::clone(file), entry.len());
                let more = !file.has_place() && state.entries.close_beyond(LEAST_OPEN);
                if closed || more {
                    self.limit.strike(PacingLimit::TreeFiles);
                }
            }
            Ok(None) => {}
            Err(_) => state.entries.failed(index),
        }
        // A system call, which for files by the thousand nobody waits for.
        if state.waiting > 0 {
            self.opened.notify_all();
        }
        drop(state);
        Ok(file?.map(|file| (file, again)))
    }

    /// The same under its temporary name.
    fn named_file(
        &self,
        index: usize,
        entry: &Entry,
        again: bool,
    ) -> Result<Option<Arc<OpenFile>>, Error> {
        let place = self.limit.place();
        match self.create(entry, again) {
            Err(error) if self.costs_one_place(&error) => {
                self.refuse_entry(index, error);
                Ok(None)
            }
            made => made
                .map(|file| Some(Arc::new(OpenFile::to_write(file, &self.direct).at_place(place)))),
        }
    }
}

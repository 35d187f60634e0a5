//! Writes the files of a tree under temporary names next to their targets; [`finish`] lands them
//! whole.
//!
//! A reader of the destination sees the old file or the new one, never a part. Files land together
//! at the end, or each when it is whole ([`PosixSink::one_by_one`]). What fails is removed and
//! named; the rest lands ([`refused`]). Partial writes that the protocol makes in place (`APPE`,
//! `REST`, `ESTO A`) use [`PosixSink::in_place`]. What a broken-off transfer made durable stays,
//! with its journal ([`PosixSink::begin`]).

mod attributed;
mod create;
mod finish;
mod last_folder;
mod one_name;
mod protected;
mod refused;
mod table;
mod unnamed;
mod whole;
#[cfg(test)]
mod whole_tests;

use super::attributes::AttributeSetter;
use super::backup::BackupPlace;
use super::file_limit::FileLimit;
use super::openfile::{DirectIo, OpenFile};
use super::partial::{Partial, Place, ResumeState};
use super::root::Root;
use super::walk::join;
use super::{ReadBack, Sink};
use crate::sys::clock::ns_since_1970;
use crate::sys::files::{start_writeback, sync_folder};
use crate::sys::lock::lock;
use farline_core::transfer::journal::PartialOrigin;
use farline_core::transfer::{AttributeSet, Entry, EntryKind, Layout, PieceDigest};
use farline_core::units::{ByteRanges, Error};
use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};

use create::MadeFolders;
pub use finish::Landed;
pub(super) use finish::check_digest;
use finish::{SYNC_TOGETHER, is_top};
use last_folder::LastFolder;
pub(crate) use one_name::name_of_another;
use one_name::{Alike, LateNames};
use protected::{OpenedUp, open_again};
use refused::Refusals;
use table::Table;
use unnamed::UnnamedFiles;

/// Files from this length on may have holes: what is shorter is written in one call anyway.
const SPARSE_FROM: u64 = 128 << 10;
/// From here on a length is not a file's but a word for one that nobody knows.
const UNKNOWN_LEN: u64 = 1 << 61;

/// The files of a layout below a folder of a root, being written.
#[derive(Debug)]
pub struct PosixSink {
    root: Arc<Root>,
    start: Vec<u8>,
    layout: Arc<Layout>,
    place: Place,
    /// Where files have their temporary names, if not there.
    aside: OnceLock<Place>,
    state: Mutex<State>,
    folder: LastFolder,
    unnamed: UnnamedFiles,
    /// Held by who replaces a file.
    replacing: Mutex<()>,
    /// A file was opened, or could not be.
    opened: Condvar,
    /// Write into the target itself, from this offset on.
    in_place: Option<u64>,
    /// Set modes and times from the layout's entries.
    metadata: bool,
    /// What one place refuses costs the others nothing.
    is_lenient: bool,
    /// Each file takes its final name as soon as it is durable whole, not when all are.
    one_by_one: bool,
    /// That, and many are made durable at once.
    lands_soon: bool,
    /// Files that have landed.
    landed: AtomicU64,
    /// Whether some have since an earlier run.
    resumed: AtomicBool,
    direct: DirectIo,
    limit: FileLimit,
    /// When it was made, in nanoseconds since the Unix epoch.
    began_ns: i64,
    /// Which of the layout's files may be what is there, once that is asked.
    alike: OnceLock<Alike>,
    /// Where what is replaced is kept.
    backup: Option<BackupPlace>,
    /// What is there is never replaced.
    only_new: bool,
    /// Sets owners, ACLs and what else was asked for.
    attributes: Option<Mutex<AttributeSetter>>,
}

/// What changes while a transfer runs.
#[derive(Debug)]
struct State {
    entries: Table<Arc<OpenFile>>,
    refused: Refusals,
    /// How many threads wait for a file to be opened.
    waiting: usize,
    /// The lock on the place and the journal, from the first file on.
    partial: Option<Arc<Partial>>,
    /// Folders that were made writable for as long as this lasts.
    opened_up: OpenedUp,
    /// Folders that were made for this.
    made: MadeFolders,
    late: LateNames,
    ending: Ending,
}

/// The folder of an entry, its name in it, and its temporary name.
type Names = (Arc<OwnedFd>, Vec<u8>, Vec<u8>);

/// What is where bytes are to go.
#[derive(Clone, Copy, Debug)]
enum Found {
    /// Zeros, of a file that was made as long as it will be.
    Zeros,
    /// In such a file what a run before this one left, which is written over.
    Left,
    /// Anything, or the end of the file.
    Unknown,
}

/// What is to be kept when a sink goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// What is durable.
    BrokenOff,
    /// Nothing: the transfer was refused for what it is.
    Refused,
    /// Nothing that is not at its place already.
    Landed,
}

impl PosixSink {
    /// Files of `layout` below `start`; an entry with an empty path is `start` itself. `metadata`
    /// says whether the entries' modes and times are to be set or, for a plain `STOR`, unknown.
    pub fn new(root: Arc<Root>, start: Vec<u8>, layout: Arc<Layout>, metadata: bool) -> PosixSink {
        PosixSink {
            place: Place::of(&start, &layout),
            aside: OnceLock::new(),
            state: Mutex::new(State {
                entries: Table::new(layout.entries().len()),
                refused: Refusals::new(),
                waiting: 0,
                partial: None,
                opened_up: OpenedUp::default(),
                made: MadeFolders::default(),
                late: LateNames::default(),
                ending: Ending::BrokenOff,
            }),
            folder: LastFolder::default(),
            unnamed: UnnamedFiles::default(),
            replacing: Mutex::new(()),
            opened: Condvar::new(),
            in_place: None,
            metadata,
            is_lenient: false,
            one_by_one: false,
            lands_soon: false,
            landed: AtomicU64::new(0),
            resumed: AtomicBool::new(false),
            direct: DirectIo::default(),
            limit: FileLimit::default(),
            began_ns: ns_since_1970(),
            alike: OnceLock::new(),
            backup: None,
            only_new: false,
            attributes: None,
            root,
            start,
            layout,
        }
    }

    /// Locks the place, and finds what is held there of the transfer from `origin`
    /// (`docs/protocol.md`, clauses ).
    ///
    /// # Errors
    /// When another transfer writes to the place (`busy`), or the folder cannot be written.
    pub fn begin(&self, origin: PartialOrigin) -> Result<ResumeState, Error> {
        if self.layout.entries().iter().any(|entry| entry.kind == EntryKind::Directory) {
            self.make_own_folder(None, &self.place.folder)?;
        }
        self.open_up_place(&mut lock(&self.state))?;
        let (partial, held) =
            Partial::begin(&self.root, self.place.clone(), &self.layout, Some(origin))?;
        let mut resumed: BTreeMap<usize, u64> = BTreeMap::new();
        let block_len = self.layout.block_len() as u64;
        for range in held.blocks.iter() {
            for block in (range.start / block_len..range.end.div_ceil(block_len))
                .map(|index| self.layout.block(index))
            {
                for piece in self.layout.pieces(block.offset, block.len) {
                    *resumed.entry(piece.entry).or_insert(0) += piece.len as u64;
                }
            }
        }
        let mut state = lock(&self.state);
        held.landed.iter().for_each(|&entry| state.entries.land(entry));
        self.landed.store(held.landed.len() as u64, Ordering::Relaxed);
        self.resumed.store(!held.landed.is_empty(), Ordering::Relaxed);
        resumed.into_iter().for_each(|(entry, len)| state.entries.resume(entry, len));
        state.partial = Some(Arc::new(partial));
        Ok(held)
    }

    /// Locks the place, without a journal where none was begun.
    fn lock_place(&self) -> Result<(), Error> {
        if self.in_place.is_some() {
            return Ok(());
        }
        let mut state = lock(&self.state);
        if state.partial.is_none() {
            self.open_up_place(&mut state)?;
            let (begun, _) = Partial::begin(&self.root, self.place.clone(), &self.layout, None)?;
            if let Some(aside) = begun.aside() {
                // Before a file has its temporary name: that is told behind this.
                let _ = self.aside.set(aside);
            }
            state.partial = Some(Arc::new(begun));
        }
        Ok(())
    }

    /// Lets the owner write to the folder of the place where that is the one that the tree begins
    /// with: the journal comes before anything else. It gets its mode when the journal is gone.
    fn open_up_place(&self, state: &mut State) -> Result<(), Error> {
        let may_change = |(index, entry): (usize, &Entry)| {
            is_top(entry) && !self.only_new && !state.entries.is_kept(index)
        };
        let is_own = self.metadata && self.place.folder == self.start;
        if is_own && self.layout.entries().iter().enumerate().any(may_change) {
            state.opened_up.open_up(&self.root, &self.place.folder)?;
        }
        Ok(())
    }

    /// Whether files have their names from an earlier run.
    fn has_resumed(&self) -> bool {
        self.resumed.load(Ordering::Relaxed)
    }

    fn journal(&self) -> Option<Arc<Partial>> {
        lock(&self.state).partial.clone()
    }

    /// The transfer was refused for what it is: nothing of it is kept.
    pub fn refuse(&self) {
        lock(&self.state).ending = Ending::Refused;
    }

    /// The same sink, which writes past the page cache where `direct` says so and the file system
    /// can.
    #[must_use]
    pub fn directly(mut self, direct: DirectIo) -> PosixSink {
        self.direct = direct;
        self
    }

    /// The same sink, whose files have their places among those of `limit`.
    #[must_use]
    pub(crate) fn within(mut self, limit: FileLimit) -> PosixSink {
        self.limit = limit;
        self
    }

    /// The same sink, which keeps at `backup`, where there is one, what it replaces.
    #[must_use]
    pub fn keeping(mut self, backup: Option<BackupPlace>) -> PosixSink {
        self.backup = backup;
        self
    }

    /// The same sink, which replaces nothing if it takes `only_new` names.
    #[must_use]
    pub(crate) fn only_new(mut self, only_new: bool) -> PosixSink {
        self.only_new = only_new;
        self
    }

    /// The same sink, which also sets what is `wanted` of the entries' attributes; owners and what
    /// runs as them only if it `may_own`.
    #[must_use]
    pub fn setting(mut self, wanted: AttributeSet, may_own: bool) -> PosixSink {
        self.attributes =
            (!wanted.is_empty()).then(|| Mutex::new(AttributeSetter::new(wanted, may_own)));
        self
    }

    /// The same sink, in which each file takes its final name while others still come, as soon as
    /// it is durable whole and each of its blocks is as its sender read it (clause R-12). One file
    /// alone lands at the end all the same.
    #[must_use]
    pub fn one_by_one(mut self) -> PosixSink {
        self.one_by_one = self.layout.entries().len() > 1;
        self.lands_soon = self.one_by_one && self.syncs_together();
        self
    }

    /// Drops what comes of these entries: what is at their places stays.
    pub fn leave(&self, entries: &BTreeSet<usize>) {
        lock(&self.state).entries.keep(entries);
    }

    /// The same sink, but writing into the existing target from `offset` on: no temporary name, no
    /// landing.
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

    fn path(&self, entry: &Entry) -> Vec<u8> {
        join(&self.start, &entry.path)
    }

    /// Makes the temporary files of `entries` durable.
    fn sync(&self, entries: &[usize]) -> io::Result<()> {
        if entries.len() >= SYNC_TOGETHER {
            let root = self.root.open_beneath(
                &self.place.folder,
                OFlags::RDONLY | OFlags::DIRECTORY,
                0,
            )?;
            return Ok(rustix::fs::syncfs(&root)?);
        }
        for &index in entries {
            let open = lock(&self.state).entries.file(index);
            let parent = || self.root.parent(&self.path(&self.layout.entries()[index]));
            let is_closed = open.is_none();
            let open = open.or_else(|| self.unnamed_of(index));
            let file = match open {
                Some(file) => file.file.try_clone()?,
                // Whole, and closed since.
                None => {
                    let (folder, name) = parent()?;
                    let temporary = self.temporary(&self.layout.entries()[index], &name);
                    open_again(&folder, &temporary)?
                }
            };
            // What was closed may be about to land, with its time and mode.
            if is_closed {
                file.sync_all()?
            } else {
                file.sync_data()?
            };
            // The name must last too, from its first time on.
            if lock(&self.state).entries.lacks_name(index) {
                let (folder, _) = parent()?;
                sync_folder(&folder)?;
                lock(&self.state).entries.named(index);
            }
        }
        Ok(())
    }

    /// Reads back what was written of `entry`.
    ///
    /// # Errors
    /// When its temporary file cannot be opened.
    pub fn read_back(&self, entry: usize) -> Result<ReadBack, Error> {
        let item = &self.layout.entries()[entry];
        let path = self.path(item);
        let file = match self.unnamed_of(entry) {
            Some(unnamed) => unnamed.file.try_clone(),
            None => {
                let (folder, _, temporary) = self.place(item)?;
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                openat(&folder, OsStr::from_bytes(&temporary), flags, Mode::empty())
                    .map(File::from)
                    .map_err(io::Error::from)
            }
        };
        let file = file.map_err(|error| self.root.error("read", &path, &error))?;
        let root = Arc::clone(&self.root);
        Ok(Box::new(move |at, into| {
            file.read_exact_at(into, at).map_err(|error| root.error("read", &path, &error))
        }))
    }

    /// Has `write` put `len` bytes at `offset` of `entry`, given the place within the file and what
    /// is there.
    fn put(
        &self,
        entry: usize,
        offset: u64,
        len: u64,
        write: impl FnOnce(&OpenFile, u64, Found) -> io::Result<()>,
    ) -> Result<(), Error> {
        let Some((file, is_again)) = self.file(entry)? else { return Ok(()) };
        let at = self.in_place.unwrap_or(0).saturating_add(offset);
        let item = &self.layout.entries()[entry];
        let found = match self.is_sparse(item) {
            false => Found::Unknown,
            true if is_again => Found::Left,
            true => Found::Zeros,
        };
        let written = write(&file, at, found);
        written.map_err(|error| self.root.error("write", &self.path(item), &error))?;
        // Only when every thread's write is done: a later one would change the time again. Before
        // it is accounted for: what is durable whole has its metadata.
        let is_last = lock(&self.state).entries.wrote(entry, len, item.len());
        if is_last {
            self.set_metadata(entry, item, &file.file)?;
        }
        if let Some(partial) = self.journal()
            && let Some(mut account) = partial.account()
        {
            account.wrote(entry, offset..offset + len);
        }
        Ok(())
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
        self.put(entry, offset, bytes.len() as u64, |file, at, found| {
            match found {
                Found::Zeros => file.write_around_zeros(bytes, at)?,
                Found::Left | Found::Unknown => file.write_all_at(bytes, at)?,
            }
            // A small one comes with others, which are synced together.
            if self.layout.entries()[entry].len() >= SPARSE_FROM {
                write_back(file, at, bytes.len());
            }
            Ok(())
        })
    }

    fn write_zeros(&self, entry: usize, offset: u64, len: u64) -> Result<(), Error> {
        self.put(entry, offset, len, |file, at, found| match found {
            Found::Zeros => Ok(()),
            Found::Left => file.write_hole_at(len, at),
            Found::Unknown => file.write_zeros_at(len, at),
        })
    }

    fn journals(&self) -> bool {
        self.journal().is_some_and(|partial| partial.account().is_some())
    }

    fn durable(&self) -> ByteRanges {
        self.journal().map(|partial| partial.durable()).unwrap_or_default()
    }

    fn landed(&self) -> Option<u64> {
        self.one_by_one.then(|| self.landed.load(Ordering::Relaxed))
    }

    fn record(&self, block: &[PieceDigest]) {
        if let Some(partial) = self.journal()
            && let Some(mut account) = partial.account()
        {
            account.record(block);
        }
    }

    fn checkpoint(&self) {
        if let Some(partial) = self.journal() {
            let whole = partial.checkpoint(|entries| self.sync(entries));
            if self.one_by_one {
                self.land_whole(&partial, &whole);
            }
        }
    }
}

/// Has the disk begin with `len` bytes at `offset` while the network still brings: else a whole
/// file waits for the fsync at its end. What is short is over before it has begun.
pub(super) fn write_back(file: &OpenFile, offset: u64, len: usize) {
    if offset + len as u64 >= SPARSE_FROM {
        start_writeback(&file.file, offset, len);
    }
}

impl Drop for PosixSink {
    /// A transfer that did not come to its landing keeps what is durable, and leaves nothing else
    /// (clause R-9).
    fn drop(&mut self) {
        self.keep_or_remove();
        lock(&self.state).opened_up.restore(&self.root);
    }
}

impl PosixSink {
    fn keep_or_remove(&self) {
        let ending = lock(&self.state).ending;
        if ending == Ending::Landed || self.in_place.is_some() {
            return;
        }
        // Without a place of its own it is no transfer: folders may be all that was wanted.
        let Some(partial) = self.journal() else { return };
        if ending == Ending::BrokenOff {
            self.checkpoint();
            if !partial.durable().is_empty() {
                return;
            }
        }
        for entry in self
            .layout
            .entries()
            .iter()
            .filter(|entry| matches!(entry.kind, EntryKind::File { .. }))
        {
            self.remove_temporary(entry);
        }
        partial.give_back(&self.root);
        self.remove_made_folders();
    }
}

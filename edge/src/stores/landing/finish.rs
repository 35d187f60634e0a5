//! Lands what a sink wrote: digest, metadata, fsync, rename.

use super::protected::open_again;
use super::{Ending, PosixSink};
use crate::stores::attributes::NotSet;
use crate::stores::new_name::{is_there, rename_new};
use crate::stores::walk::{is_no_file, not_replaced, times};
use crate::sys::files::sync_folder;
use crate::sys::lock::lock;
use farline_core::transfer::{DigestVerdict, Digests, Entry, EntryKind, Layout, VerdictList};
use farline_core::units::{Error, ErrorCode, Fault};
use rustix::fs::{
    AtFlags, OFlags, RenameFlags, Stat, renameat, renameat_with, statat, symlinkat, unlinkat,
    utimensat,
};
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::io;
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::panic::resume_unwind;
use std::thread::available_parallelism;

/// From this many files on, one `syncfs` is cheaper than an `fsync` each.
pub(super) const SYNC_TOGETHER: usize = 16;

/// Threads that land entries, and how many each has at least: fewer are landed before it has begun.
const MOST_THREADS: usize = 4;
const LEAST_PART: usize = 256;

/// What became of a transfer's entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Landed {
    /// Regular files that landed.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What did not land, and why.
    pub failures: Vec<(Vec<u8>, Error)>,
    /// What was asked for and could not be set, for lack of the right to.
    pub not_set: NotSet,
    /// Landing ended before its end: what is not among the failures did not land for certain.
    pub is_cut_short: bool,
}

impl Landed {
    /// Lands the entries of `layout` by `land`, one after the other: all but those in `left`, and
    /// but for files whose digest is not what the sender says, where `check` has what it says.
    pub fn each(
        layout: &Layout,
        left: &BTreeSet<usize>,
        check: Option<(&VerdictList, &Digests)>,
        mut land: impl FnMut(usize, &Entry) -> Result<(), Error>,
    ) -> Landed {
        let mut landed = Landed::default();
        for (index, entry) in layout.entries().iter().enumerate() {
            if left.contains(&index) {
                continue;
            }
            let checked = match entry.kind {
                EntryKind::File { .. } => check_digest(index, check),
                EntryKind::Directory | EntryKind::Symlink { .. } => Ok(()),
                EntryKind::There { .. } => {
                    let message = "this store keeps no further names of files";
                    Err(Error::new(Fault::You, ErrorCode::Unsupported, message))
                }
            };
            match checked.and_then(|()| land(index, entry)) {
                Ok(()) => landed.count(entry),
                Err(error) => landed.failures.push((entry.path.clone(), error)),
            }
        }
        landed
    }

    fn count(&mut self, entry: &Entry) {
        if let EntryKind::File { len } = entry.kind {
            self.files += 1;
            self.bytes += len;
        }
    }

    /// Counts `entry` no longer, which had landed.
    fn take_back(&mut self, entry: &Entry, error: Error) {
        if let EntryKind::File { len } = entry.kind {
            self.files = self.files.saturating_sub(1);
            self.bytes = self.bytes.saturating_sub(len);
        }
        self.failures.push((entry.path.clone(), error));
    }
}

/// Of one of millions of entries.
pub(super) type Outcome = Result<(), Box<Error>>;

/// An entry, and which of the layout's it is.
pub(super) type Numbered<'e> = (usize, &'e Entry);

impl PosixSink {
    /// Lands every file whose digest is what the sender says (`verdicts`, by entry), or every file
    /// when there are none.
    pub fn land(&self, check: Option<(&VerdictList, &Digests)>) -> Landed {
        let open = {
            let mut state = lock(&self.state);
            state.ending = Ending::Landed;
            state.entries.close()
        };
        let mut landed = Landed::default();
        for (index, file) in open {
            // Files whose length was not known are open until now.
            let entry = &self.layout.entries()[index];
            if let Err(error) = self.set_metadata(index, entry, &file.file) {
                landed.failures.push((entry.path.clone(), error));
            }
        }
        if self.in_place.is_some() {
            landed.files = 1;
            return landed;
        }
        if let Err(error) = self.lock_place() {
            landed.is_cut_short = true;
            landed.failures.push((self.start.clone(), error));
            return landed;
        }
        let refused = std::mem::take(&mut lock(&self.state).refused);
        for (index, error) in refused {
            let entry = &self.layout.entries()[index];
            // An earlier run may have left it.
            self.remove_temporary(entry);
            landed.failures.push((entry.path.clone(), error));
        }
        let mut good = Vec::new();
        let together = self.syncs_together();
        for (index, entry) in self.layout.entries().iter().enumerate() {
            if lock(&self.state).entries.is_kept(index) {
                continue;
            }
            if lock(&self.state).entries.has_landed(index) {
                match self.confirm(index, entry, check) {
                    Ok(()) => landed.count(entry),
                    Err(error) => landed.failures.push((entry.path.clone(), error)),
                }
                continue;
            }
            let ready = match entry.kind {
                EntryKind::Directory => Ok(()),
                EntryKind::Symlink { .. } | EntryKind::There { .. } => Ok(()),
                EntryKind::File { .. } => {
                    check_digest(index, check).and_then(|()| self.complete(index, entry, together))
                }
            };
            match ready {
                Ok(()) => good.push((index, entry)),
                Err(error) => {
                    self.remove_temporary(entry);
                    landed.failures.push((entry.path.clone(), error));
                }
            }
        }
        if together && let Err(error) = self.sync_all() {
            landed.is_cut_short = true;
            landed.failures.push((self.start.clone(), error));
            return landed;
        }
        // What is another name of a file comes when that one has landed.
        let (late, good): (Vec<Numbered>, Vec<Numbered>) =
            good.into_iter().partition(|(_, entry)| matches!(entry.kind, EntryKind::There { .. }));
        let mut done = self.land_all(&good, !together);
        let nameless = self.name_the_first(&good, &mut done, !together);
        for (entry, done) in done {
            self.count_landed(entry, done.map_err(|error| *error), &mut landed);
        }
        for (index, error) in nameless {
            landed.take_back(&self.layout.entries()[index], error);
        }
        self.land_further_names(late, !together, &mut landed);
        if let Some((_, digests)) = check {
            self.keep_digests(&landed, digests);
        }
        self.finish_folders(&mut landed);
        if together && let Err(error) = self.sync_all() {
            landed.is_cut_short = true;
            landed.failures.push((self.start.clone(), error));
        }
        if let Some(partial) = self.journal() {
            partial.finish(&self.root);
        }
        self.finish_top(&mut landed);
        landed.not_set = self.not_set();
        landed
    }

    /// Lands `entries`, many of them by several threads: a name is a system call, and of the disk
    /// nothing is waited for.
    fn land_all<'e>(&self, entries: &[Numbered<'e>], sync: bool) -> Vec<(&'e Entry, Outcome)> {
        let land = |part: &[Numbered<'e>]| -> Vec<(&'e Entry, Outcome)> {
            let land_one = |&(index, entry): &Numbered<'e>| {
                (entry, self.land_one(index, entry, sync).map(drop).map_err(Box::new))
            };
            part.iter().map(land_one).collect()
        };
        if entries.len() <= LEAST_PART {
            // To count processors takes longer than a small file.
            return land(entries);
        }
        let threads = available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS);
        let part = entries.len().div_ceil(threads).max(LEAST_PART);
        std::thread::scope(|scope| {
            let mut parts = entries.chunks(part);
            let first = parts.next().unwrap_or_default();
            let others: Vec<_> = parts.map(|part| scope.spawn(move || land(part))).collect();
            let mut landed = land(first);
            for thread in others {
                landed.extend(thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
            }
            landed
        })
    }

    fn count_landed(&self, entry: &Entry, done: Result<(), Error>, landed: &mut Landed) {
        match done {
            Ok(()) => landed.count(entry),
            Err(error) => {
                self.remove_temporary(entry);
                landed.failures.push((entry.path.clone(), error));
            }
        }
    }

    /// Lands further names of files; those of files that did not land fail with them.
    fn land_further_names(&self, late: Vec<Numbered>, sync: bool, landed: &mut Landed) {
        if late.is_empty() {
            return;
        }
        // Both may be as many as a list has lines.
        let paths = landed.failures.iter().map(|(path, _)| path.clone());
        let mut failed: HashMap<Vec<u8>, usize> = paths.zip(0..).collect();
        for (index, entry) in late {
            let first = match &entry.kind {
                EntryKind::There { at } => failed.get(&**at),
                _ => None,
            };
            let done = match first.map(|&first| &landed.failures[first].1) {
                None => self.land_one(index, entry, sync).map(drop),
                Some(error) => {
                    let message =
                        format!("the file that it is another name of did not land: {error}");
                    Err(Error { message, ..error.clone() })
                }
            };
            let failures = landed.failures.len();
            self.count_landed(entry, done, landed);
            if landed.failures.len() > failures {
                failed.insert(entry.path.clone(), failures);
            }
        }
    }

    pub(super) fn set_metadata(
        &self,
        index: usize,
        entry: &Entry,
        file: &File,
    ) -> Result<(), Error> {
        if !self.metadata || self.in_place.is_some() {
            return Ok(());
        }
        let failed =
            |error: io::Error| self.root.error("set mode and time of", &self.path(entry), &error);
        if self.unnamed_of(index).is_none() {
            // Until it lands its owner may write to it: it may have to be opened again.
            file.set_permissions(Permissions::from_mode(mode(entry) | OWNERS)).map_err(failed)?;
        }
        rustix::fs::futimens(file, &times(entry)).map_err(|errno| failed(errno.into()))
    }

    /// Makes sure that the temporary file is there with its metadata, also when no byte of it ever
    /// came; and durable, unless all files are to be made so `together`.
    pub(super) fn complete(
        &self,
        index: usize,
        entry: &Entry,
        together: bool,
    ) -> Result<(), Error> {
        // Of one that was whole before a crash nobody knows whether its metadata is durable.
        let temporary = lock(&self.state).entries.temporary(index);
        let again = temporary.is_some_and(|temporary| temporary.is_again);
        if let Some(file) = self.unnamed_of(index) {
            return if again { self.set_metadata(index, entry, &file.file) } else { Ok(()) };
        }
        let is_protected = self.metadata && mode(entry) & OWNERS != OWNERS;
        let failed = |error: io::Error| self.root.error("write", &self.path(entry), &error);
        let file = if entry.is_empty() || again {
            let file = self.create(entry, temporary.is_some())?;
            self.set_metadata(index, entry, &file)?;
            file
        } else if is_protected || !together {
            let (folder, _, temporary) = self.place(entry)?;
            open_again(&folder, &temporary).map_err(failed)?
        } else {
            return Ok(());
        };
        if is_protected {
            file.set_permissions(Permissions::from_mode(mode(entry))).map_err(failed)?;
        }
        if together { Ok(()) } else { file.sync_all().map_err(failed) }
    }

    /// Lands one entry; returns what there is to know of it then, where that is known.
    pub(super) fn land_one(
        &self,
        index: usize,
        entry: &Entry,
        sync: bool,
    ) -> Result<Option<Stat>, Error> {
        if let Some(file) = self.unnamed_of(index) {
            let stat = self.land_unnamed(entry, &file.file)?;
            self.is_named(index);
            return Ok(Some(stat));
        }
        let path = self.path(entry);
        let failed = |error: io::Error| self.root.error("write", &path, &error);
        let (folder, name, temporary) = match &entry.kind {
            EntryKind::Directory => return Ok(None),
            EntryKind::There { at } => return self.land_there(entry, at).map(|()| None),
            EntryKind::File { .. } => self.place(entry)?,
            EntryKind::Symlink { target } => {
                let (folder, name, temporary) = self.place(entry)?;
                let at = OsStr::from_bytes(&temporary);
                let _ = unlinkat(&folder, at, AtFlags::empty());
                let made = symlinkat(OsStr::from_bytes(target), &folder, at).and_then(|()| {
                    utimensat(&folder, at, &times(entry), AtFlags::SYMLINK_NOFOLLOW)
                });
                made.map_err(|errno| failed(errno.into()))?;
                (folder, name, temporary)
            }
        };
        let is_file = matches!(entry.kind, EntryKind::File { .. });
        let names = (&*folder, &name[..], &temporary[..]);
        // Most names are new, and the kernel says so in the call that gives them.
        if self.attributes.is_some() || !take_new_name(names) {
            self.replace(names, entry)?;
        }
        if sync && is_file {
            sync_folder(&*folder).map_err(failed)?;
        }
        Ok(None)
    }

    /// Gives the temporary file of `entry` its name, which another file may have.
    pub(super) fn replace(
        &self,
        (folder, name, temporary): (&OwnedFd, &[u8], &[u8]),
        entry: &Entry,
    ) -> Result<(), Error> {
        // One after the other: who looks must see what the others of this copy put there.
        let _turn = lock(&self.replacing);
        let path = self.path(entry);
        let there = statat(folder, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW).ok();
        self.refuse_to_replace(there.as_ref(), entry)?;
        self.set_attributes((folder, temporary), entry)?;
        self.take_name((folder, name, temporary), &path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists if self.only_new => is_there(&self.root, &path),
            _ => self.root.error("write", &path, &error),
        })
    }

    /// Refuses to have `entry` take the place of what is `there` where that is no file, or another
    /// file of the same tree.
    pub(super) fn refuse_to_replace(
        &self,
        there: Option<&Stat>,
        entry: &Entry,
    ) -> Result<(), Error> {
        if there.is_some() && self.only_new {
            return Err(is_there(&self.root, &self.path(entry)));
        }
        if there.is_some_and(is_no_file) {
            return Err(not_replaced(&self.root, &self.path(entry)));
        }
        self.refuse_same_name(there, entry)
    }

    /// Gives `temporary` of `folder` the name `name`, of the path `path`; where it is asked for,
    /// what has that name is kept.
    pub(super) fn take_name(
        &self,
        (folder, name, temporary): (&OwnedFd, &[u8], &[u8]),
        path: &[u8],
    ) -> io::Result<()> {
        match &self.backup {
            Some(backup) if !self.only_new => backup.replace((folder, name, temporary), path)?,
            _ => {
                let (from, to) = (OsStr::from_bytes(temporary), OsStr::from_bytes(name));
                match self.only_new {
                    true => rename_new((folder, from), (folder, to))?,
                    false => renameat(folder, from, folder, to)?,
                }
            }
        }
        Ok(())
    }

    /// Modes and times of folders come last: writing into a folder changes its time and needs its
    /// write bit. That of the top comes behind its journal's going.
    fn finish_folders(&self, landed: &mut Landed) {
        if !self.metadata {
            return;
        }
        for (index, entry) in self.layout.entries().iter().enumerate().rev() {
            if entry.kind != EntryKind::Directory || is_top(entry) || !self.may_change(index) {
                continue;
            }
            if let Err(error) = self.finish_folder(entry, true) {
                self.count_unfinished(entry, &error, landed);
            }
        }
        lock(&self.state).opened_up.keep_only(&self.start);
    }

    /// Mode and time of the folder that the tree begins with. The journal may have lain in it: its
    /// going changed the folder, and needed its write bit.
    fn finish_top(&self, landed: &mut Landed) {
        let mut entries = self.layout.entries().iter().enumerate();
        let top = entries.find(|(_, entry)| self.metadata && is_top(entry));
        let mut has_mode = false;
        if let Some((_, top)) = top.filter(|&(index, _)| self.may_change(index)) {
            let is_made = lock(&self.state).made.has_top();
            match self.finish_folder(top, is_made) {
                Ok(()) => has_mode = self.sets_mode_of_top(is_made),
                // One that is not ours keeps its time: the copy itself is whole.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                Err(error) => self.count_unfinished(top, &error, landed),
            }
        }
        let opened_up = &mut lock(&self.state).opened_up;
        match has_mode {
            true => opened_up.forget(),
            false => opened_up.restore(&self.root),
        }
    }

    fn count_unfinished(&self, folder: &Entry, error: &io::Error, landed: &mut Landed) {
        let error = self.root.error("set mode and time of", &self.path(folder), error);
        landed.failures.push((folder.path.clone(), error));
    }

    /// Sets its time and, unless it was there before the copy and belongs to others, its mode.
    fn finish_folder(&self, entry: &Entry, sets_mode: bool) -> io::Result<()> {
        if let Some(set) = self.set_folder(entry) {
            return set;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let folder = File::from(self.root.open_beneath(&self.path(entry), flags, 0)?);
        if sets_mode {
            folder.set_permissions(Permissions::from_mode(mode(entry)))?;
        }
        Ok(rustix::fs::futimens(&folder, &times(entry))?)
    }

    fn sync_all(&self) -> Result<(), Error> {
        let synced = self
            .root
            .open_beneath(b"", OFlags::RDONLY | OFlags::DIRECTORY, 0)
            .and_then(|fd| Ok(rustix::fs::syncfs(&fd)?));
        synced.map_err(|error| self.root.error("make durable", &self.start, &error))
    }
}

/// Gives `temporary` of `folder` the name `name`, unless something has it, or the file system knows
/// no such call.
fn take_new_name((folder, name, temporary): (&OwnedFd, &[u8], &[u8])) -> bool {
    let (from, to) = (OsStr::from_bytes(temporary), OsStr::from_bytes(name));
    renameat_with(folder, from, folder, to, RenameFlags::NOREPLACE).is_ok()
}

/// Whether it is the folder that a tree begins with.
pub(super) fn is_top(entry: &Entry) -> bool {
    entry.path.is_empty() && entry.kind == EntryKind::Directory
}

pub(in crate::stores) fn check_digest(
    index: usize,
    check: Option<(&VerdictList, &Digests)>,
) -> Result<(), Error> {
    let Some((verdicts, digests)) = check else { return Ok(()) };
    match (verdicts.get(index), digests.digest(index)) {
        (Some(DigestVerdict::Read(sent)), Some(got)) if sent == got => Ok(()),
        // Each block was compared when it came, in this run or before.
        (Some(DigestVerdict::Part), Some(_)) if digests.is_vouched(index) => Ok(()),
        (Some(DigestVerdict::Uncomputed), _) if digests.algorithm().is_none() => Ok(()),
        (Some(DigestVerdict::Unreadable), _) => Err(Error::new(
            Fault::There,
            ErrorCode::SourceUnreadable,
            "the sender could not read the file whole",
        )
        .hint("see the sender's own message; copy the file again")),
        (Some(DigestVerdict::Read(_)), _) => Err(Error::new(
            Fault::Between,
            ErrorCode::DigestMismatch,
            format!("the {} of what arrived differs from what was sent", name_of(digests)),
        )
        .hint("memory, a network card or a middlebox changed bytes; copy the file again")),
        (Some(DigestVerdict::Part | DigestVerdict::Uncomputed) | None, _) => Err(Error::new(
            Fault::There,
            ErrorCode::DigestMissing,
            "the sender said no digest for the file",
        )),
    }
}

/// What files are compared by, for people.
fn name_of(digests: &Digests) -> String {
    digests.algorithm().map_or_else(|| "digest".to_owned(), |algorithm| algorithm.to_string())
}

/// What a temporary file's owner may do with it.
const OWNERS: u32 = 0o600;

/// The mode that lands: set-user-id and its kin do not cross machines.
pub(super) fn mode(entry: &Entry) -> u32 {
    entry.mode & 0o777
}

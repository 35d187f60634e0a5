//! Partial transfers on disk: their hidden names, the lock that makes one writer of two, and the
//! journal of what is durable.
//!
//! `docs/protocol.md`, clauses. A place without a journal's records costs one
//! empty file, made and removed.

use super::hidden::{JOURNAL_TAIL, PARTIAL_TAIL, hidden};
use super::in_short;
use super::root::Root;
use super::walk::{changed_ns, join};
use crate::sys::files::sync_folder;
use crate::sys::fs_user::fs_uid;
use crate::sys::lock::lock;
use farline_core::transfer::journal::{
    self, HEAD_LEN, LandedFile, PartialOrigin, Recovered, Replay,
};
use farline_core::transfer::{DigestAlgorithm, Digests, Durability, Layout};
use farline_core::units::{ByteRanges, Error, ErrorCode, Fault};
use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, Stat, flock, fstat, openat, statat, unlinkat,
};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How long a writer that is being broken off may still hold its place.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The folder and the names in it that a transfer writes.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// The folder, below the root.
    pub(super) folder: Vec<u8>,
    /// The path of the layout below the folder.
    pub(super) prefix: Vec<u8>,
    names: BTreeSet<Vec<u8>>,
    /// Has taken the names in: there may be ten thousand, and each file needs its tag.
    tags: blake3::Hasher,
}

impl Place {
    fn new(folder: Vec<u8>, prefix: Vec<u8>, names: BTreeSet<Vec<u8>>) -> Place {
        let mut tags = blake3::Hasher::new_derive_key("farline 2026 partial transfer");
        for name in &names {
            tags.update(name).update(b"\0");
        }
        tags.update(b"\0");
        Place { folder, prefix, names, tags }
    }

    /// Where the entries of `layout` lie when they begin at `start`.
    pub(super) fn of(start: &[u8], layout: &Layout) -> Place {
        let first =
            |path: &[u8]| path.split(|&byte| byte == b'/').next().unwrap_or_default().to_vec();
        let names = match layout.entries().iter().any(|entry| entry.path.is_empty()) {
            true => BTreeSet::from([Vec::new()]),
            false => layout.entries().iter().map(|entry| first(&entry.path)).collect(),
        };
        Place::at(start, names)
    }

    /// Where entries whose paths begin with `names` lie when they begin at `start`; with an empty
    /// one among them it is `start` itself that is written.
    fn at(start: &[u8], names: BTreeSet<Vec<u8>>) -> Place {
        match names.contains(&b""[..]) {
            true if start.is_empty() => {
                Place::new(Vec::new(), Vec::new(), BTreeSet::from([Vec::new()]))
            }
            true => {
                let slash = start.iter().rposition(|&byte| byte == b'/');
                let (folder, name) =
                    slash.map_or((&b""[..], start), |slash| (&start[..slash], &start[slash + 1..]));
                Place::new(folder.to_vec(), name.to_vec(), BTreeSet::from([name.to_vec()]))
            }
            false => Place::new(start.to_vec(), Vec::new(), names),
        }
    }

    /// The same place, for what is written there next to what another transfer left.
    fn aside(&self) -> Place {
        let mut tags = self.tags.clone();
        tags.update(b"aside\0");
        Place { tags, ..self.clone() }
    }

    /// The place of `names` in a folder that is known otherwise.
    pub(super) fn of_names(names: BTreeSet<Vec<u8>>) -> Place {
        Place::new(Vec::new(), Vec::new(), names)
    }

    /// Twelve hexadecimal digits that tell the partial of `path`, below the folder, from those of
    /// other places.
    pub(super) fn tag(&self, path: &[u8]) -> String {
        self.tags.clone().update(path).finalize().to_hex()[..12].to_owned()
    }

    /// The hidden name under which `name`, the last part of `path` below the folder, is written.
    pub(super) fn temporary(&self, path: &[u8], name: &[u8]) -> Vec<u8> {
        hidden(name, &format!(".{}{PARTIAL_TAIL}", self.tag(path)))
    }

    pub(super) fn journal(&self) -> Vec<u8> {
        let name = match self.names.first() {
            Some(name) if self.names.len() == 1 && !name.is_empty() => name,
            _ => &b"several"[..],
        };
        hidden(name, &format!(".{}{JOURNAL_TAIL}", self.tag(b"")))
    }
}

/// Whether `folder` has a journal, with something in it, of a transfer that writes `name` there
/// alone, or the folder's content.
pub(crate) fn has_journal(folder: &Path, name: &[u8]) -> bool {
    let place = Place::of_names(BTreeSet::from([name.to_vec()]));
    std::fs::metadata(folder.join(OsStr::from_bytes(&place.journal())))
        .is_ok_and(|meta| meta.len() > 0)
}

/// The path of the journal of a transfer whose entries begin with `names` below `target`, an empty
/// one for `target` itself: as a node has it, whose paths are those below its root.
pub(crate) fn journal_path(target: &[u8], names: BTreeSet<Vec<u8>>) -> Vec<u8> {
    let (root, start) = match target.strip_prefix(b"/") {
        Some(start) => (&b"/"[..], start),
        None => (&b""[..], target),
    };
    let place = Place::at(start.strip_suffix(b"/").unwrap_or(start), names);
    [root, &join(&place.folder, &place.journal())].concat()
}

/// What a place holds of a transfer from before.
#[derive(Debug)]
#[non_exhaustive]
pub struct ResumeState {
    /// Whole blocks of the space.
    pub blocks: ByteRanges,
    /// The digests of what is held.
    pub digests: Digests,
    /// Files that have their final names already, by entry.
    pub landed: Vec<usize>,
}

impl ResumeState {
    /// Nothing.
    pub fn nothing(layout: &Layout, digests: Option<DigestAlgorithm>) -> ResumeState {
        ResumeState {
            blocks: ByteRanges::new(),
            digests: Digests::new(layout, digests),
            landed: Vec::new(),
        }
    }
}

/// A locked place, with its journal open.
#[derive(Debug)]
pub(super) struct Partial {
    place: Place,
    folder: OwnedFd,
    name: Vec<u8>,
    journal: File,
    /// Where the next record goes; `None` when nothing is journaled, or no more.
    end: Mutex<Option<u64>>,
    account: Option<Mutex<Durability>>,
    durable: Mutex<ByteRanges>,
    /// What another transfer left here and can go on from: it stays until this one has landed,
    /// which is written aside.
    left: BTreeSet<Vec<u8>>,
}

impl Partial {
    /// Locks the place of `layout` and finds what is left there of the transfer from `origin`; of
    /// any other the partials are removed. Without an origin nothing is kept or journaled, and what
    /// is left stays until that has landed.
    ///
    /// # Errors
    /// When another transfer writes there, or the folder cannot be written.
    pub(super) fn begin(
        root: &Root,
        place: Place,
        layout: &Arc<Layout>,
        origin: Option<PartialOrigin>,
    ) -> Result<(Partial, ResumeState), Error> {
        let shown = join(&place.folder, place.names.first().map_or(&b""[..], |name| name));
        let failed = |error: io::Error| root.error("write", &shown, &error);
        let folder = root
            .open_beneath(&place.folder, OFlags::RDONLY | OFlags::DIRECTORY, 0)
            .map_err(failed)?;
        let name = place.journal();
        let in_the_way = |error: io::Error| {
            let is_forbidden = error.kind() == io::ErrorKind::PermissionDenied;
            let said = failed(error);
            let is_there = statat(&folder, OsStr::from_bytes(&name), AtFlags::SYMLINK_NOFOLLOW);
            match is_there {
                // Anybody who may write to the folder may put something there: whoever wants the
                // name has to be told what.
                Ok(stat) if is_forbidden && !is_own(&stat) => said.hint(format!(
                    "user {} put {} there, in the place of a journal; who owns it or the folder may remove it",
                    stat.st_uid,
                    in_short(&root.shown(&join(&place.folder, &name)))
                )),
                _ => said,
            }
        };
        let journal = lock_journal(&folder, &name).map_err(in_the_way)?.ok_or_else(|| {
            let message =
                format!("another transfer is writing to {}", in_short(&root.shown(&shown)));
            Error::new(Fault::Refused, ErrorCode::Busy, message).hint(
                "wait for it to end; `farline partials ls` shows what is written there, and \
                    whether a running transfer still holds it",
            )
        })?;
        let mut partial = Partial {
            place,
            folder,
            name,
            journal,
            end: Mutex::new(None),
            account: None,
            durable: Mutex::default(),
            left: BTreeSet::new(),
        };
        let recovered = partial
            .replay(layout, origin.unwrap_or(PartialOrigin { source: [0; 32], digests: None }))
            .map_err(failed)?;
        let Some(origin) = origin else {
            partial.left = recovered.paths;
            return Ok((partial, ResumeState::nothing(layout, None)));
        };
        if recovered.matches || recovered.paths.is_empty() {
            return partial.resume(root, layout, origin, recovered).map_err(failed);
        }
        for path in &recovered.paths {
            partial.remove(root, path);
        }
        partial.journal.set_len(0).map_err(failed)?;
        let fresh = Recovered {
            matches: false,
            held: Default::default(),
            landed: Default::default(),
            block_len: None,
            valid_len: 0,
            digests: Digests::new(layout, origin.digests),
            paths: BTreeSet::new(),
        };
        partial.resume(root, layout, origin, fresh).map_err(failed)
    }

    /// Where what this transfer writes has its temporary names, where that is not where it writes.
    pub(super) fn aside(&self) -> Option<Place> {
        (!self.left.is_empty()).then(|| self.place.aside())
    }

    fn replay(&self, layout: &Layout, origin: PartialOrigin) -> io::Result<Recovered> {
        let mut replay = Replay::new(layout, &self.place.prefix, origin);
        let mut reader = BufReader::with_capacity(1 << 16, &self.journal);
        let (mut head, mut payload) = ([0; HEAD_LEN], Vec::new());
        while reader.read_exact(&mut head).is_ok() {
            let Some(len) = journal::payload_len(&head) else { break };
            payload.resize(len, 0);
            if reader.read_exact(&mut payload).is_err() || !replay.record(&head, &payload) {
                break;
            }
        }
        Ok(replay.finish())
    }

    fn resume(
        mut self,
        root: &Root,
        layout: &Arc<Layout>,
        origin: PartialOrigin,
        mut recovered: Recovered,
    ) -> io::Result<(Partial, ResumeState)> {
        let path_of =
            |entry: usize| journal::below(&self.place.prefix, &layout.entries()[entry].path);
        let mut forgotten = Vec::new();
        for entry in recovered.held.keys().copied().collect::<Vec<_>>() {
            let path = path_of(entry);
            let needed = recovered.held[&entry].iter().last().map_or(0, |range| range.end);
            if let Some(landed) = recovered.landed.get(&entry)
                && self.has_landed(root, &path, landed)
            {
                continue;
            }
            recovered.landed.remove(&entry);
            // What is not as we left it is not ours any more.
            if !self
                .stat(root, &path)
                .is_ok_and(|stat| is_own(&stat) && stat.st_size as u64 >= needed)
            {
                recovered.drop_entry(layout, entry);
                journal::forget(&path, &mut forgotten);
            }
        }
        let current: BTreeSet<Vec<u8>> =
            recovered.held.keys().map(|&entry| path_of(entry)).collect();
        for path in recovered.paths.difference(&current) {
            self.remove(root, path);
            journal::forget(path, &mut forgotten);
        }
        self.journal.set_len(recovered.valid_len)?;
        if !forgotten.is_empty() {
            // Before a new partial takes the name: else the old records would speak of it.
            self.journal.write_all_at(&forgotten, recovered.valid_len)?;
            self.journal.sync_data()?;
        }
        let end = recovered.valid_len + forgotten.len() as u64;
        let blocks = recovered.blocks(layout);
        let account = Durability::new(
            Arc::clone(layout),
            self.place.prefix.clone(),
            origin,
            blocks.clone(),
            recovered.block_len == Some(layout.block_len() as u64),
        );
        self.account = Some(Mutex::new(account));
        self.end = Mutex::new(Some(end));
        self.durable = Mutex::new(blocks.clone());
        let landed = recovered.landed.into_keys().collect();
        Ok((self, ResumeState { blocks, digests: recovered.digests, landed }))
    }

    /// The account of what was written, where a journal is kept.
    pub(super) fn account(&self) -> Option<MutexGuard<'_, Durability>> {
        self.account.as_ref().map(lock)
    }

    /// What is durable and journaled.
    pub(super) fn durable(&self) -> ByteRanges {
        lock(&self.durable).clone()
    }

    /// Makes durable what was written since the last time, with `sync` for the files, and journals
    /// it. Returns the files that are durable whole since.
    pub(super) fn checkpoint(&self, sync: impl FnOnce(&[usize]) -> io::Result<()>) -> Vec<usize> {
        // Held throughout: records go in the order of their batches.
        let mut end = lock(&self.end);
        let (Some(at), Some(account)) = (*end, &self.account) else { return Vec::new() };
        let Some(batch) = lock(account).batch() else { return Vec::new() };
        let entries: Vec<usize> = batch.entries().collect();
        let journaled = sync(&entries).and_then(|()| {
            let ((records, whole), durable) = {
                let mut account = lock(account);
                (account.commit(batch), account.durable().clone())
            };
            self.journal.write_all_at(&records, at)?;
            self.journal.sync_data()?;
            if at == 0 {
                sync_folder(&self.folder)?;
            }
            *lock(&self.durable) = durable;
            Ok((at + records.len() as u64, whole))
        });
        // A journal that cannot be written says no more; what it said stays true.
        let (next, whole) = journaled.ok().unzip();
        *end = next;
        whole.unwrap_or_default()
    }

    /// Journals that these files have their final names. Durable with the next checkpoint: of what
    /// is not, the name says nothing and the file comes again.
    pub(super) fn landed(&self, files: &[(usize, LandedFile)]) {
        if files.is_empty() {
            return;
        }
        let mut end = lock(&self.end);
        let Some(at) = *end else { return };
        let mut records = Vec::new();
        for (entry, file) in files {
            journal::landed(*entry as u32, file, &mut records);
        }
        let written = self.journal.write_all_at(&records, at);
        *end = written.ok().map(|()| at + records.len() as u64);
    }

    /// Its transfer left nothing: what another left, that can go on from.
    pub(super) fn give_back(&self, root: &Root) {
        if self.left.is_empty() {
            self.finish(root);
        }
    }

    /// Removes the journal: its transfer has landed, and nothing goes on from what another left.
    pub(super) fn finish(&self, root: &Root) {
        self.left.iter().for_each(|path| self.remove(root, path));
        *lock(&self.end) = None;
        // Gone already is as good.
        let _ = unlinkat(&self.folder, OsStr::from_bytes(&self.name), AtFlags::empty());
    }

    /// Removes the partial of `path`, below the folder.
    fn remove(&self, root: &Root, path: &[u8]) {
        if let Ok((folder, name)) = self.parent(root, path) {
            let temporary = self.place.temporary(path, &name);
            // It may never have been made.
            let _ = unlinkat(&folder, OsStr::from_bytes(&temporary), AtFlags::empty());
        }
    }

    fn stat(&self, root: &Root, path: &[u8]) -> io::Result<Stat> {
        let (folder, name) = self.parent(root, path)?;
        Ok(statat(
            &folder,
            OsStr::from_bytes(&self.place.temporary(path, &name)),
            AtFlags::SYMLINK_NOFOLLOW,
        )?)
    }

    /// Whether `path` still has the file that took this name.
    fn has_landed(&self, root: &Root, path: &[u8], landed: &LandedFile) -> bool {
        self.parent(root, path).is_ok_and(|(folder, name)| {
            let stat = statat(&folder, OsStr::from_bytes(&name), AtFlags::SYMLINK_NOFOLLOW);
            stat.is_ok_and(|stat| landed_as(&stat) == *landed)
        })
    }

    fn parent(&self, root: &Root, path: &[u8]) -> io::Result<(OwnedFd, Vec<u8>)> {
        root.parent(&join(&self.place.folder, path))
    }
}

/// What tells a file that landed.
pub(super) fn landed_as(stat: &Stat) -> LandedFile {
    LandedFile { inode: stat.st_ino, changed_ns: changed_ns(stat) }
}

/// Whether a file may be what we left: in a folder that others write to, a name proves nothing.
pub(super) fn is_own(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        && stat.st_nlink == 1
        && stat.st_uid == fs_uid()
}

/// Opens and locks the journal `name`; `None` when another holds it.
pub(super) fn lock_journal(folder: &impl AsFd, name: &[u8]) -> io::Result<Option<File>> {
    let deadline = Instant::now() + TIMEOUT;
    let name = OsStr::from_bytes(name);
    loop {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = File::from(openat(folder, name, flags, Mode::from_raw_mode(0o600))?);
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                let opened = fstat(&file)?;
                // Whoever held it may have removed it while we waited: then the name is another
                // file's, or nobody's.
                let named = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
                if named.is_ok_and(|named| {
                    (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)
                }) {
                    if !is_own(&opened) {
                        let text = "a journal of another user is in the way";
                        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
                    }
                    return Ok(Some(file));
                }
            }
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() >= deadline => return Ok(None),
            Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(Duration::from_millis(20)),
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farline_core::transfer::{Entry, EntryKind};

    #[test]
    fn a_journal_is_where_a_client_looks_for_it() {
        let entry = |path: &str| Entry {
            path: path.as_bytes().to_vec(),
            kind: EntryKind::File { len: 1 },
            mode: 0o644,
            modified_ns: 0,
            changed_ns: 0,
            attributes: None,
        };
        // What is sent, from where below the root, and what a client says of it.
        for (start, paths, target, names) in [
            ("data", &["run7/a", "run7/b/c"][..], "/data", &["run7"][..]),
            ("data", &["run7/a", "x"], "/data/", &["run7", "x"]),
            ("data/x", &[""], "/data/x", &[""]),
            ("x", &[""], "/x", &[""]),
            ("x", &["", "a"], "/x", &["", "b"]),
            ("", &["f"], "/", &["f"]),
            ("", &["", "f"], "/", &[""]),
        ] {
            let layout = Layout::new(paths.iter().copied().map(entry).collect(), 1 << 20);
            let place = Place::of(start.as_bytes(), &layout);
            let there = join(&place.folder, &place.journal());
            let names = names.iter().map(|name| name.as_bytes().to_vec()).collect();
            let path = journal_path(target.as_bytes(), names);
            assert_eq!(path, [b"/", &there[..]].concat(), "{start} {paths:?}");
        }
        let below_home = journal_path(b"data/x", BTreeSet::from([Vec::new()]));
        assert!(below_home.starts_with(b"data/.x."), "{:?}", String::from_utf8_lossy(&below_home));
    }
}

//! What broken-off transfers left below a folder: found with the state of each, and removed where
//! no running transfer holds it.
//!
//! `docs/protocol.md`, clauses. A partial file belongs to a journal next to it or in a
//! folder above, which may lie outside the folder that is searched; who holds that journal's lock
//! may be writing it.

use super::hidden::{Hidden, NAME_MAX, recognise};
use super::partial::Place;
use super::storage_error;
use super::walk::{WalkProblem, join};
use crate::sys::clock::since_1970;
use farline_core::transfer::journal::{HEAD_LEN, Survey, Surveyed, payload_len};
use farline_core::units::{Error, ErrorCode, Fault, Span};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, flock, fstat, open, statat, unlinkat};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A partial file, or a journal that has none.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leftover {
    /// What it was to become.
    pub target: PathBuf,
    /// The partial file; `None` for a journal without one.
    pub partial: Option<PathBuf>,
    /// The journal that it belongs to, where one is found.
    pub journal: Option<PathBuf>,
    /// Bytes that the same command would not send again.
    pub durable: u64,
    /// Bytes of the whole file; known once something of it is durable.
    pub total: Option<u64>,
    /// Bytes that it takes up.
    pub on_disk: u64,
    /// How long ago it was last changed.
    pub age: Span,
    /// Whether a running transfer holds it; `None` when this cannot be told.
    pub running: Option<bool>,
    /// Device and inode of the partial file, or of the journal without one: a name may be another
    /// file's since.
    identity: (u64, u64),
    /// Whether its journal lies in the folder that was searched.
    is_inside: bool,
}

/// A leftover and what became of its removal.
pub type Removal = (Leftover, Result<(), Error>);

/// What is found below a folder.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Leftovers {
    /// In the order of their folders and names.
    pub found: Vec<Leftover>,
    /// Folders that could not be read.
    pub problems: Vec<WalkProblem>,
}

/// A journal, read.
struct Journal {
    path: PathBuf,
    folder: PathBuf,
    name: Vec<u8>,
    /// `None` when its transfer writes several names and has not journaled all of them.
    place: Option<Place>,
    files: BTreeMap<Vec<u8>, Surveyed>,
    running: Option<bool>,
    meta: Metadata,
    /// Whether it lies in the folder that is searched.
    is_inside: bool,
}

impl Leftovers {
    /// Searches `folder` and everything below it; symbolic links are not followed.
    ///
    /// # Errors
    /// When `folder` cannot be read.
    pub fn below(folder: &Path) -> Result<Leftovers, Error> {
        let failed =
            |error: io::Error| storage_error("read", folder.as_os_str().as_bytes(), &error);
        let top = folder.canonicalize().map_err(failed)?;
        let (mut journals, mut partials, mut problems) = (Vec::new(), Vec::new(), Vec::new());
        let mut open = vec![top.clone()];
        while let Some(at) = open.pop() {
            match list(&at) {
                Ok(items) => {
                    for (path, meta) in items {
                        match recognise(name_of(&path)).filter(|_| meta.is_file()) {
                            Some(known) if known.is_journal => {
                                journals.extend(Journal::read(&path, known, meta, true))
                            }
                            Some(known) => partials.push((path, known, meta)),
                            None if meta.is_dir() => open.push(path),
                            None => {}
                        }
                    }
                }
                Err(error) if at == top => return Err(failed(error)),
                Err(error) => {
                    let path = at.as_os_str().as_bytes().to_vec();
                    problems
                        .push(WalkProblem { error: storage_error("list", &path, &error), path });
                }
            }
        }
        let mut is_blind = false;
        for above in top.ancestors().skip(1) {
            // What cannot be read may hold the journal of what is found.
            let items = list(above).unwrap_or_else(|_| {
                is_blind = true;
                Vec::new()
            });
            for (path, meta) in items {
                let known =
                    recognise(name_of(&path)).filter(|known| known.is_journal && meta.is_file());
                journals.extend(known.and_then(|known| Journal::read(&path, known, meta, false)));
            }
        }
        let mut found: Vec<Leftover> = partials
            .into_iter()
            .map(|(path, known, meta)| of_partial(&journals, is_blind, path, &known, &meta))
            .collect();
        let claimed: BTreeSet<PathBuf> =
            found.iter().filter_map(|left| left.journal.clone()).collect();
        let bare = journals
            .into_iter()
            .filter(|journal| journal.is_inside && !claimed.contains(&journal.path));
        found.extend(bare.map(|journal| Leftover {
            target: journal.folder.join(OsStr::from_bytes(&journal.name)),
            partial: None,
            durable: 0,
            total: None,
            on_disk: journal.meta.blocks() * 512,
            age: age(&journal.meta),
            running: journal.running,
            identity: identity(&journal.meta),
            is_inside: true,
            journal: Some(journal.path),
        }));
        found.sort_by(|a, b| a.target.cmp(&b.target));
        Ok(Leftovers { found, problems })
    }

    /// Removes those of `found` that `wanted` names and nobody holds, and returns each and
    /// what became of it.
    pub fn remove(&self, wanted: &dyn Fn(&Leftover) -> bool) -> Vec<Removal> {
        let mut groups: BTreeMap<Option<&Path>, Vec<&Leftover>> = BTreeMap::new();
        for left in &self.found {
            groups.entry(left.journal.as_deref()).or_default().push(left);
        }
        let mut outcome = Vec::new();
        for (journal, group) in groups {
            let wanted: Vec<&Leftover> =
                group.iter().copied().filter(|left| wanted(left)).collect();
            if wanted.is_empty() {
                continue;
            }
            // Held until its partial files are gone: a transfer that begins meanwhile waits for it.
            let lock = journal.map(lock_if_free).unwrap_or(Ok(None));
            let results: Vec<Result<(), Error>> =
                wanted.iter().map(|left| left.remove(&lock)).collect();
            let is_all = wanted.len() == group.len()
                && wanted.iter().all(|left| left.is_inside && left.partial.is_some())
                && results.iter().all(Result::is_ok);
            if let (Some(journal), Ok(Some(_)), true) = (journal, &lock, is_all) {
                // Kept it does no harm.
                let _ = std::fs::remove_file(journal);
            }
            outcome.extend(wanted.into_iter().cloned().zip(results));
        }
        // Of a journal above the searched folder there may be more elsewhere: it goes with the
        // last.
        let done = outcome.iter().filter(|(left, result)| result.is_ok() && !left.is_inside);
        for journal in done.filter_map(|(left, _)| left.journal.as_deref()).collect::<BTreeSet<_>>()
        {
            if let Some(Ok(around)) = journal.parent().map(Leftovers::below) {
                around.remove(&|left| {
                    left.partial.is_none() && left.journal.as_deref() == Some(journal)
                });
            }
        }
        outcome
    }
}

impl Leftover {
    fn remove(&self, lock: &Result<Option<File>, Error>) -> Result<(), Error> {
        let path = self.partial.as_deref().or(self.journal.as_deref()).unwrap_or(&self.target);
        match (lock, self.running) {
            (Err(error), _) => return Err(error.clone()),
            (Ok(None), Some(true)) => return Err(held(path)),
            (Ok(None), None) => {
                let message =
                    format!("cannot tell whether a running transfer writes {}", path.display());
                return Err(Error::new(Fault::Refused, ErrorCode::Busy, message).hint(
                    "run it as the user who owns the journals there, or when no transfer is \
                        running",
                ));
            }
            _ => {}
        }
        let failed =
            |error: io::Error| storage_error("remove", path.as_os_str().as_bytes(), &error);
        let folder = open(
            path.parent().unwrap_or(Path::new("/")),
            OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        );
        let folder = folder.map_err(|errno| failed(errno.into()))?;
        let name = OsStr::from_bytes(name_of(path));
        match statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if (stat.st_dev, stat.st_ino) == self.identity => {
                unlinkat(&folder, name, AtFlags::empty()).map_err(|errno| failed(errno.into()))
            }
            Ok(_) => Err(Error::new(
                Fault::Refused,
                ErrorCode::Busy,
                format!("{} was written anew meanwhile", path.display()),
            )
            .hint("a transfer has begun there: `farline partials ls` shows it")),
            // Its transfer came to its end, or somebody else removed it.
            Err(rustix::io::Errno::NOENT) => Ok(()),
            Err(errno) => Err(failed(errno.into())),
        }
    }
}

impl Journal {
    /// Reads the journal at `path`; `None` when it is gone meanwhile.
    fn read(path: &Path, known: Hidden, meta: Metadata, is_inside: bool) -> Option<Journal> {
        let (mut survey, mut running) = (Survey::default(), None);
        match open(
            path,
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC,
            Mode::empty(),
        ) {
            Ok(fd) => {
                // Shared, and let go at once: a transfer that begins meanwhile tries again, and two
                // of us do not see each other.
                running = match flock(&fd, FlockOperation::NonBlockingLockShared) {
                    Ok(()) => Some(false),
                    Err(rustix::io::Errno::WOULDBLOCK) => Some(true),
                    Err(_) => None,
                };
                let _ = flock(&fd, FlockOperation::Unlock);
                let mut reader = BufReader::with_capacity(1 << 16, File::from(fd));
                let (mut head, mut payload) = ([0; HEAD_LEN], Vec::new());
                while reader.read_exact(&mut head).is_ok() {
                    let Some(len) = payload_len(&head) else { break };
                    payload.resize(len, 0);
                    if reader.read_exact(&mut payload).is_err() || !survey.record(&head, &payload) {
                        break;
                    }
                }
            }
            Err(rustix::io::Errno::NOENT) => return None,
            // Another user's: it is there, and who holds it is not for us to see.
            Err(_) => {}
        }
        let files = survey.files();
        let first =
            |path: &Vec<u8>| path.split(|&byte| byte == b'/').next().unwrap_or_default().to_vec();
        let candidates = [
            BTreeSet::from([known.name.clone()]),
            BTreeSet::from([Vec::new()]),
            files.keys().map(first).collect(),
        ];
        // The tag vouches for the guess.
        let place =
            candidates.into_iter().map(Place::of_names).find(|place| place.tag(b"") == known.tag);
        let folder = path.parent().unwrap_or(Path::new("/")).to_owned();
        Some(Journal {
            path: path.to_owned(),
            folder,
            name: known.name,
            place,
            files,
            running,
            meta,
            is_inside,
        })
    }

    /// The path, below the journal's folder, of the file whose partial lies in `folder` under the
    /// name `hidden`, if it is of this place.
    fn path_of(&self, folder: &Path, hidden: &[u8], known: &Hidden) -> Option<Vec<u8>> {
        let rest = folder.strip_prefix(&self.folder).ok()?.as_os_str().as_bytes();
        let path = join(rest, &known.name);
        let Some(place) = &self.place else {
            return self.files.contains_key(&path).then_some(path);
        };
        if place.tag(&path) == known.tag {
            return Some(path);
        }
        // A cut name is told by the journal alone.
        let is_it = |path: &&Vec<u8>| {
            let (at, name) = split(path);
            at == rest && place.temporary(path, name) == hidden
        };
        if hidden.len() == NAME_MAX { self.files.keys().find(is_it).cloned() } else { None }
    }
}

fn of_partial(
    journals: &[Journal],
    is_blind: bool,
    path: PathBuf,
    known: &Hidden,
    meta: &Metadata,
) -> Leftover {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let owners = || {
        journals
            .iter()
            .filter_map(|journal| Some((journal, journal.path_of(folder, name_of(&path), known)?)))
    };
    let owner = owners().find(|(journal, _)| journal.place.is_some()).or_else(|| owners().next());
    let mut left = Leftover {
        target: folder.join(OsStr::from_bytes(&known.name)),
        journal: None,
        durable: 0,
        total: None,
        on_disk: meta.blocks() * 512,
        age: age(meta),
        // Nobody writes without a journal: only one whose place is unknown can be this one's.
        running: if is_blind { None } else { Some(false) },
        identity: identity(meta),
        is_inside: true,
        partial: None,
    };
    if let Some((journal, path)) = owner {
        left.target = journal.folder.join(OsStr::from_bytes(&path));
        left.journal = Some(journal.path.clone());
        left.running = journal.running;
        left.is_inside = journal.is_inside;
        if let Some(file) = journal.files.get(&path) {
            (left.durable, left.total) = (file.held.total(), Some(file.facts.len));
        }
    } else if journals.iter().any(|other| {
        other.place.is_none() && other.running != Some(false) && folder.starts_with(&other.folder)
    }) {
        left.running = None;
    }
    left.partial = Some(path);
    left
}

/// Locks the journal at `path` for a removal; `None` when it is gone.
pub(crate) fn lock_if_free(path: &Path) -> Result<Option<File>, Error> {
    let failed = |errno: rustix::io::Errno| {
        storage_error("lock", path.as_os_str().as_bytes(), &errno.into())
    };
    let file = match open(
        path,
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC,
        Mode::empty(),
    ) {
        Ok(fd) => File::from(fd),
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(failed(errno)),
    };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => return Err(held(path)),
        Err(errno) => return Err(failed(errno)),
    }
    // Whoever held it may have removed it, and another may have begun under its name.
    let (opened, named) = (fstat(&file).map_err(failed)?, std::fs::symlink_metadata(path));
    match named {
        Ok(named) if identity(&named) == (opened.st_dev, opened.st_ino) => Ok(Some(file)),
        Ok(_) => Err(held(path)),
        Err(_) => Ok(None),
    }
}

fn held(path: &Path) -> Error {
    Error::new(
        Fault::Refused,
        ErrorCode::Busy,
        format!("a running transfer holds {}", path.display()),
    )
    .hint("wait for it to end, or end it; then run the same command again")
}

fn list(folder: &Path) -> io::Result<Vec<(PathBuf, Metadata)>> {
    let items = std::fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    // What went away meanwhile is not there.
    Ok(items.into_iter().filter_map(|item| Some((item.path(), item.metadata().ok()?))).collect())
}

/// Not by the modification time: a partial file that is whole has its source's already.
fn age(meta: &Metadata) -> Span {
    let changed = Duration::new(meta.ctime().max(0) as u64, meta.ctime_nsec().max(0) as u32);
    since_1970().saturating_sub(changed).into()
}

fn identity(meta: &Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}

fn name_of(path: &Path) -> &[u8] {
    path.file_name().map(OsStrExt::as_bytes).unwrap_or_default()
}

/// The folder of `path` and its last name.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
}

//! Lists a tree below a root as the entries of a transfer, parents before children, in the order of
//! their names.

use super::hidden::recognise;
use super::in_short;
use super::not_kept::LinkedFiles;
use super::root::Root;
use crate::sys::files::names_in;
use farline_core::transfer::{Entry, EntryKind};
use farline_core::units::{Error, ErrorCode, Fault};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT, openat, readlinkat,
    statat,
};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

/// Bytes that an entry takes, or why there is none, next to twice its path, about.
const OF_ENTRY: u64 = size_of::<Entry>() as u64 + 64;
/// Names of one folder between two looks at what they take.
const METERED_AT_ONCE: usize = 1024;

/// Something in the tree that cannot be copied, and why; the rest of the tree is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkProblem {
    /// Its path below the walked folder.
    pub path: Vec<u8>,
    /// What is wrong with it.
    pub error: Error,
}

/// Lists `start` (a folder below `root`, empty for the root itself) and everything in it.
///
/// Partial files and journals of other transfers are left out: nobody means to copy them, and at
/// the destination they would pass for its own. Symbolic links are listed as links and not
/// followed. Devices, sockets and FIFOs are problems, as is what may not be read.
///
/// # Errors
/// When `start` itself cannot be listed.
pub fn walk(root: &Root, start: &[u8]) -> Result<Walked, Error> {
    walk_linked(root, start).map(|(walked, _)| walked)
}

/// What was listed, and what of the tree cannot be copied.
pub(crate) type Walked = (Vec<Entry>, Vec<WalkProblem>);

/// The same, with the files that have more than one name, there or elsewhere.
pub(crate) fn walk_linked(root: &Root, start: &[u8]) -> Result<(Walked, LinkedFiles), Error> {
    walk_metered(root, start, &mut |_| Ok(()))
}

/// The same; `meter` is told now and then how many bytes of memory that takes by now, about, and
/// ends it where there are no more.
pub(crate) fn walk_metered(
    root: &Root,
    start: &[u8],
    meter: &mut dyn FnMut(u64) -> Result<(), Error>,
) -> Result<(Walked, LinkedFiles), Error> {
    let (mut linked, mut taken) = (LinkedFiles::new(), 0);
    let top = root.stat(start).map_err(|error| root.error("read", start, &error))?;
    let mut entries = vec![entry(Vec::new(), EntryKind::Directory, &top)];
    let mut problems = Vec::new();
    let mut folders = vec![Vec::new()];
    while let Some(folder) = folders.pop() {
        meter(taken)?;
        match list(root, start, &folder) {
            Ok((opened, mut names)) => {
                names.sort();
                let mut below = Vec::new();
                for (index, name) in names.into_iter().enumerate() {
                    if index % METERED_AT_ONCE == METERED_AT_ONCE - 1 {
                        meter(taken)?;
                    }
                    let path = join(&folder, &name);
                    taken += OF_ENTRY + 2 * path.len() as u64;
                    match stat_entry_in(root, (&opened, &name), &join(start, &path), &path) {
                        Ok((entry, _))
                            if matches!(entry.kind, EntryKind::File { .. })
                                && recognise(&name).is_some() => {}
                        Ok((entry, stat)) => {
                            if stat.st_nlink > 1 && matches!(entry.kind, EntryKind::File { .. }) {
                                linked.insert(path.clone(), (stat.st_dev, stat.st_ino));
                            }
                            if entry.kind == EntryKind::Directory {
                                below.push(path);
                            }
                            entries.push(entry);
                        }
                        Err(error) => problems.push(WalkProblem { path, error }),
                    }
                }
                below.reverse();
                folders.append(&mut below);
            }
            Err(error) if folder.is_empty() => return Err(error),
            Err(error) => problems.push(WalkProblem { path: folder, error }),
        }
    }
    Ok(((entries, problems), linked))
}

/// `folder/name`, or `name` in the root.
pub(crate) fn join(folder: &[u8], name: &[u8]) -> Vec<u8> {
    match (folder.is_empty(), name.is_empty()) {
        (true, _) => name.to_vec(),
        (_, true) => folder.to_vec(),
        _ => [folder, b"/", name].concat(),
    }
}

/// The folders above `path`, the outermost first, without the root.
pub(crate) fn folders_above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    (0..path.len()).filter(|&at| path[at] == b'/').map(|at| &path[..at])
}

/// The entry of one path, as `path` in the transfer.
pub(crate) fn stat(root: &Root, at: &[u8], path: &[u8]) -> Result<Entry, Error> {
    stat_entry(root, at, path).map(|(entry, _)| entry)
}

/// The same, and which file it is.
pub(crate) fn stat_entry(root: &Root, at: &[u8], path: &[u8]) -> Result<(Entry, Stat), Error> {
    let failed = |error: io::Error| root.error("read", at, &error);
    if at.is_empty() {
        let top = root.stat(at).map_err(failed)?;
        return Ok((entry(path.to_vec(), EntryKind::Directory, &top), top));
    }
    let (folder, name) = root.parent(at).map_err(failed)?;
    stat_entry_in(root, (&folder, &name), at, path)
}

/// The same of what has this name in an open folder, which is opened once for all that is in it.
fn stat_entry_in(
    root: &Root,
    (folder, name): (&OwnedFd, &[u8]),
    at: &[u8],
    path: &[u8],
) -> Result<(Entry, Stat), Error> {
    let failed = |errno: Errno| root.error("read", at, &errno.into());
    let name = OsStr::from_bytes(name);
    let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => EntryKind::Directory,
        FileType::RegularFile => {
            if stat.st_size == 0 && holds_more(folder, name) {
                return Err(size_untrue(&root.shown(at), "has content, and a size of 0"));
            }
            EntryKind::File { len: stat.st_size as u64 }
        }
        FileType::Symlink => {
            let target = readlinkat(folder, name, Vec::new()).map_err(failed)?;
            EntryKind::Symlink { target: target.into_bytes().into() }
        }
        other => {
            let message =
                format!("{} is a {}, not a file", in_short(&root.shown(at)), describe(other));
            return Err(Error::new(Fault::You, ErrorCode::NotAFile, message));
        }
    };
    Ok((entry(path.to_vec(), kind, &stat), stat))
}

/// Whether a file whose size says 0 has content, as those have that a kernel writes when they are
/// read (proc(5)); a copy by its size would be empty and no copy.
fn holds_more(folder: &OwnedFd, name: &OsStr) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    // What may not be read is found when it is copied.
    openat(folder, name, flags, Mode::empty())
        .is_ok_and(|file| rustix::io::read(&file, &mut [0; 1]).is_ok_and(|len| len > 0))
}

/// The error of a file at `path` whose size is not that of its content.
pub(super) fn size_untrue(path: &[u8], how: &str) -> Error {
    let message =
        format!("{} {how}: no file of a disk, and not copied by its size", in_short(path));
    Error::new(Fault::Here, ErrorCode::SourceUnreadable, message)
        .hint("pipe what it says: cat FILE | farline cp - DESTINATION")
}

/// Opens a folder and lists the names in it.
fn list(root: &Root, start: &[u8], folder: &[u8]) -> Result<(OwnedFd, Vec<Vec<u8>>), Error> {
    let at = join(start, folder);
    let failed = |error: io::Error| root.error("list", &at, &error);
    let fd = root.open_beneath(&at, OFlags::RDONLY | OFlags::DIRECTORY, 0).map_err(failed)?;
    let names = names_in(&fd).map_err(failed)?;
    Ok((fd, names))
}

fn entry(path: Vec<u8>, kind: EntryKind, stat: &Stat) -> Entry {
    // A folder changes with everything that comes and goes in it.
    let changed_ns = if matches!(kind, EntryKind::File { .. }) { changed_ns(stat) } else { 0 };
    Entry {
        path,
        kind,
        mode: stat.st_mode & 0o7777,
        modified_ns: modified_ns(stat),
        changed_ns,
        attributes: None,
    }
}

/// When it was last written to, in nanoseconds since the Unix epoch.
pub(super) fn modified_ns(stat: &Stat) -> i64 {
    nanos(stat.st_mtime, stat.st_mtime_nsec as i64)
}

/// The same of an entry, to be set; when it was read last is left as it is.
pub(crate) fn times(entry: &Entry) -> Timestamps {
    let modified = Timespec {
        tv_sec: entry.modified_ns.div_euclid(1_000_000_000),
        tv_nsec: entry.modified_ns.rem_euclid(1_000_000_000) as _,
    };
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT as _ },
        last_modification: modified,
    }
}

/// When it last changed in any way, in nanoseconds since the Unix epoch.
pub(super) fn changed_ns(stat: &Stat) -> i64 {
    nanos(stat.st_ctime, stat.st_ctime_nsec as i64)
}

/// So much after the Unix epoch in nanoseconds. A time beyond their range is the nearest in it,
/// which is also what it reads as where it was set.
fn nanos(seconds: i64, nanos: i64) -> i64 {
    let exact = i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    exact.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

fn describe(kind: FileType) -> &'static str {
    match kind {
        FileType::Fifo => "FIFO",
        FileType::Socket => "socket",
        FileType::CharacterDevice | FileType::BlockDevice => "device",
        _ => "thing of unknown kind",
    }
}

/// Whether `path` is a device, FIFO or socket: what a transfer never replaces.
pub(crate) fn is_special(folder: &impl std::os::fd::AsFd, name: &[u8]) -> bool {
    statat(folder, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| is_no_file(&stat))
}

/// The error of a path at which there is such a thing, which no file replaces.
pub(super) fn not_replaced(root: &Root, path: &[u8]) -> Error {
    let shown = root.shown(path);
    let message = format!("{} is a device, FIFO or socket and is not replaced", in_short(&shown));
    Error::new(Fault::You, ErrorCode::SpecialFile, message)
}

/// Whether it is a device, FIFO or socket.
pub(super) fn is_no_file(stat: &Stat) -> bool {
    !matches!(
        FileType::from_raw_mode(stat.st_mode),
        FileType::RegularFile | FileType::Directory | FileType::Symlink
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_beyond_the_range_reads_as_it_was_set() {
        const YEAR_ONE: i64 = -62_135_596_800;
        assert_eq!((nanos(YEAR_ONE, 0), nanos(YEAR_ONE, 500_000_000)), (i64::MIN, i64::MIN));
        assert_eq!((nanos(i64::MAX, 1), nanos(-1, 999_999_999)), (i64::MAX, -1));
        for (seconds, after) in [(YEAR_ONE, 5), (i64::MIN, 0), (i64::MAX, 999_999_999), (7, 8)] {
            let modified_ns = nanos(seconds, after);
            let entry = Entry {
                path: b"f".to_vec(),
                kind: EntryKind::File { len: 1 },
                mode: 0o644,
                modified_ns,
                changed_ns: 0,
                attributes: None,
            };
            let set = times(&entry).last_modification;
            assert_eq!(nanos(set.tv_sec, set.tv_nsec as _), modified_ns);
        }
    }

    #[test]
    fn only_farlines_partials_and_journals_are_left_out() {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(dir.path().join("d/.d.0123456789ab.farline")).expect("folders");
        for name in [
            "a",
            ".a.0123456789ab.farline",
            "d/.b.ba9876543210.journal.farline",
            ".config.farline",
            "d/.b.xyz.farline",
        ] {
            std::fs::write(dir.path().join(name), b"x").expect("written");
        }
        let (entries, problems) =
            walk(&Root::open(dir.path()).expect("opened"), b"").expect("walked");
        let paths: Vec<_> =
            entries.iter().map(|entry| String::from_utf8_lossy(&entry.path).into_owned()).collect();
        assert_eq!(
            paths,
            ["", ".config.farline", "a", "d", "d/.b.xyz.farline", "d/.d.0123456789ab.farline"]
        );
        assert!(problems.is_empty(), "{problems:?}");
    }

    #[test]
    fn a_walk_ends_where_its_memory_does() {
        let dir = tempfile::tempdir().expect("a folder");
        for index in 0..3 * METERED_AT_ONCE {
            std::fs::write(dir.path().join(index.to_string()), b"").expect("written");
        }
        let root = Root::open(dir.path()).expect("opened");
        let mut told = Vec::new();
        let full = || Error::new(Fault::Refused, ErrorCode::ListMemory, "enough");
        let ended = walk_metered(&root, b"", &mut |taken| {
            told.push(taken);
            if taken > OF_ENTRY * 1_500 { Err(full()) } else { Ok(()) }
        });
        assert_eq!(ended.map(drop), Err(full()));
        assert_eq!(told.len(), 3, "before the folder, and after each 1,024 names: {told:?}");
    }
}

//! Reads the files of a tree: each is opened at its first piece and closed after its last, or
//! earlier where too many others are open.

use super::file_limit::{FileLimit, LEAST_OPEN, most_open};
use super::listed::{Part, is_as_listed, place_in};
use super::openfile::{DirectIo, OpenFile};
use super::prefetch::Prefetch;
use super::root::Root;
use super::walk::size_untrue;
use super::{Source, in_short};
use crate::sys::pacing_limits::PacingLimit;
use farline_core::transfer::Layout;
use farline_core::units::{Error, ErrorCode, Fault};
use rustix::fs::{Advice, OFlags, fadvise};
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Below this length a file is not worth system calls besides those that read it.
const SHORT: u64 = 128 << 10;

/// The files of a layout, below one folder or several.
#[derive(Debug)]
pub struct PosixSource {
    parts: Vec<Part>,
    layout: Arc<Layout>,
    /// Where the transfer begins in its one file, of which nothing was listed beforehand.
    part: Option<u64>,
    direct: DirectIo,
    prefetched: Prefetch,
    limit: FileLimit,
    open: Mutex<OpenFiles>,
}

/// Files of which more is to be read.
#[derive(Debug, Default)]
struct OpenFiles {
    /// By their entries, with the bytes that are to come.
    files: HashMap<usize, (Arc<OpenFile>, u64)>,
    /// The first that was opened first.
    order: VecDeque<usize>,
}

impl OpenFiles {
    /// The file of an entry of which `len` bytes are read now; after the last ones it is closed.
    fn take(&mut self, entry: usize, len: u64) -> Option<Arc<OpenFile>> {
        let (file, left) = self.files.get_mut(&entry)?;
        let file = Arc::clone(file);
        *left = left.saturating_sub(len);
        if *left == 0 {
            self.files.remove(&entry);
            self.order.retain(|&other| other != entry);
        }
        Some(file)
    }

    /// Keeps `file`, of which `left` bytes are to come once `len` more were read. What a peer does
    /// not want of a file never comes: those that were opened first are closed, and opened again
    /// where more of them is read. Returns whether one was.
    fn keep(&mut self, entry: usize, file: &Arc<OpenFile>, (left, len): (u64, u64)) -> bool {
        if !self.files.contains_key(&entry) {
            self.order.push_back(entry);
        }
        let (_, rest) = self.files.entry(entry).or_insert_with(|| (Arc::clone(file), left));
        *rest = rest.saturating_sub(len);
        if *rest == 0 {
            self.files.remove(&entry);
            self.order.retain(|&other| other != entry);
        }
        let most = if file.has_place() { most_open() } else { LEAST_OPEN };
        let beyond = self.order.len().saturating_sub(most);
        for oldest in self.order.drain(..beyond) {
            self.files.remove(&oldest);
        }
        beyond > 0
    }
}

impl PosixSource {
    /// The entries of `layout`, whose paths are below `start`. An entry with an empty path is
    /// `start` itself.
    pub fn new(root: Arc<Root>, start: Vec<u8>, layout: Arc<Layout>) -> PosixSource {
        PosixSource::of_parts(vec![Part { first: 0, root, start, strip: 0 }], layout)
    }

    /// Entries that lie in several places; `parts` are ascending and the first begins at entry 0.
    pub fn of_parts(parts: Vec<Part>, layout: Arc<Layout>) -> PosixSource {
        PosixSource {
            parts,
            layout,
            part: None,
            direct: DirectIo::default(),
            prefetched: Prefetch::default(),
            limit: FileLimit::default(),
            open: Mutex::default(),
        }
    }

    /// The same source of one file from `offset` on, whose layout holds nothing but the length of
    /// the part: a plain `RETR`, to which a file that grows is none the worse.
    #[must_use]
    pub fn part_from(mut self, offset: u64) -> PosixSource {
        self.part = Some(offset);
        self
    }

    /// The same source, which reads past the page cache where `direct` says so and the file system
    /// can.
    #[must_use]
    pub fn directly(mut self, direct: DirectIo) -> PosixSource {
        self.direct = direct;
        self
    }

    /// The same source, whose files have their places among those of `limit`.
    #[must_use]
    pub(crate) fn within(mut self, limit: FileLimit) -> PosixSource {
        self.limit = limit;
        self
    }

    /// The same source, of which some was read already.
    #[must_use]
    pub(crate) fn with_prefetched(mut self, prefetched: Prefetch) -> PosixSource {
        self.prefetched = prefetched;
        self
    }

    fn place(&self, entry: usize) -> (&Root, Vec<u8>) {
        let (root, path) = place_in(&self.parts, entry, &self.layout.entries()[entry].path);
        (root, path)
    }

    fn failed(&self, entry: usize, error: &io::Error) -> Error {
        let (root, path) = self.place(entry);
        root.error("read", &path, error)
    }

    fn file(&self, entry: usize, len: u64) -> Result<Arc<OpenFile>, Error> {
        let left = self.layout.entries()[entry].len();
        let open = || self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = open().take(entry, len) {
            return Ok(file);
        }
        let place = self.limit.place();
        let (root, path) = self.place(entry);
        let fd = root
            .open_beneath(&path, OFlags::RDONLY | OFlags::NOCTTY, 0)
            .map_err(|error| root.error("read", &path, &error))?;
        let is_short = left < SHORT;
        if !is_short {
            // Only a wish: the kernel reads ahead further.
            let _ = fadvise(&fd, 0, None, Advice::Sequential);
        }
        let file = OpenFile::to_read(File::from(fd), &self.direct, is_short).at_place(place);
        let file = Arc::new(file);
        if left > len && open().keep(entry, &file, (left, len)) {
            self.limit.strike(PacingLimit::TreeFiles);
        }
        Ok(file)
    }
}

impl Source for PosixSource {
    fn read(&self, entry: usize, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        if let Some(bytes) = self.prefetched.get(entry) {
            let at = offset as usize;
            into.copy_from_slice(&bytes[at..at + into.len()]);
            return Ok(());
        }
        let file = self.file(entry, into.len() as u64)?;
        let changed = |how: &str| {
            let (root, path) = self.place(entry);
            let message = format!("{} {how} while it was being read", in_short(&root.shown(&path)));
            Error::new(Fault::Here, ErrorCode::SourceChanged, message)
                .hint("copy it again when nobody writes to it")
        };
        let is_unchanged = || {
            let stat = rustix::fs::fstat(&file.file);
            self.part.is_none()
                && stat.is_ok_and(|stat| is_as_listed(&self.layout.entries()[entry], &stat))
        };
        file.read_exact_at(into, self.part.unwrap_or(0) + offset).map_err(|error| {
            match error.kind() {
                io::ErrorKind::UnexpectedEof if is_unchanged() => {
                    let (root, path) = self.place(entry);
                    size_untrue(&root.shown(&path), "holds less than its size says")
                }
                io::ErrorKind::UnexpectedEof => changed("became shorter"),
                _ => self.failed(entry, &error),
            }
        })?;
        // After the read: so the file's last piece sees every change that came before it.
        if self.part.is_some() {
            return Ok(());
        }
        let stat =
            rustix::fs::fstat(&file.file).map_err(|errno| self.failed(entry, &errno.into()))?;
        match is_as_listed(&self.layout.entries()[entry], &stat) {
            true => Ok(()),
            false => Err(changed("changed")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::file_limit::tests::places;
    use super::super::walk::changed_ns;
    use super::*;
    use crate::stores::walk;
    use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
    use std::os::unix::fs::FileExt;
    use std::path::Path;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    const BLOCK: usize = 1 << 20;

    fn set_time(path: &Path, seconds: i64) {
        let time = Timespec { tv_sec: seconds, tv_nsec: 0 };
        let times = Timestamps { last_access: time, last_modification: time };
        utimensat(CWD, path, &times, AtFlags::empty()).expect("set");
    }

    /// What becomes of reading the second half of a file that `change` is done to after the first.
    fn read_around(seconds: i64, content: &[u8], change: impl Fn(&Path)) -> Result<(), Error> {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("f");
        std::fs::write(&path, content).expect("written");
        set_time(&path, seconds);
        let root = Arc::new(Root::open(dir.path()).expect("opened"));
        let (entries, _) = walk(&root, b"").expect("walked");
        let source = PosixSource::new(root, Vec::new(), Arc::new(Layout::new(entries, BLOCK)));
        let mut half = vec![0; content.len() / 2];
        source.read(1, 0, &mut half)?;
        // Until the file system's clock, which may tick slowly, has seen it; or there was nothing.
        let changed = || changed_ns(&rustix::fs::stat(&path).expect("there"));
        let (before, deadline) = (changed(), Instant::now() + Duration::from_millis(50));
        while changed() == before && Instant::now() < deadline {
            change(&path);
        }
        source.read(1, half.len() as u64, &mut half)
    }

    fn overwrite(path: &Path) {
        let file = std::fs::OpenOptions::new().write(true).open(path).expect("there");
        file.write_all_at(b"new", 5).expect("changed");
    }

    #[test]
    fn a_change_is_seen_whatever_the_modification_time_says() {
        let holes = [vec![0; 3 * BLOCK], vec![7; BLOCK]].concat();
        for content in [&b"a small file"[..], &holes] {
            read_around(0, content, |_| {}).expect("nothing changed");
            for seconds in [0, 1_000_000_000] {
                for put_back in [true, false] {
                    let error = read_around(seconds, content, |path| {
                        overwrite(path);
                        if put_back {
                            set_time(path, seconds);
                        }
                    })
                    .expect_err("it changed");
                    assert_eq!(error.code, ErrorCode::SourceChanged, "{seconds} {put_back}");
                }
                let grown = read_around(seconds, content, |path| {
                    let file = std::fs::OpenOptions::new().append(true).open(path).expect("there");
                    file.write_all_at(b"more", content.len() as u64).expect("longer");
                    set_time(path, seconds);
                });
                assert_eq!(grown.expect_err("it grew").code, ErrorCode::SourceChanged);
            }
        }
    }

    /// Reads the first half of each of 300 files, then the rest; how many have a place in between.
    fn halves_of_many(limit: FileLimit, taken: &AtomicUsize) -> usize {
        let dir = tempfile::tempdir().expect("a folder");
        for file in 0..300 {
            std::fs::write(dir.path().join(format!("{file:03}")), [file as u8; 10])
                .expect("written");
        }
        let root = Arc::new(Root::open(dir.path()).expect("opened"));
        let (entries, _) = walk(&root, b"").expect("walked");
        let source = PosixSource::new(root, Vec::new(), Arc::new(Layout::new(entries, BLOCK)));
        let source = source.within(limit);
        let (mut half, mut most) = ([0; 5], 0);
        for offset in [0, 5] {
            for file in 0..300 {
                source.read(1 + file, offset, &mut half).expect("read");
                assert_eq!(half, [file as u8; 5]);
                let open = source.open.lock().expect("no panic").files.len();
                most = most.max(open).max(taken.load(Ordering::Relaxed));
            }
        }
        drop(source);
        assert_eq!(taken.load(Ordering::Relaxed), 0, "all are closed");
        most
    }

    #[test]
    fn of_files_that_are_begun_so_many_are_open() {
        let (limit, taken) = places(1_000);
        let struck = Arc::default();
        assert_eq!(halves_of_many(limit.telling(&struck), &taken), most_open());
        assert_eq!(struck.take(), [PacingLimit::TreeFiles]);
        for count in [0, 7] {
            let (limit, taken) = places(count);
            let most = halves_of_many(limit, &taken);
            assert!(most <= count + LEAST_OPEN, "{most} of {count}");
        }
    }

    #[test]
    fn a_file_that_another_takes_the_place_of_is_read_whole() {
        read_around(1_000_000_000, b"a small file", |path| {
            std::fs::write(path.with_extension("new"), "another file").expect("written");
            std::fs::rename(path.with_extension("new"), path).expect("replaced");
        })
        .expect("the old one is whole");
    }
}

//! Reads the files of a tree: each is opened at its first piece and closed after its last.

use super::openfile::{DirectIo, OpenFile};
use super::root::Root;
use super::walk::{join, modified_ns};
use super::{Source, storage_error};
use farline_core::transfer::Layout;
use farline_core::units::{Error, Fault};
use rustix::fs::{Advice, OFlags, fadvise};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// The files of a layout, below one folder or several.
#[derive(Debug)]
pub struct PosixSource {
    parts: Vec<Part>,
    layout: Arc<Layout>,
    /// Where in each file the transfer's first entry begins; for partial retrieval of one file.
    skip: u64,
    direct: DirectIo,
    open: Mutex<HashMap<usize, (Arc<OpenFile>, u64)>>,
}

/// Where a run of a layout's entries lies.
#[derive(Debug)]
pub struct Part {
    /// The first of the entries; the run goes on to the next part's first.
    pub first: usize,
    /// The root that they lie beneath.
    pub root: Arc<Root>,
    /// The folder or file below the root that they begin at.
    pub start: Vec<u8>,
    /// How many bytes of their paths the destination added and `start` stands for.
    pub strip: usize,
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
            skip: 0,
            direct: DirectIo::default(),
            open: Mutex::new(HashMap::new()),
        }
    }

    /// The same source with every file read from `skip` on.
    #[must_use]
    pub fn skipping(mut self, skip: u64) -> PosixSource {
        self.skip = skip;
        self
    }

    /// The same source, which reads past the page cache where `direct` says so and the file system
    /// can.
    #[must_use]
    pub fn directly(mut self, direct: DirectIo) -> PosixSource {
        self.direct = direct;
        self
    }

    fn place(&self, entry: usize) -> (&Root, Vec<u8>) {
        let part =
            &self.parts[self.parts.partition_point(|part| part.first <= entry).saturating_sub(1)];
        let path = &self.layout.entries()[entry].path;
        let rest = &path[part.strip.min(path.len())..];
        (&part.root, join(&part.start, rest.strip_prefix(b"/").unwrap_or(rest)))
    }

    fn file(&self, entry: usize, len: u64) -> Result<Arc<OpenFile>, Error> {
        let left = self.layout.entries()[entry].len();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((file, left)) = open.get_mut(&entry) {
            let file = Arc::clone(file);
            *left = left.saturating_sub(len);
            if *left == 0 {
                open.remove(&entry);
            }
            return Ok(file);
        }
        drop(open);
        let (root, path) = self.place(entry);
        let fd = root
            .open_beneath(&path, OFlags::RDONLY | OFlags::NOCTTY, 0)
            .map_err(|error| storage_error("read", &path, &error))?;
        // Only a wish: the kernel reads ahead further.
        let _ = fadvise(&fd, 0, None, Advice::Sequential);
        let file = Arc::new(OpenFile::to_read(File::from(fd), &self.direct));
        if left > len {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            let (_, rest) = open.entry(entry).or_insert_with(|| (Arc::clone(&file), left));
            *rest = rest.saturating_sub(len);
        }
        Ok(file)
    }
}

impl Source for PosixSource {
    fn read(&self, entry: usize, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        let file = self.file(entry, into.len() as u64)?;
        let changed = |how: &str| {
            let (_, path) = self.place(entry);
            let message =
                format!("{} {how} while it was being read", String::from_utf8_lossy(&path));
            Error::new(Fault::Here, "source-changed", message)
                .hint("copy it again when nobody writes to it")
        };
        file.read_exact_at(into, self.skip + offset).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => changed("became shorter"),
            _ => storage_error("read", &self.place(entry).1, &error),
        })?;
        // After the read: so the file's last piece sees every change that came before it. A plain
        // `RETR` knows no time.
        let listed = &self.layout.entries()[entry];
        if listed.modified_ns != 0
            && let Ok(stat) = rustix::fs::fstat(&file.file)
            && (stat.st_size as u64 != listed.len() || modified_ns(&stat) != listed.modified_ns)
        {
            return Err(changed("changed"));
        }
        Ok(())
    }
}

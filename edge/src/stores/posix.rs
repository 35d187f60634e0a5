//! Reads the files of a tree: each is opened at its first piece and closed after its last.

use super::root::Root;
use super::walk::join;
use super::{Source, storage_error};
use farline_core::transfer::Layout;
use farline_core::units::{Error, Fault};
use rustix::fs::{Advice, OFlags, fadvise};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

/// The files of a layout below a folder of a root.
#[derive(Debug)]
pub struct PosixSource {
    root: Arc<Root>,
    start: Vec<u8>,
    layout: Arc<Layout>,
    /// Where in each file the transfer's first entry begins; for partial retrieval of one file.
    skip: u64,
    open: Mutex<HashMap<usize, (Arc<File>, u64)>>,
}

impl PosixSource {
    /// The entries of `layout`, whose paths are below `start`. An entry with an empty path is `start` itself.
    pub fn new(root: Arc<Root>, start: Vec<u8>, layout: Arc<Layout>) -> PosixSource {
        PosixSource { root, start, layout, skip: 0, open: Mutex::new(HashMap::new()) }
    }

    /// The same source with every file read from `skip` on.
    #[must_use]
    pub fn skipping(mut self, skip: u64) -> PosixSource {
        self.skip = skip;
        self
    }

    fn path(&self, entry: usize) -> Vec<u8> {
        join(&self.start, &self.layout.entries()[entry].path)
    }

    fn file(&self, entry: usize, len: u64) -> Result<Arc<File>, Error> {
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
        let path = self.path(entry);
        let fd = self
            .root
            .open_beneath(&path, OFlags::RDONLY | OFlags::NOCTTY, 0)
            .map_err(|error| storage_error("read", &path, &error))?;
        // Only a wish: the kernel reads ahead further.
        let _ = fadvise(&fd, 0, None, Advice::Sequential);
        let file = Arc::new(File::from(fd));
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
        file.read_exact_at(into, self.skip + offset).map_err(|error| {
            let path = self.path(entry);
            if error.kind() == io::ErrorKind::UnexpectedEof {
                let message = format!("{} became shorter while it was being read", String::from_utf8_lossy(&path));
                return Error::new(Fault::Here, "source-changed", message).hint("copy it again when nobody writes to it");
            }
            storage_error("read", &path, &error)
        })
    }
}

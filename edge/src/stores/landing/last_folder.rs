//! The folder that files came to last, kept open for those that come next.

use crate::stores::root::Root;
use crate::sys::lock::lock;
use rustix::fs::OFlags;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

/// A folder and its path below the root. Files come folder by folder, so that one is enough.
#[derive(Debug, Default)]
pub(super) struct LastFolder(Mutex<Option<(Vec<u8>, Arc<OwnedFd>)>>);

impl LastFolder {
    /// Opens the folder of `path`, and its name in it.
    ///
    /// # Errors
    /// As [`Root::parent`].
    pub(super) fn parent(&self, root: &Root, path: &[u8]) -> io::Result<(Arc<OwnedFd>, Vec<u8>)> {
        let (above, name) = Root::split(path)?;
        if let Some((last, folder)) = &*lock(&self.0)
            && last == above
        {
            return Ok((Arc::clone(folder), name.to_vec()));
        }
        let folder = Arc::new(root.open_beneath(above, OFlags::PATH | OFlags::DIRECTORY, 0)?);
        *lock(&self.0) = Some((above.to_vec(), Arc::clone(&folder)));
        Ok((folder, name.to_vec()))
    }
}

//! Files and folders that their owner may not write to, written to all the same while a copy lasts.

use crate::stores::partial::is_own;
use crate::stores::root::Root;
use crate::sys::fs_user::fs_uid;
use farline_core::units::Error;
use rustix::fs::{Mode, OFlags, chmod, fstat, open, openat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

/// What the owner of a folder may do when things come and go in it.
const OWNERS: u32 = 0o700;

/// Opens the partial file `name` of `folder` for writing, whatever mode it has.
pub(super) fn open_again(folder: &OwnedFd, name: &[u8]) -> io::Result<File> {
    let name = OsStr::from_bytes(name);
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = match openat(folder, name, OFlags::WRONLY | flags, Mode::empty()) {
        // It had its own mode already when its copy was killed, before it landed.
        Err(Errno::ACCESS) => {
            let at = openat(folder, name, OFlags::PATH | flags, Mode::empty())?;
            if !fstat(&at).is_ok_and(|stat| is_own(&stat)) {
                return Err(Errno::ACCESS.into());
            }
            let at = itself(&at);
            chmod(&at, Mode::from_raw_mode(0o600))?;
            open(at, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?
        }
        file => file?,
    };
    if fstat(&file).is_ok_and(|stat| is_own(&stat)) {
        return Ok(file.into());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "the partial file was replaced by another"))
}

/// A path of what was opened, whatever has taken its name since.
fn itself(fd: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// Folders of ours that were read-only, with the modes that they had.
#[derive(Debug, Default)]
pub(super) struct OpenedUp(Vec<(Vec<u8>, Mode)>);

impl OpenedUp {
    /// Lets the owner write to the folder at `path`, if that is who we are.
    pub(super) fn open_up(&mut self, root: &Root, path: &[u8]) -> Result<(), Error> {
        let failed = |error: io::Error| root.error("write", path, &error);
        let fd = root.open_beneath(path, OFlags::PATH | OFlags::DIRECTORY, 0).map_err(failed)?;
        let stat = fstat(&fd).map_err(|errno| failed(errno.into()))?;
        let is_ours = stat.st_uid == fs_uid();
        if !is_ours || stat.st_mode & OWNERS == OWNERS {
            return Ok(());
        }
        let before = Mode::from_raw_mode(stat.st_mode);
        chmod(itself(&fd), before | Mode::from_raw_mode(OWNERS))
            .map_err(|errno| failed(errno.into()))?;
        self.0.push((path.to_vec(), before));
        Ok(())
    }

    /// Gives the one at `path` its mode again; the others have got theirs.
    pub(super) fn restore_only(&mut self, root: &Root, path: &[u8]) {
        self.0.retain(|(folder, _)| folder == path);
        self.restore(root);
    }

    /// Gives them their modes again, those below others first.
    pub(super) fn restore(&mut self, root: &Root) {
        for (path, mode) in self.0.drain(..).rev() {
            // What is gone needs none.
            if let Ok(fd) = root.open_beneath(&path, OFlags::PATH | OFlags::DIRECTORY, 0) {
                let _ = chmod(itself(&fd), mode);
            }
        }
    }
}

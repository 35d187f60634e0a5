//! A name that nothing has is taken, and one that something has never: what a drop box is for.

use super::{Root, in_short};
use farline_core::units::{Error, ErrorCode, Fault};
use rustix::fs::{AtFlags, CWD, RenameFlags, linkat, renameat_with, unlinkat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

/// Gives `from` of a folder the name `to` of another, in one step.
///
/// # Errors
/// [`Errno::EXIST`] when something has that name.
pub(crate) fn rename_new(
    (folder, from): (&OwnedFd, &OsStr),
    (target, to): (&OwnedFd, &OsStr),
) -> Result<(), Errno> {
    match renameat_with(folder, from, target, to, RenameFlags::NOREPLACE) {
        // Some file systems know no such flag. Of a folder there is no second name, and this fails.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            linkat(folder, from, target, to, AtFlags::empty())?;
            unlinkat(folder, from, AtFlags::empty())
        }
        renamed => renamed,
    }
}

/// Gives a file that has no name the one `to` of a folder.
///
/// # Errors
/// [`Errno::EXIST`] when something has that name.
pub(super) fn link_unnamed(file: &File, folder: &OwnedFd, to: &[u8]) -> Result<(), Errno> {
    let to = OsStr::from_bytes(to);
    // Who opened it may do that since Linux 6.10; before, only with a capability.
    match linkat(file, c"", folder, to, AtFlags::EMPTY_PATH) {
        Err(Errno::NOENT | Errno::PERM) => {
            let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
            linkat(CWD, itself, folder, to, AtFlags::SYMLINK_FOLLOW)
        }
        linked => linked,
    }
}

/// Something is at `path`, where nothing may be replaced.
pub(super) fn is_there(root: &Root, path: &[u8]) -> Error {
    let shown = root.shown(path);
    let message =
        format!("{} is there already, and you may put only what is new there", in_short(&shown));
    Error::new(Fault::Refused, ErrorCode::PermissionDenied, message)
}

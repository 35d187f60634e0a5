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

    /// Knows of the one at `path` alone: the others have got their modes.
    pub(super) fn keep_only(&mut self, path: &[u8]) {
        self.0.retain(|(folder, _)| folder == path);
    }

    /// They have got their modes.
    pub(super) fn forget(&mut self) {
        self.0.clear();
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

#[cfg(test)]
mod tests {
    use crate::stores::{PosixSink, Root};
    use farline_core::transfer::journal::PartialOrigin;
    use farline_core::transfer::{Entry, EntryKind, Layout};
    use std::fs::{Permissions, metadata, read_dir, set_permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;

    #[test]
    fn a_read_only_top_is_shut_again_however_a_copy_ends() {
        let dir = tempfile::tempdir().expect("a folder");
        let entry = |path: &str, kind| Entry {
            path: path.as_bytes().to_vec(),
            kind,
            mode: 0o755,
            modified_ns: 1_000_000_000,
            changed_ns: 7,
            attributes: None,
        };
        let file = entry("f", EntryKind::File { len: 0 });
        let layout = Arc::new(Layout::new(vec![entry("", EntryKind::Directory), file], 1024));
        let begun = || {
            set_permissions(dir.path(), Permissions::from_mode(0o555)).expect("set");
            let root = Arc::new(Root::open(dir.path()).expect("opened"));
            let sink = PosixSink::new(root, Vec::new(), Arc::clone(&layout), true);
            sink.begin(PartialOrigin { source: [5; 32], digests: None }).expect("begun");
            sink
        };
        let mode = || metadata(dir.path()).expect("there").permissions().mode() & 0o777;
        let names = || {
            let names = read_dir(dir.path()).expect("listed").map(|item| item.expect("one"));
            names.map(|item| item.file_name()).collect::<Vec<_>>()
        };
        let broken_off = begun();
        assert_eq!((mode(), names().len()), (0o755, 1), "the journal is in it");
        drop(broken_off);
        assert_eq!((mode(), names().len()), (0o555, 0));
        let whole = begun();
        whole.make_folders().expect("made");
        let landed = whole.land(None);
        assert!(landed.failures.is_empty(), "{:?}", landed.failures);
        assert_eq!(mode(), 0o555, "one that was there keeps its mode");
        assert_eq!(names(), ["f"]);
        // What is in a shut folder could not be removed.
        set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("set");
    }
}

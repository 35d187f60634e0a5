//! A directory that nothing below it can escape: every open, rename and removal is resolved beneath
//! it by the kernel.
//!
//! `openat2(RESOLVE_BENEATH)` refuses `..` and symbolic links that lead out, without a race between
//! check and use. Links that stay inside work.

use super::file_system::file_system;
use super::{in_short, storage_error};
use farline_core::units::{Error, ErrorCode, Fault};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, openat2, statat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// An exported directory.
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
    /// What paths below it begin with, for people.
    shown: Vec<u8>,
    /// Who sees its paths is on another host: nothing of this one's is named.
    is_exported: bool,
    fd: OwnedFd,
    /// How the kernel keeps resolution inside.
    within: ResolveFlags,
}

impl Root {
    /// Opens `path`, which must be a directory.
    ///
    /// # Errors
    /// When it is not one, or may not be entered.
    pub fn open(path: &Path) -> Result<Root, Error> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(fd) => {
                // Nothing is outside `/`, and a link to an absolute path does not leave it.
                let within = if path == Path::new("/") {
                    ResolveFlags::IN_ROOT
                } else {
                    ResolveFlags::BENEATH
                };
                let shown = path.as_os_str().as_bytes().to_vec();
                Ok(Root { path: path.to_owned(), shown, is_exported: false, fd, within })
            }
            Err(errno) => {
                Err(storage_error("open directory", path.as_os_str().as_bytes(), &errno.into()))
            }
        }
    }

    /// The same root as those see it who are on other hosts: it is `/`.
    #[must_use]
    pub fn exported(self) -> Root {
        Root { shown: b"/".to_vec(), is_exported: true, ..self }
    }

    /// The same root, in which no symbolic link is followed.
    ///
    /// # Errors
    /// When this host has no descriptor left.
    pub(crate) fn without_links(&self) -> Result<Root, Error> {
        let fd = self.fd.try_clone().map_err(|error| self.error("open directory", b"", &error))?;
        Ok(Root {
            path: self.path.clone(),
            shown: self.shown.clone(),
            is_exported: self.is_exported,
            fd,
            within: self.within | ResolveFlags::NO_SYMLINKS,
        })
    }

    /// The whole path of what is at `path` below the root, for people.
    pub(crate) fn shown(&self, path: &[u8]) -> Vec<u8> {
        match &self.shown[..] {
            b"." => path.to_vec(),
            above if path.is_empty() || above.ends_with(b"/") => [above, path].concat(),
            above => [above, b"/", path].concat(),
        }
    }

    /// The error of doing that to `path`, which names the whole of it; of a full file system also
    /// which.
    pub(crate) fn error(&self, doing: &str, path: &[u8], error: &io::Error) -> Error {
        let said = storage_error(doing, &self.shown(path), error);
        if said.code != ErrorCode::NoSpace {
            return said;
        }
        // Below it others may be mounted; what is to be made is not there yet.
        let folders = path.iter().enumerate().rev().filter(|(_, byte)| **byte == b'/');
        let folders = folders.map(|(at, _)| &path[..at]);
        let open =
            |at| Some((at, self.open_beneath(at, OFlags::PATH | OFlags::DIRECTORY, 0).ok()?));
        let found = folders.chain([path]).find_map(open);
        let (at, folder) = match &found {
            Some((at, folder)) => (self.path.join(OsStr::from_bytes(at)), folder.as_fd()),
            None => (self.path.clone(), self.fd.as_fd()),
        };
        let system = file_system(&folder, (!self.is_exported).then_some(&at));
        Error { message: format!("{}: {system}", said.message), ..said }
    }

    /// Where it is, for people.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens `path`, relative to the root; empty is the root itself.
    ///
    /// # Errors
    /// As `openat2(2)`; a path that leads outside is a permission error.
    pub fn open_beneath(&self, path: &[u8], flags: OFlags, mode: u32) -> io::Result<OwnedFd> {
        let name = if path.is_empty() { b"." as &[u8] } else { path };
        let flags = flags | OFlags::CLOEXEC;
        let mode =
            if flags.contains(OFlags::CREATE) { Mode::from_raw_mode(mode) } else { Mode::empty() };
        loop {
            return match openat2(
                &self.fd,
                OsStr::from_bytes(name),
                flags,
                mode,
                self.within | ResolveFlags::NO_MAGICLINKS,
            ) {
                Ok(fd) => Ok(fd),
                // A rename elsewhere on the machine raced with the resolution (openat2(2)): the
                // kernel asks for another try.
                Err(Errno::AGAIN | Errno::INTR) => continue,
                Err(Errno::LOOP) if self.within.contains(ResolveFlags::NO_SYMLINKS) => {
                    Err(io::Error::new(
                        io::ErrorKind::PermissionDenied,
                        "the path leads over a symbolic link",
                    ))
                }
                Err(Errno::XDEV) => Err(io::Error::new(
                    io::ErrorKind::PermissionDenied,
                    match self.is_exported {
                        true => "the path leads outside the exported directory",
                        false => "a symbolic link in the path leads out of the directory",
                    },
                )),
                Err(errno) => Err(errno.into()),
            };
        }
    }

    /// Opens the directory that holds `path` and returns it with the last name.
    ///
    /// # Errors
    /// When that directory does not exist or lies outside, or `path` names the root itself.
    pub fn parent(&self, path: &[u8]) -> io::Result<(OwnedFd, Vec<u8>)> {
        let (folder, name) = Root::split(path)?;
        Ok((self.open_beneath(folder, OFlags::PATH | OFlags::DIRECTORY, 0)?, name.to_vec()))
    }

    /// The directory of `path`, and its name in it.
    ///
    /// # Errors
    /// When it names a directory itself, by `.` or `..`.
    pub fn split(path: &[u8]) -> io::Result<(&[u8], &[u8])> {
        let (folder, name) = match path.iter().rposition(|&byte| byte == b'/') {
            Some(slash) => (&path[..slash], &path[slash + 1..]),
            None => (&b""[..], path),
        };
        if name.is_empty() || name == b"." || name == b".." {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the path names a directory, not something in it",
            ));
        }
        Ok((folder, name))
    }

    /// The metadata of `path`, following links that stay inside.
    ///
    /// # Errors
    /// When it does not exist or leads outside.
    pub fn stat(&self, path: &[u8]) -> io::Result<Stat> {
        let fd = self.open_beneath(path, OFlags::PATH, 0)?;
        Ok(statat(&fd, c"", AtFlags::EMPTY_PATH)?)
    }

    /// The metadata of `path` itself, be it a link.
    ///
    /// # Errors
    /// When it does not exist or its folder leads outside.
    pub fn stat_link(&self, path: &[u8]) -> io::Result<Stat> {
        if path.is_empty() {
            return self.stat(path);
        }
        let (folder, name) = self.parent(path)?;
        Ok(statat(&folder, OsStr::from_bytes(&name), AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Makes `path` and every missing folder above it; what exists already as a directory is fine.
    ///
    /// # Errors
    /// When something that is no directory is in the way.
    pub fn create_directories(&self, path: &[u8]) -> Result<(), Error> {
        self.create_directories_and_tell(path, 0o777, |_| {})
    }

    /// The same, the last with the permissions `mode` of which the process's mask takes its part;
    /// tells `made` of each folder that was not there.
    ///
    /// # Errors
    /// When something that is no directory is in the way.
    pub fn create_directories_and_tell(
        &self,
        path: &[u8],
        mode: u32,
        mut made: impl FnMut(&[u8]),
    ) -> Result<(), Error> {
        let mut end = 0;
        while end < path.len() {
            end = path[end + 1..]
                .iter()
                .position(|&byte| byte == b'/')
                .map_or(path.len(), |slash| end + 1 + slash);
            let part = &path[..end];
            let mode = Mode::from_raw_mode(if end == path.len() { mode } else { 0o777 });
            let tried = self.parent(part).and_then(|(folder, name)| {
                rustix::fs::mkdirat(&folder, OsStr::from_bytes(&name), mode)
                    .map_err(io::Error::from)
            });
            match tried {
                Ok(()) => made(part),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    if let Err(error) = self.open_beneath(part, OFlags::PATH | OFlags::DIRECTORY, 0)
                    {
                        return Err(self.not_a_folder(part, &error));
                    }
                }
                Err(error) => return Err(self.error("create directory", part, &error)),
            }
        }
        Ok(())
    }

    /// The error of a folder whose name something else has: for a client also a link that is not
    /// followed.
    fn not_a_folder(&self, path: &[u8], error: &io::Error) -> Error {
        let is_link = |stat: Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
        let follows = self.is_exported || !self.within.contains(ResolveFlags::NO_SYMLINKS);
        if follows || !self.stat_link(path).is_ok_and(is_link) {
            return self.error("create directory", path, error);
        }
        let path = in_short(&self.shown(path));
        let message = format!(
            "create directory {path}: a symbolic link has its name, which what comes from another \
             host does not follow"
        );
        Error::new(Fault::You, ErrorCode::NotADirectory, message)
            .hint("remove the link, or copy to the directory that it leads to")
    }
}

impl AsFd for Root {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_and_no_link_leads_out() {
        let outside = tempfile::tempdir().expect("a folder");
        std::fs::write(outside.path().join("secret"), b"x").expect("write");
        let inside = tempfile::tempdir().expect("a folder");
        std::os::unix::fs::symlink(outside.path(), inside.path().join("out")).expect("link");
        std::fs::create_dir(inside.path().join("d")).expect("folder");
        std::os::unix::fs::symlink("d", inside.path().join("in")).expect("link");
        let root = Root::open(inside.path()).expect("open");
        for path in ["../secret", "out/secret", "/etc/passwd", "d/../../x"] {
            let error = root.open_beneath(path.as_bytes(), OFlags::RDONLY, 0).expect_err(path);
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{path}: {error}");
        }
        root.stat(b"in").expect("a link inside works");
        root.create_directories(b"a/b/c").expect("made");
        root.create_directories(b"a/b/c").expect("made already is fine");
        assert!(inside.path().join("a/b/c").is_dir());
        let error = root.create_directories(b"out/x").expect_err("outside");
        assert_eq!(error.code, ErrorCode::PermissionDenied);
    }
}

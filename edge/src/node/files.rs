//! What a session asks of the node's files: look, list, make, remove, rename; all beneath the
//! exported root.

use super::list_memory::{weight_of_listed, weight_of_name};
use crate::identity::{Authorization, Deed};
use crate::stores::{Root, rename_new, storage_error};
use crate::sys::files::names_in;
use farline_core::gridftp::{ListingEntry, ListingKind, Pathname, Timestamp};
use farline_core::units::{Error, ErrorCode, Fault};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT, fstat, mkdirat,
    readlinkat, renameat, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use std::ffi::{CString, OsStr};
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

/// Entries of a list between two words on what it takes.
const METERED_AT_ONCE: usize = 1024;

/// The exported files, by the session's absolute paths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Files<'a> {
    access: &'a Authorization,
}

/// A session's path below the root: without the leading slash.
pub(crate) fn beneath(path: &Pathname) -> &[u8] {
    let bytes = path.as_bytes();
    bytes.strip_prefix(b"/").unwrap_or(bytes)
}

impl Files<'_> {
    pub(crate) fn new(access: &Authorization) -> Files<'_> {
        Files { access }
    }

    fn root(&self) -> &Root {
        self.access.root()
    }

    /// One thing, under the name it was asked for; a link shows as what it leads to, and where.
    pub(crate) fn stat(&self, path: &Pathname) -> Result<ListingEntry, Error> {
        self.access.check(Deed::Look, path)?;
        let failed = |error: io::Error| storage_error("look at", path.as_bytes(), &error);
        let at = beneath(path);
        // The folder itself has no name.
        let Ok((folder, name)) = self.root().parent(at) else {
            let stat = self.root().stat(at).map_err(failed)?;
            return Ok(self.entry(path.clone(), path, &stat));
        };
        let name = OsStr::from_bytes(&name);
        let own = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW);
        let own = own.map_err(|errno| failed(errno.into()))?;
        if FileType::from_raw_mode(own.st_mode) != FileType::Symlink {
            return Ok(self.entry(path.clone(), path, &own));
        }
        // A link that leads nowhere, or outside, can still be looked at.
        let stat = self.root().stat(at).unwrap_or(own);
        let target = readlinkat(&folder, name, Vec::new()).ok();
        let link = target.map(|target| Pathname::new(target.into_bytes()));
        Ok(ListingEntry { link, ..self.entry(path.clone(), path, &stat) })
    }

    /// What is in a directory, sorted by name; links show as what they point to, and where. `meter`
    /// is told now and then how many bytes that takes, and ends it where there are no more.
    pub(crate) fn list(
        &self,
        path: &Pathname,
        meter: &mut dyn FnMut(u64) -> Result<(), Error>,
    ) -> Result<Vec<ListingEntry>, Error> {
        self.access.check(Deed::Read, path)?;
        let at = beneath(path);
        let failed = |error: io::Error| storage_error("list", path.as_bytes(), &error);
        let folder =
            self.root().open_beneath(at, OFlags::RDONLY | OFlags::DIRECTORY, 0).map_err(failed)?;
        let names = names_in(&folder).map_err(failed)?;
        let mut taken: u64 = names.iter().map(|name| weight_of_name(name)).sum();
        meter(taken)?;
        let (mut entries, mut weighed) = (Vec::new(), 0);
        for name in names {
            if entries.len() - weighed >= METERED_AT_ONCE {
                taken += entries[weighed..].iter().map(weight_of_listed).sum::<u64>();
                weighed = entries.len();
                meter(taken)?;
            }
            let name = &name[..];
            let pathname = Pathname::new(name);
            // What is left out would pass for gone.
            if !pathname.fits_a_line() {
                entries.push(ListingEntry::unread(name));
                continue;
            }
            let own = match statat(&folder, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(own) => own,
                // It went away since.
                Err(Errno::NOENT) => continue,
                Err(_) => {
                    entries.push(ListingEntry::unread(name));
                    continue;
                }
            };
            let whole = path.resolve(&pathname);
            let mut entry = self.entry(pathname, &whole, &own);
            if entry.kind == ListingKind::Symlink {
                let target = readlinkat(&folder, OsStr::from_bytes(name), Vec::new()).ok();
                let below = crate::stores::join(at, name);
                if let Ok(stat) = self.root().stat(&below) {
                    entry = self.entry(Pathname::new(name), &whole, &stat);
                }
                entry.link = target.map(|target| Pathname::new(target.into_bytes()));
            }
            entries.push(entry);
        }
        meter(taken + entries[weighed..].iter().map(weight_of_listed).sum::<u64>())?;
        entries.sort_by(|a, b| a.name.as_bytes().cmp(b.name.as_bytes()));
        Ok(entries)
    }

    pub(crate) fn make_directory(&self, path: &Pathname) -> Result<(), Error> {
        self.access.check(Deed::Create, path)?;
        self.within("create directory", path, |folder, name| {
            Ok(mkdirat(folder, name, Mode::from_raw_mode(0o777))?)
        })
    }

    /// Makes a symbolic link that says `target`, wherever that leads: whoever follows it here stays
    /// beneath the root. One that says so already is as good; nothing else is replaced.
    pub(crate) fn make_link(&self, target: &Pathname, path: &Pathname) -> Result<(), Error> {
        self.access.check(Deed::Create, path)?;
        self.within("create link", path, |folder, name| {
            let made = symlinkat(OsStr::from_bytes(target.as_bytes()), folder, name);
            // lftp, which lists what links lead to, asks for those again that are there.
            let says = || readlinkat(folder, name, Vec::new()).map(CString::into_bytes);
            match made {
                Err(Errno::EXIST) if says().is_ok_and(|says| says == target.as_bytes()) => Ok(()),
                made => Ok(made?),
            }
        })
    }

    pub(crate) fn remove_directory(&self, path: &Pathname) -> Result<(), Error> {
        self.access.check(Deed::Modify, path)?;
        self.within("remove directory", path, |folder, name| {
            Ok(unlinkat(folder, name, AtFlags::REMOVEDIR)?)
        })
    }

    pub(crate) fn remove_file(&self, path: &Pathname) -> Result<(), Error> {
        self.access.check(Deed::Modify, path)?;
        self.within("remove", path, |folder, name| Ok(unlinkat(folder, name, AtFlags::empty())?))
    }

    /// Renames, replacing a file but never a device, FIFO or socket.
    pub(crate) fn rename(&self, from: &Pathname, to: &Pathname) -> Result<(), Error> {
        self.access.check(Deed::Modify, from)?;
        self.access.check_store(to)?;
        let (target, target_name) = self.parent("rename to", to)?;
        if crate::stores::is_special(&target, &target_name) {
            let refused = io::Error::new(
                io::ErrorKind::PermissionDenied,
                "a device, FIFO or socket is not replaced",
            );
            return Err(storage_error("rename to", to.as_bytes(), &refused));
        }
        let (folder, name) = self.parent("rename", from)?;
        let (from_name, target_name) = (OsStr::from_bytes(&name), OsStr::from_bytes(&target_name));
        let renamed = match self.access.may(Deed::Modify, to) {
            true => renameat(&folder, from_name, &target, target_name),
            false => rename_new((&folder, from_name), (&target, target_name)),
        };
        renamed.map_err(|errno| {
            // These are of what is at the new name.
            let is_of_target = matches!(errno, Errno::ISDIR | Errno::NOTEMPTY | Errno::EXIST);
            let (doing, path) = if is_of_target { ("replace", to) } else { ("rename", from) };
            storage_error(doing, path.as_bytes(), &errno.into())
        })
    }

    pub(crate) fn set_modified(&self, path: &Pathname, modified: Timestamp) -> Result<(), Error> {
        self.access.check(Deed::Modify, path)?;
        let times = Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT as _ },
            last_modification: Timespec {
                tv_sec: modified.seconds,
                tv_nsec: modified.nanos.into(),
            },
        };
        let set = self.file(path).and_then(|file| {
            let before = fstat(&file)?;
            rustix::fs::futimens(&file, &times)?;
            // A file system without such a time takes the nearest it has, and says nothing.
            if fstat(&file)?.st_mtime == modified.seconds {
                return Ok(());
            }
            let last_modification =
                Timespec { tv_sec: before.st_mtime, tv_nsec: before.st_mtime_nsec as _ };
            rustix::fs::futimens(&file, &Timestamps { last_modification, ..times })?;
            Err(io::Error::new(io::ErrorKind::InvalidInput, "its file system has no such time"))
        });
        set.map_err(|error| storage_error("set time of", path.as_bytes(), &error))
    }

    pub(crate) fn set_mode(&self, path: &Pathname, mode: u32) -> Result<(), Error> {
        self.access.check(Deed::Modify, path)?;
        if beneath(path).is_empty() {
            // One who may write would shut everybody out.
            let message = "the folder that a node serves keeps its mode";
            return Err(Error::new(Fault::Refused, ErrorCode::PermissionDenied, message));
        }
        let set = self
            .file(path)
            .and_then(|file| file.set_permissions(Permissions::from_mode(mode & 0o777)));
        set.map_err(|error| storage_error("set mode of", path.as_bytes(), &error))
    }

    fn file(&self, path: &Pathname) -> io::Result<File> {
        self.root()
            .open_beneath(beneath(path), OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY, 0)
            .map(File::from)
    }

    fn parent(
        &self,
        doing: &str,
        path: &Pathname,
    ) -> Result<(std::os::fd::OwnedFd, Vec<u8>), Error> {
        self.root()
            .parent(beneath(path))
            .map_err(|error| storage_error(doing, path.as_bytes(), &error))
    }

    fn within(
        &self,
        doing: &str,
        path: &Pathname,
        act: impl FnOnce(&std::os::fd::OwnedFd, &OsStr) -> io::Result<()>,
    ) -> Result<(), Error> {
        let (folder, name) = self.parent(doing, path)?;
        act(&folder, OsStr::from_bytes(&name))
            .map_err(|error| storage_error(doing, path.as_bytes(), &error))
    }

    /// The facts of what is at `path`, under `name`.
    fn entry(&self, name: Pathname, path: &Pathname, stat: &Stat) -> ListingEntry {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => ListingKind::Directory,
            FileType::RegularFile => ListingKind::File,
            FileType::Symlink => ListingKind::Symlink,
            _ => ListingKind::Other,
        };
        let permissions = match (&kind, self.access.may(Deed::Modify, path)) {
            (ListingKind::Directory, true) => "cdeflmp",
            (ListingKind::Directory, false) => "el",
            (_, true) => "adfrw",
            (_, false) => "r",
        };
        ListingEntry {
            name,
            kind,
            size: Some(stat.st_size as u64),
            modified: Some(Timestamp { seconds: stat.st_mtime, nanos: stat.st_mtime_nsec as u32 }),
            permissions: Some(permissions.to_owned()),
            mode: Some(stat.st_mode & 0o7777),
            uid: Some(stat.st_uid),
            owner: Some(stat.st_uid.to_string()),
            gid: Some(stat.st_gid),
            group: Some(stat.st_gid.to_string()),
            unique: Some(format!("{:x}-{:x}", stat.st_dev, stat.st_ino)),
            link: None,
            links: Some(stat.st_nlink),
        }
    }
}

//! `--backup`: what is replaced or deleted is kept under another name, or in another folder.
//!
//! The old file gets its second name before it loses its first, so that there is no moment in which
//! neither it nor the new one is there.

use super::hidden::PARTIAL_TAIL;
use super::hidden::hidden;
use super::root::Root;
use super::walk::join;
use farline_core::units::{Error, ErrorCode, Fault};
use rustix::fs::{
    AtFlags, FileType, RenameFlags, fstat, linkat, readlinkat, renameat, renameat_with, statat,
    unlinkat,
};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// Where what a copy replaces is kept.
#[derive(Clone, Debug)]
pub struct BackupPlace {
    /// What is appended to its name.
    suffix: Vec<u8>,
    /// The folder that it goes to by its path; its own if there is none.
    folder: Option<Arc<BackupFolder>>,
    /// What of a replaced file's path is that of the destination.
    base: Vec<u8>,
}

/// A folder below a root. Made for this, it goes again where nothing was kept in it.
#[derive(Debug)]
struct BackupFolder {
    root: Arc<Root>,
    path: Vec<u8>,
    /// Those that were not there, each above the next.
    made: Vec<Vec<u8>>,
}

impl BackupFolder {
    fn open(root: Arc<Root>, path: Vec<u8>) -> Result<BackupFolder, Error> {
        // Dropped where it comes to nothing, with what it made until then.
        let mut folder = BackupFolder { root, path, made: Vec::new() };
        let BackupFolder { root, path, made } = &mut folder;
        root.create_directories_and_tell(path, 0o777, |part| made.push(part.to_vec()))?;
        Ok(folder)
    }
}

impl Drop for BackupFolder {
    fn drop(&mut self) {
        for path in self.made.iter().rev() {
            if let Ok((above, name)) = self.root.parent(path) {
                // What is not empty stays.
                let _ = unlinkat(&above, OsStr::from_bytes(&name), AtFlags::REMOVEDIR);
            }
        }
    }
}

/// A name in an open folder.
type Name<'a> = (&'a OwnedFd, &'a OsStr);

impl BackupPlace {
    /// Next to each file, under its name and `suffix`.
    pub(crate) fn same_folder(suffix: Vec<u8>) -> BackupPlace {
        BackupPlace { suffix, folder: None, base: Vec::new() }
    }

    /// In the folder at `path` below `root`, which is made, by their paths below `base`.
    ///
    /// # Errors
    /// When it cannot be made, or is on another file system than `there`: nothing could be moved.
    pub(crate) fn in_folder(
        suffix: Vec<u8>,
        (root, path): (Arc<Root>, Vec<u8>),
        base: Vec<u8>,
        there: &Root,
    ) -> Result<BackupPlace, Error> {
        let folder = BackupFolder::open(root, path)?;
        let (root, path) = (&folder.root, &folder.path);
        let failed = |error: io::Error| root.error("read", path, &error);
        let device = root.stat(path).map_err(failed)?.st_dev;
        let other = fstat(there.as_fd()).map_err(|errno| failed(errno.into()))?.st_dev;
        if device != other {
            let message = format!(
                "{} is on another file system than what would be kept there",
                String::from_utf8_lossy(&root.shown(path))
            );
            return Err(Error::new(Fault::You, ErrorCode::Unsupported, message)
                .hint("name a backup directory on the destination's file system"));
        }
        Ok(BackupPlace { suffix, folder: Some(Arc::new(folder)), base })
    }

    /// Gives the file `temporary` of `folder` the name `name`, of the path `path` below the root;
    /// what has that name is kept.
    ///
    /// # Errors
    /// When it cannot be kept: then it is not replaced.
    pub(super) fn replace(
        &self,
        (folder, name, temporary): (&OwnedFd, &[u8], &[u8]),
        path: &[u8],
    ) -> io::Result<()> {
        let (name, temporary) = (OsStr::from_bytes(name), OsStr::from_bytes(temporary));
        if !is_worth_keeping((folder, name), (folder, temporary)) {
            return Ok(renameat(folder, temporary, folder, name)?);
        }
        let (to, kept) = self.target(folder, name, path)?;
        let kept = OsStr::from_bytes(&kept);
        match link_over((folder, name), (&to, kept)) {
            Ok(()) => Ok(renameat(folder, temporary, folder, name)?),
            // No hard links there, or no more of this file.
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::MLINK) => {
                Ok(exchange_over((folder, name), (folder, temporary), (&to, kept))?)
            }
            Err(errno) => Err(errno.into()),
        }
    }

    /// Takes the file at `path` away from there, and keeps it.
    ///
    /// # Errors
    /// When it cannot be kept.
    pub(crate) fn take_away(&self, root: &Root, path: &[u8]) -> io::Result<()> {
        let (folder, name) = root.parent(path)?;
        let (to, kept) = self.target(&folder, OsStr::from_bytes(&name), path)?;
        Ok(renameat(&folder, OsStr::from_bytes(&name), &to, OsStr::from_bytes(&kept))?)
    }

    /// Where the file `name` of `folder` is kept: a folder, and its name there.
    fn target(
        &self,
        folder: &OwnedFd,
        name: &OsStr,
        path: &[u8],
    ) -> io::Result<(OwnedFd, Vec<u8>)> {
        let kept = [name.as_bytes(), &self.suffix].concat();
        let Some(BackupFolder { root, path: top, .. }) = self.folder.as_deref() else {
            return Ok((folder.try_clone()?, kept));
        };
        let below = path.strip_prefix(&self.base[..]).unwrap_or(path);
        let below = below.strip_prefix(b"/").unwrap_or(below);
        let above =
            below.iter().rposition(|&byte| byte == b'/').map_or(&b""[..], |at| &below[..at]);
        let at = join(top, above);
        root.create_directories(&at).map_err(|error| io::Error::other(error.message))?;
        Ok((root.parent(&join(&at, &kept))?.0, kept))
    }
}

/// Whether something is there that is lost when it is replaced: not a folder, which cannot be, nor
/// a link that leads where the new one does.
fn is_worth_keeping(old: Name<'_>, new: Name<'_>) -> bool {
    let kind = |(folder, name): Name<'_>| {
        let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(FileType::from_raw_mode(stat.st_mode))
    };
    let target = |(folder, name): Name<'_>| readlinkat(folder, name, Vec::new()).ok();
    match kind(old) {
        None | Some(FileType::Directory) => false,
        Some(FileType::Symlink) => target(old) != target(new),
        Some(_) => true,
    }
}

/// Gives `old` a second name, also where something has it.
fn link_over((folder, name): Name<'_>, (to, kept): Name<'_>) -> Result<(), Errno> {
    match linkat(folder, name, to, kept, AtFlags::empty()) {
        Err(Errno::EXIST) => {}
        linked => return linked,
    }
    let tag = &blake3::hash(kept.as_bytes()).to_hex()[..12];
    let hidden = hidden(kept.as_bytes(), &format!(".{tag}{PARTIAL_TAIL}"));
    let between = OsStr::from_bytes(&hidden);
    // One that a crash left.
    let _ = unlinkat(to, between, AtFlags::empty());
    linkat(folder, name, to, between, AtFlags::empty())?;
    let renamed = renameat(to, between, to, kept);
    // Where both names are of one file already, a rename leaves both.
    let _ = unlinkat(to, between, AtFlags::empty());
    renamed
}

/// Has `old` and `new` change places, and gives the old file the name where it is `kept`; where it
/// cannot have that, they change back.
fn exchange_over(old: Name<'_>, new: Name<'_>, (to, kept): Name<'_>) -> Result<(), Errno> {
    let exchange = || renameat_with(new.0, new.1, old.0, old.1, RenameFlags::EXCHANGE);
    exchange()?;
    renameat(new.0, new.1, to, kept).or_else(|errno| exchange().and(Err(errno)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn opened(dir: &Path) -> (Arc<Root>, OwnedFd) {
        let root = Arc::new(Root::open(dir).expect("opened"));
        let (folder, _) = root.parent(b"x").expect("its folder");
        (root, folder)
    }

    fn read(path: &Path) -> String {
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    #[test]
    fn what_is_replaced_is_kept_and_older_ones_go() {
        let dir = tempfile::tempdir().expect("a folder");
        let at = |name: &str| dir.path().join(name);
        let (_root, folder) = opened(dir.path());
        let place = BackupPlace::same_folder(b"~".to_vec());
        for (round, kept) in [("1", None), ("2", Some("1")), ("3", Some("2"))] {
            fs::write(at("new"), round).expect("written");
            place.replace((&folder, b"f", b"new"), b"f").expect("replaced");
            assert_eq!((read(&at("f")), at("new").exists()), (round.to_owned(), false));
            assert_eq!(fs::read_to_string(at("f~")).ok().as_deref(), kept);
        }
        // Nothing else is left of it.
        assert_eq!(fs::read_dir(dir.path()).expect("a folder").count(), 2);
        // One that is its own backup already, by a hard link.
        fs::remove_file(at("f~")).expect("removed");
        fs::hard_link(at("f"), at("f~")).expect("linked");
        fs::write(at("new"), "4").expect("written");
        place.replace((&folder, b"f", b"new"), b"f").expect("replaced");
        assert_eq!((read(&at("f")), read(&at("f~"))), ("4".to_owned(), "3".to_owned()));
        assert_eq!(fs::read_dir(dir.path()).expect("a folder").count(), 2);
    }

    #[test]
    fn a_folder_of_backups_has_the_paths_of_the_destination() {
        let dir = tempfile::tempdir().expect("a folder");
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("dst/a/b")).expect("folders");
        let (root, _) = opened(dir.path());
        let place = BackupPlace::in_folder(
            b".old".to_vec(),
            (Arc::clone(&root), b"kept".to_vec()),
            b"dst".to_vec(),
            &root,
        )
        .expect("the same file system");
        fs::write(at("dst/a/b/f"), "old").expect("written");
        fs::write(at("dst/a/b/new"), "new").expect("written");
        let (folder, _) = root.parent(b"dst/a/b/f").expect("its folder");
        place.replace((&folder, b"f", b"new"), b"dst/a/b/f").expect("replaced");
        assert_eq!(
            (read(&at("dst/a/b/f")), read(&at("kept/a/b/f.old"))),
            ("new".into(), "old".into())
        );
        place.take_away(&root, b"dst/a/b/f").expect("taken away");
        assert!(!at("dst/a/b/f").exists());
        drop(place);
        assert_eq!(read(&at("kept/a/b/f.old")), "new");
    }

    #[test]
    fn a_folder_in_which_nothing_was_kept_goes_again() {
        let dir = tempfile::tempdir().expect("a folder");
        let (root, _) = opened(dir.path());
        fs::create_dir(dir.path().join("mine")).expect("a folder");
        for path in ["kept/deep", "mine", "mine/kept"] {
            let folder = (Arc::clone(&root), path.as_bytes().to_vec());
            let place = BackupPlace::in_folder(b"~".to_vec(), folder, Vec::new(), &root);
            let place = place.expect("made");
            assert!(dir.path().join(path).is_dir());
            drop(place.clone());
            assert!(dir.path().join(path).is_dir(), "another may still keep something");
            drop(place);
            let left: Vec<_> = fs::read_dir(dir.path()).expect("a folder").collect();
            assert_eq!(left.len(), 1, "{left:?}");
        }
        assert_eq!(fs::read_dir(dir.path().join("mine")).expect("there").count(), 0);
    }

    #[test]
    fn what_cannot_be_kept_is_not_replaced() {
        let dir = tempfile::tempdir().expect("a folder");
        let at = |name: &str| dir.path().join(name);
        let (_root, folder) = opened(dir.path());
        fs::write(at("f"), "old").expect("written");
        fs::write(at("new"), "new").expect("written");
        let unchanged = || (read(&at("f")), read(&at("new")));
        let as_before = ("old".to_owned(), "new".to_owned());
        // A folder has the name, or the name is too long, with hard links and without them.
        fs::create_dir(at("f~")).expect("a folder");
        for suffix in ["~".to_owned(), "x".repeat(255)] {
            let place = BackupPlace::same_folder(suffix.clone().into_bytes());
            place.replace((&folder, b"f", b"new"), b"f").expect_err("not kept");
            assert_eq!(unchanged(), as_before);
            let kept = format!("f{suffix}");
            let [old, new, kept] = ["f", "new", &kept].map(|name| (&folder, OsStr::new(name)));
            exchange_over(old, new, kept).expect_err("not kept");
            assert_eq!(unchanged(), as_before);
        }
        let [old, new, kept] = ["f", "new", "kept"].map(|name| (&folder, OsStr::new(name)));
        exchange_over(old, new, kept).expect("kept");
        assert_eq!((read(&at("f")), read(&at("kept"))), ("new".into(), "old".into()));
    }

    #[test]
    fn a_link_that_stays_as_it_is_leaves_no_backup() {
        let dir = tempfile::tempdir().expect("a folder");
        let at = |name: &str| dir.path().join(name);
        let (_root, folder) = opened(dir.path());
        let place = BackupPlace::same_folder(b"~".to_vec());
        for (target, is_kept) in [("a", false), ("a", false), ("b", true)] {
            std::os::unix::fs::symlink(target, at("new")).expect("linked");
            place.replace((&folder, b"l", b"new"), b"l").expect("replaced");
            assert_eq!(at("l~").symlink_metadata().is_ok(), is_kept);
        }
        assert_eq!(fs::read_link(at("l~")).expect("a link"), Path::new("a"));
    }
}

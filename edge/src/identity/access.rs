//! What somebody may do to which paths of an exported tree.

use crate::stores::Root;
use farline_core::gridftp::Pathname;
use farline_core::gridftp::server::Rights;
use farline_core::units::{Error, ErrorCode, Fault, in_short};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// What may be done to a path and what is below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Retrieve, list and compute checksums.
    pub read: bool,
    /// Store files and make folders where nothing is.
    pub create: bool,
    /// Replace, rename, delete, and change times and modes.
    pub modify: bool,
}

impl Permissions {
    /// Retrieve and list.
    pub const READ: Permissions = Permissions { read: true, create: false, modify: false };
    /// Everything.
    pub const WRITE: Permissions = Permissions { read: true, create: true, modify: true };
    /// Store what is not there yet, and see nothing: a drop box.
    pub const CREATE: Permissions = Permissions { read: false, create: true, modify: false };

    fn allow(self, deed: Deed) -> bool {
        match deed {
            Deed::Look => self.read || self.create || self.modify,
            Deed::Read => self.read,
            Deed::Create => self.create || self.modify,
            Deed::Modify => self.modify,
        }
    }
}

impl FromStr for Permissions {
    type Err = String;

    /// Reads `read`, `write` or `create`.
    fn from_str(text: &str) -> Result<Permissions, String> {
        match text {
            "read" => Ok(Permissions::READ),
            "write" => Ok(Permissions::WRITE),
            "create" => Ok(Permissions::CREATE),
            _ => Err(format!("`{text}` is no right; read, write and create are")),
        }
    }
}

/// What is to be done to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// Learn whether it is there, its size and times.
    Look,
    /// Learn what is in it.
    Read,
    /// Make it, where nothing is.
    Create,
    /// Replace, rename or remove it, or change what is known of it.
    Modify,
}

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Deed::Look => "look at",
            Deed::Read => "read",
            Deed::Create => "create",
            Deed::Modify => "change",
        })
    }
}

/// Permissions for a path and all that is below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Absolute, normalised.
    path: Pathname,
    permissions: Permissions,
}

impl Grant {
    /// `permissions` below `path`, which counts from the exported root.
    pub fn new(path: impl Into<Vec<u8>>, permissions: Permissions) -> Grant {
        Grant { path: Pathname::root().resolve(&Pathname::new(path)), permissions }
    }

    fn is_whole(&self) -> bool {
        self.path == Pathname::root()
    }

    /// Whether anything may be stored or changed by it.
    pub(crate) fn may_write(&self) -> bool {
        self.permissions.create || self.permissions.modify
    }

    fn covers(&self, path: &Pathname) -> bool {
        is_within(&self.path, path)
    }
}

/// Whether `path` is `above` or below it.
fn is_within(above: &Pathname, path: &Pathname) -> bool {
    let above = above.as_bytes().strip_suffix(b"/").unwrap_or(above.as_bytes());
    let rest = path.as_bytes().strip_prefix(above);
    rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// What one session may do. Grants add up; what none covers is refused.
#[derive(Clone, Debug)]
pub(crate) struct Authorization {
    root: Arc<Root>,
    grants: Vec<Grant>,
}

impl Authorization {
    /// `grants` below `root`. Where they do not cover the whole of it no symbolic link is followed:
    /// it would lead out of what is granted.
    ///
    /// # Errors
    /// When the root is gone.
    pub(crate) fn new(root: &Arc<Root>, grants: Vec<Grant>) -> Result<Authorization, Error> {
        let is_whole = grants.iter().all(Grant::is_whole);
        let root = if is_whole { Arc::clone(root) } else { Arc::new(root.without_links()?) };
        Ok(Authorization { root, grants })
    }

    /// All of `root`.
    pub(crate) fn whole(root: &Arc<Root>, permissions: Permissions) -> Authorization {
        Authorization { root: Arc::clone(root), grants: vec![Grant::new("/", permissions)] }
    }

    /// What paths are resolved beneath.
    pub(crate) fn root(&self) -> &Arc<Root> {
        &self.root
    }

    /// What the session's commands may be at all.
    pub(crate) fn rights(&self) -> Rights {
        let writes = |grant: &Grant| grant.permissions.create || grant.permissions.modify;
        if self.grants.iter().any(writes) { Rights::Write } else { Rights::Read }
    }

    pub(crate) fn may(&self, deed: Deed, path: &Pathname) -> bool {
        let granted = |grant: &Grant| grant.covers(path) && grant.permissions.allow(deed);
        // Who may enter a folder may see that those above it are there.
        let leads_there = |grant: &Grant| deed == Deed::Look && is_within(path, &grant.path);
        self.grants.iter().any(|grant| granted(grant) || leads_there(grant))
    }

    /// # Errors
    /// When that is not granted.
    pub(crate) fn check(&self, deed: Deed, path: &Pathname) -> Result<(), Error> {
        if self.may(deed, path) {
            return Ok(());
        }
        let shown = String::from_utf8_lossy(path.as_bytes());
        let mut message = format!("you may not {deed} {}", in_short(&shown));
        if matches!(deed, Deed::Create | Deed::Modify) && self.may(Deed::Read, path) {
            message += ": you may only read there";
        }
        Err(Error::new(Fault::Refused, ErrorCode::PermissionDenied, message))
    }

    /// To put something at `path`, where something may be already.
    ///
    /// # Errors
    /// When that is not granted.
    pub(crate) fn check_store(&self, path: &Pathname) -> Result<(), Error> {
        self.check(Deed::Create, path)?;
        let below = path.as_bytes().strip_prefix(b"/").unwrap_or(path.as_bytes());
        let is_free = || {
            let looked = self.root.stat_link(below);
            looked.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
        };
        if self.may(Deed::Modify, path) || is_free() {
            Ok(())
        } else {
            self.check(Deed::Modify, path)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(folder: &std::path::Path, grants: Vec<Grant>) -> Authorization {
        let root = Arc::new(Root::open(folder).expect("a folder").exported());
        Authorization::new(&root, grants).expect("granted")
    }

    fn path(text: &str) -> Pathname {
        Pathname::new(text)
    }

    #[test]
    fn a_grant_reaches_what_is_below_it_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let grants = vec![
            Grant::new("/raw/", Permissions::READ),
            Grant::new("/home/alice", Permissions::WRITE),
        ];
        let access = access(folder.path(), grants);
        for (deed, at, expected) in [
            (Deed::Read, "/raw", true),
            (Deed::Read, "/raw/a/b", true),
            (Deed::Read, "/rawer", false),
            (Deed::Create, "/raw/a", false),
            (Deed::Modify, "/home/alice/x", true),
            (Deed::Modify, "/home/alicex", false),
            (Deed::Look, "/home", true),
            (Deed::Read, "/home", false),
            (Deed::Look, "/", true),
            (Deed::Read, "/", false),
            (Deed::Look, "/other", false),
        ] {
            assert_eq!(access.may(deed, &path(at)), expected, "{deed} {at}");
        }
        assert_eq!(access.rights(), Rights::Write);
        let refused = access.check(Deed::Read, &path("/etc")).expect_err("not granted");
        assert_eq!(refused.code, ErrorCode::PermissionDenied);
        for (at, words) in [
            ("/raw/a", "you may not create /raw/a: you may only read there"),
            ("/etc", "you may not create /etc"),
        ] {
            let refused = access.check(Deed::Create, &path(at)).expect_err("not granted");
            assert_eq!(refused.message, words);
        }
    }

    #[test]
    fn a_drop_box_takes_what_is_new_and_shows_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("there"), "x").expect("a file");
        let access = access(folder.path(), vec![Grant::new("/", Permissions::CREATE)]);
        access.check_store(&path("/new")).expect("nothing is there");
        assert!(access.check_store(&path("/there")).is_err(), "it would be replaced");
        assert!(!access.may(Deed::Read, &path("/there")));
    }

    #[test]
    fn no_link_leads_out_of_what_is_granted() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["alice", "bob"] {
            std::fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        std::fs::write(folder.path().join("bob/secret"), "x").expect("a file");
        std::os::unix::fs::symlink("../bob", folder.path().join("alice/way")).expect("a link");
        let some = access(folder.path(), vec![Grant::new("/alice", Permissions::WRITE)]);
        assert!(some.root().stat(b"alice/way/secret").is_err(), "a link out of what is granted");
        let all = access(folder.path(), vec![Grant::new("/", Permissions::WRITE)]);
        assert!(all.root().stat(b"alice/way/secret").is_ok(), "a link within what is granted");
    }
}

//! What a copy does not keep of files that it reads, and says: hard links between them, extended
//! attributes and ACLs.

use super::root::Root;
use farline_core::transfer::{AttributeSet, Entry, EntryKind};
use rustix::fs::llistxattr;
use rustix::io::Errno;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::ops::AddAssign;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Files that have more than one name, by path: device and inode number of each.
pub(crate) type LinkedFiles = BTreeMap<Vec<u8>, (u64, u64)>;

/// How many files and folders lost something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct NotKept {
    /// Files that are one file, by hard links, with another one of the same copy. Each became a
    /// file of its own.
    pub hard_linked: u64,
    /// Files and folders with extended attributes of the user's (`user.*`) or POSIX ACLs.
    pub with_attributes: u64,
}

impl NotKept {
    /// As many.
    pub(crate) fn new(hard_linked: u64, with_attributes: u64) -> NotKept {
        NotKept { hard_linked, with_attributes }
    }

    /// Of `entries`, which lie where `place` says, where what is `kept` travels. It costs one
    /// system call for each.
    pub(crate) fn of<'a>(
        entries: &[Entry],
        linked: &LinkedFiles,
        kept: AttributeSet,
        place: impl Fn(usize) -> (&'a Root, Vec<u8>),
    ) -> NotKept {
        let mut names: HashMap<(u64, u64), u64> = HashMap::new();
        let mut with_attributes = 0;
        for (index, entry) in entries.iter().enumerate() {
            if let Some(&inode) = linked.get(&entry.path).filter(|_| !kept.hard_links) {
                *names.entry(inode).or_default() += 1;
            }
            let has_some = !matches!(entry.kind, EntryKind::Symlink { .. });
            if has_some && !(kept.acls && kept.extended) {
                let (root, path) = place(index);
                with_attributes += u64::from(has_attributes(root, &path, kept));
            }
        }
        let hard_linked = names.into_values().filter(|&count| count > 1).sum();
        NotKept::new(hard_linked, with_attributes)
    }

    /// What was lost, in one line for people; `None` when nothing was.
    pub(crate) fn in_words(self) -> Option<String> {
        let linked = match self.hard_linked {
            0 => None,
            n => Some(format!(
                "{n} files have hard links between them and were copied as separate files"
            )),
        };
        let attributes = match self.with_attributes {
            0 => None,
            1 => Some("1 has extended attributes or an ACL that was not copied".to_owned()),
            n => Some(format!("{n} have extended attributes or ACLs that were not copied")),
        };
        let said: Vec<String> = linked.into_iter().chain(attributes).collect();
        (!said.is_empty()).then(|| format!("not kept: {}", said.join("; ")))
    }
}

impl AddAssign for NotKept {
    fn add_assign(&mut self, other: NotKept) {
        self.hard_linked += other.hard_linked;
        self.with_attributes += other.with_attributes;
    }
}

/// Whether what is at `path` has attributes that somebody gave it. Those of the system's own
/// (`security.*`, `trusted.*`) are not a user's to copy.
fn has_attributes(root: &Root, path: &[u8], kept: AttributeSet) -> bool {
    let mut names = [0; 1024];
    // By its name takes a third of the time; the folder that was opened may have another one by
    // now.
    let by_name = root.path().join(OsStr::from_bytes(path));
    let listed = llistxattr(&by_name, &mut names[..]).or_else(|_| {
        let folder = format!("/proc/self/fd/{}/", root.as_fd().as_raw_fd());
        llistxattr(Path::new(&folder).join(OsStr::from_bytes(path)), &mut names[..])
    });
    match listed {
        Ok(len) => names[..len].split(|&byte| byte == 0).any(|name| {
            (name.starts_with(b"user.") && !kept.extended)
                || (name.starts_with(b"system.posix_acl_") && !kept.acls)
        }),
        // More than there is room for.
        Err(Errno::RANGE) => true,
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stores::walk::walk_linked;
    use rustix::fs::{XattrFlags, setxattr};

    #[test]
    fn links_within_the_tree_and_users_attributes_are_counted() {
        let dir = tempfile::tempdir().expect("a folder");
        let (tree, at) = (dir.path().join("t"), |name: &str| dir.path().join("t").join(name));
        std::fs::create_dir_all(tree.join("d")).expect("folders");
        for name in ["a", "b", "c"] {
            std::fs::write(at(name), name).expect("written");
        }
        std::fs::hard_link(at("a"), at("d/a2")).expect("linked");
        std::fs::hard_link(at("a"), at("a3")).expect("linked");
        std::fs::hard_link(at("b"), dir.path().join("outside")).expect("linked");
        let root = Root::open(&tree).expect("opened");
        let (walked, linked) = walk_linked(&root, b"").expect("walked");
        let count = || {
            NotKept::of(&walked.0, &linked, AttributeSet::default(), |index| {
                (&root, walked.0[index].path.clone())
            })
        };
        assert_eq!(count(), NotKept { hard_linked: 3, with_attributes: 0 });
        let set = |name: &str| setxattr(at(name), "user.of", b"x", XattrFlags::empty());
        if let Err(errno) = set("c").and_then(|()| set("d")) {
            assert_eq!(errno, Errno::OPNOTSUPP, "this file system has none");
            crate::skip::skip("this file system has no extended attributes");
            return;
        }
        let lost = count();
        assert_eq!(lost, NotKept { hard_linked: 3, with_attributes: 2 });
        assert_eq!(
            lost.in_words().as_deref(),
            Some(
                "not kept: 3 files have hard links between them and were copied as separate \
                 files; 2 have extended attributes or ACLs that were not copied"
            )
        );
        assert_eq!(NotKept::default().in_words(), None);
        std::fs::rename(&tree, dir.path().join("moved")).expect("renamed");
        assert_eq!(count(), lost, "it is the folder that was opened");
    }
}

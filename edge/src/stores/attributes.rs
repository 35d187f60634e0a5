//! Reads and sets what else of files travels: owner, group, mode bits, ACLs, extended attributes.
//!
//! ACLs are the extended attributes that Linux keeps them in; the numbers of users and groups in
//! them are those of this host.

use super::not_kept::LinkedFiles;
use super::root::Root;
use super::walk::{modified_ns, times};
use crate::sys::fs_user::fs_uid;
use farline_core::transfer::{
    Account, AttributeSet, Attributes, Digest, DigestAlgorithm, Entry, EntryKind,
};
use farline_core::units::Error;
use nix::unistd::{Gid, Group, Uid, User};
use rustix::fs::{
    AtFlags, Mode, OFlags, Stat, XattrFlags, chmod, chownat, getxattr, listxattr, openat,
    removexattr, setxattr, statat, utimensat,
};
use rustix::io::Errno;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::io;
use std::ops::AddAssign;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

/// Bytes that the kernel keeps of one extended attribute, and of the names of all (`xattr(7)`).
const XATTR_MAX: usize = 64 << 10;
const ACCESS: &[u8] = b"system.posix_acl_access";
const DEFAULT: &[u8] = b"system.posix_acl_default";

/// How many files and folders lack something that was asked for, since this host may not set it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct NotSet {
    /// Their owner.
    pub owner: u64,
    /// Their group.
    pub group: u64,
    /// Their set-user-id or set-group-id bit.
    pub modes: u64,
    /// Their ACL.
    pub acls: u64,
    /// An extended attribute.
    pub extended: u64,
}

impl NotSet {
    fn counts(&mut self) -> [(&'static str, &mut u64); 5] {
        [
            ("owner", &mut self.owner),
            ("group", &mut self.group),
            ("set-user-id or set-group-id bit", &mut self.modes),
            ("ACL", &mut self.acls),
            ("extended attributes", &mut self.extended),
        ]
    }

    /// In one line for people; `None` when nothing is lacking.
    pub(crate) fn in_words(mut self) -> Option<String> {
        let counts = self.counts().into_iter().filter(|(_, count)| **count > 0);
        let said: Vec<String> = counts.map(|(what, count)| format!("{what} of {count}")).collect();
        (!said.is_empty())
            .then(|| format!("not set, for lack of the right to: {}", said.join(", ")))
    }

    /// As it crosses the wire.
    pub(crate) fn numbers(mut self) -> String {
        let numbers: Vec<String> =
            self.counts().into_iter().map(|(_, count)| count.to_string()).collect();
        numbers.join(",")
    }

    /// Reads that.
    pub(crate) fn parse(text: &str) -> Option<NotSet> {
        let mut read = NotSet::default();
        let mut numbers = text.split(',');
        for (_, count) in read.counts() {
            *count = numbers.next()?.parse().ok()?;
        }
        Some(read)
    }
}

impl AddAssign for NotSet {
    fn add_assign(&mut self, mut other: NotSet) {
        for ((_, mine), (_, more)) in self.counts().into_iter().zip(other.counts()) {
            *mine += *more;
        }
    }
}

/// Gives `entries` the attributes of `wanted`, and makes further names of one file what they are.
/// `place` says where each lies.
pub(crate) fn gather<'a>(
    entries: &mut [Entry],
    linked: &LinkedFiles,
    wanted: AttributeSet,
    place: impl Fn(usize, &Entry) -> (&'a Root, Vec<u8>),
) {
    // Nothing ends it.
    let _ = gather_metered(entries, linked, wanted, place, &mut |_| Ok(()));
}

/// The same; `meter` is told of each entry that has its attributes, and may end it.
pub(crate) fn gather_metered<'a>(
    entries: &mut [Entry],
    linked: &LinkedFiles,
    wanted: AttributeSet,
    place: impl Fn(usize, &Entry) -> (&'a Root, Vec<u8>),
    meter: &mut dyn FnMut(&Entry) -> Result<(), Error>,
) -> Result<(), Error> {
    if wanted.is_empty() {
        return Ok(());
    }
    let mut names = Names::default();
    let mut first: HashMap<(u64, u64), Vec<u8>> = HashMap::new();
    for (index, entry) in entries.iter_mut().enumerate() {
        let (root, path) = place(index, entry);
        // What is gone since fails when it is read.
        let read = read(root, &path, entry, wanted, &mut names).unwrap_or_default();
        entry.attributes = Some(Box::new(read));
        meter(entry)?;
        let inode = linked.get(&entry.path).filter(|_| wanted.hard_links);
        if let (Some(&inode), EntryKind::File { .. } | EntryKind::There { .. }) =
            (inode, &entry.kind)
        {
            match first.get(&inode) {
                Some(at) => entry.kind = EntryKind::There { at: at.as_slice().into() },
                None => {
                    first.insert(inode, entry.path.clone());
                }
            }
        }
    }
    Ok(())
}

fn read(
    root: &Root,
    path: &[u8],
    entry: &Entry,
    wanted: AttributeSet,
    names: &mut Names,
) -> io::Result<Attributes> {
    let (at, stat) = open(root, path)?;
    let mut found = Attributes {
        owner: wanted.owner.then(|| names.user(stat.st_uid)),
        group: wanted.group.then(|| names.group(stat.st_gid)),
        ..Attributes::default()
    };
    if matches!(entry.kind, EntryKind::Symlink { .. }) {
        return Ok(found);
    }
    let at = itself(&at);
    for name in listed(&at).into_iter().filter(|name| is_wanted(name, wanted)) {
        // One that is gone since is not the file's any more.
        let Ok(value) = value(&at, &name) else { continue };
        if name == ACCESS || name == DEFAULT {
            for (tag, id) in acl_entries(&value).filter_map(|(tag, _, id)| Some((tag, id?))) {
                let (accounts, account) = match tag {
                    AclTag::User => (&mut found.users, names.user(id)),
                    AclTag::Group => (&mut found.groups, names.group(id)),
                };
                if !accounts.contains(&account) {
                    accounts.push(account);
                }
            }
        }
        found.extended.push((name, value));
    }
    Ok(found)
}

/// Opens `path` itself, be it a link, to look at and to set what it has.
fn open(root: &Root, path: &[u8]) -> io::Result<(OwnedFd, Stat)> {
    if path.is_empty() {
        let at = root.open_beneath(path, OFlags::PATH, 0)?;
        let stat = statat(&at, c"", AtFlags::EMPTY_PATH)?;
        return Ok((at, stat));
    }
    let (folder, name) = root.parent(path)?;
    open_at(&folder, &name)
}

/// The same of a name in an open folder.
pub(super) fn open_at(folder: &OwnedFd, name: &[u8]) -> io::Result<(OwnedFd, Stat)> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let at = openat(folder, OsStr::from_bytes(name), flags, Mode::empty())?;
    let stat = statat(&at, c"", AtFlags::EMPTY_PATH)?;
    Ok((at, stat))
}

/// A path of what was opened, whatever has taken its name since.
fn itself(fd: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

fn listed(at: &str) -> Vec<Vec<u8>> {
    let mut names = vec![0; XATTR_MAX];
    // A file system without attributes has none.
    let len = listxattr(at, &mut names[..]).unwrap_or(0);
    let names = names[..len].split(|&byte| byte == 0).filter(|name| !name.is_empty());
    names.map(<[u8]>::to_vec).collect()
}

fn value(at: &str, name: &[u8]) -> Result<Vec<u8>, Errno> {
    let mut value = vec![0; XATTR_MAX];
    let len = getxattr(at, OsStr::from_bytes(name), &mut value[..])?;
    value.truncate(len);
    Ok(value)
}

/// Whether the attribute of that name is meant. Those of the system's own are root's to copy.
fn is_wanted(name: &[u8], wanted: AttributeSet) -> bool {
    match name {
        ACCESS | DEFAULT => wanted.acls,
        name if name.starts_with(b"user.") => wanted.extended,
        name if name.starts_with(b"trusted.") || name.starts_with(b"security.") => {
            wanted.extended && fs_uid() == 0
        }
        _ => false,
    }
}

/// Sets what was read elsewhere.
#[derive(Debug)]
pub(super) struct AttributeSetter {
    pub(super) wanted: AttributeSet,
    /// Whether this host's files may become another user's, or run as their owner.
    pub(super) may_own: bool,
    names: Names,
    pub(super) not_set: NotSet,
}

impl AttributeSetter {
    pub(super) fn new(wanted: AttributeSet, may_own: bool) -> AttributeSetter {
        AttributeSetter { wanted, may_own, names: Names::default(), not_set: NotSet::default() }
    }

    /// Gives what `at` is, which `stat` says, all that `entry` has and that it has not; what may
    /// not be is counted.
    ///
    /// # Errors
    /// When its mode or its time cannot be set.
    pub(super) fn set(&mut self, (at, stat): (&OwnedFd, &Stat), entry: &Entry) -> io::Result<()> {
        let none = Attributes::default();
        let attributes = entry.attributes.as_deref().unwrap_or(&none);
        let is_link = matches!(entry.kind, EntryKind::Symlink { .. });
        // What was there before keeps its mode and time where those were not asked for.
        let is_there = matches!(entry.kind, EntryKind::There { .. }) && !self.wanted.modes;
        let is_root = entry.path.is_empty() && entry.kind == EntryKind::Directory;
        let has_changed = self.set_owner(at, stat, attributes);
        if !is_link {
            let path = itself(at);
            let has_changed = self.set_extended(&path, stat, attributes) || has_changed;
            let mode = match is_there || (is_root && !self.wanted.modes) {
                true => stat.st_mode & 0o7777,
                false => self.mode(at, entry)?,
            };
            if has_changed || stat.st_mode & 0o7777 != mode {
                chmod(&path, Mode::from_raw_mode(mode))?;
            }
        }
        if !is_there && modified_ns(stat) != entry.modified_ns {
            match is_link {
                true => utimensat(at, c"", &times(entry), AtFlags::EMPTY_PATH)?,
                false => utimensat(rustix::fs::CWD, itself(at), &times(entry), AtFlags::empty())?,
            }
        }
        Ok(())
    }

    /// Returns whether something changed, so that mode bits may be gone.
    fn set_owner(&mut self, at: &OwnedFd, stat: &Stat, attributes: &Attributes) -> bool {
        let (numeric, names) = (self.wanted.numeric_ids, &mut self.names);
        let differs = |wanted: u32, is: u32| (wanted != is).then_some(wanted);
        let owner = attributes.owner.as_ref().filter(|_| self.wanted.owner);
        let owner = owner.and_then(|user| differs(names.uid(user, numeric), stat.st_uid));
        let group = attributes.group.as_ref().filter(|_| self.wanted.group);
        let group = group.and_then(|group| differs(names.gid(group, numeric), stat.st_gid));
        let change = |owner: Option<u32>, group: Option<u32>| {
            let (owner, group) =
                (owner.map(rustix::fs::Uid::from_raw), group.map(rustix::fs::Gid::from_raw));
            chownat(at, c"", owner, group, AtFlags::EMPTY_PATH).is_ok()
        };
        if (owner, group) == (None, None) {
            return false;
        }
        let has_group = group.is_none() || (self.may_own && change(None, group));
        let has_owner = owner.is_none() || (self.may_own && change(owner, None));
        self.not_set.group += u64::from(!has_group);
        self.not_set.owner += u64::from(!has_owner);
        has_group || has_owner
    }

    /// Returns whether something changed.
    fn set_extended(&mut self, at: &str, stat: &Stat, attributes: &Attributes) -> bool {
        if !self.wanted.extended && !self.wanted.acls {
            return false;
        }
        let numeric = self.wanted.numeric_ids;
        let mut wanted: BTreeMap<&[u8], Vec<u8>> = BTreeMap::new();
        for (name, value) in &attributes.extended {
            let is_acl = *name == ACCESS || *name == DEFAULT;
            if !(if is_acl { self.wanted.acls } else { self.wanted.extended }) {
                continue;
            }
            let value = match is_acl {
                true => self.names.translated(value, attributes, numeric),
                false => value.clone(),
            };
            wanted.insert(name, value);
        }
        let (mut changed, mut lacks_acl, mut lacks_other) = (false, false, false);
        for name in listed(at) {
            let goes = is_wanted(&name, self.wanted) && !wanted.contains_key(&name[..]);
            // What the system gave it by itself is not in the way.
            if goes && !name.starts_with(b"security.") {
                changed |= removexattr(at, OsStr::from_bytes(&name)).is_ok();
            }
        }
        for (name, new) in wanted {
            if value(at, name).is_ok_and(|is| is == new) {
                continue;
            }
            let is_own = name.starts_with(b"user.") || name.starts_with(b"system.");
            let done = match is_own || self.may_own {
                true => set_writable(at, stat, name, &new),
                false => Err(Errno::PERM),
            };
            match done {
                Ok(()) => changed = true,
                Err(_) if name.starts_with(b"system.") => lacks_acl = true,
                Err(_) => lacks_other = true,
            }
        }
        self.not_set.acls += u64::from(lacks_acl);
        self.not_set.extended += u64::from(lacks_other);
        changed
    }

    /// Keeps with the file `at`, which `stat` says, what it was compared by.
    pub(super) fn keep_digest(
        &mut self,
        (at, stat): (&OwnedFd, &Stat),
        algorithm: DigestAlgorithm,
        digest: &Digest,
    ) {
        let hex: String =
            digest[..algorithm.digest_len()].iter().map(|byte| format!("{byte:02x}")).collect();
        let path = itself(at);
        let name = algorithm.attribute().as_bytes();
        let done = set_writable(&path, stat, name, hex.as_bytes());
        let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
        // It may have been made writable for this.
        let kept = done.and_then(|()| match stat.st_mode & 0o200 {
            0 => chmod(&path, mode),
            _ => Ok(()),
        });
        self.not_set.extended += u64::from(kept.is_err());
    }

    /// The mode that `entry` gets: what runs as its owner or group does so only where those are as
    /// they were.
    fn mode(&mut self, at: &OwnedFd, entry: &Entry) -> io::Result<u32> {
        if !self.wanted.modes {
            return Ok(entry.mode & 0o777);
        }
        let special = entry.mode & 0o6000;
        if special == 0 {
            return Ok(entry.mode);
        }
        let stat = statat(at, c"", AtFlags::EMPTY_PATH)?;
        let numeric = self.wanted.numeric_ids;
        let attributes = entry.attributes.as_deref();
        let owner = attributes.and_then(|attributes| attributes.owner.as_ref());
        let group = attributes.and_then(|attributes| attributes.group.as_ref());
        let is_same_owner = owner.is_some_and(|user| self.names.uid(user, numeric) == stat.st_uid);
        let is_same_group =
            group.is_some_and(|group| self.names.gid(group, numeric) == stat.st_gid);
        let mut mode = entry.mode;
        if !(self.may_own && is_same_owner) {
            mode &= !0o4000;
        }
        // Of a folder it says only whose group its files get.
        let is_folder = entry.kind == EntryKind::Directory;
        if !(is_folder || (self.may_own && is_same_group)) {
            mode &= !0o2000;
        }
        self.not_set.modes += u64::from(mode != entry.mode);
        Ok(mode)
    }
}

/// Sets an extended attribute of a file that `stat` says; its mode is as it was no more where it
/// was not writable: who may not write to it may not set one either.
fn set_writable(at: &str, stat: &Stat, name: &[u8], value: &[u8]) -> Result<(), Errno> {
    let set = || setxattr(at, OsStr::from_bytes(name), value, XattrFlags::empty());
    match set() {
        Err(Errno::ACCESS) => {
            chmod(at, Mode::from_raw_mode((stat.st_mode & 0o777) | 0o600)).and_then(|()| set())
        }
        done => done,
    }
}

/// Users and groups of this host, as they were looked up.
#[derive(Debug, Default)]
struct Names {
    users: HashMap<u32, Option<String>>,
    groups: HashMap<u32, Option<String>>,
    uids: HashMap<String, Option<u32>>,
    gids: HashMap<String, Option<u32>>,
}

impl Names {
    fn user(&mut self, id: u32) -> Account {
        let look = || User::from_uid(Uid::from_raw(id)).ok().flatten().map(|user| user.name);
        Account { id, name: self.users.entry(id).or_insert_with(look).clone() }
    }

    fn group(&mut self, id: u32) -> Account {
        let look = || Group::from_gid(Gid::from_raw(id)).ok().flatten().map(|group| group.name);
        Account { id, name: self.groups.entry(id).or_insert_with(look).clone() }
    }

    /// The user here: of the same name, or else of the same number. Root is root.
    fn uid(&mut self, user: &Account, numeric: bool) -> u32 {
        let Some(name) = user.name.as_ref().filter(|_| !numeric && user.id != 0) else {
            return user.id;
        };
        let look = || User::from_name(name).ok().flatten().map(|user| user.uid.as_raw());
        self.uids.entry(name.clone()).or_insert_with(look).unwrap_or(user.id)
    }

    fn gid(&mut self, group: &Account, numeric: bool) -> u32 {
        let Some(name) = group.name.as_ref().filter(|_| !numeric && group.id != 0) else {
            return group.id;
        };
        let look = || Group::from_name(name).ok().flatten().map(|group| group.gid.as_raw());
        self.gids.entry(name.clone()).or_insert_with(look).unwrap_or(group.id)
    }

    /// The ACL `value` with the numbers of this host.
    fn translated(&mut self, value: &[u8], attributes: &Attributes, numeric: bool) -> Vec<u8> {
        let mut translated = value.to_vec();
        for (tag, at, id) in acl_entries(value) {
            let Some(id) = id else { continue };
            let known = |accounts: &[Account]| {
                let known = accounts.iter().find(|account| account.id == id).cloned();
                known.unwrap_or(Account { id, name: None })
            };
            let here = match tag {
                AclTag::User => self.uid(&known(&attributes.users), numeric),
                AclTag::Group => self.gid(&known(&attributes.groups), numeric),
            };
            translated[at..at + 4].copy_from_slice(&here.to_le_bytes());
        }
        translated
    }
}

/// Whom an entry of an ACL names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AclTag {
    User,
    Group,
}

/// The entries of an ACL that name somebody, with where the number stands (Linux,
/// `posix_acl_xattr.h`: a version of 4 bytes, then tag, permissions and number of 2, 2 and 4).
fn acl_entries(value: &[u8]) -> impl Iterator<Item = (AclTag, usize, Option<u32>)> + '_ {
    const HEADER: usize = 4;
    const ENTRY: usize = 8;
    let entries = value.get(HEADER..).unwrap_or_default().chunks_exact(ENTRY).enumerate();
    entries.filter_map(|(index, entry)| {
        let tag = match u16::from_le_bytes([entry[0], entry[1]]) {
            0x02 => AclTag::User,
            0x08 => AclTag::Group,
            _ => return None,
        };
        let id = entry[4..].try_into().ok().map(u32::from_le_bytes);
        Some((tag, HEADER + ENTRY * index + 4, id))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acl_names_whom_it_means_on_this_host() {
        // version 2; user::rwx, user:1234:r--, group::r-x, group:0:rw-, mask::rwx, other::---
        let entries: [(u16, u16, u32); 6] =
            [(1, 7, !0), (2, 4, 1234), (4, 5, !0), (8, 6, 4321), (16, 7, !0), (32, 0, !0)];
        let mut acl = 2u32.to_le_bytes().to_vec();
        for (tag, perm, id) in entries {
            acl.extend(tag.to_le_bytes());
            acl.extend(perm.to_le_bytes());
            acl.extend(id.to_le_bytes());
        }
        let named: Vec<_> = acl_entries(&acl).map(|(tag, _, id)| (tag, id)).collect();
        assert_eq!(named, [(AclTag::User, Some(1234)), (AclTag::Group, Some(4321))]);
        let attributes = Attributes {
            users: vec![Account { id: 1234, name: Some("root".to_owned()) }],
            groups: vec![Account { id: 4321, name: Some("nobody knows it".to_owned()) }],
            ..Attributes::default()
        };
        let mut names = Names::default();
        let here = names.translated(&acl, &attributes, false);
        let ids: Vec<_> = acl_entries(&here).map(|(_, _, id)| id).collect();
        assert_eq!(ids, [Some(0), Some(4321)]);
        assert_eq!(names.translated(&acl, &attributes, true), acl);
        // What is cut is no entry.
        assert_eq!(acl_entries(&acl[..20]).count(), 1);
        assert_eq!(acl_entries(b"").count(), 0);
    }

    #[test]
    fn counts_survive_the_wire_and_are_said() {
        let some = NotSet { owner: 3, acls: 1, ..NotSet::default() };
        assert_eq!(NotSet::parse(&some.numbers()), Some(some));
        assert_eq!(NotSet::parse("1,2"), None);
        let words = "not set, for lack of the right to: owner of 3, ACL of 1";
        assert_eq!(some.in_words().as_deref(), Some(words));
        assert_eq!(NotSet::default().in_words(), None);
    }
}

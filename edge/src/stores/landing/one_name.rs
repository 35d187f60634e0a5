//! Files of one tree whose names are one at the destination: by case, by Unicode normalisation, or
//! through a link. The first of the tree has the name, the others are refused.
//!
//! Who comes to it first takes the name, and keeps it until all have come; then it goes to the
//! first of the tree, where that came later.

use super::PosixSink;
use super::finish::{Numbered, Outcome};
use crate::stores::in_short;
use crate::stores::walk::{changed_ns, modified_ns};
use crate::sys::lock::lock;
use farline_core::transfer::{Entry, EntryKind};
use farline_core::units::{Error, ErrorCode, Fault};
use rustix::fs::{AtFlags, Stat, statat};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;

/// A file system's clock may be so much behind the system's: a tick at 100 Hz, and some more.
const CLOCK_LAG_NS: i64 = 50_000_000;

/// A file system keeps times so coarsely, rounded down: FAT, in steps of two seconds.
const TIME_STEP_NS: i64 = 2_000_000_000;

/// Entries that came to their names after others whose names are the same there.
#[derive(Debug, Default)]
pub(super) struct LateNames {
    /// Those that stand before the other in the tree, and the other.
    before: BTreeMap<usize, usize>,
    /// The other that gives its name up now.
    gives_up: Option<usize>,
}

/// Files and links of a tree by length and time, so that what is like another is found without
/// looking at all of them.
#[derive(Debug)]
pub(super) struct Alike(Vec<u32>);

impl Alike {
    fn of(entries: &[Entry]) -> Alike {
        let has_bytes = |&index: &u32| len_and_time(entries, index).is_some();
        let mut found: Vec<u32> = (0..entries.len() as u32).filter(has_bytes).collect();
        found.sort_unstable_by_key(|&index| len_and_time(entries, index));
        Alike(found)
    }

    /// Those of `entries`, of which this is, that may be `there`.
    fn to(&self, entries: &[Entry], there: &Stat) -> impl Iterator<Item = usize> {
        let (len, at) = (there.st_size as u64, modified_ns(there));
        let first = Some((len, at));
        let end = Some((len, at.saturating_add(TIME_STEP_NS)));
        let place = |key| self.0.partition_point(|&index| len_and_time(entries, index) < key);
        self.0[place(first)..place(end)].iter().map(|&index| index as usize)
    }
}

/// Bytes of a file, or of a link's target, and its time; `None` of what has none.
fn len_and_time(entries: &[Entry], index: u32) -> Option<(u64, i64)> {
    let entry = &entries[index as usize];
    let len = match &entry.kind {
        EntryKind::File { len } => *len,
        EntryKind::Symlink { target } => target.len() as u64,
        EntryKind::Directory | EntryKind::There { .. } => return None,
    };
    Some((len, entry.modified_ns))
}

/// The error of a file whose name is there that of `other`, of the same tree.
pub(crate) fn name_of_another(other: &[u8]) -> Error {
    let message =
        format!("at the destination its name is that of {} too, which is there", in_short(other));
    Error::new(Fault::You, ErrorCode::PathExists, message)
        .hint("names there do not differ by case or form alone; give one of them another")
}

impl PosixSink {
    /// Refuses a name for `entry` where what is `there` under it is another file of the same tree.
    ///
    /// What was there before this transfer began is not one of its files; only of what is newer the
    /// others' names are looked at.
    pub(super) fn refuse_same_name(
        &self,
        there: Option<&Stat>,
        entry: &Entry,
    ) -> Result<(), Error> {
        let Some(there) = there else { return Ok(()) };
        // On FAT, and through sshfs, the time of a change is that of the content, which what has
        // just landed brought along: it is no proof.
        let is_older = changed_ns(there) < self.began_ns.saturating_sub(CLOCK_LAG_NS)
            && changed_ns(there) != modified_ns(there);
        // What lands has one name; of links that were there a moment ago the change of one dates
        // all.
        if (is_older && !self.has_resumed()) || there.st_nlink > 1 {
            return Ok(());
        }
        let Some((index, other)) = self.entry_at(there, entry) else { return Ok(()) };
        let own = self.layout.entries().iter().position(|one| one.path == entry.path);
        let late = &mut lock(&self.state).late;
        if late.gives_up == Some(index) {
            return Ok(());
        }
        if let Some(own) = own.filter(|&own| own < index) {
            late.before.insert(own, index);
        }
        Err(name_of_another(&other.path))
    }

    /// The entry, other than `entry`, that landed as `there`, and its number.
    fn entry_at(&self, there: &Stat, entry: &Entry) -> Option<(usize, &Entry)> {
        let entries = self.layout.entries();
        let alike = self.alike.get_or_init(|| Alike::of(entries));
        let is_there = |other: &Entry| {
            let Ok((folder, name, _)) = self.place(other) else { return false };
            statat(&folder, OsStr::from_bytes(&name), AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|stat| (stat.st_dev, stat.st_ino) == (there.st_dev, there.st_ino))
        };
        let others = alike.to(entries, there).map(|index| (index, &entries[index]));
        others
            .filter(|(_, other)| other.path != entry.path && is_there(other))
            .min_by_key(|&(index, _)| index)
    }

    /// Gives each name that several entries have to the first of the tree, where another came to it
    /// before that: the landing of `good`, in their order, has come to `done`. Returns those that
    /// landed before all of `good` and have no name any more, and why.
    pub(super) fn name_the_first(
        &self,
        good: &[Numbered<'_>],
        done: &mut [(&Entry, Outcome)],
        sync: bool,
    ) -> Vec<(usize, Error)> {
        let before = std::mem::take(&mut lock(&self.state).late.before);
        let place_of = |entry: usize| good.binary_search_by_key(&entry, |&(index, _)| index).ok();
        let mut nameless = Vec::new();
        for (first, other) in before {
            let Some(at) = place_of(first).filter(|&at| done[at].1.is_err()) else { continue };
            let others = place_of(other);
            // It may have lost the name already, or not have had it.
            if others.is_some_and(|others| done[others].1.is_err()) {
                continue;
            }
            let entry = done[at].0;
            lock(&self.state).late.gives_up = Some(other);
            let landed = self.land_one(first, entry, sync);
            lock(&self.state).late.gives_up = None;
            if landed.is_err() {
                continue;
            }
            done[at].1 = Ok(());
            let error = name_of_another(&entry.path);
            match others {
                Some(others) => done[others].1 = Err(Box::new(error)),
                None => {
                    self.landed.fetch_sub(1, Ordering::Relaxed);
                    nameless.push((other, error));
                }
            }
        }
        nameless
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mover::BLOCK_LEN;
    use crate::stores::Root;
    use farline_core::transfer::Layout;
    use rustix::fs::stat;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::sync::Arc;

    #[test]
    fn a_change_that_is_dated_as_the_content_proves_no_age() {
        let dir = tempfile::tempdir().expect("a folder");
        let at = |path: &str| dir.path().join(path);
        fs::create_dir(at("Name")).expect("a folder");
        symlink("Name", at("name")).expect("linked");
        fs::write(at("Name/file"), "content").expect("written");
        let there = stat(at("Name/file")).expect("there");
        assert_eq!(changed_ns(&there), modified_ns(&there));
        let file = |path: &str, later: i64| {
            let kind = EntryKind::File { len: 7 };
            let modified_ns = modified_ns(&there) + later;
            let (path, mode) = (path.as_bytes().to_vec(), 0o644);
            Entry { path, kind, mode, modified_ns, changed_ns: 0, attributes: None }
        };
        let entries = vec![file("Name/file", 5), file("name/file", 0)];
        let layout = Arc::new(Layout::new(entries.clone(), BLOCK_LEN));
        let root = Arc::new(Root::open(dir.path()).expect("a folder"));
        let mut sink = PosixSink::new(root, Vec::new(), layout, true);
        // All that is there is older than the copy.
        sink.began_ns += 3600 * 1_000_000_000;
        let refused = sink.refuse_same_name(Some(&there), &entries[1]).expect_err("one name");
        assert!(refused.message.contains("Name/file"), "{refused:?}");
        sink.refuse_same_name(Some(&there), &entries[0]).expect_err("the other's name");
        fs::set_permissions(at("Name/file"), fs::Permissions::from_mode(0o600)).expect("set");
        let there = stat(at("Name/file")).expect("there");
        sink.refuse_same_name(Some(&there), &entries[1]).expect("it was there before");
    }
}

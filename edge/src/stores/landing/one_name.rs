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
        let is_older = changed_ns(there) < self.began_ns.saturating_sub(CLOCK_LAG_NS);
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
        let is_like = |(_, other): &(usize, &Entry)| {
            let len = match &other.kind {
                EntryKind::File { len } => *len,
                EntryKind::Symlink { target } => target.len() as u64,
                EntryKind::Directory | EntryKind::There { .. } => return false,
            };
            let rounded_ns = other.modified_ns.saturating_sub(modified_ns(there));
            other.path != entry.path
                && len == there.st_size as u64
                && (0..TIME_STEP_NS).contains(&rounded_ns)
        };
        let is_there = |(_, other): &(usize, &Entry)| {
            let Ok((folder, name, _)) = self.place(other) else { return false };
            statat(&folder, OsStr::from_bytes(&name), AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|stat| (stat.st_dev, stat.st_ino) == (there.st_dev, there.st_ino))
        };
        self.layout.entries().iter().enumerate().filter(is_like).find(is_there)
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

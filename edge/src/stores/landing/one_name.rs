//! Two files of one tree whose names are one at the destination: by case, by Unicode normalisation,
//! or through a link. The first keeps the name, the second is refused.

use super::PosixSink;
use crate::stores::in_short;
use crate::stores::walk::{changed_ns, modified_ns};
use farline_core::transfer::{Entry, EntryKind};
use farline_core::units::{Error, ErrorCode, Fault};
use rustix::fs::{AtFlags, Stat, statat};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// A file system's clock may be so much behind the system's: a tick at 100 Hz, and some more.
const CLOCK_LAG_NS: i64 = 50_000_000;

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
        let Some(other) = self.entry_at(there, entry) else { return Ok(()) };
        let message = format!(
            "at the destination its name is that of {} too, which is there",
            in_short(&other.path)
        );
        Err(Error::new(Fault::You, ErrorCode::PathExists, message)
            .hint("names there do not differ by case or form alone; give one of them another"))
    }

    /// The entry, other than `entry`, that landed as `there`.
    fn entry_at(&self, there: &Stat, entry: &Entry) -> Option<&Entry> {
        let is_like = |other: &&Entry| {
            let len = match &other.kind {
                EntryKind::File { len } => *len,
                EntryKind::Symlink { target } => target.len() as u64,
                EntryKind::Directory | EntryKind::There { .. } => return false,
            };
            other.path != entry.path
                && len == there.st_size as u64
                && other.modified_ns == modified_ns(there)
        };
        let is_there = |other: &&Entry| {
            let Ok((folder, name, _)) = self.place(other) else { return false };
            statat(&folder, OsStr::from_bytes(&name), AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|stat| (stat.st_dev, stat.st_ino) == (there.st_dev, there.st_ino))
        };
        self.layout.entries().iter().filter(is_like).find(is_there)
    }
}

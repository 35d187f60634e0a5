//! Files that take their final names while others still come ([`PosixSink::one_by_one`]).

use super::PosixSink;
use super::finish::{SYNC_TOGETHER, check_digest};
use crate::stores::partial::{Partial, landed_as};
use crate::sys::lock::lock;
use farline_core::transfer::{Digests, Entry, VerdictList};
use farline_core::units::{Error, ErrorCode};
use rustix::fs::{AtFlags, Stat, statat, unlinkat};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;

impl PosixSink {
    /// Whether one `syncfs` is cheaper than an `fsync` of each file.
    pub(super) fn syncs_together(&self) -> bool {
        self.layout.files() >= SYNC_TOGETHER as u64
    }

    /// Lands the entries `whole`, which are durable, and journals it. One that cannot be landed is
    /// tried again, and named, at the end.
    pub(super) fn land_whole(&self, partial: &Partial, whole: &[usize]) {
        let together = self.syncs_together();
        let mut landed = Vec::new();
        for &index in whole {
            let entry = &self.layout.entries()[index];
            let done = self
                .complete(index, entry, together)
                .and_then(|()| self.land_one(index, entry, !together));
            if let Ok(stat) = done {
                lock(&self.state).entries.land(index);
                self.landed.fetch_add(1, Ordering::Relaxed);
                let stat = stat.or_else(|| self.stat_landed(entry));
                landed.extend(stat.map(|stat| (index, landed_as(&stat))));
            }
            // A record costs less than what comes again of a file whose record was never written.
            if entry.len() >= self.layout.block_len() as u64 {
                partial.landed(&std::mem::take(&mut landed));
            }
        }
        partial.landed(&landed);
    }

    /// What there is to know of a file that landed; nothing where another took its place since.
    fn stat_landed(&self, entry: &Entry) -> Option<Stat> {
        let (folder, name, _) = self.place(entry).ok()?;
        statat(&folder, OsStr::from_bytes(&name), AtFlags::SYMLINK_NOFOLLOW).ok()
    }

    /// Compares a file that landed with the sender's last word. One that turns out wrong goes, but
    /// for one of an earlier run where nothing may be replaced: its journal's word is not enough.
    pub(super) fn confirm(
        &self,
        index: usize,
        entry: &Entry,
        check: Option<(&VerdictList, &Digests)>,
    ) -> Result<(), Error> {
        check_digest(index, check).or_else(|error| match error.code {
            // It changed after it was read, and was to be sent once more: what landed is as it was.
            ErrorCode::SourceUnreadable => Ok(()),
            _ => {
                let stays = self.only_new && self.has_resumed();
                if !stays && let Ok((folder, name, _)) = self.place(entry) {
                    // Gone already is as good.
                    let _ = unlinkat(&folder, OsStr::from_bytes(&name), AtFlags::empty());
                }
                Err(error)
            }
        })
    }
}

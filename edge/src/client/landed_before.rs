//! What of a tree landed in an earlier run that was killed, where only this host remembers it:
//! copies to and from stock servers (`docs/protocol.md`, clause G-9).

use super::control::Control;
use super::copy::Copy;
use super::listing::entry;
use crate::stores::TreeReceipt;
use farline_core::gridftp::client::Request;
use farline_core::gridftp::{ListingKind, Pathname};
use farline_core::transfer::Entry;
use farline_core::transfer::journal::FileFacts;
use farline_core::units::Error;
use std::collections::BTreeMap;

/// Looks that are asked for at once.
const AT_ONCE: usize = 100;

/// Files that need not be sent, by their number, and whether each was compared when it landed.
pub(super) type LandedBefore = BTreeMap<usize, bool>;

/// The facts of what a server has.
pub(super) async fn facts_at(control: &mut Control, look: u64) -> Result<Option<FileFacts>, Error> {
    let found = control.looked(look).await?;
    let file = found.filter(|found| found.kind == ListingKind::File && found.modified.is_some());
    Ok(file.map(|found| FileFacts::of(&entry(Vec::new(), &found))))
}

/// Which of `entries`, that go to the paths that `path_of` says at a server, are there since an
/// earlier run.
pub(super) async fn landed_there(
    receipt: &TreeReceipt,
    control: &mut Control,
    entries: &[Entry],
    path_of: impl Fn(&Entry) -> Vec<u8>,
) -> Result<LandedBefore, Error> {
    let known = |(index, entry): (usize, &Entry)| {
        Some((index, receipt.before(&entry.path, &FileFacts::of(entry))?))
    };
    let known: Vec<_> = entries.iter().enumerate().filter_map(known).collect();
    let mut landed = LandedBefore::new();
    for some in known.chunks(AT_ONCE) {
        let look = |index: usize| Request::Stat(Pathname::new(path_of(&entries[index])));
        let looks: Vec<u64> = some.iter().map(|&(index, _)| control.request(look(index))).collect();
        for (&(index, before), look) in some.iter().zip(looks) {
            if facts_at(control, look).await? == Some(before.landed) {
                landed.insert(index, before.is_compared);
            }
        }
    }
    Ok(landed)
}

/// The same on this host, where `facts_of` looks at what an entry lands as.
pub(super) fn landed_here(
    receipt: &TreeReceipt,
    entries: &[Entry],
    facts_of: impl Fn(&Entry) -> Option<FileFacts>,
) -> LandedBefore {
    let landed = |(index, entry): (usize, &Entry)| {
        let before = receipt.before(&entry.path, &FileFacts::of(entry))?;
        (facts_of(entry)? == before.landed).then_some((index, before.is_compared))
    };
    entries.iter().enumerate().filter_map(landed).collect()
}

impl Copy<'_> {
    /// Counts `entry`, which landed at `path` in an earlier run.
    pub(super) fn landed_before(&mut self, path: &[u8], entry: &Entry, is_compared: bool) {
        self.stats.landed_before += 1;
        if is_compared {
            self.stats.compared += 1;
            if self.stats.verified_how.is_empty() {
                self.stats.verified_how = "a checksum of every file, computed at both ends, \
                    compared (CKSM) when it landed";
            }
        }
        self.land_one(path, entry, entry.len());
        self.end_transfer();
    }

    /// Says how many were left alone in all attempts, and by what they are known.
    pub(super) fn note_landed_before(&mut self) {
        let (count, were) = match self.stats.landed_before {
            0 => return,
            1 => ("1 file".to_owned(), "was"),
            n => (format!("{n} files"), "were"),
        };
        self.stats.note(format!(
            "{count} that landed in an earlier run {were} left alone: size and time are as they \
             were then, here and at the server"
        ));
    }
}

//! Where the files of a list lie, and whether one is still what was listed.

use super::root::Root;
use super::walk::{changed_ns, join, modified_ns};
use farline_core::transfer::Entry;
use rustix::fs::Stat;
use std::sync::Arc;

/// Where a run of a layout's entries lies.
#[derive(Clone, Debug)]
pub struct Part {
    /// The first of the entries; the run goes on to the next part's first.
    pub first: usize,
    /// The root that they lie beneath.
    pub root: Arc<Root>,
    /// The folder or file below the root that they begin at.
    pub start: Vec<u8>,
    /// How many bytes of their paths the destination added and `start` stands for.
    pub strip: usize,
}

/// The root of the entry of that number and path, and where it lies below it.
pub(crate) fn place_in<'a>(
    parts: &'a [Part],
    entry: usize,
    path: &[u8],
) -> (&'a Arc<Root>, Vec<u8>) {
    let part = &parts[parts.partition_point(|part| part.first <= entry).saturating_sub(1)];
    let rest = &path[part.strip.min(path.len())..];
    (&part.root, join(&part.start, rest.strip_prefix(b"/").unwrap_or(rest)))
}

/// Whether a file is still what was listed. A modification time can be put back, the time of the
/// last change cannot.
pub(super) fn is_as_listed(listed: &Entry, stat: &Stat) -> bool {
    // The last name of a file that another one took the place of is gone, which counts as a change
    // of it: what is read is still the old content, whole.
    let replaced = stat.st_nlink == 0;
    stat.st_size as u64 == listed.len()
        && modified_ns(stat) == listed.modified_ns
        && (replaced || changed_ns(stat) == listed.changed_ns)
}

//! Which file of a layout has a path: in four bytes a file, for there are millions, and none before
//! the first question, for most transfers have no journal to go on from.

use super::super::layout::{EntryKind, Layout};
use std::cell::OnceCell;

/// The files of a layout by their paths below the place of a journal.
#[derive(Debug)]
pub(super) struct EntriesByPath {
    /// The path of the layout below the place.
    prefix: Vec<u8>,
    /// In the order of their paths; of the same path the last is meant.
    sorted: OnceCell<Vec<u32>>,
}

impl EntriesByPath {
    pub(super) fn new(prefix: &[u8]) -> EntriesByPath {
        EntriesByPath { prefix: prefix.to_vec(), sorted: OnceCell::new() }
    }

    /// The file of `layout`, always the same one, that has `path`.
    pub(super) fn find(&self, layout: &Layout, path: &[u8]) -> Option<usize> {
        let path = self.within(path)?;
        let path_of = |entry: u32| &layout.entries()[entry as usize].path[..];
        let sorted = self.sorted.get_or_init(|| {
            let files = (0..).zip(layout.entries());
            let files = files.filter(|(_, entry)| matches!(entry.kind, EntryKind::File { .. }));
            let mut sorted: Vec<u32> = files.map(|(index, _)| index).collect();
            sorted.sort_unstable_by_key(|&entry| (path_of(entry), entry));
            sorted
        });
        let behind = sorted.partition_point(|&entry| path_of(entry) <= path);
        let found = *sorted.get(behind.checked_sub(1)?)?;
        (path_of(found) == path).then_some(found as usize)
    }

    /// What of `path` is the path of an entry, the converse of [`super::below`].
    fn within<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        let rest = path.strip_prefix(&self.prefix[..])?;
        match rest {
            [b'/', within @ ..] if !self.prefix.is_empty() && !within.is_empty() => Some(within),
            [] => Some(rest),
            _ => self.prefix.is_empty().then_some(rest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::below;
    use super::*;
    use crate::transfer::layout::Entry;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_file_is_found_by_its_path_and_nothing_else_is(
            paths in prop::collection::vec("([ab]{1,2}(/[ab]{1,2}){0,2})?", 0..40),
            prefix in "([ab]{1,2}(/[ab])?)?",
            others in prop::collection::vec("[ab/]{0,8}", 20),
        ) {
            let entry = |(index, path): (usize, &String)| Entry {
                path: path.clone().into_bytes(),
                kind: match index % 5 {
                    0 => EntryKind::Directory,
                    _ => EntryKind::File { len: 1 },
                },
                mode: 0o644,
                modified_ns: 0,
                changed_ns: 0,
                attributes: None,
            };
            let entries: Vec<Entry> = paths.iter().enumerate().map(entry).collect();
            let layout = Layout::new(entries, 1024);
            let by_path = EntriesByPath::new(prefix.as_bytes());
            let below = |entry: &Entry| below(prefix.as_bytes(), &entry.path);
            let asked = layout.entries().iter().map(below);
            for path in asked.chain(others.into_iter().map(String::into_bytes)) {
                let is_it = |(index, entry): (usize, &Entry)| {
                    (index % 5 != 0 && below(entry) == path).then_some(index)
                };
                let expected = layout.entries().iter().enumerate().filter_map(is_it).next_back();
                prop_assert_eq!(by_path.find(&layout, &path), expected);
            }
        }
    }
}

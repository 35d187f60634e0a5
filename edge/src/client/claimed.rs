//! Paths at the destination that one of several sources has taken: what else would go there is
//! named, and not copied.

use farline_core::transfer::{Entry, EntryKind};
use farline_core::units::{Error, ErrorCode, Fault};
use std::collections::{BTreeMap, BTreeSet};

/// What did not come along, and why.
pub(super) type Failures = Vec<(Vec<u8>, Error)>;

/// Which source of a copy has taken which path.
#[derive(Debug, Default)]
pub(super) struct ClaimedPaths {
    /// The sources, as they were written.
    sources: Vec<String>,
    taken: BTreeMap<Vec<u8>, usize>,
}

impl ClaimedPaths {
    pub(super) fn of(sources: Vec<String>) -> ClaimedPaths {
        ClaimedPaths { sources, taken: BTreeMap::new() }
    }

    /// Takes `path` for the source of that number.
    ///
    /// # Errors
    /// When another source has taken it: it would replace what was copied a moment before.
    pub(super) fn claim(&mut self, source: usize, path: &[u8]) -> Result<(), Error> {
        if self.sources.len() < 2 {
            return Ok(());
        }
        let first = *self.taken.entry(path.to_vec()).or_insert(source);
        if first == source {
            return Ok(());
        }
        let named = |index: usize| self.sources.get(index).map_or("another", String::as_str);
        let message = format!(
            "of {} it is not copied, for {} has that name at the destination",
            named(source),
            named(first)
        );
        Err(Error::new(Fault::You, ErrorCode::PathExists, message)
            .hint("copy the two to different directories"))
    }

    /// Adds to `omitted` what of `entries` goes where another source went, and returns it by name.
    pub(super) fn refuse_taken(
        &mut self,
        source: usize,
        entries: &[Entry],
        omitted: &mut BTreeSet<usize>,
        target: impl Fn(&Entry) -> Vec<u8>,
    ) -> Failures {
        let mut refused = Failures::new();
        if self.sources.len() < 2 {
            return refused;
        }
        for (index, entry) in entries.iter().enumerate() {
            if entry.kind == EntryKind::Directory || omitted.contains(&index) {
                continue;
            }
            let path = target(entry);
            if let Err(error) = self.claim(source, &path) {
                omitted.insert(index);
                refused.push((path, error));
            }
        }
        refused
    }

    /// Which of `entries` go where another source than this went, by their number.
    pub(super) fn taken_from(
        &self,
        source: usize,
        entries: &[Entry],
        target: impl Fn(&Entry) -> Vec<u8>,
    ) -> BTreeSet<usize> {
        if self.sources.len() < 2 {
            return BTreeSet::new();
        }
        let is_taken = |entry: &Entry| {
            entry.kind != EntryKind::Directory
                && self.taken.get(&target(entry)).is_some_and(|&first| first != source)
        };
        let numbered = entries.iter().enumerate();
        numbered.filter(|(_, entry)| is_taken(entry)).map(|(index, _)| index).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::test_entries::entry;

    #[test]
    fn a_path_is_taken_once_and_again_by_the_same_source() {
        let mut claimed = ClaimedPaths::of(vec!["a".to_owned(), "b".to_owned()]);
        for source in [0, 0] {
            assert_eq!(claimed.claim(source, b"x"), Ok(()));
        }
        let error = claimed.claim(1, b"x").expect_err("taken");
        assert_eq!(error.code, ErrorCode::PathExists);
        assert!(error.message.contains("of b it is not copied, for a has"), "{error}");
        // One source alone takes what it likes.
        let mut alone = ClaimedPaths::of(vec!["a".to_owned()]);
        assert_eq!((alone.claim(0, b"x"), alone.claim(1, b"x")), (Ok(()), Ok(())));
    }

    #[test]
    fn what_another_source_took_is_known_and_takes_nothing() {
        let file = |path| entry(path, EntryKind::File { len: 1 });
        let entries = [entry("d", EntryKind::Directory), file("x"), file("y")];
        let mut claimed = ClaimedPaths::of(vec!["a".to_owned(), "b".to_owned()]);
        for path in [&b"d"[..], b"x"] {
            assert_eq!(claimed.claim(0, path), Ok(()));
        }
        let taken = |claimed: &ClaimedPaths, source| {
            claimed.taken_from(source, &entries, |entry| entry.path.clone())
        };
        // Two sources have folders of one name in common.
        assert_eq!(taken(&claimed, 1), BTreeSet::from([1]));
        assert_eq!(taken(&claimed, 0), BTreeSet::new());
        assert_eq!(claimed.claim(0, b"y"), Ok(()), "to look takes nothing");
    }
}

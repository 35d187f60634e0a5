//! Paths that a client names of its trees, as many as the memory for lists has room for.

use super::list_memory::{ListShare, weight_of_name};
use farline_core::copy::parse_paths;
use farline_core::units::{Error, ErrorCode, Fault};
use std::collections::BTreeSet;

/// Paths that a client leaves out of its trees, or takes of a folder, at most.
const MOST_PATHS: usize = 4 << 20;

/// Paths that a client names, in the memory that a node has for lists.
#[derive(Debug)]
pub(super) struct PathSet {
    paths: BTreeSet<Vec<u8>>,
    weight: u64,
    share: ListShare,
}

impl PathSet {
    /// None yet, which take their memory of `share`.
    pub(super) fn new(share: ListShare) -> PathSet {
        PathSet { paths: BTreeSet::new(), weight: 0, share }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    pub(super) fn contains(&self, path: &[u8]) -> bool {
        self.paths.contains(path)
    }

    /// In their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.paths.iter()
    }

    /// Adds the paths that `value` lists, each of which must be one that `may_be`; `none` takes all
    /// away. `what` says what it is to be, and what many are too many for.
    pub(super) fn add(
        &mut self,
        value: &str,
        may_be: impl Fn(&[u8]) -> bool,
        what: (&str, &str),
    ) -> Result<(), Error> {
        if value == "none" {
            self.paths.clear();
            self.weight = 0;
            return self.share.set(0);
        }
        let rejected = |message: String| Error::new(Fault::You, ErrorCode::Rejected, message);
        let paths = parse_paths(value)
            .filter(|paths| paths.iter().all(|path| may_be(path)))
            .ok_or_else(|| rejected(what.0.to_owned()))?;
        if self.paths.len() + paths.len() > MOST_PATHS {
            return Err(rejected(format!("at most {MOST_PATHS} paths are {}", what.1)));
        }
        let new: BTreeSet<Vec<u8>> =
            paths.into_iter().filter(|path| !self.paths.contains(path)).collect();
        let weight = self.weight + new.iter().map(|path| weight_of_name(path)).sum::<u64>();
        self.share.set(weight)?;
        self.weight = weight;
        self.paths.extend(new);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::list_memory::ListMemory;
    use super::*;
    use farline_core::units::Bytes;

    #[test]
    fn paths_are_added_until_none() {
        let what = ("a list", "taken");
        let mut paths = PathSet::new(ListMemory::new(Bytes::mib(1)).share());
        for value in ["/a,/b%2C", "/c"] {
            paths.add(value, |_| true, what).expect("paths");
        }
        assert_eq!(paths.iter().collect::<Vec<_>>(), [&b"a"[..], b"b,", b"c"]);
        for wrong in ["a", "", "/a,b", "/%zz", "/x"] {
            let refused = paths.add(wrong, |path| path != b"x", what);
            assert_eq!(refused.map_err(|error| error.fault), Err(Fault::You), "{wrong}");
        }
        assert_eq!(paths.iter().count(), 3, "what is refused adds nothing");
        paths.add("none", |_| true, what).expect("none");
        assert!(paths.is_empty());
    }

    #[test]
    fn long_paths_take_of_the_memory_for_lists() {
        let (memory, what) = (ListMemory::new(Bytes(64 << 10)), ("a list", "taken"));
        let mut paths = PathSet::new(memory.share());
        let mut name =
            |index: usize| paths.add(&format!("/{index}{}", "x".repeat(8_000)), |_| true, what);
        // Half of it is one session's; what is named again takes no more.
        for index in [0, 1, 2, 2, 2] {
            name(index).expect("room");
        }
        assert_eq!((3..9).filter(|&index| name(index).is_ok()).count(), 1);
        let mut others = PathSet::new(memory.share());
        others.add("/a", |_| true, what).expect("room for another");
        paths.add("none", |_| true, what).expect("none");
        paths.add("/a", |_| true, what).expect("room again");
    }
}

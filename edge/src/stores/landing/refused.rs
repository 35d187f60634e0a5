//! What a destination refuses of a tree, place by place, while the rest lands.

use super::PosixSink;
use crate::stores::walk::{folders_above, join};
use crate::sys::lock::lock;
use farline_core::transfer::EntryKind;
use farline_core::units::{Error, ErrorCode};
use std::collections::{BTreeMap, BTreeSet};

/// Entries that cannot land, and why.
pub(super) type Refusals = BTreeMap<usize, Error>;

impl PosixSink {
    /// The same sink which, of a tree, drops and names what one place refuses, instead of failing.
    #[must_use]
    pub fn lenient(mut self) -> PosixSink {
        self.is_lenient = self.layout.entries().len() > 1;
        self
    }

    /// Whether `error` speaks of one place of several. A full disk or another writer is in the way
    /// of all.
    pub(super) fn costs_one_place(&self, error: &Error) -> bool {
        self.is_lenient
            && matches!(
                error.code,
                ErrorCode::PermissionDenied
                    | ErrorCode::ReadOnly
                    | ErrorCode::SpecialFile
                    | ErrorCode::NotADirectory
                    | ErrorCode::IsADirectory
                    | ErrorCode::PathNotFound
                    | ErrorCode::InvalidName
            )
    }

    /// The folders among what was refused, by their paths in the tree.
    pub fn refused_folders(&self) -> Vec<(Vec<u8>, Error)> {
        let (state, entries) = (lock(&self.state), self.layout.entries());
        let refused = state.refused.iter().map(|(&index, error)| (&entries[index], error));
        let folders = refused.filter(|(entry, _)| entry.kind == EntryKind::Directory);
        folders.map(|(entry, error)| (entry.path.clone(), error.clone())).collect()
    }

    /// What comes of the entry is dropped from here on.
    pub(super) fn refuse_entry(&self, index: usize, error: Error) {
        let mut state = lock(&self.state);
        state.entries.keep(&BTreeSet::from([index]));
        state.refused.insert(index, error);
    }

    /// Nothing can land below folders that could not be made: their content is refused for the same
    /// reason.
    pub(super) fn refuse_below(&self, folders: &BTreeMap<Vec<u8>, Error>) {
        if folders.is_empty() {
            return;
        }
        for (index, entry) in self.layout.entries().iter().enumerate() {
            let path = join(&self.start, &entry.path);
            let reason = folders_above(&path).find_map(|above| folders.get(above));
            let is_kept = lock(&self.state).entries.is_kept(index);
            if let Some(error) = reason.filter(|_| !is_kept) {
                self.refuse_entry(index, error.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stores::Root;
    use farline_core::transfer::{Entry, Layout};
    use std::sync::Arc;

    #[test]
    fn folders_that_cannot_be_made_are_named_and_the_rest_is() {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::write(dir.path().join("f"), "a file").expect("written");
        let entry = |(path, kind): (&str, EntryKind)| Entry {
            path: path.as_bytes().to_vec(),
            kind,
            mode: 0o755,
            modified_ns: 0,
            changed_ns: 0,
            attributes: None,
        };
        let folder = |path| entry((path, EntryKind::Directory));
        let file = |path| entry((path, EntryKind::File { len: 0 }));
        let entries =
            vec![folder(""), folder("f"), file("f/file"), folder("f/g"), folder("g"), file("h")];
        let root = Arc::new(Root::open(dir.path()).expect("opened"));
        let layout = Arc::new(Layout::new(entries, 1024));
        let sink = PosixSink::new(root, Vec::new(), layout, true).lenient();
        sink.make_folders().expect("made");
        let refused = sink.refused_folders();
        let said: Vec<_> = refused.iter().map(|(path, error)| (&path[..], error.code)).collect();
        let expected = [&b"f"[..], b"f/g"].map(|path| (path, ErrorCode::NotADirectory));
        assert_eq!(said, expected);
        assert!(dir.path().join("g").is_dir());
    }
}

//! What a destination refuses of a tree, place by place, while the rest lands.

use super::PosixSink;
use crate::stores::walk::{folders_above, join};
use crate::sys::lock::lock;
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

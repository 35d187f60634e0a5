//! Entries of a tree, for tests.

use farline_core::transfer::{Entry, EntryKind};

/// One of 1970 that everybody may read.
pub(super) fn entry(path: &str, kind: EntryKind) -> Entry {
    Entry {
        path: path.as_bytes().to_vec(),
        kind,
        mode: 0o644,
        modified_ns: 0,
        changed_ns: 0,
        attributes: None,
    }
}

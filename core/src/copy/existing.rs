//! What becomes of files that are at the destination already: which stay, and why the others are
//! copied.

use crate::transfer::{Entry, EntryKind};
use serde::Serialize;
use std::cmp::Ordering;
use std::mem::discriminant;

/// What becomes of what is at the destination already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Existing {
    /// It is replaced, each file whole.
    #[default]
    Replace,
    /// It stays, whatever it is.
    Keep,
    /// Files of the same size and modification time stay, and links that say the same.
    KeepSame,
    /// Files of the same content stay, whatever their times, and links that say the same.
    KeepSameContent,
}

/// Why a copy would write a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum CopyReason {
    /// There is none at the destination.
    New,
    /// Something of another kind stands there.
    KindDiffers,
    /// The one there has another size.
    SizeDiffers,
    /// The source's is newer.
    Newer,
    /// The source's is older.
    Older,
    /// It is replaced, whatever it is.
    Replaced,
    /// It has other bytes, and the same size.
    ContentDiffers,
    /// What is there cannot be looked at.
    NotCompared,
    /// The source does not have it: it would be deleted.
    Extraneous,
}

impl CopyReason {
    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            CopyReason::New => "new",
            CopyReason::KindDiffers => "kind differs",
            CopyReason::SizeDiffers => "size differs",
            CopyReason::Newer => "newer",
            CopyReason::Older => "older",
            CopyReason::Replaced => "replaced",
            CopyReason::ContentDiffers => "content differs",
            CopyReason::NotCompared => "cannot be compared",
            CopyReason::Extraneous => "delete",
        }
    }
}

const SECOND: i64 = 1_000_000_000;

impl Existing {
    /// Whether `there`, which stands where `ours` is to go, stays, as far as the facts of both say.
    fn keeps(self, ours: &Entry, there: &Entry) -> bool {
        let is_file = |entry: &Entry| matches!(entry.kind, EntryKind::File { .. });
        // Many servers tell whole seconds only.
        let is_coarse = ours.modified_ns % SECOND == 0 || there.modified_ns % SECOND == 0;
        let unit = if is_coarse { SECOND } else { 1 };
        let is_as_long = is_file(ours) && is_file(there) && ours.len() == there.len();
        match self {
            Existing::Replace => false,
            Existing::Keep => true,
            // A link is what it says.
            _ if matches!(ours.kind, EntryKind::Symlink { .. }) => ours.kind == there.kind,
            // What else there is to know the content says.
            Existing::KeepSameContent => is_as_long,
            Existing::KeepSame => {
                is_as_long
                    && ours.modified_ns.div_euclid(unit) == there.modified_ns.div_euclid(unit)
            }
        }
    }

    /// Why `ours` is copied where `there` stands; `None` when that stays.
    pub fn reason(self, ours: &Entry, there: Option<&Entry>) -> Option<CopyReason> {
        let Some(there) = there else { return Some(CopyReason::New) };
        if self.keeps(ours, there) {
            return None;
        }
        let is_same_kind = discriminant(&ours.kind) == discriminant(&there.kind);
        Some(match ours.modified_ns.cmp(&there.modified_ns) {
            _ if !is_same_kind => CopyReason::KindDiffers,
            _ if ours.len() != there.len() => CopyReason::SizeDiffers,
            _ if self == Existing::Replace => CopyReason::Replaced,
            _ if matches!(ours.kind, EntryKind::Symlink { .. }) => CopyReason::ContentDiffers,
            Ordering::Greater => CopyReason::Newer,
            Ordering::Less => CopyReason::Older,
            Ordering::Equal => CopyReason::Replaced,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(len: u64, modified_ns: i64) -> Entry {
        Entry {
            path: b"f".to_vec(),
            kind: EntryKind::File { len },
            mode: 0o644,
            modified_ns,
            changed_ns: 0,
            attributes: None,
        }
    }

    #[test]
    fn the_same_file_has_the_same_size_and_known_time() {
        let same = |a: &Entry, b: &Entry| Existing::KeepSame.keeps(a, b);
        let ours = file(5, 7 * SECOND + 3);
        assert!(same(&ours, &file(5, 7 * SECOND + 3)));
        assert!(same(&ours, &file(5, 7 * SECOND)), "told in whole seconds");
        assert!(!same(&ours, &file(5, 7 * SECOND + 4)));
        assert!(!same(&ours, &file(6, 7 * SECOND + 3)));
        assert!(!same(&ours, &file(5, 8 * SECOND)));
        assert!(!same(&ours, &Entry { kind: EntryKind::Directory, ..ours.clone() }));
        let content = |there: &Entry| Existing::KeepSameContent.keeps(&ours, there);
        assert!(content(&file(5, 0)) && !content(&file(6, 7 * SECOND + 3)));
        assert!(Existing::Keep.keeps(&ours, &file(9, 0)) && !Existing::Replace.keeps(&ours, &ours));
    }
}

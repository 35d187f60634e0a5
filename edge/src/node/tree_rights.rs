//! What of a tree its user may store where something is already, by the rights of its identity.

use super::files::Files;
use crate::identity::{Authorization, Deed};
use farline_core::gridftp::{ListingKind, Pathname};
use farline_core::transfer::{Entry, EntryKind, Layout};
use farline_core::units::Error;
use std::collections::BTreeSet;

/// Where the entry lies that is `below` a tree at `path`.
pub(super) fn place_of(path: &Pathname, below: &[u8]) -> Pathname {
    path.resolve(&Pathname::new(below))
}

/// That the files which `layout`, in the folder `path`, gives further names are its own, or its
/// user may read and change them: whoever has a name of a file may do so by that.
pub(super) fn check_links(
    access: &Authorization,
    path: &Pathname,
    layout: &Layout,
) -> Result<(), Error> {
    let mut own: Option<BTreeSet<&[u8]>> = None;
    for entry in layout.entries() {
        let EntryKind::There { at } = &entry.kind else { continue };
        let named = place_of(path, at);
        let checked = access.check(Deed::Modify, &named);
        let Err(refused) = checked.and_then(|()| access.check(Deed::Read, &named)) else {
            continue;
        };
        let own = own.get_or_insert_with(|| {
            let files = layout.entries().iter();
            let files = files.filter(|entry| matches!(entry.kind, EntryKind::File { .. }));
            files.map(|entry| &entry.path[..]).collect()
        });
        if !own.contains(&at[..]) {
            return Err(refused);
        }
    }
    Ok(())
}

/// The folders of `layout`, in the folder `path`, that are there and not this user's to change.
pub(super) fn folders_of_others(
    access: &Authorization,
    path: &Pathname,
    layout: &Layout,
) -> BTreeSet<usize> {
    // What is granted for a folder is granted for all in it.
    if access.may(Deed::Modify, path) {
        return BTreeSet::new();
    }
    let is_others = |(_, entry): &(usize, &Entry)| {
        let at = place_of(path, &entry.path);
        entry.kind == EntryKind::Directory
            && !access.may(Deed::Modify, &at)
            && Files::new(access).stat(&at).is_ok_and(|at| at.kind == ListingKind::Directory)
    };
    layout.entries().iter().enumerate().filter(is_others).map(|(index, _)| index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::{Grant, Permissions};
    use crate::stores::Root;
    use farline_core::units::ErrorCode;
    use std::sync::Arc;

    fn layout(entries: &[(&str, EntryKind)]) -> Layout {
        let entry = |(path, kind): &(&str, EntryKind)| Entry {
            path: path.as_bytes().to_vec(),
            kind: kind.clone(),
            mode: 0o644,
            modified_ns: 0,
            changed_ns: 0,
            attributes: None,
        };
        Layout::new(entries.iter().map(entry).collect(), 1 << 20)
    }

    #[test]
    fn a_further_name_is_of_what_one_may_read_and_change() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Arc::new(Root::open(folder.path()).expect("opened").exported());
        let grants = vec![
            Grant::new("/inbox", Permissions::CREATE),
            Grant::new("/inbox/alice", Permissions::WRITE),
        ];
        let access = Authorization::new(&root, grants).expect("granted");
        let there = |at: &str| EntryKind::There { at: at.as_bytes().into() };
        let path = Pathname::new("/inbox");
        let check = |entries: &[(&str, EntryKind)]| {
            check_links(&access, &path, &layout(entries)).map_err(|error| error.code)
        };
        let refused = Err(ErrorCode::PermissionDenied);
        assert_eq!(check(&[("alice/x", there("bob"))]), refused, "another's");
        assert_eq!(check(&[("alice/x", there("alice/../bob"))]), refused, "by another way");
        assert_eq!(check(&[("alice/x", there("alice/own"))]), Ok(()));
        let file = EntryKind::File { len: 1 };
        assert_eq!(check(&[("new", file.clone()), ("y", there("new"))]), Ok(()), "the tree's own");
        assert_eq!(check(&[("new", file), ("y", there("bob"))]), refused);
    }
}

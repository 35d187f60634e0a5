//! What of a tree its user may store where something is already, by the rights of its identity.

use super::data::DataPlane;
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

/// Whether a tree at `path` may replace what it likes, where what it does not replace may go.
pub(super) fn check_place(plane: &DataPlane, path: &Pathname) -> Result<bool, Error> {
    let Err(refused) = plane.check(Deed::Create, path) else { return Ok(true) };
    let access = &plane.account().access;
    let is_folder = || {
        let looked = Files::new(access).stat(path);
        looked.is_ok_and(|entry| entry.kind == ListingKind::Directory)
    };
    // A drop box is there before what goes into it.
    let is_box = plane.is_of_files() && access.may(Deed::Create, path) && is_folder();
    if is_box { Ok(false) } else { Err(refused) }
}

/// That no file of `layout`, in the folder `path`, takes the place of another than those that this
/// very transfer `landed`.
pub(super) fn check_files(
    plane: &DataPlane,
    path: &Pathname,
    layout: &Layout,
    landed: &[usize],
) -> Result<(), Error> {
    let landed: BTreeSet<usize> = landed.iter().copied().collect();
    let is_new = |(index, entry): &(usize, &Entry)| {
        entry.kind != EntryKind::Directory && !landed.contains(index)
    };
    let mut files = layout.entries().iter().enumerate().filter(is_new);
    files.try_for_each(|(_, entry)| plane.check(Deed::Create, &place_of(path, &entry.path)))
}

/// Whether each file of `layout`, in the folder `path`, may take the place of another.
pub(super) fn may_modify(plane: &DataPlane, path: &Pathname, layout: &Layout) -> bool {
    let access = &plane.account().access;
    let is_file = |entry: &&Entry| entry.kind != EntryKind::Directory;
    // What is granted for a folder is granted for all in it.
    access.may(Deed::Modify, path)
        || layout
            .entries()
            .iter()
            .filter(is_file)
            .all(|entry| access.may(Deed::Modify, &place_of(path, &entry.path)))
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

//! Tests of what `--delete` takes away.

use super::*;
use crate::client::test_entries;
use farline_core::filter::{FileFilter, FilterForm};

fn entry(path: &str) -> Entry {
    let kind = match path.strip_suffix('/') {
        Some(_) => EntryKind::Directory,
        None => EntryKind::File { len: 1 },
    };
    test_entries::entry(path.trim_end_matches('/'), kind)
}

fn tree(paths: &[&str]) -> Vec<Entry> {
    paths.iter().map(|path| entry(path)).collect()
}

fn gone(ours: &[&str], there: &[&str], selection: &Selection) -> Vec<String> {
    let (ours, there) = (tree(ours), tree(there));
    let paths = ours.iter().map(|entry| &entry.path[..]).collect();
    let known = SourcePaths { paths, not_copied: BTreeSet::from([&b"pipe"[..]]) };
    let backups: [Backup; 0] = [];
    let gone = extraneous(&known, &there, selection, (&backups[..], &b""[..]));
    gone.iter().map(|entry| String::from_utf8_lossy(&entry.path).into_owned()).collect()
}

#[test]
fn folders_go_after_what_is_in_them() {
    let there = ["", "a", "old/", "old/b", "old/c/", "old/c/d", "old-2", "pipe/", "pipe/x"];
    let all = Selection::default();
    assert_eq!(gone(&["", "a"], &there, &all), ["old/c/d", "old/c", "old/b", "old-2", "old"]);
    assert!(gone(&there, &there, &all).is_empty());
}

#[test]
fn a_folder_and_a_file_of_one_name_are_of_another_kind() {
    let (ours, there) =
        (tree(&["", "a/", "a/x", "b", "c", "d/"]), tree(&["", "a", "b/", "b/y", "c", "d/"]));
    let found = of_another_kind(&ours, &there, &Selection::default());
    assert_eq!(found, BTreeSet::from([&b"a"[..], b"b"]));
}

#[test]
fn what_is_excluded_or_ours_stays_with_its_folders() {
    let mut filter = FileFilter::default();
    filter.add(FilterForm::Exclude, b"*.keep", &mut |_| unreachable!("no file")).expect("a rule");
    let selection = Selection::new(filter);
    let there = ["", "x/", "x/y/", "x/y/a.keep", "x/b", "x/.f.0123456789ab.farline"];
    assert_eq!(gone(&[""], &there, &selection), ["x/b"]);
}

#[test]
fn room_is_made_only_where_nothing_else_failed() {
    let failed = |path: &str, code: ErrorCode| {
        (path.as_bytes().to_vec(), Error::new(Fault::You, code, "it failed"))
    };
    let links = BTreeSet::from([&b"link"[..]]);
    let room = BTreeSet::from([b"made".to_vec()]);
    let for_room = |failures: &[(Vec<u8>, Error)]| failed_for_room(failures, &links, &room);
    let file = failed("a", ErrorCode::IsADirectory);
    let below = failed("d/f", ErrorCode::NotADirectory);
    let fifo = failed("p", ErrorCode::NotAFile);
    let unread = failed("b", ErrorCode::PermissionDenied);
    let link = failed("link", ErrorCode::PermissionDenied);
    let below_link = failed("link/f", ErrorCode::PermissionDenied);
    let again = failed("made/f", ErrorCode::PermissionDenied);
    let beside = failed("links", ErrorCode::PermissionDenied);
    assert!(for_room(&[file.clone(), below, fifo, link, below_link, again]));
    assert!(!for_room(&[file.clone(), unread]));
    assert!(!for_room(&[file, beside]));
}

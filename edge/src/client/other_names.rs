//! Files of several names (`--hard-links`) of which not all come: a node calls the first of them
//! the file and the others further names of it, before it knows which of them its client takes.

use farline_core::transfer::{Entry, EntryKind};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Has each file whose name is among those `left` behind change places with the first of its
/// further names that is not: that one then has the bytes, and the others are further names of it.
/// What stands at the destination under the name that is left is another file. Returns the names
/// that the node knows these entries by; where each lies in the space of bytes stays as it was.
pub(super) fn take_from_names_that_come(
    entries: &mut [Entry],
    left: &BTreeSet<usize>,
) -> BTreeMap<usize, Vec<u8>> {
    let mut there: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
    let mut renamed: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
    for (file, other) in first_others(entries, left) {
        let (old, new) = (entries[file].path.clone(), entries[other].path.clone());
        (entries[file].path, entries[other].path) = (new.clone(), old.clone());
        there.extend([(file, old.clone()), (other, new.clone())]);
        renamed.insert(old, new);
    }
    if renamed.is_empty() {
        return there;
    }
    for entry in entries {
        if let EntryKind::There { at } = &mut entry.kind
            && let Some(new) = renamed.get(&at[..])
        {
            *at = new.as_slice().into();
        }
    }
    there
}

/// The files of which the first name is `left` and another is not, each with the first such other.
fn first_others(entries: &[Entry], left: &BTreeSet<usize>) -> BTreeMap<usize, usize> {
    let is_file = |index: usize| matches!(entries[index].kind, EntryKind::File { .. });
    let files: HashMap<&[u8], usize> = left
        .iter()
        .filter(|&&index| is_file(index))
        .map(|&index| (&entries[index].path[..], index))
        .collect();
    let mut others = BTreeMap::new();
    if files.is_empty() {
        return others;
    }
    for (index, entry) in entries.iter().enumerate() {
        if let EntryKind::There { at } = &entry.kind
            && let Some(&file) = files.get(&at[..])
            && !left.contains(&index)
        {
            others.entry(file).or_insert(index);
        }
    }
    others
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::test_entries::entry;

    fn file(path: &str, len: u64) -> Entry {
        entry(path, EntryKind::File { len })
    }

    fn there(path: &str, at: &str) -> Entry {
        entry(path, EntryKind::There { at: at.as_bytes().into() })
    }

    #[test]
    fn a_name_that_comes_has_the_bytes_of_one_that_does_not() {
        let mut entries = [
            entry("", EntryKind::Directory),
            file("x", 5),
            file("other", 7),
            there("left", "x"),
            there("y", "x"),
            there("z", "x"),
        ];
        let known = take_from_names_that_come(&mut entries, &BTreeSet::from([1, 3]));
        let expected = [
            entry("", EntryKind::Directory),
            file("y", 5),
            file("other", 7),
            there("left", "y"),
            there("x", "y"),
            there("z", "y"),
        ];
        assert_eq!(entries, expected);
        assert_eq!(known, BTreeMap::from([(1, b"x".to_vec()), (4, b"y".to_vec())]));
    }

    #[test]
    fn names_of_what_comes_stay_as_they_are() {
        let before = [file("x", 5), there("y", "x"), file("u", 5), there("v", "u"), file("w", 1)];
        // The first file comes, the names of the second are all left, and so is one without any.
        let (mut entries, left) = (before.clone(), BTreeSet::from([1, 2, 3, 4]));
        assert_eq!(take_from_names_that_come(&mut entries, &left), BTreeMap::new());
        assert_eq!(entries, before);
    }
}

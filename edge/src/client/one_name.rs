//! Files of one tree whose names are one at the destination, by case, by Unicode normalisation or
//! through a link, where something has that name: one of them keeps it, and the others are refused.
//!
//! Of names that nothing has yet the destination finds that when files land
//! (`stores/landing/one_name.rs`), and the first takes the name; of files that land here one by
//! one, which have nothing in common there, [`LandedFiles`] does. What is there from then on is
//! that one's: it stays, or is replaced by the same one.

use crate::stores::{Root, stat_entry};
use farline_core::gridftp::{ListingEntry, ListingKind};
use farline_core::transfer::{Entry, EntryKind};
use rustix::fs::Stat;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Which file something is: its device and inode number, its length and its time. File systems are
/// known that give two files one number.
type FileIdentity = (u64, u64, u64, i64);

/// What is under the names of entries at the destination: which file, and the entry's number.
#[derive(Debug, Default)]
pub(super) struct FoundFiles(Vec<(FileIdentity, usize)>);

impl FoundFiles {
    /// Notes that `there`, of this host, is under the name of the entry `index`.
    pub(super) fn note_here(&mut self, index: usize, (there, stat): (&Entry, &Stat)) {
        // What has two names is there by both.
        if there.kind != EntryKind::Directory && stat.st_nlink == 1 {
            self.note(index, (stat.st_dev, stat.st_ino), there);
        }
    }

    /// The same of `there`, which a server `found`; of a link it says which file that leads to.
    pub(super) fn note_there(&mut self, index: usize, (there, found): (&Entry, &ListingEntry)) {
        let is_alone = found.links == Some(1) && found.link.is_none();
        if !is_alone || found.kind != ListingKind::File {
            return;
        }
        let hex = |digits: &str| u64::from_str_radix(digits, 16).ok();
        let parts = found.unique.as_deref().and_then(|unique| unique.split_once('-'));
        let numbers = parts.and_then(|(device, inode)| Some((hex(device)?, hex(inode)?)));
        if let Some(numbers) = numbers {
            self.note(index, numbers, there);
        }
    }

    fn note(&mut self, index: usize, (device, inode): (u64, u64), there: &Entry) {
        self.0.push(((device, inode, there.len(), there.modified_ns), index));
    }

    /// Which entries have no name of their own there, and whose it is: of several the one that
    /// stays, by `kept`, or else the first of the tree.
    pub(super) fn without_names(mut self, kept: &BTreeSet<usize>) -> BTreeMap<usize, usize> {
        self.0.sort_unstable();
        let mut without = BTreeMap::new();
        for of_one in self.0.chunk_by(|(a, _), (b, _)| a == b) {
            let staying = of_one.iter().find(|(_, index)| kept.contains(index));
            let Some(&(_, owner)) = staying.or_else(|| of_one.first()) else { continue };
            let others = of_one.iter().map(|&(_, index)| index).filter(|&index| index != owner);
            without.extend(others.map(|index| (index, owner)));
        }
        without
    }
}

/// Files of one tree that landed on this host one by one: the number of the entry of each, by its
/// device and inode number.
#[derive(Debug, Default)]
pub(super) struct LandedFiles(HashMap<(u64, u64), usize>);

impl LandedFiles {
    /// Notes that the entry `index` has landed at the path `at` of `root`.
    pub(super) fn note(&mut self, root: &Root, at: &[u8], index: usize) {
        if let Some((device, inode, ..)) = alone_at(root, at) {
            self.0.insert((device, inode), index);
        }
    }

    /// Whose name is also that of the entry `index`, which is to land: of another entry that has
    /// landed and has its name yet. `place` says where each lands in `root`.
    pub(super) fn owner(
        &self,
        root: &Root,
        index: usize,
        place: impl Fn(usize) -> Vec<u8>,
    ) -> Option<usize> {
        let there = alone_at(root, &place(index))?;
        let (device, inode, ..) = there;
        let owner = self.0.get(&(device, inode)).copied().filter(|&owner| owner != index)?;
        (alone_at(root, &place(owner)) == Some(there)).then_some(owner)
    }
}

/// Which file is at the path `at` of `root`, where it has that name alone.
fn alone_at(root: &Root, at: &[u8]) -> Option<FileIdentity> {
    let (there, stat) = stat_entry(root, at, b"").ok()?;
    // What has two names is there by both.
    let is_alone = there.kind != EntryKind::Directory && stat.st_nlink == 1;
    is_alone.then_some((stat.st_dev, stat.st_ino, there.len(), there.modified_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::test_entries::entry;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn file(len: u64) -> Entry {
        Entry { modified_ns: 7, ..entry("f", EntryKind::File { len }) }
    }

    /// What a node says of a file: by which number, and how many names it has.
    fn said(unique: &str, links: Option<u64>) -> ListingEntry {
        let unique = Some(unique.to_owned());
        ListingEntry { unique, links, ..ListingEntry::default() }
    }

    #[test]
    fn what_stays_keeps_its_name_or_else_the_first_has_it() {
        let found = || {
            let mut found = FoundFiles::default();
            for (index, unique) in ["1-a", "1-b", "1-a", "1-c", "1-a", "2-b"].iter().enumerate() {
                found.note_there(index, (&file(5), &said(unique, Some(1))));
            }
            found
        };
        let without = |kept: &[usize]| found().without_names(&kept.iter().copied().collect());
        assert_eq!(without(&[1, 3]), BTreeMap::from([(2, 0), (4, 0)]));
        assert_eq!(without(&[2, 4]), BTreeMap::from([(0, 2), (4, 2)]));
    }

    #[test]
    fn what_is_not_told_apart_for_certain_is_two_files() {
        let link = ListingEntry { link: Some("f".into()), ..said("1-a", Some(1)) };
        for [first, second] in [
            // Two names of one file.
            [said("1-a", Some(2)), said("1-a", Some(2))],
            // A server that says nothing of that.
            [said("1-a", None), said("1-a", None)],
            [said("fe00", Some(1)), said("fe00", Some(1))],
            // It leads to the other.
            [said("1-a", Some(1)), link],
        ] {
            let mut found = FoundFiles::default();
            found.note_there(0, (&file(5), &first));
            found.note_there(1, (&file(5), &second));
            assert_eq!(found.without_names(&BTreeSet::new()), BTreeMap::new(), "{first:?}");
        }
        let mut found = FoundFiles::default();
        found.note_there(0, (&file(5), &said("1-a", Some(1))));
        found.note_there(1, (&file(6), &said("1-a", Some(1))));
        assert_eq!(found.without_names(&BTreeSet::new()), BTreeMap::new(), "of two lengths");
    }

    #[test]
    fn of_files_that_land_one_by_one_the_first_has_the_name() {
        let dir = tempfile::tempdir().expect("a folder");
        let at = |path: &str| dir.path().join(path);
        // As a file system has it to which `Name` and `name` are one.
        fs::create_dir(at("Name")).expect("a folder");
        symlink("Name", at("name")).expect("linked");
        let paths = ["Name/new", "name/new", "Name/old", "name/old", "name/none"];
        let place = |index: usize| paths[index].as_bytes().to_vec();
        for path in ["Name/new", "Name/old"] {
            fs::write(at(path), path).expect("written");
        }
        let root = Root::open(dir.path()).expect("a folder");
        let mut landed = LandedFiles::default();
        landed.note(&root, b"Name/new", 0);
        assert_eq!(landed.owner(&root, 1, place), Some(0));
        // It replaces itself, what no entry brought, or nothing.
        for index in [0, 2, 3, 4] {
            assert_eq!(landed.owner(&root, index, place), None, "{}", paths[index]);
        }
        fs::hard_link(at("Name/new"), at("Name/more")).expect("linked");
        assert_eq!(landed.owner(&root, 1, place), None, "of two names each is its own");
    }
}

//! Reads the first small files of a tree while its sender has nothing to do yet: over a long path
//! the login of a copy takes as long as reading ten thousand.

use super::listed::{Part, is_as_listed, place_in};
use farline_core::transfer::{Entry, EntryKind};
use rustix::fs::OFlags;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The most that is read ahead, in bytes.
const MOST: usize = 16 << 20;
/// A file of more than this many bytes is read when it is its turn.
const SMALL: u64 = 64 << 10;

/// What was read of the first entries of a tree.
#[derive(Debug, Default)]
pub(crate) struct Prefetch {
    bytes: Vec<u8>,
    /// Where what was read of each entry ends; of what is no small file nothing was.
    ends: Vec<usize>,
}

/// Ends reading ahead when it is dropped: the copy has use for its processors.
#[derive(Debug, Default)]
pub(crate) struct UntilDropped(Arc<AtomicBool>);

impl UntilDropped {
    /// What says whether it is still there.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

impl Drop for UntilDropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Prefetch {
    /// Reads files of `entries`, which lie where `parts` says, until `is_over`, or the first that
    /// cannot be read or is not what was listed: who sends it says why.
    pub(crate) fn of(entries: &[Entry], parts: &[Part], is_over: &AtomicBool) -> Prefetch {
        let small = |entry: &Entry| match entry.kind {
            EntryKind::File { len } if len <= SMALL => len as usize,
            _ => 0,
        };
        let all = entries.iter().map(small).fold(0, usize::saturating_add);
        let mut ahead = Prefetch { bytes: Vec::with_capacity(all.min(MOST)), ends: Vec::new() };
        for (index, entry) in entries.iter().enumerate() {
            let len = small(entry);
            if is_over.load(Ordering::Relaxed) || ahead.bytes.len() + len > MOST {
                break;
            }
            if len > 0 && ahead.read(index, entry, len, parts).is_none() {
                break;
            }
            ahead.ends.push(ahead.bytes.len());
        }
        ahead
    }

    fn read(&mut self, index: usize, entry: &Entry, len: usize, parts: &[Part]) -> Option<()> {
        let (root, path) = place_in(parts, index, &entry.path);
        let fd = root.open_beneath(&path, OFlags::RDONLY | OFlags::NOCTTY, 0).ok()?;
        let (mut file, start) = (File::from(fd), self.bytes.len());
        self.bytes.resize(start + len, 0);
        let read = file.read_exact(&mut self.bytes[start..]).ok();
        // After the read, so that it sees every change that came before.
        let read = read.and_then(|()| rustix::fs::fstat(&file).ok());
        if read.is_some_and(|stat| is_as_listed(entry, &stat)) {
            return Some(());
        }
        self.bytes.truncate(start);
        None
    }

    /// The whole of the file of the entry `index`, if it was read.
    pub(super) fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)?;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.bytes[start..end]).filter(|bytes| !bytes.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{PosixSource, Root, Source, walk};
    use super::*;
    use farline_core::transfer::Layout;

    #[test]
    fn what_was_prefetched_is_sent_and_the_rest_is_read_then() {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(dir.path().join("sub")).expect("a folder");
        let files = [("a", 3), ("b", 0), ("long", 100_000), ("sub/c", 70), ("sub/d", 9)];
        for (name, len) in files {
            std::fs::write(dir.path().join(name), vec![name.len() as u8; len]).expect("written");
        }
        let root = Arc::new(Root::open(dir.path()).expect("opened"));
        let (entries, _) = walk(&root, b"").expect("walked");
        let parts = [Part { first: 0, root, start: Vec::new(), strip: 0 }];
        let never = UntilDropped::default();
        let changed = entries.iter().position(|entry| entry.path == b"sub/d").expect("listed");
        std::fs::write(dir.path().join("sub/d"), "changed!!").expect("written");
        let ahead = Prefetch::of(&entries, &parts, &never.flag());
        assert_eq!((ahead.bytes.len(), ahead.ends.len()), (73, changed), "up to what changed");
        // What was read stays so; what was not is looked at when it is sent.
        std::fs::write(dir.path().join("a"), "new").expect("written");
        let layout = Arc::new(Layout::new(entries.clone(), 1 << 20));
        let source = PosixSource::of_parts(parts.to_vec(), layout).with_prefetched(ahead);
        for (index, entry) in entries.iter().enumerate().filter(|(_, entry)| !entry.is_empty()) {
            let mut into = vec![0; entry.len() as usize];
            let read = source.read(index, 0, &mut into);
            assert_eq!(read.is_ok(), index != changed, "{}", String::from_utf8_lossy(&entry.path));
            if read.is_ok() {
                assert_eq!(into, vec![entry.path.len() as u8; into.len()]);
            }
        }
        let flag = never.flag();
        drop(never);
        assert_eq!(Prefetch::of(&entries, &parts, &flag).ends.len(), 0, "nobody waits for it");
    }
}

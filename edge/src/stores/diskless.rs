//! Stores without a disk, for measuring everything but the disk: `null`, which drops what it is
//! given, and `memory:SIZE`.

use super::landing::check_digest;
use super::{Landed, Landing, Sink, Source};
use crate::sys::pool::{Slot, pool};
use farline_core::transfer::{DigestVerdict, Digests, Entry, EntryKind, Layout};
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Rng};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// A store without a disk, as people and `OPTS FARLINE store=` name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Diskless {
    /// Drops what it is given; holds nothing to read.
    Null,
    /// So many bytes of memory, every page of it touched before the first byte arrives.
    Memory(Bytes),
}

/// The name of a memory store's one file, where a copy needs one.
pub(crate) const MEMORY_NAME: &[u8] = b"memory";

impl Diskless {
    /// Reads `null` or, with the store's separator, `memory:SIZE` or `memory=SIZE`; `None` when it
    /// is neither.
    pub fn parse(text: &str, separator: char) -> Option<Result<Diskless, Error>> {
        if text == "null" {
            return Some(Ok(Diskless::Null));
        }
        let size = text.strip_prefix("memory")?.strip_prefix(separator)?;
        let size: Result<Bytes, _> = size.parse();
        Some(match size {
            Ok(size) if size.0 > 0 => Ok(Diskless::Memory(size)),
            _ => Err(Error::new(
                Fault::You,
                ErrorCode::BadSize,
                format!("`{text}`: the size of a memory store is missing or wrong"),
            )
            .hint(format!("write it with a unit, such as memory{separator}10GiB"))),
        })
    }

    /// What there is to read: one file whose path is `path`.
    ///
    /// # Errors
    /// `null` holds nothing.
    pub fn entry(self, path: &[u8]) -> Result<Entry, Error> {
        match self {
            Diskless::Null => Err(Error::new(
                Fault::You,
                ErrorCode::NothingToRead,
                "`null` holds nothing that could be copied",
            )
            .hint("read from memory:SIZE instead")),
            Diskless::Memory(Bytes(len)) => {
                let since =
                    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                let modified_ns = i64::try_from(since.as_nanos()).unwrap_or(i64::MAX);
                Ok(Entry {
                    path: path.to_vec(),
                    kind: EntryKind::File { len },
                    mode: 0o644,
                    modified_ns,
                    changed_ns: 0,
                    attributes: None,
                })
            }
        }
    }

    /// Makes the store ready to take the files of `layout`.
    ///
    /// # Errors
    /// When the memory cannot be had.
    pub fn sink(self, layout: &Arc<Layout>) -> Result<DisklessSink, Error> {
        let region = match self {
            Diskless::Null => None,
            Diskless::Memory(size) => Some(Region::touched(size)?),
        };
        let starts = layout
            .entries()
            .iter()
            .scan(0u64, |at, entry| {
                let start = *at;
                *at = at.saturating_add(entry.len());
                Some(start)
            })
            .collect();
        Ok(DisklessSink { layout: Arc::clone(layout), starts, region })
    }
}

impl fmt::Display for Diskless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Diskless::Null => f.write_str("null"),
            Diskless::Memory(Bytes(size)) => write!(f, "memory:{size}"),
        }
    }
}

/// Bytes of the pattern that a memory source repeats: small enough to stay in a processor's cache,
/// so that making data costs one copy out of it.
const PATTERN: usize = 1 << 20;

/// The file of a memory store: pseudo-random bytes, the same in every run, none of its blocks like
/// another.
pub struct MemorySource {
    pattern: Vec<u8>,
}

impl MemorySource {
    /// Makes the pattern, which touches its pages.
    pub fn new() -> MemorySource {
        let mut rng = Rng::new(1);
        MemorySource {
            pattern: (0..PATTERN / 8).flat_map(|_| rng.next_u64().to_le_bytes()).collect(),
        }
    }
}

impl Default for MemorySource {
    fn default() -> MemorySource {
        MemorySource::new()
    }
}

impl Source for MemorySource {
    fn read(&self, _entry: usize, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        let period = PATTERN as u64;
        let mut done = 0;
        while done < into.len() {
            let at = offset + done as u64;
            let from = (at % period) as usize;
            let len = (PATTERN - from).min(into.len() - done);
            let part = &mut into[done..done + len];
            part.copy_from_slice(&self.pattern[from..from + len]);
            // Each repetition begins with its number: a block in another's place would change the
            // digest.
            let stamp = (at / period).to_le_bytes();
            if let Some(rest) = stamp.get(from..) {
                let len = rest.len().min(part.len());
                part[..len].copy_from_slice(&rest[..len]);
            }
            done += len;
        }
        Ok(())
    }
}

/// A region of memory that many threads write: one lock a mebibyte, so that two blocks never wait
/// for each other.
struct Region {
    chunks: Vec<Mutex<Slot>>,
    size: u64,
}

const CHUNK: usize = 1 << 20;

impl Region {
    fn touched(size: Bytes) -> Result<Region, Error> {
        let failed = |error: std::io::Error| {
            Error::new(
                Fault::Here,
                ErrorCode::NoMemory,
                format!("no memory for a store of {size}: {error}"),
            )
            .hint("name a smaller size, or write to null")
        };
        let count = usize::try_from(size.0.div_ceil(CHUNK as u64))
            .map_err(|_| failed(std::io::ErrorKind::OutOfMemory.into()))?;
        let chunks = pool(count, CHUNK).map_err(failed)?.into_iter();
        // A page fault in the middle of a transfer would be measured as if the network were slow.
        let touched = chunks.map(|mut chunk| {
            chunk.iter_mut().step_by(4096).for_each(|byte| *byte = 0);
            Mutex::new(chunk)
        });
        Ok(Region { chunks: touched.collect(), size: size.0 })
    }

    fn write(&self, offset: u64, mut bytes: &[u8]) -> Result<(), Error> {
        if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > self.size) {
            let message = format!("more than the {} of the memory store came", Bytes(self.size));
            return Err(
                Error::new(Fault::Here, ErrorCode::NoSpace, message).hint("name a larger size")
            );
        }
        let mut at = offset;
        while !bytes.is_empty() {
            let from = (at % CHUNK as u64) as usize;
            let len = (CHUNK - from).min(bytes.len());
            let mut chunk = self.chunks[(at / CHUNK as u64) as usize]
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            chunk[from..from + len].copy_from_slice(&bytes[..len]);
            bytes = &bytes[len..];
            at += len as u64;
        }
        Ok(())
    }
}

/// What receives the files of a layout in memory, one behind the other, or drops them.
pub struct DisklessSink {
    layout: Arc<Layout>,
    /// Where each entry's bytes begin in the region.
    starts: Vec<u64>,
    region: Option<Region>,
}

impl fmt::Debug for DisklessSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DisklessSink")
            .field("size", &self.region.as_ref().map(|region| region.size))
            .finish_non_exhaustive()
    }
}

impl Sink for DisklessSink {
    fn write(&self, entry: usize, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let Some(region) = &self.region else { return Ok(()) };
        let start = self.starts.get(entry).copied().unwrap_or(u64::MAX);
        region.write(start.saturating_add(offset), bytes)
    }
}

impl Landing for DisklessSink {
    fn open(&self, _entry: usize) -> Result<(), Error> {
        Ok(())
    }

    fn make_folders(&self) -> Result<(), Error> {
        Ok(())
    }

    fn land(&self, check: Option<(&[DigestVerdict], &Digests)>) -> Landed {
        let mut landed = Landed::default();
        let entries = self.layout.entries().iter().enumerate();
        for (index, entry) in
            entries.filter(|(_, entry)| matches!(entry.kind, EntryKind::File { .. }))
        {
            match check_digest(index, check) {
                Ok(()) => {
                    landed.files += 1;
                    landed.bytes += entry.len();
                }
                Err(error) => landed.failures.push((entry.path.clone(), error)),
            }
        }
        landed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_file_reads_the_same_and_no_blocks_are_alike() {
        let source = MemorySource::new();
        let mut whole = vec![0; 3 * PATTERN + 100];
        source.read(0, 0, &mut whole).expect("memory");
        for (from, len) in
            [(0, 5), (3, 9), (PATTERN - 4, 10), (PATTERN + 5, 2), (2 * PATTERN, PATTERN + 50)]
        {
            let mut part = vec![0; len];
            source.read(0, from as u64, &mut part).expect("memory");
            assert!(part == whole[from..from + len], "{from} {len}");
        }
        let blocks: Vec<_> = whole.chunks(PATTERN).map(blake3::hash).collect();
        assert!(blocks[0] != blocks[1] && blocks[1] != blocks[2]);
        let ones: u32 = whole[..4096].iter().map(|byte| byte.count_ones()).sum();
        assert!((15_000..18_000).contains(&ones), "{ones} of 32768 bits are set: not random");
    }

    #[test]
    fn memory_takes_what_fits_and_refuses_the_rest() {
        let layout = Arc::new(Layout::of_file(3 << 20, 1 << 20));
        let sink = Diskless::Memory(Bytes(2 << 20)).sink(&layout).expect("memory");
        sink.write(0, (1 << 20) - 3, b"abcdef").expect("across two chunks");
        let region = sink.region.as_ref().expect("a region");
        assert_eq!(&region.chunks[1].lock().expect("free")[..3], b"def");
        assert_eq!(
            sink.write(0, (2 << 20) - 1, b"ab").expect_err("too much").code,
            ErrorCode::NoSpace
        );
        assert_eq!(sink.write(0, u64::MAX, b"ab").expect_err("too much").code, ErrorCode::NoSpace);
    }

    #[test]
    fn names_are_read_strictly() {
        assert_eq!(Diskless::parse("null", ':'), Some(Ok(Diskless::Null)));
        assert_eq!(Diskless::parse("memory:10G", ':'), Some(Ok(Diskless::Memory(Bytes(10 << 30)))));
        assert_eq!(Diskless::parse("memory=1KiB", '='), Some(Ok(Diskless::Memory(Bytes(1024)))));
        for text in ["memory:", "memory:0", "memory:ten", "memory:5X"] {
            assert_eq!(
                Diskless::parse(text, ':').map(|parsed| parsed.map_err(|error| error.code)),
                Some(Err(ErrorCode::BadSize)),
                "{text}"
            );
        }
        assert_eq!(Diskless::parse("memory.h5", ':'), None);
        assert_eq!(Diskless::Null.entry(b"x").expect_err("empty").code, ErrorCode::NothingToRead);
    }
}

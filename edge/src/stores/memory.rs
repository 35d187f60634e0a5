//! The store `memory:SIZE`, for measuring everything but a disk: a file of pseudo-random bytes to
//! read, a region of memory to write.

use super::driver::{Access, LandingOptions, Listing, Store, StoreCapabilities, StoreDriver};
use super::{Landed, Landing, Sink, Source, not_allowed};
use crate::drivers::{DriverOption, OptionKind, Values};
use crate::sys::clock::ns_since_1970;
use crate::sys::pool::{Slot, pool};
use farline_core::transfer::{Digests, Entry, EntryKind, Layout, StoreMedium, VerdictList};
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Rng};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

const OPTIONS: [DriverOption; 1] = [DriverOption {
    name: "size",
    kind: OptionKind::Size,
    help: "how long its file is, and how much it takes, such as 10GiB",
}];

/// The driver. The stores that it opens take so much together as `limit` says, where it does.
pub(super) fn driver(limit: Option<Bytes>) -> StoreDriver {
    let capabilities = StoreCapabilities {
        source: true,
        sink: true,
        access: Access::Random,
        paths: false,
        keeps: false,
        journals: false,
        durable: false,
    };
    let about = "one file of pseudo-random bytes, the same every time; or memory that takes so \
                 much and forgets it";
    let budget = limit.map(|limit| Arc::new(Budget { limit, used: AtomicU64::new(0) }));
    let open = move |values: &Values| {
        let size = Bytes(values.number("size").ok_or_else(no_size)?);
        if let Some(budget) = budget.as_ref().filter(|budget| size > budget.limit) {
            let message =
                format!("this node allows at most {} of memory, not {size}", budget.limit);
            return Err(not_allowed(message));
        }
        Ok(Arc::new(MemoryStore { size, budget: budget.clone() }) as Arc<dyn Store>)
    };
    StoreDriver {
        options: &OPTIONS,
        medium: StoreMedium::Memory,
        feature: Some("MEMORY"),
        ..StoreDriver::new("memory", about, capabilities, open)
    }
}

fn no_size() -> Error {
    Error::new(Fault::You, ErrorCode::BadSize, "the size of a memory store is missing or wrong")
        .hint("write it with a unit, such as memory:10GiB")
}

/// So many bytes of memory, every page of it touched before the first byte arrives.
#[derive(Debug)]
struct MemoryStore {
    size: Bytes,
    budget: Option<Arc<Budget>>,
}

impl Store for MemoryStore {
    fn list(&self, _start: &[u8]) -> Result<Listing, Error> {
        Ok(Listing::of(vec![Entry {
            path: Vec::new(),
            kind: EntryKind::File { len: self.size.0 },
            mode: 0o644,
            modified_ns: ns_since_1970(),
            changed_ns: 0,
            attributes: None,
        }]))
    }

    fn source(&self, _start: &[u8], _layout: &Arc<Layout>) -> Result<Arc<dyn Source>, Error> {
        Ok(Arc::new(MemorySource::new()))
    }

    fn sink(
        &self,
        _start: &[u8],
        layout: &Arc<Layout>,
        _options: LandingOptions,
    ) -> Result<Box<dyn Landing>, Error> {
        let share = self.budget.as_ref().map(|budget| budget.take(self.size)).transpose()?;
        let region = Region::touched(self.size)?;
        let starts = layout.entries().iter().scan(0u64, |at, entry| {
            let start = *at;
            *at = at.saturating_add(entry.len());
            Some(start)
        });
        let starts = starts.collect();
        Ok(Box::new(MemorySink {
            layout: Arc::clone(layout),
            starts,
            region,
            left: Mutex::default(),
            _share: share,
        }))
    }
}

/// What an operator allows all sessions of a node together.
#[derive(Debug)]
struct Budget {
    limit: Bytes,
    used: AtomicU64,
}

impl Budget {
    fn take(self: &Arc<Budget>, size: Bytes) -> Result<Share, Error> {
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(size.0).filter(|&total| total <= self.limit.0)
        });
        match taken {
            Ok(_) => Ok(Share { budget: Arc::clone(self), bytes: size.0 }),
            Err(used) => {
                let message = format!(
                    "{} of this node's {} of memory are in use, and {size} were asked for",
                    Bytes(used),
                    self.limit
                );
                Err(Error::new(Fault::Refused, ErrorCode::StoreNotAllowed, message)
                    .hint("try again when the other transfers are over"))
            }
        }
    }
}

/// One sink's part of it; given back when dropped.
#[derive(Debug)]
struct Share {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
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

/// What receives the files of a layout in memory, one behind the other.
struct MemorySink {
    layout: Arc<Layout>,
    /// Where each entry's bytes begin in the region.
    starts: Vec<u64>,
    region: Region,
    left: Mutex<BTreeSet<usize>>,
    _share: Option<Share>,
}

impl fmt::Debug for MemorySink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemorySink").field("size", &self.region.size).finish_non_exhaustive()
    }
}

impl Sink for MemorySink {
    fn write(&self, entry: usize, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let start = self.starts.get(entry).copied().unwrap_or(u64::MAX);
        self.region.write(start.saturating_add(offset), bytes)
    }
}

impl Landing for MemorySink {
    fn leave(&self, entries: &BTreeSet<usize>) {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).clone_from(entries);
    }

    fn land(&self, check: Option<(&VerdictList, &Digests)>) -> Landed {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        Landed::each(&self.layout, &left, check, |_, _| Ok(()))
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
        let region = Region::touched(Bytes(2 << 20)).expect("memory");
        region.write((1 << 20) - 3, b"abcdef").expect("across two chunks");
        assert_eq!(&region.chunks[1].lock().expect("free")[..3], b"def");
        for (at, why) in [((2 << 20) - 1, "beyond the end"), (u64::MAX, "far beyond")] {
            let error = region.write(at, b"ab").expect_err(why);
            assert_eq!(error.code, ErrorCode::NoSpace, "{why}");
        }
    }

    #[test]
    fn all_stores_together_take_no_more_than_the_limit() {
        let driver = driver(Some(Bytes(3 << 20)));
        let open = |size: &'static str| {
            driver.open(&Values::parse(&OPTIONS, std::iter::once(size)).expect("a size"))
        };
        let layout = Arc::new(Layout::of_file(1, 1 << 20));
        let (one, other) = (open("2MiB").expect("fits"), open("2MiB").expect("fits alone"));
        let sink = |store: &Arc<dyn Store>| store.sink(b"", &layout, LandingOptions::default());
        let taken = sink(&one).expect("free");
        let error = sink(&other).expect_err("too much");
        assert_eq!((error.fault, error.code), (Fault::Refused, ErrorCode::StoreNotAllowed));
        drop(taken);
        sink(&other).expect("given back");
        assert_eq!(open("4MiB").expect_err("never").code, ErrorCode::StoreNotAllowed);
        assert_eq!(driver.open(&Values::default()).expect_err("none").code, ErrorCode::BadSize);
    }
}

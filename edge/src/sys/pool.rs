//! The staging pool: mapped regions, one for each time that it grew, cut into page-aligned slots
//! that move between threads by ownership.
//!
//! Safe code would do for byte channels (a boxed slice a slot). Few large regions are what direct
//! I/O, registered io_uring buffers and RDMA memory registration need, and huge pages halve the
//! cost of touching it.

use super::lock::lock;
use super::pool_memory::{PoolMemory, PoolShare};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

/// A mapped region; unmapped when the last slot goes.
pub(in crate::sys) struct Region {
    start: NonNull<u8>,
    len: usize,
    /// What to do before.
    at_end: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
    /// Where pools share memory: whose it is of, and what it takes.
    share: Option<(PoolTerms, PoolShare)>,
}

/// What a pool that shares its memory with others is of.
#[derive(Clone, Debug)]
pub(crate) struct PoolTerms {
    memory: Arc<PoolMemory>,
    asked: usize,
}

impl PoolTerms {
    /// The slots that were asked for; the pool may have fewer.
    pub(crate) fn asked(&self) -> usize {
        self.asked
    }

    /// Maps `count` slots more for the pool, which has `first` already.
    ///
    /// # Errors
    /// When the memory cannot be had, or others have too much of it.
    pub(crate) fn more(
        &self,
        first: usize,
        count: usize,
        slot_len: usize,
    ) -> io::Result<Vec<Slot>> {
        let slot_len = whole_pages(slot_len);
        let share = self.memory.take_all(count, slot_len).ok_or(io::ErrorKind::OutOfMemory)?;
        map(first, count, slot_len, true, Some((self.clone(), share)))
    }

    /// One more, whatever others have.
    ///
    /// # Errors
    /// When the memory cannot be had.
    pub(crate) fn one_more(&self, first: usize, slot_len: usize) -> io::Result<Vec<Slot>> {
        let slot_len = whole_pages(slot_len);
        let (count, share) = self.memory.take((1, 1), slot_len);
        map(first, count, slot_len, false, Some((self.clone(), share)))
    }
}

// SAFETY: the region is plain memory; access goes through slots, each of which is the only owner of
// its part.
unsafe impl Send for Region {}
// SAFETY: as above; `Region` itself offers no access.
unsafe impl Sync for Region {}

impl Region {
    /// Has `last` done when no slot is left, while the memory is still there: who told a device of
    /// it takes it away from the device.
    #[cfg(any(feature = "rdma", test))]
    pub(in crate::sys) fn before_unmapping(&self, last: impl FnOnce() + Send + 'static) {
        lock(&self.at_end).push(Box::new(last));
    }
}

impl std::fmt::Debug for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Region({:?}, {})", self.start, self.len)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        lock(&self.at_end).drain(..).for_each(|last| last());
        // SAFETY: the mapping was made by `pool` with this length, and no slot is left to reach
        // into it. A failure would leave memory mapped until the process ends, which nobody can act
        // on.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// One buffer of a pool, owned by whoever holds it.
#[derive(Debug)]
pub struct Slot {
    region: Arc<Region>,
    index: usize,
    offset: usize,
    len: usize,
}

/// Maps `count` slots of `slot_len` bytes, rounded up to whole pages.
///
/// # Errors
/// When the memory cannot be had.
pub(crate) fn pool(count: usize, slot_len: usize) -> io::Result<Vec<Slot>> {
    more(0, count, slot_len)
}

/// The same, of slots of which each holds `used` bytes at most. A huge page is cleared whole at its
/// first touch: where little of it is used, small pages take less time and less memory.
///
/// # Errors
/// When the memory cannot be had.
pub(crate) fn pool_of_short(count: usize, slot_len: usize, used: usize) -> io::Result<Vec<Slot>> {
    map(0, count, slot_len, used >= slot_len / WORTH_HUGE, None)
}

/// The same, `asked` slots of them or as many as `memory` has room for: `least` in any case. While
/// some pool has less than was asked for, all are mapped anew for each transfer, and a huge page
/// would be cleared each time.
///
/// # Errors
/// When the memory cannot be had.
pub(crate) fn pool_within(
    memory: &Arc<PoolMemory>,
    (least, asked): (usize, usize),
    slot_len: usize,
    used: usize,
) -> io::Result<Vec<Slot>> {
    let slot_len = whole_pages(slot_len);
    let is_huge = used >= slot_len / WORTH_HUGE && !memory.is_short();
    let (count, share) = memory.take((least, asked), slot_len);
    let terms = PoolTerms { memory: Arc::clone(memory), asked };
    map(0, count, slot_len, is_huge, Some((terms, share)))
}

/// Of a slot whose blocks fill no more than one part in so many, most of a huge page is cleared for
/// nothing.
const WORTH_HUGE: usize = 4;

/// The same for a pool that has `first` slots already.
///
/// # Errors
/// When the memory cannot be had.
pub(crate) fn more(first: usize, count: usize, slot_len: usize) -> io::Result<Vec<Slot>> {
    map(first, count, slot_len, true, None)
}

fn whole_pages(slot_len: usize) -> usize {
    slot_len.max(1).next_multiple_of(rustix::param::page_size())
}

fn map(
    first: usize,
    count: usize,
    slot_len: usize,
    is_huge: bool,
    share: Option<(PoolTerms, PoolShare)>,
) -> io::Result<Vec<Slot>> {
    let slot_len = whole_pages(slot_len);
    let len = slot_len.checked_mul(count.max(1)).ok_or(io::ErrorKind::OutOfMemory)?;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice overlaps nothing.
    let start = unsafe {
        mmap_anonymous(
            std::ptr::null_mut(),
            len,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE,
        )?
    };
    if is_huge {
        // A wish: without them the pool works the same, slower.
        // SAFETY: the range is the mapping just made.
        let _ = unsafe { madvise(start, len, Advice::LinuxHugepage) };
    }
    let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
    let region = Arc::new(Region { start, len, at_end: Mutex::default(), share });
    let slot = |i| Slot {
        region: Arc::clone(&region),
        index: first + i,
        offset: i * slot_len,
        len: slot_len,
    };
    Ok((0..count).map(slot).collect())
}

impl Slot {
    /// The slot's number in its pool, which may be of several regions.
    pub fn index(&self) -> usize {
        self.index
    }

    /// What its pool is of, where that shares its memory with others.
    pub(crate) fn terms(&self) -> Option<PoolTerms> {
        self.region.share.as_ref().map(|(terms, _)| terms.clone())
    }

    /// The pool that it is of, which stays mapped while the answer lives.
    #[cfg(any(feature = "rdma", test))]
    pub(in crate::sys) fn region(&self) -> &Arc<Region> {
        &self.region
    }
}

impl Deref for Slot {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `offset..offset + len` lies in the region, belongs to this slot alone, and
        // anonymous memory is initialised.
        unsafe { std::slice::from_raw_parts(self.region.start.as_ptr().add(self.offset), self.len) }
    }
}

impl DerefMut for Slot {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes this the only reference.
        unsafe {
            std::slice::from_raw_parts_mut(self.region.start.as_ptr().add(self.offset), self.len)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farline_core::units::Bytes;

    #[test]
    fn slots_are_page_aligned_distinct_and_outlive_their_siblings() {
        let mut slots = pool(3, 5000).expect("a small pool");
        for slot in &mut slots {
            assert!(slot.as_ptr().addr().is_multiple_of(rustix::param::page_size()));
            let mark = slot.index() as u8 + 1;
            slot.fill(mark);
        }
        let last = slots.pop().expect("three slots");
        drop(slots);
        assert!(last.len() >= 5000 && last.iter().all(|&byte| byte == 3));
    }

    #[test]
    fn a_pool_grows_by_what_others_leave_and_by_one_in_any_case() {
        let page = rustix::param::page_size() as u64;
        let memory = PoolMemory::new(Bytes(8 * page));
        let slots = pool_within(&memory, (1, 2), 1, 1).expect("a small pool");
        let terms = slots[0].terms().expect("it shares its memory");
        assert_eq!((slots.len(), terms.asked(), memory.taken()), (2, 2, 2 * page));
        let more = terms.more(2, 3, 1).expect("half of what is left");
        assert_eq!(more.iter().map(Slot::index).collect::<Vec<_>>(), [2, 3, 4]);
        assert!(terms.more(5, 2, 1).is_err(), "more than half of what is left");
        let others = pool_within(&memory, (3, 64), 1, 1).expect("its least");
        assert_eq!((others.len(), memory.taken()), (3, 8 * page));
        assert_eq!(terms.one_more(5, 1).expect("in any case")[0].index(), 5);
        drop((slots, more, others));
        assert_eq!(memory.taken(), 0, "given back when it is unmapped");
        assert!(pool(1, 1).expect("a small pool")[0].terms().is_none());
    }

    #[test]
    fn the_last_slot_runs_the_cleanup_while_memory_is_mapped() {
        let mut slots = pool(2, 1).expect("a small pool");
        slots.iter_mut().for_each(|slot| slot.fill(7));
        let (tell, told) = std::sync::mpsc::channel();
        let at = slots[0].as_ptr().addr();
        slots[0].region().before_unmapping(move || {
            let maps = std::fs::read_to_string("/proc/self/maps").expect("this process's memory");
            let has = |line: &str| {
                let (start, end) = line.split_once(' ')?.0.split_once('-')?;
                let of = |hex| usize::from_str_radix(hex, 16).ok();
                (of(start)?..of(end)?).contains(&at).then_some(())
            };
            tell.send(maps.lines().find_map(has).is_some()).expect("somebody waits");
        });
        slots.pop();
        assert!(told.try_recv().is_err(), "a slot is left");
        slots.pop();
        assert_eq!(told.try_recv(), Ok(true));
    }
}

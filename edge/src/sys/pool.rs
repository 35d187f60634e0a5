//! The staging pool: mapped regions, one for each time that it grew, cut into page-aligned slots
//! that move between threads by ownership.
//!
//! Safe code would do for byte channels (a boxed slice a slot). Few large regions are what direct
//! I/O, registered io_uring buffers and RDMA memory registration need, and huge pages halve the
//! cost of touching it.

use super::lock::lock;
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
    map(0, count, slot_len, used >= slot_len / WORTH_HUGE)
}

/// Of a slot whose blocks fill no more than one part in so many, most of a huge page is cleared for
/// nothing.
const WORTH_HUGE: usize = 4;

/// The same for a pool that has `first` slots already.
///
/// # Errors
/// When the memory cannot be had.
pub(crate) fn more(first: usize, count: usize, slot_len: usize) -> io::Result<Vec<Slot>> {
    map(first, count, slot_len, true)
}

fn map(first: usize, count: usize, slot_len: usize, is_huge: bool) -> io::Result<Vec<Slot>> {
    let page = rustix::param::page_size();
    let slot_len = slot_len.max(1).next_multiple_of(page);
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
    let region = Arc::new(Region { start, len, at_end: Mutex::default() });
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

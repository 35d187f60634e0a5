//! A large block of memory that is all there before it is used: no page fault later, huge pages
//! where the kernel has them.

use rustix::io;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Pages are touched one by one: the smallest page size of the machines we run on.
const PAGE: usize = 4096;

/// An owned, zeroed, private mapping. Safe code could not ask for huge pages before the first
/// touch.
#[derive(Debug)]
pub(crate) struct Memory {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is private to this value and reached only through `&self` and `&mut self`.
unsafe impl Send for Memory {}

impl Memory {
    /// Maps `len` bytes (at least one) and touches every page.
    ///
    /// # Errors
    /// What the kernel says when it has no such amount of memory.
    pub(crate) fn touched(len: usize) -> io::Result<Memory> {
        let len = len.max(1);
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice overlaps nothing.
        let start = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?
        };
        let start = NonNull::new(start.cast::<u8>()).ok_or(io::Errno::NOMEM)?;
        let mut memory = Memory { start, len };
        // SAFETY: the range is the mapping made above. Huge pages are a wish: kernels without them
        // refuse, and that is fine.
        let _ = unsafe { madvise(start.as_ptr().cast(), len, Advice::LinuxHugepage) };
        for offset in (0..len).step_by(PAGE) {
            memory[offset] = 0;
        }
        Ok(memory)
    }
}

impl Deref for Memory {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is `len` readable bytes, zeroed by the kernel, and lives as long as
        // `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`; `&mut self` makes the reference the only one.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `touched` and no reference outlives `self`.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zeroed_and_writable_to_its_last_byte() {
        let mut memory = Memory::touched(3 * PAGE + 5).expect("it is allowed");
        assert_eq!(memory.len(), 3 * PAGE + 5);
        assert!(memory.iter().all(|&byte| byte == 0));
        let last = memory.len() - 1;
        memory[last] = 7;
        assert_eq!(memory[last], 7);
    }
}

//! The C library's heap.

/// From this size on each allocation is a mapping of its own, in bytes.
const MAPPED_FROM: i32 = 256 << 10;

/// Has this process give large allocations back to the system as soon as they are freed.
///
/// glibc raises the size from which it maps with each large allocation that is freed, up to 32 MiB,
/// and what lies in its heaps below that stays (mallopt(3), `M_MMAP_THRESHOLD`): the list of a tree
/// of a million files is a hundred megabytes, a mebibyte each, that a node would keep for good.
pub fn give_freed_memory_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it sets a number of the allocator's, under its own lock.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_FROM);
    }
    #[cfg(not(target_env = "gnu"))]
    let _ = MAPPED_FROM;
}

//! Asks the kernel to begin writing a part of a file to its disk.

use std::os::fd::{AsFd, AsRawFd};

/// Begins to write `len` bytes at `offset` back, without waiting. Only a wish: an error would come
/// again at fsync.
pub(crate) fn start_writeback(file: &impl AsFd, offset: u64, len: usize) {
    let (Ok(offset), Ok(len)) = (i64::try_from(offset), i64::try_from(len)) else { return };
    // SAFETY: the call takes numbers only, and the descriptor is open for as long as `file` is
    // borrowed.
    unsafe {
        libc::sync_file_range(file.as_fd().as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE)
    };
}

//! What of files and folders goes to their disk, and when.

use rustix::fs::{Mode, OFlags, openat};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Makes durable which names are in `folder`, which may have been opened for its path alone.
///
/// # Errors
/// When the folder may not be read, or its disk fails.
pub(crate) fn sync_folder(folder: &impl AsFd) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    File::from(openat(folder, c".", flags, Mode::empty())?).sync_all()
}

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

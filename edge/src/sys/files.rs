//! What a folder holds, and what of it and of files goes to their disk, and when.

use rustix::fs::{Dir, Mode, OFlags, RawDir, openat};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
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

/// The names in an open folder, but for its own and that of the one above.
///
/// # Errors
/// When it cannot be read, or was removed: rustix, as the C library, shows such a folder as one
/// without names, and whoever deletes what is not in it would delete all.
pub(crate) fn names_in(folder: &impl AsFd) -> io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for item in Dir::read_from(folder)? {
        match item?.file_name().to_bytes() {
            b"." | b".." => {}
            name => names.push(name.to_vec()),
        }
    }
    if names.is_empty() && is_removed(folder)? {
        return Err(Errno::NOENT.into());
    }
    Ok(names)
}

/// Whether `folder` was removed since it was opened, which getdents(2) tells.
fn is_removed(folder: &impl AsFd) -> io::Result<bool> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let again = openat(folder, c".", flags, Mode::empty())?;
    let mut space = [MaybeUninit::uninit(); 512];
    let is_gone = matches!(RawDir::new(again, &mut space).next(), Some(Err(Errno::NOENT)));
    Ok(is_gone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_was_removed_is_not_an_empty_one() {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::write(dir.path().join("a"), "x").expect("written");
        std::fs::create_dir(dir.path().join("b")).expect("a folder");
        let [top, empty] = ["", "b"].map(|name| File::open(dir.path().join(name)).expect("open"));
        let mut names = names_in(&top).expect("names");
        names.sort();
        assert_eq!(names, [b"a", b"b"]);
        assert!(names_in(&empty).expect("no names").is_empty());
        std::fs::remove_dir(dir.path().join("b")).expect("removed");
        assert_eq!(names_in(&empty).expect_err("gone").kind(), io::ErrorKind::NotFound);
    }
}

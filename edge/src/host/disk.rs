//! A short test of a directory: one stream written and made durable, then read back, past the page
//! cache where that can be.

use crate::stores::storage_error;
use crate::sys::pool::pool;
use farline_core::host::{Disk, Speed};
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Rate, Rng};
use rustix::fs::{Advice, Mode, OFlags, fadvise, fstatvfs, open};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

const BLOCK: usize = 4 << 20;
/// At most this much is written, and never more than a quarter of what is free.
const MOST: u64 = 1 << 30;

/// Writes into a file without a name below `directory` for about `span`, then reads it back.
///
/// # Errors
/// When nothing can be written there.
pub fn measure(directory: &Path, span: Duration) -> Result<Disk, Error> {
    let failed =
        |error: io::Error| storage_error("measure", directory.as_os_str().as_bytes(), &error);
    let (file, direct) = unnamed(directory).map_err(failed)?;
    let room = fstatvfs(&file).map_or(MOST, |room| room.f_bavail.saturating_mul(room.f_frsize) / 4);
    let most = room.min(MOST) / BLOCK as u64 * BLOCK as u64;
    if most == 0 {
        return Err(Error::new(
            Fault::Here,
            ErrorCode::NoSpace,
            format!("too little room in {} for a test", directory.display()),
        ));
    }
    let mut slots = pool(1, BLOCK).map_err(failed)?;
    let block = &mut slots[0];
    // Random, so that neither a compressing nor a deduplicating store flatters itself.
    let mut rng = Rng::new(2);
    block.chunks_exact_mut(8).for_each(|part| part.copy_from_slice(&rng.next_u64().to_le_bytes()));
    let began = Instant::now();
    let mut written = 0;
    while written < most && (began.elapsed() < span || written == 0) {
        block[..8].copy_from_slice(&written.to_le_bytes());
        file.write_all_at(block, written).map_err(failed)?;
        written += BLOCK as u64;
    }
    file.sync_all().map_err(failed)?;
    let write = speed(written, began);
    // Without direct I/O what was written is still in memory; now that it is durable it can be
    // dropped.
    let _ = fadvise(&file, 0, None, Advice::DontNeed);
    let began = Instant::now();
    let mut read = 0;
    while read < written && (began.elapsed() < span || read == 0) {
        file.read_exact_at(block, read).map_err(failed)?;
        read += BLOCK as u64;
    }
    Ok(Disk { path: directory.display().to_string(), direct, write, read: speed(read, began) })
}

fn speed(bytes: u64, began: Instant) -> Speed {
    Speed { bytes: Bytes(bytes), rate: Rate::of(Bytes(bytes), began.elapsed().into()) }
}

/// A file that is gone when it is closed, however this process ends.
fn unnamed(directory: &Path) -> io::Result<(File, bool)> {
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o600);
    let direct = open(directory, flags | OFlags::DIRECT, mode);
    let (file, direct) = match direct {
        Ok(fd) => (Ok(File::from(fd)), true),
        Err(_) => (open(directory, flags, mode).map(File::from), false),
    };
    match file {
        Ok(file) => Ok((file, direct)),
        // Not every file system has files without names (overlay on old kernels, NFS).
        Err(_) => {
            let path = directory.join(format!(".farline-check.{}", std::process::id()));
            let file = std::fs::OpenOptions::new()
                .read(true)
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&path)?;
            std::fs::remove_file(&path)?;
            Ok((file, false))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_measured_and_left_as_it_was() {
        let dir = tempfile::tempdir().expect("a folder");
        let disk = measure(dir.path(), Duration::from_millis(20)).expect("writable");
        assert!(
            disk.write.bytes.0 >= BLOCK as u64 && disk.read.bytes.0 >= BLOCK as u64,
            "{disk:?}"
        );
        assert!(disk.write.rate.as_bps() > 0 && disk.read.rate.as_bps() > 0, "{disk:?}");
        assert_eq!(std::fs::read_dir(dir.path()).expect("a folder").count(), 0);
        let error =
            measure(Path::new("/no/such/folder"), Duration::ZERO).expect_err("nothing there");
        assert_eq!(error.code, ErrorCode::PathNotFound);
    }
}

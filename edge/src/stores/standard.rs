//! Standard output as a store: one file, whose bytes go out in ascending order as they come.

use super::landing::check_digest;
use super::{Landed, Landing, Sink};
use farline_core::transfer::{DigestVerdict, Digests};
use farline_core::units::{Error, ErrorCode, Fault};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

/// Standard output, not buffered here: the staging pool is buffer enough.
#[derive(Debug)]
pub struct StandardOutput {
    file: File,
    /// Where the next part begins.
    next: AtomicU64,
}

impl StandardOutput {
    /// Standard output of this process.
    ///
    /// # Errors
    /// When it is closed.
    pub fn open() -> Result<StandardOutput, Error> {
        let file = io::stdout().as_fd().try_clone_to_owned().map_err(|error| failed(&error))?;
        Ok(StandardOutput { file: file.into(), next: AtomicU64::new(0) })
    }
}

fn failed(error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Error::new(
            Fault::Here,
            ErrorCode::OutputClosed,
            "who read standard output went away before the end of the file",
        ),
        _ => super::storage_error("write", b"standard output", error),
    }
}

impl Sink for StandardOutput {
    fn write(&self, _entry: usize, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        if self.next.swap(offset + bytes.len() as u64, Ordering::AcqRel) != offset {
            return Err(Error::new(
                Fault::Bug,
                ErrorCode::OutOfOrder,
                "bytes for standard output came out of order",
            ));
        }
        (&self.file).write_all(bytes).map_err(|error| failed(&error))
    }

    fn wants_order(&self) -> bool {
        true
    }
}

impl Landing for StandardOutput {
    fn open(&self, _entry: usize) -> Result<(), Error> {
        Ok(())
    }

    fn make_folders(&self) -> Result<(), Error> {
        Ok(())
    }

    fn land(&self, check: Option<(&[DigestVerdict], &Digests)>) -> Landed {
        let bytes = self.next.load(Ordering::Acquire);
        match check_digest(0, check) {
            Ok(()) => Landed { files: 1, bytes, ..Landed::default() },
            Err(error) => Landed { failures: vec![(b"-".to_vec(), error)], ..Landed::default() },
        }
    }
}

//! A document on disk: read whole, written whole, and no finished repetition of a measurement is lost
//! to a full disk.

#[cfg(feature = "profile")]
mod profile;
#[cfg(feature = "profile")]
pub use profile::{read, spare, text};

use farline_core::units::{Error, ErrorCode, Fault};
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{self, File};
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A repetition's samples and words take less than this.
const MARGIN: u64 = 1 << 20;
/// What to do where a file cannot be written for want of space, as it seems.
const AS_IT_WAS: &str = "is there space? a file that was there is as it was";
const GOES_ON: &str =
    "is there space? results so far stand in the file; `--resume` goes on from it";

/// Writes next to `file` and then renames, so that a full disk or an interruption leaves the file
/// that was there.
///
/// # Errors
/// [`Fault::Here`] when it cannot be written: the file that was there stays.
pub fn write(file: &Path, bytes: &[u8]) -> Result<(), Error> {
    DocumentReservation::hinting(file, bytes.len() as u64, AS_IT_WAS)?.write(bytes)
}

/// Disk space for a document that is not written yet: taken before a repetition runs, so that its
/// result has a place.
#[derive(Debug)]
pub struct DocumentReservation {
    file: PathBuf,
    temporary: PathBuf,
    part: File,
    hint: &'static str,
}

impl DocumentReservation {
    /// Takes space for a document of `len` bytes and one repetition more.
    ///
    /// # Errors
    /// [`Fault::Here`] when there is not so much.
    pub fn reserve(file: &Path, len: u64) -> Result<DocumentReservation, Error> {
        DocumentReservation::hinting(file, len, GOES_ON)
    }

    fn hinting(file: &Path, len: u64, hint: &'static str) -> Result<DocumentReservation, Error> {
        let temporary = temporary(file, ".part");
        let part = File::create(&temporary).map_err(|error| cannot_write(file, &error, hint))?;
        let place = DocumentReservation { file: file.to_owned(), temporary, part, hint };
        match fallocate(&place.part, FallocateFlags::empty(), 0, len + MARGIN) {
            // Where a file system cannot reserve, the write itself will tell.
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(place),
            Err(error) => Err(cannot_write(file, &error.into(), hint)),
        }
    }

    /// Puts `bytes` into the place, and the file that was there out of it.
    ///
    /// # Errors
    /// [`Fault::Here`] when they cannot be written.
    pub fn write(mut self, bytes: &[u8]) -> Result<(), Error> {
        let written = self
            .part
            .seek(SeekFrom::Start(0))
            .and_then(|_| self.part.write_all(bytes))
            .and_then(|()| self.part.set_len(bytes.len() as u64))
            .and_then(|()| self.part.sync_all())
            .and_then(|()| fs::rename(&self.temporary, &self.file));
        written.map_err(|error| cannot_write(&self.file, &error, self.hint))
    }
}

impl Drop for DocumentReservation {
    fn drop(&mut self) {
        // After a rename there is none; what is half-written helps nobody.
        let _ = fs::remove_file(&self.temporary);
    }
}

/// Where `file` is, whatever its spelling: a name in a folder without links and dots.
pub fn place(file: &Path) -> PathBuf {
    let folder =
        file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (folder.canonicalize(), file.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        // What is not there is refused by whoever writes.
        _ => file.to_owned(),
    }
}

/// Refuses a file that could not be written at the end, before anything runs for it.
///
/// # Errors
/// [`Fault::Here`]: why it could not.
pub fn check(file: &Path) -> Result<(), Error> {
    // A rename would take the place of a device, too.
    match fs::metadata(file) {
        Ok(there) if there.is_dir() => {
            return Err(cannot_write(file, &ErrorKind::IsADirectory.into(), AS_IT_WAS));
        }
        Ok(there) if !there.is_file() => {
            return Err(cannot_write(file, &ErrorKind::InvalidInput.into(), AS_IT_WAS));
        }
        _ => {}
    }
    // Not the name of a place: another profile may have its own there.
    let trial = temporary(file, &format!(".{}", std::process::id()));
    File::create_new(&trial).map_err(|error| cannot_write(file, &error, AS_IT_WAS))?;
    let _ = fs::remove_file(&trial);
    Ok(())
}

/// `file` with `ending` behind its name.
fn temporary(file: &Path, ending: &str) -> PathBuf {
    let mut temporary = file.as_os_str().to_owned();
    temporary.push(ending);
    temporary.into()
}

fn cannot_write(file: &Path, error: &std::io::Error, else_hint: &str) -> Error {
    let hint = match error.kind() {
        ErrorKind::NotFound => "the folder must be there",
        ErrorKind::IsADirectory => "name a file in it",
        ErrorKind::InvalidInput => "a device or a pipe is not replaced: name a file",
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "name a file where this user may write"
        }
        _ => else_hint,
    };
    Error::new(Fault::Here, ErrorCode::CannotWrite, format!("{}: {error}", file.display()))
        .hint(hint)
}

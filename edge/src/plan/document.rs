//! A document on disk: read whole, written whole, and no finished repetition of a measurement is
//! lost to a full disk.

#[cfg(feature = "profile")]
mod profile;
#[cfg(feature = "profile")]
pub use profile::{read, spare, text};

use farline_core::units::{Error, ErrorCode, Fault, Setting};
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};
use std::fs::{self, File};
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A repetition's samples and words take less than this.
const MARGIN: u64 = 1 << 20;
/// What to do where a file cannot be written for want of space, as it seems.
const AS_IT_WAS: &str = "is there space? a file that was there is as it was";
fn goes_on() -> String {
    format!("is there space? results so far stand in the file; {} goes on from it", Setting::Resume)
}

/// Writes next to `file` and then renames, so that a full disk or an interruption leaves the file
/// that was there.
///
/// # Errors
/// [`Fault::Here`] when it cannot be written: the file that was there stays; [`Fault::Refused`]
/// while another run writes it.
pub fn write(file: &Path, bytes: &[u8]) -> Result<(), Error> {
    DocumentReservation::of(file, bytes.len() as u64, AS_IT_WAS.to_owned())?.put(bytes).map(|_| ())
}

/// The place of a document for one run: whoever else would write it, or go on with it, is refused.
///
/// What is locked is the file itself, and after each writing the one that took its place: so
/// nothing is left behind, however the run ends.
#[derive(Debug)]
pub struct DocumentPlace {
    file: PathBuf,
    held: Option<File>,
}

impl DocumentPlace {
    /// Takes the place `file` before its document is read: what is read then nobody else changes.
    /// A file that is not there yet is locked from the first writing on.
    ///
    /// # Errors
    /// [`Fault::Refused`] while another run has it.
    pub fn take(file: &Path) -> Result<DocumentPlace, Error> {
        let held = held(|| File::open(file), file)?;
        // Who writes a new document has only its other name.
        let part = temporary(file, ".part");
        let _ = self::held(|| File::open(&part), &part).map_err(|_| taken(file))?;
        Ok(DocumentPlace { file: file.to_owned(), held })
    }

    /// Where it is.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Writes `bytes` as [`write()`] does, and keeps the place.
    ///
    /// # Errors
    /// [`Fault::Here`] when they cannot be written.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let new = DocumentReservation::of(&self.file, bytes.len() as u64, AS_IT_WAS.to_owned())?;
        self.held = Some(new.put(bytes)?);
        Ok(())
    }

    /// Takes space for a document of `len` bytes and one repetition more.
    ///
    /// # Errors
    /// [`Fault::Here`] when there is not so much.
    pub fn reserve(&mut self, len: u64) -> Result<DocumentReservation<'_>, Error> {
        let mut reserved = DocumentReservation::of(&self.file.clone(), len, goes_on())?;
        reserved.place = Some(self);
        Ok(reserved)
    }
}

/// What `open` opens, locked; `None` where there is no such file, or none that can be opened, which
/// whoever reads or writes it says. `place` is where it is.
fn held(open: impl Fn() -> std::io::Result<File>, place: &Path) -> Result<Option<File>, Error> {
    loop {
        let Ok(file) = open() else { return Ok(None) };
        // Where a file system has no locks, it goes without.
        if flock(&file, FlockOperation::NonBlockingLockExclusive)
            == Err(rustix::io::Errno::WOULDBLOCK)
        {
            return Err(taken(place));
        }
        // Whoever had it may have put another file there before this lock came.
        let is_same = |there: fs::Metadata| {
            file.metadata().is_ok_and(|own| (own.dev(), own.ino()) == (there.dev(), there.ino()))
        };
        if fs::metadata(place).is_ok_and(is_same) {
            return Ok(Some(file));
        }
    }
}

fn taken(file: &Path) -> Error {
    Error::new(
        Fault::Refused,
        ErrorCode::ProfileRunning,
        format!("{}: another run has this file", file.display()),
    )
    .hint("wait for it, or end it; its results so far are kept")
}

/// Disk space for a document that is not written yet: taken before a repetition runs, so that its
/// result has a place.
#[derive(Debug)]
pub struct DocumentReservation<'a> {
    file: PathBuf,
    temporary: PathBuf,
    part: Option<File>,
    hint: String,
    place: Option<&'a mut DocumentPlace>,
}

impl DocumentReservation<'_> {
    fn of(file: &Path, len: u64, hint: String) -> Result<Self, Error> {
        let temporary = temporary(file, ".part");
        let mut options = File::options();
        // What another run has in it stays until it is known that none has it.
        options.write(true).create(true).truncate(false);
        let failed = |error: std::io::Error| cannot_write(file, &error, &hint);
        let _ = options.open(&temporary).map_err(failed)?;
        let part = held(|| options.open(&temporary), &temporary).map_err(|_| taken(file))?;
        let part = part.ok_or_else(|| failed(ErrorKind::Other.into()))?;
        let reserved = fallocate(&part, FallocateFlags::empty(), 0, len + MARGIN);
        let made = DocumentReservation {
            file: file.to_owned(),
            temporary,
            part: Some(part),
            hint: hint.clone(),
            place: None,
        };
        match reserved {
            // Where a file system cannot reserve, the write itself will tell.
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(made),
            Err(error) => Err(failed(error.into())),
        }
    }

    /// Puts `bytes` into the place, and the file that was there out of it.
    ///
    /// # Errors
    /// [`Fault::Here`] when they cannot be written.
    pub fn write(mut self, bytes: &[u8]) -> Result<(), Error> {
        let place = self.place.take();
        let new = self.put(bytes)?;
        if let Some(place) = place {
            place.held = Some(new);
        }
        Ok(())
    }

    /// The same; the new file is returned, still locked.
    fn put(mut self, bytes: &[u8]) -> Result<File, Error> {
        let failed = |error: &std::io::Error| cannot_write(&self.file, error, &self.hint);
        let Some(mut part) = self.part.take() else {
            return Err(failed(&ErrorKind::NotFound.into()));
        };
        let written = part
            .seek(SeekFrom::Start(0))
            .and_then(|_| part.write_all(bytes))
            .and_then(|()| part.set_len(bytes.len() as u64))
            .and_then(|()| part.sync_all())
            .and_then(|()| fs::rename(&self.temporary, &self.file));
        match written {
            Ok(()) => Ok(part),
            Err(error) => {
                let error = failed(&error);
                self.part = Some(part);
                Err(error)
            }
        }
    }
}

impl Drop for DocumentReservation<'_> {
    fn drop(&mut self) {
        // What is half-written helps nobody. After a rename the name may be another run's.
        if self.part.is_some() {
            let _ = fs::remove_file(&self.temporary);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("p.json");
        (folder, file)
    }

    #[test]
    fn a_document_is_one_runs_at_a_time() {
        let (_folder, file) = folder();
        fs::write(&file, "old").expect("written");
        let refused = |file: &Path| {
            let error = DocumentPlace::take(file).expect_err("another run has it");
            assert_eq!((error.fault, error.code), (Fault::Refused, ErrorCode::ProfileRunning));
        };
        let mut first = DocumentPlace::take(&file).expect("nobody has it");
        refused(&file);
        // The file that takes its place is as taken.
        let reserved = first.reserve(3).expect("space");
        refused(&file);
        reserved.write(b"new").expect("written");
        refused(&file);
        first.write(b"newer").expect("written");
        refused(&file);
        assert_eq!(fs::read_to_string(&file).expect("there"), "newer");
        drop(first);
        DocumentPlace::take(&file).expect("given back");
    }

    #[test]
    fn a_second_writer_takes_nothing_from_the_first() {
        let (_folder, file) = folder();
        let mut first = DocumentPlace::take(&file).expect("nobody has it");
        let reserved = first.reserve(3).expect("space");
        // Before there is a document at all.
        assert!(DocumentPlace::take(&file).is_err());
        assert_eq!(write(&file, b"other").expect_err("taken").fault, Fault::Refused);
        reserved.write(b"own").expect("the space is still there");
        assert_eq!(fs::read_to_string(&file).expect("there"), "own");
        drop(first);
        // What a killed run left is no obstacle.
        fs::write(temporary(&file, ".part"), "half").expect("written");
        write(&file, b"other").expect("written");
        assert_eq!(fs::read_to_string(&file).expect("there"), "other");
    }

    #[test]
    fn what_was_reserved_and_not_written_goes() {
        let (folder, file) = folder();
        drop(DocumentPlace::take(&file).expect("nobody").reserve(3).expect("space"));
        assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 0);
    }
}

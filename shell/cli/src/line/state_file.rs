//! The file that `--resume` goes on from: one process's at a time, and written whole or not at all.

use super::text_of;
use crate::output::{Output, plain};
use farline::plan::document::{place, write};
use farline_core::line::SavedTest;
use farline_core::units::{Error, ErrorCode, Fault};
use serde::Serialize;
use std::cell::Cell;
use std::fs::{self, File, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The state of a test or of a preset, held for this process until it is dropped.
///
/// The lock is of a file next to it: the state's own is another each second.
pub(super) struct StateFile {
    file: PathBuf,
    lock: PathBuf,
    /// `None` on a file system without locks.
    held: Option<File>,
    is_failing: Cell<bool>,
}

impl StateFile {
    /// Takes the state in `file` for this process.
    ///
    /// # Errors
    /// [`Fault::You`] when another process has it: the two would be one test's, and each would
    /// count what the other sends.
    pub(super) fn hold(file: &Path) -> Result<StateFile, Error> {
        let mut lock = place(file).into_os_string();
        lock.push(".lock");
        let lock = PathBuf::from(lock);
        let held = held(file, &lock)?;
        Ok(StateFile { file: file.to_owned(), lock, held, is_failing: Cell::new(false) })
    }

    /// What it has.
    ///
    /// # Errors
    /// [`Fault::You`] when that is no state.
    pub(super) fn read(&self) -> Result<SavedTest, Error> {
        SavedTest::read(&text_of(&self.file)?)
            .map_err(|error| error.while_doing(self.file.display()))
    }

    /// That a new test may have its state there.
    ///
    /// # Errors
    /// [`Fault::You`] when what is there is no state, or that of a test which is not over.
    pub(super) fn require_free(&self) -> Result<(), Error> {
        if fs::metadata(&self.file).map_or(true, |found| found.len() == 0) {
            return Ok(());
        }
        let file = self.file.display();
        let taken = |what: &str, hint: String| {
            let message = format!("{file} {what}, and is not replaced");
            Err(Error::new(Fault::You, ErrorCode::LineState, message).hint(hint))
        };
        match self.read() {
            Ok(state) if state.is_over() => Ok(()),
            Ok(_) => taken(
                "is the state of a test that is not over",
                format!(
                    "go on with it: farline line --resume {file}; or name another --state FILE"
                ),
            ),
            Err(_) => taken("is no state of a line test", "name another --state FILE".to_owned()),
        }
    }

    /// Writes it. A disk that is full is said once, and ends no test: `--resume` then goes on from
    /// what was written last.
    pub(super) fn save(&self, state: &impl Serialize, output: &Output) {
        let written = serde_json::to_vec(state)
            .map_err(|error| Error::new(Fault::Bug, ErrorCode::LineState, error.to_string()))
            .and_then(|json| write(&self.file, &json));
        let was_failing = self.is_failing.replace(written.is_err());
        if let (Err(error), false) = (written, was_failing) {
            output.remark(format_args!(
                "{error}: the test goes on, and --resume would from what was written before"
            ));
        }
    }
}

/// Says how to go on with the test, or `what` it is, whose state is in `file`, if it is anywhere.
pub(super) fn say_how_to_go_on(file: Option<&StateFile>, what: &str, output: &Output) {
    match file.map(|state| state.file.display()) {
        Some(file) => {
            output.remark(format_args!("the {what} can go on: farline line --resume {file}"));
        }
        None => output.remark(format_args!(
            "begun with --state FILE, such a {what} can go on (--resume FILE)"
        )),
    }
}

impl Drop for StateFile {
    fn drop(&mut self) {
        if self.held.is_some() {
            // A name that stays is taken again by whoever comes.
            let _ = fs::remove_file(&self.lock);
        }
    }
}

/// The lock, with this process's number in it.
fn held(file: &Path, lock: &Path) -> Result<Option<File>, Error> {
    let failed = |error: std::io::Error| {
        let message = format!("{}: {}", lock.display(), plain(&error));
        Error::new(Fault::Here, ErrorCode::CannotWrite, message)
            .hint("a lock is held next to the state: this user must be able to write there")
    };
    loop {
        let how = File::options().create(true).truncate(false).read(true).write(true).clone();
        let mut held = how.open(lock).map_err(failed)?;
        match held.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(taken(file, &mut held)),
            Err(TryLockError::Error(_)) => return Ok(None),
        }
        // Whoever had it before may have taken the name away: then others meet at another file.
        let of = |data: fs::Metadata| (data.dev(), data.ino());
        if held.metadata().map(of).ok() == fs::metadata(lock).map(of).ok() {
            let _ = held.set_len(0).and_then(|()| write!(held, "{}", std::process::id()));
            return Ok(Some(held));
        }
    }
}

fn taken(file: &Path, by: &mut File) -> Error {
    let mut process = String::new();
    let _ = by.read_to_string(&mut process);
    let who = match process.parse::<u32>() {
        Ok(process) => format!("another process ({process})"),
        Err(_) => "another process".to_owned(),
    };
    let message = format!("{}: {who} runs this test", file.display());
    Error::new(Fault::You, ErrorCode::LineState, message).hint(
        "end that one first (SIGINT), or wait for its end; a test of its own takes \
             another --state FILE",
    )
}

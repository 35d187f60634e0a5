//! Who holds a BPF control: a locked file for each, so that what a killed process left is told from what is in use.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

const FOLDER: &str = "/run/farline/cc";

/// This process's claim to a registered name; it ends with the process.
#[derive(Debug)]
pub(super) struct Record {
    path: PathBuf,
    _locked: File,
}

impl Record {
    /// Notes that this process holds `name`. `None` where the folder cannot be written: the claim only serves those who clean up.
    pub(super) fn new(name: &str) -> Option<Record> {
        DirBuilder::new().recursive(true).mode(0o755).create(FOLDER).ok()?;
        let path = PathBuf::from(FOLDER).join(name);
        let mut file = File::options().create(true).truncate(false).read(true).write(true).open(&path).ok()?;
        file.try_lock().ok()?;
        file.set_len(0).ok()?;
        file.write_all(format!("{}\n", std::process::id()).as_bytes()).ok()?;
        Some(Record { path, _locked: file })
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        // A file that stays is unlocked, and then says the same.
        let _ = fs::remove_file(&self.path);
    }
}

/// The process that holds `name`, if one does.
pub(super) fn holder(name: &str) -> Option<u32> {
    let mut file = File::options().read(true).write(true).open(PathBuf::from(FOLDER).join(name)).ok()?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            file.read_to_string(&mut text).ok()?;
            text.trim().parse().ok()
        }
        Ok(()) | Err(TryLockError::Error(_)) => None,
    }
}

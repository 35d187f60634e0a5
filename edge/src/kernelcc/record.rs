//! Who holds a BPF control, and who reads its trace: a locked file for each, so that what a killed
//! process left is told from what is in use.

use crate::run_dir;
use farline_core::congestion::ControlName;
use std::fs::{self, File, Permissions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the holders' records are, a file for each registered name.
pub(super) fn holders() -> PathBuf {
    run_dir::machine().join("cc")
}

/// And those of the readers of traces.
pub(super) fn readers() -> PathBuf {
    run_dir::machine().join("cc-trace")
}

/// Somebody who only looks has a record locked for a moment; whoever has it longer has it for good.
const MOMENT: Duration = Duration::from_millis(10);
const MOMENTS: u32 = 20;

/// This process's claim to a registered name; it ends with the process.
#[derive(Debug)]
pub(super) struct Record {
    path: PathBuf,
    _locked: File,
}

/// What is known of a claim to a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// There is no record.
    Nobody,
    /// Its process is gone: the record is not locked.
    Left,
    /// By a living process.
    Living(Entry),
    /// The record may not be looked at: there may be one.
    Unknown,
}

/// What a living process says of its claim, as far as this one may read it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// Its number.
    pub(super) process: Option<u32>,
    /// That of the ring buffer that traces the flows.
    pub(super) ring: Option<u32>,
    /// Whether others may use what it holds: without that it goes with a transfer.
    pub(super) offered: bool,
}

impl Record {
    /// Notes in `folder` that this process claims `name`, by which `ring` its flows are traced, and
    /// whether it is `offered` to others.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] when a living process has claimed it; others when the folder
    /// cannot be written.
    pub(super) fn new(
        folder: &Path,
        name: ControlName,
        ring: Option<u32>,
        offered: bool,
    ) -> io::Result<Record> {
        // Everybody's `cc ls` says who holds what.
        run_dir::make_shared(folder)?;
        let path = folder.join(name.as_str());
        let mut file =
            lock(&path, File::options().create(true).truncate(false).read(true).write(true))?;
        // Another user's is not ours to change; it is as good.
        let _ = file.set_permissions(Permissions::from_mode(0o644));
        file.set_len(0)?;
        let ring = ring.map_or_else(String::new, |ring| format!(" ring={ring}"));
        let offered = if offered { " offered" } else { "" };
        file.write_all(format!("{}{ring}{offered}\n", std::process::id()).as_bytes())?;
        Ok(Record { path, _locked: file })
    }

    /// Takes over the record of `name` that a process which is gone left, to remove what else it
    /// left; the record goes when this is dropped. `None` while the process lives, without a
    /// record, and where it is not ours to remove.
    pub(super) fn left(folder: &Path, name: ControlName) -> Option<Record> {
        let path = folder.join(name.as_str());
        let file = lock(&path, File::options().read(true).write(true)).ok()?;
        Some(Record { path, _locked: file })
    }

    /// Leaves the record where it is.
    pub(super) fn keep(mut self) {
        self.path = PathBuf::new();
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        // A file that stays is unlocked, and then says the same.
        let _ = fs::remove_file(&self.path);
    }
}

/// Opens and locks a file that is still at `path` when it is locked: who removes one has it locked.
fn lock(path: &Path, how: &fs::OpenOptions) -> io::Result<File> {
    let mut moments = 0;
    loop {
        let file = how.open(path)?;
        match file.try_lock() {
            Ok(()) if fs::metadata(path).is_ok_and(|there| is_same(&there, &file)) => {
                return Ok(file);
            }
            Ok(()) => {}
            Err(TryLockError::WouldBlock) if moments >= MOMENTS => {
                return Err(ErrorKind::WouldBlock.into());
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(MOMENT),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        moments += 1;
    }
}

fn is_same(there: &fs::Metadata, file: &File) -> bool {
    file.metadata().is_ok_and(|open| (open.dev(), open.ino()) == (there.dev(), there.ino()))
}

/// What is known in `folder` of who claims `name`.
pub(super) fn claim(folder: &Path, name: ControlName) -> Claim {
    let mut file = match File::open(folder.join(name.as_str())) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Claim::Nobody,
        Err(_) => return Claim::Unknown,
    };
    if file.try_lock_shared().is_ok() {
        return Claim::Left;
    }
    let mut text = String::new();
    // What cannot be read is not known.
    let _ = file.read_to_string(&mut text);
    let words = || text.split_whitespace();
    Claim::Living(Entry {
        process: words().next().and_then(|word| word.parse().ok()),
        ring: words().find_map(|word| word.strip_prefix("ring=")?.parse().ok()),
        offered: words().any(|word| word == "offered"),
    })
}

/// The names in `folder` of which there is a record.
pub(super) fn names(folder: &Path) -> Vec<ControlName> {
    let items = fs::read_dir(folder).into_iter().flatten().flatten();
    items.filter_map(|item| item.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use farline_core::congestion::Algorithm;

    #[test]
    fn a_claim_lives_with_its_record_and_any_reader_sees_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().join("cc");
        let folder = folder.as_path();
        let htcp = ControlName::from(Algorithm::HTcp);
        assert_eq!(claim(folder, htcp), Claim::Nobody);
        let record = Record::new(folder, htcp, Some(7), true).expect("the folder is ours");
        let ours = Claim::Living(Entry {
            process: Some(std::process::id()),
            ring: Some(7),
            offered: true,
        });
        assert_eq!(claim(folder, htcp), ours);
        assert_eq!(
            Record::new(folder, htcp, None, false).expect_err("it is claimed").kind(),
            ErrorKind::WouldBlock
        );
        assert!(Record::left(folder, htcp).is_none(), "a living process's is not to be removed");
        let mode = fs::metadata(folder.join("htcp")).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o644, "everybody may ask");
        // As after a kill: the file stays, and nobody has it locked.
        record.keep();
        assert_eq!((claim(folder, htcp), names(folder)), (Claim::Left, vec![htcp]));
        drop(Record::left(folder, htcp).expect("nobody has it"));
        assert_eq!((claim(folder, htcp), names(folder).len()), (Claim::Nobody, 0));
        // A folder that is none is no claim, and of what may not be looked at nothing is known.
        assert!(Record::new(&folder.join("none\0"), htcp, None, false).is_err());
        assert_eq!(claim(&folder.join("none\0"), htcp), Claim::Unknown);
    }
}

//! Where running links are recorded: one folder for each user, in it a state file, a lock and a
//! socket for each link.
//!
//! The emulator holds the lock as long as it lives, so a link whose lock is free has no emulator,
//! however it ended.

use super::Info;
use super::failure::{here, you};
use crate::run_dir;
use farline_core::units::{Error, ErrorCode, Setting};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// The folder of this user's links.
fn folder() -> PathBuf {
    run_dir::own().join("link")
}

/// Makes the folder, open to its owner alone.
pub(super) fn make_folder() -> Result<(), Error> {
    let folder = folder();
    run_dir::make_private(&folder).map_err(|error| {
        here(ErrorCode::LinkFolder, format!("making {}: {error}", folder.display()))
            .hint("set FARLINE_RUN_DIR, or XDG_RUNTIME_DIR, to a folder of yours")
    })
}

/// The path of a link's file with the given ending.
pub(super) fn file(name: &str, ending: &str) -> PathBuf {
    folder().join(format!("{name}.{ending}"))
}

/// Refuses a name that is not fit for a namespace, a host and a file.
pub(super) fn check_name(name: &str) -> Result<(), Error> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if name.is_empty() || name.len() > 40 || name.starts_with(['.', '-']) || !name.chars().all(fits)
    {
        return Err(you(ErrorCode::LinkName, format!("`{name}` cannot be the name of a link"))
            .hint(format!(
                "up to 40 letters, digits, `.`, `-` and `_`, for example {} lab1",
                Setting::Name
            )));
    }
    Ok(())
}

/// The lock of a link; free again when dropped.
#[derive(Debug)]
pub(super) struct Lock(#[expect(dead_code, reason = "held for its lock")] File);

/// Takes the lock of link `name`, or returns `None` when somebody holds it: its emulator, or a
/// command about it.
pub(super) fn lock(name: &str) -> Result<Option<Lock>, Error> {
    let path = file(name, "lock");
    loop {
        let open = File::options().create(true).truncate(false).write(true).open(&path);
        let failed =
            |error| here(ErrorCode::LinkLock, format!("locking {}: {error}", path.display()));
        let file = open.map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(failed(error.into())),
        }
        // Who removed the link meanwhile removed the file too: then the lock is on nothing.
        let locked = file.metadata().map_err(failed)?.ino();
        if fs::metadata(&path).is_ok_and(|metadata| metadata.ino() == locked) {
            return Ok(Some(Lock(file)));
        }
    }
}

/// Reads the record of link `name`.
pub(super) fn read(name: &str) -> Option<Info> {
    serde_json::from_slice(&fs::read(file(name, "json")).ok()?).ok()
}

/// Writes the record of a link, whole or not at all.
pub(super) fn write(info: &Info) -> Result<(), Error> {
    let (path, new) = (file(&info.name, "json"), file(&info.name, "new"));
    let text = serde_json::to_vec_pretty(info)
        .map_err(|error| here(ErrorCode::LinkState, error.to_string()))?;
    fs::write(&new, text)
        .and_then(|()| fs::rename(&new, &path))
        .map_err(|error| here(ErrorCode::LinkState, format!("writing {}: {error}", path.display())))
}

/// Removes every file of link `name`; the caller holds its lock.
pub(super) fn remove(name: &str) {
    for ending in ["json", "sock", "new", "log", "lock"] {
        let _ = fs::remove_file(file(name, ending));
    }
}

/// The names of all recorded links, sorted.
pub(super) fn names() -> Vec<String> {
    names_of("json")
}

/// The names of all files with the given ending, without it, sorted.
pub(super) fn names_of(ending: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder()) else { return Vec::new() };
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| {
            entry.file_name().to_str()?.strip_suffix(ending)?.strip_suffix('.').map(str::to_owned)
        })
        .collect();
    names.sort();
    names
}

//! Arranges where a copy keeps what it replaces and deletes (`--backup`): here, and at a node.

use super::backup::Backup;
use super::control::Control;
use super::location::{Location, Remote, trim};
use crate::stores::{BackupPlace, Root, folders_above, join, storage_error};
use farline_core::copy::farline_option;
use farline_core::gridftp::client::Request;
use farline_core::gridftp::{Command, Pathname};
use farline_core::units::{Error, ErrorCode, Fault, Setting};
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;

/// Folders looked at with one write.
const LOOKED_AT_ONCE: usize = 100;

/// The place of backups of a copy into `root`, a folder of this host.
pub(super) fn place_here(
    backup: Option<&Backup>,
    root: &Arc<Root>,
) -> Result<Option<BackupPlace>, Error> {
    let Some(backup) = backup else { return Ok(None) };
    let suffix = backup.suffix().to_vec();
    let Some(folder) = backup.folder() else { return Ok(Some(BackupPlace::same_folder(suffix))) };
    let path = root.path().join(OsStr::from_bytes(folder));
    std::fs::create_dir_all(&path)
        .map_err(|error| storage_error("create directory", path.as_os_str().as_bytes(), &error))?;
    let kept = (Arc::new(Root::open(&path)?), Vec::new());
    BackupPlace::in_folder(suffix, kept, Vec::new(), root).map(Some)
}

/// The folder of backups of a copy into `root`, if there is one, by the path that it has of its
/// own: it may have been written as another that leads there.
pub(super) fn found_here(backup: &Backup, root: &Root) -> Option<Backup> {
    let path = root.path().join(OsStr::from_bytes(backup.folder()?)).canonicalize().ok()?;
    Some(backup.in_folder(path.into_os_string().into_vec()))
}

/// Which of `folders` below `top` of a node is the folder of backups, where it was written as
/// another path that leads there.
///
/// # Errors
/// When the connection is lost.
pub(super) async fn found_there(
    backup: &Backup,
    control: &mut Control,
    top: &[u8],
    folders: &[&[u8]],
) -> Result<Option<Backup>, Error> {
    let Some(folder) = backup.folder_there(top) else { return Ok(None) };
    if folders.iter().any(|path| join(trim(top), path) == folder) {
        return Ok(None);
    }
    let look = control.try_request(Request::Stat(Pathname::new(folder)));
    let Some(wanted) = unique(control, look).await? else { return Ok(None) };
    for part in folders.chunks(LOOKED_AT_ONCE) {
        let look =
            |path: &&[u8]| control.try_request(Request::Stat(Pathname::new(join(trim(top), path))));
        let looks: Vec<u64> = part.iter().map(look).collect();
        let mut found = None;
        for (path, look) in part.iter().zip(looks) {
            if unique(control, look).await?.as_ref() == Some(&wanted) {
                found = Some(backup.in_folder(path.to_vec()));
            }
        }
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// What tells the file that was looked at from all others, if it is there and somebody says.
async fn unique(control: &mut Control, look: u64) -> Result<Option<String>, Error> {
    match control.looked(look).await {
        Err(error) if error.fault == Fault::Between => Err(error),
        found => Ok(found.ok().flatten().and_then(|found| found.unique)),
    }
}

/// Has `control`'s node keep what it replaces of `destination`, a folder there, before anything
/// moves.
///
/// # Errors
/// When it is no Farline node, or one that cannot.
pub(super) async fn arrange(
    backup: Option<&Backup>,
    control: &mut Control,
    to: &Remote,
    destination: &[u8],
) -> Result<(), Error> {
    let Some(backup) = backup else { return Ok(()) };
    if !control.features().backup {
        let message = format!(
            "{}: {to}: only a Farline node of this version keeps what it replaces without a \
            moment in which neither is there",
            Setting::Backup
        );
        return Err(Error::new(Fault::There, ErrorCode::Unsupported, message));
    }
    let id = control.request(farline_option("backup", &backup.told(destination)));
    control
        .done(id)
        .await
        .map_err(|error| error.while_doing("having the node keep what is replaced"))?;
    Ok(())
}

/// The folder that something at `path` of a server lies in.
pub(super) fn folder_of(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(0) => b"/",
        Some(slash) => &path[..slash],
        None => b"",
    }
}

/// Refuses what no destination keeps backups of.
///
/// # Errors
/// When the destination is a pipe or a store without files.
pub(super) fn require(backup: Option<&Backup>, destination: &Location) -> Result<(), Error> {
    let has_files = match destination {
        Location::Local(_) => true,
        Location::Remote(remote) => remote.store.is_none(),
        Location::Standard | Location::Store(_) => false,
    };
    if has_files || backup.is_none() {
        return Ok(());
    }
    let message = format!("{}: {destination} has no files to keep", Setting::Backup);
    Err(Error::new(Fault::You, ErrorCode::Unsupported, message))
}

/// Moves the file at `path` below `top` of a node to where its backups are.
pub(super) async fn take_away_there(
    backup: &Backup,
    control: &mut Control,
    top: &[u8],
    path: &[u8],
) -> Result<(), Error> {
    let from = join(trim(top), path);
    let to = match backup.folder_there(top) {
        None => [&from[..], backup.suffix()].concat(),
        Some(folder) => {
            let kept = join(&folder, &[path, backup.suffix()].concat());
            for above in folders_above(&kept).filter(|above| !above.is_empty()) {
                let make = Command::MakeDirectory(Pathname::new(above));
                let id = control.try_request(Request::Exec(make));
                // It is there, most often; what else is wrong the rename says.
                let _ = control.done(id).await;
            }
            kept
        }
    };
    let rename = Request::Rename { from: Pathname::new(from), to: Pathname::new(to) };
    let id = control.try_request(rename);
    control.done(id).await.map(drop)
}

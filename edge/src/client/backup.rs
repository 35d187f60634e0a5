//! `--backup`: where a copy keeps what it replaces and deletes, told to who stores.

use super::control::Control;
use super::location::{Location, Remote, trim};
use super::options::Options;
use crate::stores::{BackupPlace, Root, folders_above, join, storage_error};
use farline_core::copy::farline_option;
use farline_core::gridftp::client::Request;
use farline_core::gridftp::{Command, Pathname};
use farline_core::units::{Error, ErrorCode, Fault, percent};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// How what a copy replaces or deletes is kept (`--backup`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    suffix: Vec<u8>,
    folder: Option<Vec<u8>>,
}

impl Backup {
    /// Under its name and `suffix`; in `folder`, by its path below the destination, or next to what
    /// replaces it. A relative `folder` is below the destination.
    ///
    /// # Errors
    /// When that is no name of its own.
    pub fn new(suffix: Vec<u8>, folder: Option<Vec<u8>>) -> Result<Backup, Error> {
        let wrong = |message: &str| Err(Error::new(Fault::You, ErrorCode::Usage, message));
        if suffix.iter().any(|byte| matches!(byte, b'/' | 0)) {
            return wrong("the suffix of backups is part of a name, without a slash");
        }
        if suffix.is_empty() && folder.is_none() {
            return wrong("backups need a suffix, or a directory of their own");
        }
        if folder.as_ref().is_some_and(Vec::is_empty) {
            return wrong("the directory of backups has no name");
        }
        Ok(Backup { suffix, folder })
    }

    /// Whether what is at `path` below the destination `top` is a backup, which no one misses at the
    /// source, or a folder of such.
    pub(super) fn owns(&self, top: &[u8], path: &[u8]) -> bool {
        let Some(folder) = self.folder_there(top) else { return path.ends_with(&self.suffix) };
        let (folder, path) = (trim(&folder), join(trim(top), path));
        path == folder || folders_above(&path).any(|above| above == folder)
    }

    /// Whether each is next to what replaced it.
    pub(super) fn is_beside(&self) -> bool {
        self.folder.is_none()
    }

    /// The folder that it all goes to at a server, where what is copied goes into `destination`.
    fn folder_there(&self, destination: &[u8]) -> Option<Vec<u8>> {
        let folder = self.folder.as_ref()?;
        let is_absolute = folder.starts_with(b"/");
        Some(if is_absolute { folder.clone() } else { join(trim(destination), folder) })
    }
}

/// The place of backups of a copy into `root`, a folder of this host.
pub(super) fn place_here(
    options: &Options,
    root: &Arc<Root>,
) -> Result<Option<BackupPlace>, Error> {
    let Some(Backup { suffix, folder }) = &options.backup else { return Ok(None) };
    let Some(folder) = folder else { return Ok(Some(BackupPlace::beside(suffix.clone()))) };
    let path = root.path().join(OsStr::from_bytes(folder));
    std::fs::create_dir_all(&path)
        .map_err(|error| storage_error("create directory", path.as_os_str().as_bytes(), &error))?;
    let kept = (Arc::new(Root::open(&path)?), Vec::new());
    BackupPlace::in_folder(suffix.clone(), kept, Vec::new(), root).map(Some)
}

/// Has `control`'s node keep what it replaces of `destination`, a folder there, before anything
/// moves.
///
/// # Errors
/// When it is no Farline node, or one that cannot.
pub(super) async fn arrange(
    options: &Options,
    control: &mut Control,
    to: &Remote,
    destination: &[u8],
) -> Result<(), Error> {
    let Some(backup) = &options.backup else { return Ok(()) };
    if !control.features().backup {
        let message = format!(
            "--backup: {to}: only a Farline node of this version keeps what it replaces without a \
            moment in which neither is there"
        );
        return Err(Error::new(Fault::There, ErrorCode::Unsupported, message));
    }
    let folder = backup.folder_there(destination);
    let id = control.request(farline_option("backup", &told(&backup.suffix, folder.as_deref())));
    control.done(id).await.map_err(|error| error.while_doing("--backup"))?;
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

/// The option's value (`docs/protocol.md`, R-13).
fn told(suffix: &[u8], folder: Option<&[u8]>) -> String {
    let plain = |byte: u8| byte.is_ascii_graphic() && !b";:=".contains(&byte);
    let mut value = Vec::new();
    percent::encode(suffix, plain, &mut value);
    value.push(b':');
    percent::encode(folder.unwrap_or_default(), plain, &mut value);
    String::from_utf8_lossy(&value).into_owned()
}

/// Refuses what no destination keeps backups of.
///
/// # Errors
/// When the destination is a pipe or a store without files.
pub(super) fn require(options: &Options, destination: &Location) -> Result<(), Error> {
    let has_files = match destination {
        Location::Local(_) => true,
        Location::Remote(remote) => remote.store.is_none(),
        Location::Standard | Location::Diskless(_) => false,
    };
    if has_files || options.backup.is_none() {
        return Ok(());
    }
    let message = format!("--backup: {destination} has no files to keep");
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
        None => [&from[..], &backup.suffix].concat(),
        Some(folder) => {
            let kept = join(&folder, &[path, &backup.suffix].concat());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_name_is_refused() {
        let new = |suffix: &str, folder: Option<&str>| {
            Backup::new(suffix.into(), folder.map(|folder| folder.as_bytes().to_vec()))
        };
        for (suffix, folder) in [("", None), ("a/b", None), ("", Some("")), ("/", Some("old"))] {
            assert!(new(suffix, folder).is_err(), "{suffix} {folder:?}");
        }
        let beside = new("~", None).expect("a suffix");
        assert!(beside.owns(b"/dst", b"a/b~") && !beside.owns(b"/dst", b"a/b"));
        let apart = new("", Some("old/")).expect("a folder");
        let owns = |path: &str| apart.owns(b"/dst", path.as_bytes());
        assert!(owns("old") && owns("old/x/y") && !owns("older"));
        let absolute = new("", Some("/dst/old")).expect("a folder");
        assert!(absolute.owns(b"/dst", b"old/x") && !absolute.owns(b"/other", b"old/x"));
        assert_eq!(apart.folder_there(b"/dst/"), Some(b"/dst/old/".to_vec()));
        assert_eq!(told(b";~", Some(b"/a b")), "%3B~:/a%20b");
    }
}

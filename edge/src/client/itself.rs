//! A copy onto its own source, or into it: refused before anything is made or moved.
//!
//! Two names are one file where device and inode number are the same. A node says both (the fact
//! `Unique` of RFC 3659), and whether its kernel is this host's (`docs/protocol.md`, A-3).

use super::control::Control;
use super::location::{Location, trim};
use crate::stores::join;
use crate::sys::host::kernel_id;
use farline_core::gridftp::client::Request;
use farline_core::gridftp::{ListingEntry, ListingKind, Pathname};
use farline_core::units::Setting::Delete;
use farline_core::units::{Error, ErrorCode, Fault};
use std::fmt::Display;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file or folder, as its kernel knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Identity {
    unique: String,
    is_folder: bool,
}

impl Identity {
    /// Of what is at `path` of this host; nothing where nothing is.
    fn here(path: &Path) -> Option<Identity> {
        let meta = std::fs::metadata(path).ok()?;
        // As a node says it.
        let unique = format!("{:x}-{:x}", meta.dev(), meta.ino());
        Some(Identity { unique, is_folder: meta.is_dir() })
    }

    /// Asks a node what is at each of these paths.
    fn ask(control: &mut Control, paths: Vec<Vec<u8>>) -> Vec<u64> {
        let look = |path: Vec<u8>| control.request(Request::Stat(Pathname::new(path)));
        paths.into_iter().map(look).collect()
    }

    /// What the node says to that.
    async fn told(control: &mut Control, looks: Vec<u64>) -> Vec<Option<Identity>> {
        let mut found = Vec::new();
        for look in looks {
            // What may not be looked at says so when it is copied.
            let entry = control.looked(look).await.ok().flatten();
            found.push(entry.and_then(|entry| {
                let is_folder = entry.kind == ListingKind::Directory;
                entry.unique.map(|unique| Identity { unique, is_folder })
            }));
        }
        found
    }

    /// Both.
    async fn there(control: &mut Control, paths: Vec<Vec<u8>>) -> Vec<Option<Identity>> {
        let looks = Identity::ask(control, paths);
        Identity::told(control, looks).await
    }

    /// Refuses to copy it from `from` to `to`, where these things are: the target first, then the
    /// folders above it.
    ///
    /// # Errors
    /// When it is one of them.
    fn refuse(
        &self,
        from: &dyn Display,
        to: &dyn Display,
        targets: &[Option<Identity>],
    ) -> Result<(), Error> {
        let is_self = |target: &Option<Identity>| target.as_ref() == Some(self);
        let message = match targets.iter().position(is_self) {
            Some(0) => format!("{from} and {to} are the same"),
            Some(_) if self.is_folder => format!("{to} lies inside {from}"),
            _ => return Ok(()),
        };
        Err(Error::new(Fault::You, ErrorCode::IntoItself, message)
            .hint("nothing was copied; name another destination"))
    }
}

/// Refuses a copy from `from` to `to` within this host.
///
/// # Errors
/// When they are one, or the destination lies in the source.
pub(super) fn refuse_here(from: &Path, to: &Path, target: &Path) -> Result<(), Error> {
    let Some(source) = Identity::here(from) else { return Ok(()) };
    source.refuse(&from.display(), &to.display(), &above(target))
}

/// `target` and the folders above it, of which not all need be there.
fn above(target: &Path) -> Vec<Option<Identity>> {
    let here = |path: &Path| match path.as_os_str().is_empty() {
        true => Path::new(".").canonicalize().ok(),
        false => path.canonicalize().ok(),
    };
    // Below a link it lies elsewhere than its name says.
    let real = target.ancestors().find_map(here);
    let real = real.iter().flat_map(|real| real.ancestors()).map(Identity::here);
    std::iter::once(Identity::here(target)).chain(real).collect()
}

/// Where something called `name` goes on this host, where a copy's destination is `to`.
pub(super) fn target_here(to: &Path, name: &[u8], inside: bool, contents: bool) -> PathBuf {
    let inside = inside || to.as_os_str().as_bytes().ends_with(b"/") || to.is_dir();
    if inside && !contents { to.join(std::ffi::OsStr::from_bytes(name)) } else { to.to_owned() }
}

/// A node's path, and the folders above it.
fn above_there(target: &[u8]) -> Vec<Vec<u8>> {
    let mut path = trim(target);
    let mut all = vec![path.to_vec()];
    while let Some(slash) = path.iter().rposition(|&byte| byte == b'/').filter(|_| path != b"/") {
        path = if slash == 0 { b"/" } else { &path[..slash] };
        all.push(path.to_vec());
    }
    all
}

/// More questions than this do not go ahead: most nodes are of another host, and these are for
/// nothing there.
const MOST_AHEAD: usize = 32;

/// The same questions, of few things, that go to a node with the login: whether it is of this host
/// is known with the replies, which would otherwise cost a round trip of their own.
#[derive(Default)]
pub(super) struct LooksAhead(Vec<(PathBuf, Vec<Vec<u8>>)>);

impl LooksAhead {
    /// What [`LooksThere::begin`] would ask.
    pub(super) fn new(sources: &[(PathBuf, Vec<u8>)], target: &[u8]) -> LooksAhead {
        let paths = |name: &[u8]| above_there(&join(trim(target), name));
        let all: Vec<_> = sources.iter().map(|(path, name)| (path.clone(), paths(name))).collect();
        let count: usize = all.iter().map(|(_, paths)| paths.len()).sum();
        if count > MOST_AHEAD { LooksAhead::default() } else { LooksAhead(all) }
    }

    /// The questions, in their order.
    pub(super) fn requests(&self) -> impl Iterator<Item = Request> {
        self.0.iter().flat_map(|(_, paths)| paths).cloned().map(Pathname::new).map(Request::Stat)
    }

    /// They were asked of `control` by these numbers, if at all.
    pub(super) fn asked(self, control: &Control, asked: &[u64]) -> Option<LooksThere> {
        let count: usize = self.0.iter().map(|(_, paths)| paths.len()).sum();
        if count == 0 || asked.len() != count {
            return None;
        }
        let mut asked = asked.iter().copied();
        let is_here = control.is_of_this_host();
        let looks = self.0.into_iter().filter_map(|(path, paths)| {
            let looks = asked.by_ref().take(paths.len()).collect();
            Some((Identity::here(&path)?, path, looks)).filter(|_| is_here)
        });
        Some(LooksThere(looks.map(|(source, path, looks)| (path, source, looks)).collect()))
    }
}

/// Questions to a node that is of this host too, whose answers come while the copy's beginning goes
/// on.
pub(super) struct LooksThere(Vec<(PathBuf, Identity, Vec<u64>)>);

impl LooksThere {
    /// Asks what is where `sources`, of this host, would go below `target`; nothing of a node of
    /// another host.
    pub(super) fn begin(
        control: &mut Control,
        sources: Vec<(PathBuf, Vec<u8>)>,
        target: &[u8],
    ) -> LooksThere {
        let is_here = control.is_of_this_host();
        let look = |(path, name): (PathBuf, Vec<u8>)| {
            let source = Identity::here(&path)?;
            let looks = Identity::ask(control, above_there(&join(trim(target), &name)));
            Some((path, source, looks))
        };
        LooksThere(sources.into_iter().filter(|_| is_here).filter_map(look).collect())
    }

    /// The same where nothing goes by its name below `target`, but in its place.
    pub(super) fn without_names(self) -> LooksThere {
        let looks = self.0.into_iter().map(|(path, source, mut looks)| {
            looks.remove(0);
            (path, source, looks)
        });
        LooksThere(looks.collect())
    }

    /// Refuses to store at `to` what is itself what it would replace, or lies around it.
    ///
    /// # Errors
    /// When something is.
    pub(super) async fn refuse(
        &mut self,
        control: &mut Control,
        to: &dyn Display,
    ) -> Result<(), Error> {
        for (path, source, looks) in self.0.drain(..) {
            let targets = Identity::told(control, looks).await;
            source.refuse(&path.display(), to, &targets)?;
        }
        Ok(())
    }
}

/// Refuses to fetch what is at `from` of a node that is of this host too to `to`.
///
/// # Errors
/// When it is what it would replace, or lies around it.
pub(super) async fn refuse_back(
    control: &mut Control,
    (from, path): (&dyn Display, &[u8]),
    (to, name, several, contents): (&Path, &[u8], bool, bool),
) -> Result<(), Error> {
    if !control.is_of_this_host() {
        return Ok(());
    }
    let source = Identity::there(control, vec![path.to_vec()]).await;
    source.iter().flatten().try_for_each(|source| {
        let is_folder = source.is_folder;
        let target = target_here(to, name, is_folder || several, is_folder && contents);
        source.refuse(from, &to.display(), &above(&target))
    })
}

/// Refuses to copy what is at `path` of a node to `target` of another, or the same, on its host.
///
/// # Errors
/// When it is what it would replace, or lies around it.
pub(super) async fn refuse_elsewhere(
    (sender, from, path): (&mut Control, &dyn Display, &[u8]),
    (receiver, to, target): (&mut Control, &dyn Display, &[u8]),
) -> Result<(), Error> {
    let host = sender.features().host.clone();
    if host.is_none() || host != receiver.features().host {
        return Ok(());
    }
    let source = Identity::there(sender, vec![path.to_vec()]).await;
    let targets = Identity::there(receiver, above_there(target)).await;
    source.iter().flatten().try_for_each(|source| source.refuse(from, to, &targets))
}

/// A folder that is synced from or to: it, the folders above it, and its host, where that is known.
struct FolderLocation {
    host: Option<String>,
    above: Vec<Option<Identity>>,
}

impl FolderLocation {
    async fn of(place: &Location, control: Option<&mut Control>) -> Option<FolderLocation> {
        match (place, control) {
            (Location::Local(path), _) => {
                Some(FolderLocation { host: kernel_id(), above: above(path) })
            }
            (Location::Remote(remote), Some(control)) => {
                let host = control.features().host.clone();
                let above = Identity::there(control, above_there(&remote.path)).await;
                Some(FolderLocation { host, above })
            }
            _ => None,
        }
    }
}

/// Refuses to sync `from` to `to`, of which all is deleted that `from` does not have, where `from`
/// lies in it. Each comes with the session in which its server, if it has one, is asked.
///
/// # Errors
/// When it does.
pub(super) async fn refuse_deleted(
    (from, sender): (&Location, Option<&mut Control>),
    (to, mut receiver): (&Location, Option<&mut Control>),
) -> Result<(), Error> {
    let source = FolderLocation::of(from, sender).await;
    let target = FolderLocation::of(to, receiver.as_deref_mut()).await;
    let (Some(source), Some(target)) = (source, target) else { return Ok(()) };
    let (Some(Some(own)), Some(Some(folder))) = (source.above.first(), target.above.first()) else {
        return Ok(());
    };
    // That both are one the copy itself says.
    if source.host.is_none() || source.host != target.host || own == folder {
        return Ok(());
    }
    let is_inside = source.above.contains(&Some(folder.clone()))
        || match (from, to, receiver) {
            // A node says nothing of what is above the folder that it serves.
            (Location::Remote(_), Location::Local(to), _) => holds(to, own),
            (Location::Remote(_), Location::Remote(to), Some(receiver)) => {
                holds_there(receiver, &to.path, own).await
            }
            _ => false,
        };
    if !is_inside {
        return Ok(());
    }
    let message = format!("{from} lies inside {to}, and {Delete} would delete it there");
    Err(Error::new(Fault::You, ErrorCode::IntoItself, message)
        .hint(format!("nothing was copied; name another destination, or leave {Delete} out")))
}

/// Whether `folder` of this host holds `wanted`, at any depth. Links are not followed, and what
/// cannot be listed would not be deleted either.
fn holds(folder: &Path, wanted: &Identity) -> bool {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let listed = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        for entry in listed.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            if Identity::here(&entry.path()).as_ref() == Some(wanted) {
                return true;
            }
            folders.push(entry.path());
        }
    }
    false
}

/// The same of a node's folder.
async fn holds_there(control: &mut Control, folder: &[u8], wanted: &Identity) -> bool {
    let mut folders = vec![trim(folder).to_vec()];
    while let Some(folder) = folders.pop() {
        let listed = control.list(&folder).await.unwrap_or_default();
        let is_folder =
            |entry: &ListingEntry| entry.kind == ListingKind::Directory && entry.link.is_none();
        for entry in listed.into_iter().filter(is_folder) {
            if entry.unique.as_ref() == Some(&wanted.unique) {
                return true;
            }
            folders.push(join(&folder, entry.name.name()));
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folders_above_a_nodes_path_end_at_its_root() {
        let said = |path: &[u8]| {
            let text = |path: &Vec<u8>| String::from_utf8_lossy(path).into_owned();
            above_there(path).iter().map(text).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(said(b"/a/b/c/"), "/a/b/c /a/b /a /");
        assert_eq!(said(b"a/b"), "a/b a");
        assert_eq!(said(b"/"), "/");
    }

    #[test]
    fn a_folder_is_refused_around_and_a_file_only_as_itself() {
        let dir = tempfile::tempdir().expect("a folder");
        let (folder, file) = (dir.path().join("t"), dir.path().join("f"));
        std::fs::create_dir(&folder).expect("made");
        std::fs::write(&file, "x").expect("written");
        std::fs::hard_link(&file, dir.path().join("hard")).expect("linked");
        let refused = |from: &Path, to: PathBuf| refuse_here(from, &to, &to).is_err();
        assert!(refused(&folder, folder.clone()) && refused(&folder, folder.join("a/b")));
        assert!(
            refused(&file, dir.path().join("hard")) && refused(&file, dir.path().join("t/../f"))
        );
        assert!(!refused(&folder, dir.path().join("u/t")) && !refused(&file, folder.join("f")));
    }
}

//! Wildcards in the paths of remote sources: `host:/data/run*/x[0-9].h5`.
//!
//! They are held against the server's listings here, folder by folder; nothing of them reaches a
//! shell at the other end. A path that exists as it is written means itself.

use super::control::Control;
use super::copy::Copy;
use super::listing;
use super::location::{Location, Remote};
use super::options::Options;
use crate::stores::join;
use farline_core::filter::NameGlob;
use farline_core::gridftp::client::Request;
use farline_core::gridftp::{ListingKind, Pathname};
use farline_core::units::{Error, ErrorCode, Fault};
use std::collections::BTreeMap;

/// What `sources` stand for: what is in one folder is one source where the server and the way to
/// `destination` allow it. A folder that only wildcards name, in a copy of files, is a failure of
/// its own and costs the others nothing.
///
/// # Errors
/// When wildcards match nothing, or a server cannot be asked.
pub(super) async fn expand(
    copy: &mut Copy<'_>,
    sources: &[Location],
    destination: &Location,
) -> Result<Vec<Location>, Error> {
    let Options { dry_run, most_deleted, selection, .. } = copy.options;
    // A list of files names what is below each source.
    let is_one_tree = matches!(destination, Location::Local(_))
        && !dry_run
        && most_deleted.is_none()
        && !selection.names_files();
    let mut expanded = Vec::new();
    for source in sources {
        match source {
            Location::Remote(remote) if remote.store.is_none() && is_wild(&remote.path) => {
                let found = matching(copy, remote, is_one_tree).await?;
                expanded.extend(found.into_iter().map(Location::Remote));
            }
            other => expanded.push(other.clone()),
        }
    }
    Ok(expanded)
}

/// Whether some part of `path` has wildcards that make sense.
fn is_wild(path: &[u8]) -> bool {
    path.split(|&byte| byte == b'/').any(|part| NameGlob::parse(part).is_some())
}

/// What matches `remote`; where it may be, all of a folder at once.
async fn matching(
    copy: &mut Copy<'_>,
    remote: &Remote,
    is_one_tree: bool,
) -> Result<Vec<Remote>, Error> {
    let look = Request::Stat(Pathname::new(remote.path.clone()));
    let (mut control, ids) = copy.session_with(remote, vec![look]).await?;
    if control.looked(ids[0]).await.is_ok_and(|found| found.is_some()) {
        copy.park(remote, control);
        return Ok(vec![remote.clone()]);
    }
    let parts: Vec<&[u8]> =
        remote.path.split(|&byte| byte == b'/').filter(|part| !part.is_empty()).collect();
    let (wants_folders, is_absolute) = (remote.path.ends_with(b"/"), remote.path.starts_with(b"/"));
    let mut found = vec![(if is_absolute { b"/".to_vec() } else { Vec::new() }, true)];
    for (index, part) in parts.iter().enumerate() {
        let is_last = index + 1 == parts.len();
        let mut below = Vec::new();
        for (folder, _) in found {
            let at = |name: &[u8]| match &folder[..] {
                b"/" => [b"/", name].concat(),
                folder => join(folder, name),
            };
            let Some(glob) = NameGlob::parse(part) else {
                let (path, look) = (at(part), Request::Stat(Pathname::new(at(part))));
                // Between wildcards, what is not there matches nothing.
                let id = control.try_request(look);
                if let Some(entry) = control.looked(id).await? {
                    below.push((path, entry.kind == ListingKind::Directory));
                }
                continue;
            };
            for name in names(copy, &mut control, &folder, &glob).await? {
                below.push((at(&name.0), name.1));
            }
        }
        below.retain(|(_, is_folder)| *is_folder || (is_last && !wants_folders));
        found = below;
    }
    if found.is_empty() {
        let message = format!("nothing matches {remote}");
        return Err(Error::new(Fault::You, ErrorCode::PathNotFound, message)
            .hint("wildcards are *, ? and [a-z]; `farline cp` holds them against what is there"));
    }
    if !copy.options.recursive && found.iter().any(|(_, is_folder)| !is_folder) {
        for (folder, _) in found.extract_if(.., |(_, is_folder)| *is_folder) {
            let error = Error::new(Fault::You, ErrorCode::IsADirectory, "it is a directory")
                .hint("add -r to copy directories with all that is in them");
            copy.stats.failures.push((folder, error));
        }
    }
    let features = control.features();
    let has_names = features.tree && features.only && features.omitted && !wants_folders;
    copy.park(remote, control);
    if is_one_tree && has_names && found.len() > 1 {
        return Ok(by_folder(remote, found.into_iter().map(|(path, _)| path)));
    }
    let named = |(mut path, _): (Vec<u8>, bool)| {
        if wants_folders {
            path.push(b'/');
        }
        remote.with_path(path)
    };
    Ok(found.into_iter().map(named).collect())
}

/// One source for each folder that some of `paths` are in.
fn by_folder(remote: &Remote, paths: impl Iterator<Item = Vec<u8>>) -> Vec<Remote> {
    let mut folders: BTreeMap<Vec<u8>, Vec<Vec<u8>>> = BTreeMap::new();
    for path in paths {
        let slash = path.iter().rposition(|&byte| byte == b'/');
        let (folder, name) = match slash {
            Some(slash) => (path[..=slash].to_vec(), path[slash + 1..].to_vec()),
            None => (b"./".to_vec(), path),
        };
        folders.entry(folder).or_default().push(name);
    }
    folders.into_iter().map(|(folder, names)| remote.with_names(folder, names)).collect()
}

/// The names in `folder` that match, sorted, and which of them are folders. One that may not be
/// listed has none, unless it is where the path begins.
async fn names(
    copy: &mut Copy<'_>,
    control: &mut Control,
    folder: &[u8],
    glob: &NameGlob,
) -> Result<Vec<(Vec<u8>, bool)>, Error> {
    let at = if folder.is_empty() { b"." } else { folder };
    let listed = match control.list(at).await {
        Err(error) if error.code == ErrorCode::PermissionDenied => {
            copy.stats.failures.push((folder.to_vec(), error));
            return Ok(Vec::new());
        }
        listed => listed?,
    };
    let is_other = |kind: &ListingKind| {
        matches!(
            kind,
            ListingKind::CurrentDirectory | ListingKind::ParentDirectory | ListingKind::Unread
        )
    };
    let unread = listed.iter().filter(|entry| entry.kind == ListingKind::Unread);
    let unread = unread.map(|entry| (folder.to_vec(), listing::unread(entry.name.as_bytes())));
    copy.stats.failures.extend(unread);
    let mut names: Vec<(Vec<u8>, bool)> = listed
        .iter()
        .filter(|entry| !is_other(&entry.kind) && glob.matches(entry.name.name()))
        .map(|entry| (entry.name.name().to_vec(), entry.kind == ListingKind::Directory))
        .collect();
    names.sort();
    Ok(names)
}

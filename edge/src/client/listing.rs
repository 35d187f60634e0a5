//! What a server has, as entries of a tree.

use super::control::Control;
use super::copy::Copy;
use super::stream_mode;
use crate::stores::{WalkProblem, Walked, join};
use farline_core::gridftp::{self, ListingKind};
use farline_core::transfer::{Entry, EntryKind};
use farline_core::units::{Error, ErrorCode, Fault, in_short};

/// Bytes of a path below the source: Linux opens no longer one (PATH_MAX).
const LONGEST_PATH: usize = 4095;
/// Entries of one tree, so that a server's list does not fill this host's memory.
const MOST_ENTRIES: usize = 1 << 22;

/// The error of a server whose tree has no end.
fn endless(path: &[u8], entries: usize) -> Error {
    let message = format!(
        "the server's tree has no end that this host could reach: {entries} entries, and then {}",
        in_short(&String::from_utf8_lossy(path))
    );
    Error::new(Fault::There, ErrorCode::ListTooLong, message)
        .hint("copy parts of it, each with a command of its own")
}

/// The error of a folder in whose list the server has `line`.
pub(super) fn unread(line: &[u8]) -> Error {
    let message = format!(
        "the server's list of it cannot be read where it says `{}`",
        in_short(&String::from_utf8_lossy(line))
    );
    Error::new(Fault::There, ErrorCode::BadListing, message)
        .hint("what it speaks of may be missing: its name may be one that no list can hold")
}

/// Whether it says nothing of other folders.
fn is_of_one_folder(error: &Error) -> bool {
    matches!(
        error.code,
        ErrorCode::PermissionDenied | ErrorCode::PathNotFound | ErrorCode::NotADirectory
    )
}

/// Lists a remote tree, folder by folder, and what of it cannot be copied.
pub(super) async fn list_tree(
    copy: &mut Copy<'_>,
    control: &mut Control,
    top: &[u8],
) -> Result<Walked, Error> {
    let (mut entries, mut problems) = (Vec::new(), Vec::new());
    let mut folders = vec![Vec::new()];
    while let Some(folder) = folders.pop() {
        let at = join(top.strip_suffix(b"/").unwrap_or(top), &folder);
        let listed = match control.features().mlsc {
            true => match control.list(&at).await {
                // A reply has an end, and a data connection none.
                Err(error) if error.code == ErrorCode::ListMemory => {
                    stream_mode::list(copy, control, &at).await
                }
                listed => listed,
            },
            false => stream_mode::list(copy, control, &at).await,
        };
        let found = match listed {
            // The rest of the tree is no worse for it: one that may not be listed, or that is gone
            // since the folder above it was.
            Err(error) if !folder.is_empty() && is_of_one_folder(&error) => {
                problems.push(WalkProblem { path: folder, error });
                continue;
            }
            found => found?,
        };
        for found in found {
            let name = found.name.name();
            if matches!(found.kind, ListingKind::CurrentDirectory | ListingKind::ParentDirectory)
                || matches!(name, b"" | b"." | b"..")
            {
                continue;
            }
            let path = join(&folder, name);
            if path.len() > LONGEST_PATH || entries.len() >= MOST_ENTRIES {
                return Err(endless(&path, entries.len()));
            }
            // Farline lists a link as what it leads to, and says where.
            if let Some(link) = &found.link {
                let kind = EntryKind::Symlink { target: link.as_bytes().into() };
                entries.push(Entry { kind, ..entry(path, &found) });
                continue;
            }
            match found.kind {
                ListingKind::Directory => folders.push(path.clone()),
                ListingKind::File => {}
                ListingKind::Unread => {
                    problems.push(WalkProblem { path: folder.clone(), error: unread(name) });
                    continue;
                }
                _ => {
                    let error = Error::new(
                        Fault::You,
                        ErrorCode::NotAFile,
                        "it is neither a file nor a directory",
                    );
                    problems.push(WalkProblem { path, error });
                    continue;
                }
            }
            entries.push(entry(path, &found));
        }
    }
    Ok((entries, problems))
}

/// What one look found; Farline lists a link as what it leads to, and says where.
pub(super) fn entry_or_link(found: &gridftp::ListingEntry) -> Entry {
    let whole = entry(Vec::new(), found);
    match &found.link {
        Some(link) => {
            Entry { kind: EntryKind::Symlink { target: link.as_bytes().into() }, ..whole }
        }
        None => whole,
    }
}

pub(super) fn entry(path: Vec<u8>, found: &gridftp::ListingEntry) -> Entry {
    let kind = match found.kind {
        ListingKind::Directory => EntryKind::Directory,
        _ => EntryKind::File { len: found.size.unwrap_or(0) },
    };
    let modified_ns = found.modified.unwrap_or_default().as_nanos();
    let mode = found.mode.unwrap_or(if kind == EntryKind::Directory { 0o755 } else { 0o644 });
    Entry { path, kind, mode, modified_ns, changed_ns: 0, attributes: None }
}

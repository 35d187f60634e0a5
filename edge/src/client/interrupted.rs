//! The error of an interrupted copy of which something durable is kept.

use farline_core::units::Error;
use std::path::Path;

/// Where something is kept that `list` shows.
pub(super) fn interrupted(error: Error, list: &str) -> Error {
    Error { message: "interrupted; what had arrived is kept".to_owned(), ..error }
        .hint(format!("run the same command again to go on from there; {list} shows what is kept"))
}

/// Where it is kept at `path`, on this host, or in it.
pub(super) fn interrupted_into(error: Error, path: &Path) -> Error {
    let folder = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
    // As on a command line.
    let shown =
        if folder.as_os_str().is_empty() { ".".to_owned() } else { folder.display().to_string() };
    interrupted(error, &format!("`farline partials ls {shown}`"))
}

//! Where a copy lands on this host, and what an interrupted one left there.

use super::interrupted::interrupted_into;
use super::keep_replaced;
use super::location::{Location, last_name};
use super::options::Options;
use crate::stores::{
    Diskless, Landing, PosixSink, Root, StandardOutput, has_journal, join, storage_error,
};
use farline_core::transfer::Layout;
use farline_core::units::{Error, ErrorCode, Fault};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Where a copy lands on this host.
pub(super) enum Destination {
    /// Beneath a root that exists, from a start on.
    Files { root: Arc<Root>, start: Vec<u8> },
    /// In no file.
    Diskless(Diskless),
    /// On standard output.
    Standard,
}

impl Destination {
    /// What the files of `layout` land in.
    pub(super) fn sink(
        &self,
        layout: &Arc<Layout>,
        options: &Options,
    ) -> Result<Box<dyn Landing>, Error> {
        Ok(match self {
            Destination::Files { root, start } => {
                let files =
                    PosixSink::new(Arc::clone(root), start.clone(), Arc::clone(layout), true)
                        .lenient()
                        .keeping(keep_replaced::place_here(options.backup.as_ref(), root)?)
                        .setting(options.attributes, true)
                        .directly(options.direct_io.clone());
                Box::new(if options.atomic { files } else { files.one_by_one() })
            }
            Destination::Diskless(store) => Box::new(store.sink(layout)?),
            Destination::Standard => Box::new(StandardOutput::open()?),
        })
    }

    /// The same place for what lies at `path` below it.
    pub(super) fn below(&self, path: &[u8]) -> Destination {
        match self {
            Destination::Files { root, start } => {
                Destination::Files { root: Arc::clone(root), start: join(start, path) }
            }
            Destination::Diskless(store) => Destination::Diskless(*store),
            Destination::Standard => Destination::Standard,
        }
    }

    /// Makes the folders of `layout`, so that files find them.
    pub(super) fn make_folders(&self, layout: &Arc<Layout>) -> Result<(), Error> {
        match self {
            Destination::Files { .. } => self.sink(layout, &Options::default())?.make_folders(),
            Destination::Diskless(_) | Destination::Standard => Ok(()),
        }
    }
}

/// Decides where something called `name` lands: in `to` when that is a folder or is written as one,
/// else under `to`'s own name. `contents` says that a folder's content goes without the folder's
/// name.
pub(super) fn destination(
    to: &Location,
    name: &[u8],
    is_folder: bool,
    contents: bool,
    several: bool,
) -> Result<Destination, Error> {
    let to = match to {
        Location::Diskless(store) => return Ok(Destination::Diskless(*store)),
        Location::Standard if is_folder || several => {
            return Err(Error::new(
                Fault::You,
                ErrorCode::OneFile,
                "one file goes to standard output, no folder and no list of files",
            ));
        }
        Location::Standard => return Ok(Destination::Standard),
        Location::Local(to) => to,
        Location::Remote(_) => {
            return Err(Error::new(
                Fault::Bug,
                ErrorCode::NotHere,
                format!("{to} is not of this host"),
            ));
        }
    };
    let bytes = to.as_os_str().as_bytes();
    if is_folder || several || bytes.ends_with(b"/") || to.is_dir() {
        std::fs::create_dir_all(to)
            .map_err(|error| storage_error("create directory", bytes, &error))?;
        let start = if contents { Vec::new() } else { name.to_vec() };
        return Ok(Destination::Files { root: Arc::new(Root::open(to)?), start });
    }
    let parent =
        to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(Destination::Files { root: Arc::new(Root::open(parent)?), start: last_name(bytes).to_vec() })
}

/// Whether nothing of this host is at `to`.
pub(super) fn is_absent(to: &Location) -> bool {
    matches!(to, Location::Local(path) if !path.exists())
}

/// Whether something called `name` may have been left half-done in `to`, by the rules of
/// [`destination`].
pub(super) fn has_partial(to: &Location, name: &[u8], contents: bool) -> bool {
    let Location::Local(to) = to else { return false };
    let parent =
        to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let inside = if contents { b"" } else { name };
    has_journal(to, inside) || has_journal(parent, last_name(to.as_os_str().as_bytes()))
}

/// The error of a copy of `name` to `to`: one that was interrupted says what is kept.
pub(super) fn kept_of(error: Error, to: &Location, name: &[u8], contents: bool) -> Error {
    match (error.code, to) {
        (ErrorCode::Interrupted, Location::Local(path)) if has_partial(to, name, contents) => {
            interrupted_into(error, path)
        }
        _ => error,
    }
}

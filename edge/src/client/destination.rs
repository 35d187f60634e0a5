//! Where a copy lands on this host, and what an interrupted one left there.

use super::claimed::Failures;
use super::interrupted::interrupted_into;
use super::keep_replaced;
use super::location::{Location, Remote, file_as_folder, last_name, trim};
use super::options::Options;
use crate::stores::{
    BackupPlace, Landing, LandingOptions, PosixStore, Root, StandardStreams, Store, has_journal,
    join, one_file, storage_error,
};
use farline_core::transfer::Layout;
use farline_core::units::{Error, ErrorCode, Fault};
use rustix::fs::OFlags;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Where a copy lands on this host: in a store, from a path on.
pub(super) struct Destination {
    store: Arc<dyn Store>,
    start: Vec<u8>,
    /// Whether what lies below the path has places of its own.
    has_paths: bool,
}

impl Destination {
    fn files(root: Root, start: Vec<u8>, options: &Options) -> Destination {
        let store = Arc::new(PosixStore::new(Arc::new(root), options.direct_io.clone()));
        Destination { store, start, has_paths: true }
    }

    /// What the files of `layout` land in.
    pub(super) fn sink(
        &self,
        layout: &Arc<Layout>,
        options: &Options,
    ) -> Result<Box<dyn Landing>, Error> {
        let options = LandingOptions {
            backup: self.backup(options)?,
            attributes: options.attributes,
            may_own: true,
            ..LandingOptions::lenient(!options.atomic)
        };
        self.store.sink(&self.start, layout, options)
    }

    /// What takes one file of which nothing is known beforehand.
    pub(super) fn stream_sink(
        &self,
        layout: &Arc<Layout>,
        options: &Options,
    ) -> Result<Box<dyn Landing>, Error> {
        let backup = self.backup(options)?;
        self.store.sink(&self.start, layout, LandingOptions { backup, ..LandingOptions::default() })
    }

    /// Where what is replaced is kept, where that is asked for.
    fn backup(&self, options: &Options) -> Result<Option<BackupPlace>, Error> {
        match self.store.root() {
            Some(root) => keep_replaced::place_here(options.backup.as_ref(), root),
            None => Ok(None),
        }
    }

    /// The same place for what lies at `path` below it.
    pub(super) fn below(&self, path: &[u8]) -> Destination {
        let start = if self.has_paths { join(&self.start, path) } else { Vec::new() };
        Destination { store: Arc::clone(&self.store), start, has_paths: self.has_paths }
    }

    /// Where it is among this host's files, if it is there.
    pub(super) fn at(&self) -> Option<(&Arc<Root>, &[u8])> {
        self.store.root().map(|root| (root, &self.start[..]))
    }

    /// Makes the folders of `layout`, so that files find them; returns which cannot be made, and
    /// why.
    ///
    /// # Errors
    /// When that is of more than one place.
    pub(super) fn make_folders(&self, layout: &Arc<Layout>) -> Result<Failures, Error> {
        if !self.has_paths {
            return Ok(Failures::new());
        }
        let sink = self.sink(layout, &Options::default())?;
        sink.make_folders()?;
        // Into one that is there and may not be changed a file may go all the same.
        let is_there = |path: &[u8]| {
            let flags = OFlags::PATH | OFlags::DIRECTORY;
            self.at().is_some_and(|(root, start)| {
                root.open_beneath(&join(start, path), flags, 0).is_ok()
            })
        };
        let refused = sink.refused_folders().into_iter();
        Ok(refused.filter(|(path, _)| !is_there(path)).collect())
    }
}

/// Decides where something called `name` lands: in `to` when that is a folder or is written as one,
/// else under `to`'s own name. `contents` says that a folder's content goes without the folder's
/// name. Of what a node sends nothing goes by links below `to`: an earlier copy may have brought
/// them, and they may lead to what the node has no business with.
pub(super) fn destination(
    to: &Location,
    name: &[u8],
    is_folder: bool,
    contents: bool,
    several: bool,
    (options, follows_links): (&Options, bool),
) -> Result<Destination, Error> {
    let to = match to {
        Location::Store(address) => {
            let (store, has_paths) = (address.open()?, address.driver().capabilities.paths);
            let inside = is_folder || several || address.names_folder();
            let name = if contents || !inside { b"" } else { name };
            let start = if has_paths { join(address.start(), name) } else { Vec::new() };
            return Ok(Destination { store, start, has_paths });
        }
        Location::Standard if is_folder || several => return Err(one_file()),
        Location::Standard => {
            let store = Arc::new(StandardStreams::default());
            return Ok(Destination { store, start: Vec::new(), has_paths: false });
        }
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
        std::fs::create_dir_all(to).map_err(|error| {
            let failed = storage_error("create directory", bytes, &error);
            match failed.code {
                ErrorCode::PathExists => {
                    failed.hint("a file has that name: remove it, or name another destination")
                }
                _ => failed,
            }
        })?;
        let start = if contents { Vec::new() } else { name.to_vec() };
        let root = Root::open(to)?;
        let root = if follows_links { root } else { root.without_links()? };
        return Ok(Destination::files(root, start, options));
    }
    let parent =
        to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(Destination::files(Root::open(parent)?, last_name(bytes).to_vec(), options))
}

/// Whether nothing of this host is at `to`.
pub(super) fn is_absent(to: &Location) -> bool {
    matches!(to, Location::Local(path) if !path.exists())
}

/// Whether something called `name` may have been left half-done in `to`, by the rules of
/// [`destination`].
pub(super) fn has_partial(to: &Location, name: &[u8], contents: bool) -> bool {
    let to = match to {
        Location::Local(to) => to,
        Location::Store(address) => return address.driver().capabilities.journals,
        Location::Standard | Location::Remote(_) => return false,
    };
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

/// Refuses a file of which the content is asked for as a folder's, by a slash behind it or by
/// `sync`.
pub(super) fn refuse_file_as_folder(from: &Remote, is_folder: bool) -> Result<(), Error> {
    if is_folder || !from.names_content() || trim(&from.path).is_empty() {
        return Ok(());
    }
    Err(file_as_folder(from))
}

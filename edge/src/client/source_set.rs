//! What of this host is copied elsewhere: entries by their names at the destination, and where they
//! lie here.

use super::claimed::{ClaimedPaths, Failures};
use super::copy::Copy;
use super::existing::without;
use super::location::{Location, Remote, file_as_folder, last_name, source_here, trim};
use super::selection::Selection;
use crate::stores::{
    DirectIo, LinkedFiles, Listing, NotKept, Part, PosixSource, Prefetch, Root, Source, Store,
    StoreAddress, WalkProblem, join, place_in, stat, walk_linked,
};
use farline_core::transfer::{AttributeSet, Entry, EntryKind, Layout};
use farline_core::units::{Error, ErrorCode, Fault};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is copied: entries by their paths at the destination, and where they lie here.
pub(super) struct SourceSet {
    /// The destination's path: a folder, or the one file.
    pub(super) target: Vec<u8>,
    pub(super) entries: Vec<Entry>,
    /// Those that have more than one name.
    pub(super) linked: LinkedFiles,
    /// Where their bytes are.
    pub(super) at: SourcePlace,
    /// What the source is known by when a copy is resumed.
    pub(super) source_id: [u8; 32],
    /// What was read of the entries' files already.
    pub(super) prefetched: Prefetch,
}

impl SourceSet {
    /// Leaves out what stays as it is at the destination.
    pub(super) fn leave_out(&mut self, kept: &BTreeSet<usize>) {
        if !kept.is_empty() {
            // By other numbers from here on.
            self.prefetched = Prefetch::default();
        }
        if let SourcePlace::Files(parts) = &mut self.at {
            for part in parts {
                part.first -= kept.range(..part.first).count();
            }
        }
        self.entries = without(std::mem::take(&mut self.entries), kept);
    }

    /// What a copy of it that keeps `kept` does not keep.
    pub(super) fn not_kept(&self, kept: AttributeSet) -> NotKept {
        not_kept(&self.entries, &self.linked, kept, self.at.parts().unwrap_or_default())
    }

    /// Where the entries lie among this host's files, if they do.
    pub(super) fn parts(&self) -> Option<&[Part]> {
        self.at.parts()
    }
}

/// Where the bytes of a source are.
pub(super) enum SourcePlace {
    /// Among this host's files, below one folder or several.
    Files(Vec<Part>),
    /// Below `start` in a store; `strip` bytes of the entries' paths are the destination's.
    Store { store: Arc<dyn Store>, start: Vec<u8>, strip: usize },
}

impl SourcePlace {
    /// Where entries lie among this host's files, if they do.
    pub(super) fn parts(&self) -> Option<&[Part]> {
        match self {
            SourcePlace::Files(parts) if !parts.is_empty() => Some(parts),
            _ => None,
        }
    }

    /// What reads the entries of `layout`, of which `prefetched` was read.
    ///
    /// # Errors
    /// When the store cannot be read so.
    pub(super) fn source(
        self,
        layout: &Arc<Layout>,
        direct: &DirectIo,
        prefetched: Prefetch,
    ) -> Result<Arc<dyn Source>, Error> {
        match self {
            SourcePlace::Files(parts) => {
                let source = PosixSource::of_parts(parts, Arc::clone(layout));
                Ok(Arc::new(source.directly(direct.clone()).with_prefetched(prefetched)))
            }
            SourcePlace::Store { store, start, strip } => {
                let own = |entry: &Entry| {
                    let path = &entry.path[strip.min(entry.path.len())..];
                    Entry {
                        path: path.strip_prefix(b"/").unwrap_or(path).to_vec(),
                        ..entry.clone()
                    }
                };
                let entries = layout.entries().iter().map(own).collect();
                store.source(&start, &Arc::new(Layout::new(entries, layout.block_len())))
            }
        }
    }
}

/// What a copy of `entries` that keeps `kept` does not keep.
pub(super) fn not_kept(
    entries: &[Entry],
    linked: &LinkedFiles,
    kept: AttributeSet,
    parts: &[Part],
) -> NotKept {
    // What no disk holds has none of it.
    let entries = if parts.is_empty() { &[] } else { entries };
    NotKept::of(entries, linked, kept, |index| {
        let (root, path) = place_in(parts, index, &entries[index].path);
        (&**root, path)
    })
}

/// Lists what is at `address`, of which a file goes by its name where `into_folder` says so, and a
/// folder as on the command line.
///
/// # Errors
/// When nothing is there, or it is a folder and folders are not copied.
pub(super) fn load_store(
    copy: &mut Copy<'_>,
    address: &StoreAddress,
    to: &Remote,
    into_folder: bool,
) -> Result<SourceSet, Error> {
    let (store, start) = (address.open()?, address.start().to_vec());
    let Listing { mut entries, problems, linked } = store.list(&start)?;
    let is_folder = entries.first().is_some_and(|top| top.kind == EntryKind::Directory);
    if is_folder && !copy.options.recursive {
        let message = format!("{address} is a directory");
        return Err(Error::new(Fault::You, ErrorCode::IsADirectory, message)
            .hint("add -r to copy it with all that is in it"));
    }
    let name = if is_folder || into_folder { address.name() } else { b"" };
    entries.iter_mut().for_each(|entry| entry.path = join(name, &entry.path));
    let named = |problem: WalkProblem| (join(name, &problem.path), problem.error);
    copy.stats.failures.extend(problems.into_iter().map(named));
    // What goes on after a break has to be what was begun: a memory store never journals.
    let source_id = match address.driver().capabilities.keeps {
        true => source_here([Path::new(&address.to_string())]),
        false => [0; 32],
    };
    let at = SourcePlace::Store { store, start, strip: name.len() };
    let (target, prefetched) = (to.path.clone(), Prefetch::default());
    Ok(SourceSet { target, entries, linked, at, source_id, prefetched })
}

/// The store that is the source, if one is.
pub(super) fn store_among(sources: &[Location]) -> Result<Option<&StoreAddress>, Error> {
    let store = sources.iter().find_map(|source| match source {
        Location::Store(address) => Some(address),
        _ => None,
    });
    if let (Some(store), true) = (store, sources.len() > 1) {
        return Err(Error::new(
            Fault::You,
            ErrorCode::OneSource,
            format!("{store} is copied alone, not among other sources"),
        ));
    }
    Ok(store)
}

/// What is at `path`, a link being what it leads to.
///
/// # Errors
/// When nothing can be read there, or it is a file that is named as a folder.
pub(super) fn look_at(path: &Path) -> Result<std::fs::Metadata, Error> {
    let bytes = path.as_os_str().as_bytes();
    let without_slash = Path::new(OsStr::from_bytes(trim(bytes)));
    std::fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotADirectory if without_slash.is_file() => {
            file_as_folder(without_slash.display())
        }
        _ => crate::stores::storage_error("read", bytes, &error),
    })
}

/// Whether a folder that is written so goes by its content, without its name.
pub(super) fn names_content(path: &[u8]) -> bool {
    path.ends_with(b"/") || matches!(last_name(path), b"." | b"..")
}

/// Lists the sources, and decides what each is called at the destination.
///
/// As rsync has it: `src` goes into the destination by its name, `src/` goes with its content
/// alone.
///
/// What could not be read, or is not there, is named next to it.
pub(super) fn load(
    selection: &Selection,
    paths: &[PathBuf],
    target: Vec<u8>,
    into_folder: bool,
) -> Result<(SourceSet, Failures), Error> {
    let mut failures = Failures::new();
    let source_id = source_here(paths.iter().map(PathBuf::as_path));
    let mut load = SourceSet {
        target,
        entries: Vec::new(),
        linked: LinkedFiles::new(),
        at: SourcePlace::Files(Vec::new()),
        source_id,
        prefetched: Prefetch::default(),
    };
    let mut parts = Vec::new();
    let mut claimed =
        ClaimedPaths::of(paths.iter().map(|path| path.display().to_string()).collect());
    for (source, path) in paths.iter().enumerate() {
        let bytes = path.as_os_str().as_bytes();
        let first = load.entries.len();
        if look_at(path)?.is_dir() {
            let root = Arc::new(Root::open(path)?);
            let name = if names_content(bytes) { b"" } else { last_name(bytes) };
            let ((entries, problems), linked) = walk_linked(&root, b"")?;
            load.linked.extend(linked.into_iter().map(|(path, inode)| (join(name, &path), inode)));
            let problems = selection.concerned(name, &entries, problems);
            let missing = selection.missing(&entries);
            let mut omitted = selection.left_out(name, &entries);
            let at = |entry: &Entry| join(name, &entry.path);
            failures.extend(claimed.refuse_taken(source, &entries, &mut omitted, at));
            let mut entries = without(entries, &omitted);
            failures.extend(missing);
            failures.extend(
                problems.into_iter().map(|problem| (join(name, &problem.path), problem.error)),
            );
            if !name.is_empty() {
                entries.iter_mut().for_each(|entry| entry.path = join(name, &entry.path));
            }
            // Not a second list next to the first, which may be of millions.
            match load.entries.is_empty() {
                true => load.entries = entries,
                false => load.entries.append(&mut entries),
            }
            if load.entries.len() > first {
                parts.push(Part { first, root, start: Vec::new(), strip: name.len() });
            }
        } else {
            let parent = path
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty())
                .unwrap_or(Path::new("."));
            let root = Arc::new(Root::open(parent)?);
            let name = last_name(bytes);
            if !selection.takes(name, b"", false) {
                continue;
            }
            if let Err(error) = claimed.claim(source, name) {
                failures.push((name.to_vec(), error));
                continue;
            }
            let mut entry = stat(&root, name, if into_folder { name } else { b"" })?;
            if let EntryKind::Symlink { .. } = entry.kind {
                // A file that is named on the command line is meant itself, as cp has it.
                let meta = look_at(path)?;
                let real = path
                    .canonicalize()
                    .map_err(|error| crate::stores::storage_error("read", bytes, &error))?;
                let parent = real.parent().unwrap_or(Path::new("/"));
                let root = Arc::new(Root::open(parent)?);
                let real_name = last_name(real.as_os_str().as_bytes()).to_vec();
                entry = stat(&root, &real_name, &entry.path)?;
                debug_assert!(meta.is_file());
                let strip = entry.path.len();
                load.entries.push(entry);
                parts.push(Part { first, root, start: real_name, strip });
                continue;
            }
            let strip = entry.path.len();
            load.entries.push(entry);
            parts.push(Part { first, root, start: name.to_vec(), strip });
        }
    }
    load.at = SourcePlace::Files(parts);
    Ok((load, failures))
}

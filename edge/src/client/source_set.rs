//! What of this host is copied elsewhere: entries by their names at the destination, and where they
//! lie here.

use super::copy::Copy;
use super::existing::{refuse_taken, without};
use super::location::{Location, Remote, last_name, source_here};
use crate::stores::{
    DirectIo, Diskless, LinkedFiles, MemorySource, Part, PosixSource, Root, Source, join, stat,
    walk_linked,
};
use farline_core::transfer::{Entry, EntryKind, Layout};
use farline_core::units::{Error, ErrorCode, Fault};
use std::collections::BTreeSet;
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
    /// Where the entries lie among this host's files; nowhere for a memory store.
    pub(super) parts: Vec<Part>,
    /// What the source is known by when a copy is resumed.
    pub(super) source_id: [u8; 32],
}

impl SourceSet {
    /// Leaves out what stays as it is at the destination.
    pub(super) fn leave_out(&mut self, kept: &BTreeSet<usize>) {
        for part in &mut self.parts {
            part.first -= kept.range(..part.first).count();
        }
        self.entries = without(std::mem::take(&mut self.entries), kept);
    }

    pub(super) fn source(
        parts: Vec<Part>,
        layout: &Arc<Layout>,
        direct: &DirectIo,
    ) -> Arc<dyn Source> {
        match parts.is_empty() {
            true => Arc::new(MemorySource::new()),
            false => {
                Arc::new(PosixSource::of_parts(parts, Arc::clone(layout)).directly(direct.clone()))
            }
        }
    }
}

/// The store without a disk that is the source, if one is.
pub(super) fn memory_among(sources: &[Location]) -> Result<Option<Diskless>, Error> {
    let store = sources.iter().find_map(|source| match source {
        Location::Diskless(store) => Some(*store),
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
/// When nothing can be read there.
pub(super) fn look_at(path: &Path) -> Result<std::fs::Metadata, Error> {
    std::fs::metadata(path)
        .map_err(|error| crate::stores::storage_error("read", path.as_os_str().as_bytes(), &error))
}

/// Whether a folder that is written so goes by its content, without its name.
pub(super) fn names_content(path: &[u8]) -> bool {
    path.ends_with(b"/") || matches!(last_name(path), b"." | b"..")
}

/// Lists the sources, and decides what each is called at the destination.
///
/// As rsync has it: `src` goes into the destination by its name, `src/` goes with its content
/// alone.
pub(super) fn load(
    copy: &mut Copy<'_>,
    paths: &[PathBuf],
    to: &Remote,
    into_folder: bool,
) -> Result<SourceSet, Error> {
    let target = to.path.clone();
    let source_id = source_here(paths.iter().map(PathBuf::as_path));
    let mut load = SourceSet {
        target,
        entries: Vec::new(),
        linked: LinkedFiles::new(),
        parts: Vec::new(),
        source_id,
    };
    for (source, path) in paths.iter().enumerate() {
        let bytes = path.as_os_str().as_bytes();
        let first = load.entries.len();
        copy.sources.1 = source;
        if look_at(path)?.is_dir() {
            let root = Arc::new(Root::open(path)?);
            let name = if names_content(bytes) { b"" } else { last_name(bytes) };
            let ((entries, problems), linked) = walk_linked(&root, b"")?;
            load.linked.extend(linked.into_iter().map(|(path, inode)| (join(name, &path), inode)));
            let selection = &copy.options.selection;
            let problems = selection.concerned(name, &entries, problems);
            let missing = selection.missing(&entries);
            let mut omitted = selection.left_out(name, &entries);
            refuse_taken(copy, &entries, &mut omitted, |entry| join(name, &entry.path));
            let entries = without(entries, &omitted);
            copy.stats.failures.extend(missing);
            copy.stats.failures.extend(
                problems.into_iter().map(|problem| (join(name, &problem.path), problem.error)),
            );
            load.entries.extend(
                entries.into_iter().map(|entry| Entry { path: join(name, &entry.path), ..entry }),
            );
            if load.entries.len() > first {
                load.parts.push(Part { first, root, start: Vec::new(), strip: name.len() });
            }
        } else {
            let parent = path
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty())
                .unwrap_or(Path::new("."));
            let root = Arc::new(Root::open(parent)?);
            let name = last_name(bytes);
            if !copy.options.selection.takes(name, b"", false) {
                continue;
            }
            if let Err(error) = copy.claim(name, source) {
                copy.stats.failures.push((name.to_vec(), error));
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
                load.parts.push(Part { first, root, start: real_name, strip });
                continue;
            }
            let strip = entry.path.len();
            load.entries.push(entry);
            load.parts.push(Part { first, root, start: name.to_vec(), strip });
        }
    }
    Ok(load)
}

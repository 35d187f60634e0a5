//! Copies within this host: the same tree, staging and landing, without a network.

use super::backup;
use super::by_content::ContentAt;
use super::copy::Copy;
use super::existing::{omitted_here, without};
use super::interrupted::interrupted_into;
use super::itself;
use super::location::{Location, last_name, source_here};
use super::options::Options;
use super::selection::DRY_RUN;
use crate::mover::{BLOCK_LEN, LOCAL_DIGESTS, LocalMove, LocalState};
use crate::stores::{
    Diskless, Landing, LinkedFiles, MEMORY_NAME, MemorySource, NotKept, PosixSink, PosixSource,
    ResumeState, Root, Source, StandardOutput, join, stat, storage_error, walk_linked,
};
use farline_core::transfer::journal::Origin as Identity;
use farline_core::transfer::{Entry, Layout};
use farline_core::units::{Error, ErrorCode, Fault};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

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
                        .keeping(backup::place_here(options, root)?)
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
    crate::stores::has_journal(to, inside)
        || crate::stores::has_journal(parent, last_name(to.as_os_str().as_bytes()))
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

/// What a copy from `from`, on this host, is known by when it is resumed.
fn known_as(from: &Location) -> Identity {
    let source = match from {
        Location::Local(path) => source_here([path.as_path()]),
        other => source_here([Path::new(&other.to_string())]),
    };
    Identity { source, digests: Some(LOCAL_DIGESTS) }
}

/// What a copy within this host reads.
struct Origin {
    entries: Vec<Entry>,
    linked: LinkedFiles,
    /// Where the entries lie; nowhere for a memory store.
    at: Option<(Arc<Root>, Vec<u8>)>,
    name: Vec<u8>,
    is_folder: bool,
    /// Whether a folder's content goes without the folder's name.
    contents: bool,
}

fn files_at(copy: &mut Copy<'_>, from: &Path) -> Result<Origin, Error> {
    let bytes = from.as_os_str().as_bytes();
    let meta = std::fs::metadata(from).map_err(|error| storage_error("read", bytes, &error))?;
    if meta.is_dir() && !copy.options.recursive {
        return Err(Error::new(
            Fault::You,
            ErrorCode::IsADirectory,
            format!("{} is a directory", from.display()),
        )
        .hint("add -r to copy it with all that is in it"));
    }
    let name = last_name(bytes).to_vec();
    let contents = bytes.ends_with(b"/") || matches!(&name[..], b"." | b"..");
    let real = from.canonicalize().map_err(|error| storage_error("read", bytes, &error))?;
    let mut linked = LinkedFiles::new();
    let (root, start, entries) = if meta.is_dir() {
        let root = Arc::new(Root::open(&real)?);
        let ((entries, problems), found) = walk_linked(&root, b"")?;
        linked = found;
        let top = if contents { b"" } else { &name[..] };
        let problems = copy.options.selection.concerned(top, &entries, problems);
        copy.stats
            .failures
            .extend(problems.into_iter().map(|problem| (problem.path, problem.error)));
        (root, Vec::new(), entries)
    } else {
        let root = Arc::new(Root::open(real.parent().unwrap_or(Path::new("/")))?);
        let start = last_name(real.as_os_str().as_bytes()).to_vec();
        let entry = stat(&root, &start, b"")?;
        (root, start, vec![entry])
    };
    Ok(Origin {
        entries,
        linked,
        at: Some((root, start)),
        name,
        is_folder: meta.is_dir(),
        contents,
    })
}

pub(super) async fn run(
    copy: &mut Copy<'_>,
    from: &Location,
    to: &Location,
    several: bool,
) -> Result<(), Error> {
    copy.options.refuse_verify("a copy within this host is not read back")?;
    let origin = match from {
        Location::Local(path) => files_at(copy, path)?,
        Location::Diskless(store) => Origin {
            entries: vec![store.entry(b"")?],
            linked: LinkedFiles::new(),
            at: None,
            name: MEMORY_NAME.to_vec(),
            is_folder: false,
            contents: false,
        },
        Location::Standard | Location::Remote(_) => {
            return Err(Error::new(
                Fault::Bug,
                ErrorCode::NotHere,
                format!("{from} is not of this host"),
            ));
        }
    };
    let Origin { entries, linked, at, name, is_folder, contents } = origin;
    if let (Location::Local(from), Location::Local(to)) = (from, to) {
        let target = itself::target_here(to, &name, is_folder || several, is_folder && contents);
        itself::refuse_here(from, to, &target)?;
    }
    let place = match copy.options.dry_run && is_absent(to) {
        true => None,
        false => Some(destination(to, &name, is_folder, contents, several)?),
    };
    let top = if is_folder && contents { b"" } else { &name[..] };
    let from_here = at.as_ref().map(|(root, start)| {
        let place = |index: usize| (Arc::clone(root), join(start, &entries[index].path));
        ContentAt::Here(Box::new(place))
    });
    let omitted = omitted_here(copy, place.as_ref(), top, &entries, from_here).await?;
    let Some(place) = place.filter(|_| !copy.options.dry_run) else {
        copy.stats.verified_how = DRY_RUN;
        return Ok(());
    };
    let layout = Arc::new(Layout::new(without(entries, &omitted), BLOCK_LEN));
    copy.stats.verified_how = "not verified: a copy within this host is not read back";
    if layout.entries().is_empty() {
        return Ok(());
    }
    if let Some((root, start)) = &at {
        let place = |index: usize| (&**root, join(start, &layout.entries()[index].path));
        copy.stats.not_kept += NotKept::of(layout.entries(), &linked, place);
    }
    let source: Box<dyn Source> = match at {
        Some((root, start)) => Box::new(
            PosixSource::new(root, start, Arc::clone(&layout))
                .directly(copy.options.direct_io.clone()),
        ),
        None => Box::new(MemorySource::new()),
    };
    let sink = place.sink(&layout, copy.options)?;
    let held = sink
        .begin(known_as(from))?
        .unwrap_or_else(|| ResumeState::nothing(&layout, Some(LOCAL_DIGESTS)));
    copy.stats.resumed_bytes += held.blocks.total();
    copy.live.held.store(held.blocks.total(), Ordering::Relaxed);
    copy.live.expect(layout.payload(), layout.files());
    let sink: Arc<dyn Landing> = sink.into();
    let counted = Arc::clone(&sink);
    copy.live.count_files(move || counted.landed());
    let work = LocalMove::new(layout, source, sink, held);
    copy.stats.threads = work.threads();
    let moved = copy.supervise(None, move |live| {
        let (tally, pace, cancel) = (&live.tally, live.pace.as_deref(), &live.cancel);
        work.run(&LocalState { tally, pace, cancel })
    });
    let landed = moved.await.map_err(|error| kept_of(error, to, &name, contents))?;
    copy.take_landed(landed);
    copy.settle();
    Ok(())
}

//! Copies within this host: the same tree, staging and landing, without a network.

use super::attributes;
use super::by_content::ContentAt;
use super::copy::Copy;
use super::destination::{destination, is_absent, kept_of};
use super::existing::{Omitted, omitted_here, without};
use super::itself;
use super::location::{Location, last_name, source_here};
use super::selection::DRY_RUN;
use super::source_set::look_at;
use crate::mover::{BLOCK_LEN, LOCAL_DIGESTS, LocalMove, LocalState};
use crate::stores::{
    Landing, LinkedFiles, Listing, NotKept, PosixStore, ResumeState, Root, Store, StoreAddress,
    WalkProblem, gather, join, stat, storage_error, walk_linked,
};
use farline_core::copy::Existing;
use farline_core::transfer::journal::PartialOrigin as Identity;
use farline_core::transfer::{Entry, EntryKind, Layout};
use farline_core::units::{Error, ErrorCode, Fault};
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

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
    /// Where the entries lie: below a path of a store.
    store: Arc<dyn Store>,
    start: Vec<u8>,
    name: Vec<u8>,
    is_folder: bool,
    /// Whether a folder's content goes without the folder's name.
    contents: bool,
}

fn files_at(copy: &mut Copy<'_>, from: &Path) -> Result<Origin, Error> {
    let bytes = from.as_os_str().as_bytes();
    let meta = look_at(from)?;
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
        copy.note_problems(top, &entries, problems);
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
        store: Arc::new(PosixStore::new(root, copy.options.direct_io.clone())),
        start,
        name,
        is_folder: meta.is_dir(),
        contents,
    })
}

fn in_store(copy: &mut Copy<'_>, address: &StoreAddress) -> Result<Origin, Error> {
    let store = address.open()?;
    let Listing { entries, problems, linked } = store.list(address.start())?;
    let is_folder = entries.first().is_some_and(|top| top.kind == EntryKind::Directory);
    if is_folder && !copy.options.recursive {
        let message = format!("{address} is a directory");
        return Err(Error::new(Fault::You, ErrorCode::IsADirectory, message)
            .hint("add -r to copy it with all that is in it"));
    }
    let named = |problem: WalkProblem| (problem.path, problem.error);
    copy.stats.failures.extend(problems.into_iter().map(named));
    let (start, name) = (address.start().to_vec(), address.name().to_vec());
    let contents = is_folder && name.is_empty();
    Ok(Origin { entries, linked, store, start, name, is_folder, contents })
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
        Location::Store(address) => in_store(copy, address)?,
        Location::Standard | Location::Remote(_) => {
            return Err(Error::new(
                Fault::Bug,
                ErrorCode::NotHere,
                format!("{from} is not of this host"),
            ));
        }
    };
    let Origin { entries, linked, store, start, name, is_folder, contents } = origin;
    if let (Location::Local(from), Location::Local(to)) = (from, to) {
        let target = itself::target_here(to, &name, is_folder || several, is_folder && contents);
        itself::refuse_here(from, to, &target)?;
    }
    let place = match copy.options.dry_run && is_absent(to) {
        true => None,
        false => Some(destination(to, &name, is_folder, contents, several, (copy.options, true))?),
    };
    let top = if is_folder && contents { b"" } else { &name[..] };
    let from_here = store.root().map(|root| {
        let place = |index: usize| (Arc::clone(root), join(&start, &entries[index].path));
        ContentAt::Here(Box::new(place))
    });
    let omitted = omitted_here(copy, place.as_ref(), top, &entries, from_here).await?;
    let Some(place) = place.filter(|_| !copy.options.dry_run) else {
        copy.stats.verified_how = DRY_RUN;
        return Ok(());
    };
    let (mut entries, Omitted { kept, left }) = (entries, omitted);
    let wanted = copy.options.attributes;
    let mut omitted = left;
    if !wanted.is_empty() && copy.options.existing != Existing::Keep {
        attributes::stay(&mut entries, &kept);
        let is_set = |index: &usize| matches!(entries[*index].kind, EntryKind::There { .. });
        omitted.extend(kept.into_iter().filter(|index| !is_set(index)));
    } else {
        omitted.extend(kept);
    }
    let mut entries = without(entries, &omitted);
    if let Some(root) = store.root() {
        gather(&mut entries, &linked, wanted, |_, entry| (&**root, join(&start, &entry.path)));
    }
    let layout = Arc::new(Layout::new(entries, BLOCK_LEN));
    copy.stats.verified_how = "not verified: a copy within this host is not read back";
    if layout.entries().is_empty() {
        return Ok(());
    }
    if let Some(root) = store.root() {
        let place = |index: usize| (&**root, join(&start, &layout.entries()[index].path));
        copy.stats.not_kept += NotKept::of(layout.entries(), &linked, wanted, place);
    }
    let source = store.source(&start, &layout)?;
    let sink = place.sink(&layout, copy.options)?;
    let held = sink
        .begin(known_as(from))?
        .unwrap_or_else(|| ResumeState::nothing(&layout, Some(LOCAL_DIGESTS)));
    copy.stats.hold(held.blocks.clone());
    copy.state.held.store(held.blocks.total(), Ordering::Relaxed);
    copy.state.expect(layout.payload(), layout.files());
    let sink: Arc<dyn Landing> = sink.into();
    let counted = Arc::clone(&sink);
    copy.state.count_files(move || counted.landed());
    let work = LocalMove::new(Arc::clone(&layout), source, sink, held);
    copy.stats.threads = work.threads();
    let moved = copy.supervise(None, move |state| {
        let (tally, pace, cancel) = (&state.tally, state.pace.as_deref(), &state.cancel);
        work.run(&LocalState { tally, pace, cancel })
    });
    let landed = moved.await.map_err(|error| kept_of(error, to, &name, contents))?;
    let named = copy.stats.failures.len();
    copy.take_landed(landed);
    copy.stats.settle_held(&layout, named, &BTreeSet::new());
    copy.end_transfer();
    Ok(())
}

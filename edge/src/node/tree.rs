//! The server's side of `FARLINE.TREE`: a whole tree, or one file, in three transfers over the same
//! channels.
//!
//! 1. `manifest`: the list of entries ([`manifest_lines`](farline_core::transfer::manifest_lines)).
//! 2. `data`: every file's bytes in one space, small files packed together ([`Layout`]).
//! 3. `digests`: what the sender read, file by file; the receiver compares, makes durable, renames.
//!
//! The three are pipelined: a sender begins the next as soon as its channels are past the last.
//! `docs/protocol.md`.

use super::data::DataPlane;
use super::files::{Files, beneath};
use super::list_memory::{self, ListShare, MeteredList};
use super::quota::QuotaShare;
use super::running::{RunningTransfer, TreePhase};
use super::tree_rights::{
    check_files, check_links, check_place, folders_of_others, may_modify, place_of,
};
use super::tree_state::{IncomingTree, OutgoingTree};
use crate::identity::Deed;
use crate::mover::{
    Audit, BLOCK_LEN, MANIFEST_LIMIT, ManifestSource, TREE_MODULE, VerdictSink, VerdictSource,
    entries_of,
};
use crate::stores::{
    BackupPlace, LandingOptions, Listing, NotKept, ResumeState, Sink, SlowSource, Source, Store,
    WalkProblem, gather_metered, join,
};
use farline_core::gridftp::{ListingKind, Pathname};
use farline_core::transfer::journal::PartialOrigin;
use farline_core::transfer::{Entry, EntryKind, Layout};
use farline_core::units::{ByteRanges, Bytes, Error, ErrorCode, Fault, in_short};
use std::sync::{Arc, Mutex, PoisonError};

/// The FEAT line of trees.
pub(crate) const FEATURE: &str = "FARLINE TREE";
/// The FEAT line of checked blocks and resume.
pub(crate) const CHECK_FEATURE: &str = "FARLINE CHECK";
/// The FEAT line of blocks of zeros that are not sent.
pub(crate) const ZEROS_FEATURE: &str = "FARLINE ZEROS";
/// The FEAT line of trees with owners, ACLs and what else is no part of a file's content.
pub(crate) const ATTRIBUTES_FEATURE: &str = "FARLINE ATTRIBUTES";
/// The FEAT line of trees of which what they replace is kept.
pub(crate) const BACKUP_FEATURE: &str = "FARLINE BACKUP";
/// The FEAT line of trees of which a client takes what it wants.
pub(crate) const LEAVE_FEATURE: &str = "FARLINE LEAVE";
/// The FEAT line of trees of which a client names what it wants of a folder.
pub(crate) const ONLY_FEATURE: &str = "FARLINE ONLY";
/// The FEAT line of trees in blocks of another length.
pub(crate) const BLOCK_FEATURE: &str = "FARLINE BLOCK";
/// The FEAT line of files compared by CRC-64/NVME.
pub(crate) const CRC64_FEATURE: &str = "FARLINE CRC64";
/// The FEAT line of trees of which what does not land is named.
pub(crate) const UNLANDED_FEATURE: &str = "FARLINE UNLANDED";

/// The FEAT line of trees of which each file lands when it is whole.
pub(crate) const LANDING_FEATURE: &str = "FARLINE LANDING";

/// `entries` of what the client retrieves, laid out and to be read, and their share of the memory
/// for lists.
fn laid_out(
    plane: &DataPlane,
    entries: Vec<Entry>,
    mut share: ListShare,
    run: &RunningTransfer<'_>,
) -> Result<OutgoingTree, Error> {
    let (store, layout) =
        (plane.tree_store(), Arc::new(Layout::within(entries, plane.longest_block)));
    share.hold(&layout).inspect_err(|error| say_full(plane, error))?;
    let source = store.source(beneath(&run.request.path), &layout)?;
    let source: Arc<dyn Source> = match plane.shared.config.trial_read {
        Some(rate) if store.root().is_some() => Arc::new(SlowSource::new(source, None, Some(rate))),
        _ => source,
    };
    let audit = Arc::new(Audit::new(&layout, plane.integrity.digests));
    Ok(OutgoingTree { layout, source, audit, whole: true, _share: share })
}

/// Receives one of the three.
pub(super) fn store(
    plane: &mut DataPlane,
    phase: TreePhase,
    run: &RunningTransfer<'_>,
) -> Result<u64, Error> {
    match phase {
        TreePhase::Manifest => {
            plane.tree().incoming = None;
            let may_replace = check_place(plane, &run.request.path)?;
            let list = MeteredList::new(MANIFEST_LIMIT, plane.shared.lists.share());
            receive_list(plane, &list, MANIFEST_LIMIT, run)
                .inspect_err(|error| say_full(plane, error))?;
            let (text, mut share) = list.into_parts();
            let len = text.len() as u64;
            let entries = entries_of(text)?;
            let layout = Arc::new(Layout::within(entries, plane.longest_block));
            share.hold(&layout).inspect_err(|error| say_full(plane, error))?;
            let path = &run.request.path;
            if plane.is_of_files() {
                check_links(&plane.account().access, path, &layout)?;
            }
            let start = beneath(path).to_vec();
            let only_new = plane.is_of_files() && !may_modify(plane, path, &layout);
            // Where nothing is replaced nothing is to be kept.
            let backup = match only_new {
                true => None,
                false => backup_place(plane, path, &layout)?,
            };
            let options = LandingOptions { backup, only_new, ..plane.landing_options() };
            let sink = plane.tree_store().sink(&start, &layout, options)?;
            let integrity = plane.integrity;
            let held = match integrity.checks {
                true => {
                    sink.begin(PartialOrigin { source: plane.source, digests: integrity.digests })?
                }
                false => None,
            };
            let held = held.unwrap_or_else(|| ResumeState::nothing(&layout, integrity.digests));
            if !may_replace {
                check_files(plane, path, &layout, &held.landed)?;
            }
            if plane.is_of_files() {
                sink.leave(&folders_of_others(&plane.account().access, path, &layout));
            }
            let quota = quota_of(plane, &start, &layout, &held, sink.landed())?;
            run.landing(|| sink.make_folders())?;
            // Clause R-6: before the 226, so that the client leaves them out.
            run.reporter.ranges(&held.blocks);
            let (digests, held) = (Mutex::new(held.digests), held.blocks);
            plane.tree().incoming =
                Some(IncomingTree { layout, sink, digests, held, _share: share, quota });
            Ok(len)
        }
        TreePhase::Data => {
            let mut incoming =
                plane.tree().incoming.take().ok_or_else(|| out_of_order("manifest"))?;
            let (before, landed) = (incoming.held.total(), incoming.sink.landed());
            let digests = plane.integrity.digests.map(|_| &incoming.digests);
            let came = plane.receive_into(
                &incoming.layout,
                &*incoming.sink,
                digests,
                incoming.held.clone(),
                run,
            );
            let came = came.inspect_err(|error| {
                if let Some(quota) = &incoming.quota {
                    // It lies there, and is gone on from.
                    let now = incoming.sink.landed().unwrap_or(0);
                    quota.keep(run.tally.bytes(), now.saturating_sub(landed.unwrap_or(0)));
                }
                // Clause R-9: what breaks the rules is not worth keeping; what the network broke
                // is.
                if error.fault == Fault::There {
                    incoming.sink.refuse();
                }
            })?;
            incoming.held = came.arrived;
            let (came, payload) = (incoming.held.total(), incoming.layout.payload());
            if let Some(quota) = &incoming.quota {
                quota.keep(came - before, 0);
            }
            let message = format!("{came} of {payload} bytes are here");
            if came < payload && !plane.integrity.checks {
                incoming.sink.refuse();
                return Err(Error::new(Fault::There, ErrorCode::Incomplete, message));
            }
            if came < payload {
                run.reporter.ranges(&incoming.held);
                plane.tree().incoming = Some(incoming);
                return Err(run.blocks_missing(message));
            }
            plane.tree().incoming = Some(incoming);
            Ok(came - before)
        }
        TreePhase::Digests => {
            let incoming = plane.tree().incoming.take().ok_or_else(|| out_of_order("data"))?;
            if incoming.held.total() < incoming.layout.payload() {
                // Pipelined behind data that must come again.
                plane.tree().incoming = Some(incoming);
                return Err(run.blocks_missing("the data is not whole yet".to_owned()));
            }
            let list = VerdictSink::new(&incoming.layout);
            match receive_list(plane, &list, list.len(), run) {
                Err(error) if error.code == ErrorCode::BlocksMissing => {
                    plane.tree().incoming = Some(incoming);
                    return Err(error);
                }
                received => received?,
            }
            let len = list.len() as u64;
            let verdicts = list.finish()?;
            let digests = incoming.digests.lock().unwrap_or_else(PoisonError::into_inner);
            let landed = run.landing(|| incoming.sink.land(Some((&verdicts, &digests))));
            if let Some(quota) = &incoming.quota {
                quota.keep(0, (incoming.layout.entries().len() - landed.failures.len()) as u64);
            }
            let is_named = plane.names_unlanded && !landed.is_cut_short;
            run.not_set(landed.not_set);
            // Where it is a reply, the session says it.
            let no_name =
                landed.failures.iter().find(|(_, error)| error.code == ErrorCode::InvalidName);
            if let Some((_, error)) = no_name.filter(|_| is_named) {
                let client = plane.client_ip();
                plane.shared.notices.say("rejected", format_args!("{client}: {error}"));
            }
            if is_named {
                run.left_out(&landed.failures);
                run.unnamed(&landed.failures, incoming.layout.entries());
            }
            match landed.failures.first() {
                None => Ok(len),
                // The client knows what did not land; the rest has.
                Some(_) if is_named && landed.failures.iter().all(|(_, error)| is_final(error)) => {
                    Ok(len)
                }
                Some((path, error)) => {
                    let others = match landed.failures.len() - 1 {
                        0 => String::new(),
                        n => format!(", and {n} more"),
                    };
                    // A file alone has no path in its tree.
                    let path = if path.is_empty() { run.request.path.as_bytes() } else { path };
                    let shown = in_short(&String::from_utf8_lossy(path));
                    Err(error.clone().while_doing(format!("{shown} did not land{others}")))
                }
            }
        }
    }
}

/// Sends one of the three.
pub(super) fn retrieve(
    plane: &mut DataPlane,
    phase: TreePhase,
    run: &RunningTransfer<'_>,
) -> Result<u64, Error> {
    match phase {
        TreePhase::Manifest => {
            plane.tree().outgoing = None;
            let (store, start) = (plane.tree_store(), beneath(&run.request.path).to_vec());
            let mut share = plane.shared.lists.share();
            let mut meter = metered(&mut share, run);
            let listing = match plane.only.is_empty() {
                true => listed(plane, &*store, &run.request.path, &mut meter),
                false => listed_only(plane, &*store, run, &mut meter),
            };
            let Listing { mut entries, problems, linked } =
                listing.inspect_err(|error| say_full(plane, error))?;
            entries.retain(|entry| !plane.left.contains(&entry.path));
            if let Some(root) = store.root() {
                let place = |_, entry: &Entry| (&**root, join(&start, &entry.path));
                let mut taken = 0;
                gather_metered(&mut entries, &linked, plane.attributes, place, &mut |entry| {
                    taken += list_memory::weight(entry);
                    meter(taken)
                })
                .inspect_err(|error| say_full(plane, error))?;
            }
            drop(meter);
            let outgoing = laid_out(plane, entries, share, run)?;
            let layout = Arc::clone(&outgoing.layout);
            let len = plane.send_bytes(&ManifestSource::of(&layout), run)?;
            if plane.names_omissions {
                if let Some(root) = store.root() {
                    let place =
                        |index: usize| (&**root, join(&start, &layout.entries()[index].path));
                    run.not_kept(NotKept::of(layout.entries(), &linked, plane.attributes, place));
                }
                let problems = problems.into_iter().map(|problem| (problem.path, problem.error));
                run.left_out(&problems.collect::<Vec<_>>());
            }
            // What was pipelined behind a manifest that did not go has nothing to send, and says so
            // at once (I-7).
            plane.tree().outgoing = Some(outgoing);
            Ok(len)
        }
        TreePhase::Data => {
            let mut outgoing =
                plane.tree().outgoing.take().ok_or_else(|| out_of_order("manifest"))?;
            // T-10: what the client has found to be there already since it read the list.
            let is_left = |entry: &Entry| plane.left.contains(&entry.path);
            if outgoing.layout.entries().iter().any(is_left) {
                let mut entries = outgoing.layout.entries().to_vec();
                entries.retain(|entry| !is_left(entry));
                outgoing = laid_out(plane, entries, plane.shared.lists.share(), run)?;
            }
            let sent =
                plane.send_from(&outgoing.layout, &*outgoing.source, 0, Some(&outgoing.audit), run);
            outgoing.whole = sent.is_ok();
            plane.tree().outgoing = Some(outgoing);
            sent
        }
        TreePhase::Digests => {
            let outgoing = plane.tree().outgoing.as_ref().ok_or_else(|| out_of_order("data"))?;
            if !outgoing.whole {
                return Err(run.blocks_missing("the data did not go whole".to_owned()));
            }
            let (layout, audit) = (Arc::clone(&outgoing.layout), Arc::clone(&outgoing.audit));
            let len = plane.send_bytes(&VerdictSource::of(&audit, &layout), run)?;
            if plane.names_omissions {
                // The receiver sees which, and not why.
                let (_, unreadable) = audit.finish();
                let named = unreadable
                    .into_iter()
                    .map(|(index, error)| (layout.entries()[index].path.clone(), error));
                run.left_out(&named.collect::<Vec<_>>());
            }
            Ok(len)
        }
    }
}

/// Takes what the tree at `start` will store of what its user may store today: what is `held` of
/// it, and files that have `landed` already, are there.
fn quota_of(
    plane: &DataPlane,
    start: &[u8],
    layout: &Layout,
    held: &ResumeState,
    landed: Option<u64>,
) -> Result<Option<QuotaShare>, Error> {
    let account = plane.account();
    let root = account.access.root();
    let Some(quota) = &account.quota else { return Ok(None) };
    if plane.tree_store().root().is_none() {
        return Ok(None);
    }
    let bytes = layout.payload().saturating_sub(held.blocks.total());
    let is_new = |entry: &&Entry| {
        entry.kind != EntryKind::Directory || root.stat_link(&join(start, &entry.path)).is_err()
    };
    let files = match quota.counts_files() {
        true => layout.entries().iter().filter(is_new).count() as u64,
        false => 0,
    };
    account.take(bytes, files.saturating_sub(landed.unwrap_or(0)), &plane.shared)
}

/// Where what the tree at `path` replaces is kept, if it is. What is kept takes the place of
/// what was kept there before.
fn backup_place(
    plane: &DataPlane,
    path: &Pathname,
    layout: &Layout,
) -> Result<Option<BackupPlace>, Error> {
    let Some((suffix, folder)) = &plane.backup else { return Ok(None) };
    let access = &plane.account().access;
    let Some(folder) = folder else {
        let is_file = |entry: &&Entry| entry.kind != EntryKind::Directory;
        layout.entries().iter().filter(is_file).try_for_each(|entry| {
            let kept = [place_of(path, &entry.path).as_bytes(), &suffix[..]].concat();
            access.check(Deed::Modify, &Pathname::new(kept))
        })?;
        return Ok(Some(BackupPlace::same_folder(suffix.clone())));
    };
    let start = beneath(path);
    let is_one_file = matches!(layout.entries(), [only] if only.path.is_empty()
        && only.kind != EntryKind::Directory);
    // Paths below the folder that it all goes into.
    let base = match start.iter().rposition(|&byte| byte == b'/') {
        Some(slash) if is_one_file => &start[..slash],
        None if is_one_file => b"",
        _ => start,
    };
    access.check(Deed::Modify, folder)?;
    let root = access.root();
    let kept = (Arc::clone(root), beneath(folder).to_vec());
    BackupPlace::in_folder(suffix.clone(), kept, base.to_vec(), root).map(Some)
}

/// Takes memory for a list while it is made, and ends it with its transfer.
fn metered(
    share: &mut ListShare,
    run: &RunningTransfer<'_>,
) -> impl FnMut(u64) -> Result<(), Error> {
    move |bytes| {
        run.cancel.reason().map_or(Ok(()), Err)?;
        share.set(bytes)
    }
}

/// What there is of the file or directory that the client asks for.
fn listed(
    plane: &DataPlane,
    store: &dyn Store,
    path: &Pathname,
    meter: &mut dyn FnMut(u64) -> Result<(), Error>,
) -> Result<Listing, Error> {
    plane.check(Deed::Read, path)?;
    if store.root().is_some() {
        match Files::new(&plane.account().access).stat(path)?.kind {
            ListingKind::Directory | ListingKind::File | ListingKind::Symlink => {}
            _ => {
                let message = "this is neither file nor directory";
                return Err(Error::new(Fault::You, ErrorCode::NotAFile, message));
            }
        }
    }
    store.list_metered(beneath(path), meter)
}

/// Bytes that one of many names takes that is not there, and why it is not, about.
const OF_PROBLEM: u64 = 512;

/// What the client wants of the folder that it names, each as if it were asked for by itself; what
/// is not to be had costs the rest nothing where that is named.
fn listed_only(
    plane: &DataPlane,
    store: &dyn Store,
    run: &RunningTransfer<'_>,
    meter: &mut dyn FnMut(u64) -> Result<(), Error>,
) -> Result<Listing, Error> {
    let path = &run.request.path;
    let mut all = Listing::default();
    let (mut taken, mut is_over) = (0, false);
    for name in plane.only.iter() {
        meter(taken)?;
        let below = |within: &[u8]| join(name, within);
        let listed = listed(plane, store, &path.resolve(&Pathname::new(&name[..])), &mut |bytes| {
            meter(taken + bytes).inspect_err(|_| is_over = true)
        });
        match listed {
            Ok(Listing { entries, problems, linked }) => {
                taken += entries.iter().map(list_memory::weight).sum::<u64>();
                taken += problems.len() as u64 * OF_PROBLEM;
                let entries =
                    entries.into_iter().map(|entry| Entry { path: below(&entry.path), ..entry });
                all.entries.extend(entries);
                let problems = problems.into_iter();
                let problems =
                    problems.map(|problem| WalkProblem { path: below(&problem.path), ..problem });
                all.problems.extend(problems);
                all.linked.extend(linked.into_iter().map(|(within, file)| (below(&within), file)));
            }
            // That the list has to end is none of its names.
            Err(error) if plane.names_omissions && !is_over => {
                all.problems.push(WalkProblem { path: name.clone(), error });
                taken += OF_PROBLEM;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

/// Receives a list of at most `limit` bytes into memory.
fn receive_list(
    plane: &mut DataPlane,
    sink: &dyn Sink,
    limit: usize,
    run: &RunningTransfer<'_>,
) -> Result<(), Error> {
    let layout = Arc::new(Layout::of_file(limit.max(1) as u64, BLOCK_LEN));
    let came =
        plane.receive_into(&layout, sink, None, ByteRanges::new(), run).map_err(|error| {
            if error.code != ErrorCode::BlockOutOfRange {
                return error;
            }
            let message =
                format!("the list has more than the {} that one may have", Bytes(limit as u64));
            Error::new(Fault::There, ErrorCode::ListTooLong, message).hint("copy the tree in parts")
        })?;
    match came.holes {
        true => Err(run.blocks_missing("a list did not arrive whole".to_owned())),
        false => Ok(()),
    }
}

/// A line in the log where there is no memory for a list.
fn say_full(plane: &DataPlane, error: &Error) {
    list_memory::say_full(&plane.shared.notices, plane.client_ip(), error);
}

/// Whether a file did not land for its place or its source, and not for what arrived of it, which
/// may come again.
fn is_final(error: &Error) -> bool {
    !matches!(error.code, ErrorCode::DigestMismatch | ErrorCode::DigestMissing)
}

fn out_of_order(before: &str) -> Error {
    Error::new(
        Fault::You,
        ErrorCode::BadSequence,
        format!("{TREE_MODULE}: `{before}` comes before this"),
    )
}

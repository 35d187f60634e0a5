//! Copies from one server to another: two control connections here, the data straight between them
//! (`docs/protocol.md`, Y-1).

use super::attributes;
use super::by_content::ContentAt;
use super::checksum;
use super::control::Control;
use super::copy::{Copy, known};
use super::existing::{kept_there, refuse_taken, without};
use super::itself;
use super::keep_replaced;
use super::listing::{entry, list_tree};
use super::location::{Remote, trim};
use super::options::Verify;
use super::outcome::DataDirection;
use super::remote_partial::{RemotePartial, ask_for_markers};
use super::selection::DRY_RUN;
use super::transfer_state::TransferState;
use crate::stores::{Parcel, join};
use crate::sys::lock::lock;
use farline_core::copy::{
    Agreement, IdleTimeout, Passes, farline_option, further_held, leave, nameable, of_two_servers,
    parallelism, source_of, tree_part,
};
use farline_core::gridftp::client::{Request, Transfer, TransferKind};
use farline_core::gridftp::{Command, ListingKind, Mode, Pathname};
use farline_core::transfer::journal::{FileFacts, Origin};
use farline_core::transfer::{Entry, EntryKind, TransferParams};
use farline_core::units::{ByteRanges, Bytes, Error, ErrorCode, Fault, Span};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::time::MissedTickBehavior;

/// The two ends.
struct Ends<'a> {
    from: &'a Remote,
    to: &'a Remote,
    sender: Control,
    receiver: Control,
}

pub(super) async fn run(
    copy: &mut Copy<'_>,
    from: &Remote,
    to: &Remote,
    several: bool,
) -> Result<(), Error> {
    let sender = Control::open_for_another(from, &copy.options.reach)
        .await
        .map_err(|error| at(from, error))?;
    let receiver =
        Control::open_for_another(to, &copy.options.reach).await.map_err(|error| at(to, error))?;
    let mut ends = Ends { from, to, sender, receiver };
    ends.sender.require(from).await.map_err(|error| at(from, error))?;
    ends.receiver.require(to).await.map_err(|error| at(to, error))?;
    for (control, remote) in [(&ends.sender, from), (&ends.receiver, to)] {
        if !control.features().is_gridftp {
            let message = format!("{remote} is a plain FTP server, not a GridFTP one");
            return Err(Error::new(Fault::There, ErrorCode::Unsupported, message)
                .hint("copy to this host first, with curl or lftp"));
        }
    }
    permitted(&ends)?;
    if copy.options.limit.is_some() && !ends.sender.limit(copy.options.limit) {
        let message =
            format!("{from} cannot be told to hold a rate, and the data does not pass this host");
        return Err(Error::new(Fault::There, ErrorCode::Unsupported, message)
            .hint("leave --limit out, or copy to this host first"));
    }
    let (entries, is_folder) = listed(copy, &mut ends).await?;
    let target = target(&mut ends, is_folder, several).await?;
    let Ends { sender, receiver, .. } = &mut ends;
    itself::refuse_elsewhere((sender, from, &from.path), (receiver, to, &target)).await?;
    let (entries, left) = chosen(copy, &mut ends, entries, (&target, is_folder)).await?;
    if copy.options.dry_run {
        copy.stats.verified_how = DRY_RUN;
        return Ok(());
    }
    if entries.is_empty() && !left.is_empty() {
        copy.stats.verified_how = "nothing was copied";
        return Ok(());
    }
    let (bytes, files) = (entries.iter().map(Entry::len).sum(), count(&entries));
    copy.live.expect(bytes, files);
    let choice =
        copy.choose(ends.sender.rtt().max(ends.receiver.rtt()), None, Some(Bytes(bytes)), true);
    copy.stats.direction = DataDirection::Elsewhere;
    copy.stats.choice =
        Some(TransferParams { congestion: None, staging: Bytes(0), ..choice.clone() });
    let is_tree = [&ends.sender, &ends.receiver].iter().all(|end| end.features().tree);
    if !is_tree {
        let common = checksum::common(&[&ends.sender, &ends.receiver]);
        checksum::require(copy.options, common, &format!("{from} and {to}"))?;
    }
    let folder = if is_folder && from.path.ends_with(b"/") {
        &target
    } else {
        keep_replaced::folder_of(&target)
    };
    keep_replaced::arrange(copy.options.backup.as_ref(), &mut ends.receiver, to, folder)
        .await
        .map_err(|error| at(to, error))?;
    for (control, remote) in [(&mut ends.sender, from), (&mut ends.receiver, to)] {
        attributes::arrange(copy.options, control, remote).await?;
    }
    if is_tree && !left.is_empty() {
        leave_out(&mut ends, &left).await?;
    }
    tell_congestion(copy, &mut ends).await?;
    arrange(&mut ends, &choice).await?;
    if is_tree {
        as_tree(copy, &mut ends, target, &entries, (bytes, files), &choice).await?;
    } else {
        file_by_file(copy, &mut ends, &target, is_folder, &entries).await?;
    }
    copy.settle();
    Ok(())
}

/// An error with the end that it came from.
fn at(remote: &Remote, error: Error) -> Error {
    error.while_doing(format!("at {remote}"))
}

fn count(entries: &[Entry]) -> u64 {
    entries.iter().filter(|entry| matches!(entry.kind, EntryKind::File { .. })).count() as u64
}

/// Refuses early what a Farline node would refuse without words: connections from elsewhere are
/// closed unread there.
fn permitted(ends: &Ends<'_>) -> Result<(), Error> {
    let features = ends.receiver.features();
    let permits = !features.is_farline || features.third_party;
    if permits || ends.sender.peer()?.ip() == ends.receiver.local()?.ip() {
        return Ok(());
    }
    let message = format!("{} takes data from its own client only", ends.to);
    Err(Error::new(Fault::Refused, ErrorCode::ThirdPartyRefused, message)
        .hint("its operator can allow it with `third_party = true`, or --third-party"))
}

/// Tells the sender which congestion control its data connections are to have, or notes why they
/// have another.
async fn tell_congestion(copy: &mut Copy<'_>, ends: &mut Ends<'_>) -> Result<(), Error> {
    let Some(name) = copy.asked_congestion().map(str::to_owned) else { return Ok(()) };
    if !ends.sender.features().is_farline {
        return copy.congestion_untold(ends.from);
    }
    let id = ends.sender.try_request(farline_option("congestion", &name));
    match ends.sender.done(id).await {
        Ok(_) => copy.stats.congestion = Some(name),
        Err(error) if known(&name).is_err() => return Err(at(ends.from, error)),
        Err(error) => copy.stats.note(format!("without {name}: {}", at(ends.from, error))),
    }
    Ok(())
}

/// What the sender has.
async fn listed(copy: &mut Copy<'_>, ends: &mut Ends<'_>) -> Result<(Vec<Entry>, bool), Error> {
    if let Some(store) = ends.from.store {
        return Ok((vec![store.entry(b"")?], false));
    }
    let from = ends.from;
    let look = ends.sender.request(Request::Stat(Pathname::new(from.path.clone())));
    let top = ends.sender.looked(look).await.map_err(|error| at(from, error))?;
    let top = top.ok_or_else(|| {
        Error::new(Fault::You, ErrorCode::PathNotFound, format!("{from} does not exist"))
    })?;
    if top.kind != ListingKind::Directory {
        return Ok((vec![entry(Vec::new(), &top)], false));
    }
    if !copy.options.recursive {
        return Err(Error::new(
            Fault::You,
            ErrorCode::IsADirectory,
            format!("{from} is a directory"),
        )
        .hint("add -r to copy it with all that is in it"));
    }
    let entries =
        list_tree(copy, &mut ends.sender, &from.path).await.map_err(|error| at(from, error))?;
    Ok((entries, true))
}

/// What of `entries` is to move to `target`, and the paths of what is not: it is not selected, or
/// stays as it is there.
async fn chosen(
    copy: &mut Copy<'_>,
    ends: &mut Ends<'_>,
    entries: Vec<Entry>,
    (target, is_folder): (&[u8], bool),
) -> Result<(Vec<Entry>, Vec<Vec<u8>>), Error> {
    let Ends { from, to, sender, receiver } = ends;
    let top = if is_folder && from.path.ends_with(b"/") { b"" } else { from.name() };
    let selection = &copy.options.selection;
    let (missing, mut omitted) = (selection.missing(&entries), selection.left_out(top, &entries));
    copy.stats.failures.extend(missing);
    refuse_taken(copy, &entries, &mut omitted, |entry| join(trim(target), &entry.path));
    let paths = |entries: &[Entry], which: &BTreeSet<usize>| -> Vec<Vec<u8>> {
        which.iter().map(|&index| entries[index].path.clone()).collect()
    };
    let mut left = paths(&entries, &omitted);
    let entries = without(entries, &omitted);
    let at_source = |index: usize| Pathname::new(join(trim(&from.path), &entries[index].path));
    let content = ContentAt::There(sender, Box::new(at_source));
    let at_target = |entry: &Entry| Pathname::new(join(trim(target), &entry.path));
    let kept = kept_there(copy, receiver, &entries, at_target, Some(content))
        .await
        .map_err(|error| at(to, error))?;
    left.extend(paths(&entries, &kept));
    Ok((without(entries, &kept), left))
}

/// Has the node that sends leave these paths out (T-10).
async fn leave_out(ends: &mut Ends<'_>, left: &[Vec<u8>]) -> Result<(), Error> {
    let Some(requests) =
        leave(left.iter().map(|path| &path[..])).filter(|_| ends.sender.features().leave)
    else {
        let message = format!("{} is of a version that always sends the whole tree", ends.from);
        return Err(Error::new(Fault::There, ErrorCode::Unsupported, message)
            .hint("copy to this host first, or without choosing files"));
    };
    let asked: Vec<u64> = requests.into_iter().map(|line| ends.sender.request(line)).collect();
    for id in asked {
        ends.sender.done(id).await.map_err(|error| at(ends.from, error))?;
    }
    Ok(())
}

/// Where it goes, as rsync has it: into a folder by its name, under the name of what is none.
async fn target(ends: &mut Ends<'_>, is_folder: bool, several: bool) -> Result<Vec<u8>, Error> {
    let to = ends.to;
    if to.store.is_some() || (is_folder && ends.from.path.ends_with(b"/")) {
        return Ok(trim(&to.path).to_vec());
    }
    let mut inside = is_folder || several || to.path.ends_with(b"/");
    if !inside {
        let look = ends.receiver.request(Request::Stat(Pathname::new(to.path.clone())));
        let found = ends.receiver.looked(look).await.map_err(|error| at(to, error))?;
        inside = found.is_some_and(|entry| entry.kind == ListingKind::Directory);
    }
    Ok(if inside { join(trim(&to.path), ends.from.name()) } else { to.path.clone() })
}

/// Has the receiver listen, and tells the sender where.
async fn arrange(ends: &mut Ends<'_>, choice: &TransferParams) -> Result<(), Error> {
    let passive = ends.receiver.request(Request::Passive { mode: Mode::Extended, striped: false });
    let address = ends.receiver.passive(passive).await.map_err(|error| at(ends.to, error))?;
    let parallel = ends.sender.request(parallelism(choice.streams));
    let active =
        ends.sender.request(Request::Active { mode: Mode::Extended, addresses: vec![address] });
    for id in [parallel, active] {
        ends.sender.done(id).await.map_err(|error| at(ends.from, error))?;
    }
    Ok(())
}

/// Two Farline nodes: the tree as one, verified by the receiver.
async fn as_tree(
    copy: &mut Copy<'_>,
    ends: &mut Ends<'_>,
    target: Vec<u8>,
    entries: &[Entry],
    (bytes, files): (u64, u64),
    choice: &TransferParams,
) -> Result<(), Error> {
    let (from, to) = (Pathname::new(ends.from.path.clone()), Pathname::new(target));
    let wants = copy.wants();
    let sends = Agreement::of(ends.sender.features(), &wants);
    let receives = Agreement::of(ends.receiver.features(), &wants);
    let integrity = receives.guarded_as(&sends).integrity;
    let origin = Origin { source: ends.from.source_id(), digests: integrity.digests };
    for (agreement, is_sender) in
        [(sends.guarded_as(&receives), true), (receives.guarded_as(&sends), false)]
    {
        let (end, remote) =
            if is_sender { (&mut ends.sender, ends.from) } else { (&mut ends.receiver, ends.to) };
        let guards = agreement.guards((!is_sender).then_some(&origin));
        let speaks = agreement.adapt(false, false);
        let agreed: Vec<u64> =
            guards.into_iter().chain(speaks).map(|request| end.request(request)).collect();
        for id in agreed {
            end.done(id).await.map_err(|error| at(remote, error))?;
        }
    }
    let mut tree = TreePasses { from, to, bytes, is_listed: false, is_begun: false };
    let mut passes = Passes::default();
    loop {
        if passes.made > 0 {
            // Channels of the pass before are gone at one end at least.
            arrange(ends, choice).await?;
        }
        passes.made += 1;
        let ended = tree.pass(copy, ends).await;
        let error = match ended {
            Ok(()) => break,
            Err(PassError { error, is_over: true }) if integrity.checks => error,
            Err(PassError { error, .. }) => return Err(error),
        };
        let held = lock(&ends.receiver.heard()).all().total();
        passes.failed(error, held)?;
    }
    copy.stats.passes += passes.made;
    copy.stats.bad_blocks += passes.bad_blocks;
    copy.stats.bad_headers += passes.bad_headers;
    copy.stats.bytes += bytes;
    copy.stats.files += files;
    copy.take_unlanded(&ends.receiver, entries);
    copy.verified(integrity);
    for (end, remote) in [(&ends.sender, ends.from), (&ends.receiver, ends.to)] {
        copy.take_limit_of(end, remote);
    }
    Ok(())
}

/// A tree between two nodes, over as many passes as it takes.
struct TreePasses {
    from: Pathname,
    to: Pathname,
    bytes: u64,
    /// Whether the receiver has the list.
    is_listed: bool,
    /// Whether data was asked for before.
    is_begun: bool,
}

impl TreePasses {
    /// Moves what the receiver does not hold.
    async fn pass(&mut self, copy: &mut Copy<'_>, ends: &mut Ends<'_>) -> Result<(), PassError> {
        let store = |part: &str| tree_part(TransferKind::Store, &self.to, part, ByteRanges::new());
        let retrieve = |part: &str, held| tree_part(TransferKind::Retrieve, &self.from, part, held);
        if !self.is_listed {
            let stored = ends.receiver.request(store("manifest"));
            let sent = ends.sender.request(retrieve("manifest", ByteRanges::new()));
            until_over(copy, ends, stored, sent, false).await?;
            copy.take_left_out(&ends.sender);
            self.is_listed = true;
        }
        // Y-3: what the receiver holds is known now, and the sender is told.
        let mut held = lock(&ends.receiver.heard()).all().clone();
        if ends.sender.features().held {
            for request in further_held(&held) {
                ends.sender.request(request);
            }
        } else {
            held = nameable(&held);
        }
        if !std::mem::replace(&mut self.is_begun, true) {
            copy.stats.resumed_bytes += held.total();
        }
        copy.stats.bytes_sent += self.bytes.saturating_sub(held.total());
        let stores = ["data", "digests"].map(|part| ends.receiver.request(store(part)));
        let retrieves = [retrieve("data", nameable(&held)), retrieve("digests", ByteRanges::new())]
            .map(|request| ends.sender.request(request));
        let mut result = Ok(());
        for (index, (store, retrieve)) in stores.into_iter().zip(retrieves).enumerate() {
            // Lists are not payload.
            let ended = until_over(copy, ends, store, retrieve, index == 0).await;
            // The first failure is the cause; the one behind it follows from it.
            result = match (result, ended) {
                (Err(PassError { error, .. }), Err(PassError { is_over: false, .. })) => {
                    Err(PassError { error, is_over: false })
                }
                (Ok(()), ended) => ended,
                (failed, _) => failed,
            };
            if matches!(result, Err(PassError { is_over: false, .. })) {
                break;
            }
        }
        result
    }
}

/// Why a transfer between two servers failed.
struct PassError {
    error: Error,
    /// Whether both ends have said their last word on it, so that another can follow.
    is_over: bool,
}

/// Any other pair: folders first, then each file under a temporary name, then renamed.
async fn file_by_file(
    copy: &mut Copy<'_>,
    ends: &mut Ends<'_>,
    target: &[u8],
    is_folder: bool,
    entries: &[Entry],
) -> Result<(), Error> {
    if ends.to.store.is_some() || ends.from.store.is_some() {
        let message = "stores without a disk need Farline at both ends of a third-party copy";
        return Err(Error::new(Fault::You, ErrorCode::Unsupported, message));
    }
    let folders = entries
        .iter()
        .filter(|entry| entry.kind == EntryKind::Directory)
        .map(|entry| join(target, &entry.path));
    let above =
        if is_folder { vec![trim(&ends.to.path).to_vec(), target.to_vec()] } else { Vec::new() };
    for folder in above.into_iter().chain(folders) {
        let id =
            ends.receiver.request(Request::Exec(Command::MakeDirectory(Pathname::new(folder))));
        match ends.receiver.done(id).await {
            Err(error) if error.code != ErrorCode::PathExists => return Err(at(ends.to, error)),
            _ => {}
        }
    }
    ask_for_markers(&mut ends.receiver);
    let (here, there) = (ends.from.place(), ends.to.place());
    for entry in entries {
        match entry.kind {
            EntryKind::File { .. } => {}
            EntryKind::Directory | EntryKind::There { .. } => continue,
            EntryKind::Symlink { .. } => {
                let error = Error::new(
                    Fault::There,
                    ErrorCode::Unsupported,
                    "a server that is not Farline cannot make symbolic links",
                );
                copy.stats.failures.push((entry.path.clone(), error));
                continue;
            }
        }
        let source = match entry.path.is_empty() {
            true => ends.from.path.clone(),
            false => join(trim(&ends.from.path), &entry.path),
        };
        let path = join(target, &entry.path);
        if copy.has_landed(&path, entry) {
            continue;
        }
        let identity = source_of(&here, [&source[..]].into_iter());
        let facts = FileFacts::of(entry);
        let parcel = Parcel { server: &there, target: &path, source: identity, facts };
        let mut partial = RemotePartial::begin(copy, &mut ends.receiver, parcel, false)
            .await
            .map_err(|error| at(ends.to, error))?;
        let store = partial.store(&mut ends.receiver);
        let retrieve = ends.sender.request(Request::Transfer(Transfer::new(
            TransferKind::Retrieve,
            Pathname::new(source.clone()),
        )));
        let moved = match until_over(copy, ends, store, retrieve, true).await {
            Ok(()) => compare(copy, ends, Pathname::new(source), partial.temporary()).await,
            Err(PassError { error, .. }) => Err(error),
        };
        if let Err(error) = moved {
            partial.abandon(&mut ends.receiver, &error).await;
            return Err(error);
        }
        copy.stats.bytes_sent += entry.len();
        partial.land(&mut ends.receiver).await.map_err(|error| at(ends.to, error))?;
        copy.land_one(&path, entry);
    }
    checksum::conclude(copy, count(entries));
    Ok(())
}

/// Has both servers compute the checksum of a file that has moved, and compares them.
async fn compare(
    copy: &mut Copy<'_>,
    ends: &mut Ends<'_>,
    source: Pathname,
    target: Pathname,
) -> Result<(), Error> {
    let Some(shared) = checksum::common(&[&ends.sender, &ends.receiver])
        .filter(|_| copy.options.verify == Verify::Digest)
    else {
        return Ok(());
    };
    checksum::ask_for_markers(&mut ends.sender);
    checksum::ask_for_markers(&mut ends.receiver);
    let sent = checksum::ask(&mut ends.sender, shared, source);
    let stored = checksum::ask(&mut ends.receiver, shared, target.clone());
    let Ends { from, to, sender, receiver } = ends;
    let (sent, stored) = tokio::select! {
        both = async { tokio::join!(sender.done(sent), receiver.done(stored)) } => both,
        reason = copy.options.stop.asked() => return Err(reason),
    };
    let both = sent.map_err(|error| at(from, error)).and_then(|sent| {
        let stored = stored.map_err(|error| at(to, error))?;
        Ok((checksum::said(&sent), checksum::said(&stored)))
    });
    let (sent, stored) = match both {
        Ok(both) => both,
        Err(error) => return checksum::not_compared(copy, error),
    };
    checksum::judge(copy, shared, &target, [(&stored, &to.to_string()), (&sent, &from.to_string())])
}

/// Waits for both ends' last words on one transfer. The first that fails ends the wait soon: the
/// other may wait for it.
async fn until_over(
    copy: &mut Copy<'_>,
    ends: &mut Ends<'_>,
    store: u64,
    retrieve: u64,
    payload: bool,
) -> Result<(), PassError> {
    let failed = |first: Error, second: Option<Result<(), Error>>| PassError {
        is_over: second.is_some(),
        error: of_two_servers(first, second.and_then(Result::err)),
    };
    let ended = |error: Error| PassError { error, is_over: true };
    let broken = |error: Error| PassError { error, is_over: false };
    let moving = Instant::now();
    let (moved, ignored) = (AtomicU64::new(0), AtomicU64::new(0));
    let base = copy.live.tally.bytes();
    let heard = [ends.sender.heard(), ends.receiver.heard()];
    let mut idle = IdleTimeout::new(copy.now(), ends.sender.idle_timeout().map(Span::from));
    let names = format!("{} or {}", ends.from, ends.to);
    let Ends { from, to, sender, receiver } = ends;
    let both = async {
        let stored =
            async { receiver.transferred(store, &moved).await.map_err(|error| at(to, error)) };
        let sent =
            async { sender.transferred(retrieve, &ignored).await.map_err(|error| at(from, error)) };
        tokio::pin!(stored, sent);
        tokio::select! {
            first = &mut stored => match first {
                Ok(_) => sent.await.map(drop).map_err(ended),
                Err(error) => Err(failed(error, patient(sent).await)),
            },
            first = &mut sent => match first {
                Ok(_) => stored.await.map(drop).map_err(ended),
                Err(error) => Err(failed(error, patient(stored).await)),
            },
        }
    };
    tokio::pin!(both);
    let mut tick = tokio::time::interval(Duration::from_millis(200));
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let result = loop {
        tokio::select! {
            result = &mut both => break result,
            _ = tick.tick() => {
                if payload {
                    progress(copy, base + moved.load(Ordering::Relaxed));
                }
                if let Some(reason) = copy.options.stop.reason() {
                    break Err(broken(reason));
                }
                // A receiver goes on to say that nothing comes: of payload, words alone are no sign
                // of life.
                let words = heard.iter().filter_map(|heard| lock(heard).at()).max().filter(|_| !payload);
                let (words, moved) = (words.map(|at| copy.time_of(at)), moved.load(Ordering::Relaxed));
                if let Some(error) = idle.check(copy.now(), &names, moved, words, false) {
                    break Err(broken(error));
                }
            }
        }
    };
    copy.stats.moving = copy.stats.moving + moving.elapsed().into();
    result
}

fn progress(copy: &mut Copy<'_>, bytes: u64) {
    let live: &TransferState = &copy.live;
    live.tally.add_bytes(usize::try_from(bytes.saturating_sub(live.tally.bytes())).unwrap_or(0));
    copy.show();
}

/// What the other end says when one has failed, if it says it soon.
async fn patient<T>(other: impl Future<Output = Result<T, Error>>) -> Option<Result<(), Error>> {
    let ended = tokio::time::timeout(Duration::from_secs(2), other).await;
    ended.ok().map(|result| result.map(drop))
}

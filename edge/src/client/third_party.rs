//! Copies from one server to another: two control connections here, the data straight between them
//! (`docs/protocol.md`, Y-1).

mod ends;
mod files;
mod tree;

use super::attributes;
use super::by_content::ContentAt;
use super::checksum;
use super::connect_options::ConnectOptions;
use super::control::Control;
use super::copy::{Copy, known};
use super::existing::{kept_there, without};
use super::itself;
use super::keep_replaced;
use super::listing::{entry, list_tree};
use super::location::{ControlTransport, Remote, trim};
use super::outcome::{DataDirection, OtherServer};
use super::selection::DRY_RUN;
use super::unheard;
use crate::stores::{join, journal_path};
use ends::{Ends, at};
use farline_core::copy::{DataEnd, farline_option, leave};
use farline_core::gridftp::client::Request;
use farline_core::gridftp::{ListingKind, Pathname};
use farline_core::transfer::{Entry, TransferParams};
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Setting, Span};
use files::Target;
use std::collections::BTreeSet;
use std::time::Instant;

pub(super) async fn run(
    copy: &mut Copy<'_>,
    from: &Remote,
    to: &Remote,
    several: bool,
) -> Result<(), Error> {
    let (mut ends, is_private) = open(copy, from, to).await?;
    let (entries, is_folder) = listed(copy, &mut ends).await?;
    let target = target(&mut ends, is_folder, several).await?;
    let Ends { sender, receiver, .. } = &mut ends;
    itself::refuse_elsewhere((sender, from, &from.path), (receiver, to, &target)).await?;
    let (mut entries, mut left) = chosen(copy, &mut ends, entries, &target).await?;
    if copy.has_arrived && is_tree(&ends) {
        let landed = landed_unheard(copy, &mut ends, &entries, &target).await?;
        left.extend(landed.iter().map(|&index| entries[index].path.clone()));
        entries = without(entries, &landed);
    }
    if copy.options.dry_run {
        copy.stats.verified_how = DRY_RUN;
        return Ok(());
    }
    if entries.is_empty() && !left.is_empty() {
        if copy.of_source().0 == 0 {
            copy.stats.verified_how = "nothing was copied";
        }
        return Ok(());
    }
    let (bytes, count) = (entries.iter().map(Entry::len).sum(), files::count(&entries));
    copy.state.expect(bytes, count);
    // A driver of this host's says nothing of these channels.
    copy.stats.direction = DataDirection::Elsewhere;
    let params =
        copy.choose(ends.sender.rtt().max(ends.receiver.rtt()), None, Some(Bytes(bytes)), true);
    copy.stats.direction = DataDirection::Elsewhere;
    copy.stats.encrypted = Some(is_private);
    copy.stats.params =
        Some(TransferParams { congestion: None, staging: Bytes(0), ..params.clone() });
    let is_tree = is_tree(&ends);
    if !is_tree {
        let common = checksum::common(&[&ends.sender, &ends.receiver]);
        checksum::require(copy.options, common, &format!("{from} and {to}"))?;
    }
    let folder = if is_folder && from.path.ends_with(b"/") {
        &target
    } else {
        keep_replaced::folder_of(&target)
    };
    tell_wishes(copy, &mut ends, folder).await?;
    if is_tree && !left.is_empty() {
        leave_out(&mut ends, &left).await?;
    }
    if is_tree {
        tree::copy(copy, &mut ends, target, &entries, params.streams).await?;
    } else {
        let there = Target { path: &target, is_folder, folder };
        files::copy(copy, &mut ends, there, &entries, params.streams).await?;
    }
    copy.end_transfer();
    Ok(())
}

/// Opens a session with each of the two, in which data may go from one to the other. Returns
/// whether it goes encrypted, too.
async fn open<'a>(
    copy: &mut Copy<'_>,
    from: &'a Remote,
    to: &'a Remote,
) -> Result<(Ends<'a>, bool), Error> {
    let options = copy.options;
    let connect = &options.connect;
    let mut began = Instant::now();
    let mut met = |remote: &Remote| {
        let opening = Span::from(began.elapsed());
        began = Instant::now();
        OtherServer { name: remote.host_and_port(), opening, limited: None }
    };
    let sender = Control::open_for_another(from, connect).await.map_err(|error| at(from, error))?;
    let first = met(from);
    let receiver = Control::open_for_another(to, connect).await.map_err(|error| at(to, error))?;
    copy.stats.meet_others([first, met(to)]);
    let mut ends = Ends::new((from, sender), (to, receiver));
    ends.sender.require(from).await.map_err(|error| at(from, error))?;
    ends.receiver.require(to).await.map_err(|error| at(to, error))?;
    for (control, remote) in [(&ends.sender, from), (&ends.receiver, to)] {
        if !control.features().is_gridftp {
            let message = format!("{remote} is a plain FTP server, not a GridFTP one");
            return Err(Error::new(Fault::There, ErrorCode::Unsupported, message).hint(
                "copy to this host first, and from here on: both ways work with plain servers",
            ));
        }
    }
    permitted(&ends)?;
    let is_private = protect(&mut ends, connect).await?;
    // Who asked for a driver that encrypts gets encryption or nothing.
    if let Some(stack) = copy.options.channel.as_ref().filter(|one| one.is_encrypted())
        && !is_private
    {
        let message =
            format!("data from {from} to {to} goes in the clear, and {stack} was asked for");
        return Err(Error::new(Fault::Refused, ErrorCode::CannotEncrypt, message)
            .hint(format!("leave {} out, or copy to this host first", Setting::Channel)));
    }
    if copy.options.limit.is_some() && !ends.sender.limit(copy.options.limit) {
        let message =
            format!("{from} cannot be told to hold a rate, and the data does not pass this host");
        return Err(Error::new(Fault::There, ErrorCode::Unsupported, message)
            .hint(format!("leave {} out, or copy to this host first", Setting::Limit)));
    }
    Ok((ends, is_private))
}

/// Tells both servers what the copy asks of them before anything moves; `folder` is the one at the
/// receiver of which it is to keep what it replaces.
async fn tell_wishes(copy: &mut Copy<'_>, ends: &mut Ends<'_>, folder: &[u8]) -> Result<(), Error> {
    let to = ends.to;
    keep_replaced::arrange(copy.options.backup.as_ref(), &mut ends.receiver, to, folder)
        .await
        .map_err(|error| at(to, error))?;
    for (control, remote) in [(&mut ends.sender, ends.from), (&mut ends.receiver, to)] {
        attributes::arrange(copy.options, control, remote).await?;
    }
    tell_congestion(copy, ends).await
}

/// Has data connections between two servers of a grid show whose they are, and encrypted as they
/// are between this host and either; with a server that knows no proxies they are anybody's.
/// Returns whether they are encrypted.
async fn protect(ends: &mut Ends<'_>, connect: &ConnectOptions) -> Result<bool, Error> {
    let by_gsi = [ends.from, ends.to].map(|remote| remote.transport == ControlTransport::Gsi);
    match by_gsi {
        [true, true] => {
            let is_private =
                ends.sender.encrypts_grid(connect) || ends.receiver.encrypts_grid(connect);
            for end in [DataEnd::Sender, DataEnd::Receiver] {
                let (control, remote) = ends.of(end);
                control.protect_grid(is_private);
                control.data_security().await.map_err(|error| at(remote, error))?;
            }
            Ok(is_private)
        }
        [false, false] => Ok(false),
        _ if !connect.no_encrypt => {
            let message = "one of these servers knows no proxies: whose the data between them is \
                cannot be shown";
            Err(Error::new(Fault::Refused, ErrorCode::CannotEncrypt, message).hint(format!(
                "let it go to whoever connects with {}, or copy to this host first",
                Setting::NoEncrypt
            )))
        }
        [is_sender, _] => {
            let (control, remote) =
                ends.of(if is_sender { DataEnd::Sender } else { DataEnd::Receiver });
            control.unprotect_grid().await.map_err(|error| at(remote, error))?;
            Ok(false)
        }
    }
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
    Err(Error::new(Fault::Refused, ErrorCode::ThirdPartyRefused, message).hint(format!(
        "its operator can allow it with `third_party = true`, or {}",
        Setting::ThirdParty
    )))
}

/// Tells the sender which congestion control its data connections are to have, or notes why they
/// have another.
async fn tell_congestion(copy: &mut Copy<'_>, ends: &mut Ends<'_>) -> Result<(), Error> {
    let Some(name) = copy.asked_congestion() else { return Ok(()) };
    if !ends.sender.features().is_farline {
        return copy.congestion_untold(ends.from);
    }
    let id = ends.sender.try_request(farline_option("congestion", name.as_str()));
    match ends.sender.done(id).await {
        Ok(_) => copy.stats.congestion = Some(name),
        Err(error) if known(name).is_err() => return Err(at(ends.from, error)),
        Err(error) => copy.stats.note(format!("without {name}: {}", at(ends.from, error))),
    }
    Ok(())
}

/// What the sender has.
async fn listed(copy: &mut Copy<'_>, ends: &mut Ends<'_>) -> Result<(Vec<Entry>, bool), Error> {
    if let Some(store) = &ends.from.store {
        return Ok((store.listed()?, false));
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
    let (entries, mut problems) =
        list_tree(copy, &mut ends.sender, &from.path).await.map_err(|error| at(from, error))?;
    if is_tree(ends) {
        // A tree goes by the sender's own list, which holds every name, and says what it leaves
        // out.
        let all = problems.len();
        problems.retain(|problem| problem.error.code != ErrorCode::BadListing);
        if problems.len() < all {
            copy.stats
                .note(format!("not counted: {} names that no list holds", all - problems.len()));
        }
    }
    copy.note_problems(from.name_within(), &entries, problems);
    Ok((entries, true))
}

/// Whether it moves as one tree.
fn is_tree(ends: &Ends<'_>) -> bool {
    [&ends.sender, &ends.receiver].iter().all(|end| end.features().tree)
}

/// What of `entries` is to move to `target`, and the paths of what is not: it is not selected, or
/// stays as it is there.
async fn chosen(
    copy: &mut Copy<'_>,
    ends: &mut Ends<'_>,
    entries: Vec<Entry>,
    target: &[u8],
) -> Result<(Vec<Entry>, Vec<Vec<u8>>), Error> {
    let Ends { from, to, sender, receiver, .. } = ends;
    let top = from.name_within();
    let selection = &copy.options.selection;
    let (missing, mut omitted) = (selection.missing(&entries), selection.left_out(top, &entries));
    copy.stats.failures.extend(missing);
    let goes_to = |entry: &Entry| join(trim(target), &entry.path);
    let taken = copy.claimed.refuse_taken(copy.source, &entries, &mut omitted, goes_to);
    copy.stats.failures.extend(taken);
    let paths = |entries: &[Entry], which: &BTreeSet<usize>| -> Vec<Vec<u8>> {
        which.iter().map(|&index| entries[index].path.clone()).collect()
    };
    let mut left = paths(&entries, &omitted);
    let entries = without(entries, &omitted);
    let at_source = |index: usize| Pathname::new(join(trim(&from.path), &entries[index].path));
    let content = ContentAt::There(sender, Box::new(at_source));
    let at_target = |entry: &Entry| Pathname::new(join(trim(target), &entry.path));
    let kept =
        kept_there(copy, receiver, copy.options.existing, &entries, at_target, Some(content))
            .await
            .map_err(|error| at(to, error))?;
    let kept = kept.all();
    left.extend(paths(&entries, &kept));
    Ok((without(entries, &kept), left))
}

/// Which of `entries` an attempt before this one brought to the receiver, by their number.
async fn landed_unheard(
    copy: &mut Copy<'_>,
    ends: &mut Ends<'_>,
    entries: &[Entry],
    target: &[u8],
) -> Result<BTreeSet<usize>, Error> {
    let Ends { from, to, sender, receiver, .. } = ends;
    // What has landed can be left out of the rest of a tree by its sender alone.
    if !sender.features().leave && entries.len() > 1 {
        return Ok(BTreeSet::new());
    }
    let first = |path: &[u8]| path.split(|&byte| byte == b'/').next().unwrap_or_default().to_vec();
    let names = entries.iter().map(|entry| first(&entry.path)).collect();
    let journals = [BTreeSet::from([Vec::new()]), names];
    let journals = journals.map(|names| Pathname::new(journal_path(target, names)));
    if unheard::is_left_at(receiver, journals.into()).await {
        return Ok(BTreeSet::new());
    }
    let at_source = |index: usize| Pathname::new(join(trim(&from.path), &entries[index].path));
    let content = ContentAt::There(sender, Box::new(at_source));
    let at_target = |entry: &Entry| Pathname::new(join(trim(target), &entry.path));
    unheard::landed(copy, receiver, entries, at_target, content)
        .await
        .map_err(|error| at(to, error))
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

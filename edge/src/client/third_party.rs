//! Copies from one server to another: two control connections here, the data straight between them
//! (`docs/protocol.md`, Y-1).

mod ends;
mod files;
mod tree;

use super::checksum;
use super::control::Control;
use super::copy::{Copy, known};
use super::itself;
use super::listing::{entry, list_tree};
use super::location::{Remote, trim};
use super::outcome::DataDirection;
use crate::stores::join;
use ends::{Ends, at};
use farline_core::copy::{Existing, farline_option};
use farline_core::gridftp::client::Request;
use farline_core::gridftp::{ListingKind, Pathname};
use farline_core::transfer::{Entry, TransferParams};
use farline_core::units::{Bytes, Error, ErrorCode, Fault};
use files::Target;

pub(super) async fn run(
    copy: &mut Copy<'_>,
    from: &Remote,
    to: &Remote,
    several: bool,
) -> Result<(), Error> {
    if copy.options.existing != Existing::Replace {
        let message = "between two other hosts what is there is replaced: --no-clobber and \
            --skip-same cannot be kept";
        return Err(
            Error::new(Fault::You, ErrorCode::Unsupported, message).hint("copy to this host first")
        );
    }
    if copy.options.dry_run || !copy.options.selection.is_all() {
        let message = "between two other hosts all is copied: --dry-run, --filter and what else \
            chooses files cannot be kept";
        return Err(
            Error::new(Fault::You, ErrorCode::Unsupported, message).hint("copy to this host first")
        );
    }
    let sender = Control::open_for_another(from, &copy.options.reach)
        .await
        .map_err(|error| at(from, error))?;
    let receiver =
        Control::open_for_another(to, &copy.options.reach).await.map_err(|error| at(to, error))?;
    let mut ends = Ends::new((from, sender), (to, receiver));
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
    let (bytes, count) = (entries.iter().map(Entry::len).sum(), files::count(&entries));
    copy.live.expect(bytes, count);
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
    tell_congestion(copy, &mut ends).await?;
    if is_tree {
        tree::copy(copy, &mut ends, target, &entries, choice.streams).await?;
    } else {
        let there = Target { path: &target, is_folder };
        files::copy(copy, &mut ends, there, &entries, choice.streams).await?;
    }
    copy.settle();
    Ok(())
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

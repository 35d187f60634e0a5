//! `--archive` and the flags that it stands for: told to the nodes of a copy before anything moves,
//! and set on what is there already.

use super::control::Control;
use super::copy::Copy;
use super::destination::Destination;
use super::location::{Location, Remote};
use super::options::{Options, Verify};
use crate::mover::BLOCK_LEN;
use crate::stores::join;
use farline_core::copy::{Existing, farline_option};
use farline_core::transfer::{Entry, EntryKind, Layout};
use farline_core::units::{Error, ErrorCode, Fault, Setting};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Has `control`'s node read, or set, what was asked for.
///
/// # Errors
/// When it is no Farline node, or one that cannot.
pub(super) async fn arrange(
    options: &Options,
    control: &mut Control,
    remote: &Remote,
) -> Result<(), Error> {
    if options.attributes.is_empty() {
        return Ok(());
    }
    if !control.features().attributes {
        let message =
            format!("{remote}: only a Farline node of this version keeps {}", in_words(options));
        return Err(Error::new(Fault::There, ErrorCode::Unsupported, message)
            .hint(format!("copy without -a, -o, -g, -H, -A, -X and {}", Setting::DigestXattr)));
    }
    let id = control.request(farline_option("attributes", &options.attributes.words()));
    control.done(id).await.map(drop)
}

fn in_words(options: &Options) -> String {
    let set = options.attributes;
    let named = [
        ("owners", set.owner),
        ("groups", set.group),
        ("hard links", set.hard_links),
        ("ACLs", set.acls),
        ("extended attributes", set.extended),
        ("digests", set.digest),
    ];
    let words: Vec<&str> =
        named.into_iter().filter_map(|(word, is_set)| is_set.then_some(word)).collect();
    words.join(", ")
}

/// Refuses what neither end keeps.
///
/// # Errors
/// When an end is a pipe or a store without files, there will be no digest to keep, or a link would
/// replace what is to stay.
pub(super) fn require(options: &Options, ends: &[Location]) -> Result<(), Error> {
    let has_none = |end: &&Location| match end {
        Location::Standard | Location::Store(_) => true,
        Location::Remote(remote) => remote.store.is_some(),
        Location::Local(_) => false,
    };
    if options.attributes.digest && matches!(options.verify, Verify::None | Verify::Checksum) {
        let message = format!("{} keeps digests, and none is computed", Setting::DigestXattr);
        return Err(Error::new(Fault::You, ErrorCode::Usage, message).hint(format!(
            "leave {} out, or say {} blake3",
            Setting::Verify,
            Setting::Verify
        )));
    }
    // A further name of a file has the place of what has that name, and may be one of what stays
    // with other content.
    if options.attributes.hard_links && options.existing == Existing::Keep {
        let message = format!(
            "a hard link takes the place of what is there, which {} leaves alone",
            Setting::NoClobber
        );
        let hint = format!("copy without -a and -H, or without {}", Setting::NoClobber);
        return Err(Error::new(Fault::You, ErrorCode::Usage, message).hint(hint));
    }
    match ends.iter().find(has_none).filter(|_| !options.attributes.is_empty()) {
        None => Ok(()),
        Some(end) => {
            let message = format!("{end} keeps no {}", in_words(options));
            Err(Error::new(Fault::You, ErrorCode::Unsupported, message))
        }
    }
}

/// Which of `entries`, of a source that goes to `place` under the name `top`, have nothing to do
/// with what stands there, by their number: what is not selected, and what goes where another
/// source went. They give that neither attributes nor further names.
pub(super) fn left_alone(
    copy: &Copy<'_>,
    place: &Destination,
    top: &[u8],
    entries: &[Entry],
) -> BTreeSet<usize> {
    let mut left = copy.options.selection.left_out(top, entries);
    if let Some((_, start)) = place.at() {
        let at = |entry: &Entry| join(start, &entry.path);
        left.extend(copy.claimed.taken_from(copy.source, entries, at));
    }
    left
}

/// Makes those of `kept` what stays of the tree, but for its attributes.
pub(super) fn stay(entries: &mut [Entry], kept: &BTreeSet<usize>) {
    for &index in kept {
        let entry = &mut entries[index];
        if matches!(entry.kind, EntryKind::File { .. }) {
            entry.kind = EntryKind::There { at: entry.path.as_slice().into() };
        }
    }
}

/// Sets the attributes of `entries`, which stay at `place` of this host.
///
/// # Errors
/// When the place cannot be claimed.
pub(super) async fn settle_here(
    copy: &mut Copy<'_>,
    place: &Destination,
    entries: Vec<Entry>,
) -> Result<(), Error> {
    if entries.is_empty() {
        return Ok(());
    }
    let sink = place.sink(&Arc::new(Layout::new(entries, BLOCK_LEN)), copy.options)?;
    let landed = copy.supervise(None, move |state| Ok(state.alone(|| sink.land(None)))).await?;
    copy.take_landed(landed);
    Ok(())
}

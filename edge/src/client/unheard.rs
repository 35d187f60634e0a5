//! What an attempt had brought whole to its node when the word that it landed was lost: the next
//! one compares what is there before any of it is sent again.

use super::by_content::{self, ContentAt};
use super::checksum;
use super::control::Control;
use super::copy::Copy;
use super::existing::kept_there;
use farline_core::copy::Existing;
use farline_core::gridftp::Pathname;
use farline_core::gridftp::client::Request;
use farline_core::transfer::{Entry, EntryKind};
use farline_core::units::{Error, Retry};
use std::collections::BTreeSet;

/// Less than this is sent again: after a crash no more is, either.
const WORTH_COMPARING: u64 = 64 << 20;

/// Whether the node has one of the journals that it was asked for.
pub(super) async fn has_left(control: &mut Control, asked: Vec<u64>) -> bool {
    let mut is_left = false;
    for look in asked {
        // What may not be looked at is not known of; what is held is then learned while data goes.
        is_left |= matches!(control.looked(look).await, Ok(Some(_)));
    }
    is_left
}

/// The same of journals at these paths, which it was not asked for yet.
pub(super) async fn is_left_at(control: &mut Control, journals: Vec<Pathname>) -> bool {
    let look = |journal: Pathname| control.try_request(Request::Stat(journal));
    let asked = journals.into_iter().map(look).collect();
    has_left(control, asked).await
}

/// Which files of `entries`, by their number, have landed at `receiver` as they are at their
/// `source`; they are counted. `at` says where each goes.
///
/// # Errors
/// When the ends cannot be asked any more.
pub(super) async fn landed(
    copy: &mut Copy<'_>,
    receiver: &mut Control,
    entries: &[Entry],
    at: impl Fn(&Entry) -> Pathname + Send + Sync,
    source: ContentAt<'_>,
) -> Result<BTreeSet<usize>, Error> {
    let payload: u64 = entries.iter().map(Entry::len).sum();
    let is_asked = copy.options.existing == Existing::Replace && copy.options.attributes.is_empty();
    let common = match &source {
        ContentAt::Here(_) => checksum::common(&[&*receiver]),
        ContentAt::There(sender, _) => checksum::common(&[&**sender, &*receiver]),
    };
    let Some(algorithm) = common.filter(|_| is_asked && payload >= WORTH_COMPARING) else {
        return Ok(BTreeSet::new());
    };
    let same = kept_there(copy, receiver, Existing::KeepSame, entries, &at, None).await?;
    let is_file = |index: &usize| matches!(entries[*index].kind, EntryKind::File { .. });
    let files: Vec<(usize, u64)> =
        same.kept.into_iter().filter(is_file).map(|index| (index, entries[index].len())).collect();
    let there = ContentAt::There(receiver, Box::new(|index: usize| at(&entries[index])));
    let landed = match by_content::same(copy, (source, there), &files).await {
        Ok(landed) => landed,
        // A node that sums nothing is sent all of it again.
        Err(error) if error.retry() == Retry::Never => BTreeSet::new(),
        Err(error) => return Err(error),
    };
    for &index in &landed {
        // What was held of the tree is known of the attempt that brought it.
        copy.land_one(at(&entries[index]).as_bytes(), &entries[index], 0);
    }
    if !landed.is_empty() {
        copy.stats.compared += landed.len() as u64;
        copy.stats.verified = true;
        copy.stats.verified_how = checksum::compared_how(algorithm);
        copy.end_transfer();
    }
    Ok(landed)
}

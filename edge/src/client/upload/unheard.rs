//! What an attempt had brought whole to its node when the word that it landed was lost: the next
//! one compares what is there before it sends any of it again.

use super::place_of;
use crate::client::by_content::{self, ContentAt};
use crate::client::checksum;
use crate::client::control::Control;
use crate::client::copy::Copy;
use crate::client::existing::kept_there;
use crate::client::source_set::SourceSet;
use crate::stores::place_in;
use farline_core::copy::Existing;
use farline_core::transfer::{Entry, EntryKind};
use farline_core::units::{Error, Retry};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Less than this is sent again: after a crash no more is, either.
const WORTH_COMPARING: u64 = 64 << 20;

/// Counts the files of `set` that have landed as they are here, and leaves them out.
///
/// # Errors
/// When the node cannot be asked any more.
pub(super) async fn leave_out(
    copy: &mut Copy<'_>,
    control: &mut Control,
    set: &mut SourceSet,
) -> Result<(), Error> {
    let payload: u64 = set.entries.iter().map(Entry::len).sum();
    let is_asked = copy.options.existing == Existing::Replace && copy.options.attributes.is_empty();
    let Some(parts) = set.parts().filter(|_| is_asked && payload >= WORTH_COMPARING) else {
        return Ok(());
    };
    let (entries, target) = (&set.entries, &set.target);
    let Some(algorithm) = checksum::common(&[&*control]) else { return Ok(()) };
    let skipped = copy.stats.skipped.len();
    let at = |entry: &Entry| place_of(target, entry);
    let same = kept_there(copy, control, Existing::KeepSame, entries, at, None).await?;
    // They were not there before this copy.
    copy.stats.skipped.truncate(skipped);
    let is_file = |index: &usize| matches!(entries[*index].kind, EntryKind::File { .. });
    let files: Vec<(usize, u64)> =
        same.into_iter().filter(is_file).map(|index| (index, entries[index].len())).collect();
    let here = ContentAt::Here(Box::new(|index: usize| {
        let (root, path) = place_in(parts, index, &entries[index].path);
        (Arc::clone(root), path)
    }));
    let there = ContentAt::There(control, Box::new(|index| at(&entries[index])));
    let landed = match by_content::same(copy, (here, there), &files).await {
        Ok(landed) => landed,
        // A node that sums nothing is sent all of it again.
        Err(error) if error.retry() == Retry::Never => BTreeSet::new(),
        Err(error) => return Err(error),
    };
    for &index in &landed {
        copy.land_one(at(&entries[index]).as_bytes(), &entries[index]);
    }
    if !landed.is_empty() {
        copy.stats.compared += landed.len() as u64;
        copy.stats.verified = true;
        copy.stats.verified_how = checksum::compared_how(algorithm);
        copy.settle();
    }
    set.leave_out(&landed);
    Ok(())
}

//! `--no-clobber`, `--skip-same` and `--checksum`: which files stay as they are at the destination.
//!
//! They are looked at before data moves, not under a lock: a file that another process makes
//! meanwhile is replaced, whole, as ever.
//!
//! What is found there tells too which of the tree's names are one at the destination
//! ([`FoundFiles`]).

use super::by_content::{self, ContentAt};
use super::control::Control;
use super::copy::Copy;
use super::destination::Destination;
use super::extraneous::is_below;
use super::listing;
use super::one_name::FoundFiles;
use super::selection::PlannedFile;
use crate::stores::{join, name_of_another, stat_entry};
use farline_core::copy::{CopyReason, Existing, is_of_one_place};
use farline_core::gridftp::client::Request;
use farline_core::gridftp::{Command, CommandOptions as Opts, Fact, FactSet, Pathname};
use farline_core::transfer::{Entry, EntryKind, Layout};
use farline_core::units::{ByteRanges, Error, ErrorCode, Fault};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// Bytes of looks asked for at once: no more than any kernel holds, so that neither end waits for
/// the other to read, and enough that ten thousand take a few round trips.
const LOOKED_AT_ONCE: usize = 48 << 10;
/// The facts by which a file is the same, and by which it is another's of the tree. A node says of
/// a link what it leads to, unless it is asked where that is.
const COMPARED: FactSet = FactSet::NONE
    .with(Fact::Type)
    .with(Fact::Size)
    .with(Fact::Modify)
    .with(Fact::UnixSlink)
    .with(Fact::Unique)
    .with(Fact::UnixNlink);
/// Of one look, next to its path.
const LOOK_LEN: usize = 7;
/// How files were verified that an attempt landed and did not hear of.
const LANDED_BEFORE: &str = "not verified: the connection was lost on which that was to be said";

/// Entries of a source that do not come, by their number.
#[derive(Debug, Default)]
pub(super) struct Omitted {
    /// They stay as they are at the destination.
    pub(super) kept: BTreeSet<usize>,
    /// They are not selected, or refused.
    pub(super) left: BTreeSet<usize>,
}

impl Omitted {
    /// All of them.
    pub(super) fn all(&self) -> BTreeSet<usize> {
        self.kept.union(&self.left).copied().collect()
    }
}

/// Which of `entries`, of a source that goes under the name `top`, do not come to this host; names
/// of what stays are noted. `from` says where their bytes are, where they are files.
///
/// # Errors
/// When contents are to be compared, and cannot be.
pub(super) async fn omitted_here(
    copy: &mut Copy<'_>,
    place: Option<&Destination>,
    top: &[u8],
    entries: &[Entry],
    from: Option<ContentAt<'_>>,
) -> Result<Omitted, Error> {
    let mut left = copy.options.selection.left_out(top, entries);
    let missing = copy.options.selection.missing(entries);
    copy.stats.failures.extend(missing);
    if let Some((_, start)) = place.and_then(Destination::at) {
        let at = |entry: &Entry| join(start, &entry.path);
        let taken = copy.claimed.refuse_taken(copy.source, entries, &mut left, at);
        copy.stats.failures.extend(taken);
    }
    let mut omitted = kept_here(copy, place, entries, &left, from).await?;
    omitted.left.extend(left);
    Ok(omitted)
}

/// Which of `entries`, but for the `omitted`, stay as they are on this host, and which are refused;
/// notes their names.
async fn kept_here(
    copy: &mut Copy<'_>,
    place: Option<&Destination>,
    entries: &[Entry],
    omitted: &BTreeSet<usize>,
    from: Option<ContentAt<'_>>,
) -> Result<Omitted, Error> {
    let (existing, dry_run) = (copy.options.existing, copy.options.dry_run);
    let mut found = Found { dry_run, ..Found::default() };
    if existing == Existing::Replace && !dry_run {
        return Ok(Omitted::default());
    }
    let start = match place {
        Some(place) => place.at(),
        _ if !dry_run => return Ok(Omitted::default()),
        _ => None,
    };
    let name = |entry: &Entry| {
        let alone = start.map_or(&b""[..], |(_, start)| start);
        if entry.path.is_empty() { alone.to_vec() } else { entry.path.clone() }
    };
    for (index, ours) in entries.iter().enumerate() {
        if !is_leaf(ours) || omitted.contains(&index) {
            continue;
        }
        let there =
            start.map(|(root, start)| stat_entry(root, &join(start, &ours.path), &ours.path));
        let mut is_folder = false;
        let reason = match there {
            Some(Ok((there, stat))) => {
                is_folder = there.kind == EntryKind::Directory;
                found.files.note_here(index, (&there, &stat));
                existing.reason(ours, Some(&there))
            }
            // A device or FIFO is there too.
            Some(Err(error)) if error.code == ErrorCode::NotAFile => {
                (existing != Existing::Keep).then_some(CopyReason::KindDiffers)
            }
            _ => Some(CopyReason::New),
        };
        found.judge(index, reason, is_folder);
    }
    let to = start.map(|(root, start)| {
        let place = |index: usize| (Arc::clone(root), join(start, &entries[index].path));
        ContentAt::Here(Box::new(place))
    });
    found.conclude(copy, entries, from.zip(to), name).await
}

/// The same at a server, where the entries go to the paths that `path_of` says, by `existing`.
pub(super) async fn kept_there(
    copy: &mut Copy<'_>,
    control: &mut Control,
    existing: Existing,
    entries: &[Entry],
    path_of: impl Fn(&Entry) -> Pathname + Send + Sync,
    from: Option<ContentAt<'_>>,
) -> Result<Omitted, Error> {
    let dry_run = copy.options.dry_run;
    let mut found = Found { dry_run, ..Found::default() };
    if existing == Existing::Replace && !dry_run {
        return Ok(Omitted::default());
    }
    let mut leaves = (0..entries.len()).filter(|&index| is_leaf(&entries[index]));
    let looks = entries.iter().any(is_leaf);
    if looks {
        ask_for(control, COMPARED);
    }
    let name = |entry: &Entry| {
        if entry.path.is_empty() { path_of(entry).as_bytes().to_vec() } else { entry.path.clone() }
    };
    let (mut asked, mut asked_bytes) = (VecDeque::new(), 0);
    loop {
        // Many with one write.
        if asked_bytes <= LOOKED_AT_ONCE / 2 {
            while asked_bytes < LOOKED_AT_ONCE
                && let Some(index) = leaves.next()
            {
                let path = path_of(&entries[index]);
                asked_bytes += path.as_bytes().len() + LOOK_LEN;
                asked.push_back((index, control.request(Request::Stat(path))));
            }
        }
        let Some((index, look)) = asked.pop_front() else { break };
        let ours = &entries[index];
        asked_bytes -= path_of(ours).as_bytes().len() + LOOK_LEN;
        let mut is_folder = false;
        let reason = match control.looked(look).await {
            Ok(None) => Some(CopyReason::New),
            Ok(Some(told)) => {
                let there = listing::entry_or_link(&told);
                is_folder = there.kind == EntryKind::Directory;
                found.files.note_there(index, (&there, &told));
                existing.reason(ours, Some(&there))
            }
            // What stands in the place of a folder above it goes first.
            Err(error) if is_of_one_place(&error) && is_below(&copy.room, &ours.path) => {
                Some(CopyReason::New)
            }
            // Of one place: the others go on, and what becomes of this one its copy says.
            Err(error) if is_of_one_place(&error) && existing != Existing::Keep => {
                Some(CopyReason::NotCompared)
            }
            // It may be there, and stays then.
            Err(error) if is_of_one_place(&error) => {
                copy.stats.failures.push((name(ours), error));
                found.refused.insert(index);
                continue;
            }
            Err(error) => return Err(error),
        };
        found.judge(index, reason, is_folder);
    }
    if looks {
        ask_for(control, FactSet::ALL);
    }
    let to = ContentAt::There(control, Box::new(|index| path_of(&entries[index])));
    found.conclude(copy, entries, from.map(|from| (from, to)), name).await
}

/// What was found of a source's entries at the destination, by their number.
#[derive(Default)]
struct Found {
    dry_run: bool,
    /// They stay, by the facts.
    kept: BTreeSet<usize>,
    /// They would be copied, of a dry run: why, and whether a folder stands there.
    copied: Vec<(usize, CopyReason, bool)>,
    refused: BTreeSet<usize>,
    files: FoundFiles,
}

impl Found {
    /// Takes in why the entry `index` is copied, if it is, where a folder stands or none.
    fn judge(&mut self, index: usize, reason: Option<CopyReason>, is_folder: bool) {
        match reason {
            None => {
                self.kept.insert(index);
            }
            Some(reason) if self.dry_run => self.copied.push((index, reason, is_folder)),
            Some(_) => {}
        }
    }

    /// Compares contents where that is asked for, refuses what has the name of another, and notes
    /// what stays and, for a dry run, what would be copied; `name` says how an entry is called.
    async fn conclude(
        self,
        copy: &mut Copy<'_>,
        entries: &[Entry],
        ends: Option<(ContentAt<'_>, ContentAt<'_>)>,
        name: impl Fn(&Entry) -> Vec<u8>,
    ) -> Result<Omitted, Error> {
        let Found { dry_run, mut kept, mut copied, mut refused, files } = self;
        if copy.options.existing == Existing::KeepSameContent && !kept.is_empty() {
            let same = of_same_content(copy, entries, &kept, ends).await?;
            let others = kept.difference(&same);
            copied.extend(others.map(|&index| (index, CopyReason::ContentDiffers, false)));
            kept = same;
        }
        // What is never replaced is nobody's to take, and what is replaced anyway the destination
        // judges, but for a dry run.
        let names_count = match copy.options.existing {
            Existing::Keep => false,
            Existing::Replace => dry_run,
            _ => true,
        };
        if names_count {
            for (index, owner) in files.without_names(&kept) {
                kept.remove(&index);
                refused.insert(index);
                let error = name_of_another(&entries[owner].path);
                copy.stats.failures.push((entries[index].path.clone(), error));
            }
        }
        if dry_run {
            copied.retain(|(index, ..)| !refused.contains(index));
            for (index, reason, is_folder) in copied {
                let entry = &entries[index];
                plan_file(copy, name(entry), entry, reason, is_folder);
            }
        }
        record_kept(copy, &kept, entries, name);
        Ok(Omitted { kept, left: refused })
    }
}

/// Which of `kept` stay for their content too; the others are copied.
async fn of_same_content(
    copy: &mut Copy<'_>,
    entries: &[Entry],
    kept: &BTreeSet<usize>,
    ends: Option<(ContentAt<'_>, ContentAt<'_>)>,
) -> Result<BTreeSet<usize>, Error> {
    // What there is of a link is known.
    let (links, files): (Vec<usize>, Vec<usize>) =
        kept.iter().partition(|&&index| is_link(&entries[index]));
    let candidates: Vec<_> = files.iter().map(|&index| (index, entries[index].len())).collect();
    let mut same = match ends {
        Some(ends) if !candidates.is_empty() => by_content::same(copy, ends, &candidates).await?,
        _ => BTreeSet::new(),
    };
    same.extend(links);
    Ok(same)
}

/// Whether it may stay as it is; what is another name of a file costs nothing to make again.
fn is_leaf(entry: &Entry) -> bool {
    !matches!(entry.kind, EntryKind::Directory | EntryKind::There { .. })
}

fn is_link(entry: &Entry) -> bool {
    matches!(entry.kind, EntryKind::Symlink { .. })
}

/// Has the server tell these facts from now on; one that does not know how tells what it likes.
fn ask_for(control: &mut Control, facts: FactSet) {
    control.try_request(Request::Exec(Command::Options(Opts::Facts(facts))));
}

/// Notes for a dry run that `entry` would be copied to a place of the name `path`, or would not,
/// where a folder stands in the way.
fn plan_file(
    copy: &mut Copy<'_>,
    path: Vec<u8>,
    entry: &Entry,
    reason: CopyReason,
    is_folder: bool,
) {
    // A link at a server that does not say so looks like the folder that it leads to, and is
    // replaced by one.
    let is_in_the_way = is_folder && !copy.room.contains(&path);
    if is_in_the_way && matches!(entry.kind, EntryKind::File { .. }) {
        let message = "a directory has its name at the destination, and no file replaces one";
        let error = Error::new(Fault::You, ErrorCode::IsADirectory, message)
            .hint("remove it there, or copy to another directory");
        return copy.stats.failures.push((path, error));
    }
    let path = String::from_utf8_lossy(&path).into_owned();
    let (bytes, is_link) = (entry.len(), is_link(entry));
    copy.stats.planned.push(PlannedFile { path, reason, bytes, is_link });
}

/// Names what stays, but for links that are the same: a copy counts files. One file alone has no
/// path below its source, and is named by its target. What an attempt before this one landed is
/// counted as such.
fn record_kept(
    copy: &mut Copy<'_>,
    kept: &BTreeSet<usize>,
    entries: &[Entry],
    name: impl Fn(&Entry) -> Vec<u8>,
) {
    let existing = copy.options.existing;
    // What is looked for after a word was lost is counted by who looks for it.
    if existing == Existing::Replace {
        return;
    }
    copy.kept.found();
    let counts = |entry: &&Entry| existing == Existing::Keep || !is_link(entry);
    for entry in kept.iter().map(|&index| &entries[index]).filter(counts) {
        let name = name(entry);
        if copy.kept.has(&name) {
            copy.stats.skipped.push(name);
        } else {
            copy.stats.bytes += entry.len();
            copy.stats.files += u64::from(matches!(entry.kind, EntryKind::File { .. }));
            if copy.stats.verified_how.is_empty() {
                copy.stats.verified_how = LANDED_BEFORE;
            }
        }
    }
}

/// `entries` without those that stay.
pub(super) fn without(entries: Vec<Entry>, kept: &BTreeSet<usize>) -> Vec<Entry> {
    entries
        .into_iter()
        .enumerate()
        .filter(|(index, _)| !kept.contains(index))
        .map(|(_, entry)| entry)
        .collect()
}

/// Whether some block of `layout` holds files that stay next to others: it would come whole.
pub(super) fn shares_blocks(layout: &Layout, kept: &BTreeSet<usize>) -> bool {
    !kept.is_empty()
        && (0..layout.block_count()).map(|index| layout.block(index)).any(|block| {
            let mut pieces = layout.pieces(block.offset, block.len);
            let first = pieces.next().is_some_and(|piece| kept.contains(&piece.entry));
            pieces.any(|piece| kept.contains(&piece.entry) != first)
        })
}

/// The blocks of `layout` in which nothing lies but what stays: they need not come.
pub(super) fn blocks_of(layout: &Layout, kept: &BTreeSet<usize>) -> ByteRanges {
    let mut blocks = ByteRanges::new();
    if !kept.is_empty() {
        for block in (0..layout.block_count()).map(|index| layout.block(index)) {
            if layout.pieces(block.offset, block.len).all(|piece| kept.contains(&piece.entry)) {
                blocks.insert(block.range());
            }
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::test_entries::entry;

    fn file(len: u64, modified_ns: i64) -> Entry {
        Entry { modified_ns, ..entry("f", EntryKind::File { len }) }
    }

    #[test]
    fn a_block_with_one_wanted_file_comes_whole() {
        let layout =
            Layout::new(vec![file(100, 0), file(100, 0), file(1024, 0), file(3000, 0)], 1024);
        assert_eq!(blocks_of(&layout, &BTreeSet::from([0, 2])).to_string(), "1024-2048");
        assert!(shares_blocks(&layout, &BTreeSet::from([0, 2])));
        assert!(!shares_blocks(&layout, &BTreeSet::from([0, 1, 3])));
        assert_eq!(blocks_of(&layout, &BTreeSet::from([0, 1, 3])).to_string(), "0-200,2048-5048");
    }
}

//! A copy between two servers that are not both Farline: folders first, then each file under a
//! temporary name, then renamed.

use super::ends::{Ends, at};
use super::{open, tell_wishes};
use crate::client::by_file::{FileEnd, execute, require_each};
use crate::client::checksum;
use crate::client::copy::Copy;
use crate::client::landed_before::{LandedBefore, facts_at, landed_there};
use crate::client::location::trim;
use crate::client::options::Verify;
use crate::client::remote_partial::{RemotePartial, ask_for_markers};
use crate::client::set_time::set_time;
use crate::client::to_stock::make_folders;
use crate::stores::{Parcel, TreeReceipt, join};
use farline_core::copy::{DataEnd, FileRules, is_of_one_place, parallelism, source_of};
use farline_core::gridftp::client::{Request, Transfer, TransferKind};
use farline_core::gridftp::{Mode, Pathname};
use farline_core::transfer::journal::FileFacts;
use farline_core::transfer::{Entry, EntryKind};
use farline_core::units::{ByteRanges, Error, ErrorCode, Fault};

/// Where files go at the receiver.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    /// A folder, or the one file.
    pub(super) path: &'a [u8],
    pub(super) is_folder: bool,
    /// The folder of which what is replaced is kept, where that is asked for.
    pub(super) folder: &'a [u8],
}

/// How many files are among `entries`.
pub(super) fn count(entries: &[Entry]) -> u64 {
    entries.iter().filter(|entry| matches!(entry.kind, EntryKind::File { .. })).count() as u64
}

/// Has the receiver listen, and tells the sender where.
async fn arrange(ends: &mut Ends<'_>, channels: usize) -> Result<(), Error> {
    let passive = ends.receiver.request(Request::Passive { mode: Mode::Extended, striped: false });
    let address = ends.receiver.passive(passive).await.map_err(|error| at(ends.to, error))?;
    let parallel = ends.sender.request(parallelism(channels));
    let active =
        ends.sender.request(Request::Active { mode: Mode::Extended, addresses: vec![address] });
    for id in [parallel, active] {
        ends.sender.done(id).await.map_err(|error| at(ends.from, error))?;
    }
    Ok(())
}

/// Any other pair: folders first, then each file under a temporary name, then renamed.
pub(super) async fn copy(
    copy: &mut Copy<'_>,
    ends: &mut Ends<'_>,
    target: Target<'_>,
    entries: &[Entry],
    channels: usize,
) -> Result<(), Error> {
    if ends.to.store.is_some() || ends.from.store.is_some() {
        let message = "stores without a disk need Farline at both ends of a third-party copy";
        return Err(Error::new(Fault::You, ErrorCode::Unsupported, message));
    }
    if target.is_folder {
        require_each(copy.options, &format!("{} and {}", ends.from, ends.to))?;
    }
    let entries = &made(copy, ends, target, entries).await?[..];
    arrange(ends, channels).await?;
    ask_for_markers(&mut ends.receiver);
    let (here, there) = (ends.from.place(), ends.to.place());
    let rules = FileRules {
        lands_here: false,
        // Where it was begun from this host's point of view says nothing of what the sender has
        // now.
        resumes_there: false,
        is_comparable: checksum::common(&[&ends.sender, &ends.receiver]).is_some(),
        compares_all: copy.options.verify == Verify::Digest,
        goes_on: true,
    };
    let goes_to = |entry: &Entry| join(target.path, &entry.path);
    let receipt = match target.is_folder {
        // One file alone has a journal of its own.
        false => None,
        true => {
            let place = [&b"between"[..], there.as_bytes(), target.path];
            let name = [there.as_bytes(), target.path].concat();
            TreeReceipt::begin(&place, &name, ends.from.source_id())
        }
    };
    let before = match &receipt {
        Some(receipt) => landed_there(receipt, &mut ends.receiver, entries, goes_to).await,
        None => Ok(LandedBefore::new()),
    };
    let before = before.map_err(|error| at(ends.to, error))?;
    let targets: Vec<Vec<u8>> = entries.iter().map(goes_to).collect();
    let mut end = Between {
        ends,
        entries,
        here: &here,
        there: &there,
        targets: &targets,
        folder: target.folder,
        channels,
        receipt,
        file: 0,
        partial: None,
        is_moving: false,
    };
    execute(copy, rules, entries, &before, &mut end).await?;
    // What landed need not come again while something has not.
    if copy.stats.failures.is_empty() {
        end.receipt.into_iter().for_each(TreeReceipt::finish);
    }
    Ok(())
}

/// Makes the folders at the receiver. Returns what of `entries` may go there: nothing below a
/// folder that it refused.
async fn made(
    copy: &mut Copy<'_>,
    ends: &mut Ends<'_>,
    Target { path: target, is_folder, .. }: Target<'_>,
    entries: &[Entry],
) -> Result<Vec<Entry>, Error> {
    if !is_folder {
        return Ok(entries.to_vec());
    }
    let to = ends.to;
    let top = [(&b""[..], trim(&to.path).to_vec()), (&b""[..], target.to_vec())];
    let folders = entries.iter().filter(|entry| entry.kind == EntryKind::Directory);
    let below = folders.map(|entry| (&entry.path[..], join(target, &entry.path)));
    let refused = make_folders(&mut ends.receiver, top.into_iter().chain(below)).await;
    let refused = refused.map_err(|error| at(to, error))?;
    let is_below = |entry: &Entry, (folder, _): &(Vec<u8>, Error)| {
        entry.path.strip_prefix(&folder[..]).is_some_and(|rest| rest.starts_with(b"/"))
    };
    let refused: Vec<(Vec<u8>, Error)> =
        refused.into_iter().map(|(path, error)| (path, at(to, error))).collect();
    let mut left = Vec::new();
    for entry in entries {
        match refused.iter().find(|folder| is_below(entry, folder)) {
            None => left.push(entry.clone()),
            Some((_, error)) => copy.stats.failures.push((entry.path.clone(), error.clone())),
        }
    }
    copy.stats.failures.extend(refused);
    Ok(left)
}

/// The two servers, and the file that moves between them now.
struct Between<'a, 'e> {
    ends: &'a mut Ends<'e>,
    entries: &'a [Entry],
    /// The servers, as journals have them.
    here: &'a str,
    there: &'a str,
    /// Where each entry goes.
    targets: &'a [Vec<u8>],
    folder: &'a [u8],
    channels: usize,
    receipt: Option<TreeReceipt>,
    file: usize,
    partial: Option<RemotePartial<'a>>,
    /// Whether a transfer was begun of which the last word of both was not heard.
    is_moving: bool,
}

impl Between<'_, '_> {
    /// Where the file is at the sender.
    fn source(&self) -> Vec<u8> {
        let from = &self.ends.from.path;
        match &self.entries[self.file].path {
            path if path.is_empty() => from.clone(),
            path => join(trim(from), path),
        }
    }

    /// Gives the file that has landed its time, if the receiver knows how.
    async fn set_landed_time(&mut self, copy: &mut Copy<'_>) {
        let (receiver, target) = (&mut self.ends.receiver, &self.targets[self.file]);
        set_time(copy, receiver, target, self.entries[self.file].modified_ns).await;
    }

    /// Has new sessions with both servers, because in these one of them may still wait for the
    /// other.
    async fn renew_sessions(&mut self, copy: &mut Copy<'_>) -> Result<(), Error> {
        self.partial.iter_mut().for_each(|partial| partial.take_back(&self.ends.receiver));
        let (ends, _) = open(copy, self.ends.from, self.ends.to).await?;
        self.ends.renew(ends);
        self.is_moving = false;
        tell_wishes(copy, self.ends, self.folder).await?;
        arrange(self.ends, self.channels).await?;
        ask_for_markers(&mut self.ends.receiver);
        Ok(())
    }
}

fn none_begun() -> Error {
    Error::new(Fault::Bug, ErrorCode::NoChannel, "no file was begun")
}

impl FileEnd for Between<'_, '_> {
    fn path(&self, index: usize) -> Vec<u8> {
        self.targets[index].clone()
    }

    async fn begin(&mut self, copy: &mut Copy<'_>, index: usize) -> Result<ByteRanges, Error> {
        if self.is_moving {
            self.renew_sessions(copy).await?;
        }
        self.file = index;
        let path = self.source();
        self.ends.of(DataEnd::Sender).0.refuse_other_name(&path).await?;
        let source = source_of(self.here, [&path[..]].into_iter());
        let (server, target) = (self.there, &self.targets[index][..]);
        let facts = FileFacts::of(&self.entries[index]);
        let parcel = Parcel { server, target, source, facts };
        let (receiver, to) = self.ends.of(DataEnd::Receiver);
        let partial =
            RemotePartial::begin(copy, receiver, parcel).map_err(|error| at(to, error))?;
        Ok(self.partial.insert(partial).said())
    }

    async fn find_landed(&mut self, copy: &mut Copy<'_>) -> Result<bool, Error> {
        let (receiver, to) = self.ends.of(DataEnd::Receiver);
        let partial = self.partial.as_ref().ok_or_else(none_begun)?;
        let may_have_landed = partial.may_have_landed(receiver).await;
        let (source, target) = (self.source(), self.targets[self.file].clone());
        let (source, target) = (Pathname::new(source), Pathname::new(target));
        if !may_have_landed.map_err(|error| at(to, error))?
            || !checksum::found_same(compare(copy, self.ends, source, target).await)?
        {
            return Ok(false);
        }
        self.partial.take().into_iter().for_each(RemotePartial::landed);
        self.set_landed_time(copy).await;
        Ok(true)
    }

    fn renew(&mut self) -> Result<(), Error> {
        let partial = self.partial.as_mut().ok_or_else(none_begun)?;
        partial.renew(&mut self.ends.receiver)
    }

    fn hold(&mut self, _copy: &mut Copy<'_>, held: ByteRanges) {
        self.partial.iter_mut().for_each(|partial| partial.hold(held.clone()));
    }

    async fn carry(&mut self, copy: &mut Copy<'_>) -> Result<(), Error> {
        let source = Pathname::new(self.source());
        let partial = self.partial.as_mut().ok_or_else(none_begun)?;
        let store = partial.store(&mut self.ends.receiver);
        let retrieve = Request::Transfer(Transfer::new(TransferKind::Retrieve, source));
        let retrieve = self.ends.sender.request(retrieve);
        self.is_moving = true;
        self.ends.both(copy, store, retrieve).await?;
        self.is_moving = false;
        Ok(())
    }

    async fn compare(&mut self, copy: &mut Copy<'_>) -> Result<bool, Error> {
        let source = Pathname::new(self.source());
        let target = self.partial.as_ref().ok_or_else(none_begun)?.temporary();
        compare(copy, self.ends, source, target).await
    }

    async fn land(&mut self, copy: &mut Copy<'_>) -> Result<bool, Error> {
        copy.stats.bytes_sent += self.entries[self.file].len();
        let (receiver, to) = self.ends.of(DataEnd::Receiver);
        if let Some(partial) = self.partial.take() {
            partial.land(receiver).await.map_err(|error| at(to, error))?;
            self.set_landed_time(copy).await;
        }
        Ok(true)
    }

    async fn remember(&mut self, index: usize, is_compared: bool) -> Result<(), Error> {
        let Some(receipt) = &mut self.receipt else { return Ok(()) };
        let (receiver, to) = self.ends.of(DataEnd::Receiver);
        let target = Pathname::new(self.targets[index].clone());
        let look = receiver.try_request(Request::Stat(target));
        let landed = facts_at(receiver, look).await.map_err(|error| at(to, error))?;
        if let Some(landed) = landed {
            let entry = &self.entries[index];
            receipt.record(&entry.path, &FileFacts::of(entry), &landed, is_compared);
        }
        Ok(())
    }

    async fn abandon(&mut self, copy: &mut Copy<'_>, keeps: bool, error: Error) -> Error {
        // Another file follows only what was of this one.
        let follows = self.entries.len() > 1 && is_of_one_place(&error);
        if self.is_moving && follows && self.renew_sessions(copy).await.is_err() {
            return error;
        }
        if let Some(partial) = self.partial.take() {
            partial.abandon(&mut self.ends.receiver, keeps, &error).await;
        }
        error
    }
}

/// Has both servers compute the checksum of a file that has moved, and compares them.
async fn compare(
    copy: &mut Copy<'_>,
    ends: &mut Ends<'_>,
    source: Pathname,
    target: Pathname,
) -> Result<bool, Error> {
    let Some(shared) = checksum::common(&[&ends.sender, &ends.receiver]) else { return Ok(false) };
    checksum::ask_for_markers(&mut ends.sender);
    checksum::ask_for_markers(&mut ends.receiver);
    let sent = checksum::ask(&mut ends.sender, shared, source);
    let stored = checksum::ask(&mut ends.receiver, shared, target.clone());
    let Ends { from, to, sender, receiver, .. } = ends;
    let (sent, stored) = tokio::select! {
        both = async { tokio::join!(sender.done(sent), receiver.done(stored)) } => both,
        reason = copy.options.cancel.asked() => return Err(reason),
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

//! Copies from this host to a server that is no Farline node, in MODE E, or in MODE S where it
//! knows no other: folders first, then each file under a temporary name, then renamed.

use super::by_file::{FileEnd, execute, require_each};
use super::checksum;
use super::control::Control;
use super::copy::Copy;
use super::dial::handles;
use super::interrupted::interrupted;
use super::landed_before::{LandedBefore, facts_at, landed_there};
use super::location::{Remote, trim};
use super::options::Verify;
use super::remote_partial::{RemotePartial, ask_for_markers};
use super::resources::TransferResources;
use super::sending::{open_resources, send_layout};
use super::set_time::set_time;
use super::source_set::SourceSet;
use super::stream_mode;
use crate::mover::{BLOCK_LEN, Integrity, WantedBlocks};
use crate::stores::{Parcel, Source, TreeReceipt, join};
use farline_core::copy::{FileRules, is_of_one_place};
use farline_core::gridftp::client::Request;
use farline_core::gridftp::{Command, ListingKind, Mode, Pathname};
use farline_core::transfer::journal::FileFacts;
use farline_core::transfer::{Entry, EntryKind, Layout, TransferParams};
use farline_core::units::{ByteRanges, Error, ErrorCode, Fault, escaped};
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(super) async fn run(
    copy: &mut Copy<'_>,
    control: &mut Control,
    passive: u64,
    to: &Remote,
    load: SourceSet,
    params: &TransferParams,
) -> Result<(), Error> {
    let common = checksum::common(&[&*control]);
    checksum::require(copy.options, common, &to.to_string())?;
    let alone = load.entries.len() == 1 && load.entries[0].path.is_empty();
    let at = |entry: &Entry| {
        // Below the root there is one slash.
        let folder = trim(&load.target);
        let folder = if folder == b"/" { b"" } else { folder };
        match (alone, folder.is_empty()) {
            (true, _) => load.target.clone(),
            (false, true) => [b"/", &entry.path[..]].concat(),
            (false, false) => join(folder, &entry.path),
        }
    };
    if !alone {
        require_each(copy.options, &to.to_string())?;
        let folders = load.entries.iter().filter(|entry| entry.kind == EntryKind::Directory);
        let folders = folders.filter(|entry| !entry.path.is_empty());
        let below = folders.map(|entry| (&entry.path[..], at(entry)));
        let top = (&b""[..], trim(&load.target).to_vec());
        let refused = make_folders(control, std::iter::once(top).chain(below)).await?;
        copy.stats.failures.extend(refused);
    }
    let resources = match control.features().is_gridftp {
        false => {
            stream_mode::arrange(copy, control).await?;
            None
        }
        true => {
            ask_for_markers(control);
            let address = control.passive(passive).await?;
            let (resources, congestion) = open_resources(copy, control, address, params).await?;
            copy.stats.congestion = congestion;
            Some(resources)
        }
    };
    let layout = Arc::new(Layout::new(load.entries.clone(), BLOCK_LEN));
    let source = load.at.source(&layout, &copy.options.direct_io, load.prefetched)?;
    let place = to.place();
    // One file alone has a journal of its own.
    let receipt = match alone {
        true => None,
        false => {
            let target = [&b"to"[..], place.as_bytes(), &load.target];
            let name = [place.as_bytes(), trim(&load.target)].concat();
            TreeReceipt::begin(&target, &name, load.source_id)
        }
    };
    let before = match &receipt {
        Some(receipt) => landed_there(receipt, control, layout.entries(), at).await?,
        None => LandedBefore::new(),
    };
    let rules = FileRules {
        lands_here: false,
        resumes_there: common.is_some(),
        is_comparable: common.is_some(),
        compares_all: copy.options.verify == Verify::Digest,
        goes_on: true,
    };
    let targets: Vec<Vec<u8>> = layout.entries().iter().map(at).collect();
    let mut end = ToServer {
        control,
        to,
        place: &place,
        targets: &targets,
        source_id: load.source_id,
        layout: Arc::clone(&layout),
        begun: copy.stats.bytes,
        source,
        params,
        resources,
        receipt,
        sets_times: true,
        file: 0,
        partial: None,
    };
    execute(copy, rules, layout.entries(), &before, &mut end).await?;
    // What landed need not come again while something has not.
    if copy.stats.failures.is_empty() {
        end.receipt.into_iter().for_each(TreeReceipt::finish);
    }
    Ok(())
}

/// Makes folders at the server, the top first, those that are there already among them; each is its
/// path in the tree, and where it goes. Returns what the server refuses below the top.
pub(super) async fn make_folders<'a>(
    control: &mut Control,
    folders: impl Iterator<Item = (&'a [u8], Vec<u8>)>,
) -> Result<Vec<(Vec<u8>, Error)>, Error> {
    let mut made = Vec::new();
    for (shown, path) in folders {
        let path = Pathname::new(path);
        let make = Request::Exec(Command::MakeDirectory(path.clone()));
        made.push((control.request(make), shown, path));
    }
    let (mut new, mut not_made) = (Vec::new(), Vec::new());
    for (id, shown, path) in made {
        let Err(error) = control.done(id).await else {
            new.push(path);
            continue;
        };
        if error.code == ErrorCode::PathExists {
            continue;
        }
        // Plain FTP servers have one word for all reasons.
        let look = control.request(Request::Stat(path));
        let there = control.looked(look).await.ok().flatten();
        if !there.is_some_and(|entry| entry.kind == ListingKind::Directory) {
            let error = error.while_doing("creating directories");
            // A name that it cannot read (501) is of one place too.
            let is_of_one = is_of_one_place(&error) || error.code == ErrorCode::Rejected;
            if shown.is_empty() || !is_of_one {
                return Err(error);
            }
            not_made.push((shown.to_vec(), error));
        }
    }
    let mut refused = Ok(());
    for path in &new {
        refused = control.refuse_other_name(path.as_bytes()).await;
        if refused.is_err() {
            break;
        }
    }
    let Err(error) = refused else { return Ok(not_made) };
    // By the same names they are found again.
    for path in new.into_iter().rev() {
        let remove = control.try_request(Request::Exec(Command::RemoveDirectory(path)));
        let _ = control.done(remove).await;
    }
    Err(error.while_doing("creating directories"))
}

/// The server, and the file that goes there now.
struct ToServer<'a> {
    control: &'a mut Control,
    to: &'a Remote,
    /// The server, as journals have it.
    place: &'a str,
    /// Where each entry goes.
    targets: &'a [Vec<u8>],
    source_id: [u8; 32],
    layout: Arc<Layout>,
    /// Bytes that were counted before.
    begun: u64,
    source: Arc<dyn Source>,
    params: &'a TransferParams,
    /// Channels that are kept from file to file; none after a file that failed.
    resources: Option<TransferResources>,
    receipt: Option<TreeReceipt>,
    /// Whether the server sets times, as far as is known.
    sets_times: bool,
    file: usize,
    partial: Option<RemotePartial<'a>>,
}

impl<'a> ToServer<'a> {
    fn entry(&self) -> &Entry {
        &self.layout.entries()[self.file]
    }

    /// Sends a file over one connection, whose close is the end. Some servers want each to go on
    /// from their session's TLS, and give no tickets with those that they only read from (ProFTPD):
    /// when all are taken, another session has more.
    async fn carry_in_order(&mut self, copy: &mut Copy<'_>, one: OneOf) -> Result<(), Error> {
        let is_stranger = self.control.tls().is_some_and(|tls| !tls.has_ticket());
        if !is_stranger || copy.stats.encrypted != Some(true) {
            return self.carry_once(copy, one).await;
        }
        if !copy.needs_tickets {
            let Err(error) = self.carry_once(copy, one.clone()).await else { return Ok(()) };
            if copy.options.cancel.reason().is_some() {
                return Err(error);
            }
            copy.needs_tickets = true;
        }
        self.log_in_again(copy).await?;
        self.carry_once(copy, one).await
    }

    /// Goes on in another session with the server.
    async fn log_in_again(&mut self, copy: &mut Copy<'_>) -> Result<(), Error> {
        copy.end_transfer();
        if let Some(partial) = &mut self.partial {
            partial.take_back(self.control);
        }
        let (control, _) = Control::open_for_copy(self.to, copy.options, Vec::new(), None).await?;
        // Servers count how many sessions a client has.
        std::mem::replace(self.control, control).leave().await;
        stream_mode::arrange(copy, self.control).await
    }

    async fn carry_once(&mut self, copy: &mut Copy<'_>, one: OneOf) -> Result<(), Error> {
        let (partial, control) = self.partial()?;
        let (id, data) =
            stream_mode::begin(copy, control, |control| partial.store(control)).await?;
        let sent = copy.supervise(Some(control), move |state| {
            let len = (one.len, data.has_tickets());
            stream_mode::send(state, data.open(state)?, &one, len)
        });
        sent.await?;
        copy.until_done(self.control, &[id]).await
    }

    /// Compares the file here with the one at `path` there.
    async fn compare_at(&mut self, copy: &mut Copy<'_>, path: Pathname) -> Result<bool, Error> {
        let (index, len) = (self.file, self.entry().len());
        let source = Arc::clone(&self.source);
        let here = move |at, into: &mut [u8]| source.read(index, at, into);
        checksum::compare(copy, self.control, path, (len, here)).await
    }

    /// Gives the file that has landed its time, if the server knows how.
    async fn set_landed_time(&mut self, copy: &mut Copy<'_>) {
        if self.sets_times {
            let (target, modified) = (&self.targets[self.file], self.entry().modified_ns);
            self.sets_times = set_time(copy, self.control, target, modified).await;
        }
    }

    fn partial(&mut self) -> Result<(&mut RemotePartial<'a>, &mut Control), Error> {
        let none = || Error::new(Fault::Bug, ErrorCode::NoChannel, "no file was begun");
        Ok((self.partial.as_mut().ok_or_else(none)?, self.control))
    }
}

impl FileEnd for ToServer<'_> {
    fn path(&self, index: usize) -> Vec<u8> {
        self.targets[index].clone()
    }

    async fn begin(&mut self, copy: &mut Copy<'_>, index: usize) -> Result<ByteRanges, Error> {
        self.file = index;
        let facts = FileFacts::of(self.entry());
        let (server, target, source) = (self.place, &self.targets[index][..], self.source_id);
        let parcel = Parcel { server, target, source, facts };
        let partial = RemotePartial::begin(copy, self.control, parcel)?;
        Ok(self.partial.insert(partial).said())
    }

    async fn measure(&mut self) -> Result<Option<u64>, Error> {
        let (partial, control) = self.partial()?;
        partial.measure(control).await
    }

    fn renew(&mut self) -> Result<(), Error> {
        let (partial, control) = self.partial()?;
        partial.renew(control)
    }

    fn hold(&mut self, copy: &mut Copy<'_>, held: ByteRanges) {
        let gone = copy.stats.bytes - self.begun;
        copy.state.expect(self.layout.payload() - gone, self.layout.files());
        copy.state.held.store(held.total(), Ordering::Relaxed);
        self.partial.iter_mut().for_each(|partial| partial.hold(held.clone()));
    }

    async fn carry(&mut self, copy: &mut Copy<'_>) -> Result<(), Error> {
        let (index, len) = (self.file, self.entry().len());
        let one = OneOf { source: Arc::clone(&self.source), entry: index, len };
        if !self.control.features().is_gridftp {
            return self.carry_in_order(copy, one).await;
        }
        let resources = match self.resources.take() {
            Some(resources) => resources,
            None => {
                let listen = Request::Passive { mode: Mode::Extended, striped: false };
                let listen = self.control.request(listen);
                let address = self.control.passive(listen).await?;
                open_resources(copy, self.control, address, self.params).await?.0
            }
        };
        let (partial, control) = self.partial()?;
        let (id, held) = (partial.store(control), partial.held().clone());
        let done = copy.supervise(Some(control), move |state| {
            state.follow(handles(&resources.channels)?);
            let layout = Arc::new(Layout::of_file(one.len, BLOCK_LEN));
            let blocks = WantedBlocks::all(layout.blocks_without(&held));
            let plain = (Integrity::default(), None);
            let sent = send_layout(state, &layout, &one, blocks, plain, &state.tally, resources)?;
            Ok(TransferResources::after(sent))
        });
        let back = done.await?;
        copy.until_done(self.control, &[id]).await?;
        copy.stats.tcp.clone_from(&back.tcp);
        self.resources = Some(back);
        Ok(())
    }

    async fn find_landed(&mut self, copy: &mut Copy<'_>) -> Result<bool, Error> {
        let (partial, control) = self.partial()?;
        let may_have_landed = partial.may_have_landed(control).await?;
        let target = Pathname::new(self.targets[self.file].clone());
        if !may_have_landed || !checksum::found_same(self.compare_at(copy, target).await)? {
            return Ok(false);
        }
        self.partial.take().into_iter().for_each(RemotePartial::landed);
        self.set_landed_time(copy).await;
        Ok(true)
    }

    async fn compare(&mut self, copy: &mut Copy<'_>) -> Result<bool, Error> {
        let temporary = self.partial()?.0.temporary();
        self.compare_at(copy, temporary).await
    }

    async fn land(&mut self, copy: &mut Copy<'_>) -> Result<bool, Error> {
        let Some(partial) = self.partial.take() else { return Ok(true) };
        partial.land(self.control).await?;
        self.set_landed_time(copy).await;
        Ok(true)
    }

    async fn remember(&mut self, index: usize, is_compared: bool) -> Result<(), Error> {
        let Some(receipt) = &mut self.receipt else { return Ok(()) };
        let target = Pathname::new(self.targets[index].clone());
        let look = self.control.try_request(Request::Stat(target));
        if let Some(landed) = facts_at(self.control, look).await? {
            let entry = &self.layout.entries()[index];
            receipt.record(&entry.path, &FileFacts::of(entry), &landed, is_compared);
        }
        Ok(())
    }

    async fn abandon(&mut self, _copy: &mut Copy<'_>, keeps: bool, error: Error) -> Error {
        let is_kept = match self.partial.take() {
            Some(partial) => partial.abandon(self.control, keeps, &error).await,
            None => false,
        };
        if is_kept && error.code == ErrorCode::Interrupted {
            return interrupted(error, "`farline partials ls`");
        }
        let target = String::from_utf8_lossy(&self.targets[self.file]);
        error.while_doing(format!("storing {}", escaped(&target)))
    }
}

/// One entry of a larger source, as the only entry.
#[derive(Clone)]
struct OneOf {
    source: Arc<dyn Source>,
    entry: usize,
    len: u64,
}

impl Source for OneOf {
    fn read(&self, _entry: usize, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        self.source.read(self.entry, offset, into)
    }
}

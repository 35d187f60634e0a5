//! Copies from a server that is no Farline node to this host: file by file, each gone on with from
//! what is durable here; in MODE E, or in MODE S where a server knows no other.
//!
//! `docs/protocol.md`, clauses G-5 and G-6.

use super::by_content::ContentAt;
use super::by_file::{FileEnd, execute, require_each};
use super::checksum;
use super::control::Control;
use super::copy::Copy;
use super::destination::{Destination, destination, is_absent, refuse_file_as_folder};
use super::existing::{omitted_here, without};
use super::landed_before::{LandedBefore, landed_here};
use super::listing::{entry, list_tree};
use super::location::{Location, Remote, trim};
use super::one_name::LandedFiles;
use super::options::Verify;
use super::receiving::{listen, receive_layout, tell_buffer};
use super::resources::TransferResources;
use super::selection::DRY_RUN;
use super::stream_mode;
use crate::mover::{BLOCK_LEN, Integrity};
use crate::stores::{Landed, Landing, ResumeState, TreeReceipt, join, name_of_another, stat};
use farline_core::copy::{FileRules, nameable, parallelism, source_of};
use farline_core::gridftp::client::{Request, Transfer, TransferKind};
use farline_core::gridftp::{ListingKind, Mode, Pathname};
use farline_core::transfer::journal::{FileFacts, PartialOrigin};
use farline_core::transfer::{Entry, Layout, TransferParams};
use farline_core::units::{ByteRanges, Error, ErrorCode, Fault};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

pub(super) async fn run(
    copy: &mut Copy<'_>,
    control: &mut Control,
    from: &Remote,
    to: &Location,
    several: bool,
    params: &TransferParams,
) -> Result<(), Error> {
    // A dry run asks a node as it asks any server, and what these lack the node has.
    let is_stock = !control.features().tree;
    if is_stock {
        copy.congestion_untold(from)?;
        // What is not kept as a file is not read back.
        let common = checksum::common(&[&*control]).filter(|_| matches!(to, Location::Local(_)));
        checksum::require(copy.options, common, &format!("{from} to {to}"))?;
    }
    let not_there =
        || Error::new(Fault::You, ErrorCode::PathNotFound, format!("{from} does not exist"));
    let look = control.request(Request::Stat(Pathname::new(from.path.clone())));
    let top = control.looked(look).await?.ok_or_else(not_there)?;
    let knows_blocks = control.features().is_gridftp;
    if !knows_blocks {
        stream_mode::arrange(copy, control).await?;
    }
    let is_folder = top.kind == ListingKind::Directory;
    refuse_file_as_folder(from, is_folder)?;
    let entries = if is_folder {
        if !copy.options.recursive {
            return Err(Error::new(
                Fault::You,
                ErrorCode::IsADirectory,
                format!("{from} is a directory"),
            )
            .hint("add -r to copy it with all that is in it"));
        }
        if is_stock {
            require_each(copy.options, &from.to_string())?;
        }
        let mut entries = vec![entry(Vec::new(), &top)];
        let (below, problems) = list_tree(copy, control, &from.path).await?;
        entries.extend(below);
        copy.note_problems(from.name_within(), &entries, problems);
        entries
    } else {
        vec![Entry { path: Vec::new(), ..entry(Vec::new(), &top) }]
    };
    let contents = from.path.ends_with(b"/");
    let place = match copy.options.dry_run && is_absent(to) {
        true => None,
        false => {
            Some(destination(to, from.name(), is_folder, contents, several, (copy.options, false))?)
        }
    };
    let top = from.name_within();
    let path_of = |index: usize| Pathname::new(join(trim(&from.path), &entries[index].path));
    let there = ContentAt::There(control, Box::new(path_of));
    let omitted = omitted_here(copy, place.as_ref(), top, &entries, Some(there)).await?;
    let Some(place) = place.filter(|_| !copy.options.dry_run) else {
        copy.stats.verified_how = DRY_RUN;
        return Ok(());
    };
    let layout = Arc::new(Layout::new(without(entries, &omitted.all()), BLOCK_LEN));
    let refused = place.make_folders(&layout)?;
    copy.stats.failures.extend(refused);
    let resources = match knows_blocks {
        false => None,
        true => Some(open_channels(copy, control, params).await?),
    };
    // Of other sources before this one.
    let begun = copy.stats.bytes;
    let receipt = match place.at() {
        Some((root, start)) if is_folder => {
            let here = root.path().canonicalize().unwrap_or_else(|_| root.path().to_owned());
            let target = [&b"from"[..], here.as_os_str().as_bytes(), start];
            let name = join(here.as_os_str().as_bytes(), start);
            let source = source_of(&from.place(), [&from.path[..]].into_iter());
            TreeReceipt::begin(&target, &name, source)
        }
        _ => None,
    };
    let before = receipt.as_ref().map_or_else(LandedBefore::new, |receipt| {
        landed_here(receipt, layout.entries(), |item| landed_as(&place, item))
    });
    let rules = FileRules {
        lands_here: true,
        resumes_there: false,
        is_comparable: checksum::common(&[&*control]).is_some(),
        compares_all: copy.options.verify == Verify::Digest,
        goes_on: true,
    };
    let mut end = FromServer {
        control,
        from,
        place: &place,
        layout: Arc::clone(&layout),
        begun,
        knows_blocks,
        params,
        resources,
        receipt,
        named: LandedFiles::default(),
        file: 0,
        running: None,
    };
    let has_landed = |(index, item): &(usize, &Entry)| {
        before.contains_key(index) || copy.is_landed(&end.path(*index), item)
    };
    let landed = layout.entries().iter().enumerate().filter(has_landed);
    let landed: Vec<usize> = landed.map(|(index, _)| index).collect();
    landed.into_iter().for_each(|index| end.note_landed(index));
    execute(copy, rules, layout.entries(), &before, &mut end).await?;
    copy.stats.tcp.extend(end.resources.into_iter().flat_map(|resources| resources.tcp));
    // What landed need not come again while something has not.
    if copy.stats.failures.is_empty() {
        end.receipt.into_iter().for_each(TreeReceipt::finish);
    }
    Ok(())
}

/// Listens for the server's channels, and tells it where.
async fn open_channels(
    copy: &mut Copy<'_>,
    control: &mut Control,
    params: &TransferParams,
) -> Result<TransferResources, Error> {
    let (resources, address) = listen(copy, control, params).await?;
    tell_buffer(copy, control);
    let active = Request::Active { mode: Mode::Extended, addresses: vec![address] };
    for id in [control.request(parallelism(params.streams)), control.request(active)] {
        control.done(id).await?;
    }
    Ok(resources)
}

/// What stands at `place` of an entry that has landed.
fn landed_as(place: &Destination, item: &Entry) -> Option<FileFacts> {
    let (root, start) = place.at()?;
    stat(root, &join(start, &item.path), b"").ok().map(|entry| FileFacts::of(&entry))
}

/// The server, and the file that comes from it now.
struct FromServer<'a> {
    control: &'a mut Control,
    from: &'a Remote,
    place: &'a Destination,
    layout: Arc<Layout>,
    /// Bytes of the sources before this one.
    begun: u64,
    /// Whether it speaks MODE E; otherwise each file comes over a connection of its own.
    knows_blocks: bool,
    params: &'a TransferParams,
    /// Channels that are kept from file to file; none after a file that failed.
    resources: Option<TransferResources>,
    receipt: Option<TreeReceipt>,
    /// What has its name here, in this attempt or before it.
    named: LandedFiles,
    file: usize,
    running: Option<Running>,
}

/// A file that comes.
#[derive(Clone)]
struct Running {
    /// Where it is at the server.
    path: Vec<u8>,
    /// The file alone.
    one: Arc<Layout>,
    sink: Arc<dyn Landing>,
    held: ByteRanges,
}

impl FromServer<'_> {
    /// The entry `index` as the only one.
    fn alone(&self, index: usize) -> (Arc<Layout>, Destination) {
        let item = &self.layout.entries()[index];
        let one = Layout::new(vec![Entry { path: Vec::new(), ..item.clone() }], BLOCK_LEN);
        (Arc::new(one), self.place.below(&item.path))
    }

    fn running(&self) -> Result<Running, Error> {
        let none = || Error::new(Fault::Bug, ErrorCode::NoChannel, "no file was begun");
        self.running.clone().ok_or_else(none)
    }

    /// Remembers that the entry `index` has its name here.
    fn note_landed(&mut self, index: usize) {
        if let Some((root, start)) = self.place.at() {
            let at = join(start, &self.layout.entries()[index].path);
            self.named.note(root, &at, index);
        }
    }

    /// Names the entry `index` as failed where its name here is that of another that has landed;
    /// whether it is.
    fn refuse_same_name(&self, copy: &mut Copy<'_>, index: usize) -> bool {
        let Some((root, start)) = self.place.at() else { return false };
        let entries = self.layout.entries();
        let place = |index: usize| join(start, &entries[index].path);
        let Some(owner) = self.named.owner(root, index, place) else { return false };
        let error = name_of_another(&entries[owner].path);
        copy.stats.failures.push((entries[index].path.clone(), error));
        true
    }

    /// The same over one connection, whose close is the end.
    async fn carry_in_order(&mut self, copy: &mut Copy<'_>) -> Result<(), Error> {
        let Running { path, one, sink, held } = self.running()?;
        let mut transfer = Transfer::new(TransferKind::Retrieve, Pathname::new(path));
        let from = held.total();
        transfer.held = held;
        let ask = |control: &mut Control| control.request(Request::Transfer(transfer));
        let (id, data) = stream_mode::begin(copy, self.control, ask).await?;
        let came = copy.supervise(Some(self.control), move |state| {
            let stream = data.open(state)?;
            let len = one.payload();
            whole(stream_mode::receive(state, stream, &*sink, (from, len))?, len)
        });
        came.await?;
        copy.until_done(self.control, &[id]).await
    }

    /// Takes over what became of the one file `index`; whether it has landed.
    fn landed(&self, copy: &mut Copy<'_>, index: usize, mut landed: Landed) -> bool {
        if landed.files == 1 && landed.failures.is_empty() {
            return true;
        }
        let path = &self.layout.entries()[index].path;
        let failures = std::mem::take(&mut landed.failures).into_iter();
        landed.failures = failures.map(|(_, error)| (path.clone(), error)).collect();
        copy.take_landed(landed);
        false
    }
}

/// A server says the size beforehand, and the end: if they differ the file changed, or was cut.
fn whole(came: u64, len: u64) -> Result<(), Error> {
    if came == len {
        return Ok(());
    }
    let message = format!("{came} bytes are here of a file of {len}");
    Err(Error::new(Fault::There, ErrorCode::Incomplete, message))
}

/// What is held without a gap: more cannot be said in MODE S.
fn beginning(held: &ByteRanges) -> ByteRanges {
    held.iter().take(1).filter(|range| range.start == 0).collect()
}

impl FileEnd for FromServer<'_> {
    /// One of several sources, which may be of one size and time, is known by where it is.
    fn path(&self, index: usize) -> Vec<u8> {
        let path = join(trim(&self.from.path), &self.layout.entries()[index].path);
        [self.from.place().as_bytes(), b" ", &path].concat()
    }

    async fn begin(&mut self, copy: &mut Copy<'_>, index: usize) -> Result<ByteRanges, Error> {
        self.file = index;
        let from = self.from.path.strip_suffix(b"/").unwrap_or(&self.from.path);
        let path = join(from, &self.layout.entries()[index].path);
        self.control.refuse_other_name(&path).await?;
        let (one, place) = self.alone(index);
        let sink: Arc<dyn Landing> = place.sink(&one, copy.options)?.into();
        let source = source_of(&self.from.place(), [&path[..]].into_iter());
        let held = sink.begin(PartialOrigin { source, digests: None });
        let doing = || format!("retrieving {}", String::from_utf8_lossy(&path));
        let held = held.map_err(|error| error.while_doing(doing()))?;
        let held = held.unwrap_or_else(|| ResumeState::nothing(&one, None)).blocks;
        let held = if self.knows_blocks { held } else { beginning(&held) };
        self.running = Some(Running { path, one, sink, held: held.clone() });
        Ok(held)
    }

    fn hold(&mut self, copy: &mut Copy<'_>, held: ByteRanges) {
        let came = copy.stats.bytes - self.begun;
        copy.state.expect(self.layout.payload() - came, self.layout.files());
        copy.state.held.store(held.total(), Ordering::Relaxed);
    }

    /// Receives what is not held yet.
    async fn carry(&mut self, copy: &mut Copy<'_>) -> Result<(), Error> {
        let Running { path, one, sink, held } = self.running()?;
        let len = one.payload();
        sink.open(0)?;
        if !self.knows_blocks {
            return self.carry_in_order(copy).await;
        }
        let resources = match self.resources.take() {
            Some(resources) => resources,
            None => open_channels(copy, self.control, self.params).await?,
        };
        let mut transfer = Transfer::new(TransferKind::Retrieve, Pathname::new(path));
        transfer.held = nameable(&held);
        let id = self.control.request(Request::Transfer(transfer));
        let arrived = Mutex::new(held);
        let done = copy.supervise(Some(self.control), move |state| {
            let plain = (Integrity::default(), None);
            let (resources, _) =
                receive_layout(state, resources, &one, &*sink, plain, &arrived, &state.tally)?;
            whole(arrived.into_inner().unwrap_or_else(PoisonError::into_inner).total(), len)?;
            Ok(resources)
        });
        self.resources = Some(done.await?);
        copy.until_done(self.control, &[id]).await
    }

    async fn look_again(&mut self) -> Result<Option<FileFacts>, Error> {
        let look = Request::Stat(Pathname::new(self.running()?.path));
        let look = self.control.request(look);
        let now = self.control.looked(look).await?;
        Ok(now.map(|found| FileFacts::of(&entry(Vec::new(), &found))))
    }

    async fn compare(&mut self, copy: &mut Copy<'_>) -> Result<bool, Error> {
        let Running { path, one, sink, .. } = self.running()?;
        let Some(read_back) = sink.read_back(0)? else { return Ok(false) };
        let len = one.payload();
        checksum::compare(copy, self.control, Pathname::new(path), (len, read_back)).await
    }

    async fn land(&mut self, copy: &mut Copy<'_>) -> Result<bool, Error> {
        let Running { sink, .. } = self.running()?;
        self.running = None;
        if self.refuse_same_name(copy, self.file) {
            sink.refuse();
            return Ok(false);
        }
        let landed = copy.supervise(None, move |_| Ok(sink.land(None))).await?;
        let has_landed = self.landed(copy, self.file, landed);
        if has_landed {
            self.note_landed(self.file);
        }
        Ok(has_landed)
    }

    async fn remember(&mut self, index: usize, is_compared: bool) -> Result<(), Error> {
        let item = &self.layout.entries()[index];
        if let (Some(receipt), Some(landed)) = (&mut self.receipt, landed_as(self.place, item)) {
            receipt.record(&item.path, &FileFacts::of(item), &landed, is_compared);
        }
        Ok(())
    }

    fn link(&mut self, copy: &mut Copy<'_>, index: usize) -> Result<(), Error> {
        if self.refuse_same_name(copy, index) {
            return Ok(());
        }
        let (one, place) = self.alone(index);
        let landed = place.sink(&one, copy.options)?.land(None);
        if self.landed(copy, index, landed) {
            self.note_landed(index);
            copy.land_one(&self.path(index), &self.layout.entries()[index], 0);
        }
        Ok(())
    }

    async fn abandon(&mut self, _copy: &mut Copy<'_>, keeps: bool, error: Error) -> Error {
        let Some(Running { path, sink, .. }) = self.running.take() else { return error };
        if !keeps {
            sink.refuse();
        }
        error.while_doing(format!("retrieving {}", String::from_utf8_lossy(&path)))
    }
}

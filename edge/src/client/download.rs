//! Copies from a node to this host, as one tree; from any other GridFTP server [`from_stock`] takes
//! over.

use super::channel_opener::ChannelOpener;
use super::control::Control;
use super::copy::{Copy, known};
use super::dial::{DataPath, dial};
use super::existing::{Existing, blocks_of, kept_here};
use super::from_stock;
use super::local::{destination, has_partial};
use super::location::{Location, Remote};
use super::passes::{Passes, agree, nameable, source_of};
use super::transfer_state::TransferState;
use super::upload::staging;
use crate::channels::Channel;
use crate::mover::{
    Acceptor, BLOCK_LEN, Incoming, Integrity, MANIFEST_LIMIT, ReceiveJob, ReceiveOutcome,
    TREE_MODULE, Tally, receive,
};
use crate::stores::{BytesSink, Landed, Landing, ResumeState, Sink, join};
use crate::sys::pool::Slot;
use crate::sys::tcp::TcpInfo;
use farline_core::gridftp::client::{Request, Transfer, TransferKind};
use farline_core::gridftp::{
    self, Command, ListingKind, Mode, Module, Options as Opts, Pathname, RetrieveOptions,
};
use farline_core::transfer::journal::Origin;
use farline_core::transfer::{
    DigestVerdict, Digests, Entry, EntryKind, Layout, TransferParams, parse_manifest,
};
use farline_core::units::{ByteRanges, Bytes, Error, ErrorCode, Fault};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

/// Channels and slots between the transfers of one copy, and where channels come in unless this end
/// opened them.
pub(super) struct TransferResources {
    acceptor: Option<Arc<dyn Incoming + Send>>,
    channels: Vec<Box<dyn Channel>>,
    slots: Vec<Slot>,
    pub(super) tcp: Vec<TcpInfo>,
}

pub(super) async fn run(
    copy: &mut Copy<'_>,
    from: &Remote,
    to: &Location,
    several: bool,
) -> Result<(), Error> {
    // Where the node knows keys its data port is known as soon as the login is done.
    let passive = Request::Passive { mode: Mode::Extended, striped: false };
    let (mut control, ahead) =
        Control::open(from, &copy.options.reach, vec![Request::ToFarline(Box::new(passive))])
            .await?;
    control.require(from).await?;
    let mut choice = copy.choose(control.rtt(), None, None, false);
    let is_ordered = control.features().order;
    if *to == Location::Standard && !is_ordered {
        // What several channels bring cannot be set right with bounded memory unless each is in
        // order.
        choice.streams = 1;
        copy.stats.streams = 1;
    }
    let copied = if control.features().tree {
        from_farline(copy, &mut control, ahead[0], from, to, several, &choice).await
    } else if control.features().is_gridftp {
        from_stock::run(copy, &mut control, from, to, several, &choice).await
    } else {
        return Err(Error::new(
            Fault::There,
            ErrorCode::Unsupported,
            format!("{}:{} is a plain FTP server, not a GridFTP one", from.host, from.port),
        )
        .hint("curl or lftp can fetch from it"));
    };
    let contents = from.path.ends_with(b"/") && from.store.is_none();
    copied.map_err(|error| match (error.code, to) {
        (ErrorCode::Interrupted, Location::Local(path))
            if has_partial(to, from.name(), contents) =>
        {
            let folder = if path.is_dir() { path.as_path() } else { path.parent().unwrap_or(path) };
            interrupted(error, &format!("farline partials ls {}", shown(folder)))
        }
        _ => error,
    })
}

/// A folder on a command line.
fn shown(folder: &Path) -> String {
    if folder.as_os_str().is_empty() { ".".to_owned() } else { folder.display().to_string() }
}

/// The error of an interrupted copy of which something durable is kept.
pub(super) fn interrupted(error: Error, list: &str) -> Error {
    Error {
        message: "interrupted; what had arrived is kept under a hidden name".to_owned(),
        ..error
    }
    .hint(format!("run the same command again to go on from there; `{list}` shows what is kept"))
}

pub(super) fn parallelism(streams: usize) -> Request {
    let streams = u32::try_from(streams).unwrap_or(1);
    let retrieve = RetrieveOptions {
        parallelism: Some((streams, streams, streams)),
        ..RetrieveOptions::default()
    };
    Request::Exec(Command::Options(Opts::Retrieve(retrieve)))
}

/// Opens the channels to the node, so that this end need not be reachable: K-4. A node without keys
/// connects to us.
async fn reach(
    copy: &mut Copy<'_>,
    control: &mut Control,
    address: Option<SocketAddr>,
    choice: &TransferParams,
    is_ordered: bool,
) -> Result<(TransferResources, Option<u64>), Error> {
    let Some(address) = address else { return Ok((arrange(copy, control, choice).await?.0, None)) };
    tell_buffer(copy, control);
    let options = copy.tcp_options(None);
    let dialled = dial(copy, control, address, choice, &options).await?;
    control.request(parallelism(dialled.channels.len()));
    copy.stats.data_path = Some(dialled.path);
    copy.stats.encrypted = Some(dialled.encrypted);
    let slots = staging(choice)?;
    // A receiver in order has shared its slots out among the channels that there are.
    let opener = dialled.opener.filter(|_| {
        copy.options.overrides.streams.is_none() && !is_ordered && copy.live.pace.is_none()
    });
    let adapts = control.adapt(opener.is_some(), copy.options.overrides.congestion.is_none());
    let acceptor = opener.filter(|_| adapts.is_some()).map(|opener| {
        let further = ChannelOpener::new(
            opener,
            control.heard(),
            dialled.channels.len(),
            slots.len().saturating_sub(2),
        );
        Arc::new(further) as Arc<dyn Incoming + Send>
    });
    Ok((TransferResources { acceptor, channels: dialled.channels, slots, tcp: Vec::new() }, adapts))
}

/// Begins another pass over new channels (I-7), once the requests of the last are over.
async fn anew(
    copy: &mut Copy<'_>,
    control: &mut Control,
    address: Option<SocketAddr>,
    choice: &TransferParams,
    is_ordered: bool,
    requests: impl IntoIterator<Item = u64>,
    agreed: &mut Vec<u64>,
) -> Result<TransferResources, Error> {
    // Every channel is closed, so that these end soon; how does not matter.
    for id in requests {
        let _ = copy.until_done(control, &[id]).await;
    }
    copy.settle();
    let integrity = copy.integrity(control);
    let (resources, adapts) = reach(copy, control, address, choice, is_ordered).await?;
    agreed.extend(adapts);
    agreed.extend(agree(control, integrity, None));
    Ok(resources)
}

/// Asks the server for the socket buffers that were asked for here; one that does not know how
/// keeps its own.
fn tell_buffer(copy: &Copy<'_>, control: &mut Control) {
    if let Some(Bytes(len)) = copy.options.buffer {
        control.try_request(Request::Exec(Command::SocketBuffer(len)));
    }
}

/// Listens for the server's channels and tells it where and how many.
pub(super) async fn arrange(
    copy: &mut Copy<'_>,
    control: &mut Control,
    choice: &TransferParams,
) -> Result<(TransferResources, Vec<u64>), Error> {
    if control.data_tls().await?.is_some() {
        return Err(Error::new(
            Fault::There,
            ErrorCode::CannotEncrypt,
            "the server encrypts, but knows no keys",
        ));
    }
    copy.stats.data_path = Some(DataPath::Direct);
    copy.stats.encrypted = Some(false);
    let local = control.local()?;
    let acceptor =
        Acceptor::bind(SocketAddr::new(local.ip(), 0), None, None, &copy.tcp_options(None))?;
    tell_buffer(copy, control);
    let requests = vec![
        control.request(parallelism(choice.streams)),
        control
            .request(Request::Active { mode: Mode::Extended, addresses: vec![acceptor.address()] }),
    ];
    Ok((
        TransferResources {
            acceptor: Some(Arc::new(acceptor)),
            channels: Vec::new(),
            slots: staging(choice)?,
            tcp: Vec::new(),
        },
        requests,
    ))
}

/// Waits for the node's answer before anything moves when only the node can know the control
/// `asked` for: a word that no host knows is a mistake. What Farline knows is not waited for.
async fn told_of_unknown(
    copy: &mut Copy<'_>,
    control: &mut Control,
    asked: Option<(u64, String)>,
) -> Result<Option<(u64, String)>, Error> {
    let Some((id, name)) = asked else { return Ok(None) };
    if copy.asked_congestion().is_none() || known(&name).is_ok() {
        return Ok(Some((id, name)));
    }
    control.done(id).await?;
    copy.stats.congestion = Some(name);
    Ok(None)
}

async fn from_farline(
    copy: &mut Copy<'_>,
    control: &mut Control,
    passive: u64,
    from: &Remote,
    to: &Location,
    several: bool,
    choice: &TransferParams,
) -> Result<(), Error> {
    // The node sends, so the congestion control is at its end; one that does not have it says so
    // and uses its own.
    let congestion = choice.congestion.clone().map(|name| {
        let value = Opts::Farline { name: "congestion".to_owned(), value: name.clone() };
        (control.try_request(Request::Exec(Command::Options(value))), name)
    });
    let congestion = told_of_unknown(copy, control, congestion).await?;
    let keyed = control.agreed_key().await?.is_some();
    let address = if keyed { Some(control.passive(passive).await?) } else { None };
    let integrity = copy.integrity(control);
    let mut agreed = Vec::new();
    if *to == Location::Standard && control.features().order {
        let option = Opts::Farline { name: "order".to_owned(), value: "ascending".to_owned() };
        agreed.push(control.request(Request::Exec(Command::Options(option))));
    }
    if control.limit(copy.options.limit) {
        copy.live.paced_there.store(true, Ordering::Relaxed);
    }
    let path = Pathname::new(from.path.clone());
    let transfer = |parms: &str, held: &ByteRanges| {
        let module = Some(Module { name: TREE_MODULE.to_owned(), parms: parms.to_owned() });
        Request::Transfer(Transfer {
            module,
            held: held.clone(),
            ..Transfer::new(TransferKind::Retrieve, path.clone())
        })
    };
    let nothing = ByteRanges::new();
    let (name, contents) =
        (from.name().to_vec(), from.path.ends_with(b"/") && from.store.is_none());
    // Clause R-7: where something is left, what it is can be told when the manifest is there.
    // So it can where files may stay: which, is known when the manifest is there.
    let picks = copy.options.existing != Existing::Replace;
    let resuming = picks || (integrity.checks && has_partial(to, &name, contents));
    let is_ordered = *to == Location::Standard;
    let (mut resources, adapts) = reach(copy, control, address, choice, is_ordered).await?;
    agreed.extend(adapts);
    agreed.extend(agree(control, integrity, None));
    let mut lists = Passes::default();
    let (manifest, mut rest, text) = loop {
        let manifest = control.request(transfer("manifest", &nothing));
        let rest = (!resuming)
            .then(|| ["data", "digests"].map(|part| control.request(transfer(part, &nothing))));
        let error = match copy
            .supervise(Some(control), move |live| {
                receive_list(live, resources, MANIFEST_LIMIT, integrity)
            })
            .await
        {
            Ok((again, text)) => {
                resources = again;
                break (manifest, rest, text);
            }
            Err(error) if !integrity.checks => return Err(error),
            Err(error) => error,
        };
        lists.failed(error, 0)?;
        let pending = std::iter::once(manifest).chain(rest.into_iter().flatten());
        resources = anew(copy, control, address, choice, is_ordered, pending, &mut agreed).await?;
    };
    let entries = parse_manifest(&text)
        .map_err(|error| Error::new(Fault::There, ErrorCode::BadManifest, error.to_string()))?;
    let is_folder = !matches!(&entries[..], [only] if only.path.is_empty() && only.kind != EntryKind::Directory);
    if is_folder && !copy.options.recursive {
        return Err(Error::new(
            Fault::You,
            ErrorCode::IsADirectory,
            format!("{} is a directory", String::from_utf8_lossy(&name)),
        )
        .hint("add -r to copy it with all that is in it"));
    }
    let layout = Arc::new(Layout::new(entries, BLOCK_LEN));
    let files = layout
        .entries()
        .iter()
        .filter(|entry| matches!(entry.kind, EntryKind::File { .. }))
        .count() as u64;
    let place = destination(to, &name, is_folder, contents, several)?;
    let kept = kept_here(copy, &place, layout.entries());
    let sink: Arc<dyn Landing> = place.sink(&layout, &copy.options.direct_io)?.into();
    sink.leave(&kept);
    let origin = Origin {
        source: source_of(&format!("{}:{}", from.host, from.port), [&from.path[..]].into_iter()),
        digests: integrity.digests,
    };
    let held = if integrity.checks { sink.begin(origin)? } else { None }
        .unwrap_or_else(|| ResumeState::nothing(&layout));
    sink.make_folders()?;
    copy.stats.resumed_bytes += held.blocks.total();
    let digests = if integrity.digests { held.digests } else { Digests::uncomputed(&layout) };
    let (digests, mut arrived) = (Arc::new(Mutex::new(digests)), held.blocks);
    for range in blocks_of(&layout, &kept).iter() {
        arrived.insert(range);
    }
    copy.until_done(control, &[manifest]).await?;
    copy.take_left_out(control);
    let mut passes = Passes::default();
    let (landed, resources) = loop {
        passes.made += 1;
        let requests = rest.take().unwrap_or_else(|| {
            let named = nameable(&arrived);
            [
                control.request(transfer("data", &named)),
                control.request(transfer("digests", &nothing)),
            ]
        });
        copy.live.expect(layout.payload(), files);
        copy.live.held.store(arrived.total(), Ordering::Relaxed);
        let pass = Pass {
            integrity,
            layout: Arc::clone(&layout),
            sink: Arc::clone(&sink),
            digests: Arc::clone(&digests),
            arrived: Arc::new(Mutex::new(arrived)),
        };
        let came = Arc::clone(&pass.arrived);
        let moved = copy.supervise(Some(control), move |live| pass.receive(live, resources)).await;
        arrived = came.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let error = match moved {
            Ok(done) => {
                copy.until_done(control, &requests).await?;
                break done;
            }
            // Clause R-9.
            Err(error) if error.fault == Fault::There => {
                sink.refuse();
                return Err(error);
            }
            Err(error) if !integrity.checks => return Err(error),
            Err(error) => error,
        };
        passes.failed(error, arrived.total())?;
        resources = anew(copy, control, address, choice, is_ordered, requests, &mut agreed).await?;
    };
    for id in agreed {
        control.done(id).await?;
    }
    if let Some((id, name)) = congestion {
        match control.done(id).await {
            Ok(_) => copy.stats.congestion = Some(name),
            // What Farline chose by itself is no promise.
            Err(error) if copy.asked_congestion().is_some() => {
                copy.stats.note(format!("without {name}: {error}"))
            }
            Err(_) => {}
        }
    }
    copy.take_remarks(control);
    copy.stats.streams = resources.channels.len();
    copy.stats.staging = Some(Bytes((resources.slots.len() * BLOCK_LEN) as u64));
    copy.verified(integrity);
    copy.stats.passes += passes.made;
    take(copy, landed);
    copy.stats.tcp.extend(resources.tcp);
    copy.stats.count_completions(&resources.channels);
    copy.settle();
    Ok(())
}

/// One pass over what is not here yet, to the landing.
struct Pass {
    integrity: Integrity,
    layout: Arc<Layout>,
    sink: Arc<dyn Landing>,
    digests: Arc<Mutex<Digests>>,
    arrived: Arc<Mutex<ByteRanges>>,
}

impl Pass {
    fn receive(
        self,
        live: &TransferState,
        resources: TransferResources,
    ) -> Result<(Landed, TransferResources), Error> {
        let Pass { integrity, layout, sink, digests, arrived } = self;
        let guard = (integrity, integrity.digests.then_some(&*digests));
        let (resources, _) =
            receive_layout(live, resources, &layout, &*sink, guard, &arrived, &live.tally)?;
        let total = arrived.lock().unwrap_or_else(PoisonError::into_inner).total();
        if total != layout.payload() {
            let message = format!("{total} of {} bytes are here", layout.payload());
            return Err(match integrity.checks {
                true => Error::new(Fault::Between, ErrorCode::BlocksMissing, message).hint(
                    "the path changed or lost data; run the same command again, it goes on \
                        from what arrived",
                ),
                false => Error::new(Fault::There, ErrorCode::Incomplete, message),
            });
        }
        let (resources, list) = receive_list(
            live,
            resources,
            layout.entries().len() * DigestVerdict::WIRE_LEN,
            integrity,
        )?;
        let verdicts = DigestVerdict::decode_for(&layout, &list)?;
        let digests = digests.lock().unwrap_or_else(PoisonError::into_inner);
        Ok((live.alone(|| sink.land(Some((&verdicts, &digests)))), resources))
    }
}

pub(super) fn take(copy: &mut Copy<'_>, landed: Landed) {
    copy.stats.bytes += landed.bytes;
    copy.stats.files += landed.files;
    copy.stats.failures.extend(landed.failures);
}

/// Lists a remote tree, folder by folder.
pub(super) async fn list_tree(
    copy: &mut Copy<'_>,
    control: &mut Control,
    top: &[u8],
) -> Result<Vec<Entry>, Error> {
    let mut entries = Vec::new();
    let mut folders = vec![Vec::new()];
    while let Some(folder) = folders.pop() {
        let at = join(top.strip_suffix(b"/").unwrap_or(top), &folder);
        let found = match control.list(&at).await {
            // The rest of the tree is no worse for it.
            Err(error) if !folder.is_empty() && error.code == ErrorCode::PermissionDenied => {
                copy.stats.failures.push((folder, error));
                continue;
            }
            found => found?,
        };
        for found in found {
            let name = found.name.name();
            if matches!(found.kind, ListingKind::CurrentDirectory | ListingKind::ParentDirectory)
                || matches!(name, b"" | b"." | b"..")
            {
                continue;
            }
            let path = join(&folder, name);
            // Farline lists a link as what it leads to, and says where.
            if let Some(link) = &found.link {
                let kind = EntryKind::Symlink { target: link.as_bytes().to_vec() };
                entries.push(Entry { kind, ..entry(path, &found) });
                continue;
            }
            match found.kind {
                ListingKind::Directory => folders.push(path.clone()),
                ListingKind::File => {}
                _ => {
                    let error = Error::new(
                        Fault::You,
                        ErrorCode::NotAFile,
                        "it is neither a file nor a directory",
                    );
                    copy.stats.failures.push((path, error));
                    continue;
                }
            }
            entries.push(entry(path, &found));
        }
    }
    Ok(entries)
}

pub(super) fn entry(path: Vec<u8>, found: &gridftp::ListingEntry) -> Entry {
    let kind = match found.kind {
        ListingKind::Directory => EntryKind::Directory,
        _ => EntryKind::File { len: found.size.unwrap_or(0) },
    };
    let time = found.modified.unwrap_or_default();
    let modified_ns =
        time.seconds.saturating_mul(1_000_000_000).saturating_add(i64::from(time.nanos));
    let mode = found.mode.unwrap_or(if kind == EntryKind::Directory { 0o755 } else { 0o644 });
    Entry { path, kind, mode, modified_ns, changed_ns: 0 }
}

/// Receives a list of bytes as a transfer of its own; it counts as overhead, not as payload.
fn receive_list(
    live: &TransferState,
    resources: TransferResources,
    limit: usize,
    integrity: Integrity,
) -> Result<(TransferResources, Vec<u8>), Error> {
    let sink = BytesSink::new(limit);
    let layout = Arc::new(Layout::of_file(limit.max(1) as u64, BLOCK_LEN));
    let tally = Tally::default();
    let (resources, lost) = receive_layout(
        live,
        resources,
        &layout,
        &sink,
        (integrity, None),
        &Mutex::default(),
        &tally,
    )?;
    match lost || tally.bad_blocks() > 0 {
        true => {
            Err(Error::new(Fault::Between, ErrorCode::BlocksMissing, "a list did not arrive whole")
                .hint(
                    "the path changed or lost data; run the same command again, it goes on from \
                what arrived",
                ))
        }
        false => Ok((resources, sink.into_bytes())),
    }
}

/// Receives a transfer; answers also whether a channel was lost, so that there may be holes.
pub(super) fn receive_layout(
    live: &TransferState,
    resources: TransferResources,
    layout: &Arc<Layout>,
    sink: &dyn Sink,
    (integrity, digests): (Integrity, Option<&Mutex<Digests>>),
    held: &Mutex<ByteRanges>,
    tally: &Tally,
) -> Result<(TransferResources, bool), Error> {
    let tell = |why: String| live.changed(why);
    let ReceiveOutcome { channels, slots, tcp, lost, .. } = receive(ReceiveJob {
        layout: Arc::clone(layout),
        sink,
        wire_offset: 0,
        channels: resources.channels,
        acceptor: resources.acceptor.as_deref().map(|acceptor| acceptor as &dyn Incoming),
        growth: live.growth(tally, &tell),
        slots: resources.slots,
        writers: 2,
        digests,
        tally,
        held,
        integrity,
        pace: live.pace.clone().filter(|_| !live.paced_there.load(Ordering::Relaxed)),
        cancel: live.cancel.clone(),
    })?;
    Ok((TransferResources { acceptor: resources.acceptor, channels, slots, tcp }, lost))
}

//! A session's data channels, and the transfers over them.

use super::Shared;
use super::diskless;
use super::door::Door;
use super::files::{Files, beneath};
use super::reporter::Reporter;
use super::stream_mode;
use super::tree::{self, Phase, TreeState};
use crate::channels::Channel;
use crate::channels::key::Key;
use crate::channels::tcp::{TcpOptions, check, connect};
use crate::kernelcc::{self, Held, Wish};
use crate::mover::{
    Acceptor, Audit, BLOCK_LEN, Cancel, Incoming, Integrity, Pace, ReceiveJob, SendJob, Tally, UNKNOWN_LEN, bind, receive, send,
};
use crate::stores::{BytesSource, Diskless, PosixSink, PosixSource, Sink, Source, storage_error};
use crate::sys::pool::{Slot, pool};
use farline_core::congestion::Algorithm;
use farline_core::gridftp::server::{Action, TransferRequest};
use farline_core::gridftp::{Entry, Family, Kind, ListFormat, Mode, Timestamp};
use farline_core::transfer::{Digests, Layout, Marks};
use farline_core::units::{ByteRanges, Bytes, Error, Fault};
use rustls::ServerConfig;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// How long a data connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// The time of day, for markers and listings.
pub(super) fn wall_clock() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp { seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX), nanos: since.subsec_nanos() }
}

/// Listeners, channels and staging of one session.
pub(super) struct DataPlane {
    pub(super) shared: Arc<Shared>,
    local: SocketAddr,
    peer: SocketAddr,
    pub(super) acceptor: Option<Acceptor>,
    /// Whether data connections are under TLS: `PROT P`.
    private: bool,
    /// In place of `acceptor` once the client gave a key.
    pub(super) door: Option<Door>,
    targets: Vec<SocketAddr>,
    channels: Vec<Box<dyn Channel>>,
    slots: Vec<Slot>,
    options: TcpOptions,
    /// The congestion control that was loaded for this session.
    held: Option<Held>,
    tree: TreeState,
    /// How trees are guarded, and where they come from, as the client said.
    pub(super) integrity: Integrity,
    pub(super) source: [u8; 32],
    /// What trees come from and go to instead of the node's files.
    store: Option<Diskless>,
    /// Holds what this session sends to a rate.
    pace: Option<Arc<Pace>>,
    /// Whether each channel carries what this session sends in ascending order (O-3).
    in_order: bool,
}

impl DataPlane {
    pub(super) fn new(shared: Arc<Shared>, local: SocketAddr, peer: SocketAddr) -> DataPlane {
        let tree = TreeState::default();
        let options = TcpOptions::default();
        DataPlane {
            shared,
            local,
            peer,
            acceptor: None,
            private: false,
            door: None,
            targets: Vec::new(),
            channels: Vec::new(),
            slots: Vec::new(),
            options,
            held: None,
            tree,
            integrity: Integrity { checks: false, digests: true },
            source: [0; 32],
            store: None,
            pace: None,
            in_order: false,
        }
    }

    /// Closes what is open; a listener and the client's addresses stay good.
    pub(super) fn close_channels(&mut self) {
        self.channels.clear();
    }

    /// Listens for the client's data connections; answers with the address to tell it.
    pub(super) fn passive(&mut self, family: Option<Family>) -> Result<SocketAddr, Error> {
        self.channels.clear();
        self.targets.clear();
        let ip = self.local.ip().to_canonical();
        if family.is_some_and(|family| family != Family::of(&SocketAddr::new(ip, 0))) {
            let message = "the control connection is of another address family, and so would the data connection be";
            return Err(Error::new(Fault::You, "unsupported", message));
        }
        if let Some(door) = &mut self.door {
            let listener = bind(SocketAddr::new(ip, 0), self.shared.config.data_ports, &self.options)?;
            let failed = |error: std::io::Error| Error::new(Fault::Here, "no-data-port", error.to_string());
            door.clear();
            door.listen(listener).map_err(failed)?;
            return door.address().ok_or_else(|| Error::new(Fault::Bug, "no-data-port", "the data port has no address"));
        }
        let peer = (!self.shared.config.third_party).then(|| self.peer.ip().to_canonical());
        let acceptor = Acceptor::bind(SocketAddr::new(ip, 0), self.shared.config.data_ports, peer, &self.options)?;
        let told = SocketAddr::new(self.shared.config.data_address.unwrap_or(ip), acceptor.address().port());
        self.acceptor = Some(acceptor);
        Ok(told)
    }

    /// Takes the addresses to connect to.
    pub(super) fn act(&mut self, addresses: Vec<SocketAddr>) -> Result<(), Error> {
        self.channels.clear();
        if self.door.is_some() {
            // K-1: the client opens every data connection of a session that has a key.
            return Err(Error::new(Fault::You, "bad-sequence", "with a key the client connects: say PASV, EPSV or SPAS"));
        }
        self.acceptor = None;
        let own = |ip: IpAddr| ip.to_canonical() == self.peer.ip().to_canonical();
        if !self.shared.config.third_party && !addresses.iter().all(|address| own(address.ip()) && address.port() >= 1024) {
            // RFC 2577, section 3: else the node is a weapon against hosts that trust it.
            return Err(Error::new(Fault::Refused, "permission-denied", "data connections go to the client's own address only")
                .hint("the operator can allow third-party transfers with `third_party = true`"));
        }
        self.targets = addresses;
        Ok(())
    }

    /// Encrypts data connections from now on, or no more; the key must be given again (K-2).
    pub(super) fn protect(&mut self, private: bool) -> Result<(), Error> {
        if private && self.shared.identity.is_none() {
            return Err(Error::new(Fault::There, "unsupported", "this node has no key for TLS"));
        }
        self.private = private;
        self.channels.clear();
        self.door = None;
        Ok(())
    }

    /// What data connections are encrypted with, if they are.
    pub(super) fn tls(&self) -> Option<Arc<ServerConfig>> {
        self.shared.identity.as_ref().filter(|_| self.private).map(|identity| Arc::clone(&identity.config))
    }

    /// Farline's own options.
    pub(super) fn set_option(&mut self, name: &str, value: &str) -> Result<(), Error> {
        match name {
            "congestion" => {
                // Only names that Farline knows: a client may not have this host load modules of its choice. What cannot be
                // obtained is refused below, by the kernel.
                if value.parse::<Algorithm>().is_ok() {
                    self.held = kernelcc::obtain(&Wish::new(value)).ok();
                }
                let options = TcpOptions { congestion: Some(value.to_owned()), ..self.options.clone() };
                check(&options).map_err(|error| {
                    Error::new(
                        Fault::You,
                        "unknown-congestion",
                        format!("this node cannot use congestion control `{value}`: {error}"),
                    )
                })?;
                self.options = options;
                Ok(())
            }
            "check" => {
                // Clause I-7: a pass begins so, over channels that are all new.
                self.channels.clear();
                set(&mut self.integrity.checks, value, "crc32c")
            }
            "digest" => set(&mut self.integrity.digests, value, "blake3"),
            "source" => {
                let source = blake3::Hash::from_hex(value);
                self.source =
                    *source.map_err(|_| Error::new(Fault::You, "rejected", "a source is 64 hexadecimal digits"))?.as_bytes();
                Ok(())
            }
            "key" => {
                let key =
                    Key::from_hex(value).ok_or_else(|| Error::new(Fault::You, "bad-key", "a key is 64 hexadecimal digits"))?;
                self.channels.clear();
                self.targets.clear();
                self.acceptor = None;
                self.door = Some(self.shared.doors.open(key, self.tls()));
                Ok(())
            }
            "order" => match value {
                "ascending" | "any" => {
                    self.in_order = value == "ascending";
                    Ok(())
                }
                _ => Err(Error::new(Fault::You, "unsupported", format!("`{value}` is not offered; ascending and any are"))),
            },
            "limit" => {
                self.pace = Pace::parse(value)?.map(Arc::new);
                Ok(())
            }
            "store" => {
                self.store = diskless::choose(&self.shared, value)?;
                Ok(())
            }
            _ => Err(Error::new(Fault::You, "unsupported", format!("there is no option `{name}`"))),
        }
    }

    /// Runs one transfer; answers with its payload bytes.
    pub(super) fn transfer(&mut self, request: &TransferRequest, cancel: &Cancel, reporter: &Reporter<'_>) -> Result<u64, Error> {
        let result = self.dispatch(request, cancel, reporter);
        if result.is_err() {
            self.channels.clear();
            if let Some(door) = &self.door {
                // What came and was not taken belongs to the transfer that failed.
                door.clear();
            }
        }
        result
    }

    fn dispatch(&mut self, request: &TransferRequest, cancel: &Cancel, reporter: &Reporter<'_>) -> Result<u64, Error> {
        let run = Run { request, cancel, reporter, tally: Tally::default() };
        if self.private && self.door.is_none() && request.mode == Mode::Extended {
            // P-3: nobody but Farline is known to want it, and Farline has a key.
            return Err(Error::new(Fault::You, "unsupported", "MODE E under PROT P needs a key (OPTS FARLINE key=)"));
        }
        if let Some(module) = &request.module {
            let phase = Phase::parse(&module.parms)?;
            return if request.action.is_store() { tree::store(self, phase, &run) } else { tree::retrieve(self, phase, &run) };
        }
        match request.action {
            Action::List(format) => self.list(format, &run),
            Action::Retrieve => self.retrieve(&run),
            Action::Store | Action::Append => self.store(&run),
        }
    }

    fn list(&mut self, format: ListFormat, run: &Run<'_>) -> Result<u64, Error> {
        let files = Files::new(&self.shared.root, true);
        let now = wall_clock();
        let mut text = Vec::new();
        let looked = files.look(&run.request.path)?;
        let entries = if looked.kind == Kind::Directory { files.list(&run.request.path)? } else { vec![looked] };
        if let ListFormat::Facts(_) = format {
            let here = files.look(&run.request.path)?;
            let here = Entry { name: farline_core::gridftp::Pathname::new("."), kind: Kind::CurrentDirectory, ..here };
            // Names that cannot stand in a listing were left out by `Files::list` already.
            let _ = format.write(&here, now, &mut text);
        }
        for entry in &entries {
            let _ = format.write(entry, now, &mut text);
        }
        self.send_bytes(text, run)
    }

    /// Sends a list of bytes as the whole of a transfer.
    pub(super) fn send_bytes(&mut self, bytes: Vec<u8>, run: &Run<'_>) -> Result<u64, Error> {
        let layout = Arc::new(Layout::of_file(bytes.len() as u64, BLOCK_LEN));
        self.send_from(&layout, &BytesSource(bytes), 0, None, run)
    }

    fn retrieve(&mut self, run: &Run<'_>) -> Result<u64, Error> {
        let path = beneath(&run.request.path).to_vec();
        let entry = Files::new(&self.shared.root, false).look(&run.request.path)?;
        match entry.kind {
            Kind::File => {}
            Kind::Directory => {
                let error = std::io::Error::from(std::io::ErrorKind::IsADirectory);
                return Err(storage_error("retrieve", run.request.path.as_bytes(), &error));
            }
            _ => return Err(Error::new(Fault::You, "unsupported", "this is no regular file")),
        }
        let size = entry.size.unwrap_or(0);
        let (offset, length) = run.request.part.map_or((0, None), |part| (part.offset, part.length));
        if offset > size {
            return Err(Error::new(
                Fault::You,
                "restart-mismatch",
                format!("the file has {size} bytes, the part begins at {offset}"),
            ));
        }
        let len = length.unwrap_or(u64::MAX).min(size - offset);
        let layout = Arc::new(Layout::of_file(len, BLOCK_LEN));
        let source = PosixSource::new(Arc::clone(&self.shared.root), path, Arc::clone(&layout)).skipping(offset);
        self.send_from(&layout, &source, 0, None, run)
    }

    fn store(&mut self, run: &Run<'_>) -> Result<u64, Error> {
        let request = run.request;
        let path = beneath(&request.path).to_vec();
        let files = Files::new(&self.shared.root, true);
        let existing = files.look(&request.path).ok();
        if existing.as_ref().is_some_and(|entry| entry.kind == Kind::Directory) {
            let error = std::io::Error::from(std::io::ErrorKind::IsADirectory);
            return Err(storage_error("store", request.path.as_bytes(), &error));
        }
        let held = request.held.total();
        let size = existing.as_ref().and_then(|entry| entry.size).unwrap_or(0);
        let in_place = match (request.action, request.part) {
            (Action::Append, _) => Some(size),
            (_, Some(part)) => Some(part.offset),
            // MODE S: `REST n` and `STOR`. In MODE E the offsets on the wire count from the file's start.
            (_, None) if held > 0 => Some(if request.mode == Mode::Stream { held } else { 0 }),
            _ => None,
        };
        if held > size {
            // A failed STOR leaves nothing under the final name: there is nothing to go on from.
            return Err(Error::new(
                Fault::You,
                "restart-mismatch",
                format!("there are {size} bytes, not the {held} to go on from"),
            )
            .hint("send the file from its start"));
        }
        let layout = Arc::new(Layout::of_file(UNKNOWN_LEN, BLOCK_LEN));
        let sink = PosixSink::new(Arc::clone(&self.shared.root), path, Arc::clone(&layout), false);
        let sink = match in_place {
            Some(offset) => sink.in_place(offset),
            None => sink,
        };
        sink.open(0)?;
        let written = self.receive_into(&layout, &sink, None, ByteRanges::new(), run)?.arrived;
        let mut whole = request.held.clone();
        if request.mode == Mode::Stream {
            whole = ByteRanges::new();
        }
        for range in written.iter() {
            whole.insert(range);
        }
        if whole.count() > 1 || whole.iter().next().is_some_and(|range| range.start != 0) {
            return Err(Error::new(Fault::There, "incomplete", format!("the sender left holes: only {whole} came")));
        }
        if let Some(size) = request.size.filter(|&size| size > written.total() && held == 0) {
            let message = format!("{} of the {size} bytes announced with ALLO came", written.total());
            return Err(Error::new(Fault::Between, "incomplete", message));
        }
        match sink.land(None).failures.into_iter().next() {
            Some((_, error)) => Err(error),
            None => Ok(written.total()),
        }
    }

    /// Sends a layout in the session's mode.
    pub(super) fn send_from(
        &mut self,
        layout: &Arc<Layout>,
        source: &dyn Source,
        wire_offset: u64,
        audit: Option<&Audit>,
        run: &Run<'_>,
    ) -> Result<u64, Error> {
        if run.request.mode == Mode::Stream {
            let from = run.request.held.total();
            return stream_mode::send(self, layout, source, from, run);
        }
        let wanted = (run.request.parallelism.max(1) as usize).min(MOST_CHANNELS);
        let reused = self.channels.len() == wanted;
        if !reused && self.door.is_none() {
            self.channels.clear();
        }
        run.reporter.started(reused);
        if self.door.is_some() {
            self.await_channels(wanted, run)?;
        }
        while self.channels.len() < wanted {
            self.channels.push(Box::new(self.connect(self.channels.len(), run.request.buffer_size)?));
        }
        let slots = self.slots(wanted + 2)?;
        let (count, integrity) = (slots.len(), self.integrity_of(run));
        let sent = run.reporter.watch(run.request.perf_every.into(), &run.tally, || {
            send(SendJob {
                layout: Arc::clone(layout),
                source,
                blocks: Box::new(layout.blocks_without(&run.request.held)),
                wire_offset,
                channels: std::mem::take(&mut self.channels),
                slots,
                marks: Marks::of_pool(count),
                // One reader ends its blocks in the order in which it began them.
                readers: if self.in_order { 1 } else { threads() },
                audit,
                integrity,
                tally: &run.tally,
                pace: self.pace.clone(),
                tuning: None,
                cancel: run.cancel.clone(),
            })
        })?;
        self.channels = sent.channels;
        self.slots = sent.slots;
        if sent.lost > 0 {
            return Err(blocks_missing(format!("{} data channels were lost", sent.lost), &run.tally));
        }
        Ok(run.tally.bytes())
    }

    /// Receives into a sink in the session's mode.
    pub(super) fn receive_into(
        &mut self,
        layout: &Arc<Layout>,
        sink: &dyn Sink,
        digests: Option<&Mutex<Digests>>,
        held: ByteRanges,
        run: &Run<'_>,
    ) -> Result<Came, Error> {
        if run.request.mode == Mode::Stream {
            let mut arrived = held;
            arrived.insert(0..stream_mode::receive(self, sink, run)?);
            return Ok(Came { arrived, holes: false });
        }
        if self.acceptor.is_none() && self.door.is_none() && self.channels.is_empty() {
            return Err(Error::new(Fault::You, "data-connection", "in MODE E the sender connects: say PASV or EPSV before STOR"));
        }
        run.reporter.started(!self.channels.is_empty());
        let slots = self.slots(self.channels.len() + 3)?;
        let channels = std::mem::take(&mut self.channels);
        let door = self.door.as_ref().map(|door| door as &dyn Incoming);
        let acceptor = door.or(self.acceptor.as_ref().map(|acceptor| acceptor as &dyn Incoming));
        let integrity = self.integrity_of(run);
        let work = |held| {
            receive(ReceiveJob {
                layout: Arc::clone(layout),
                sink,
                wire_offset: 0,
                channels,
                acceptor,
                slots,
                writers: threads(),
                digests,
                tally: &run.tally,
                held,
                integrity,
                pace: None,
                cancel: run.cancel.clone(),
            })
        };
        let held = &Mutex::new(held);
        let work = || work(held);
        let received = run.reporter.watch_durable(run.request.ranges_every.into(), sink, || {
            run.reporter.watch(run.request.perf_every.into(), &run.tally, work)
        })?;
        self.channels = received.channels;
        self.slots = received.slots;
        let arrived = held.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(Came { arrived, holes: received.lost || run.tally.bad_blocks() > 0 })
    }

    /// Waits until the client has opened as many channels as it asked for (K-4).
    fn await_channels(&mut self, wanted: usize, run: &Run<'_>) -> Result<(), Error> {
        let Some(door) = &self.door else { return Ok(()) };
        let deadline = Instant::now() + CONNECT_TIMEOUT;
        while self.channels.len() < wanted {
            if let Some(reason) = run.cancel.reason() {
                return Err(reason);
            }
            if Instant::now() > deadline {
                let message = format!("{} of {wanted} data connections came in time", self.channels.len());
                return Err(
                    Error::new(Fault::Between, "data-connection", message).hint("a firewall may hold the node's data ports back")
                );
            }
            let Some(channel) = door.accept(Duration::from_millis(200))? else { continue };
            if let Some(name) = &self.options.congestion {
                // The listener had another when the client named this one; `set_option` has tried it.
                let _ = channel.handle().and_then(|handle| handle.set_congestion(name));
            }
            if let Some(len) = run.request.buffer_size {
                // What the system does not grant it leaves as it was.
                let _ = channel.handle().and_then(|handle| handle.set_buffer(len));
            }
            self.channels.push(channel);
        }
        Ok(())
    }

    /// Connects to the client, or the stripe whose turn it is.
    pub(super) fn connect(&self, turn: usize, buffer: Option<Bytes>) -> Result<crate::channels::tcp::TcpChannel, Error> {
        let Some(&target) = self.targets.get(turn % self.targets.len().max(1)) else {
            return Err(Error::new(Fault::You, "data-connection", "no data connection was arranged: say PORT or EPRT first"));
        };
        let options = TcpOptions { buffer: buffer.or(self.options.buffer), ..self.options.clone() };
        connect(target, Some(self.local), &options, CONNECT_TIMEOUT).map_err(|error| {
            Error::new(Fault::Between, "data-connection", format!("cannot connect to {target} for data: {error}"))
                .hint("a firewall before the client may refuse connections from outside")
        })
    }

    fn slots(&mut self, least: usize) -> Result<Vec<Slot>, Error> {
        let slots = std::mem::take(&mut self.slots);
        if slots.len() >= least {
            return Ok(slots);
        }
        let wanted = usize::try_from(self.shared.config.staging.0).unwrap_or(usize::MAX) / BLOCK_LEN;
        pool(wanted.max(least), BLOCK_LEN)
            .map_err(|error| Error::new(Fault::Here, "no-memory", format!("no memory for the staging pool: {error}")))
    }

    /// Checked blocks are for trees (clause I-1).
    fn integrity_of(&self, run: &Run<'_>) -> Integrity {
        if run.request.module.is_some() { self.integrity } else { Integrity::default() }
    }

    pub(super) fn tree(&mut self) -> &mut TreeState {
        &mut self.tree
    }

    /// What trees come from and go to instead of the node's files.
    pub(super) fn store_kind(&self) -> Option<Diskless> {
        self.store
    }

    /// What holds this session's sending to a rate.
    pub(super) fn pace(&self) -> Option<&Arc<Pace>> {
        self.pace.as_ref()
    }

    pub(super) fn peer(&self) -> SocketAddr {
        self.peer
    }
}

/// The end of a pass that left blocks missing (clause I-7).
pub(super) fn blocks_missing(what: String, tally: &Tally) -> Error {
    let (blocks, headers, channels) = (tally.bad_blocks(), tally.bad_headers(), tally.lost_channels());
    let counts = format!("bad_blocks={blocks} bad_headers={headers} lost_channels={channels}");
    Error::new(Fault::Between, "blocks-missing", format!("{what}; {counts}"))
        .hint("the path changed or lost data; run the same command again, it goes on from what arrived")
}

/// Switches `what` on by its `name`, or off by `none`.
fn set(what: &mut bool, value: &str, name: &str) -> Result<(), Error> {
    if value != name && value != "none" {
        return Err(Error::new(Fault::You, "unsupported", format!("`{value}` is not offered; {name} and none are")));
    }
    *what = value == name;
    Ok(())
}

/// What a receiving transfer brought.
pub(super) struct Came {
    /// What is in the store, with what was held before.
    pub(super) arrived: ByteRanges,
    /// Whether anything was lost on the way, so that there may be holes.
    pub(super) holes: bool,
}

/// One transfer, as its parts need it.
pub(super) struct Run<'a> {
    pub(super) request: &'a TransferRequest,
    pub(super) cancel: &'a Cancel,
    pub(super) reporter: &'a Reporter<'a>,
    pub(super) tally: Tally,
}

/// Channels that one transfer may use.
const MOST_CHANNELS: usize = 64;

/// Threads for a store: two keep a disk busy while one waits; more than processors help nobody.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 4))
}

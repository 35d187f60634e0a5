//! A session's transfers: each file, list or part over the session's data channels, in its mode.

use super::adapt::{IncomingChannels, Watch};
use super::data::{CONNECT_TIMEOUT, DataPlane, wall_clock};
use super::files::{Files, beneath};
use super::profile;
use super::reporter::Reporter;
use super::stream_mode;
use super::tree::{self, Phase};
use crate::mover::{
    Audit, BLOCK_LEN, Cancel, Incoming, Notify, ReceiveJob, SendJob, Tally, Tuning, UNKNOWN_LEN,
    WantedBlocks, receive, send,
};
use crate::prober::MODULE;
use crate::stores::{
    BytesSource, NotKept, PosixSink, PosixSource, Sink, SlowSink, Source, storage_error,
};
use crate::sys::lock::lock;
use farline_core::gridftp::omission::omission_line;
use farline_core::gridftp::server::{Action, TransferRequest};
use farline_core::gridftp::{ListFormat, ListingEntry, ListingKind, Mode};
use farline_core::transfer::{Digests, Layout, Watermarks};
use farline_core::units::{ByteRanges, Error, ErrorCode, Fault, Span};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Channels that one transfer may use.
const MOST_CHANNELS: usize = farline_core::plan::ChannelLimits::NODE as usize;
/// What is left out of a tree is named as far as this, so that the control channel keeps moving.
const MOST_OMISSIONS: usize = 10_000;

impl DataPlane {
    /// Runs one transfer; returns its payload bytes.
    pub(super) fn transfer(
        &mut self,
        request: &TransferRequest,
        cancel: &Cancel,
        reporter: &Reporter<'_>,
    ) -> Result<u64, Error> {
        let result = self.dispatch(request, cancel, reporter);
        if result.is_err() {
            self.channels.clear();
            if request.mode == Mode::Stream {
                // The client has connected, or is about to, and waits for an end (RFC 959,
                // section 3.2); a listener serves one transfer.
                self.close_data();
            }
            if let Some(door) = &self.door {
                // What came and was not taken belongs to the transfer that failed.
                door.clear();
            }
        }
        result
    }

    fn dispatch(
        &mut self,
        request: &TransferRequest,
        cancel: &Cancel,
        reporter: &Reporter<'_>,
    ) -> Result<u64, Error> {
        let run = RunningTransfer { request, cancel, reporter, tally: Tally::default() };
        if self.private && self.door.is_none() && request.mode == Mode::Extended {
            // P-3: nobody but Farline is known to want it, and Farline has a key.
            return Err(Error::new(
                Fault::You,
                ErrorCode::Unsupported,
                "MODE E under PROT P needs a key (OPTS FARLINE key=)",
            ));
        }
        if let Some(module) =
            request.module.as_ref().filter(|module| module.name.eq_ignore_ascii_case(MODULE))
        {
            return profile::measure(self, &module.parms, &run);
        }
        if let Some(module) = &request.module {
            let phase = Phase::parse(&module.parms)?;
            return if request.action.is_store() {
                tree::store(self, phase, &run)
            } else {
                tree::retrieve(self, phase, &run)
            };
        }
        match request.action {
            Action::List(format) => self.list(format, &run),
            Action::Retrieve => self.retrieve(&run),
            Action::Store | Action::Append => self.store(&run),
        }
    }

    fn list(&mut self, format: ListFormat, run: &RunningTransfer<'_>) -> Result<u64, Error> {
        let files = Files::new(&self.shared.root, true);
        let now = wall_clock();
        let mut text = Vec::new();
        let looked = files.stat(&run.request.path)?;
        let entries = if looked.kind == ListingKind::Directory {
            files.list(&run.request.path)?
        } else {
            vec![looked]
        };
        if let ListFormat::Facts(_) = format {
            let here = files.stat(&run.request.path)?;
            let here = ListingEntry {
                name: farline_core::gridftp::Pathname::new("."),
                kind: ListingKind::CurrentDirectory,
                ..here
            };
            // Names that cannot stand in a listing were left out by `Files::list` already.
            let _ = format.write(&here, now, &mut text);
        }
        for entry in &entries {
            let _ = format.write(entry, now, &mut text);
        }
        self.send_bytes(text, run)
    }

    /// Sends a list of bytes as the whole of a transfer.
    pub(super) fn send_bytes(
        &mut self,
        bytes: Vec<u8>,
        run: &RunningTransfer<'_>,
    ) -> Result<u64, Error> {
        let layout = Arc::new(Layout::of_file(bytes.len() as u64, BLOCK_LEN));
        self.send_from(&layout, &BytesSource(bytes), 0, None, run)
    }

    fn retrieve(&mut self, run: &RunningTransfer<'_>) -> Result<u64, Error> {
        let path = beneath(&run.request.path).to_vec();
        let entry = Files::new(&self.shared.root, false).stat(&run.request.path)?;
        match entry.kind {
            ListingKind::File => {}
            ListingKind::Directory => {
                let error = std::io::Error::from(std::io::ErrorKind::IsADirectory);
                return Err(storage_error("retrieve", run.request.path.as_bytes(), &error));
            }
            _ => {
                return Err(Error::new(
                    Fault::You,
                    ErrorCode::Unsupported,
                    "this is no regular file",
                ));
            }
        }
        let size = entry.size.unwrap_or(0);
        let (offset, length) =
            run.request.part.map_or((0, None), |part| (part.offset, part.length));
        if offset > size {
            return Err(Error::new(
                Fault::You,
                ErrorCode::RestartMismatch,
                format!("the file has {size} bytes, the part begins at {offset}"),
            ));
        }
        let len = length.unwrap_or(u64::MAX).min(size - offset);
        let layout = Arc::new(Layout::of_file(len, BLOCK_LEN));
        let source = PosixSource::new(Arc::clone(&self.shared.root), path, Arc::clone(&layout))
            .part_from(offset);
        self.send_from(&layout, &source, 0, None, run)
    }

    fn store(&mut self, run: &RunningTransfer<'_>) -> Result<u64, Error> {
        let request = run.request;
        let path = beneath(&request.path).to_vec();
        let files = Files::new(&self.shared.root, true);
        let existing = files.stat(&request.path).ok();
        if existing.as_ref().is_some_and(|entry| entry.kind == ListingKind::Directory) {
            let error = std::io::Error::from(std::io::ErrorKind::IsADirectory);
            return Err(storage_error("store", request.path.as_bytes(), &error));
        }
        let held = request.held.total();
        let size = existing.as_ref().and_then(|entry| entry.size).unwrap_or(0);
        let in_place = match (request.action, request.part) {
            (Action::Append, _) => Some(size),
            (_, Some(part)) => Some(part.offset),
            // MODE S: `REST n` and `STOR`. In MODE E the offsets on the wire count from the file's
            // start.
            (_, None) if held > 0 => Some(if request.mode == Mode::Stream { held } else { 0 }),
            _ => None,
        };
        if held > size {
            // A failed STOR leaves nothing under the final name: there is nothing to go on from.
            return Err(Error::new(
                Fault::You,
                ErrorCode::RestartMismatch,
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
            return Err(Error::new(
                Fault::There,
                ErrorCode::Incomplete,
                format!("the sender left holes: only {} came", first_ranges(&whole)),
            ));
        }
        if let Some(size) = request.size.filter(|&size| size > written.total() && held == 0) {
            let message =
                format!("{} of the {size} bytes announced with ALLO came", written.total());
            return Err(Error::new(Fault::Between, ErrorCode::Incomplete, message));
        }
        match run.landing(|| sink.land(None)).failures.into_iter().next() {
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
        run: &RunningTransfer<'_>,
    ) -> Result<u64, Error> {
        if run.request.mode == Mode::Stream {
            let from = run.request.held.total();
            let idle_timeout = self.shared.config.idle_timeout;
            return run.while_it_moves(idle_timeout, || {
                stream_mode::send(self, layout, source, from, run)
            });
        }
        let wanted = (run.request.parallelism.max(1) as usize).min(MOST_CHANNELS);
        // Beyond what was asked for are those that the client opened while the last transfer ran.
        let reused =
            self.channels.len() == wanted || (self.door.is_some() && self.channels.len() > wanted);
        if !reused && self.door.is_none() {
            self.channels.clear();
        }
        run.reporter.started(reused);
        if self.door.is_some() {
            self.await_channels(wanted, run)?;
        }
        while self.channels.len() < wanted {
            self.channels
                .push(Box::new(self.connect(self.channels.len(), run.request.buffer_size)?));
        }
        let slots = self.slots(wanted + 2)?;
        let (count, integrity) = (slots.len(), self.integrity_of(run));
        let channels = std::mem::take(&mut self.channels);
        let (pace, idle_timeout, in_order) =
            (self.pace().cloned(), self.shared.config.idle_timeout, self.in_order);
        let mut held = run.request.held.clone();
        if run.is_data() {
            held.extend(std::mem::take(&mut self.held_there).iter());
        }
        let incoming = IncomingChannels::of(self, run);
        let adapts = run.is_data() && self.adapt.told;
        let tell = |why: String| run.changed(adapts, &why);
        let (ask, further) = (|count| run.ask_for(count), || incoming.further());
        let tuning_limits = self.adapt.tuning_limits(self, &channels);
        let tuning =
            adapts.then_some(Tuning { tuning_limits, ask: &ask, further: &further, tell: &tell });
        let growth =
            (run.is_data() && self.shared.config.staging.is_none()).then_some(&tell as Notify<'_>);
        let watch = Watch::new();
        let work = || {
            send(SendJob {
                layout: Arc::clone(layout),
                source,
                blocks: WantedBlocks::all(layout.blocks_without(&held)),
                wire_offset,
                channels,
                slots,
                marks: Watermarks::of_pool(count),
                // One reader ends its blocks in the order in which it began them.
                readers: if in_order { 1 } else { threads() },
                audit,
                integrity,
                tally: &run.tally,
                pace,
                tuning,
                growth,
                cancel: run.cancel.clone(),
            })
        };
        let every = run.request.perf_every.into();
        let sent =
            run.while_it_moves(idle_timeout, || run.reporter.watch(every, &run.tally, work))?;
        if adapts {
            watch.tell(run, &run.tally, &sent.tcp, true);
        }
        self.channels = sent.channels;
        self.slots = sent.slots;
        if sent.lost > 0 {
            return Err(blocks_missing(
                format!("{} data channels were lost", sent.lost),
                &run.tally,
            ));
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
        run: &RunningTransfer<'_>,
    ) -> Result<Received, Error> {
        if run.request.mode == Mode::Stream {
            let mut arrived = held;
            let idle_timeout = self.shared.config.idle_timeout;
            arrived.insert(
                0..run.while_it_moves(idle_timeout, || stream_mode::receive(self, sink, run))?,
            );
            return Ok(Received { arrived, holes: false });
        }
        if self.acceptor.is_none() && self.door.is_none() && self.channels.is_empty() {
            return Err(Error::new(
                Fault::You,
                ErrorCode::DataConnection,
                "in MODE E the sender connects: say PASV or EPSV before STOR",
            ));
        }
        run.reporter.started(!self.channels.is_empty());
        let slots = self.slots(self.channels.len() + 3)?;
        let channels = std::mem::take(&mut self.channels);
        let door = self.door.as_ref().map(|door| door as &dyn Incoming);
        let acceptor = door.or(self.acceptor.as_ref().map(|acceptor| acceptor as &dyn Incoming));
        let integrity = self.integrity_of(run);
        let adapts = run.is_data() && self.adapt.told;
        let tell = |why: String| run.changed(adapts, &why);
        let growth =
            (run.is_data() && self.shared.config.staging.is_none()).then_some(&tell as Notify<'_>);
        let slow = self.shared.config.trial_write.map(|rate| SlowSink::new(sink, Some(rate), None));
        let slow = slow.as_ref().filter(|_| run.is_data());
        let sink = slow.map_or(sink, |slow| slow as &dyn Sink);
        let watch = Watch::new();
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
                growth,
                pace: None,
                cancel: run.cancel.clone(),
            })
        };
        let held = &Mutex::new(held);
        let idle_timeout = self.shared.config.idle_timeout;
        let work = || run.while_it_moves(idle_timeout, || work(held));
        let work = || run.reporter.watch_landed(sink, work);
        let received = run.reporter.watch_durable(run.request.ranges_every.into(), sink, || {
            run.reporter.watch(run.request.perf_every.into(), &run.tally, work)
        })?;
        if adapts {
            watch.tell(run, &run.tally, &received.tcp, false);
        }
        self.channels = received.channels;
        self.slots = received.slots;
        let arrived = lock(held).clone();
        Ok(Received { arrived, holes: received.lost || run.tally.bad_blocks() > 0 })
    }

    /// Waits until the client has opened as many channels as it asked for (K-4).
    pub(super) fn await_channels(
        &mut self,
        wanted: usize,
        run: &RunningTransfer<'_>,
    ) -> Result<(), Error> {
        let idle_timeout = self
            .shared
            .config
            .idle_timeout
            .map_or(CONNECT_TIMEOUT, |idle_timeout| idle_timeout.min(CONNECT_TIMEOUT));
        let deadline = Instant::now() + idle_timeout;
        while self.channels.len() < wanted {
            if let Some(reason) = run.cancel.reason() {
                return Err(reason);
            }
            if Instant::now() > deadline {
                let message =
                    format!("{} of {wanted} data connections came in time", self.channels.len());
                return Err(Error::new(Fault::Between, ErrorCode::DataConnection, message)
                    .hint("a firewall may hold the node's data ports back"));
            }
            self.channels.extend(IncomingChannels::of(self, run).next(Duration::from_millis(200))?);
        }
        Ok(())
    }
}

/// The end of a pass that left blocks missing (clause I-7).
pub(super) fn blocks_missing(what: String, tally: &Tally) -> Error {
    let (blocks, headers, channels) =
        (tally.bad_blocks(), tally.bad_headers(), tally.lost_channels());
    let counts = format!("bad_blocks={blocks} bad_headers={headers} lost_channels={channels}");
    Error::new(Fault::Between, ErrorCode::BlocksMissing, format!("{what}; {counts}")).hint(
        "the path changed or lost data; run the same command again, it goes on from what arrived",
    )
}

/// The first of these ranges, for people, and how many more there are: a sender decides how many.
fn first_ranges(ranges: &ByteRanges) -> String {
    const SHOWN: usize = 8;
    let first: ByteRanges = ranges.iter().take(SHOWN).collect();
    match ranges.count().saturating_sub(SHOWN) {
        0 => first.to_string(),
        more => format!("{first} and {more} more ranges"),
    }
}

/// What a receiving transfer brought.
pub(super) struct Received {
    /// What is in the store, with what was held before.
    pub(super) arrived: ByteRanges,
    /// Whether anything was lost on the way, so that there may be holes.
    pub(super) holes: bool,
}

/// One transfer, as its parts need it.
pub(super) struct RunningTransfer<'a> {
    pub(super) request: &'a TransferRequest,
    pub(super) cancel: &'a Cancel,
    pub(super) reporter: &'a Reporter<'a>,
    pub(super) tally: Tally,
}

impl RunningTransfer<'_> {
    /// Whether this moves a tree's bytes, rather than a list or what a stock client asks for.
    fn is_data(&self) -> bool {
        self.request
            .module
            .as_ref()
            .is_some_and(|module| Phase::parse(&module.parms) == Ok(Phase::Data))
    }

    /// Runs `work`, and ends it when nothing moves for `idle_timeout`: the client is stopped, or
    /// gone without a word.
    fn while_it_moves<T>(&self, idle_timeout: Option<Duration>, work: impl FnOnce() -> T) -> T {
        let Some(idle_timeout) = idle_timeout else { return work() };
        let last = Mutex::new((0, Instant::now()));
        let look = || {
            let (moved, mut last) = (self.tally.on_wire() + self.tally.bytes(), lock(&last));
            if moved != last.0 || self.tally.is_storing() {
                *last = (moved, Instant::now());
            } else if last.1.elapsed() >= idle_timeout {
                let message = format!("no data has moved for {}", Span::from(idle_timeout));
                self.cancel.cancel(Error::new(Fault::Between, ErrorCode::ChannelLost, message));
            }
        };
        self.reporter.repeat(
            (idle_timeout / 8).clamp(Duration::from_millis(50), Duration::from_secs(1)),
            look,
            work,
        )
    }

    /// Says what of the files a copy does not keep (O-6).
    pub(super) fn not_kept(&self, lost: NotKept) {
        if lost != NotKept::default() {
            let NotKept { hard_linked, with_attributes, .. } = lost;
            self.reporter.remark(format!("FARLINE unkept={hard_linked},{with_attributes};"));
        }
    }

    /// Names to the client what is left out of the tree (O-4, O-5): a lot of it by its number.
    pub(super) fn left_out(&self, problems: &[(Vec<u8>, Error)]) {
        for (path, error) in problems.iter().take(MOST_OMISSIONS) {
            self.reporter.remark(omission_line(path, error));
        }
        if let Some(more) = problems.len().checked_sub(MOST_OMISSIONS).filter(|&more| more > 0) {
            let message = format!("{more} more, which the node does not name");
            let error = Error::new(Fault::There, problems[MOST_OMISSIONS].1.code, message);
            self.reporter.remark(omission_line(b"", &error));
        }
    }

    /// Runs `work` that lands what came, and says now and then that it is at it: on a slow disk it
    /// may take minutes.
    pub(super) fn landing<T>(&self, work: impl FnOnce() -> T) -> T {
        self.reporter.alive(self.request.perf_every.into(), &self.tally, work)
    }
}

/// Threads for a store: two keep a disk busy while one waits; more than processors help nobody.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 4))
}

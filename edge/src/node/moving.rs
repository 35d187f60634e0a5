//! Moves one layout's bytes over a session's data channels, in its mode.

use super::active::CONNECT_TIMEOUT;
use super::adapt::Watch;
use super::data::DataPlane;
use super::running::RunningTransfer;
use super::stream_mode;
use crate::mover::{
    Audit, Incoming, List, Notify, ReceiveJob, SendJob, Tuning, WantedBlocks, list_layout, receive,
    receive_inline, send,
};
use crate::stores::{Sink, SlowSink, Source};
use crate::sys::lock::lock;
use farline_core::gridftp::Mode;
use farline_core::plan::Reason;
use farline_core::transfer::{Digests, Layout, Watermarks};
use farline_core::units::{ByteRanges, Error, ErrorCode, Fault};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Channels that one transfer may use.
const MOST_CHANNELS: usize = farline_core::plan::ChannelLimits::NODE as usize;

/// What a receiving transfer brought.
pub(super) struct Received {
    /// What is in the store, with what was held before.
    pub(super) arrived: ByteRanges,
    /// Whether anything was lost on the way, so that there may be holes.
    pub(super) holes: bool,
}

impl DataPlane {
    /// Sends a list as the whole of a transfer.
    pub(super) fn send_bytes(
        &mut self,
        list: &dyn List,
        run: &RunningTransfer<'_>,
    ) -> Result<u64, Error> {
        let channels = run.request.parallelism as usize;
        let layout = list_layout(list.len(), if self.listener.is_some() { channels } else { 1 });
        self.send_from(&layout, list, 0, None, run)
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
        let shared = Arc::clone(&self.shared);
        let _counted = run.moves_files().then(|| shared.unsent.transfer());
        let wanted = (run.request.parallelism.max(1) as usize).min(MOST_CHANNELS);
        self.require_held(wanted)?;
        if run.request.mode == Mode::Stream {
            let from = run.request.held.total();
            let idle_timeout = self.shared.config.idle_timeout;
            return run.while_it_moves(idle_timeout, || {
                stream_mode::send(self, layout, source, from, run)
            });
        }
        self.check_keyed_port(run.request.buffer_size)?;
        // Beyond what was asked for are those that the client opened while the last transfer ran.
        let reused = self.channels.len() == wanted
            || (self.listener.is_some() && self.channels.len() > wanted);
        if !reused && self.listener.is_none() {
            self.channels.clear();
        }
        run.reporter.started(reused);
        if self.listener.is_some() {
            self.obtain_held()?;
            self.hold_channels()?;
            self.await_channels(wanted, run)?;
        }
        let deadline = Instant::now() + CONNECT_TIMEOUT;
        while self.channels.len() < wanted {
            self.channels.push(self.connect_channel(self.channels.len(), deadline, run)?);
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
        let start = if run.is_data() { self.begin_path() } else { None };
        let begins = start.as_ref();
        let incoming = self.incoming(run.request.buffer_size);
        let adapts = run.is_data() && self.adapt.told;
        let notify = |why: Reason| run.changed(adapts, &why);
        let (ask, open) = (|count| run.ask_for(count), || incoming.take_another());
        let paced = self.pace().is_some() || self.held_share().is_some();
        let tuning_limits = self.adapt.tuning_limits(paced, self.listener.is_some(), &channels);
        let tuning =
            adapts.then_some(Tuning { tuning_limits, ask: &ask, open: &open, notify: &notify });
        let on_resize = (run.is_data() && self.shared.config.staging.is_none())
            .then_some(&notify as Notify<'_>);
        let watch = Watch::new();
        let yields = self.held_share().filter(|_| run.is_data());
        let yields = yields.map(|share| (share, &notify as Notify<'_>));
        let work = || {
            send(SendJob {
                layout: Arc::clone(layout),
                source,
                blocks: WantedBlocks::all(layout.blocks_without(&held)),
                wire_offset,
                channels,
                slots,
                watermarks: Watermarks::of_pool(count),
                // One reader ends its blocks in the order in which it began them.
                readers: if in_order { 1 } else { threads() },
                audit,
                integrity,
                tally: &run.tally,
                pace,
                tuning,
                start: begins.map(|start| (start, &notify as Notify<'_>)),
                on_resize,
                held: None,
                yields,
                cancel: run.cancel.clone(),
            })
        };
        let every = run.request.perf_every.into();
        let sent =
            run.while_it_moves(idle_timeout, || run.reporter.watch(every, &run.tally, work))?;
        if adapts {
            watch.report_limit(run, &run.tally, &sent.tcp, self.medium, true);
        }
        if let (Some(path), Some(start)) = (&mut self.path, start) {
            path.keep(start, &run.tally);
        }
        self.channels = sent.channels;
        self.keep_slots(sent.slots);
        if sent.lost > 0 {
            return Err(run.blocks_missing(format!("{} data channels were lost", sent.lost)));
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
        let shared = Arc::clone(&self.shared);
        let _counted = run.moves_files().then(|| shared.unsent.transfer());
        self.require_held(run.request.parallelism.max(1) as usize)?;
        if run.request.mode == Mode::Stream {
            let mut arrived = held;
            let idle_timeout = self.shared.config.idle_timeout;
            arrived.insert(
                0..run.while_it_moves(idle_timeout, || stream_mode::receive(self, sink, run))?,
            );
            return Ok(Received { arrived, holes: false });
        }
        let is_passive = self.acceptor.is_some() || self.gsi_port.is_some();
        if !is_passive && self.listener.is_none() && self.channels.is_empty() {
            let what = "in MODE E the sender connects: say PASV or EPSV before STOR";
            return Err(self.not_arranged(what));
        }
        self.check_keyed_port(run.request.buffer_size)?;
        run.reporter.started(!self.channels.is_empty());
        let slots = self.slots(self.channels.len() + 3)?;
        let channels = std::mem::take(&mut self.channels);
        let listener = self.listener.as_ref().map(|listener| listener as &dyn Incoming);
        let acceptor =
            listener.or(self.acceptor.as_ref().map(|acceptor| acceptor as &dyn Incoming));
        let acceptor = acceptor.or(self.gsi_port.as_ref().map(|port| port as &dyn Incoming));
        let booked = acceptor.and_then(|incoming| self.booked(incoming, channels.len()));
        let acceptor = booked.as_ref().map(|booked| booked as &dyn Incoming).or(acceptor);
        let integrity = self.integrity_of(run);
        let adapts = run.is_data() && self.adapt.told;
        let notify = |why: Reason| run.changed(adapts, &why);
        let on_resize = (run.is_data() && self.shared.config.staging.is_none())
            .then_some(&notify as Notify<'_>);
        let slow = self.shared.config.trial_write.map(|rate| SlowSink::new(sink, Some(rate), None));
        let slow = slow.as_ref().filter(|_| run.is_data());
        let sink = slow.map_or(sink, |slow| slow as &dyn Sink);
        let watch = Watch::new();
        let held = &Mutex::new(held);
        let mut job = ReceiveJob {
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
            on_resize,
            pace: self.receive_pace().cloned(),
            unsent: Some(&shared.unsent),
            cancel: run.cancel.clone(),
        };
        let short = if run.request.module.is_none() { receive_inline(&mut job)? } else { None };
        let received = match short {
            Some(received) => received,
            None => {
                let idle_timeout = self.shared.config.idle_timeout;
                let work = || run.while_it_moves(idle_timeout, || receive(job));
                let work = || run.reporter.watch_landed(sink, work);
                let every = run.request.ranges_every.into();
                let work = || {
                    run.reporter.watch_durable(every, sink, || {
                        run.reporter.watch(run.request.perf_every.into(), &run.tally, work)
                    })
                };
                match run.is_data() {
                    true => self.watching_arrivals(&run.tally, work)?,
                    false => work()?,
                }
            }
        };
        if adapts {
            watch.report_limit(run, &run.tally, &received.tcp, self.medium, false);
        }
        self.channels = received.channels;
        self.keep_slots(received.slots);
        let arrived = lock(held).clone();
        Ok(Received { arrived, holes: received.lost || run.tally.bad_blocks() > 0 })
    }

    /// Waits until the client has opened as many channels as it asked for (K-4).
    pub(super) fn await_channels(
        &mut self,
        wanted: usize,
        run: &RunningTransfer<'_>,
    ) -> Result<(), Error> {
        self.require_held(wanted)?;
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
                if self.is_port_over {
                    return Err(self.not_arranged(""));
                }
                let message =
                    format!("{} of {wanted} data connections came in time", self.channels.len());
                return Err(Error::new(Fault::Between, ErrorCode::DataConnection, message)
                    .hint("a firewall may hold the node's data ports back"));
            }
            self.channels
                .extend(self.incoming(run.request.buffer_size).next(Duration::from_millis(200))?);
        }
        Ok(())
    }
}

/// Threads for a store: two keep a disk busy while one waits; more than processors help nobody.
fn threads() -> usize {
    // To find out takes a dozen system calls, which a small file does not need otherwise.
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 4)))
}

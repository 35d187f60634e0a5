//! Sends one space of bytes over open channels.

mod adapt;
mod inline;
mod slow_start;
mod stalled;

use super::Integrity;
use super::audit::Audit;
use super::broken::{broken, no_thread};
use super::pace::{LiveRate, Pace, await_turn};
use super::path_start::PathStart;
use super::shared::{Cancel, FreeSlots};
use super::tally::{Stage, Tally};
use super::tune::{Notify, Pool, Tuning, resent};
use crate::channels::{Channel, Handle, is_final};
use crate::stores::Source;
use crate::sys::lock::lock;
use crate::sys::pool::Slot;
use crate::sys::tcp::TcpInfo;
pub(crate) use adapt::least_left;
use adapt::{Watching, Yields};
use farline_core::copy::HeldRate;
use farline_core::gridftp::checked::{Check, ZEROS, is_zeros};
use farline_core::gridftp::mode_e::{Flags, Header};
use farline_core::transfer::{
    Block, BlockDigest, ChannelId, DigestAlgorithm, Layout, PieceDigest, Sender, SenderInput,
    SenderOutput, SlotId, Watermarks,
};
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Rate};
use inline::{is_short, send_inline};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// What a channel's connection takes at least and at most beyond its window: a few blocks of much,
/// so that it never waits for this process, and of little a part.
const QUEUES: (u64, u64) = (256 << 10, 4 << 20);

/// Whether the receiver has said that it holds a block.
type IsHeld<'a> = &'a (dyn Fn(&Block) -> bool + Sync);

/// Which blocks to send.
pub(crate) struct WantedBlocks<'a> {
    /// In this order.
    blocks: Box<dyn Iterator<Item = Block> + Send + 'a>,
    /// What is not sent after all.
    is_held: Option<IsHeld<'a>>,
}

impl<'a> WantedBlocks<'a> {
    /// All of these.
    pub(crate) fn all(blocks: impl Iterator<Item = Block> + Send + 'a) -> WantedBlocks<'a> {
        WantedBlocks { blocks: Box::new(blocks), is_held: None }
    }

    /// The same, but those that the receiver turns out to have when it is their turn: a staging
    /// pool is read before it can say so.
    pub(crate) fn unless(self, is_held: IsHeld<'a>) -> WantedBlocks<'a> {
        WantedBlocks { is_held: Some(is_held), ..self }
    }
}

impl Iterator for WantedBlocks<'_> {
    type Item = Block;

    /// The next that the receiver is not known to have.
    fn next(&mut self) -> Option<Block> {
        let is_held = self.is_held;
        self.blocks.find(|block| !is_held.is_some_and(|is_held| is_held(block)))
    }
}

/// What to send, and how.
pub(crate) struct SendJob<'a> {
    /// Where the bytes lie.
    pub layout: Arc<Layout>,
    /// Where they come from.
    pub source: &'a dyn Source,
    /// The blocks to send.
    pub blocks: WantedBlocks<'a>,
    /// Added to every block's offset on the wire (a partial `ESTO`, a restart by offset).
    pub wire_offset: u64,
    /// The open channels.
    pub channels: Vec<Box<dyn Channel>>,
    /// The staging pool.
    pub slots: Vec<Slot>,
    /// When to read.
    pub watermarks: Watermarks,
    /// Threads that read.
    pub readers: usize,
    /// Collect the files' digests. Without it a file that cannot be read ends the transfer.
    pub audit: Option<&'a Audit>,
    /// How blocks are guarded.
    pub integrity: Integrity,
    /// Running totals.
    pub tally: &'a Tally,
    /// Holds the transfer to a rate.
    pub pace: Option<Arc<Pace>>,
    /// What of its channels may change while it runs.
    pub tuning: Option<Tuning<'a>>,
    /// What it begins from, and who is told of that.
    pub start: Option<(&'a PathStart, Notify<'a>)>,
    /// Is told of it when the staging pool grows, where it may.
    pub on_resize: Option<Notify<'a>>,
    /// A rate that its channels hold, and what becomes of it.
    pub held: Option<(HeldRate, LiveRate)>,
    /// The rate that each channel holds, where one is held, and who is told when one gives way.
    pub yields: Option<(Rate, Notify<'a>)>,
    /// How to break it off.
    pub cancel: Cancel,
}

/// What is left after sending: the channels and slots for the next transfer.
pub(crate) struct SendOutcome {
    /// The channels, each past its end-of-data mark.
    pub channels: Vec<Box<dyn Channel>>,
    /// The staging pool.
    pub slots: Vec<Slot>,
    /// What the kernel said of each channel at the end.
    pub tcp: Vec<TcpInfo>,
    /// Channels that broke on the way, which a guarded transfer outlives: the receiver says what it
    /// lacks.
    pub lost: usize,
}

enum Order {
    Block { slot: Slot, block: Block, check: Check },
    End { channels: Option<u64> },
}

struct Shared<'a> {
    job: &'a Parts<'a>,
    state: Mutex<State<'a>>,
    /// Whether the channels have all that they are to send, and some of it is in this host still.
    is_flushing: AtomicBool,
    reads: mpsc::Sender<Option<(Slot, Block)>>,
    readers: usize,
}

struct Parts<'a> {
    layout: Arc<Layout>,
    source: &'a dyn Source,
    is_held: Option<IsHeld<'a>>,
    wire_offset: u64,
    audit: Option<&'a Audit>,
    integrity: Integrity,
    digests: Option<DigestAlgorithm>,
    tally: &'a Tally,
    pace: Option<Arc<Pace>>,
    cancel: Cancel,
}

struct State<'a> {
    /// By channel: its queue, and what has it look there.
    orders: Vec<(mpsc::Sender<Option<Order>>, Handle)>,
    /// What goes with the block in each slot.
    checks: Vec<Check>,
    machine: Sender<Box<dyn Iterator<Item = Block> + Send + 'a>>,
    free: FreeSlots,
    /// What the first lost channel said.
    lost_by: Option<Error>,
}

/// Sends; returns when every channel is past its end-of-data mark.
///
/// # Errors
/// The first error of any thread, or the reason of a cancellation. The channels are broken then.
pub(crate) fn send(mut job: SendJob<'_>) -> Result<SendOutcome, Error> {
    let count = job.channels.len();
    if count == 0 || job.slots.is_empty() {
        return Err(Error::new(
            Fault::Bug,
            ErrorCode::NoChannel,
            "a transfer needs a channel and a slot",
        ));
    }
    if is_short(&job) {
        return send_inline(job);
    }
    let (mut watched, mut wakers) = (Vec::new(), Vec::new());
    for channel in &mut job.channels {
        channel.check_blocks(job.integrity.checks);
        wakers.push(channel.handle().map_err(|error| broken(&error))?);
        job.cancel.watch(channel.handle().map_err(|error| broken(&error))?);
        watched.extend(channel.handle());
    }
    // Channels that begin alike do not stay alike: what is left at the end goes to those that can
    // send.
    let share = job.layout.payload() / (4 * count as u64);
    let queue = Bytes(share.clamp(QUEUES.0, QUEUES.1));
    watched.iter().for_each(|channel: &Handle| channel.queue_at_most(queue));
    let resent_before = resent(&watched);
    let aside = job.start.filter(|(start, _)| start.takes_long(&watched));
    if let (Some((start, notify)), None) = (job.start, aside) {
        start.begin(&watched, notify);
    }
    let aside = aside.map(|begin| (begin, handles(&job.channels)));
    let start = job.start.map(|(start, _)| start);
    let parts = Parts {
        layout: job.layout,
        source: job.source,
        is_held: job.blocks.is_held,
        wire_offset: job.wire_offset,
        audit: job.audit,
        integrity: job.integrity,
        digests: job.audit.and_then(|audit| lock(&audit.digests).algorithm()),
        tally: job.tally,
        pace: job.pace,
        cancel: job.cancel.clone(),
    };
    let checks = vec![Check::default(); job.slots.len()];
    let machine = Sender::new(job.blocks.blocks, job.slots.len(), job.watermarks, count);
    let (reads, read_queue) = mpsc::channel();
    let read_queue = Mutex::new(read_queue);
    let (orders, queues): (Vec<_>, Vec<_>) = (0..count).map(|_| mpsc::channel()).unzip();
    let orders = orders.into_iter().zip(wakers).collect();
    let readers = job.readers.max(1);
    let pool = job.on_resize.map(|notify| Pool::new(&job.slots, notify));
    let state = Mutex::new(State {
        orders,
        checks,
        machine,
        free: FreeSlots::new(job.slots),
        lost_by: None,
    });
    let is_flushing = AtomicBool::new(false);
    let shared = Shared { job: &parts, state, is_flushing, reads, readers };
    let (over, still) = mpsc::channel::<()>();
    let channels = std::thread::scope(|scope| {
        for _ in 0..readers {
            std::thread::Builder::new()
                .name("read".to_owned())
                .spawn_scoped(scope, || shared.read(&read_queue))
                .map_err(|error| no_thread(&error))?;
        }
        if let Some(((start, notify), channels)) = aside {
            let begin = move || start.begin(&channels, notify);
            let name = "begin".to_owned();
            let thread = std::thread::Builder::new().name(name).spawn_scoped(scope, begin);
            thread.map_err(|error| no_thread(&error))?;
        }
        let mut threads = Vec::new();
        for (i, (channel, queue)) in job.channels.into_iter().zip(queues).enumerate() {
            let shared = &shared;
            let body = move || shared.drive(ChannelId(i), channel, &queue);
            let thread =
                std::thread::Builder::new().name(format!("send {i}")).spawn_scoped(scope, body);
            threads.push(thread.map_err(|error| {
                shared.fail(no_thread(&error));
                no_thread(&error)
            })?);
        }
        let is_watched = job.tuning.is_some();
        let (tuning, yields) =
            (job.tuning, job.yields.map(|(booked, notify)| Yields::new(booked, job.held, notify)));
        let supervisor = {
            let shared = &shared;
            scope.spawn(move || {
                let watching = Watching { watched, start, yields };
                shared.supervise(scope, tuning.as_ref(), pool, watching, &still)
            })
        };
        let mut channels: Vec<_> =
            threads.into_iter().filter_map(|thread| thread.join().unwrap_or(None)).collect();
        if is_watched {
            shared.flush();
        }
        drop(over);
        let joined = supervisor.join().unwrap_or_default();
        channels.extend(joined.into_iter().filter_map(|thread| thread.join().unwrap_or(None)));
        // Readers end with the last channel, whether it ended well or not.
        shared.stop();
        Ok::<_, Error>(channels)
    })?;
    if let Some(error) = parts.cancel.reason() {
        return Err(error);
    }
    parts.tally.add_resent(resent(&handles(&channels)).saturating_sub(resent_before));
    let opened = lock(&shared.state).orders.len();
    let lost = opened - channels.len();
    if lost > 0 && !parts.integrity.checks {
        return Err(Error::new(Fault::Bug, ErrorCode::ThreadLost, "a sending thread ended early"));
    }
    if channels.is_empty() {
        let why = lock(&shared.state).lost_by.take();
        return Err(why.unwrap_or_else(|| broken(&io::Error::other("every channel was lost"))));
    }
    parts.cancel.release();
    let tcp = channels.iter().filter_map(|channel| channel.tcp_info()).collect();
    let state = shared.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(SendOutcome { channels, slots: state.free.into_slots(), tcp, lost })
}

fn handles(channels: &[Box<dyn Channel>]) -> Vec<Handle> {
    channels.iter().filter_map(|channel| channel.handle().ok()).collect()
}

impl Shared<'_> {
    /// Tells the machine what happened and passes its answers on.
    fn on_event(&self, input: SenderInput, slot: Option<Slot>) {
        self.on_event_with(input, slot, Check::default());
    }

    /// The same, with what is to go with the block in the slot.
    fn on_event_with(&self, input: SenderInput, slot: Option<Slot>, check: Check) {
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        if let SenderInput::BlockRead(SlotId(index)) = input {
            state.checks[index] = check;
        }
        if let Some(slot) = slot {
            state.free.put(slot);
        }
        state.machine.handle(input);
        self.drain(state);
    }

    /// Passes the machine's answers on.
    fn drain(&self, state: &mut State<'_>) {
        while let Some(output) = state.machine.poll() {
            let passed = match output {
                SenderOutput::Read { slot, block } => state.free.take(slot).map(|slot| {
                    // A closed queue means that the transfer is over.
                    let _ = self.reads.send(Some((slot, block)));
                }),
                SenderOutput::Send { channel, slot, block } => state.free.take(slot).map(|slot| {
                    let check = state.checks[slot.index()];
                    order(&state.orders[channel.0], Some(Order::Block { slot, block, check }));
                }),
                SenderOutput::End { channel, channels } => {
                    order(&state.orders[channel.0], Some(Order::End { channels }));
                    Ok(())
                }
                // The channels' threads end by themselves then, and with them the transfer.
                SenderOutput::Finished => Ok(()),
            };
            if let Err(error) = passed {
                self.job.cancel.cancel(error);
            }
        }
    }

    fn fail(&self, error: Error) {
        self.job.cancel.cancel(error);
        self.stop();
    }

    /// Wakes every thread with the word to end.
    fn stop(&self) {
        for _ in 0..self.readers {
            let _ = self.reads.send(None);
        }
        for channel in &lock(&self.state).orders {
            order(channel, None);
        }
    }

    fn read(&self, queue: &Mutex<mpsc::Receiver<Option<(Slot, Block)>>>) {
        let busy = self.job.tally.thread(Stage::Reading);
        loop {
            let waiting = Instant::now();
            let order = lock(queue).recv();
            busy.idle(waiting);
            let Ok(Some((mut slot, block))) = order else { return };
            if self.job.cancel.reason().is_some() {
                // A channel may be waiting for this very block.
                return self.stop();
            }
            let (mut digest_of_block, mut vouched) =
                (BlockDigest::default(), self.job.digests.is_some());
            for piece in self.job.layout.pieces(block.offset, block.len) {
                let bytes = &mut slot[piece.block_offset..piece.block_offset + piece.len];
                let read = self.job.source.read(piece.entry, piece.file_offset, bytes);
                match (read, self.job.audit) {
                    (Ok(()), Some(audit)) => {
                        let Some(algorithm) = self.job.digests else { continue };
                        let digest = PieceDigest::of(&self.job.layout, &piece, bytes, algorithm);
                        digest_of_block.add(&digest);
                        lock(&audit.digests).insert(&digest);
                    }
                    (Ok(()), None) => {}
                    (Err(error), Some(audit)) => {
                        // The block's place must be filled; the receiver learns that it is
                        // worthless.
                        bytes.fill(0);
                        vouched = false;
                        audit.cannot_read(piece.entry, error);
                    }
                    (Err(error), None) => return self.fail(error),
                }
            }
            let check = match (self.job.integrity.checks, self.job.digests) {
                (false, _) => Check::default(),
                (true, Some(DigestAlgorithm::Crc64Nvme)) if vouched => {
                    Check::by_digest(digest_of_block.finish())
                }
                (true, _) if vouched => Check::of(&slot[..block.len], digest_of_block.finish()),
                (true, _) => Check::of(&slot[..block.len], [0; 32]),
            };
            let id = SlotId(slot.index());
            self.on_event_with(SenderInput::BlockRead(id), Some(slot), check);
        }
    }

    /// Runs one channel to its end; `None` when it broke.
    fn drive(
        &self,
        id: ChannelId,
        mut channel: Box<dyn Channel>,
        queue: &mpsc::Receiver<Option<Order>>,
    ) -> Option<Box<dyn Channel>> {
        let busy = self.job.tally.thread(Stage::Channel);
        let mut spread = self.spread(channel.as_ref());
        let mut rate = self.rate();
        self.on_event(
            SenderInput::ChannelOpened {
                channel: id,
                depth: channel.depth(),
                most: channel.reach(),
            },
            None,
        );
        let (mut under_way, mut kept) = (VecDeque::new(), None);
        let driven = loop {
            let order = match under_way.is_empty() {
                true => {
                    let waiting = Instant::now();
                    let order = queue.recv().unwrap_or(None);
                    self.job.tally.add_store_wait(waiting);
                    busy.idle(waiting);
                    order
                }
                // More work comes before waiting for what is under way.
                false => match queue.try_recv() {
                    Ok(order) => order,
                    Err(_) => match self.await_sent(id, channel.as_mut(), &mut under_way, None) {
                        Ok(()) => continue,
                        Err(error) => break Err(error),
                    },
                },
            };
            match order? {
                Order::Block { slot, block, .. }
                    if self.job.is_held.is_some_and(|is_held| is_held(&block)) =>
                {
                    let sent = SenderInput::BlockSent { channel: id, slot: SlotId(slot.index()) };
                    self.on_event(sent, Some(slot));
                }
                Order::Block { slot, block, check } => {
                    let mut header =
                        Header::data(self.job.wire_offset + block.offset, block.len as u64);
                    let mut carried = block.len;
                    if self.job.integrity.short_zeros
                        && channel.leaves_zeros_out()
                        && is_zeros(&slot[..block.len])
                    {
                        (header, carried) = (header.with(ZEROS), 0);
                    }
                    if self.rate() != rate {
                        rate = self.rate();
                        spread = self.spread(channel.as_ref());
                    }
                    // The kernel spreads what it is given: then it is there that the turn is waited
                    // for.
                    let is_held = self.job.pace.as_ref().is_some_and(|pace| pace.holds());
                    if let Some(pace) = &self.job.pace {
                        let waiting = Instant::now();
                        let turn = pace.turn(carried);
                        let until = if spread { turn.start } else { turn.end };
                        if let Err(error) =
                            self.await_turn(id, channel.as_mut(), &mut under_way, until)
                        {
                            kept = Some(slot);
                            break Err(error);
                        }
                        busy.idle(waiting);
                    }
                    self.job.tally.begin();
                    let sending = Instant::now();
                    let sent = channel.send(header, &check, slot, 0..carried);
                    match is_held {
                        true => self.job.tally.add_pace_wait(sending),
                        false => self.job.tally.add_network(sending),
                    }
                    under_way.push_back((block.len, carried));
                    if let Err(error) = sent {
                        break Err(error);
                    }
                    if channel.reach() == 1
                        && let Err(error) =
                            self.await_sent(id, channel.as_mut(), &mut under_way, None)
                    {
                        break Err(error);
                    }
                }
                Order::End { channels } => {
                    let header = match channels {
                        Some(count) => Header::eof(count).with(Flags::EOD),
                        None => Header::eod(),
                    };
                    break channel.mark(header);
                }
            }
        };
        match driven {
            Ok(()) => {
                self.on_event(SenderInput::EndSent(id), None);
                Some(channel)
            }
            Err(error)
                if self.job.integrity.checks
                    && !is_final(&error)
                    && self.job.cancel.reason().is_none() =>
            {
                lock(&self.state).lost_by.get_or_insert_with(|| broken(&error));
                self.job.tally.add_lost_channel(false);
                let held: Vec<Slot> =
                    kept.into_iter().chain(std::iter::from_fn(|| channel.withdraw())).collect();
                self.on_event(SenderInput::Lost { channel: id, slot: None }, None);
                for slot in held {
                    self.on_event(
                        SenderInput::Lost { channel: id, slot: Some(SlotId(slot.index())) },
                        Some(slot),
                    );
                }
                None
            }
            Err(error) => {
                self.fail(broken(&error));
                None
            }
        }
    }

    /// The rate that the transfer is held to, where it is.
    fn rate(&self) -> Option<Rate> {
        self.job.pace.as_ref().map(|pace| pace.rate())
    }

    /// Has the kernel spread what `channel` sends; returns whether it does.
    fn spread(&self, channel: &dyn Channel) -> bool {
        self.job.pace.as_ref().is_some_and(|pace| {
            channel
                .handle()
                .is_ok_and(|handle| pace.spread(&handle, lock(&self.state).orders.len()))
        })
    }

    /// Waits until the pace lets the next block go. What is under way ends meanwhile, and a channel
    /// that breaks says so.
    fn await_turn(
        &self,
        id: ChannelId,
        channel: &mut dyn Channel,
        under_way: &mut VecDeque<(usize, usize)>,
        until: Instant,
    ) -> io::Result<()> {
        while !under_way.is_empty() && Instant::now() < until {
            self.await_sent(id, channel, under_way, Some(until))?;
        }
        await_turn(until, self.job.tally, &self.job.cancel).map_err(io::Error::other)
    }

    /// Waits until a channel is done with one more of the blocks `under_way`, has been woken, or it
    /// is time. Given are their lengths, and how much of each the network carries.
    fn await_sent(
        &self,
        id: ChannelId,
        channel: &mut dyn Channel,
        under_way: &mut VecDeque<(usize, usize)>,
        until: Option<Instant>,
    ) -> io::Result<()> {
        let sending = Instant::now();
        let sent = channel.sent(until);
        self.job.tally.add_network(sending);
        if let Some(slot) = sent? {
            // Which of them it was makes no difference: they are counted, not told apart.
            let (len, carried) = under_way.pop_front().unwrap_or_default();
            self.job.tally.add_bytes(len);
            self.job.tally.add_on_wire(carried + self.job.integrity.header_len());
            self.on_event(
                SenderInput::BlockSent { channel: id, slot: SlotId(slot.index()) },
                Some(slot),
            );
        }
        Ok(())
    }
}

fn order(channel: &(mpsc::Sender<Option<Order>>, Handle), order: Option<Order>) {
    // A channel that is gone needs none; the transfer is over or failing then.
    let _ = channel.0.send(order);
    channel.1.wake();
}

//! Receives one space of bytes over channels that open as the sender likes.

use super::acceptor::Incoming;
use super::block_check::BlockCheck;
use super::broken::{broken, no_thread};
use super::journal::Journal;
use super::pace::Pace;
use super::shared::{Cancel, FreeSlots};
use super::tally::{Stage, Tally};
use super::tune::{Notify, Pool, Room};
use super::unsent::{ProcessorPermit, SessionWork, UnsentWork};
use super::{BLOCK_LEN, Integrity};
use crate::channels::{Arrival, Channel, Handle, is_damage, is_final};
use crate::stores::Sink;
use crate::sys::lock::lock;
use crate::sys::pool::{PoolTerms, Slot};
use crate::sys::tcp::TcpInfo;
use farline_core::transfer::{
    Block, ChannelId, Digests, Layout, Receiver, ReceiverInput, ReceiverOutput, SlotId, Watermarks,
};
use farline_core::units::{ByteRanges, Error, ErrorCode, Fault};
use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::thread::Scope;
use std::time::{Duration, Instant};

/// After this long without a new channel none is expected where one was lost (`docs/protocol.md`,
/// clause I-6).
const QUIET: Duration = Duration::from_millis(250);

/// What to receive, and how.
pub(crate) struct ReceiveJob<'a> {
    /// Where the bytes lie.
    pub layout: Arc<Layout>,
    /// Where they go.
    pub sink: &'a dyn Sink,
    /// Subtracted from every block's offset (a partial transfer).
    pub wire_offset: u64,
    /// Channels that are open already, from the transfer before.
    pub channels: Vec<Box<dyn Channel>>,
    /// Where further channels come in while the transfer runs.
    pub acceptor: Option<&'a dyn Incoming>,
    /// The staging pool, of more slots than there will be channels.
    pub slots: Vec<Slot>,
    /// Threads that write.
    pub writers: usize,
    /// Collect the files' digests as blocks arrive.
    pub digests: Option<&'a Mutex<Digests>>,
    /// Running totals.
    pub tally: &'a Tally,
    /// What is in the store: before, so that it is dropped when it comes again, and after, however
    /// the transfer ends. A guarded transfer may lack bytes: bad blocks, lost channels.
    pub held: &'a Mutex<ByteRanges>,
    /// How blocks are guarded.
    pub integrity: Integrity,
    /// Is told of it when the staging pool grows, where it may.
    pub on_resize: Option<Notify<'a>>,
    /// Holds the transfer to a rate, when the sender cannot be told to: by not reading, so that its
    /// window closes.
    pub pace: Option<Arc<Pace>>,
    /// Bounds the work on blocks that are not sent, where several sessions share this host.
    pub unsent: Option<&'a UnsentWork>,
    /// How to break it off.
    pub cancel: Cancel,
}

/// What is left after receiving: the channels and slots for the next transfer.
pub(crate) struct ReceiveOutcome {
    /// The channels that the sender keeps open.
    pub channels: Vec<Box<dyn Channel>>,
    /// The staging pool.
    pub slots: Vec<Slot>,
    /// What the kernel said of each channel at the end.
    pub tcp: Vec<TcpInfo>,
    /// Whether a channel was lost.
    pub lost: bool,
}

struct Shared<'a> {
    layout: Arc<Layout>,
    sink: &'a dyn Sink,
    wire_offset: u64,
    check: BlockCheck<'a>,
    tally: &'a Tally,
    integrity: Integrity,
    pace: Option<Arc<Pace>>,
    unsent: Option<SessionWork<'a>>,
    cancel: Cancel,
    acceptor: Option<&'a dyn Incoming>,
    state: Mutex<State>,
    changed: Condvar,
    writes: mpsc::Sender<Option<WriteOrder>>,
    writers: usize,
    /// Where what came is made durable meanwhile (clause R-4).
    journal: Option<Journal>,
}

struct WriteOrder {
    slot: Slot,
    block: Block,
    /// Whether it is zeros, which are not in the slot.
    is_zeros: bool,
}

struct State {
    machine: Receiver,
    free: FreeSlots,
    /// Of them, those that stand for a block of zeros, which nobody put there.
    zeros: BTreeSet<usize>,
    slots: usize,
    /// Where the pool shares its memory with others.
    terms: Option<PoolTerms>,
    /// One queue a channel.
    offers: Vec<mpsc::Sender<Option<Slot>>>,
    /// Channels past their end-of-data mark.
    finished: Vec<Box<dyn Channel>>,
    /// Breaks the channels that are not past their end-of-data mark.
    handles: Vec<Option<Handle>>,
    over: bool,
    lost: bool,
    tcp: Vec<TcpInfo>,
    /// When the last channel came to its end-of-data mark, and how many did.
    ended: Option<(Instant, u32)>,
}

/// Receives; returns when every channel is past its end-of-data mark and every byte is in the sink.
///
/// # Errors
/// The first error of any thread, or the reason of a cancellation. The channels are broken then.
pub(crate) fn receive(mut job: ReceiveJob<'_>) -> Result<ReceiveOutcome, Error> {
    let slots = job.slots.len();
    let in_order = job.sink.wants_order();
    let writers = if in_order { 1 } else { job.writers.max(1) };
    let (writes, write_queue) = mpsc::channel();
    let write_queue = Mutex::new(write_queue);
    let machine =
        Receiver::new(slots, Watermarks::of_writer(slots)).holding(lock(job.held).clone());
    let machine = if in_order { machine.in_order(job.channels.len()) } else { machine };
    let pool = job.on_resize.map(|notify| Pool::new(&job.slots, notify));
    let state = State {
        terms: job.slots.first().and_then(Slot::terms),
        machine: if job.integrity.checks { machine.tolerant() } else { machine },
        lost: false,
        ended: None,
        free: FreeSlots::new(job.slots),
        zeros: BTreeSet::new(),
        slots,
        offers: Vec::new(),
        finished: Vec::new(),
        handles: Vec::new(),
        over: false,
        tcp: Vec::new(),
    };
    let shared = Shared {
        check: BlockCheck {
            layout: Arc::clone(&job.layout),
            sink: job.sink,
            digests: job.digests,
            algorithm: job.integrity.digests,
        },
        layout: job.layout,
        sink: job.sink,
        wire_offset: job.wire_offset,
        tally: job.tally,
        integrity: job.integrity,
        pace: job.pace,
        unsent: job.unsent.map(UnsentWork::session),
        cancel: job.cancel.clone(),
        acceptor: job.acceptor,
        state: Mutex::new(state),
        changed: Condvar::new(),
        writes,
        writers,
        journal: job.sink.journals().then(Journal::new),
    };
    let result = std::thread::scope(|scope| {
        let result = (|| {
            if let Some(journal) = &shared.journal {
                let body = || journal.keep(job.sink);
                let thread = std::thread::Builder::new()
                    .name("journal".to_owned())
                    .spawn_scoped(scope, body);
                thread.map_err(|error| no_thread(&error))?;
            }
            for i in 0..writers {
                let body = || shared.write(&write_queue);
                let thread = std::thread::Builder::new()
                    .name(format!("write {i}"))
                    .spawn_scoped(scope, body);
                thread.map_err(|error| no_thread(&error))?;
            }
            for channel in job.channels.drain(..) {
                shared.start(scope, channel)?;
            }
            shared.supervise(scope, pool)
        })();
        if let Err(error) = &result {
            shared.cancel.cancel(error.clone());
        }
        // Writers that wait for a checkpoint have their orders to take first.
        shared.journal.iter().for_each(Journal::end);
        shared.stop();
        result
    });
    *lock(job.held) = lock(&shared.state).machine.written().clone();
    result?;
    if let Some(error) = shared.cancel.reason() {
        return Err(error);
    }
    shared.cancel.release();
    let state = shared.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(ReceiveOutcome {
        channels: state.finished,
        slots: state.free.into_slots(),
        tcp: state.tcp,
        lost: state.lost,
    })
}

impl<'a> Shared<'a> {
    /// Accepts channels until the machine says that the transfer is over.
    fn supervise<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        mut pool: Option<Pool<'_>>,
    ) -> Result<(), Error> {
        let mut last = Instant::now();
        loop {
            if last.elapsed() >= QUIET {
                last = Instant::now();
                self.on_event(ReceiverInput::Quiet, None);
            }
            if let Some(pool) = &mut pool {
                self.sample(pool);
            }
            let mut state = lock(&self.state);
            if let Some(error) = self.cancel.reason() {
                return Err(error);
            }
            if state.over {
                // A channel that took no part in the transfer would keep its thread waiting for
                // ever.
                for handle in state.handles.iter_mut().filter_map(Option::take) {
                    handle.break_now();
                }
                // All that came since was in the store's hands.
                if let Some((at, channels)) = state.ended {
                    (0..channels).for_each(|_| self.tally.add_store_wait(at));
                }
                return Ok(());
            }
            if let Some(acceptor) = self.acceptor {
                drop(state);
                if let Some(channel) = acceptor.accept(QUIET)? {
                    last = Instant::now();
                    self.start(scope, channel)?;
                }
            } else {
                // A cancellation from outside breaks the channels, whose threads then wake us.
                drop(
                    self.changed.wait_timeout(state, QUIET).unwrap_or_else(PoisonError::into_inner),
                );
            }
        }
    }

    fn wake(&self) {
        self.changed.notify_all();
        if let Some(acceptor) = self.acceptor {
            acceptor.wake();
        }
    }

    fn start<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        mut channel: Box<dyn Channel>,
    ) -> Result<(), Error> {
        channel.check_blocks(self.integrity.checks);
        self.cancel.watch(channel.handle().map_err(|error| broken(&error))?);
        let (offers, queue) = mpsc::channel();
        let id = {
            let mut state = lock(&self.state);
            if state.offers.len() + 2 > state.slots && !self.add_slot(&mut state) {
                // Every channel holds a slot; with none left to write from, nothing would move.
                return Err(Error::new(
                    Fault::Refused,
                    ErrorCode::TooManyChannels,
                    format!("more than {} data channels", state.slots - 2),
                )
                .hint("use fewer streams, or more staging at the receiver"));
            }
            state.offers.push(offers);
            state.handles.push(Some(channel.handle().map_err(|error| broken(&error))?));
            ChannelId(state.offers.len() - 1)
        };
        let (depth, most) = (channel.depth(), channel.reach());
        let body = move || self.drive(id, channel, &queue);
        let thread =
            std::thread::Builder::new().name(format!("receive {}", id.0)).spawn_scoped(scope, body);
        thread.map(drop).map_err(|error| no_thread(&error))?;
        self.on_event(ReceiverInput::ChannelOpened { channel: id, depth, most }, None);
        Ok(())
    }

    /// Tells the machine what happened and passes its answers on.
    fn on_event(&self, input: ReceiverInput, slot: Option<Slot>) {
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        if let Some(slot) = slot {
            state.free.put(slot);
        }
        state.machine.handle(input);
        let news = self.drain(state);
        drop(guard);
        if news {
            self.wake();
        }
    }

    /// Passes the machine's answers on; returns whether the transfer is over.
    fn drain(&self, state: &mut State) -> bool {
        let mut news = false;
        while let Some(output) = state.machine.poll() {
            let passed = match output {
                ReceiverOutput::Offer { channel, slot } => state.free.take(slot).map(|slot| {
                    state.zeros.remove(&slot.index());
                    // A channel that is gone needs no slot; the transfer is failing then.
                    let _ = state.offers[channel.0].send(Some(slot));
                    if let Some(handle) = &state.handles[channel.0] {
                        handle.wake();
                    }
                }),
                ReceiverOutput::Write { slot, block } => state.free.take(slot).map(|slot| {
                    let is_zeros = state.zeros.contains(&slot.index());
                    let _ = self.writes.send(Some(WriteOrder { slot, block, is_zeros }));
                }),
                ReceiverOutput::Finished => {
                    state.over = true;
                    news = true;
                    Ok(())
                }
                ReceiverOutput::Failed(error) => Err(error),
            };
            if let Err(error) = passed {
                self.cancel.cancel(error);
                news = true;
            }
        }
        news
    }

    /// Looks whether the pool should grow.
    fn sample(&self, pool: &mut Pool<'_>) {
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        pool.set_slots(state.slots);
        let (rests, window) = (state.machine.rests(), state.machine.window());
        let handles = state.handles.iter().flatten();
        let rtt = handles.clone().filter_map(Handle::rtt).min();
        let room = pool.sample(handles, rtt, self.tally, rests, window);
        if !room.is_none() {
            self.grow(state, room);
        }
    }

    /// Has one slot more for a channel, where the pool has fewer than were asked for.
    fn add_slot(&self, state: &mut State) -> bool {
        let lacks = |terms: &&PoolTerms| state.slots < terms.asked();
        let more = state.terms.as_ref().filter(lacks);
        let Some(Ok(slots)) = more.map(|terms| terms.one_more(state.slots, BLOCK_LEN)) else {
            return false;
        };
        self.grow(state, Room { slots, wider: 0 });
        true
    }

    fn grow(&self, state: &mut State, Room { slots, wider }: Room) {
        state.slots += slots.len();
        let (more, all) = (slots.len(), state.slots);
        state.free.grow(slots);
        state.machine.grow(more, Watermarks::of_writer(all));
        state.machine.widen(wider);
        // Free slots end nothing.
        let _ = self.drain(state);
    }

    fn stop(&self) {
        for _ in 0..self.writers {
            let _ = self.writes.send(None);
        }
        let state = lock(&self.state);
        for (offers, handle) in state.offers.iter().zip(&state.handles) {
            let _ = offers.send(None);
            if let Some(handle) = handle {
                handle.wake();
            }
        }
    }

    fn fail(&self, error: Error) {
        self.cancel.cancel(error);
        self.wake();
    }

    fn drive(
        &self,
        id: ChannelId,
        mut channel: Box<dyn Channel>,
        queue: &mpsc::Receiver<Option<Slot>>,
    ) {
        let busy = self.tally.thread(Stage::Channel);
        let mut pieces = Vec::new();
        let mut offered = 0;
        loop {
            if offered == 0 {
                let waiting = Instant::now();
                let Ok(Some(slot)) = queue.recv() else { return self.take_back(channel, queue) };
                self.tally.add_store_wait(waiting);
                busy.idle(waiting);
                channel.offer(slot);
                offered = 1;
            }
            while let Ok(slot) = queue.try_recv() {
                let Some(slot) = slot else { return self.take_back(channel, queue) };
                channel.offer(slot);
                offered += 1;
            }
            while let Some(slot) = channel.unused() {
                // It cannot use as many as it was meant to.
                offered -= 1;
                self.on_event(ReceiverInput::Unused(SlotId(slot.index())), Some(slot));
            }
            let receiving = Instant::now();
            let arrival = channel.receive();
            self.tally.add_network(receiving);
            match arrival {
                Ok(None) => {}
                Ok(Some(Arrival::Data { slot, block, check, carried })) => {
                    offered -= 1;
                    self.tally.begin();
                    self.tally.add_on_wire(carried + self.integrity.header_len());
                    if let Some(pace) = &self.pace {
                        let waiting = Instant::now();
                        let turn = pace.through(carried, self.tally, &self.cancel);
                        busy.idle(waiting);
                        if let Err(error) = turn {
                            return self.fail(error);
                        }
                    }
                    let Some(offset) = block.offset.checked_sub(self.wire_offset) else {
                        return self.fail(Error::new(
                            Fault::There,
                            ErrorCode::BlockOutOfRange,
                            "the sender named bytes before the part that was asked for",
                        ));
                    };
                    let block = Block { offset, ..block };
                    if self.check.digests.is_some() && !self.layout.is_block(&block) {
                        return self.fail(Error::new(
                            Fault::There,
                            ErrorCode::BlockMisplaced,
                            "the sender cut the tree into other blocks than agreed",
                        ));
                    }
                    let slot_id = SlotId(slot.index());
                    let is_zeros = carried < block.len;
                    if let Some(unsent) = self.unsent.as_ref().filter(|_| !is_zeros) {
                        unsent.sent();
                    }
                    let unsent = self.unsent.as_ref().filter(|_| is_zeros);
                    let permit = unsent.map(SessionWork::permit);
                    if permit.as_ref().is_some_and(ProcessorPermit::has_waited) {
                        self.tally.wait_for_zeros();
                    }
                    let bytes = (!is_zeros).then(|| &slot[..block.len]);
                    let input = if self.check.is_good(bytes, &block, check, &mut pieces) {
                        if is_zeros {
                            lock(&self.state).zeros.insert(slot_id.0);
                        }
                        ReceiverInput::Arrived { channel: id, slot: slot_id, block }
                    } else {
                        self.tally.add_bad_block();
                        ReceiverInput::Bad { channel: id, slot: slot_id }
                    };
                    self.on_event(input, Some(slot));
                    drop(permit);
                }
                Ok(Some(Arrival::End { slot, channels, closing })) => {
                    let mut unused: Vec<Slot> = std::iter::from_fn(|| channel.unused()).collect();
                    let mut state = lock(&self.state);
                    state.tcp.extend(channel.tcp_info());
                    let channels_ended = state.ended.map_or(0, |(_, channels)| channels) + 1;
                    state.ended = Some((Instant::now(), channels_ended));
                    if !closing {
                        state.finished.push(channel);
                    }
                    state.handles[id.0] = None;
                    drop(state);
                    // Before the last word of this channel: after it the slots may be asked for.
                    unused.drain(..).for_each(|slot| {
                        self.on_event(ReceiverInput::Unused(SlotId(slot.index())), Some(slot))
                    });
                    let input =
                        ReceiverInput::Ended { channel: id, slot: SlotId(slot.index()), channels };
                    self.on_event(input, Some(slot));
                    // Offered before the machine knew.
                    while let Ok(Some(slot)) = queue.try_recv() {
                        self.on_event(ReceiverInput::Unused(SlotId(slot.index())), Some(slot));
                    }
                    return;
                }
                // Broken by `attend`, because the transfer was over without this channel.
                Err(_) if lock(&self.state).over => return self.take_back(channel, queue),
                Err(error) => {
                    if self.integrity.checks && !is_final(&error) {
                        self.tally.add_lost_channel(is_damage(&error));
                        let mut state = lock(&self.state);
                        state.lost = true;
                        // Others may hold descriptors of it.
                        if let Some(handle) = state.handles[id.0].take() {
                            handle.break_now();
                        }
                    } else {
                        // The machine says what a lost channel means; the channel's own error says
                        // more.
                        self.fail(broken(&error));
                    }
                    let held: Vec<Slot> = std::iter::from_fn(|| channel.withdraw()).collect();
                    // Closed before the machine knows: the sender must learn of it too.
                    drop(channel);
                    for slot in held {
                        self.on_event(
                            ReceiverInput::Lost { channel: id, slot: Some(SlotId(slot.index())) },
                            Some(slot),
                        );
                    }
                    self.on_event(ReceiverInput::Lost { channel: id, slot: None }, None);
                    while let Ok(Some(slot)) = queue.try_recv() {
                        self.on_event(ReceiverInput::Unused(SlotId(slot.index())), Some(slot));
                    }
                    return;
                }
            }
        }
    }

    /// Ends a channel that the transfer ended without: the next transfer counts on all the slots
    /// that it was given, and on those that were on their way to it.
    fn take_back(&self, mut channel: Box<dyn Channel>, queue: &mpsc::Receiver<Option<Slot>>) {
        let held: Vec<Slot> =
            std::iter::from_fn(|| channel.withdraw()).chain(queue.try_iter().flatten()).collect();
        let mut state = lock(&self.state);
        for slot in held {
            state.free.put(slot);
        }
    }

    fn write(&self, queue: &Mutex<mpsc::Receiver<Option<WriteOrder>>>) {
        let busy = self.tally.thread(Stage::Writing);
        loop {
            let waiting = Instant::now();
            let order = lock(queue).recv();
            busy.idle(waiting);
            let Ok(Some(WriteOrder { slot, block, is_zeros })) = order else { return };
            if let Some(journal) = &self.journal {
                let pieces = self.layout.pieces(block.offset, block.len).count();
                self.tally.while_storing(|| journal.admit(block.len, pieces));
            }
            let mut at = 0;
            for piece in self.layout.pieces(block.offset, block.len) {
                at += piece.len;
                let (entry, offset) = (piece.entry, piece.file_offset);
                let stored = self.tally.while_storing(|| match is_zeros {
                    true => self.sink.write_zeros(entry, offset, piece.len as u64),
                    false => {
                        let bytes = &slot[piece.block_offset..piece.block_offset + piece.len];
                        self.sink.write(entry, offset, bytes)
                    }
                });
                if let Err(error) = stored {
                    return self.fail(error);
                }
            }
            if at != block.len {
                return self.fail(Error::new(
                    Fault::There,
                    ErrorCode::BlockOutOfRange,
                    "the sender named bytes that no file has",
                ));
            }
            self.tally.add_bytes(block.len);
            let id = SlotId(slot.index());
            self.on_event(ReceiverInput::Written(id), Some(slot));
        }
    }
}

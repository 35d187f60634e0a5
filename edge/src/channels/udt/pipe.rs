//! What the thread of a UDP port and the program at one end of a connection hand each other: bytes
//! to send, bytes that came, and word of the end.

use super::super::Breaker;
use super::super::handle::FlowState;
use crate::sys::lock::lock;
use bytes::Bytes as Shared;
use farline_core::congestion::{SavedPath, Yielded};
use farline_core::udt::Ended;
use farline_core::units::Span;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task;
use std::time::Duration;

/// Bytes of a piece in which a program's bytes are kept until the peer has them.
const PIECE: usize = 256 << 10;
/// What a program may have written and this end not sent: as much as is on its way, and at least
/// this, so that the thread never waits for the program.
const LEAST_UNSENT: u64 = 2 * PIECE as u64;
/// And at most this, unless the program is content with less.
const MOST_UNSENT: u64 = 4 << 20;
/// Pieces that are kept for later ones, at least.
const LEAST_FREE: usize = 4;
/// And one in so many of those that are not acknowledged: acknowledgements come for all that left
/// in a hundredth of a second.
const PART_FREE: u64 = 4;

/// Wakes the thread of a port, if it sleeps.
#[derive(Debug)]
pub(super) struct Waker {
    breaker: Breaker,
    sleeps: AtomicBool,
}

impl Waker {
    pub(super) fn new() -> io::Result<Waker> {
        Ok(Waker { breaker: Breaker::new()?, sleeps: AtomicBool::new(false) })
    }

    /// Called after what the thread is to see is in its place.
    pub(super) fn wake(&self) {
        if self.sleeps.swap(false, Ordering::SeqCst) {
            self.breaker.wake();
        }
    }

    /// The thread will sleep; it looks once more for what is to be done before it does.
    pub(super) fn will_sleep(&self) {
        self.sleeps.store(true, Ordering::SeqCst);
    }

    /// The thread is awake.
    pub(super) fn is_awake(&self) {
        self.sleeps.store(false, Ordering::SeqCst);
        // It is never broken, so that what this returns says nothing.
        let _ = self.breaker.is_woken();
    }

    /// What to poll.
    pub(super) fn breaker(&self) -> &Breaker {
        &self.breaker
    }
}

/// One connection's pipe.
#[derive(Debug)]
pub(super) struct Pipe {
    state: Mutex<State>,
    readable: Condvar,
    writable: Condvar,
    waker: Arc<Waker>,
}

#[derive(Debug)]
struct State {
    to_thread: ToThread,
    /// Bytes that a program may have written and the peer not got.
    limit: u64,
    /// The same that were never sent, as the program wishes.
    most_unsent: u64,
    /// Memory of what was written and not acknowledged.
    outstanding: u64,
    /// Bytes that were written, those of them that were sent, and those on their way.
    written: u64,
    sent: u64,
    in_flight: u64,
    free: Vec<Vec<u8>>,
    arrived: VecDeque<Shared>,
    arrived_len: usize,
    /// A reader waits for so many bytes.
    wanted: Option<usize>,
    timeout: Option<Duration>,
    /// A task waits for bytes, or for room.
    task: Option<task::Waker>,
    ended: Option<Ended>,
    /// The peer is nobody's who is wanted.
    is_refused: bool,
    flow: Flow,
    yielded: Option<Yielded>,
}

impl State {
    fn new(limit: u64) -> State {
        State {
            to_thread: ToThread::default(),
            limit,
            most_unsent: MOST_UNSENT,
            outstanding: 0,
            written: 0,
            sent: 0,
            in_flight: 0,
            free: Vec::new(),
            arrived: VecDeque::new(),
            arrived_len: 0,
            wanted: None,
            timeout: None,
            task: None,
            ended: None,
            is_refused: false,
            flow: Flow::default(),
            yielded: None,
        }
    }

    /// Whether a program may write: what waits here follows what the path is seen to hold.
    fn may_write(&self) -> bool {
        let unsent = self.in_flight.clamp(LEAST_UNSENT, self.most_unsent.max(LEAST_UNSENT));
        self.outstanding < self.limit && self.written - self.sent < unsent
    }

    /// What has come; nothing at the end.
    fn take_arrived(&mut self) -> io::Result<VecDeque<Shared>> {
        if self.arrived.is_empty() {
            return match self.ended {
                Some(Ended::IdleTimeout) => Err(io::ErrorKind::TimedOut.into()),
                Some(Ended::Here) => Err(io::ErrorKind::ConnectionAborted.into()),
                Some(Ended::Peer) | None => Ok(VecDeque::new()),
            };
        }
        self.arrived_len = 0;
        Ok(std::mem::take(&mut self.arrived))
    }
}

/// How far a connection is, and over what path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flow {
    /// Bytes that the peer has.
    pub(super) acknowledged: u64,
    /// Bytes that were sent at least once.
    pub(super) sent: u64,
    /// Packets sent, and of those sent again.
    pub(super) packets: (u64, u64),
    /// The path's least round-trip time, and the smoothed one of now.
    pub(super) rtt: Option<Span>,
    pub(super) smoothed_rtt: Option<Span>,
}

/// What a program did since the thread last looked.
#[derive(Debug, Default)]
pub(super) struct ToThread {
    /// Bytes that it wrote.
    pub(super) written: Vec<Vec<u8>>,
    /// Packets that it read.
    pub(super) read: u64,
    /// It will write no more.
    pub(super) finishes: bool,
    /// It wants the connection to end now.
    pub(super) aborts: bool,
    /// It has dropped its end.
    pub(super) is_dropped: bool,
    /// The peer has shown that it is of the port's session.
    pub(super) is_proven: bool,
    /// What an earlier connection saw of the path, by which this one begins.
    pub(super) resume: Option<SavedPath>,
}

/// What the thread has for a program.
#[derive(Debug, Default)]
pub(super) struct FromThread {
    /// Bytes that came, packet by packet.
    pub(super) arrived: Vec<Shared>,
    /// Pieces that the peer has.
    pub(super) done: Vec<Vec<u8>>,
    /// The connection is over.
    pub(super) ended: Option<Ended>,
    /// Bytes that the program may have written and the peer not got.
    pub(super) limit: u64,
    /// How far it is.
    pub(super) flow: Flow,
    /// What is left of a held rate, once some of it was given up.
    pub(super) yielded: Option<Yielded>,
}

impl Pipe {
    pub(super) fn new(waker: Arc<Waker>, limit: u64) -> Pipe {
        let state = Mutex::new(State::new(limit.max(LEAST_UNSENT)));
        let (readable, writable) = (Condvar::new(), Condvar::new());
        Pipe { state, readable, writable, waker }
    }

    /// The thread's look at what the program did.
    pub(super) fn take(&self) -> ToThread {
        std::mem::take(&mut lock(&self.state).to_thread)
    }

    /// Whether there is something to take.
    pub(super) fn has_work(&self) -> bool {
        let state = lock(&self.state);
        let work = &state.to_thread;
        !work.written.is_empty()
            || work.read > 0
            || work.finishes
            || work.aborts
            || work.is_dropped
            || work.is_proven
            || work.resume.is_some()
    }

    /// The thread's word to the program; returns how many bytes that has yet to read.
    pub(super) fn give(&self, from: &mut FromThread) -> usize {
        let mut state = lock(&self.state);
        let waited = !state.may_write();
        state.flow = Flow { rtt: from.flow.rtt.or(state.flow.rtt), ..from.flow };
        state.yielded = from.yielded;
        state.limit = from.limit.max(LEAST_UNSENT);
        state.sent = from.flow.sent;
        state.in_flight = state.sent.saturating_sub(from.flow.acknowledged);
        state.ended = state.ended.or(from.ended);
        for mut piece in from.done.drain(..) {
            state.outstanding = state.outstanding.saturating_sub(piece.capacity() as u64);
            piece.clear();
            state.free.push(piece);
        }
        let most = LEAST_FREE.max((state.outstanding / PART_FREE) as usize / PIECE);
        state.free.truncate(most);
        if waited && state.may_write() {
            self.writable.notify_all();
        }
        state.arrived_len += from.arrived.iter().map(Shared::len).sum::<usize>();
        state.arrived.extend(from.arrived.drain(..));
        let (unread, task) = (state.arrived_len, state.task.take());
        if state.ended.is_some() {
            self.readable.notify_all();
            self.writable.notify_all();
        } else if state.wanted.is_some_and(|wanted| state.arrived_len >= wanted) {
            self.readable.notify_all();
        }
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
        unread
    }

    /// What is left of a held rate, once some of it was given up.
    pub(super) fn yielded(&self) -> Option<Yielded> {
        lock(&self.state).yielded
    }

    /// The program's bytes: as many of them as a piece holds. Waits while the peer has too few of
    /// those before.
    pub(super) fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut state = lock(&self.state);
        while !state.may_write() && state.ended.is_none() {
            state = self.writable.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.ended.is_some() || state.to_thread.finishes || state.to_thread.aborts {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut piece = state.free.pop().unwrap_or_default();
        drop(state);
        for part in parts {
            let room = PIECE - piece.len();
            piece.extend_from_slice(&part[..part.len().min(room)]);
        }
        let len = piece.len();
        if len > 0 {
            let mut state = lock(&self.state);
            state.outstanding += piece.capacity() as u64;
            state.written += len as u64;
            state.to_thread.written.push(piece);
            drop(state);
            self.waker.wake();
        }
        Ok(len)
    }

    /// Waits until `wanted` bytes have come, or the end; takes all that has, and says that `read`
    /// packets more are done with.
    pub(super) fn read(&self, wanted: usize, read: u64) -> io::Result<VecDeque<Shared>> {
        let mut state = lock(&self.state);
        state.to_thread.read += read;
        while state.arrived_len < wanted && state.ended.is_none() {
            state.wanted = Some(wanted);
            state = self.wait_readable(state)?;
        }
        state.wanted = None;
        state.take_arrived()
    }

    /// What has come, or the end; has `cx` woken where there is nothing yet. `read` packets more
    /// are done with.
    pub(super) fn poll_read(
        &self,
        cx: &task::Context<'_>,
        read: u64,
    ) -> task::Poll<io::Result<VecDeque<Shared>>> {
        let mut state = lock(&self.state);
        state.to_thread.read += read;
        if state.arrived.is_empty() && state.ended.is_none() {
            state.task = Some(cx.waker().clone());
            return task::Poll::Pending;
        }
        task::Poll::Ready(state.take_arrived())
    }

    /// Whether [`Self::write`] would not wait; has `cx` woken where it would.
    pub(super) fn poll_room(&self, cx: &task::Context<'_>) -> bool {
        let mut state = lock(&self.state);
        let has_room = state.may_write() || state.ended.is_some();
        if !has_room {
            state.task = Some(cx.waker().clone());
        }
        has_room
    }

    /// The peer has shown that it is of the port's session.
    pub(super) fn prove(&self) {
        lock(&self.state).to_thread.is_proven = true;
        self.waker.wake();
    }

    /// Ends the connection with a peer that is nobody's who is wanted: nothing of it is kept.
    pub(super) fn refuse(&self) {
        lock(&self.state).is_refused = true;
        self.abort();
    }

    pub(super) fn is_refused(&self) -> bool {
        lock(&self.state).is_refused
    }

    fn wait_readable<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
    ) -> io::Result<MutexGuard<'a, State>> {
        let Some(timeout) = state.timeout else {
            return Ok(self.readable.wait(state).unwrap_or_else(PoisonError::into_inner));
        };
        let (waited, result) =
            self.readable.wait_timeout(state, timeout).unwrap_or_else(PoisonError::into_inner);
        state = waited;
        if result.timed_out() && state.arrived_len == 0 && state.ended.is_none() {
            state.wanted = None;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if result.timed_out() {
            // Less than was hoped for is better than nothing.
            state.wanted = None;
        }
        Ok(state)
    }

    pub(super) fn finish(&self) {
        lock(&self.state).to_thread.finishes = true;
        self.waker.wake();
    }

    /// The program writes no more, and reads no more either.
    pub(super) fn close(&self) {
        lock(&self.state).to_thread.is_dropped = true;
        self.finish();
    }

    pub(super) fn abort(&self) {
        lock(&self.state).to_thread.aborts = true;
        self.waker.wake();
    }

    /// Waits for the end, a while at most.
    pub(super) fn wait_for_end(&self, most: Duration) {
        let state = lock(&self.state);
        let _ = self.writable.wait_timeout_while(state, most, |state| state.ended.is_none());
    }

    pub(super) fn set_timeout(&self, timeout: Option<Duration>) {
        lock(&self.state).timeout = timeout;
    }

    pub(super) fn rtt(&self) -> Option<Span> {
        lock(&self.state).flow.rtt
    }

    /// Has a program wait once so many bytes are written that were not sent.
    pub(super) fn queue_at_most(&self, len: u64) {
        lock(&self.state).most_unsent = len;
    }

    /// Has what is sent from now on begin from what an earlier connection saw of the path.
    pub(super) fn resume(&self, saved: SavedPath) {
        lock(&self.state).to_thread.resume = Some(saved);
        self.waker.wake();
    }

    /// How far the connection is.
    pub(super) fn flow(self: &Arc<Pipe>) -> FlowState {
        let state = lock(&self.state);
        let Flow { acknowledged, packets, rtt, smoothed_rtt, .. } = state.flow;
        FlowState {
            connection: Arc::as_ptr(self) as usize,
            arrived: acknowledged,
            rtt,
            smoothed_rtt,
            packets,
        }
    }
}

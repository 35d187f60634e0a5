//! What the thread of a UDP port and the program at one end of a connection hand each other: bytes
//! to send, bytes that came, and word of the end.

use super::super::Breaker;
use super::super::handle::FlowState;
use crate::sys::lock::lock;
use bytes::Bytes as Shared;
use farline_core::congestion::Yielded;
use farline_core::udt::Ended;
use farline_core::units::Span;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes of a piece in which a program's bytes are kept until the peer has them.
const PIECE: usize = 256 << 10;
/// Pieces that are kept for later ones.
const MOST_FREE: usize = 16;

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
    /// Bytes that a program may have written and the peer not got.
    limit: usize,
}

#[derive(Debug, Default)]
struct State {
    to_thread: ToThread,
    /// Written and not acknowledged.
    outstanding: usize,
    free: Vec<Vec<u8>>,
    arrived: VecDeque<Shared>,
    arrived_len: usize,
    /// A reader waits for so many bytes.
    wanted: Option<usize>,
    patience: Option<Duration>,
    ended: Option<Ended>,
    rtt: Option<Span>,
    flow: (u64, (u64, u64)),
    yielded: Option<Yielded>,
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
    /// The path's least round-trip time.
    pub(super) rtt: Option<Span>,
    /// Bytes that the peer has, packets sent, and of those sent again.
    pub(super) flow: (u64, (u64, u64)),
    /// What is left of a held rate, once some of it was given up.
    pub(super) yielded: Option<Yielded>,
}

impl Pipe {
    pub(super) fn new(waker: Arc<Waker>, limit: usize) -> Pipe {
        let state = Mutex::default();
        let (readable, writable) = (Condvar::new(), Condvar::new());
        Pipe { state, readable, writable, waker, limit: limit.max(2 * PIECE) }
    }

    /// The thread's look at what the program did.
    pub(super) fn take(&self) -> ToThread {
        std::mem::take(&mut lock(&self.state).to_thread)
    }

    /// Whether there is something to take.
    pub(super) fn has_work(&self) -> bool {
        let state = lock(&self.state);
        let work = &state.to_thread;
        !work.written.is_empty() || work.read > 0 || work.finishes || work.aborts
    }

    /// The thread's word to the program.
    pub(super) fn give(&self, from: &mut FromThread) {
        let mut state = lock(&self.state);
        state.rtt = from.rtt.or(state.rtt);
        (state.flow, state.yielded) = (from.flow, from.yielded);
        state.ended = state.ended.or(from.ended);
        if !from.done.is_empty() {
            let done: usize = from.done.iter().map(Vec::len).sum();
            state.outstanding = state.outstanding.saturating_sub(done);
            for mut piece in from.done.drain(..) {
                if state.free.len() < MOST_FREE {
                    piece.clear();
                    state.free.push(piece);
                }
            }
            self.writable.notify_all();
        }
        state.arrived_len += from.arrived.iter().map(Shared::len).sum::<usize>();
        state.arrived.extend(from.arrived.drain(..));
        if state.ended.is_some() {
            self.readable.notify_all();
            self.writable.notify_all();
        } else if state.wanted.is_some_and(|wanted| state.arrived_len >= wanted) {
            self.readable.notify_all();
        }
    }

    /// What is left of a held rate, once some of it was given up.
    pub(super) fn yielded(&self) -> Option<Yielded> {
        lock(&self.state).yielded
    }

    /// The program's bytes: as many of them as a piece holds. Waits while the peer has too few of
    /// those before.
    pub(super) fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut state = lock(&self.state);
        while state.outstanding >= self.limit && state.ended.is_none() {
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
            state.outstanding += len;
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
        if state.arrived.is_empty() {
            return match state.ended {
                Some(Ended::Silence) => Err(io::ErrorKind::TimedOut.into()),
                Some(Ended::Here) => Err(io::ErrorKind::ConnectionAborted.into()),
                Some(Ended::Peer) | None => Ok(VecDeque::new()),
            };
        }
        state.arrived_len = 0;
        Ok(std::mem::take(&mut state.arrived))
    }

    fn wait_readable<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
    ) -> io::Result<MutexGuard<'a, State>> {
        let Some(patience) = state.patience else {
            return Ok(self.readable.wait(state).unwrap_or_else(PoisonError::into_inner));
        };
        let (waited, result) =
            self.readable.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner);
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

    pub(super) fn abort(&self) {
        lock(&self.state).to_thread.aborts = true;
        self.waker.wake();
    }

    /// Waits for the end, a while at most.
    pub(super) fn wait_for_end(&self, most: Duration) {
        let state = lock(&self.state);
        let _ = self.writable.wait_timeout_while(state, most, |state| state.ended.is_none());
    }

    pub(super) fn set_patience(&self, patience: Option<Duration>) {
        lock(&self.state).patience = patience;
    }

    pub(super) fn rtt(&self) -> Option<Span> {
        lock(&self.state).rtt
    }

    /// How far the connection is.
    pub(super) fn flow(self: &Arc<Pipe>) -> FlowState {
        let state = lock(&self.state);
        let (arrived, packets) = state.flow;
        FlowState { connection: Arc::as_ptr(self) as usize, arrived, rtt: state.rtt, packets }
    }
}

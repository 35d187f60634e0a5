//! Messages of a measurement's queue pairs: handed over, received, and told of when they are done.

use super::abi::*;
use super::events::wait;
use super::qp_abi::*;
use super::qp_set::{DATAGRAM_KEY, QpSet, ROUTE_LEN};
use super::queue::{post_receive, post_send};
use farline_core::rdma::RdmaFailure;
use rustix::event::{PollFd, PollFlags};
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Work requests handed over in one call, and completions read in one.
const BATCH: usize = 32;
/// What is done with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// RDMA WRITE to the peer's target.
    Write,
    /// RDMA READ of the peer's source.
    Read,
    /// SEND to a receive buffer.
    Send,
    /// RDMA READ of one byte, which the peer answers when it has every write before.
    Fence,
}

/// What has been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// A message of this queue pair is sent, and acknowledged where it is connected; under iWARP
    /// sent only, but for what was read.
    Sent(usize),
    /// A message came to this queue pair, in its buffer of this number, which is free again.
    Arrived(usize, usize),
    /// A connection is broken.
    Failed(RdmaFailure),
}

impl QpSet {
    /// Hands over `count` messages on the queue pair `on`, at once.
    ///
    /// # Errors
    /// When the queue pair is broken or has no room.
    pub(crate) fn post(&mut self, on: usize, verb: Verb, count: usize) -> io::Result<()> {
        let pair = self.pairs.get(on).ok_or(io::ErrorKind::NotConnected)?.raw;
        let keys = self.registration.keys();
        // A read fills the target here with the source there; a write, and a message, brings this
        // source.
        let (opcode, from, to) = match verb {
            Verb::Write => (OP_WRITE, 0, self.plan.size as u64),
            Verb::Read => (OP_READ, self.plan.size as u64, 0),
            Verb::Send => (OP_SEND, 0, 0),
            Verb::Fence => (OP_READ, self.plan.size as u64, 0),
        };
        let len = if verb == Verb::Fence { 1 } else { self.plan.size as u32 };
        let mut sge = Sge { address: keys.address + from, len, local_key: keys.local };
        let target = match (&self.to, self.peer.numbers.get(on)) {
            (Some(handle), Some(&number)) => Target {
                datagram: TargetDatagram { handle: handle.raw.as_ptr(), number, key: DATAGRAM_KEY },
            },
            _ => Target {
                memory: TargetMemory { address: self.peer.memory + to, key: self.peer.key },
            },
        };
        let one = Work {
            id: on as u64,
            next: std::ptr::null_mut(),
            sges: &raw mut sge,
            sge_count: 1,
            opcode,
            flags: 0,
            immediate: 0,
            target,
            rest: [0; 9],
        };
        let mut left = count;
        while left > 0 {
            let now = left.min(BATCH);
            let mut chain = [one; BATCH];
            let first = chain.as_mut_ptr();
            for at in 1..now {
                // SAFETY: both lie in the chain, which stays where it is until the device has
                // copied it.
                unsafe { (*first.add(at - 1)).next = first.add(at) };
            }
            // SAFETY: the queue pair is alive, a datagram's request is of the size of any, and all
            // points to registered memory of this end.
            unsafe { post_send(pair, first.cast::<SendRequest>())? };
            left -= now;
        }
        Ok(())
    }

    pub(super) fn receive_all(&mut self, on: usize) -> io::Result<()> {
        (0..self.plan.receives).try_for_each(|buffer| self.receive(on, buffer))
    }

    /// Readies a receive buffer (again).
    ///
    /// # Errors
    /// When the queue pair is broken or has no room.
    pub(crate) fn receive(&mut self, on: usize, buffer: usize) -> io::Result<()> {
        let pair = self.pairs.get(on).ok_or(io::ErrorKind::NotConnected)?.raw;
        let keys = self.registration.keys();
        let room = self.plan.size + ROUTE_LEN;
        let at = 2 * self.plan.size + (on * self.plan.receives + buffer) * room;
        let mut sge =
            Sge { address: keys.address + at as u64, len: room as u32, local_key: keys.local };
        let mut request = ReceiveRequest {
            id: (buffer as u64) << 32 | on as u64,
            next: std::ptr::null_mut(),
            sges: &raw mut sge,
            sge_count: 1,
        };
        // SAFETY: as in `post`; the buffer lies in the registered memory, behind source and target.
        unsafe { post_receive(pair, &raw mut request) }
    }

    /// Takes what has been done, without waiting; returns whether there was any.
    ///
    /// # Errors
    /// When the device fails.
    pub(crate) fn poll(&mut self, into: &mut Vec<Done>) -> io::Result<bool> {
        let mut done = [WorkCompletion::default(); BATCH];
        let count = self.queue.poll(&mut done)?;
        into.extend(done[..count].iter().map(|done| {
            let (on, buffer) = ((done.id & 0xffff_ffff) as usize, (done.id >> 32) as usize);
            match RdmaFailure::of_status(done.status) {
                Some(failure) => Done::Failed(failure),
                None if done.opcode & DONE_RECEIVE != 0 => Done::Arrived(on, buffer),
                None => Done::Sent(on),
            }
        }));
        Ok(count > 0)
    }

    /// Waits until something has been done, `wake` becomes readable, or the time is over.
    ///
    /// # Errors
    /// When the device fails.
    pub(crate) fn wait(
        &mut self,
        into: &mut Vec<Done>,
        wake: Option<BorrowedFd<'_>>,
        most: Duration,
    ) -> io::Result<()> {
        self.queue.arm()?;
        // What was done before the queue was armed tells nobody.
        if self.poll(into)? {
            return Ok(());
        }
        let mut watched = vec![PollFd::new(&self.queue, PollFlags::IN)];
        watched.extend(wake.map(|wake| PollFd::from_borrowed_fd(wake, PollFlags::IN)));
        wait(&mut watched, most)?;
        self.queue.disarm();
        self.poll(into).map(drop)
    }
}

//! What a link's device and librdmacm tell of it.

use super::requests::Job;
use super::{Pair, RdmaConnection};
use crate::sys::verbs::abi::*;
use crate::sys::verbs::events::{ConnectionError, Events, Kind, wait};
use farline_core::rdma::RdmaFailure;
use rustix::event::{PollFd, PollFlags};
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Completions read in one call.
const BATCH: usize = 32;

/// What a device has done.
#[derive(Debug)]
pub(crate) enum Completion {
    /// A record came; its receive is posted again.
    Record {
        /// On which queue pair.
        on: u8,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// The peer wrote to memory, with an immediate; the receive is posted again.
    Written {
        /// On which queue pair.
        on: u8,
        /// The immediate.
        immediate: u32,
        /// Bytes that it wrote.
        len: u32,
    },
    /// A record of ours was sent.
    RecordSent {
        /// On which queue pair.
        on: u8,
    },
    /// A slot of ours was written; it is still held.
    SlotSent {
        /// On which queue pair.
        on: u8,
        /// Its number.
        slot: usize,
    },
    /// A slot of ours has what was read into it; it is still held.
    SlotRead {
        /// On which queue pair.
        on: u8,
        /// Its number.
        slot: usize,
    },
    /// A work request failed, and with it the queue pair.
    Failed(RdmaFailure),
}

impl RdmaConnection {
    /// Takes what the device has done, without waiting; returns whether there was any.
    ///
    /// # Errors
    /// When the device fails.
    pub(crate) fn poll(&mut self, into: &mut Vec<Completion>) -> io::Result<bool> {
        let mut done = [WorkCompletion::default(); BATCH];
        let count = self.queue.poll(&mut done)?;
        for completion in &done[..count] {
            into.extend(self.take(completion)?);
        }
        Ok(count > 0)
    }

    fn take(&mut self, done: &WorkCompletion) -> io::Result<Option<Completion>> {
        let (on, index) = ((done.id >> 48) as u8, (done.id & 0xffff_ffff_ffff) as usize);
        if done.id >> 56 == Job::Record as u64 {
            self.records.put_back(index);
        }
        if let Some(failure) = RdmaFailure::of_status(done.status) {
            return Ok(Some(Completion::Failed(failure)));
        }
        if done.id >> 56 == Job::Record as u64 {
            return Ok(Some(Completion::RecordSent { on }));
        }
        if done.id >> 56 == Job::Nothing as u64 {
            self.asked[usize::from(on)] = false;
            return Ok(None);
        }
        if done.id >> 56 == Job::Write as u64 {
            return Ok(Some(Completion::SlotSent { on, slot: index }));
        }
        if done.id >> 56 == Job::Read as u64 {
            return Ok(Some(Completion::SlotRead { on, slot: index }));
        }
        let completion = if done.opcode == DONE_RECEIVE_WITH_IMMEDIATE {
            Completion::Written { on, immediate: u32::from_be(done.immediate), len: done.byte_len }
        } else {
            Completion::Record {
                on,
                bytes: self.records.read(index, &self.shape, done.byte_len as usize),
            }
        };
        if let Some(pair) = self
            .pairs
            .get(usize::from(on))
            .and_then(Option::as_ref)
            .and_then(|pair| pair.ends.queue_pair())
        {
            self.receive_into(pair, on, index)?;
        }
        Ok(Some(completion))
    }

    /// Waits until the device has done something, `wake` becomes readable, or the time is over;
    /// returns whether it slept for that.
    ///
    /// # Errors
    /// When the peer is gone and all that it sent was taken, or the device was removed.
    pub(crate) fn wait(
        &mut self,
        into: &mut Vec<Completion>,
        wake: BorrowedFd<'_>,
        most: Duration,
    ) -> io::Result<bool> {
        if self.poll(into)? {
            return Ok(false);
        }
        if let Some(why) = self.gone {
            return Err(why.into());
        }
        self.queue.arm()?;
        // What was done before the queue was armed tells nobody.
        if self.poll(into)? {
            return Ok(false);
        }
        let mut watched = vec![
            PollFd::new(&self.queue, PollFlags::IN),
            PollFd::from_borrowed_fd(wake, PollFlags::IN),
        ];
        watched.extend(
            self.pairs
                .iter()
                .flatten()
                .filter_map(Pair::events)
                .map(|events| PollFd::new(events, PollFlags::IN)),
        );
        wait(&mut watched, most)?;
        self.queue.disarm();
        self.hear()?;
        self.poll(into).map(|_| true)
    }

    /// Takes what librdmacm has to say of the connections.
    fn hear(&mut self) -> io::Result<()> {
        for pair in self.pairs.iter().flatten() {
            while let Some(event) = pair.events().map(Events::next).transpose()?.flatten() {
                if let Kind::Gone(why) = event.kind
                    && self.gone != Some(ConnectionError::Removed)
                {
                    self.gone = Some(why);
                }
            }
        }
        Ok(())
    }

    /// Whether the device of a link that failed is gone.
    pub(crate) fn is_removed(&mut self) -> bool {
        self.hear().is_err() || self.gone == Some(ConnectionError::Removed)
    }
}

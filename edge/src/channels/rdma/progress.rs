//! Progress of an RDMA channel: what its device has done goes into the machine, and what the
//! machine says is done.

use super::RdmaChannel;
use crate::channels::Arrival;
use crate::sys::verbs::Completion;
use farline_core::gridftp::checked::{self, CHECKED_LEN, Check, DamagedHeader};
use farline_core::gridftp::mode_e::{Flags, HEADER_LEN, Header};
use farline_core::rdma::completion_poller;
use farline_core::rdma::{
    Input, Output, QueuePair, RdmaFailure, Record, RecordHeader, Violation, WorkRequest,
};
use farline_core::transfer::{Block, SlotId};
use farline_core::units::{Error, ErrorCode, Fault, Setting, Span, Time};
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// After this long without a completion the peer of a connection that nobody watches is asked for.
const SILENCE: Duration = Duration::from_secs(10);

impl RdmaChannel {
    /// Does what there is to do; `wait`s for something to be done by the device or another thread
    /// first. Returns whether that was a wake.
    pub(super) fn progress(&mut self, wait: Option<Duration>) -> io::Result<bool> {
        let progressed = self.try_progress(wait);
        self.broken |= progressed.is_err();
        progressed
    }

    fn try_progress(&mut self, wait: Option<Duration>) -> io::Result<bool> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        // What is waited for may depend on what was not done yet.
        self.drain()?;
        let mut completions = std::mem::take(&mut self.completions);
        let taken = match wait {
            Some(most) => self.await_any(&mut completions, most),
            None => self.poll(&mut completions),
        };
        let fed = completions.drain(..).try_for_each(|completion| self.feed(completion));
        self.completions = completions;
        let drained = self.drain();
        if let Err(error) = fed.and(taken).and(drained) {
            if self.arrived.is_empty() {
                return Err(error);
            }
            // What came before the connection ended counts, and is told first.
            self.failed = Some(error);
        }
        self.breaker.is_woken()
    }

    /// Takes what the device has done, without waiting.
    fn poll(&mut self, completions: &mut Vec<Completion>) -> io::Result<()> {
        self.link.poll(completions)?;
        self.poller.handle(self.now(), completion_poller::Input::Polled(completions.len()));
        Ok(())
    }

    /// Waits until it has done something, or another thread wakes this one.
    fn await_any(&mut self, completions: &mut Vec<Completion>, most: Duration) -> io::Result<()> {
        self.poller.handle(self.now(), completion_poller::Input::Waits);
        while completions.is_empty() {
            if self.poller.poll(self.now()) == completion_poller::Output::Poll {
                self.poll(completions)?;
                continue;
            }
            let slept = self.wait(completions, most)?;
            let count = completions.len();
            let input = if slept {
                completion_poller::Input::Slept(count)
            } else {
                completion_poller::Input::Polled(count)
            };
            self.poller.handle(self.now(), input);
            break;
        }
        Ok(())
    }

    /// Sleeps until the device tells of something; returns whether it slept. Where nobody tells
    /// that the peer is gone, it is asked for now and then.
    fn wait(&mut self, completions: &mut Vec<Completion>, most: Duration) -> io::Result<bool> {
        let since = Instant::now();
        let slept = self.link.wait(completions, self.breaker.as_fd(), most.min(SILENCE))?;
        if completions.is_empty() && since.elapsed() >= SILENCE {
            self.link.ask_after_peer()?;
        }
        Ok(slept)
    }

    fn now(&self) -> Time {
        Time::ZERO + Span::from(self.began.elapsed())
    }

    fn feed(&mut self, completion: Completion) -> io::Result<()> {
        let input = match completion {
            Completion::Record { on, bytes } => {
                Input::Received { on: QueuePair(on), record: Record::decode(&bytes).map_err(lie)? }
            }
            Completion::Written { on, immediate, len } => {
                Input::Written { on: QueuePair(on), credit: immediate, len }
            }
            Completion::RecordSent { on } => {
                Input::Completed { on: QueuePair(on), work: WorkRequest::Record }
            }
            Completion::SlotSent { on, slot } => {
                Input::Completed { on: QueuePair(on), work: WorkRequest::Write(SlotId(slot)) }
            }
            Completion::SlotRead { on, slot } => {
                Input::Completed { on: QueuePair(on), work: WorkRequest::Read(SlotId(slot)) }
            }
            Completion::Failed(failure) => return Err(self.broken_by(failure)),
        };
        self.endpoint.handle(input);
        Ok(())
    }

    /// The error of a failed request. That a connection closed says little where its device was
    /// removed.
    fn broken_by(&mut self, failure: RdmaFailure) -> io::Error {
        let failure = if failure.is_consequence() && self.link.is_removed() {
            RdmaFailure::Removed
        } else {
            failure
        };
        let kind = if failure.is_consequence() {
            io::ErrorKind::UnexpectedEof
        } else {
            io::ErrorKind::ConnectionAborted
        };
        io::Error::new(kind, failure.error())
    }

    fn drain(&mut self) -> io::Result<()> {
        let mut is_over = false;
        let drained = self.drain_until(&mut is_over);
        if is_over {
            // Every slot of the transfer is the caller's again, whatever came behind its mark: no
            // key may open one until it is offered or sent anew.
            self.link.close_keys();
        }
        drained
    }

    /// Does what the machine says; notes when a transfer `is_over`.
    fn drain_until(&mut self, is_over: &mut bool) -> io::Result<()> {
        while let Some(output) = self.endpoint.poll() {
            match output {
                Output::Post { on, record } => self.link.post(on.0, &record.encode())?,
                Output::Write { on, slot, len, to, immediate } => {
                    self.link.write(
                        on.0,
                        slot.0,
                        len,
                        to.address,
                        to.key,
                        immediate.then_some(to.number),
                    )?;
                }
                Output::Read { on, slot, len, from } => {
                    self.link.read(on.0, slot.0, len, from.address, from.key)?
                }
                Output::Taken => *is_over = true,
                Output::Sent(slot) => self.sent.extend(self.link.release(slot.0)),
                Output::Returned(slot) => self.unused.extend(self.link.release(slot.0)),
                Output::Arrived { slot, len, header } => {
                    let (header, check) = self.read_header(&header)?;
                    let bad = header.flags.contains(Flags::ERROR)
                        || header.flags.contains(Flags::RESTART);
                    if bad || header.flags.contains(Flags::EOF) || header.count != u64::from(len) {
                        return Err(io::Error::new(
                            io::ErrorKind::InvalidData,
                            "the header of a block does not fit what was written",
                        ));
                    }
                    let Some(slot) = self.link.release(slot.0) else { continue };
                    self.arrived.push_back(Arrival::Data {
                        slot,
                        block: Block { offset: header.offset, len: len as usize },
                        check,
                        carried: len as usize,
                    });
                }
                Output::Ended { slot, header } => {
                    *is_over = true;
                    let (header, _) = self.read_header(&header)?;
                    // GFD.20: in an EOF header the offset is the number of channels.
                    let channels = header.flags.contains(Flags::EOF).then_some(header.offset);
                    let closing = header.flags.contains(Flags::CLOSE);
                    let Some(slot) = self.link.release(slot.0) else { continue };
                    self.arrived.push_back(Arrival::End { slot, channels, closing });
                }
                Output::Broken(violation) => return Err(lie(violation)),
            }
        }
        Ok(())
    }

    fn read_header(&self, header: &RecordHeader) -> io::Result<(Header, Option<Check>)> {
        if self.checked {
            let bytes: &[u8; CHECKED_LEN] = header.as_bytes().try_into().map_err(|_| damaged())?;
            let (header, check) = checked::decode(bytes).map_err(|_| damaged())?;
            return Ok((header, Some(check)));
        }
        let bytes: &[u8; HEADER_LEN] = header.as_bytes().try_into().map_err(|_| damaged())?;
        Ok((
            Header::decode(bytes)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?,
            None,
        ))
    }
}

fn lie(violation: Violation) -> io::Error {
    let error =
        Error::new(Fault::There, ErrorCode::RdmaBroken, format!("data connection: {violation}"))
            .hint(format!(
                "it breaks clauses V-3 to V-11 of docs/protocol.md: is it of another version? \
                 {} tcp does without",
                Setting::Channel
            ));
    io::Error::new(io::ErrorKind::InvalidData, error)
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, DamagedHeader)
}

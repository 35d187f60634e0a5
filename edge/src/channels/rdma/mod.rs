//! The RDMA channel: blocks from the sender's staging pool straight into the receiver's, by InfiniBand, RoCE or iWARP.
//!
//! [`Endpoint`] decides, [`Link`] does. Who calls a method of the channel drives both: there is no thread in between. Nothing on an
//! RDMA channel is encrypted (docs/protocol.md, V-1 to V-11).

mod connect;
mod door;
mod exchange;
#[cfg(test)]
mod guest_tests;
#[cfg(test)]
mod keys_guest_tests;
mod pinned;
mod ports;

pub use connect::{Dialler, Fabric};
pub use door::{RdmaDoor, Terms};
pub use exchange::{Exchange, Offered};
pub(crate) use pinned::lockable;
pub(crate) use ports::{DEVICES, ports};

use super::{Arrival, Breaker, Channel, Handle};
use crate::sys::pool::Slot;
use crate::sys::tcp::TcpInfo;
use crate::sys::verbs::{Access, Completion, Link, Shape};
use farline_core::gridftp::checked::{self, CHECKED_LEN, Check, DamagedHeader};
use farline_core::gridftp::mode_e::{Flags, HEADER_LEN, Header};
use farline_core::rdma::attention::{self, Attention, Noticed};
use farline_core::rdma::{Endpoint, Failure, Input, Output, Placement, QueuePair};
use farline_core::rdma::{Record, RecordHeader, Settings, Source, Violation, Work};
use farline_core::transfer::{Block, SlotId};
use farline_core::units::{Bytes, Error, Fault, Span, Time};
use pinned::pinning;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a channel that is closed waits for what it sent to arrive: the longest path, and some repeats.
const LINGER: Duration = Duration::from_secs(5);
/// After this long without a completion the peer of a connection that nobody watches is asked for.
const SILENCE: Duration = Duration::from_secs(10);
/// The longest single wait; whoever must end sooner is woken.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// One data connection of registered slots.
pub struct RdmaChannel {
    link: Link,
    endpoint: Endpoint,
    settings: Settings,
    /// Slots that either end has advertised to begin with.
    begin: usize,
    /// The path's round-trip time; zero where it is not known.
    rtt: Span,
    breaker: Arc<Breaker>,
    /// Whether to look for completions or to be told of them.
    attention: Attention,
    began: Instant,
    /// Whether headers are checked ones.
    checked: bool,
    arrived: VecDeque<Arrival>,
    sent: VecDeque<Slot>,
    unused: VecDeque<Slot>,
    /// Scratch for completions.
    completions: Vec<Completion>,
    /// What a method without a result could not say.
    failed: Option<io::Error>,
    broken: bool,
}

/// The sizes of the link of a channel with these settings.
fn shape(settings: &Settings) -> Shape {
    Shape { pairs: settings.queue_pairs, sends: settings.sends(), receives: settings.receives(), record_len: Record::BUFFER_LEN }
}

impl RdmaChannel {
    /// A channel over a link whose queue pairs are all connected, on a path of a known round-trip time or of none; it begins with so many
    /// slots on their way.
    fn over(link: Link, settings: Settings, begin: u16, rtt: Span) -> io::Result<RdmaChannel> {
        Ok(RdmaChannel {
            link,
            endpoint: Endpoint::new(settings),
            settings,
            begin: usize::from(begin.clamp(1, settings.credits)),
            rtt,
            breaker: Arc::new(Breaker::new()?),
            attention: Attention::default(),
            began: Instant::now(),
            checked: false,
            arrived: VecDeque::new(),
            sent: VecDeque::new(),
            unused: VecDeque::new(),
            completions: Vec::new(),
            failed: None,
            broken: false,
        })
    }

    /// Does what there is to do; `wait`s for something to be done by the device or another thread first. Answers whether that was a wake.
    fn turn(&mut self, wait: Option<Duration>) -> io::Result<bool> {
        let turned = self.try_turn(wait);
        self.broken |= turned.is_err();
        turned
    }

    fn try_turn(&mut self, wait: Option<Duration>) -> io::Result<bool> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        // What is waited for may depend on what was not done yet.
        self.act()?;
        let mut completions = std::mem::take(&mut self.completions);
        let taken = match wait {
            Some(most) => self.await_any(&mut completions, most),
            None => self.look(&mut completions),
        };
        let fed = completions.drain(..).try_for_each(|completion| self.feed(completion));
        self.completions = completions;
        let acted = self.act();
        if let Err(error) = fed.and(taken).and(acted) {
            if self.arrived.is_empty() {
                return Err(error);
            }
            // What came before the connection ended counts, and is told first.
            self.failed = Some(error);
        }
        self.breaker.is_woken()
    }

    /// Takes what the device has done, without waiting.
    fn look(&mut self, completions: &mut Vec<Completion>) -> io::Result<()> {
        self.link.poll(completions)?;
        self.attention.handle(self.now(), attention::Input::Looked(completions.len()));
        Ok(())
    }

    /// Waits until it has done something, or another thread wakes this one.
    fn await_any(&mut self, completions: &mut Vec<Completion>, most: Duration) -> io::Result<()> {
        self.attention.handle(self.now(), attention::Input::Waits);
        while completions.is_empty() {
            if self.attention.poll(self.now()) == attention::Output::Look {
                self.look(completions)?;
                continue;
            }
            let slept = self.wait(completions, most)?;
            let count = completions.len();
            let noticed = if slept { attention::Input::Slept(count) } else { attention::Input::Looked(count) };
            self.attention.handle(self.now(), noticed);
            break;
        }
        Ok(())
    }

    /// Sleeps until the device tells of something; answers whether it slept. Where nobody tells that the peer is gone, it is asked for now and then.
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
            Completion::Written { on, immediate, len } => Input::Written { on: QueuePair(on), credit: immediate, len },
            Completion::RecordSent { on } => Input::Completed { on: QueuePair(on), work: Work::Record },
            Completion::SlotSent { on, slot } => Input::Completed { on: QueuePair(on), work: Work::Write(SlotId(slot)) },
            Completion::SlotRead { on, slot } => Input::Completed { on: QueuePair(on), work: Work::Read(SlotId(slot)) },
            Completion::Failed(failure) => return Err(self.broken_by(failure)),
        };
        self.endpoint.handle(input);
        Ok(())
    }

    /// The error of a failed request. That a connection closed says little where its device was removed.
    fn broken_by(&mut self, failure: Failure) -> io::Error {
        let failure = if failure.is_consequence() && self.link.is_removed() { Failure::Removed } else { failure };
        let kind = if failure.is_consequence() { io::ErrorKind::UnexpectedEof } else { io::ErrorKind::ConnectionAborted };
        io::Error::new(kind, failure.error())
    }

    fn act(&mut self) -> io::Result<()> {
        let mut is_over = false;
        let acted = self.act_until(&mut is_over);
        if is_over {
            // Every slot of the transfer is the caller's again, whatever came behind its mark: no key may open one until it is offered or
            // sent anew.
            self.link.close_keys();
        }
        acted
    }

    /// Does what the machine says; notes when a transfer `is_over`.
    fn act_until(&mut self, is_over: &mut bool) -> io::Result<()> {
        while let Some(output) = self.endpoint.poll() {
            match output {
                Output::Post { on, record } => self.link.post(on.0, &record.encode())?,
                Output::Write { on, slot, len, to, immediate } => {
                    self.link.write(on.0, slot.0, len, to.address, to.key, immediate.then_some(to.number))?;
                }
                Output::Read { on, slot, len, from } => self.link.read(on.0, slot.0, len, from.address, from.key)?,
                Output::Taken => *is_over = true,
                Output::Sent(slot) => self.sent.extend(self.link.release(slot.0)),
                Output::Returned(slot) => self.unused.extend(self.link.release(slot.0)),
                Output::Arrived { slot, len, header } => {
                    let (header, check) = self.read_header(&header)?;
                    let bad = header.flags.contains(Flags::ERROR) || header.flags.contains(Flags::RESTART);
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

    /// Whether blocks are read, and not written.
    fn reads(&self) -> bool {
        self.settings.placement == Placement::Read
    }

    fn read_header(&self, header: &RecordHeader) -> io::Result<(Header, Option<Check>)> {
        if self.checked {
            let bytes: &[u8; CHECKED_LEN] = header.as_bytes().try_into().map_err(|_| damaged())?;
            let (header, check) = checked::decode(bytes).map_err(|_| damaged())?;
            return Ok((header, Some(check)));
        }
        let bytes: &[u8; HEADER_LEN] = header.as_bytes().try_into().map_err(|_| damaged())?;
        Ok((Header::decode(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?, None))
    }

    fn write_header(&self, header: &Header, check: &Check) -> io::Result<RecordHeader> {
        let header = match self.checked {
            true => RecordHeader::new(&checked::encode(header, check)),
            false => RecordHeader::new(&header.encode()),
        };
        header.ok_or_else(|| io::Error::other("a header is too long"))
    }
}

impl Channel for RdmaChannel {
    fn depth(&self) -> usize {
        self.begin
    }

    fn reach(&self) -> usize {
        usize::from(self.settings.credits)
    }

    fn check_blocks(&mut self, on: bool) {
        self.checked = on;
    }

    fn send(&mut self, header: Header, check: &Check, slot: Slot, payload: Range<usize>) -> io::Result<()> {
        let id = SlotId(slot.index());
        let len = Bytes(slot.len() as u64);
        let access = if self.reads() { Access::Read } else { Access::Sent };
        let (address, key) = self.link.hold(slot, access).map_err(|error| pinning(error, len))?;
        if payload.start != 0 {
            return Err(io::Error::other("a block does not begin at its slot's start"));
        }
        let len = u32::try_from(payload.end).map_err(|_| io::ErrorKind::InvalidInput)?;
        let source = Source { key, address };
        self.endpoint.handle(Input::Send { slot: id, source, len, header: self.write_header(&header, check)? });
        self.turn(None).map(drop)
    }

    fn sent(&mut self, until: Option<Instant>) -> io::Result<Option<Slot>> {
        loop {
            if let Some(slot) = self.sent.pop_front() {
                return Ok(Some(slot));
            }
            let left = until.map_or(LONGEST_WAIT, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() || (self.turn(Some(left))? && self.sent.is_empty()) {
                return Ok(None);
            }
        }
    }

    fn mark(&mut self, header: Header) -> io::Result<()> {
        self.endpoint.handle(Input::Mark(self.write_header(&header, &Check::default())?));
        self.turn(None)?;
        // It waits for a credit, and nobody may call this channel again for long.
        while self.endpoint.has_waiting() {
            self.turn(Some(LONGEST_WAIT))?;
        }
        Ok(())
    }

    fn offer(&mut self, slot: Slot) {
        if self.arrived.iter().any(|arrival| matches!(arrival, Arrival::End { .. })) {
            // The caller has not come to the end of this transfer yet; for the next one it will offer anew.
            return self.unused.push_back(slot);
        }
        let (id, len) = (SlotId(slot.index()), slot.len());
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        let access = if self.reads() { Access::Fetched } else { Access::Written };
        match self.link.hold(slot, access) {
            Ok((address, key)) => self.endpoint.handle(Input::Offer { slot: id, address, key, len }),
            // More than may be locked: it goes on with those that it has.
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory && self.link.held() > 1 => {
                self.unused.extend(self.link.release(id.0));
            }
            Err(error) => self.failed = Some(pinning(error, Bytes(len.into()))),
        }
    }

    fn receive(&mut self) -> io::Result<Option<Arrival>> {
        loop {
            if let Some(arrival) = self.arrived.pop_front() {
                return Ok(Some(arrival));
            }
            if self.turn(Some(LONGEST_WAIT))? && self.arrived.is_empty() {
                return Ok(None);
            }
        }
    }

    fn unused(&mut self) -> Option<Slot> {
        self.unused.pop_front()
    }

    fn withdraw(&mut self) -> Option<Slot> {
        self.broken = true;
        // From here the device touches nothing, and what the peer was told opens nothing: not to the session's other channels either.
        self.link.shut();
        self.unused.extend(std::iter::from_fn(|| self.link.release_any()));
        self.link.close_keys();
        let arrived = self.arrived.pop_front().map(|arrival| match arrival {
            Arrival::Data { slot, .. } | Arrival::End { slot, .. } => slot,
        });
        arrived.or_else(|| self.sent.pop_front()).or_else(|| self.unused.pop_front())
    }

    fn tcp_info(&self) -> Option<TcpInfo> {
        None
    }

    fn congestion(&self) -> Option<String> {
        None
    }

    fn noticed(&self) -> Option<Noticed> {
        Some(self.attention.noticed())
    }

    fn handle(&self) -> io::Result<Handle> {
        Ok(Handle::of_slots(&self.breaker, self.rtt))
    }
}

impl Drop for RdmaChannel {
    /// Waits for the peer's device to have what was sent: closing a connection throws away what is on its way.
    fn drop(&mut self) {
        let until = Instant::now() + LINGER;
        while !self.broken && !self.endpoint.is_idle() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.turn(Some(left)).is_err() {
                return;
            }
        }
    }
}

fn lie(violation: Violation) -> io::Error {
    let error = Error::new(Fault::There, "rdma-broken", format!("data connection: {violation}"))
        .hint("it breaks clauses V-3 to V-11 of docs/protocol.md: is it of another version? --channel tcp does without");
    io::Error::new(io::ErrorKind::InvalidData, error)
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, DamagedHeader)
}

//! The RDMA channel: blocks from the sender's staging pool straight into the receiver's, by
//! InfiniBand, RoCE or iWARP.
//!
//! [`Endpoint`] decides, `RdmaConnection` does. Who calls a method of the channel drives both:
//! there is no thread in between. Nothing on an RDMA channel is encrypted (docs/protocol.md, V-1 to
//! V-11).

mod connect;
#[cfg(test)]
mod connect_guest_tests;
mod driver;
mod exchange;
mod fabric;
#[cfg(test)]
pub(in crate::channels) mod guest_tests;
#[cfg(test)]
mod keys_guest_tests;
mod listener;
mod pinned;
mod ports;
mod progress;

pub use driver::driver;

#[cfg(test)]
use connect::RdmaDialer;
#[cfg(test)]
use exchange::Exchange;
#[cfg(test)]
use fabric::Fabric;
#[cfg(test)]
use listener::{RdmaListener, Terms};
pub(crate) use pinned::lockable;
#[cfg(feature = "profile")]
pub(crate) use ports::{DEVICES, ports};

use super::handle::ConnectionControl;
use super::{Arrival, Breaker, Channel, Handle};
use crate::sys::pool::Slot;
use crate::sys::tcp::TcpInfo;
use crate::sys::verbs::{Access, Completion, RdmaConnection, Shape};
use farline_core::congestion::ControlName;
use farline_core::gridftp::checked::{self, Check};
use farline_core::gridftp::mode_e::Header;
use farline_core::rdma::completion_poller::CompletionPoller;
use farline_core::rdma::{
    BlockSource, Endpoint, EndpointSettings, Input, Placement, Record, RecordHeader,
};
use farline_core::transfer::CompletionStats;
use farline_core::transfer::SlotId;
use farline_core::units::{Bytes, Span};
use pinned::pinning;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a channel that is closed waits for what it sent to arrive: the longest path, and some
/// repeats.
const LINGER: Duration = Duration::from_secs(5);
/// The longest single wait; whoever must end sooner is woken.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// One data connection of registered slots.
pub struct RdmaChannel {
    link: RdmaConnection,
    endpoint: Endpoint,
    settings: EndpointSettings,
    /// Slots that either end has advertised to begin with.
    begin: usize,
    /// The path's round-trip time; zero where it is not known.
    rtt: Span,
    breaker: Arc<Breaker>,
    /// Whether to look for completions or to be told of them.
    poller: CompletionPoller,
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
fn shape(settings: &EndpointSettings) -> Shape {
    Shape {
        pairs: settings.queue_pairs,
        sends: settings.sends(),
        receives: settings.receives(),
        record_len: Record::BUFFER_LEN,
    }
}

impl RdmaChannel {
    /// A channel over a link whose queue pairs are all connected, on a path of a known round-trip
    /// time or of none; it begins with so many slots on their way.
    fn over(
        link: RdmaConnection,
        settings: EndpointSettings,
        begin: u16,
        rtt: Span,
    ) -> io::Result<RdmaChannel> {
        Ok(RdmaChannel {
            link,
            endpoint: Endpoint::new(settings),
            settings,
            begin: usize::from(begin.clamp(1, settings.credits)),
            rtt,
            breaker: Arc::new(Breaker::new()?),
            poller: CompletionPoller::default(),
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

    /// Whether blocks are read, and not written.
    fn reads(&self) -> bool {
        self.settings.placement == Placement::Read
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

    fn send(
        &mut self,
        header: Header,
        check: &Check,
        slot: Slot,
        payload: Range<usize>,
    ) -> io::Result<()> {
        let id = SlotId(slot.index());
        let len = Bytes(slot.len() as u64);
        let access = if self.reads() { Access::Read } else { Access::Sent };
        let (address, key) = self.link.hold(slot, access).map_err(|error| pinning(error, len))?;
        if payload.start != 0 {
            return Err(io::Error::other("a block does not begin at its slot's start"));
        }
        let len = u32::try_from(payload.end).map_err(|_| io::ErrorKind::InvalidInput)?;
        let source = BlockSource { key, address };
        self.endpoint.handle(Input::Send {
            slot: id,
            source,
            len,
            header: self.write_header(&header, check)?,
        });
        self.progress(None).map(drop)
    }

    fn sent(&mut self, until: Option<Instant>) -> io::Result<Option<Slot>> {
        loop {
            if let Some(slot) = self.sent.pop_front() {
                return Ok(Some(slot));
            }
            let left =
                until.map_or(LONGEST_WAIT, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() || (self.progress(Some(left))? && self.sent.is_empty()) {
                return Ok(None);
            }
        }
    }

    fn mark(&mut self, header: Header) -> io::Result<()> {
        self.endpoint.handle(Input::Mark(self.write_header(&header, &Check::default())?));
        self.progress(None)?;
        // It waits for a credit, and nobody may call this channel again for long.
        while self.endpoint.has_waiting() {
            self.progress(Some(LONGEST_WAIT))?;
        }
        Ok(())
    }

    fn offer(&mut self, slot: Slot) {
        if self.arrived.iter().any(|arrival| matches!(arrival, Arrival::End { .. })) {
            // The caller has not come to the end of this transfer yet; for the next one it will
            // offer anew.
            return self.unused.push_back(slot);
        }
        let (id, len) = (SlotId(slot.index()), slot.len());
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        let access = if self.reads() { Access::Fetched } else { Access::Written };
        match self.link.hold(slot, access) {
            Ok((address, key)) => {
                self.endpoint.handle(Input::Offer { slot: id, address, key, len })
            }
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
            if self.progress(Some(LONGEST_WAIT))? && self.arrived.is_empty() {
                return Ok(None);
            }
        }
    }

    fn unused(&mut self) -> Option<Slot> {
        self.unused.pop_front()
    }

    fn withdraw(&mut self) -> Option<Slot> {
        self.broken = true;
        // From here the device touches nothing, and what the peer was told opens nothing: not to
        // the session's other channels either.
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

    fn congestion(&self) -> Option<ControlName> {
        None
    }

    fn completion_stats(&self) -> Option<CompletionStats> {
        Some(self.poller.stats())
    }

    fn handle(&self) -> io::Result<Handle> {
        Ok(Handle::new(DeviceControl { breaker: Arc::clone(&self.breaker), rtt: self.rtt }))
    }
}

/// What another thread may do to a channel that waits for its device.
#[derive(Debug)]
struct DeviceControl {
    breaker: Arc<Breaker>,
    rtt: Span,
}

impl ConnectionControl for DeviceControl {
    fn rtt(&self) -> Option<Span> {
        Some(self.rtt)
    }

    fn room(&self) -> Option<Bytes> {
        lockable().room()
    }

    fn wake(&self) {
        self.breaker.wake();
    }

    fn break_now(&self) {
        self.breaker.break_now();
    }
}

impl Drop for RdmaChannel {
    /// Waits for the peer's device to have what was sent: closing a connection throws away what is
    /// on its way.
    fn drop(&mut self) {
        let until = Instant::now() + LINGER;
        while !self.broken && !self.endpoint.is_idle() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.progress(Some(left)).is_err() {
                return;
            }
        }
    }
}

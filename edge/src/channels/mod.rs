//! Channel drivers: how blocks travel between two nodes.
//!
//! One trait covers channels that carry *ordered bytes* (TCP, TLS, UDT, QUIC) and channels that
//! write into *registered slots* (RDMA). Both speak in slots of the staging pool and MODE E
//! headers:
//!
//! | step | ordered bytes | registered slots |
//! |---|---|---|
//! | `offer(slot)` | keeps the slot for the next block | advertises the slot's address and key to the peer: a credit |
//! | `receive()` | reads a header, then the payload straight into the offered slot | waits for the completion that names the slot |
//! | `send(header, slot)` | writes header and payload in one call; the slot is done at once | posts an RDMA WRITE; the slot is done later |
//! | `sent()` | never waits | waits for a completion |
//! | `depth()`, `reach()` | 1 | slots on their way to begin with, and as many as the path's bandwidth-delay product comes to ask for |
//!
//! The machines of `core::transfer` see no difference: a channel of depth *d* asks for *d* blocks,
//! or is offered *d* slots, before it waits; [`Handle::wake`] tells it that there are more. The
//! pool is mapped memory, so that direct I/O and verbs can register it; verbs do so slot by slot,
//! so that a key opens one slot.

pub mod arrivals;
pub mod driver;
mod greeted;
#[cfg_attr(not(feature = "gsi"), path = "no_gsi.rs")]
pub(crate) mod gsi;
pub mod handle;
pub mod handshake;
mod handshake_places;
pub mod key;
pub mod layer;
#[cfg(not(feature = "quic"))]
mod no_quic;
pub mod offers;
pub mod ordered;
#[cfg(feature = "quic")]
pub mod quic;
#[cfg(feature = "rdma")]
pub mod rdma;
pub mod registry;
pub mod socket;
pub mod ssh;
pub mod stack;
pub mod tcp;
#[cfg(feature = "tls")]
pub mod tls;
pub mod trust;
pub mod udt;

pub(crate) mod accept_error;
mod breaker;
#[cfg(test)]
mod conformance;
#[cfg(test)]
mod memory;
pub(crate) mod pending;
mod read_ahead;
pub(crate) mod secured;
mod session_buffers;

pub(crate) use breaker::Breaker;
/// A node's one UDP port, and a client's way to it.
pub(crate) mod one_port {
    /// Whether this build has it.
    pub(crate) const IS_BUILT: bool = cfg!(feature = "quic");
    #[cfg(not(feature = "quic"))]
    pub(crate) use super::no_quic::*;
    #[cfg(feature = "quic")]
    pub(crate) use super::quic::control::{ConnectedControl, SharedConnection, connect};
    #[cfg(feature = "quic")]
    pub(crate) use super::quic::one_port::{ControlArrival, DRIVER, OnePort, PortSessions};
}

pub use handle::Handle;
pub use registry::Registry;
pub use socket::TcpOptions;
pub use stack::Stack;

use crate::sys::pool::Slot;
use crate::sys::tcp::TcpInfo;
pub(crate) use crate::sys::words::plain;
use farline_core::congestion::ControlName;
use farline_core::gridftp::checked::{Check, DamagedHeader};
use farline_core::gridftp::mode_e::Header;
use farline_core::transfer::Block;
pub use farline_core::transfer::CompletionStats;
use farline_core::units::{Error, ErrorCode};
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::time::Instant;

/// One data connection of a transfer.
pub trait Channel: Send {
    /// How many slots may be on their way at once, to begin with.
    fn depth(&self) -> usize;

    /// How many may come to be.
    fn reach(&self) -> usize {
        self.depth()
    }

    /// Whether blocks have checked headers from the next on, in both directions; at first they have
    /// not.
    fn check_blocks(&mut self, on: bool);

    /// Whether a header with [`ZEROS`](farline_core::gridftp::checked::ZEROS) may go without the
    /// payload that it counts.
    fn leaves_zeros_out(&self) -> bool {
        false
    }

    /// Sends `slot[payload]` under `header`, with `check` where headers are checked.
    ///
    /// # Errors
    /// When the connection broke; [`Self::withdraw`] gives the slot back.
    fn send(
        &mut self,
        header: Header,
        check: &Check,
        slot: Slot,
        payload: Range<usize>,
    ) -> io::Result<()>;

    /// Takes back a slot that a broken channel holds; ask until there is none.
    fn withdraw(&mut self) -> Option<Slot>;

    /// The next slot whose bytes the channel needs no more; waits for it, or for [`Handle::wake`]
    /// or `until`, which answer [`None`].
    ///
    /// # Errors
    /// When the connection broke.
    fn sent(&mut self, until: Option<Instant>) -> io::Result<Option<Slot>>;

    /// Sends a header that has no payload: `EOD`, `EOF`, `CLOSE`.
    ///
    /// # Errors
    /// When the connection broke.
    fn mark(&mut self, header: Header) -> io::Result<()>;

    /// Gives the channel a slot to receive into.
    fn offer(&mut self, slot: Slot);

    /// Waits for the next arrival into an offered slot, or for [`Handle::wake`], which answers
    /// [`None`].
    ///
    /// # Errors
    /// When the connection broke or closed before an end-of-data mark, or the peer broke MODE E;
    /// [`Self::withdraw`] gives the slot back.
    fn receive(&mut self) -> io::Result<Option<Arrival>>;

    /// Takes back an offered slot that the end-of-data mark left unused; ask until there is none.
    fn unused(&mut self) -> Option<Slot> {
        None
    }

    /// Whether [`Self::receive`] would return without waiting for the peer; `None` where nobody can
    /// tell, or the arrival is longer than is looked for here.
    ///
    /// # Errors
    /// When the connection broke.
    fn has_arrival(&mut self) -> io::Result<Option<bool>> {
        Ok(None)
    }

    /// Where to wait until [`Self::has_arrival`] may say something else.
    fn waits_at(&mut self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Has [`Self::receive`] bring the end-of-data mark that it brought last once more.
    fn put_back_end(&mut self, _channels: Option<u64>) {}

    /// What the kernel knows of the connection, where it is a TCP one.
    fn tcp_info(&self) -> Option<TcpInfo>;

    /// The congestion control in force, where it is a TCP connection.
    fn congestion(&self) -> Option<ControlName>;

    /// How completions of its device were noticed, where it has one.
    fn completion_stats(&self) -> Option<CompletionStats> {
        None
    }

    /// A handle to look at the connection, or break it, from another thread.
    ///
    /// # Errors
    /// When the system has no file descriptor left.
    fn handle(&self) -> io::Result<Handle>;
}

/// What [`Channel::receive`] brought.
#[derive(Debug)]
pub enum Arrival {
    /// A block, or the next part of a block that is longer than a slot.
    Data {
        /// The slot that holds it, from its start, where it was carried.
        slot: Slot,
        /// Which bytes they are.
        block: Block,
        /// What a checked header said of them.
        check: Option<Check>,
        /// How many of them came over the connection: all, or none of a block that is all zeros
        /// (clause Z-2), which are not in the slot either.
        carried: usize,
    },
    /// The end-of-data mark; the offered slot comes back unused.
    End {
        /// The slot.
        slot: Slot,
        /// From an `EOF` header: how many channels the transfer has.
        channels: Option<u64>,
        /// Whether the peer will close this connection rather than use it for the next transfer.
        closing: bool,
    },
}

/// Whether a channel failed because a checked header did not arrive as it was sent.
pub(crate) fn is_damage(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<DamagedHeader>())
}

/// What a channel said that knows more of its failure than the system's error does.
pub(crate) fn told(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

/// Whether another connection would fail the same way: the fault is not the path's.
pub(crate) fn is_final(error: &io::Error) -> bool {
    told(error).is_some_and(|told| told.code != ErrorCode::ChannelLost)
}

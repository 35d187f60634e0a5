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
//! The machines of `core::transfer` see no difference: a channel of depth *d* asks for *d* blocks
//! before it waits.

pub mod arrivals;
pub mod driver;
pub mod key;
pub mod offers;
pub mod options;
pub mod ordered;
pub mod rdma;
pub mod registry;
pub mod ssh;
pub mod stack;
pub mod tcp;
pub mod tls;
pub mod trust;

mod breaker;

pub(crate) use breaker::Breaker;
pub use registry::Registry;
pub use stack::Stack;
pub use tcp::TcpOptions;

use crate::sys::pool::Slot;
use crate::sys::tcp::{TcpInfo, pace, tcp_info};
use farline_core::gridftp::checked::{Check, DamagedHeader};
use farline_core::gridftp::mode_e::Header;
pub use farline_core::rdma::completion_poller::CompletionStats;
use farline_core::transfer::Block;
use farline_core::units::{Bytes, Error, Rate, Span};
use socket2::Socket;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
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

    /// What the kernel knows of the connection, where it is a TCP one.
    fn tcp_info(&self) -> Option<TcpInfo>;

    /// The congestion control in force, where it is a TCP connection.
    fn congestion(&self) -> Option<String>;

    /// How completions of its device were noticed, where it has one.
    fn noticed(&self) -> Option<CompletionStats> {
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
        /// The slot that holds it, from its start.
        slot: Slot,
        /// Which bytes they are.
        block: Block,
        /// What a checked header said of them.
        check: Option<Check>,
        /// How many of them came over the connection: zeros need not.
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
    told(error).is_some_and(|told| told.code != "channel-lost")
}

/// The system's words without Rust's ` (os error N)`.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// Looks at a connection, or breaks it, from another thread.
#[derive(Debug)]
pub struct Handle(Kind);

#[derive(Debug)]
enum Kind {
    Socket(Socket),
    Slots { breaker: Arc<Breaker>, rtt: Span },
}

impl Handle {
    /// The handle of a socket.
    ///
    /// # Errors
    /// When the system has no file descriptor left.
    pub fn of(stream: impl AsFd) -> io::Result<Handle> {
        Ok(Handle(Kind::Socket(stream.as_fd().try_clone_to_owned()?.into())))
    }

    /// The handle of a channel that waits for `breaker` beside its device, on a path of this
    /// round-trip time.
    pub(crate) fn of_slots(breaker: &Arc<Breaker>, rtt: Span) -> Handle {
        Handle(Kind::Slots { breaker: Arc::clone(breaker), rtt })
    }

    /// The path's least round-trip time; `None` where nobody knows it.
    pub(crate) fn rtt(&self) -> Option<Span> {
        match &self.0 {
            Kind::Socket(_) => Some(self.tcp_info()?.min_rtt),
            Kind::Slots { rtt, .. } => Some(*rtt),
        }
    }

    /// How much more memory its device may be given; `None` is without limit.
    pub(crate) fn room(&self) -> Option<Bytes> {
        match &self.0 {
            Kind::Socket(_) => None,
            Kind::Slots { .. } => rdma::lockable().room(),
        }
    }

    fn socket(&self) -> io::Result<&Socket> {
        match &self.0 {
            Kind::Socket(socket) => Ok(socket),
            Kind::Slots { .. } => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// What the kernel knows of the connection, where it is a TCP one.
    pub fn tcp_info(&self) -> Option<TcpInfo> {
        tcp_info(self.socket().ok()?).ok()
    }

    /// Sets the congestion control of the connection.
    ///
    /// # Errors
    /// When this host does not have it, or the connection is no TCP one.
    pub fn set_congestion(&self, name: &str) -> io::Result<()> {
        self.socket()?.set_tcp_congestion(name.as_bytes())
    }

    /// Fixes the send and receive buffer of the connection, as far as the system grants it.
    ///
    /// # Errors
    /// When the socket is gone, or the connection has none.
    pub fn set_buffer(&self, len: Bytes) -> io::Result<()> {
        let len = usize::try_from(len.0).unwrap_or(usize::MAX);
        self.socket()?.set_send_buffer_size(len)?;
        self.socket()?.set_recv_buffer_size(len)
    }

    /// The connection itself, for use past the channel; only for a channel over plain TCP.
    ///
    /// # Errors
    /// When the channel is over something else than a socket.
    pub fn into_stream(self) -> io::Result<std::net::TcpStream> {
        match self.0 {
            Kind::Socket(socket) => Ok(socket.into()),
            Kind::Slots { .. } => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Limits how long a read may take.
    ///
    /// # Errors
    /// When the socket is gone, or the connection has none.
    pub fn set_read_timeout(&self, timeout: Option<std::time::Duration>) -> io::Result<()> {
        self.socket()?.set_read_timeout(timeout)
    }

    /// Has the kernel spread what is sent so that it goes no faster than `rate`; answers whether it
    /// can.
    pub fn pace(&self, rate: Rate) -> bool {
        // Any socket takes the rate; only TCP heeds it.
        self.tcp_info().is_some()
            && self.socket().is_ok_and(|socket| pace(socket, Some(rate)).is_ok())
    }

    /// Has a channel of more than one slot return from its wait, to be given what has come up
    /// meanwhile.
    pub fn wake(&self) {
        if let Kind::Slots { breaker, .. } = &self.0 {
            breaker.wake();
        }
    }

    /// Shuts both directions down: whoever waits in the connection gets an error.
    pub fn break_now(&self) {
        match &self.0 {
            // Already closed is as good as broken.
            Kind::Socket(socket) => drop(socket.shutdown(std::net::Shutdown::Both)),
            Kind::Slots { breaker, .. } => breaker.break_now(),
        }
    }
}

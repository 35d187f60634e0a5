//! Looking at a connection, or breaking it, from another thread, whatever carries it.

use super::socket::{buffer_len, hold};
use crate::sys::retransmission::{retry_as_usual, retry_often};
use crate::sys::tcp::{TcpInfo, congestion_of, hold_back, pace, tcp_info};
use farline_core::congestion::{ControlName, SavedPath, Yielded};
use farline_core::units::{Bytes, Rate, Span};
use socket2::Socket;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// Looks at a connection, or breaks it, from another thread.
#[derive(Debug)]
pub struct Handle(Box<dyn ConnectionControl>);

/// How far a connection is, and over what path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowState {
    /// Which connection: several channels may be of one.
    pub connection: usize,
    /// Bytes that have arrived at the peer.
    pub arrived: u64,
    /// The least round trip; `None` before there was one.
    pub rtt: Option<Span>,
    /// The smoothed round trip of now; `None` before there was one.
    pub smoothed_rtt: Option<Span>,
    /// Packets sent, and of those sent again.
    pub packets: (u64, u64),
}

/// What one look at a connection shows.
#[derive(Clone, Debug, Default)]
pub struct ConnectionSample {
    /// What the kernel knows of it, where it is a TCP one.
    pub tcp: Option<TcpInfo>,
    /// How far it is; `None` where it does not know.
    pub flow: Option<FlowState>,
    /// The path's least round-trip time; `None` where nobody knows it.
    pub rtt: Option<Span>,
}

/// What is left of a held rate.
#[derive(Clone, Debug, PartialEq)]
pub struct YieldedPart {
    /// The part of it that is sent.
    pub part: f64,
    /// What showed that the path is not its own.
    pub why: String,
}

impl From<Yielded> for YieldedPart {
    fn from(Yielded { rate, booked, why }: Yielded) -> YieldedPart {
        let part = rate.as_bps() as f64 / booked.as_bps().max(1) as f64;
        YieldedPart { part, why: why.to_string() }
    }
}

/// What a driver lets another thread do with one of its connections. What it does not override it
/// has not: a driver whose protocol has a congestion control of its own sets and paces it here.
pub trait ConnectionControl: Send + Sync + fmt::Debug {
    /// The path's least round-trip time; `None` where nobody knows it.
    fn rtt(&self) -> Option<Span>;

    /// Ends the connection in both directions: whoever waits in it gets an error.
    fn break_now(&self);

    /// Has a channel of more than one slot return from its wait.
    fn wake(&self) {}

    /// How much more memory its device may be given; `None` is without limit.
    fn room(&self) -> Option<Bytes> {
        None
    }

    /// The socket, where the connection is one.
    fn socket(&self) -> Option<&Socket> {
        None
    }

    /// What the kernel knows of the connection, where it is a TCP one.
    fn tcp_info(&self) -> Option<TcpInfo> {
        None
    }

    /// The congestion control in force, where it has one.
    fn congestion(&self) -> Option<ControlName> {
        None
    }

    /// How far it is; `None` where it does not know.
    fn flow(&self) -> Option<FlowState> {
        None
    }

    /// All of these at once.
    fn sample(&self) -> ConnectionSample {
        ConnectionSample { tcp: self.tcp_info(), flow: self.flow(), rtt: self.rtt() }
    }

    /// Has what is sent from now on begin, with care, from what an earlier connection saw of the
    /// path (RFC 9959). Says whether it does.
    fn resume(&self, _saved: SavedPath) -> bool {
        false
    }

    /// Sets the congestion control.
    ///
    /// # Errors
    /// When there is none of that name, or none can be set.
    fn set_congestion(&self, _name: ControlName) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Fixes the send and receive buffer, as far as the system grants it.
    ///
    /// # Errors
    /// When the connection is gone, or has none.
    fn set_buffer(&self, _len: Bytes) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Has it take no more than about `len` bytes that it cannot send yet, as far as it can.
    fn queue_at_most(&self, _len: Bytes) {}

    /// Limits how long a read may take.
    ///
    /// # Errors
    /// When the connection is gone, or cannot limit it.
    fn set_read_timeout(&self, _timeout: Option<Duration>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Has it hold a booked rate, bits on an Ethernet's wire, under `control`, which is Farline's
    /// own for that.
    ///
    /// # Errors
    /// When it is no TCP connection, or cannot have the control.
    fn hold(&self, _rate: Rate, _control: ControlName) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The part of a held rate that is left, and why, once some of it was given up.
    fn yielded(&self) -> Option<YieldedPart> {
        None
    }

    /// Spreads what is sent so that it goes no faster than `rate`; says whether it can.
    fn pace(&self, _rate: Rate) -> bool {
        false
    }

    /// Has it try to get through at least each second, or each four round trips of `rtt`; without
    /// one as the system does. What is no TCP connection has timers of its own.
    fn retry_often(&self, _rtt: Option<Span>) {}
}

impl Handle {
    /// Of whatever connection.
    pub fn new(control: impl ConnectionControl + 'static) -> Handle {
        Handle(Box::new(control))
    }

    /// The handle of a socket.
    ///
    /// # Errors
    /// When the system has no file descriptor left.
    pub fn of(stream: impl AsFd) -> io::Result<Handle> {
        Ok(Handle::new(OfSocket(stream.as_fd().try_clone_to_owned()?.into())))
    }

    /// The path's least round-trip time; `None` where nobody knows it.
    pub(crate) fn rtt(&self) -> Option<Span> {
        self.0.rtt()
    }

    /// How much more memory its device may be given; `None` is without limit.
    pub(crate) fn room(&self) -> Option<Bytes> {
        self.0.room()
    }

    /// What the kernel knows of the connection, where it is a TCP one.
    pub fn tcp_info(&self) -> Option<TcpInfo> {
        self.0.tcp_info()
    }

    /// The connection's congestion control, where it has one.
    pub(crate) fn congestion(&self) -> Option<ControlName> {
        self.0.congestion()
    }

    /// Whether its congestion control goes by a model of the path, and so fills it without a queue
    /// or losses that would tell.
    pub(crate) fn is_model_based(&self) -> bool {
        self.congestion().is_some_and(|name| name.is_bbr())
    }

    /// All that one look shows; of a TCP connection the kernel is asked once.
    pub(crate) fn sample(&self) -> ConnectionSample {
        self.0.sample()
    }

    /// Has what is sent from now on begin from what an earlier connection saw of the path; says
    /// whether it does.
    pub(crate) fn resume(&self, saved: SavedPath) -> bool {
        self.0.resume(saved)
    }

    /// Sets the congestion control of the connection.
    ///
    /// # Errors
    /// When this host does not have it, or the connection takes none.
    pub fn set_congestion(&self, name: ControlName) -> io::Result<()> {
        self.0.set_congestion(name)
    }

    /// Fixes the send and receive buffer of the connection, as far as the system grants it.
    ///
    /// # Errors
    /// When the connection is gone, or has none.
    pub fn set_buffer(&self, len: Bytes) -> io::Result<()> {
        self.0.set_buffer(len)
    }

    /// The connection itself, for use past the channel; only for a channel over plain TCP.
    ///
    /// # Errors
    /// When the channel is over something else than a socket.
    pub fn into_stream(self) -> io::Result<std::net::TcpStream> {
        let socket = self.0.socket().ok_or(io::ErrorKind::Unsupported)?;
        Ok(socket.try_clone()?.into())
    }

    /// Has the connection take no more than about `len` bytes that it cannot send yet, as far as it
    /// can.
    pub(crate) fn queue_at_most(&self, len: Bytes) {
        self.0.queue_at_most(len);
    }

    /// Limits how long a read may take.
    ///
    /// # Errors
    /// When the connection is gone, or cannot limit it.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.set_read_timeout(timeout)
    }

    /// Has the connection hold a booked rate under `control`.
    ///
    /// # Errors
    /// When it is no TCP connection, or cannot have the control.
    pub(crate) fn hold(&self, rate: Rate, control: ControlName) -> io::Result<()> {
        self.0.hold(rate, control)
    }

    /// What is left of a held rate, once some of it was given up.
    pub(crate) fn yielded(&self) -> Option<YieldedPart> {
        self.0.yielded()
    }

    /// Has what is sent spread so that it goes no faster than `rate`; returns whether that can be.
    pub fn pace(&self, rate: Rate) -> bool {
        self.0.pace(rate)
    }

    /// Has the connection try to get through at least each second, or each four round trips of
    /// `rtt`; without one as the system does.
    pub(crate) fn retry_often(&self, rtt: Option<Span>) {
        self.0.retry_often(rtt);
    }

    /// Has a channel of more than one slot return from its wait, to be given what has come up
    /// meanwhile.
    pub fn wake(&self) {
        self.0.wake();
    }

    /// Shuts both directions down: whoever waits in the connection gets an error.
    pub fn break_now(&self) {
        self.0.break_now();
    }
}

/// A connection that is a socket: TCP, or a pair to a program that carries it.
#[derive(Debug)]
struct OfSocket(Socket);

impl OfSocket {
    fn flow_of(&self, info: &TcpInfo) -> FlowState {
        let sent = info.delivered / u64::from(info.segment.max(1)) + info.retransmits;
        FlowState {
            connection: usize::try_from(self.0.as_raw_fd()).unwrap_or_default(),
            arrived: info.delivered,
            rtt: Some(info.min_rtt),
            smoothed_rtt: Some(info.rtt),
            packets: (sent, info.retransmits),
        }
    }
}

impl ConnectionControl for OfSocket {
    fn rtt(&self) -> Option<Span> {
        Some(self.tcp_info()?.min_rtt)
    }

    fn break_now(&self) {
        // A peer with no room left in front of it hears of the end by a reset alone, and a kernel
        // sends none when all that came was read: its probes are answered for a minute more.
        drop(self.0.set_linger(Some(Duration::ZERO)));
        // Already closed is as good as broken.
        drop(self.0.shutdown(std::net::Shutdown::Both));
    }

    fn socket(&self) -> Option<&Socket> {
        Some(&self.0)
    }

    fn tcp_info(&self) -> Option<TcpInfo> {
        tcp_info(&self.0).ok()
    }

    fn congestion(&self) -> Option<ControlName> {
        congestion_of(&self.0)
    }

    fn flow(&self) -> Option<FlowState> {
        self.tcp_info().map(|info| self.flow_of(&info))
    }

    fn sample(&self) -> ConnectionSample {
        let Some(info) = self.tcp_info() else { return ConnectionSample::default() };
        let (flow, rtt) = (Some(self.flow_of(&info)), Some(info.min_rtt));
        ConnectionSample { tcp: Some(info), flow, rtt }
    }

    fn set_congestion(&self, name: ControlName) -> io::Result<()> {
        self.0.set_tcp_congestion(name.as_str().as_bytes())
    }

    fn set_buffer(&self, len: Bytes) -> io::Result<()> {
        let len = buffer_len(len);
        self.0.set_send_buffer_size(len)?;
        self.0.set_recv_buffer_size(len)
    }

    fn queue_at_most(&self, len: Bytes) {
        // Only a wish: without it blocks queue in the kernel.
        let _ = hold_back(&self.0, usize::try_from(len.0).unwrap_or(usize::MAX));
    }

    fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.set_read_timeout(timeout)
    }

    fn hold(&self, rate: Rate, control: ControlName) -> io::Result<()> {
        hold(&self.0, rate, control)
    }

    fn yielded(&self) -> Option<YieldedPart> {
        self.congestion().filter(ControlName::holds_rates)?;
        let info = self.tcp_info()?;
        let (now, booked) = info.pacing;
        // The kernel paces to less than a control gives it by rounding alone.
        let part = now as f64 / booked.max(1) as f64;
        (part < 0.99).then(|| YieldedPart {
            part,
            why: format!(
                "{} segments were sent again and the round trip is {} at a least of {}",
                info.retransmits, info.rtt, info.min_rtt
            ),
        })
    }

    fn pace(&self, rate: Rate) -> bool {
        // Any socket takes the rate; only TCP heeds it.
        self.tcp_info().is_some() && pace(&self.0, Some(rate)).is_ok()
    }

    fn retry_often(&self, rtt: Option<Span>) {
        // Only a wish: a kernel before 6.15 doubles the time between two tries up to two minutes.
        let _ = match rtt {
            Some(rtt) => retry_often(&self.0, rtt),
            None => retry_as_usual(&self.0),
        };
    }
}

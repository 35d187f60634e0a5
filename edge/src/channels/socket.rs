//! TCP sockets for data: their options, connecting, listening, and what may go wrong with either.

use super::ordered::{ByteStream, OrderedChannel};
use super::{Handle, plain, told};
pub(crate) use crate::sys::tcp::narrow_window;
use crate::sys::tcp::{
    TcpInfo, begin_with_window, congestion_of, fix_buffers, hold_back, open_window, pace, tcp_info,
    wake_at,
};
use farline_core::congestion::ControlName;
use farline_core::copy::HeldRate;
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Rate, Setting};
use farline_core::wan::frames::wire_bytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Socket options of a TCP channel, set before it connects or listens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TcpOptions {
    /// Congestion control by Linux's name; the system's default when absent.
    pub congestion: Option<ControlName>,
    /// Fixed send and receive buffer; the kernel sizes them by itself when absent, which is better
    /// where `tcp_rmem` allows it.
    pub buffer: Option<Bytes>,
    /// A booked rate that a channel holds: bits on an Ethernet's wire. `congestion` then is the
    /// control that holds it, where this end sends; `buffer` is given past the system's limits, or
    /// not at all.
    pub held: Option<Rate>,
}

/// Bytes that the kernel may hold of a channel beyond its window: a few blocks, so that a block
/// goes to the channel that can send it, and no channel is left with a long queue of its own at the
/// end.
const UNSENT: usize = 4 << 20;
/// Between two looks whether a connection is wanted yet.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The window that a connection begins with, where the kernel sizes its buffer: Linux offers 64 KiB
/// at first, whatever `tcp_rmem` allows, and grows behind what comes, so that over a long path the
/// sender waits for it in each of its first round trips.
const FIRST_WINDOW: usize = 4 << 20;

/// Listens on `address`; port 0 means any free port, of `ports` when given.
///
/// # Errors
/// When no port can be had.
pub fn bind(
    address: SocketAddr,
    ports: Option<(u16, u16)>,
    options: &TcpOptions,
) -> Result<TcpListener, Error> {
    at_free_port(address, ports, |address| listen(address, options))
        .map_err(|error| no_port(address, &error))
}

/// What `open` makes of `address`; where its port is 0 and there are `ports`, at the first of them
/// that is free.
///
/// # Errors
/// What `open` says; that all of them are taken.
pub(super) fn at_free_port<T>(
    address: SocketAddr,
    ports: Option<(u16, u16)>,
    open: impl Fn(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let Some((low, high)) = ports.filter(|_| address.port() == 0) else { return open(address) };
    let free = |port| match open(SocketAddr::new(address.ip(), port)) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => None,
        result => Some(result),
    };
    (low..=high).find_map(free).unwrap_or_else(|| {
        let message = format!("all ports for data, {low} to {high}, are taken by others");
        let taken = Error::new(Fault::Refused, ErrorCode::Busy, message)
            .hint(format!("more of them: {} LOW-HIGH, there", Setting::DataPorts));
        Err(io::Error::other(taken))
    })
}

/// That this kernel gives no such buffers, where that is what `error` says.
pub(super) fn wrong_buffers(error: &io::Error) -> Option<Error> {
    told(error).filter(|told| told.code == ErrorCode::WindowBuffer).cloned()
}

/// No port for data connections can be had at `address`.
pub(crate) fn no_port(address: SocketAddr, error: &io::Error) -> Error {
    let is_plain = |told: &&Error| matches!(told.code, ErrorCode::WindowBuffer | ErrorCode::Busy);
    if let Some(told) = told(error).filter(is_plain) {
        return told.clone();
    }
    let message = format!("cannot listen for data connections on {}: {error}", address.ip());
    Error::new(Fault::Here, ErrorCode::NoDataPort, message)
        .hint(format!("check the address and the range of {}", Setting::DataPorts))
}

/// No connection to `address` came about.
pub(super) fn unreachable(address: SocketAddr, error: &io::Error) -> Error {
    Error::new(
        Fault::Between,
        ErrorCode::DataConnection,
        format!("cannot connect to {address} for data: {}", plain(error)),
    )
    .hint("a firewall may hold the node's data ports back")
}

/// One TCP data connection.
pub type TcpChannel = OrderedChannel<TcpStream>;

/// Connects to `address`, from `from` when given.
///
/// # Errors
/// As `connect(2)`, and when `options` name a congestion control that this host does not have.
pub fn connect(
    address: SocketAddr,
    from: Option<SocketAddr>,
    options: &TcpOptions,
    timeout: Duration,
) -> io::Result<TcpChannel> {
    TcpChannel::new(connect_stream(address, from, options, timeout)?)
}

/// The connection of [`connect`] by itself.
///
/// # Errors
/// As [`connect`].
pub fn connect_stream(
    address: SocketAddr,
    from: Option<SocketAddr>,
    options: &TcpOptions,
    timeout: Duration,
) -> io::Result<TcpStream> {
    connect_until(address, from, options, timeout, &|| false)
}

/// The same, given up as soon as `is_over`, which is asked some times a second.
///
/// # Errors
/// As [`connect`].
pub(crate) fn connect_until(
    address: SocketAddr,
    from: Option<SocketAddr>,
    options: &TcpOptions,
    timeout: Duration,
    is_over: &dyn Fn() -> bool,
) -> io::Result<TcpStream> {
    let socket = socket(address, options)?;
    if let Some(from) = from {
        socket.bind(&SocketAddr::new(from.ip(), 0).into())?;
    }
    socket.set_nonblocking(true)?;
    match socket.connect(&address.into()) {
        Err(error) if error.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()) => {
            await_connection(&socket, timeout, is_over)?;
        }
        connected => connected?,
    }
    socket.set_nonblocking(false)?;
    Ok(socket.into())
}

/// Waits until a connection that was begun is made, or is not to be.
fn await_connection(
    socket: &Socket,
    timeout: Duration,
    is_over: &dyn Fn() -> bool,
) -> io::Result<()> {
    let until = Instant::now() + timeout;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || is_over() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "connection timed out"));
        }
        let wait = Timespec::try_from(left.min(LOOK_EVERY)).ok();
        let mut waited = [PollFd::new(socket, PollFlags::OUT)];
        match poll(&mut waited, wait.as_ref()) {
            Ok(1..) => return socket.take_error()?.map_or(Ok(()), Err),
            Ok(0) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Listens on `address` (port 0: any free one) for channels.
///
/// # Errors
/// As `bind(2)` and `listen(2)`, and when `options` name a congestion control that this host does
/// not have.
pub fn listen(address: SocketAddr, options: &TcpOptions) -> io::Result<TcpListener> {
    let socket = socket(address, options)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(256)?;
    Ok(socket.into())
}

/// Whether this host can open channels with `options`, found out on a socket that goes nowhere.
///
/// # Errors
/// What the system says to an option that it does not take.
pub fn check(options: &TcpOptions) -> io::Result<()> {
    socket(SocketAddr::from(([127, 0, 0, 1], 0)), options).map(drop)
}

/// Whether this process may use a congestion control: the kernel has some for the privileged only.
///
/// # Errors
/// What the system says where it may not, or where there is none of that name.
pub fn may_choose(name: ControlName) -> io::Result<()> {
    check(&TcpOptions { congestion: Some(name), ..TcpOptions::default() })
}

/// How much of a fixed buffer of `wanted` bytes the system grants in both directions; `None` when
/// it does not say.
pub fn granted_buffer(wanted: Bytes) -> Option<Bytes> {
    let options = TcpOptions { buffer: Some(wanted), ..TcpOptions::default() };
    let socket = socket(SocketAddr::from(([127, 0, 0, 1], 0)), &options).ok()?;
    // socket(7): the kernel doubles what is set, for its own books, and tells the double.
    let told = socket.send_buffer_size().ok()?.min(socket.recv_buffer_size().ok()?);
    Some(Bytes(told as u64 / 2))
}

/// The largest length of a socket's buffer, up to `len`, that the kernel's number for it holds.
pub(crate) fn buffer_len(len: Bytes) -> usize {
    let most = i32::MAX.unsigned_abs();
    u32::try_from(len.0).unwrap_or(most).min(most) as usize
}

fn socket(address: SocketAddr, options: &TcpOptions) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // What holds a rate is given to a connection that knows how long its packets are.
    if let Some(name) = options.congestion.filter(|_| options.held.is_none()) {
        socket.set_tcp_congestion(name.as_str().as_bytes())?;
    }
    if let Some(len) = options.buffer.filter(|_| options.held.is_some()) {
        fix_buffers(&socket, len, HeldRate::on_path(len)).map_err(io::Error::other)?;
    } else if let Some(len) = options.buffer.map(buffer_len) {
        socket.set_send_buffer_size(len)?;
        socket.set_recv_buffer_size(len)?;
    } else {
        begin_as_data(&socket);
    }
    Ok(socket)
}

/// The longest datagram that leaves here for `address` whole, as far as this host knows.
pub(crate) fn longest_datagram(address: SocketAddr) -> io::Result<u32> {
    let any: SocketAddr = match address.ip() {
        IpAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        IpAddr::V6(_) => ([0_u16; 8], 0).into(),
    };
    let probe = UdpSocket::bind(any)?;
    probe.connect(address)?;
    Ok(match address.ip() {
        IpAddr::V4(_) => sockopt::ip_mtu(&probe)?.saturating_sub(28),
        IpAddr::V6(_) => sockopt::ipv6_mtu(&probe)?.saturating_sub(48),
    })
}

/// TCP's header with its time stamps, and those of IPv4 and IPv6 (RFC 9293, 7323, 791, 8200).
const TCP_HEADER: u64 = 32;
const IP_HEADERS: (u64, u64) = (20, 40);

/// Has a connection hold `rate` on the wire under `control`, which is Farline's own for that.
///
/// # Errors
/// When there is no such control, or this process may not choose it.
pub(crate) fn hold(socket: &Socket, rate: Rate, control: ControlName) -> io::Result<()> {
    let segment = u64::from(tcp_info(socket)?.segment);
    let is_v4 = socket.local_addr()?.as_socket_ipv4().is_some();
    let ip_header = if is_v4 { IP_HEADERS.0 } else { IP_HEADERS.1 };
    // The kernel paces payload.
    let part = segment as f64 / wire_bytes(segment + TCP_HEADER + ip_header) as f64;
    pace(socket, Some(Rate::from_bps((rate.as_bps() as f64 * part) as u64)))?;
    // Last: a control begins with the rate that it finds.
    socket.set_tcp_congestion(control.as_str().as_bytes())
}

impl ByteStream for TcpStream {
    fn tcp_info(&self) -> Option<TcpInfo> {
        tcp_info(self).ok()
    }

    fn handle(&self) -> io::Result<Handle> {
        Handle::of(self)
    }

    fn congestion(&self) -> Option<ControlName> {
        congestion_of(&SockRef::from(self))
    }

    fn expect(&mut self, len: usize) {
        // Half: a read may take less than it waits for and wait again, and the kernel counts anew
        // then. What is left must be enough. Only a wish: without it the reader wakes more often.
        let _ = wake_at(self, (len / 2).max(1));
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

impl TcpChannel {
    /// A channel over a connected stream.
    ///
    /// # Errors
    /// When the socket cannot be configured.
    pub fn new(stream: TcpStream) -> io::Result<TcpChannel> {
        prepare(&stream)?;
        Ok(OrderedChannel::over(stream))
    }

    /// The connection underneath, for use without MODE E.
    pub fn into_stream(self) -> TcpStream {
        self.into_inner()
    }
}

/// Has a connection that stands go by `options`.
///
/// # Errors
/// When there is no such congestion control, or `options` have buffers of a fixed size without a
/// held rate, which a connection begins with.
pub(crate) fn adjust(stream: &TcpStream, options: &TcpOptions) -> io::Result<()> {
    match (options.congestion, options.held) {
        // It began with the buffers of its rate.
        (Some(control), Some(rate)) => hold(&SockRef::from(stream), rate, control),
        (None, Some(_)) => Ok(()),
        (_, None) if options.buffer.is_some() => Err(io::ErrorKind::Unsupported.into()),
        (Some(name), None) => SockRef::from(stream).set_tcp_congestion(name.as_str().as_bytes()),
        (None, None) => Ok(()),
    }
}

/// Whether both directions of a connection are open, as far as this end knows.
pub(crate) fn is_open(stream: &TcpStream) -> bool {
    tcp_info(stream).is_ok_and(|info| info.established)
}

/// Has a connection that is yet to come about, or those that a listener will accept, begin with the
/// window of a data connection.
pub(crate) fn begin_as_data(socket: &impl AsFd) {
    // Only a wish: without it the window grows as everywhere.
    let _ = begin_with_window(socket, FIRST_WINDOW);
}

/// Has those that `listener` will accept begin with a window of `len` bytes, which a connection of
/// a held rate needs from the first; says whether this host can. Until it is known what each is, it
/// has [`narrow_window`], and is then [`widen`]ed.
pub(crate) fn begin_wide(listener: &impl AsFd, len: Bytes) -> bool {
    open_window(listener, len).is_ok()
}

/// Gives a connection that a listener accepted the buffers of a rate that it holds, or those that
/// every data connection begins with.
///
/// # Errors
/// When the kernel allows this process no buffers of that size.
pub(crate) fn widen(stream: &impl AsFd, held: Option<Bytes>) -> io::Result<()> {
    match held {
        Some(len) => fix_buffers(stream, len, HeldRate::on_path(len)).map_err(io::Error::other),
        None => {
            // Only a wish, as when it began.
            let _ = open_window(stream, Bytes(FIRST_WINDOW as u64));
            Ok(())
        }
    }
}

/// Sets what every data connection needs.
///
/// # Errors
/// When the socket cannot be configured.
pub fn prepare(stream: &TcpStream) -> io::Result<()> {
    // MODE E ends a file with a short header: it must not wait for more bytes.
    stream.set_nodelay(true)?;
    stream.set_nonblocking(false)?;
    // Only a wish: without it blocks queue in the kernel.
    let _ = hold_back(stream, UNSENT);
    crate::sys::tcp::notice_dead_idle_peer(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_nobody_wants_any_more_is_given_up() {
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        let full = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        full.bind(&local.into()).expect("bound");
        full.listen(0).expect("listens");
        let address = full.local_addr().ok().and_then(|address| address.as_socket());
        let address = address.expect("an address");
        // Where the queue of a listener is full Linux answers nothing.
        let _crowd: Vec<Socket> = (0..8)
            .map(|_| {
                let one = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
                one.set_nonblocking(true).expect("does not wait");
                let _ = one.connect(&address.into());
                one
            })
            .collect();
        let began = Instant::now();
        let is_over = || began.elapsed() > Duration::from_millis(300);
        let options = TcpOptions::default();
        connect_until(address, None, &options, Duration::from_secs(60), &is_over)
            .expect_err("nobody answers");
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
        // And one that is answered is made.
        let listener = TcpListener::bind(local).expect("listens");
        let address = listener.local_addr().expect("an address");
        connect_until(address, None, &options, Duration::from_secs(60), &|| false)
            .expect("connected");
    }
}

//! What the kernel knows of a TCP connection: `TCP_INFO` and the congestion control in force.

use farline_core::congestion::ControlName;
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Rate, Span};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// `SO_BUF_LOCK` (include/uapi/asm-generic/socket.h): which buffers the kernel leaves as they were
/// set.
const SO_BUF_LOCK: libc::c_int = 72;
/// The receive buffer of a control connection, which carries lines and at most a listing.
const NARROW: usize = 256 << 10;

/// The head of Linux's `struct tcp_info` (include/uapi/linux/tcp.h), as far as we read it; the
/// kernel only ever appends.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct KernelTcpInfo {
    state: u8,
    ca_state: u8,
    retransmits: u8,
    probes: u8,
    backoff: u8,
    options: u8,
    scales: u8,
    flags: u8,
    rto_us: u32,
    ato_us: u32,
    snd_mss: u32,
    rcv_mss: u32,
    unacked: u32,
    sacked: u32,
    lost: u32,
    retrans: u32,
    fackets: u32,
    last_data_sent: u32,
    last_ack_sent: u32,
    last_data_recv: u32,
    last_ack_recv: u32,
    pmtu: u32,
    rcv_ssthresh: u32,
    rtt_us: u32,
    rttvar_us: u32,
    snd_ssthresh: u32,
    snd_cwnd: u32,
    advmss: u32,
    reordering: u32,
    rcv_rtt_us: u32,
    rcv_space: u32,
    total_retrans: u32,
    pacing_rate: u64,
    max_pacing_rate: u64,
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u32,
    segs_in: u32,
    notsent_bytes: u32,
    min_rtt_us: u32,
    data_segs_in: u32,
    data_segs_out: u32,
    delivery_rate: u64,
    busy_time_us: u64,
    rwnd_limited_us: u64,
    sndbuf_limited_us: u64,
    delivered: u32,
    delivered_ce: u32,
    bytes_sent: u64,
    bytes_retrans: u64,
    dsack_dups: u32,
    reord_seen: u32,
    rcv_ooopack: u32,
    snd_wnd: u32,
    rcv_wnd: u32,
    rehash: u32,
    total_rto: u16,
}

/// What the kernel says of one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Whether both directions are open.
    pub established: bool,
    /// Smoothed round-trip time.
    pub rtt: Span,
    /// The least round-trip time seen.
    pub min_rtt: Span,
    /// How long ago the last acknowledgement came.
    pub silence: Span,
    /// Segments sent again over the connection's life.
    pub retransmits: u64,
    /// Retransmission timers that ran out; kernels before 6.7 do not tell.
    pub timeouts: Option<u64>,
    /// How often its retransmission timer has run out since the last acknowledgement.
    pub timeouts_in_a_row: u32,
    /// Whether nothing is known to be lost that was not repaired.
    pub is_whole: bool,
    /// Whether it repairs what was lost from its first segment on, after a timer that ran out.
    pub is_repairing: bool,
    /// Bytes the peer has acknowledged.
    pub bytes_acked: u64,
    /// Bytes that have reached the peer, in order or not: whole segments, so that a short one
    /// counts for more than it has. Kernels before 4.18 tell of those in order only.
    pub delivered: u64,
    /// What it is paced to now, and at most, in bytes a second; the largest number without a limit.
    pub pacing: (u64, u64),
    /// Bytes that it was given to send and has not sent.
    pub not_sent: u64,
    /// Bytes on their way: sent and not acknowledged.
    pub in_flight: u64,
    /// What the peer had room for at its last word, from its last acknowledgement on; kernels
    /// before 5.4 do not tell.
    pub peer_window: Option<u64>,
    /// Congestion window in segments.
    pub congestion_window: u32,
    /// What it is in slow start below, in segments.
    pub slow_start_threshold: u32,
    /// Largest segment this end sends, in bytes.
    pub segment: u32,
    /// Time with data in flight or to send.
    pub busy: Span,
    /// Part of `busy` in which the receiver's window held the sender back.
    pub rwnd_limited: Span,
    /// Part of `busy` in which the send buffer held the sender back.
    pub sndbuf_limited: Span,
}

impl TcpInfo {
    /// Bytes that the congestion window lets be on their way.
    pub(crate) fn window(&self) -> u64 {
        u64::from(self.congestion_window) * u64::from(self.segment)
    }

    /// Whether the congestion window doubles in a round trip.
    pub(crate) fn is_slow_start(&self) -> bool {
        self.congestion_window < self.slow_start_threshold
    }
}

/// What the kernel says, and how many bytes of it: an older one leaves the rest zero.
fn kernel_info(socket: &impl AsFd) -> io::Result<(KernelTcpInfo, usize)> {
    let mut info = KernelTcpInfo::default();
    let mut len = size_of::<KernelTcpInfo>() as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: `info` is plain old data of `len` bytes, of which the kernel writes no more.
    let result = unsafe {
        libc::getsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut len,
        )
    };
    match result {
        0 => Ok((info, len as usize)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Asks the kernel about `socket`.
///
/// # Errors
/// When it is not a TCP socket.
pub(crate) fn tcp_info(socket: &impl AsFd) -> io::Result<TcpInfo> {
    let (info, len) = kernel_info(socket)?;
    let micros = |us: u64| Span::from_micros(us);
    let has = |field: usize, size: usize| len >= field + size;
    Ok(TcpInfo {
        // TCP_ESTABLISHED of include/net/tcp_states.h.
        established: info.state == 1,
        rtt: micros(info.rtt_us.into()),
        min_rtt: micros(info.min_rtt_us.into()),
        silence: Span::from_millis(info.last_ack_recv.into()),
        retransmits: info.total_retrans.into(),
        timeouts: has(std::mem::offset_of!(KernelTcpInfo, total_rto), size_of::<u16>())
            .then(|| info.total_rto.into()),
        timeouts_in_a_row: info.retransmits.into(),
        // TCP_CA_Open and TCP_CA_Loss of include/uapi/linux/tcp.h.
        is_whole: info.ca_state == 0,
        is_repairing: info.ca_state == 4,
        bytes_acked: info.bytes_acked,
        delivered: match u64::from(info.delivered) * u64::from(info.snd_mss) {
            0 => info.bytes_acked,
            delivered => delivered,
        },
        pacing: (info.pacing_rate, info.max_pacing_rate),
        not_sent: info.notsent_bytes.into(),
        in_flight: u64::from(info.unacked) * u64::from(info.snd_mss),
        peer_window: has(std::mem::offset_of!(KernelTcpInfo, snd_wnd), size_of::<u32>())
            .then(|| info.snd_wnd.into()),
        congestion_window: info.snd_cwnd,
        slow_start_threshold: info.snd_ssthresh,
        segment: info.snd_mss,
        busy: micros(info.busy_time_us),
        rwnd_limited: micros(info.rwnd_limited_us),
        sndbuf_limited: micros(info.sndbuf_limited_us),
    })
}

/// Has a TCP socket offer its peer a window of `window` and no more; on a listening socket, its
/// future connections.
///
/// A kernel since 6.8 moves the limit when it learns what a packet costs it: say it again now and
/// then.
///
/// # Errors
/// [`Fault::Here`] when the kernel allows this process no buffer of that size.
#[cfg(feature = "profile")]
pub(crate) fn fix_window(socket: &impl AsFd, window: Bytes) -> Result<(), Error> {
    let set = |level, option, value| set_number(socket, level, option, value);
    // A buffer that was set is not sized by the kernel any more. It doubles what it is told
    // (socket(7)), and keeps at most half of that for its own records, so a window fits; the clamp
    // says how much is offered.
    let buffer = window.0;
    let forced = set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, buffer);
    let refused = |why: String| {
        Error::new(
            Fault::Here,
            ErrorCode::WindowBuffer,
            format!("a window of {window} needs a receive buffer of {}: {why}", Bytes(buffer)),
        )
        .hint(format!("run as root, or: sysctl -w net.core.rmem_max={buffer}"))
    };
    if forced.is_err() {
        set(libc::SOL_SOCKET, libc::SO_RCVBUF, buffer)
            .map_err(|error| refused(error.to_string()))?;
        let given = socket2::SockRef::from(socket)
            .recv_buffer_size()
            .map_err(|error| refused(error.to_string()))?;
        if (given as u64) < buffer.saturating_mul(2) {
            return Err(refused(format!("the kernel gives {}", Bytes(given as u64))));
        }
    }
    set(libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, window.0)
        .map_err(|error| refused(error.to_string()))
}

/// Has a TCP socket hold at most `buffer` of what it was given to send and was not acknowledged,
/// the kernel's records of it included.
///
/// # Errors
/// [`Fault::Here`] when the kernel allows this process no buffer of that size.
#[cfg(any(feature = "profile", test))]
pub(crate) fn fix_send_buffer(socket: &impl AsFd, buffer: Bytes) -> Result<(), Error> {
    let set = |option, value| set_number(socket, libc::SOL_SOCKET, option, value);
    // The kernel doubles what it is told (socket(7)), and what it then has is the limit.
    let told = buffer.0 / 2;
    let refused = |why: String| {
        Error::new(
            Fault::Here,
            ErrorCode::WindowBuffer,
            format!("a send buffer of {buffer}: {why}"),
        )
        .hint(format!("run as root, or: sysctl -w net.core.wmem_max={told}"))
    };
    if set(libc::SO_SNDBUFFORCE, told).is_err() {
        set(libc::SO_SNDBUF, told).map_err(|error| refused(error.to_string()))?;
    }
    let given = socket2::SockRef::from(socket)
        .send_buffer_size()
        .map_err(|error| refused(error.to_string()))?;
    // It may be its least, or its most.
    if given as u64 != told * 2 {
        return Err(refused(format!("the kernel gives {}", Bytes(given as u64))));
    }
    Ok(())
}

/// Gives a TCP socket buffers of `len` bytes in both directions for a path that holds `on_path`:
/// past the system's limits where this process may. Where it may not, what the kernel gives is
/// enough if it holds as much as the path, and so is what the kernel makes of a socket by itself.
/// On a listening socket, its future connections.
///
/// # Errors
/// [`Fault::Here`] when the kernel allows this process no buffers that hold as much as the path.
pub(crate) fn fix_buffers(socket: &impl AsFd, len: Bytes, on_path: Bytes) -> Result<(), Error> {
    let set = |option| set_number(socket, libc::SOL_SOCKET, option, len.0);
    if set(libc::SO_SNDBUFFORCE).is_err() || set(libc::SO_RCVBUFFORCE).is_err() {
        let most = |sysctl: &str| {
            let text = std::fs::read_to_string(format!("/proc/sys/net/{sysctl}"));
            let text = text.unwrap_or_default();
            text.split_whitespace().last().and_then(|text| text.parse().ok()).unwrap_or(0_u64)
        };
        let set_most = most("core/wmem_max").min(most("core/rmem_max"));
        // Half of what a kernel sizes is for its own records.
        let sized = most("ipv4/tcp_wmem").min(most("ipv4/tcp_rmem")) / 2;
        if set_most < len.0.min(sized) && sized >= on_path.0 {
            return Ok(());
        }
        // An error is that of a socket that is none.
        let _ = (set(libc::SO_SNDBUF), set(libc::SO_RCVBUF));
    }
    let socket = socket2::SockRef::from(socket);
    let given = socket.send_buffer_size().and_then(|sent| Ok(sent.min(socket.recv_buffer_size()?)));
    // The kernel doubles what it is told (socket(7)).
    let given = Bytes(given.map_or(0, |given| given as u64 / 2));
    if given < len.min(on_path) {
        let message = format!("the path holds {on_path}, and this kernel gives buffers of {given}");
        return Err(Error::new(Fault::Here, ErrorCode::WindowBuffer, message).hint(format!(
            "run as root, or: sysctl -w net.core.rmem_max={0} net.core.wmem_max={0}",
            on_path.0
        )));
    }
    Ok(())
}

pub(super) fn set_number(
    socket: &impl AsFd,
    level: libc::c_int,
    option: libc::c_int,
    value: u64,
) -> io::Result<()> {
    let value = libc::c_int::try_from(value).unwrap_or(libc::c_int::MAX);
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the option reads `len` bytes at the address of a number that outlives the call.
    match unsafe {
        libc::setsockopt(socket.as_fd().as_raw_fd(), level, option, (&raw const value).cast(), len)
    } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Has the kernel send no faster than `rate` on a TCP connection, spread evenly; `None` lifts the
/// limit.
///
/// # Errors
/// When it is not a socket that paces.
pub(crate) fn pace(socket: &impl AsFd, rate: Option<Rate>) -> io::Result<()> {
    // SO_MAX_PACING_RATE: bytes a second, all ones for no limit (socket(7), net/core/sock.c).
    let bytes: u64 = rate.map_or(u64::MAX, |rate| (rate.as_bps() / 8).max(1));
    let fd = socket.as_fd().as_raw_fd();
    let len = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the option reads `len` bytes at the address of a number that outlives the call.
    match unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            (&raw const bytes).cast(),
            len,
        )
    } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Has the kernel wake a reader of `socket` only when `len` bytes are there, the connection ended,
/// or its buffer is full.
///
/// # Errors
/// When it is not a socket.
pub(crate) fn wake_at(socket: &impl AsFd, len: usize) -> io::Result<()> {
    let bytes = libc::c_int::try_from(len).unwrap_or(libc::c_int::MAX);
    let fd = socket.as_fd().as_raw_fd();
    let size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the option reads `size` bytes at the address of a number that outlives the call.
    match unsafe {
        libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, (&raw const bytes).cast(), size)
    } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Has a socket that is not open yet, or the connections that it will accept, offer a window of
/// `len` bytes from the first, at most half of what `tcp_rmem` allows; the kernel grows it further,
/// which it would not do with a buffer of fixed size.
///
/// # Errors
/// When it is no TCP socket, or one that is open.
pub(crate) fn begin_with_window(socket: &impl AsFd, len: usize) -> io::Result<()> {
    // A reader that waits for so many bytes needs room for them, and the kernel makes it, which
    // stays when the reader waits for less (net/ipv4/tcp.c, tcp_set_rcvlowat). It clamps the window
    // to that as well, by which the window's scale would be chosen; 0 takes the clamp off
    // (tcp_set_window_clamp).
    wake_at(socket, len)?;
    wake_at(socket, 1)?;
    set_number(socket, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, 0)
}

/// Has a TCP socket offer a window of `len` bytes, past the system's limits where this process may,
/// which the kernel grows by itself from there on; on a listening socket, its future connections,
/// from the first.
///
/// # Errors
/// When it is no socket, or the system grants less: then it has what it had.
pub(crate) fn open_window(socket: &impl AsFd, len: Bytes) -> io::Result<()> {
    let before = socket2::SockRef::from(socket).recv_buffer_size()? / 2;
    if set_number(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, len.0).is_err() {
        set_number(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, len.0)?;
    }
    // The kernel doubles what it is told (socket(7)).
    let given = socket2::SockRef::from(socket).recv_buffer_size()? as u64 / 2;
    if given < len.0 {
        socket2::SockRef::from(socket).set_recv_buffer_size(before)?;
    }
    // A size that was set the kernel keeps, unless its lock is taken off (Linux 5.14).
    set_number(socket, libc::SOL_SOCKET, SO_BUF_LOCK, 0)?;
    if given < len.0 {
        return Err(io::Error::other(format!("a buffer of {} is granted", Bytes(given))));
    }
    Ok(())
}

/// Has a connection take in no more than a control connection needs, whatever its listener began
/// with.
///
/// # Errors
/// When it is no socket.
pub(crate) fn narrow_window(socket: &impl AsFd) -> io::Result<()> {
    socket2::SockRef::from(socket).set_recv_buffer_size(NARROW)
}

/// Has the kernel take no more than `len` bytes that it cannot send yet.
///
/// # Errors
/// When it is not a TCP socket.
pub(crate) fn hold_back(socket: &impl AsFd, len: usize) -> io::Result<()> {
    let bytes = libc::c_int::try_from(len).unwrap_or(libc::c_int::MAX);
    let fd = socket.as_fd().as_raw_fd();
    let size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the option reads `size` bytes at the address of a number that outlives the call.
    match unsafe {
        libc::setsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_NOTSENT_LOWAT,
            (&raw const bytes).cast(),
            size,
        )
    } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The congestion control of a TCP socket.
pub(crate) fn congestion_of(socket: &socket2::Socket) -> Option<ControlName> {
    Some(ControlName::from_kernel(&socket.tcp_congestion().ok()?)?.meant())
}

/// Processor time of this process and the most memory that it ever had resident, in bytes.
pub(crate) fn process_usage() -> (Span, u64) {
    // SAFETY: `rusage` is plain old data for which all zeros is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: RUSAGE_SELF with a valid pointer cannot fail.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let span = |time: libc::timeval| {
        Span::from_secs(time.tv_sec as u64) + Span::from_micros(time.tv_usec as u64)
    };
    // Not `ru_maxrss`: it survives exec, and so tells the size of whoever started us.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak_kib: u64 =
        peak.and_then(|text| text.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0);
    (span(usage.ru_utime) + span(usage.ru_stime), peak_kib * 1024)
}

/// Has the kernel give a connection up half a minute after its peer fell silent: idle (keepalive)
/// or owing acknowledgements.
///
/// # Errors
/// When the socket is none of TCP.
pub(crate) fn notice_dead_peer(stream: &impl AsFd) -> io::Result<()> {
    notice_dead_idle_peer(stream)?;
    socket2::SockRef::from(stream).set_tcp_user_timeout(Some(Duration::from_secs(30)))
}

/// The same only while nothing is on its way to the peer: one that reads slowly, and lets its
/// window close for long, is not dead.
///
/// # Errors
/// When the socket is none of TCP.
pub(crate) fn notice_dead_idle_peer(stream: &impl AsFd) -> io::Result<()> {
    let keepalive = socket2::TcpKeepalive::new()
        .with_time(Duration::from_secs(10))
        .with_interval(Duration::from_secs(5))
        .with_retries(4);
    socket2::SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_send_buffer_is_as_large_as_asked_or_refused_in_words() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("connect");
        fix_send_buffer(&near, Bytes::mib(1)).map_or_else(
            // Without a privilege the system's limit holds.
            |error| assert_eq!((error.fault, error.code), (Fault::Here, ErrorCode::WindowBuffer)),
            |()| {
                assert_eq!(
                    socket2::SockRef::from(&near).send_buffer_size().expect("a socket"),
                    1 << 20
                )
            },
        );
        // Below what any kernel gives (SOCK_MIN_SNDBUF).
        let error = fix_send_buffer(&near, Bytes(512)).expect_err("too small");
        assert!(error.message.contains("the kernel gives"), "{error}");
    }

    #[test]
    fn a_window_is_wide_from_the_first_and_scaled_as_any_other() {
        let connected = |window: Option<usize>| {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)
                .expect("a socket");
            if let Some(len) = window {
                begin_with_window(&socket, len).expect("a socket that is not open");
            }
            let any: std::net::SocketAddr = "127.0.0.1:0".parse().expect("an address");
            socket.bind(&any.into()).and_then(|()| socket.listen(1)).expect("loopback");
            let listener = TcpListener::from(socket);
            let mut near =
                TcpStream::connect(listener.local_addr().expect("bound")).expect("connect");
            let (mut far, _) = listener.accept().expect("accept");
            // The window of a handshake is not scaled yet; that of the first acknowledgement is.
            near.write_all(&[1]).expect("write");
            far.read_exact(&mut [0; 1]).expect("read");
            far.write_all(&[1]).expect("write");
            near.read_exact(&mut [0; 1]).expect("read");
            let (info, _) = kernel_info(&near).expect("a connection");
            (info.snd_wnd, info.scales)
        };
        let (plain, wide) = (connected(None), connected(Some(1 << 20)));
        assert_eq!(plain.1, wide.1, "windows may grow as far");
        assert!(wide.0 >= plain.0.max(1 << 19), "{plain:?}, {wide:?}");
    }

    #[test]
    fn tells_what_a_real_connection_acknowledged() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let mut near = TcpStream::connect(listener.local_addr().expect("bound")).expect("connect");
        let (mut far, _) = listener.accept().expect("accept");
        near.write_all(&[1; 1000]).expect("write");
        far.read_exact(&mut [0; 1000]).expect("read");
        far.write_all(&[2]).expect("the answer carries the acknowledgement");
        near.read_exact(&mut [0]).expect("read");
        let info = tcp_info(&near).expect("a TCP socket");
        // bytes_acked counts the SYN's sequence number too.
        assert!((1000..=1001).contains(&info.bytes_acked), "{info:?}");
        assert!(info.rtt > Span::ZERO && info.segment > 500, "{info:?}");
        assert!(tcp_info(&std::fs::File::open("/dev/null").expect("open")).is_err());
        assert!(process_usage().1 > 100_000);
    }
}

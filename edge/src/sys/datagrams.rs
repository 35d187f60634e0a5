//! Many datagrams in one call, with what the kernel says of each: when it came, how many it had to
//! drop before. No safe crate reads `SO_RXQ_OVFL` or sends batches of trains.

use farline_core::units::Time;
use std::ffi::{c_int, c_void};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

/// Longest message of the kernel's: a datagram, or a train of them.
const MESSAGE: usize = 64 << 10;
/// Bytes for what the kernel says of a message, aligned.
const CONTROL: usize = 24;
/// Messages of one call.
const MESSAGES: usize = 32;

/// Datagrams of `segment` bytes, one behind the other; the last may be shorter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DatagramTrain<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) segment: usize,
}

/// A datagram that came, or a train of one length.
#[derive(Debug)]
pub(crate) struct DatagramArrival<'a> {
    pub(crate) from: SocketAddr,
    pub(crate) bytes: &'a [u8],
    /// Bytes of each but the last.
    pub(crate) segment: usize,
    /// When the kernel had it, since 1970.
    pub(crate) received: Option<Time>,
    /// Datagrams that this socket has dropped until then, modulo 2^32.
    pub(crate) dropped: u32,
    pub(crate) ttl: u8,
}

/// Asks the kernel for all of this, and for `buffer` bytes where it grants them; a receive waits no
/// longer than `wait`.
///
/// # Errors
/// What the kernel says to a socket that is no UDP socket.
pub(crate) fn prepare(socket: &UdpSocket, buffer: usize, wait: Duration) -> io::Result<()> {
    let fd = socket.as_raw_fd();
    socket.set_read_timeout(Some(wait))?;
    set(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
    set(fd, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1)?;
    let wanted = c_int::try_from(buffer).unwrap_or(c_int::MAX);
    // The first takes a right that an ordinary user has not.
    for (forced, granted) in
        [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
    {
        if set(fd, libc::SOL_SOCKET, forced, wanted).is_err() {
            set(fd, libc::SOL_SOCKET, granted, wanted)?;
        }
    }
    // Kernels before 5.0 have no trains; then each datagram is a message of its own.
    drop(set(fd, libc::SOL_UDP, libc::UDP_GRO, 1));
    // A queue of this host that has no room says so, in place of losing it silently.
    if socket.local_addr()?.is_ipv4() {
        set(fd, libc::IPPROTO_IP, libc::IP_RECVERR, 1)?;
        set(fd, libc::IPPROTO_IP, libc::IP_RECVTTL, 1)?;
        // A frame is sent whole or not at all.
        set(fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO)
    } else {
        // Those that reach it by IPv4 have options of their own, and may have none.
        drop(set(fd, libc::IPPROTO_IP, libc::IP_RECVTTL, 1));
        set(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1)?;
        set(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, 1)
    }
}

fn set(fd: RawFd, level: c_int, option: c_int, value: c_int) -> io::Result<()> {
    // SAFETY: the kernel reads an `int`, which `value` is.
    let result = unsafe {
        libc::setsockopt(
            fd,
            level,
            option,
            (&raw const value).cast::<c_void>(),
            size_of::<c_int>() as libc::socklen_t,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sends trains by a connected socket, as far as one call does; returns how many left.
///
/// # Errors
/// What the kernel says of the first; `ENOBUFS` when a queue of this host dropped it.
pub(crate) fn send(socket: &UdpSocket, trains: &[DatagramTrain<'_>]) -> io::Result<usize> {
    let trains = &trains[..trains.len().min(MESSAGES)];
    let mut controls = [[0_u64; CONTROL / 8]; MESSAGES];
    // SAFETY: all-zero `iovec`s and `mmsghdr`s are valid: null pointers and lengths of zero.
    let (mut vectors, mut messages): ([libc::iovec; MESSAGES], [libc::mmsghdr; MESSAGES]) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    for (i, train) in trains.iter().enumerate() {
        vectors[i].iov_base = train.bytes.as_ptr().cast_mut().cast();
        vectors[i].iov_len = train.bytes.len();
        let header = &mut messages[i].msg_hdr;
        header.msg_iov = &raw mut vectors[i];
        header.msg_iovlen = 1;
        if train.bytes.len() > train.segment {
            header.msg_control = controls[i].as_mut_ptr().cast();
            header.msg_controllen = CONTROL as _;
            // SAFETY: the control buffer has room for one header and a `u16`, and is aligned.
            unsafe {
                let control = libc::CMSG_FIRSTHDR(header);
                (*control).cmsg_level = libc::SOL_UDP;
                (*control).cmsg_type = libc::UDP_SEGMENT;
                (*control).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as u32) as _;
                std::ptr::write_unaligned(
                    libc::CMSG_DATA(control).cast::<u16>(),
                    train.segment as u16,
                );
            }
        }
    }
    // SAFETY: the kernel reads as many messages as there are, whose pointers are to live buffers.
    let sent = unsafe {
        libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), trains.len() as u32, 0)
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
}

/// Buffers for what comes in one call.
pub(crate) struct DatagramBuffers {
    storage: Vec<u8>,
    controls: Vec<[u64; 32]>,
    names: Vec<libc::sockaddr_storage>,
    lengths: Vec<(usize, usize)>,
}

impl DatagramBuffers {
    /// Room for as many messages as one call takes.
    pub(crate) fn new() -> DatagramBuffers {
        // SAFETY: an all-zero `sockaddr_storage` is valid.
        let name: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        DatagramBuffers {
            storage: vec![0; MESSAGES * MESSAGE],
            controls: vec![[0; 32]; MESSAGES],
            names: vec![name; MESSAGES],
            lengths: Vec::with_capacity(MESSAGES),
        }
    }

    /// Waits for one message and takes all that are there; returns how many.
    ///
    /// # Errors
    /// `WouldBlock` when nothing came in the socket's time.
    pub(crate) fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        self.lengths.clear();
        // SAFETY: as in `send`.
        let (mut vectors, mut messages): ([libc::iovec; MESSAGES], [libc::mmsghdr; MESSAGES]) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        let parts = self.storage.chunks_exact_mut(MESSAGE);
        let places = self.controls.iter_mut().zip(&mut self.names);
        for (i, (part, (control, name))) in parts.zip(places).enumerate() {
            vectors[i].iov_base = part.as_mut_ptr().cast();
            vectors[i].iov_len = MESSAGE;
            let header = &mut messages[i].msg_hdr;
            header.msg_iov = &raw mut vectors[i];
            header.msg_iovlen = 1;
            header.msg_name = std::ptr::from_mut(name).cast();
            header.msg_namelen = size_of::<libc::sockaddr_storage>() as u32;
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = size_of_val(control) as _;
        }
        // SAFETY: the kernel writes into buffers that live as long as the call and are as long as
        // it is told.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                messages.as_mut_ptr(),
                MESSAGES as u32,
                libc::MSG_WAITFORONE,
                std::ptr::null_mut(),
            )
        };
        if count < 0 {
            return Err(io::Error::last_os_error());
        }
        let lengths = messages[..count as usize]
            .iter()
            .map(|message| (message.msg_len as usize, message.msg_hdr.msg_controllen));
        self.lengths.extend(lengths);
        Ok(count as usize)
    }

    /// What came, in order.
    pub(crate) fn arrivals(&self) -> impl Iterator<Item = DatagramArrival<'_>> {
        self.lengths.iter().enumerate().filter_map(|(i, &(len, control))| {
            let bytes = &self.storage[i * MESSAGE..i * MESSAGE + len];
            let mut arrival = DatagramArrival {
                from: address(&self.names[i])?,
                bytes,
                segment: len.max(1),
                received: None,
                dropped: 0,
                ttl: 255,
            };
            self.read_control(i, control, &mut arrival);
            Some(arrival)
        })
    }

    fn read_control(&self, index: usize, len: usize, arrival: &mut DatagramArrival<'_>) {
        // SAFETY: an all-zero `msghdr` is valid.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_control = self.controls[index].as_ptr().cast_mut().cast();
        header.msg_controllen = len.min(size_of_val(&self.controls[index])) as _;
        // SAFETY: the buffer holds what the kernel wrote, of the length that it said.
        let mut control = unsafe { libc::CMSG_FIRSTHDR(&raw const header) };
        while !control.is_null() {
            // SAFETY: the kernel's macros stay within the buffer, and each kind has the type that
            // is read, which may not be aligned.
            unsafe {
                let data = libc::CMSG_DATA(control);
                match ((*control).cmsg_level, (*control).cmsg_type) {
                    (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                        let at = std::ptr::read_unaligned(data.cast::<libc::timespec>());
                        let nanos = at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64;
                        arrival.received = Some(Time::from_nanos(nanos));
                    }
                    (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                        arrival.dropped = std::ptr::read_unaligned(data.cast::<u32>());
                    }
                    (libc::SOL_UDP, libc::UDP_GRO) => {
                        let segment = std::ptr::read_unaligned(data.cast::<c_int>());
                        arrival.segment = (segment.max(1)) as usize;
                    }
                    (libc::IPPROTO_IP, libc::IP_TTL)
                    | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                        arrival.ttl = std::ptr::read_unaligned(data.cast::<c_int>()) as u8;
                    }
                    _ => {}
                }
                control = libc::CMSG_NXTHDR(&raw const header, control);
            }
        }
    }
}

fn address(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let pointer = std::ptr::from_ref(name);
    match c_int::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: of this family the kernel writes a `sockaddr_in`, for which there is room.
            let name = unsafe { &*pointer.cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(name.sin_addr.s_addr));
            Some(SocketAddr::from((ip, u16::from_be(name.sin_port))))
        }
        libc::AF_INET6 => {
            // SAFETY: the same of a `sockaddr_in6`.
            let name = unsafe { &*pointer.cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(name.sin6_addr.s6_addr);
            let port = u16::from_be(name.sin6_port);
            Some(SocketAddr::V6(SocketAddrV6::new(ip, port, 0, name.sin6_scope_id)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(buffer: usize) -> (UdpSocket, UdpSocket) {
        let (a, b) = (UdpSocket::bind("127.0.0.1:0"), UdpSocket::bind("127.0.0.1:0"));
        let (a, b) = (a.expect("a socket"), b.expect("a socket"));
        a.connect(b.local_addr().expect("bound")).expect("connected");
        prepare(&a, 1 << 20, Duration::from_secs(1)).expect("options");
        prepare(&b, buffer, Duration::from_secs(1)).expect("options");
        (a, b)
    }

    #[test]
    fn trains_arrive_as_the_datagrams_that_they_are() {
        let (a, b) = pair(1 << 20);
        let bytes: Vec<u8> = (0..2_500_u32).map(|n| n as u8).collect();
        let trains = [
            DatagramTrain { bytes: &bytes, segment: 1_000 },
            DatagramTrain { bytes: &bytes[..100], segment: 100 },
        ];
        assert_eq!(send(&a, &trains).expect("sent"), 2);
        let mut buffers = DatagramBuffers::new();
        let mut came: Vec<Vec<u8>> = Vec::new();
        while came.len() < 4 {
            buffers.receive(&b).expect("it arrives");
            for arrival in buffers.arrivals() {
                assert_eq!(arrival.from, a.local_addr().expect("bound"));
                assert!(arrival.received.is_some() && arrival.dropped == 0, "{arrival:?}");
                came.extend(arrival.bytes.chunks(arrival.segment).map(<[u8]>::to_vec));
            }
        }
        let lengths: Vec<usize> = came.iter().map(Vec::len).collect();
        assert_eq!(lengths, [1_000, 1_000, 500, 100]);
        assert_eq!(came.concat(), [&bytes[..], &bytes[..100]].concat());
    }

    #[test]
    fn a_full_buffer_says_how_many_it_dropped() {
        let (a, b) = pair(4_096);
        let mut sent = 0_u32;
        for _ in 0..200 {
            sent += u32::from(a.send(&[7; 1_000]).is_ok());
        }
        let mut buffers = DatagramBuffers::new();
        let mut came = buffers.receive(&b).expect("some arrive") as u32;
        while came < sent && a.send(&[8; 10]).is_ok() {
            buffers.receive(&b).expect("the last arrives");
            came += 1;
            if let Some(last) = buffers.arrivals().last().filter(|last| last.bytes.len() == 10) {
                assert!(last.dropped > 100, "{last:?}");
                return;
            }
        }
        panic!("{came} of {sent} came through a buffer of two pages");
    }
}

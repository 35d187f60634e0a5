//! When a device took a datagram, by the kernel's clock: what a program reads before it sends is
//! off by whatever the host does in between. No safe crate asks for it datagram by datagram.

use farline_core::units::Time;
use std::ffi::{c_int, c_void};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

/// From `linux/net_tstamp.h`.
const TX_SOFTWARE: u32 = 1 << 1;
const SOFTWARE: u32 = 1 << 4;
const OPT_ID: u32 = 1 << 7;
const OPT_TSONLY: u32 = 1 << 11;
/// From `linux/errqueue.h`.
const ORIGIN_TIMESTAMPING: u8 = 4;
/// Bytes for what the kernel says of a datagram, aligned.
const CONTROL: usize = 256;

/// The times of those datagrams of a socket that are sent by it, and of no others.
#[derive(Debug)]
pub(crate) struct TransmitTimes {
    /// The number that the kernel gives to the next one.
    next: u32,
}

/// When a datagram left, by its number; both may be absent of what else stands in the queue.
#[derive(Default)]
struct Noted {
    number: Option<u32>,
    left: Option<Time>,
}

impl TransmitTimes {
    /// Asks the kernel to number and time datagrams; `None` where it cannot.
    pub(crate) fn of(socket: &UdpSocket) -> Option<TransmitTimes> {
        number(socket).is_ok().then_some(TransmitTimes { next: 0 })
    }

    /// Sends a datagram, to the socket's peer where no other address is given; returns its number.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn send(
        &mut self,
        socket: &UdpSocket,
        bytes: &[u8],
        to: Option<SocketAddr>,
    ) -> io::Result<u32> {
        let to = to.map(socket2::SockAddr::from);
        let mut vector =
            libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let mut control = [0_u64; 4];
        // SAFETY: an all-zero `msghdr` is valid: null pointers and lengths of zero.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = &raw mut vector;
        header.msg_iovlen = 1;
        if let Some(to) = &to {
            header.msg_name = to.as_ptr().cast_mut().cast::<c_void>();
            header.msg_namelen = to.len();
        }
        header.msg_control = control.as_mut_ptr().cast();
        // SAFETY: the control buffer has room for one header and a `u32`, and is aligned; the
        // kernel reads from buffers that outlive the call.
        let sent = unsafe {
            header.msg_controllen = libc::CMSG_SPACE(size_of::<u32>() as u32) as _;
            let first = libc::CMSG_FIRSTHDR(&raw const header);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SO_TIMESTAMPING;
            (*first).cmsg_len = libc::CMSG_LEN(size_of::<u32>() as u32) as _;
            std::ptr::write_unaligned(libc::CMSG_DATA(first).cast::<u32>(), TX_SOFTWARE);
            libc::sendmsg(socket.as_raw_fd(), &raw const header, 0)
        };
        if sent < 0 {
            let error = io::Error::last_os_error();
            // Whether it took a number is not known: they begin anew, and what is under way has
            // none.
            drop(number(socket));
            self.next = 0;
            return Err(error);
        }
        let taken = self.next;
        self.next = self.next.wrapping_add(1);
        Ok(taken)
    }

    /// Shows the number of each datagram that left since it was last asked, and when it did, since
    /// 1970.
    pub(crate) fn read(&mut self, socket: &UdpSocket, mut show: impl FnMut(u32, Time)) {
        while let Some(noted) = next_noted(socket) {
            if let Noted { number: Some(number), left: Some(left) } = noted {
                show(number, left);
            }
        }
    }
}

/// Numbers datagrams from 0 on.
fn number(socket: &UdpSocket) -> io::Result<()> {
    for flags in [0, SOFTWARE | OPT_ID | OPT_TSONLY] {
        // SAFETY: the kernel reads an `int`, which `flags` is.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_TIMESTAMPING,
                (&raw const flags).cast::<c_void>(),
                size_of::<c_int>() as libc::socklen_t,
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// The next entry of the socket's error queue, in which such times come, and errors of the path;
/// those are told to who sends or receives, too.
fn next_noted(socket: &UdpSocket) -> Option<Noted> {
    let mut control = [0_u64; CONTROL / 8];
    // SAFETY: an all-zero `msghdr` is valid.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = CONTROL as _;
    // SAFETY: the kernel writes into a buffer that outlives the call, of the length that it is
    // told.
    let came = unsafe {
        libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT)
    };
    if came < 0 {
        return None;
    }
    let mut noted = Noted::default();
    // SAFETY: the buffer holds what the kernel wrote, of the length that it said.
    let mut entry = unsafe { libc::CMSG_FIRSTHDR(&raw const header) };
    while !entry.is_null() {
        // SAFETY: the kernel's macros stay within the buffer, and each kind has the type that is
        // read, which may not be aligned.
        unsafe {
            let data = libc::CMSG_DATA(entry);
            match ((*entry).cmsg_level, (*entry).cmsg_type) {
                // Three times, of which software's is the first.
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => {
                    let at = std::ptr::read_unaligned(data.cast::<libc::timespec>());
                    let nanos = at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64;
                    noted.left = (nanos != 0).then(|| Time::from_nanos(nanos));
                }
                (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => {
                    let error = std::ptr::read_unaligned(data.cast::<libc::sock_extended_err>());
                    let is_time = error.ee_origin == ORIGIN_TIMESTAMPING;
                    noted.number = is_time.then_some(error.ee_data);
                }
                _ => {}
            }
            entry = libc::CMSG_NXTHDR(&raw const header, entry);
        }
    }
    Some(noted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::clock::ns_since_1970;
    use crate::sys::datagrams::prepare;
    use std::time::Duration;

    #[test]
    fn each_datagram_that_asks_is_timed_under_its_number() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let peer = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        prepare(&socket, 1 << 20, Duration::from_secs(1)).expect("options");
        let to = peer.local_addr().expect("bound");
        let mut times = TransmitTimes::of(&socket).expect("Linux has it");
        let begun = ns_since_1970() as u64;
        assert_eq!(times.send(&socket, b"first", Some(to)).ok(), Some(0));
        socket.send_to(b"of no interest", to).expect("sent");
        socket.connect(to).expect("connected");
        assert_eq!(times.send(&socket, b"second", None).ok(), Some(1));
        let mut left = Vec::new();
        times.read(&socket, |number, at| left.push((number, at.as_nanos())));
        let ended = ns_since_1970() as u64;
        let numbers: Vec<u32> = left.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [0, 1]);
        assert!(left.is_sorted() && left.iter().all(|(_, at)| (begun..=ended).contains(at)));
        // What cannot be sent leaves no number behind.
        assert!(times.send(&socket, &[0; 70_000], None).is_err());
        assert_eq!(times.send(&socket, b"third", None).ok(), Some(0));
        times.read(&socket, |number, _| assert_eq!(number, 0));
        let mut bytes = [0; 32];
        for text in ["first", "of no interest", "second", "third"] {
            let len = peer.recv(&mut bytes).expect("it arrives");
            assert_eq!(&bytes[..len], text.as_bytes());
        }
    }
}

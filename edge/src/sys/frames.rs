//! Sockets for whole Ethernet frames (packet(7)): many frames in one call out, and a ring that the
//! kernel fills with what comes (`TPACKET_V3`). No well-kept crate has either with its statistics.
//!
//! Frames go out by `sendmmsg` past the queueing discipline (a flood of them: `frame_flood`): a
//! ring for sending (`PACKET_TX_RING`) was tried, and brought a veth pair 5 to 8 % fewer frames a
//! second, of 64 and of 1518 bytes.

use super::datagrams::DatagramTrain;
use farline_core::units::Time;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Frames of one call.
const MESSAGES: usize = 64;
/// Bytes of a block of the ring: so much of what came is handed over at once. Blocks that are not
/// full are handed over after so long, so that a reader who is away has their number of times to
/// come back.
const BLOCK: usize = 64 << 10;
const RETIRE_MS: u32 = 4;
/// What the kernel may hold of what was sent.
const SEND_BUFFER: c_int = 16 << 20;

/// An Ethernet device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameDevice {
    index: c_int,
    /// Its hardware address.
    pub(crate) address: [u8; 6],
    /// The most that a frame carries, without its header.
    pub(crate) mtu: u32,
}

impl FrameDevice {
    /// The interface `number`, of which nothing else is known.
    pub(super) fn numbered(number: u32) -> FrameDevice {
        FrameDevice { index: number as c_int, address: [0; 6], mtu: 0 }
    }

    /// The device called `name`.
    ///
    /// # Errors
    /// `ENODEV` when there is none, `InvalidInput` when its frames are not Ethernet's.
    pub(crate) fn named(name: &str) -> io::Result<FrameDevice> {
        // Any socket of the network namespace will do; this one is never connected.
        let any = std::net::UdpSocket::bind("0.0.0.0:0")?;
        // SAFETY: an all-zero `ifreq` is valid: bytes and integers.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        if name.is_empty() || name.len() >= request.ifr_name.len() {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        let mut ask = |what: libc::Ioctl| {
            // SAFETY: these requests read the name of an `ifreq` and write its other part.
            match unsafe { libc::ioctl(any.as_raw_fd(), what, &raw mut request) } {
                0 => Ok(request.ifr_ifru),
                _ => Err(io::Error::last_os_error()),
            }
        };
        // SAFETY: each request wrote the member of the union that is read after it.
        let (index, hardware, mtu) = unsafe {
            (
                ask(libc::SIOCGIFINDEX as libc::Ioctl)?.ifru_ifindex,
                ask(libc::SIOCGIFHWADDR as libc::Ioctl)?.ifru_hwaddr,
                ask(libc::SIOCGIFMTU as libc::Ioctl)?.ifru_mtu,
            )
        };
        if hardware.sa_family != libc::ARPHRD_ETHER {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let address = std::array::from_fn(|at| hardware.sa_data[at] as u8);
        Ok(FrameDevice { index, address, mtu: mtu.unsigned_abs() })
    }

    /// Its number in this network namespace.
    pub(crate) fn index(&self) -> c_int {
        self.index
    }

    /// A packet socket that is bound to nothing yet.
    pub(super) fn socket() -> io::Result<OwnedFd> {
        // SAFETY: a new descriptor, or an error.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was just made and is nobody else's.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// Binds a socket to this device, for `protocol` or, with 0, for nothing that comes.
    pub(super) fn bind(&self, socket: &OwnedFd, protocol: u16) -> io::Result<()> {
        // SAFETY: an all-zero `sockaddr_ll` is valid: integers and bytes.
        let mut name: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        name.sll_family = libc::AF_PACKET as u16;
        name.sll_protocol = protocol.to_be();
        name.sll_ifindex = self.index;
        // SAFETY: the kernel reads a `sockaddr_ll`, which `name` is.
        check(unsafe {
            libc::bind(
                socket.as_raw_fd(),
                (&raw const name).cast(),
                size_of_val(&name) as libc::socklen_t,
            )
        })
    }
}

pub(super) fn check(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

pub(super) fn set<T>(socket: &OwnedFd, level: c_int, option: c_int, value: &T) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes as `value` has.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast::<c_void>(),
            size_of::<T>() as libc::socklen_t,
        )
    })
}

/// What sends frames by a device.
#[derive(Debug)]
pub(crate) struct FrameSender(OwnedFd);

impl FrameSender {
    /// Sends by `device`.
    ///
    /// # Errors
    /// `EPERM` without `CAP_NET_RAW`.
    pub(crate) fn open(device: &FrameDevice) -> io::Result<FrameSender> {
        let socket = FrameDevice::socket()?;
        let one: c_int = 1;
        // Older kernels send through the queue, and need no more than that.
        drop(set(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &one));
        drop(set(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SEND_BUFFER));
        device.bind(&socket, 0)?;
        Ok(FrameSender(socket))
    }

    /// Sends frames that begin with `header` and go on with each segment of the trains; returns how
    /// many of them a queue of this host or the device itself did not take.
    ///
    /// # Errors
    /// What the kernel says of a frame for another reason; `EMSGSIZE` when it is too long.
    pub(crate) fn send(&self, header: &[u8], trains: &[DatagramTrain<'_>]) -> io::Result<u64> {
        let mut left = trains.iter().flat_map(|train| train.bytes.chunks(train.segment)).peekable();
        let mut refused = 0;
        while left.peek().is_some() {
            // SAFETY: all-zero `iovec`s and `mmsghdr`s are valid: null pointers, lengths of zero.
            let (mut vectors, mut messages): (
                [[libc::iovec; 2]; MESSAGES],
                [libc::mmsghdr; MESSAGES],
            ) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
            let mut count = 0;
            for payload in left.by_ref().take(MESSAGES) {
                vectors[count][0].iov_base = header.as_ptr().cast_mut().cast();
                vectors[count][0].iov_len = header.len();
                vectors[count][1].iov_base = payload.as_ptr().cast_mut().cast();
                vectors[count][1].iov_len = payload.len();
                messages[count].msg_hdr.msg_iov = vectors[count].as_mut_ptr();
                messages[count].msg_hdr.msg_iovlen = 2;
                count += 1;
            }
            let mut at = 0;
            while at < count {
                // SAFETY: the kernel reads the messages that are left, whose pointers are to
                // buffers that live as long as this call.
                let sent = unsafe {
                    libc::sendmmsg(
                        self.0.as_raw_fd(),
                        messages.as_mut_ptr().add(at),
                        (count - at) as u32,
                        0,
                    )
                };
                if sent > 0 {
                    at += sent as usize;
                    // The one behind the last that left was dropped, and the call says nothing of
                    // why: tried again, it would be there twice in the device's own count.
                    if at < count {
                        (at, refused) = (at + 1, refused + 1);
                    }
                    continue;
                }
                let error = io::Error::last_os_error();
                match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    Some(libc::ENOBUFS | libc::EAGAIN | libc::ENETDOWN) => {
                        (at, refused) = (at + 1, refused + 1);
                    }
                    _ => return Err(error),
                }
            }
        }
        Ok(refused)
    }
}

/// A frame that came.
#[derive(Debug)]
pub(crate) struct FrameArrival<'a> {
    /// Its bytes without VLAN tag and FCS.
    pub(crate) bytes: &'a [u8],
    /// The tag's number and priority, where it had one.
    pub(crate) tag: Option<u16>,
    /// When the kernel had it, since 1970.
    pub(crate) received: Time,
    /// Frames that found no room in the ring, for all that is known then, modulo 2^32.
    pub(crate) dropped: u32,
    /// Whether some of them may have come just before this one.
    pub(crate) is_after_drops: bool,
}

/// A ring of blocks that the kernel fills with frames of one type and stream.
#[derive(Debug)]
pub(crate) struct FrameRing {
    socket: OwnedFd,
    memory: NonNull<u8>,
    blocks: usize,
    at: usize,
    dropped: u32,
    /// Blocks before whose frames some may be missing, for all that is known.
    in_doubt: usize,
}

// SAFETY: the mapping is this value's alone, and reached through `&mut self` only.
unsafe impl Send for FrameRing {}

impl FrameRing {
    /// A ring of about `bytes` for frames at `device` of this Ethernet type and, where one is
    /// given, with these two bytes behind it.
    ///
    /// # Errors
    /// `EPERM` without `CAP_NET_RAW`, `ENOMEM`.
    pub(crate) fn open(
        device: &FrameDevice,
        kind: u16,
        stream: Option<u16>,
        bytes: usize,
    ) -> io::Result<FrameRing> {
        let socket = FrameDevice::socket()?;
        let version = libc::tpacket_versions::TPACKET_V3 as c_int;
        set(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
        let one: c_int = 1;
        set(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &one)?;
        filter(&socket, kind, stream)?;
        let blocks = bytes.div_ceil(BLOCK).max(2);
        // SAFETY: an all-zero `tpacket_req3` is valid: integers.
        let mut request: libc::tpacket_req3 = unsafe { std::mem::zeroed() };
        request.tp_block_size = BLOCK as u32;
        request.tp_block_nr = blocks as u32;
        request.tp_frame_size = 2_048;
        request.tp_frame_nr = (BLOCK / 2_048 * blocks) as u32;
        request.tp_retire_blk_tov = RETIRE_MS;
        set(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        // SAFETY: a mapping of the ring at an address of the kernel's choice overlaps nothing.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                blocks * BLOCK,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                socket.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let ring = FrameRing { socket, memory, blocks, at: 0, dropped: 0, in_doubt: 0 };
        // All types: to a socket of one type the kernel shows no VLAN tags.
        device.bind(&ring.socket, libc::ETH_P_ALL as u16)?;
        Ok(ring)
    }

    /// Whether a block is there.
    pub(crate) fn is_ready(&self) -> bool {
        self.state().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// The block that is next.
    fn block(&self) -> NonNull<u8> {
        // SAFETY: the block lies in the mapping, which the kernel aligns to pages.
        unsafe { self.memory.add(self.at * BLOCK) }
    }

    /// Whose it is.
    fn state(&self) -> &AtomicU32 {
        let header = self.block().cast::<libc::tpacket_block_desc>();
        // SAFETY: the state is a `u32` that the kernel writes too, hence atomic; it is the first
        // member of the union of one.
        unsafe { AtomicU32::from_ptr(&raw mut (*header.as_ptr()).hdr.bh1.block_status) }
    }

    /// Shows the frames of a block in order.
    ///
    /// # Errors
    /// `WouldBlock` when there is none; what the kernel says of a device that is gone.
    pub(crate) fn receive(&mut self, mut show: impl FnMut(&FrameArrival<'_>)) -> io::Result<()> {
        if !self.is_ready() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if self.state().load(Ordering::Acquire) & libc::TP_STATUS_LOSING != 0 {
            // To ask clears the mark, so that what was dropped behind this block meanwhile leaves
            // none: each block that may be there already is in doubt.
            self.count_dropped()?;
            self.in_doubt = self.blocks;
        } else if self.in_doubt > 0 {
            self.in_doubt -= 1;
        }
        let mut is_after_drops = self.in_doubt > 0;
        let block = self.block();
        let header = block.cast::<libc::tpacket_block_desc>();
        // SAFETY: the block is this process's until its state is written.
        let (count, mut offset) = unsafe {
            let head = (*header.as_ptr()).hdr.bh1;
            (head.num_pkts, head.offset_to_first_pkt as usize)
        };
        for _ in 0..count {
            if offset + size_of::<libc::tpacket3_hdr>() > BLOCK {
                break;
            }
            // SAFETY: the kernel keeps each header within the block, which was checked.
            let (head, start) = unsafe {
                let start = block.add(offset);
                (std::ptr::read_unaligned(start.cast::<libc::tpacket3_hdr>().as_ptr()), start)
            };
            let (from, len) = (usize::from(head.tp_mac), head.tp_snaplen as usize);
            if offset + from + len > BLOCK {
                break;
            }
            // SAFETY: within the block, as was just checked, and not written until it is given
            // back.
            let bytes = unsafe { std::slice::from_raw_parts(start.add(from).as_ptr(), len) };
            let nanos = u64::from(head.tp_sec) * 1_000_000_000 + u64::from(head.tp_nsec);
            let is_tagged = head.tp_status & libc::TP_STATUS_VLAN_VALID != 0;
            show(&FrameArrival {
                bytes,
                tag: is_tagged.then_some(head.hv1.tp_vlan_tci as u16),
                received: Time::from_nanos(nanos),
                dropped: self.dropped,
                is_after_drops: std::mem::take(&mut is_after_drops),
            });
            if head.tp_next_offset == 0 {
                break;
            }
            offset += head.tp_next_offset as usize;
        }
        self.state().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.at = (self.at + 1) % self.blocks;
        Ok(())
    }

    /// Waits for a block, or for what `other` waits for, for `wait` at most.
    ///
    /// # Errors
    /// What the kernel says of a device that is gone.
    pub(crate) fn wait(&self, other: Option<BorrowedFd<'_>>, wait: Duration) -> io::Result<()> {
        let ring = PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN);
        let other = PollFd::from_borrowed_fd(other.unwrap_or(self.socket.as_fd()), PollFlags::IN);
        let mut ready = [ring, other];
        let timeout =
            Timespec { tv_sec: wait.as_secs().cast_signed(), tv_nsec: wait.subsec_nanos().into() };
        poll(&mut ready, Some(&timeout))?;
        if !ready[0].revents().contains(PollFlags::ERR) {
            return Ok(());
        }
        let mut error: c_int = 0;
        let mut len = size_of::<c_int>() as libc::socklen_t;
        // SAFETY: the kernel writes an `int` and its length.
        check(unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ERROR,
                (&raw mut error).cast(),
                &raw mut len,
            )
        })?;
        if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
    }

    /// Adds what was dropped since this was asked last.
    fn count_dropped(&mut self) -> io::Result<()> {
        // SAFETY: an all-zero `tpacket_stats_v3` is valid: integers.
        let mut stats: libc::tpacket_stats_v3 = unsafe { std::mem::zeroed() };
        let mut len = size_of_val(&stats) as libc::socklen_t;
        // SAFETY: the kernel writes a `tpacket_stats_v3` to a socket of that version.
        check(unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut stats).cast(),
                &raw mut len,
            )
        })?;
        self.dropped = self.dropped.wrapping_add(stats.tp_drops);
        Ok(())
    }
}

impl Drop for FrameRing {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length, and nothing of it is borrowed any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.blocks * BLOCK) };
    }
}

/// Lets through frames of type `kind`, with `stream` behind it where there is one.
fn filter(socket: &OwnedFd, kind: u16, stream: Option<u16>) -> io::Result<()> {
    const LOAD_HALF: u16 = 0x28;
    const JUMP_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let step = |code, k, jf| libc::sock_filter { code, jt: 0, jf, k };
    let mut steps = Vec::new();
    let wanted: Vec<(u32, u16)> = [(12, Some(kind)), (14, stream)]
        .into_iter()
        .filter_map(|(at, is)| Some((at, is?)))
        .collect();
    for (n, (at, is)) in wanted.iter().enumerate() {
        steps.push(step(LOAD_HALF, *at, 0));
        // Past what is left of the checks, and the return of everything.
        steps.push(step(JUMP_EQUAL, u32::from(*is), (2 * (wanted.len() - n) - 1) as u8));
    }
    steps.push(step(RETURN, u32::MAX, 0));
    steps.push(step(RETURN, 0, 0));
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

//! A socket for frames that begin with known bytes, which an XDP program takes from a device before
//! the kernel makes packet buffers of them (AF_XDP in copy mode, Linux 6.6): of what a frame took
//! to receive over a veth pair, two thirds were buffers, GRO and the copy into a ring of `frames`.
//!
//! What begins otherwise goes on to the kernel. The program goes with the socket, or the process.
//! The crate `xdp` has such sockets without C too, but neither program nor statistics, and rustix
//! the rest.

use super::bpf_program::{
    ABOVE, ADD, BPF_PROG_TYPE_XDP, HALF_DIFFERS, HALF_IS, MOV, MapCreate, Program, R0, R1, R2, R3,
    R4, R5, R6, Step, bpf, created, loaded, owned,
};
use super::frames::FrameDevice;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_RX_RING, XDP_UMEM_PGOFF_FILL_RING, XdpDesc,
    XdpDescOptions, XdpRingOffset, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};
use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The memory of a frame, or of a part of one: the least that the kernel takes. Of it a frame has
/// what is left behind 256 bytes of headroom; longer ones come in several.
const CHUNK: usize = 2_048;
/// How often, and how long, a queue is waited for.
const BUSY_TRIES: u32 = 20;
const BUSY_WAIT: Duration = Duration::from_millis(10);
/// So many chunks are given back at once.
const GIVE_BACK: u32 = 64;
/// Sets of frames that came at once in which some may be missing, when some were dropped: the one
/// at hand; the next, for a drop is counted before the frames around it can be seen; and the one
/// behind, whose first frame follows those.
const IN_DOUBT: u32 = 3;

// From linux/bpf.h and linux/if_link.h.
const BPF_MAP_UPDATE_ELEM: c_int = 2;
const BPF_LINK_CREATE: c_int = 28;
const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_F_XDP_HAS_FRAGS: u32 = 1 << 5;
const BPF_XDP: u32 = 37;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;
const XDP_PASS: i32 = 2;
const REDIRECT_MAP: i32 = 51;
// Of `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const QUEUE: i16 = 16;

/// A frame that came.
#[derive(Debug)]
pub(crate) struct XdpArrival<'a> {
    /// Its bytes without FCS.
    pub(crate) bytes: &'a [u8],
    /// Frames that found no room, for all that is known then.
    pub(crate) dropped: u64,
    /// Whether some of them may have come just before this one.
    pub(crate) is_after_drops: bool,
}

/// The socket and its program.
#[derive(Debug)]
pub(crate) struct XdpSocket {
    /// By which the program is at the device.
    link: Option<OwnedFd>,
    received: Ring,
    free: Ring,
    map: OwnedFd,
    socket: OwnedFd,
    memory: Mapping,
    /// How many chunks' numbers were written to the ring of free ones, modulo 2^32.
    given: u32,
    /// Parts of a frame whose last has not come.
    parts: Vec<u8>,
    dropped: u64,
    in_doubt: u32,
}

impl XdpSocket {
    /// One at `device` that takes nothing yet; the kernel may hold `bytes` of frames, 2 KiB for
    /// each.
    ///
    /// # Errors
    /// `EPERM` without `CAP_NET_RAW`, `CAP_BPF` and `CAP_NET_ADMIN`, `EBUSY` where another has such
    /// a socket, `EINVAL` of an older kernel, `ENOBUFS` where so much may not be locked in memory.
    pub(crate) fn open(device: &FrameDevice, bytes: usize) -> io::Result<XdpSocket> {
        let (family, kind) = (AddressFamily::XDP, SocketType::RAW);
        let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
        let chunks = (bytes / CHUNK).clamp(64, 1 << 20).next_power_of_two();
        let memory = Mapping::anonymous(chunks * CHUNK)?;
        let register = XdpUmemReg {
            addr: memory.at.as_ptr() as u64,
            len: memory.len as u64,
            chunk_size: CHUNK as u32,
            headroom: 0,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        };
        sockopt::set_xdp_umem_reg(&socket, register)?;
        sockopt::set_xdp_umem_fill_ring_size(&socket, chunks as u32)?;
        // Nothing is sent, but no socket is bound without.
        sockopt::set_xdp_umem_completion_ring_size(&socket, 2)?;
        sockopt::set_xdp_rx_ring_size(&socket, chunks as u32)?;
        let offsets = sockopt::xdp_mmap_offsets(&socket)?;
        let received = (XDP_PGOFF_RX_RING, size_of::<XdpDesc>());
        let received = Ring::of(&socket, received, &offsets.rx, chunks)?;
        let free = (XDP_UMEM_PGOFF_FILL_RING, size_of::<u64>());
        let free = Ring::of(&socket, free, &offsets.fr, chunks)?;
        let map = created(&MapCreate {
            kind: BPF_MAP_TYPE_XSKMAP,
            key: 4,
            value: 4,
            entries: 1,
            flags: 0,
            pad: 0,
        })?;
        let mut opened = XdpSocket {
            link: None,
            received,
            free,
            map,
            socket,
            memory,
            given: 0,
            parts: Vec::new(),
            dropped: 0,
            in_doubt: 0,
        };
        (0..chunks).for_each(|chunk| opened.give_back((chunk * CHUNK) as u64));
        opened.free.producer().store(opened.given, Ordering::Release);
        // To the first queue: frames of any other go on to the kernel.
        let flags = SocketAddrXdpFlags::XDP_COPY | SocketAddrXdpFlags::XDP_USE_SG;
        let name = SocketAddrXdp::new(flags, device.index().unsigned_abs(), 0);
        let mut bound = bind(&opened.socket, &name);
        // The kernel gives the queue of a socket that is closed free a while later.
        for _ in 0..BUSY_TRIES {
            if bound != Err(Errno::BUSY) {
                break;
            }
            std::thread::sleep(BUSY_WAIT);
            bound = bind(&opened.socket, &name);
        }
        bound?;
        insert(&opened.map, &opened.socket)?;
        Ok(opened)
    }

    /// Takes the frames at `device` that begin with `begin`, of whole words of four bytes, and of
    /// which the byte behind is none of `but`.
    ///
    /// # Errors
    /// `EBUSY` where the device has a program, `EOPNOTSUPP` where its driver takes none, `ERANGE`
    /// where its frames may be too long for that.
    pub(crate) fn take(
        &mut self,
        device: &FrameDevice,
        begin: &[u8],
        but: &[u8],
    ) -> io::Result<()> {
        let program = taking(self.map.as_raw_fd(), begin, but);
        let program = loaded(BPF_PROG_TYPE_XDP, &program, BPF_F_XDP_HAS_FRAGS)?;
        (self.dropped, self.in_doubt) = (self.count_dropped()?, 0);
        self.link = Some(attached(&program, device)?);
        Ok(())
    }

    /// Takes no more; what came already is still shown.
    pub(crate) fn close(&mut self) {
        self.link = None;
    }

    /// Whether the program is at the device.
    pub(crate) fn is_open(&self) -> bool {
        self.link.is_some()
    }

    /// Whether frames wait.
    pub(crate) fn is_ready(&self) -> bool {
        self.received.producer().load(Ordering::Acquire)
            != self.received.consumer().load(Ordering::Relaxed)
    }

    /// For `poll`.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Frames that came and found no room, for all that is known.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Shows all frames that came so far, in order; returns how many. What was dropped is known
    /// then.
    ///
    /// # Errors
    /// What the kernel says of the statistics.
    pub(crate) fn receive(&mut self, mut show: impl FnMut(&XdpArrival<'_>)) -> io::Result<u32> {
        let begin = self.received.consumer().load(Ordering::Relaxed);
        let end = self.received.producer().load(Ordering::Acquire);
        // Behind that: of a frame that is missing among these it knows.
        let dropped = self.count_dropped()?;
        if dropped != self.dropped {
            (self.dropped, self.in_doubt) = (dropped, IN_DOUBT);
        }
        let count = end.wrapping_sub(begin);
        if count == 0 {
            return Ok(0);
        }
        let is_after_drops = self.in_doubt > 0;
        let mut show = |bytes: &[u8]| show(&XdpArrival { bytes, dropped, is_after_drops });
        self.in_doubt = self.in_doubt.saturating_sub(1);
        let mut frames = 0;
        for n in 0..count {
            let at = begin.wrapping_add(n);
            // SAFETY: the entry lies in the ring, and the kernel writes it no more.
            let entry = unsafe { self.received.entry::<XdpDesc>(at).read() };
            let (from, len) = (entry.addr as usize, entry.len as usize);
            let is_last = !entry.options.contains(XdpDescOptions::XDP_PKT_CONTD);
            if let Some(bytes) = self.memory.bytes(from, len) {
                if is_last && self.parts.is_empty() {
                    show(bytes);
                } else {
                    self.parts.extend_from_slice(bytes);
                }
            }
            if is_last {
                if !self.parts.is_empty() {
                    show(&self.parts);
                    self.parts.clear();
                }
                frames += 1;
            }
            self.give_back((from & !(CHUNK - 1)) as u64);
            if n % GIVE_BACK == GIVE_BACK - 1 || n == count - 1 {
                self.received.consumer().store(at.wrapping_add(1), Ordering::Release);
                self.free.producer().store(self.given, Ordering::Release);
            }
        }
        Ok(frames)
    }

    /// Writes the chunk at `from` to the ring of free ones, which has room for all.
    fn give_back(&mut self, from: u64) {
        // SAFETY: the entry lies in the ring, and the kernel reads it when it is told of it.
        unsafe { self.free.entry::<u64>(self.given).write(from) };
        self.given = self.given.wrapping_add(1);
    }

    fn count_dropped(&self) -> io::Result<u64> {
        let statistics = sockopt::xdp_statistics(&self.socket)?;
        // An empty ring of free chunks is among the former.
        Ok(statistics.rx_dropped + statistics.rx_ring_full.unwrap_or_default())
    }
}

/// A ring that is shared with the kernel: two counts, and entries of one size.
#[derive(Debug)]
struct Ring {
    mapping: Mapping,
    producer: usize,
    consumer: usize,
    entries: usize,
    mask: u32,
}

impl Ring {
    /// The ring at a place of the socket, with so many bytes for each of `count` entries, a power
    /// of two.
    fn of(
        socket: &OwnedFd,
        (place, entry): (u64, usize),
        offsets: &XdpRingOffset,
        count: usize,
    ) -> io::Result<Ring> {
        let [producer, consumer, entries] =
            [offsets.producer, offsets.consumer, offsets.desc].map(|offset| offset as usize);
        let mapping = Mapping::shared(socket, place, entries + count * entry)?;
        Ok(Ring { mapping, producer, consumer, entries, mask: count as u32 - 1 })
    }

    fn producer(&self) -> &AtomicU32 {
        self.count(self.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.count(self.consumer)
    }

    fn count(&self, offset: usize) -> &AtomicU32 {
        debug_assert!(offset.is_multiple_of(4) && offset + 4 <= self.mapping.len);
        // SAFETY: the kernel says where in the mapping its counts are, which it aligns.
        unsafe { AtomicU32::from_ptr(self.mapping.at.as_ptr().add(offset).cast()) }
    }

    /// Where the entry `at` is, modulo their number; `T` is what the ring was made for.
    fn entry<T>(&self, at: u32) -> *mut T {
        let offset = self.entries + (at & self.mask) as usize * size_of::<T>();
        debug_assert!(offset + size_of::<T>() <= self.mapping.len);
        // SAFETY: within the mapping, by the mask.
        unsafe { self.mapping.at.as_ptr().add(offset).cast() }
    }
}

/// Memory of this process.
#[derive(Debug)]
struct Mapping {
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping is its owner's alone, or reached as the kernel's protocol of rings has it.
unsafe impl Send for Mapping {}

impl Mapping {
    fn anonymous(len: usize) -> io::Result<Mapping> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a mapping at an address of the kernel's choice overlaps nothing.
        let memory = unsafe { mmap_anonymous(std::ptr::null_mut(), len, access, flags)? };
        Mapping::of(memory, len)
    }

    fn shared(socket: &OwnedFd, place: u64, len: usize) -> io::Result<Mapping> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: as above.
        let memory = unsafe { mmap(std::ptr::null_mut(), len, access, flags, socket, place)? };
        Mapping::of(memory, len)
    }

    fn of(memory: *mut c_void, len: usize) -> io::Result<Mapping> {
        let at = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { at, len })
    }

    /// Bytes of a frame, which is this process's until its chunk is given back.
    fn bytes(&self, from: usize, len: usize) -> Option<&[u8]> {
        let is_within = from.checked_add(len).is_some_and(|end| end <= self.len);
        // SAFETY: within the mapping, and not written by the kernel while it is borrowed.
        is_within.then(|| unsafe { std::slice::from_raw_parts(self.at.as_ptr().add(from), len) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length, and nothing of it is borrowed any more.
        let _ = unsafe { munmap(self.at.as_ptr().cast(), self.len) };
    }
}

/// Gives a frame that begins with `begin`, and goes on with a byte that is none of `but`, to the
/// socket of its queue in `map`; where there is none, and all other frames, to the kernel.
fn taking(map: c_int, begin: &[u8], but: &[u8]) -> Vec<Step> {
    let mut program = Program::default();
    program.register(MOV, R6, R1);
    program.load_half(R2, R6, DATA);
    program.load_half(R3, R6, DATA_END);
    program.register(MOV, R4, R2);
    program.number(ADD, R4, begin.len() as i32 + 1);
    let mut others = vec![program.jump(ABOVE, R4, R3)];
    for (place, word) in (0..).step_by(4).zip(begin.as_chunks().0) {
        program.load_half(R5, R2, place);
        others.push(program.jump_number(HALF_DIFFERS, R5, i32::from_ne_bytes(*word)));
    }
    program.load_byte(R5, R2, begin.len() as i16);
    for byte in but {
        others.push(program.jump_number(HALF_IS, R5, i32::from(*byte)));
    }
    program.map(R1, map);
    program.load_half(R2, R6, QUEUE);
    program.number(MOV, R3, XDP_PASS);
    program.call(REDIRECT_MAP);
    program.exit();
    others.into_iter().for_each(|jump| program.land(jump));
    program.number(MOV, R0, XDP_PASS);
    program.exit();
    program.steps()
}

/// Parts of `union bpf_attr`.
#[repr(C)]
struct MapUpdate {
    map: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    device: u32,
    kind: u32,
    flags: u32,
}

/// The socket is that of queue 0.
fn insert(map: &OwnedFd, socket: &OwnedFd) -> io::Result<()> {
    let (queue, socket) = (0_u32, socket.as_raw_fd());
    let update = MapUpdate {
        map: map.as_raw_fd() as u32,
        pad: 0,
        key: (&raw const queue) as u64,
        value: (&raw const socket) as u64,
        flags: 0,
    };
    // SAFETY: the kernel reads this structure, and four bytes each of key and value, which live
    // longer.
    unsafe { bpf(BPF_MAP_UPDATE_ELEM, &update) }.map(drop)
}

fn attached(program: &OwnedFd, device: &FrameDevice) -> io::Result<OwnedFd> {
    let link = LinkCreate {
        program: program.as_raw_fd() as u32,
        device: device.index().unsigned_abs(),
        kind: BPF_XDP,
        flags: XDP_FLAGS_DRV_MODE,
    };
    // SAFETY: the kernel reads this structure, which has no pointer.
    unsafe { bpf(BPF_LINK_CREATE, &link) }.and_then(owned)
}

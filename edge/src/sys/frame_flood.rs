//! One Ethernet frame sent over and over from within the kernel, by an XDP program that writes
//! number, time and check into each (`BPF_F_TEST_XDP_LIVE_FRAMES`, Linux 5.18): no system call, no
//! socket and no packet buffer for a frame, which took two thirds of its time over a veth pair.
//!
//! Nothing tells such a program that a device did not take a frame. The kernel's own trace of each
//! batch that it gives to a device (`xdp:xdp_devmap_xmit`) does: a second program counts there, for
//! this thread alone.

use super::bpf_program::{
    ABOVE, ADD, AND, AT_LEAST, BPF_PROG_TYPE_XDP, DIFFERS, DIV, MOV, MapCreate, Program, R0, R1,
    R2, R3, R4, R5, R6, R7, R8, SHL, SHR, SUB, Step, XOR, bpf, created, loaded, owned,
};
use super::frames::FrameDevice;
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is known of a second is kept for so many.
const SECONDS: usize = 64;
/// Places in the memory that the programs share with this process, in bytes.
const NEXT: i16 = 0;
const LAST: i16 = 8;
const START: i16 = 16;
const END: i16 = 24;
const THREAD: i16 = 32;
const LEFT: i16 = 40;
const SECOND: i16 = 48;
const CHECK: i16 = 56;
const FRAMES: i16 = 128;
const DROPS: i16 = FRAMES + 8 * SECONDS as i16;
const CHANGES: i16 = 2_048;
/// Bytes of number and time, each with a table of what it changes in the check.
const CHANGED: i16 = 8;
const VALUE: usize = CHANGES as usize + CHANGED as usize * 1_024;
const MAPPED: usize = VALUE.next_multiple_of(4_096);
/// One value, which this process maps.
const MEMORY: MapCreate = MapCreate {
    kind: BPF_MAP_TYPE_ARRAY,
    key: 4,
    value: VALUE as u32,
    entries: 1,
    flags: BPF_F_MMAPABLE,
    pad: 0,
};
/// Frames that the kernel handles at once: a veth device's ring has room for 256.
const BATCH: u32 = 128;

// From linux/bpf.h.
const BPF_PROG_TEST_RUN: c_int = 10;
const BPF_RAW_TRACEPOINT_OPEN: c_int = 17;
const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_F_MMAPABLE: u32 = 1 << 10;
const BPF_PROG_TYPE_RAW_TRACEPOINT: u32 = 17;
const BPF_F_TEST_XDP_LIVE_FRAMES: u32 = 2;
const KTIME_GET_NS: i32 = 5;
const GET_CURRENT_PID_TGID: i32 = 14;
const REDIRECT: i32 = 23;
const XDP_DROP: i32 = 1;

/// What is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FloodFrame<'a> {
    /// The frame without FCS, with number and time 0.
    pub(crate) bytes: &'a [u8],
    /// Where in it the payload begins, a multiple of four; number, time and check stand 4, 8 and 12
    /// bytes behind.
    pub(crate) payload_at: usize,
    /// How each byte of number and time changes the check.
    pub(crate) checks: &'a [[u32; 256]; CHANGED as usize],
}

/// A flood of frames by a device, from one thread.
#[derive(Debug)]
pub(crate) struct FrameFlood {
    send: OwnedFd,
    #[expect(dead_code, reason = "held for what it counts")]
    count: OwnedFd,
    shared: Shared,
    frame: Vec<u8>,
}

impl FrameFlood {
    /// Prepares to send by `device` and proves, by one frame that is no test's, that frames leave.
    ///
    /// # Errors
    /// `EPERM` without the rights for BPF, `EINVAL` of a kernel without it or a frame above a page,
    /// `Unsupported` where the device does not take such frames.
    pub(crate) fn open(device: &FrameDevice, frame: FloodFrame<'_>) -> io::Result<FrameFlood> {
        let map = created(&MEMORY)?;
        let shared = Shared::of(&map)?;
        let send = loaded(BPF_PROG_TYPE_XDP, &sending(map.as_raw_fd(), device.index(), frame), 0)?;
        let count = loaded(BPF_PROG_TYPE_RAW_TRACEPOINT, &counting(map.as_raw_fd()), 0)?;
        let count = traced(&count)?;
        let check = frame.bytes.get(frame.payload_at + 12..frame.payload_at + 16);
        let check: [u8; 4] =
            check.and_then(|check| check.try_into().ok()).ok_or(io::ErrorKind::InvalidInput)?;
        shared.at(CHECK).store(u32::from_be_bytes(check).into(), Ordering::Relaxed);
        for (table, at) in frame.checks.iter().zip((CHANGES..).step_by(1_024)) {
            for (pair, at) in table.as_chunks::<2>().0.iter().zip((at..).step_by(8)) {
                let [low, high] = pair.map(u32::to_ne_bytes);
                let both = [low, high].concat().try_into().map(u64::from_ne_bytes);
                shared.at(at).store(both.unwrap_or_default(), Ordering::Relaxed);
            }
        }
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        shared.at(THREAD).store(thread as u64, Ordering::Relaxed);
        shared.at(END).store(u64::MAX, Ordering::Relaxed);
        shared.at(LAST).store(1, Ordering::Relaxed);
        // Number 0 under a check that is wrong: nobody takes it for a frame of the test.
        let right = shared.at(CHECK).swap(!0, Ordering::Relaxed);
        let flood = FrameFlood { send, count, shared, frame: frame.bytes.to_vec() };
        flood.run(1)?;
        if flood.left() != 1 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        flood.shared.at(CHECK).store(right, Ordering::Relaxed);
        for at in (FRAMES..CHANGES).step_by(8) {
            flood.shared.at(at).store(0, Ordering::Relaxed);
        }
        flood.shared.at(LEFT).store(0, Ordering::Relaxed);
        Ok(flood)
    }

    /// The next frame is number `next`, and none from `last` on leaves, nor any `end` nanoseconds
    /// after `start` by the monotonic clock; times in frames are since then.
    pub(crate) fn set(&self, next: u64, last: u64, start: u64, end: u64) {
        for (at, value) in [(NEXT, next), (LAST, last), (START, start), (END, end)] {
            self.shared.at(at).store(value, Ordering::Relaxed);
        }
    }

    /// Sends `frames`, or as many as there may be.
    ///
    /// # Errors
    /// What the kernel says; a signal only ends it early.
    pub(crate) fn run(&self, frames: u32) -> io::Result<()> {
        let run = TestRun {
            program: self.send.as_raw_fd() as u32,
            bytes: self.frame.len() as u32,
            data: self.frame.as_ptr() as u64,
            repeat: frames,
            flags: BPF_F_TEST_XDP_LIVE_FRAMES,
            batch: BATCH,
            ..TestRun::default()
        };
        // SAFETY: the kernel reads this structure and as many bytes of the frame as it says.
        match unsafe { bpf(BPF_PROG_TEST_RUN, &run) } {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    /// The number of the next frame.
    pub(crate) fn next(&self) -> u64 {
        self.shared.at(NEXT).load(Ordering::Relaxed)
    }

    /// Frames that the device took since this was opened.
    pub(crate) fn left(&self) -> u64 {
        self.shared.at(LEFT).load(Ordering::Relaxed)
    }

    /// Frames made in `second`, and those of them that the device did not take; each is told once.
    pub(crate) fn take_second(&self, second: u64) -> (u64, u64) {
        let slot = 8 * (second % SECONDS as u64) as i16;
        let take = |at: i16| self.shared.at(at + slot).swap(0, Ordering::Relaxed);
        (take(FRAMES), take(DROPS))
    }
}

/// The memory of both programs.
#[derive(Debug)]
struct Shared(NonNull<u8>);

// SAFETY: it is reached by atomic operations alone.
unsafe impl Send for Shared {}

impl Shared {
    fn of(map: &OwnedFd) -> io::Result<Shared> {
        // SAFETY: a mapping at an address of the kernel's choice overlaps nothing.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                MAPPED,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(memory.cast()).map(Shared).ok_or(io::ErrorKind::OutOfMemory.into())
    }

    /// The number at one of the places above.
    fn at(&self, at: i16) -> &AtomicU64 {
        debug_assert!(at >= 0 && at % 8 == 0 && (at as usize) < VALUE);
        // SAFETY: every place is within the mapping and a multiple of eight, and the mapping begins
        // at a page.
        unsafe { AtomicU64::from_ptr(self.0.as_ptr().add(at as usize).cast()) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length, and nothing of it is borrowed any more.
        unsafe { libc::munmap(self.0.as_ptr().cast(), MAPPED) };
    }
}

/// Adds `by` to what counts the second `second` at `base`, in the memory to which `memory` points;
/// changes R3 and R4.
fn count(program: &mut Program, memory: u8, second: u8, base: i16, by: impl Fn(&mut Program)) {
    program.register(MOV, R4, second);
    program.number(AND, R4, SECONDS as i32 - 1);
    program.number(SHL, R4, 3);
    program.register(ADD, R4, memory);
    program.load(R3, R4, base);
    by(program);
    program.store(R4, base, R3);
}

/// Makes the next frame and gives it to the device `index`; drops it where none is to be sent.
fn sending(map: c_int, index: c_int, frame: FloodFrame<'_>) -> Vec<Step> {
    let mut program = Program::default();
    let at = frame.payload_at as i16;
    program.register(MOV, R7, R1);
    program.memory(R6, map);
    program.call(KTIME_GET_NS);
    program.register(MOV, R8, R0);
    program.load(R1, R6, START);
    program.register(SUB, R8, R1);
    program.load(R1, R6, END);
    let over = program.jump(AT_LEAST, R8, R1);
    program.load(R5, R6, NEXT);
    program.load(R1, R6, LAST);
    let enough = program.jump(AT_LEAST, R5, R1);
    // The kernel's proof that the frame is as long as this program takes it to be.
    program.load_half(R2, R7, 0);
    program.load_half(R3, R7, 4);
    program.register(MOV, R4, R2);
    program.number(ADD, R4, i32::from(at) + 16);
    let short = program.jump(ABOVE, R4, R3);
    program.register(MOV, R1, R5);
    program.number(ADD, R1, 1);
    program.store(R6, NEXT, R1);
    program.number(DIV, R8, 1_000);
    program.register(MOV, R0, R8);
    program.number(DIV, R0, 1_000_000);
    program.store(R6, SECOND, R0);
    count(&mut program, R6, R0, FRAMES, |program| program.number(ADD, R3, 1));
    // A frame's memory is used again, and a receiver may have moved the header within it.
    for (place, part) in (0..).step_by(4).zip(frame.bytes[..frame.payload_at + 4].as_chunks().0) {
        program.step(0x62, R2, 0, place, i32::from_ne_bytes(*part));
    }
    program.load_half(R0, R6, CHECK);
    for k in 0..CHANGED {
        let (from, shift) = if k < 4 { (R5, 24 - 8 * k) } else { (R8, 56 - 8 * k) };
        program.register(MOV, R3, from);
        program.number(SHR, R3, shift.into());
        program.number(AND, R3, 255);
        program.number(SHL, R3, 2);
        program.register(MOV, R4, R6);
        program.register(ADD, R4, R3);
        program.load_half(R4, R4, CHANGES + 1_024 * k);
        program.register(XOR, R0, R4);
    }
    program.store_big_endian(R2, at + 4, R5);
    program.store_big_endian(R2, at + 8, R8);
    program.store_big_endian(R2, at + 12, R0);
    program.number(MOV, R1, index);
    program.number(MOV, R2, 0);
    program.call(REDIRECT);
    program.exit();
    [over, enough, short].into_iter().for_each(|jump| program.land(jump));
    program.number(MOV, R0, XDP_DROP);
    program.exit();
    program.steps()
}

/// Counts what the kernel says of batches that this thread's frames were in: taken, and not.
fn counting(map: c_int) -> Vec<Step> {
    // The third and the fourth of what the trace has: it begins with two devices.
    const SENT: i16 = 16;
    const NOT_SENT: i16 = 24;
    let mut program = Program::default();
    program.register(MOV, R6, R1);
    program.call(GET_CURRENT_PID_TGID);
    program.number(SHL, R0, 32);
    program.number(SHR, R0, 32);
    program.memory(R7, map);
    program.load(R1, R7, THREAD);
    let other = program.jump(DIFFERS, R0, R1);
    program.load(R1, R6, SENT);
    program.load(R2, R7, LEFT);
    program.register(ADD, R2, R1);
    program.store(R7, LEFT, R2);
    program.load(R5, R6, NOT_SENT);
    program.load(R8, R7, SECOND);
    count(&mut program, R7, R8, DROPS, |program| program.register(ADD, R3, R5));
    program.land(other);
    program.number(MOV, R0, 0);
    program.exit();
    program.steps()
}

/// Parts of `union bpf_attr`.
#[repr(C)]
struct RawTracepoint {
    name: u64,
    program: u32,
    pad: u32,
}

#[derive(Default)]
#[repr(C)]
struct TestRun {
    program: u32,
    result: u32,
    bytes: u32,
    bytes_out: u32,
    data: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    context: [u32; 2],
    contexts: [u64; 2],
    flags: u32,
    cpu: u32,
    batch: u32,
    pad: u32,
}

fn traced(program: &OwnedFd) -> io::Result<OwnedFd> {
    let name = c"xdp_devmap_xmit".as_ptr() as u64;
    let open = RawTracepoint { name, program: program.as_raw_fd() as u32, pad: 0 };
    // SAFETY: the kernel reads this structure and the name, which lives longer.
    unsafe { bpf(BPF_RAW_TRACEPOINT_OPEN, &open) }.and_then(owned)
}

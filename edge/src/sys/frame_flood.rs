//! One Ethernet frame sent over and over from within the kernel, by an XDP program that writes number,
//! time and check into each (`BPF_F_TEST_XDP_LIVE_FRAMES`, Linux 5.18): no system call, no socket and no
//! packet buffer for a frame, which took two thirds of its time over a veth pair.
//!
//! Nothing tells such a program that a device did not take a frame. The kernel's own trace of each batch
//! that it gives to a device (`xdp:xdp_devmap_xmit`) does: a second program counts there, for this thread
//! alone. libbpf's features need a feature of this crate; two programs without a relocation do not.

use super::frames::FrameDevice;
use std::ffi::{c_int, c_long};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
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
/// Frames that the kernel handles at once: a veth device's ring has room for 256.
const BATCH: u32 = 128;

// From linux/bpf.h.
const BPF_MAP_CREATE: c_int = 0;
const BPF_PROG_LOAD: c_int = 5;
const BPF_PROG_TEST_RUN: c_int = 10;
const BPF_RAW_TRACEPOINT_OPEN: c_int = 17;
const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_F_MMAPABLE: u32 = 1 << 10;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_PROG_TYPE_RAW_TRACEPOINT: u32 = 17;
const BPF_F_TEST_XDP_LIVE_FRAMES: u32 = 2;
const BPF_PSEUDO_MAP_VALUE: u8 = 2;
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
        let map = created()?;
        let shared = Shared::of(&map)?;
        let send = loaded(BPF_PROG_TYPE_XDP, &sending(map.as_raw_fd(), device.index(), frame))?;
        let count = loaded(BPF_PROG_TYPE_RAW_TRACEPOINT, &counting(map.as_raw_fd()))?;
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

    /// The next frame is number `next`, and none from `last` on leaves, nor any `end` nanoseconds after
    /// `start` by the monotonic clock; times in frames are since then.
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
        // SAFETY: every place is within the mapping and a multiple of eight, and the mapping begins at
        // a page.
        unsafe { AtomicU64::from_ptr(self.0.as_ptr().add(at as usize).cast()) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length, and nothing of it is borrowed any more.
        unsafe { libc::munmap(self.0.as_ptr().cast(), MAPPED) };
    }
}

/// `struct bpf_insn`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Step {
    code: u8,
    registers: u8,
    offset: i16,
    value: i32,
}

/// A program under way.
#[derive(Default)]
struct Program(Vec<Step>);

// Registers: of a call 0 is the result, and it leaves 6 and above alone.
const R0: u8 = 0;
const R1: u8 = 1;
const R2: u8 = 2;
const R3: u8 = 3;
const R4: u8 = 4;
const R5: u8 = 5;
const R6: u8 = 6;
const R7: u8 = 7;
const R8: u8 = 8;

// Operations of 64 bits on a register and a number; with `BY` on two registers.
const ADD: u8 = 0x07;
const SUB: u8 = 0x17;
const DIV: u8 = 0x37;
const AND: u8 = 0x57;
const SHL: u8 = 0x67;
const SHR: u8 = 0x77;
const XOR: u8 = 0xa7;
const MOV: u8 = 0xb7;
const BY: u8 = 0x08;
// Jumps if the first is above the second, at least it, or another.
const ABOVE: u8 = 0x2d;
const AT_LEAST: u8 = 0x3d;
const DIFFERS: u8 = 0x5d;

impl Program {
    fn step(&mut self, code: u8, to: u8, from: u8, offset: i16, value: i32) {
        self.0.push(Step { code, registers: from << 4 | to, offset, value });
    }

    /// `to = to operation value`.
    fn number(&mut self, operation: u8, to: u8, value: i32) {
        self.step(operation, to, 0, 0, value);
    }

    /// `to = to operation from`.
    fn register(&mut self, operation: u8, to: u8, from: u8) {
        self.step(operation | BY, to, from, 0, 0);
    }

    fn load(&mut self, to: u8, from: u8, offset: i16) {
        self.step(0x79, to, from, offset, 0);
    }

    fn load_half(&mut self, to: u8, from: u8, offset: i16) {
        self.step(0x61, to, from, offset, 0);
    }

    fn store(&mut self, to: u8, offset: i16, from: u8) {
        self.step(0x7b, to, from, offset, 0);
    }

    /// Stores the lower half of `from` from its highest byte on.
    fn store_big_endian(&mut self, to: u8, offset: i16, from: u8) {
        self.step(0xdc, from, 0, 0, 32);
        self.step(0x63, to, from, offset, 0);
    }

    fn memory(&mut self, to: u8, map: c_int) {
        self.step(0x18, to, BPF_PSEUDO_MAP_VALUE, 0, map);
        self.step(0, 0, 0, 0, 0);
    }

    fn call(&mut self, helper: i32) {
        self.step(0x85, 0, 0, 0, helper);
    }

    /// A jump forward, whose end is not known yet.
    fn jump(&mut self, code: u8, one: u8, other: u8) -> usize {
        self.step(code, one, other, 0, 0);
        self.0.len() - 1
    }

    /// The jump `from` ends here.
    fn land(&mut self, from: usize) {
        self.0[from].offset = (self.0.len() - from - 1) as i16;
    }

    fn exit(&mut self) {
        self.step(0x95, 0, 0, 0, 0);
    }

    /// Adds `by` to what counts the second `second` at `base`, in the memory to which `memory` points;
    /// changes R3 and R4.
    fn count(&mut self, memory: u8, second: u8, base: i16, by: impl Fn(&mut Program)) {
        self.register(MOV, R4, second);
        self.number(AND, R4, SECONDS as i32 - 1);
        self.number(SHL, R4, 3);
        self.register(ADD, R4, memory);
        self.load(R3, R4, base);
        by(self);
        self.store(R4, base, R3);
    }
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
    program.count(R6, R0, FRAMES, |program| program.number(ADD, R3, 1));
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
    program.0
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
    program.count(R7, R8, DROPS, |program| program.register(ADD, R3, R5));
    program.land(other);
    program.number(MOV, R0, 0);
    program.exit();
    program.0
}

/// Parts of `union bpf_attr`.
#[repr(C)]
struct MapCreate {
    kind: u32,
    key: u32,
    value: u32,
    entries: u32,
    flags: u32,
    pad: u32,
}

#[repr(C)]
struct ProgramLoad {
    kind: u32,
    steps: u32,
    program: u64,
    license: u64,
    log: [u32; 2],
    log_buffer: u64,
    version: u32,
    flags: u32,
}

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

fn created() -> io::Result<OwnedFd> {
    let map = MapCreate {
        kind: BPF_MAP_TYPE_ARRAY,
        key: 4,
        value: VALUE as u32,
        entries: 1,
        flags: BPF_F_MMAPABLE,
        pad: 0,
    };
    // SAFETY: the kernel reads this structure, which has no pointer.
    unsafe { bpf(BPF_MAP_CREATE, &map) }.and_then(owned)
}

fn loaded(kind: u32, program: &[Step]) -> io::Result<OwnedFd> {
    let load = ProgramLoad {
        kind,
        steps: program.len() as u32,
        program: program.as_ptr() as u64,
        // None of what they call asks for another.
        license: c"MIT".as_ptr() as u64,
        log: [0; 2],
        log_buffer: 0,
        version: 0,
        flags: 0,
    };
    // SAFETY: the kernel reads this structure, the program and the licence, which live longer.
    unsafe { bpf(BPF_PROG_LOAD, &load) }.and_then(owned)
}

fn traced(program: &OwnedFd) -> io::Result<OwnedFd> {
    let name = c"xdp_devmap_xmit".as_ptr() as u64;
    let open = RawTracepoint { name, program: program.as_raw_fd() as u32, pad: 0 };
    // SAFETY: the kernel reads this structure and the name, which lives longer.
    unsafe { bpf(BPF_RAW_TRACEPOINT_OPEN, &open) }.and_then(owned)
}

fn owned(fd: c_long) -> io::Result<OwnedFd> {
    // SAFETY: these commands return a new descriptor, which is nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as c_int) })
}

/// # Safety
/// `attributes` is the part of `union bpf_attr` that `command` reads, and its pointers are to what that
/// reads.
unsafe fn bpf<T>(command: c_int, attributes: &T) -> io::Result<c_long> {
    // SAFETY: as the caller promises.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>())
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

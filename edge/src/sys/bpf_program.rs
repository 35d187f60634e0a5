//! BPF programs written step by step, the maps that they share with this process, and their
//! loading: for programs that need no relocation, so that the features of libbpf are not needed.

use std::ffi::{c_int, c_long};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

// From linux/bpf.h.
const BPF_MAP_CREATE: c_int = 0;
const BPF_PROG_LOAD: c_int = 5;
const BPF_PSEUDO_MAP_FD: u8 = 1;
const BPF_PSEUDO_MAP_VALUE: u8 = 2;
pub(super) const BPF_PROG_TYPE_XDP: u32 = 6;

/// `struct bpf_insn`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Step {
    code: u8,
    registers: u8,
    offset: i16,
    value: i32,
}

/// A program under way.
#[derive(Default)]
pub(super) struct Program(Vec<Step>);

// Registers: of a call 0 is the result, and it leaves 6 and above alone.
pub(super) const R0: u8 = 0;
pub(super) const R1: u8 = 1;
pub(super) const R2: u8 = 2;
pub(super) const R3: u8 = 3;
pub(super) const R4: u8 = 4;
pub(super) const R5: u8 = 5;
pub(super) const R6: u8 = 6;
pub(super) const R7: u8 = 7;
pub(super) const R8: u8 = 8;

// Operations of 64 bits on a register and a number; with `BY` on two registers.
pub(super) const ADD: u8 = 0x07;
pub(super) const SUB: u8 = 0x17;
pub(super) const DIV: u8 = 0x37;
pub(super) const AND: u8 = 0x57;
pub(super) const SHL: u8 = 0x67;
pub(super) const SHR: u8 = 0x77;
pub(super) const XOR: u8 = 0xa7;
pub(super) const MOV: u8 = 0xb7;
const BY: u8 = 0x08;
// Jumps if the first is above the second, at least it, or another.
pub(super) const ABOVE: u8 = 0x2d;
pub(super) const AT_LEAST: u8 = 0x3d;
pub(super) const DIFFERS: u8 = 0x5d;
// Jumps if the lower half of a register is a number, or another.
pub(super) const HALF_IS: u8 = 0x16;
pub(super) const HALF_DIFFERS: u8 = 0x56;

impl Program {
    pub(super) fn step(&mut self, code: u8, to: u8, from: u8, offset: i16, value: i32) {
        self.0.push(Step { code, registers: from << 4 | to, offset, value });
    }

    /// `to = to operation value`.
    pub(super) fn number(&mut self, operation: u8, to: u8, value: i32) {
        self.step(operation, to, 0, 0, value);
    }

    /// `to = to operation from`.
    pub(super) fn register(&mut self, operation: u8, to: u8, from: u8) {
        self.step(operation | BY, to, from, 0, 0);
    }

    pub(super) fn load(&mut self, to: u8, from: u8, offset: i16) {
        self.step(0x79, to, from, offset, 0);
    }

    pub(super) fn load_half(&mut self, to: u8, from: u8, offset: i16) {
        self.step(0x61, to, from, offset, 0);
    }

    pub(super) fn load_byte(&mut self, to: u8, from: u8, offset: i16) {
        self.step(0x71, to, from, offset, 0);
    }

    pub(super) fn store(&mut self, to: u8, offset: i16, from: u8) {
        self.step(0x7b, to, from, offset, 0);
    }

    /// Stores the lower half of `from` from its highest byte on.
    pub(super) fn store_big_endian(&mut self, to: u8, offset: i16, from: u8) {
        self.step(0xdc, from, 0, 0, 32);
        self.step(0x63, to, from, offset, 0);
    }

    /// `to` points to the first value of `map`.
    pub(super) fn memory(&mut self, to: u8, map: c_int) {
        self.step(0x18, to, BPF_PSEUDO_MAP_VALUE, 0, map);
        self.step(0, 0, 0, 0, 0);
    }

    /// `to` is `map` itself.
    pub(super) fn map(&mut self, to: u8, map: c_int) {
        self.step(0x18, to, BPF_PSEUDO_MAP_FD, 0, map);
        self.step(0, 0, 0, 0, 0);
    }

    pub(super) fn call(&mut self, helper: i32) {
        self.step(0x85, 0, 0, 0, helper);
    }

    /// A jump forward, whose end is not known yet.
    pub(super) fn jump(&mut self, code: u8, one: u8, other: u8) -> usize {
        self.step(code, one, other, 0, 0);
        self.0.len() - 1
    }

    /// As [`jump`](Program::jump), by a register and a number.
    pub(super) fn jump_number(&mut self, code: u8, one: u8, number: i32) -> usize {
        self.step(code, one, 0, 0, number);
        self.0.len() - 1
    }

    /// The jump `from` ends here.
    pub(super) fn land(&mut self, from: usize) {
        self.0[from].offset = (self.0.len() - from - 1) as i16;
    }

    pub(super) fn exit(&mut self) {
        self.step(0x95, 0, 0, 0, 0);
    }

    /// Its steps.
    pub(super) fn steps(self) -> Vec<Step> {
        self.0
    }
}

/// What a map is, of the attributes of `BPF_MAP_CREATE`.
#[repr(C)]
pub(super) struct MapCreate {
    pub(super) kind: u32,
    /// Bytes of a key, and of a value.
    pub(super) key: u32,
    pub(super) value: u32,
    pub(super) entries: u32,
    pub(super) flags: u32,
    pub(super) pad: u32,
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

/// Makes a map.
///
/// # Errors
/// `EPERM` without the right, `EINVAL` of a kernel that knows no such map.
pub(super) fn created(map: &MapCreate) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads this structure, which has no pointer.
    unsafe { bpf(BPF_MAP_CREATE, map) }.and_then(owned)
}

/// Loads a program of a type, with the `BPF_F_` flags.
///
/// # Errors
/// `EPERM` without the right, `EINVAL` or `EACCES` of a program that the kernel does not take.
pub(super) fn loaded(kind: u32, program: &[Step], flags: u32) -> io::Result<OwnedFd> {
    let load = ProgramLoad {
        kind,
        steps: program.len() as u32,
        program: program.as_ptr() as u64,
        // None of what they call asks for another.
        license: c"MIT".as_ptr() as u64,
        log: [0; 2],
        log_buffer: 0,
        version: 0,
        flags,
    };
    // SAFETY: the kernel reads this structure, the program and the licence, which live longer.
    unsafe { bpf(BPF_PROG_LOAD, &load) }.and_then(owned)
}

/// The descriptor that a command returned.
pub(super) fn owned(fd: c_long) -> io::Result<OwnedFd> {
    // SAFETY: these commands return a new descriptor, which is nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as c_int) })
}

/// # Safety
/// `attributes` is the part of `union bpf_attr` that `command` reads, and its pointers are to what
/// that reads.
pub(super) unsafe fn bpf<T>(command: c_int, attributes: &T) -> io::Result<c_long> {
    // SAFETY: as the caller promises.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>())
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

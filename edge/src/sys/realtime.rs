//! Scheduling of a thread that must wake in time. rustix and libc have no wrapper for these
//! policies, hence the unsafe calls.

use std::io;

/// `struct sched_attr` of linux/sched/types.h, first version.
#[repr(C)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// The kernel's share for a thread that must be in time: this much of each period, whatever else
/// runs.
///
/// Not all of it, so that nothing starves; and in pieces this short, since what others get is our
/// delay error.
const RUNTIME: u64 = 900_000;
const PERIOD: u64 = 1_000_000;

/// Among first-in first-out threads, where other programs leave room above and below.
const PRIORITY: u32 = 10;

/// What an ordinary user may ask for, from Linux 6.12 on: turns this short, the shortest there are.
/// A thread that wakes up takes the processor from one whose turns are longer.
const SLICE: u64 = 100_000;

/// Asks for real-time scheduling of the calling thread: a deadline of 1 ms, else first-in
/// first-out, and where neither may be had for short turns among the others.
///
/// A deadline is better where it is to be had: Linux lets ordinary tasks that starve run before
/// first-in first-out ones, for up to 50 ms at a time.
///
/// # Errors
/// `EPERM` without `CAP_SYS_NICE` and without a real-time limit (`ulimit -r`), also where the turns
/// are short now.
pub(crate) fn be_realtime() -> io::Result<()> {
    let policy = |policy: libc::c_int| Attributes {
        size: size_of::<Attributes>() as u32,
        policy: policy as u32,
        flags: 0,
        nice: 0,
        priority: 0,
        runtime: 0,
        deadline: 0,
        period: 0,
    };
    let deadline = Attributes {
        runtime: RUNTIME,
        deadline: PERIOD,
        period: PERIOD,
        ..policy(libc::SCHED_DEADLINE)
    };
    set(&deadline)
        .or_else(|_| set(&Attributes { priority: PRIORITY, ..policy(libc::SCHED_FIFO) }))
        .inspect_err(|_| {
            // An older kernel ignores or refuses it, and nothing is worse.
            drop(set(&Attributes { runtime: SLICE, ..policy(libc::SCHED_OTHER) }));
        })
}

fn set(attributes: &Attributes) -> io::Result<()> {
    let (thread, flags) = (0, 0);
    // SAFETY: the kernel reads `size` bytes of the structure, which has its layout, and keeps no
    // pointer to it.
    match unsafe {
        libc::syscall(libc::SYS_sched_setattr, thread, std::ptr::from_ref(attributes), flags)
    } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

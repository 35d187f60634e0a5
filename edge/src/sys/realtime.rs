//! Scheduling of a thread that must wake in time. rustix has no scheduling policies, hence the unsafe call.

use std::io;

/// Asks for the first-in first-out real-time policy at `priority` (1 to 99) for the calling thread.
///
/// # Errors
/// `EPERM` without `CAP_SYS_NICE` and without a real-time limit (`ulimit -r`).
pub fn be_realtime(priority: i32) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: the pointer is to a valid `sched_param` that the call only reads; 0 names the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

//! The time of day, and what the kernel says of its clock: `adjtimex(2)`, which only libc has.

use farline_core::units::Span;
use std::io;
use std::time::{Duration, SystemTime};

/// The time of day, since 1970 in UTC; a clock before that reads as 1970.
pub(crate) fn since_1970() -> Duration {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default()
}

/// The time since this host's start, also while it slept; nobody sets it.
#[cfg(feature = "calendar")]
pub(crate) fn since_boot() -> Span {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let nanos = i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
    Span::from_nanos(u64::try_from(nanos).unwrap_or(0))
}

/// The time of day in whole nanoseconds, as files have it.
pub(crate) fn ns_since_1970() -> i64 {
    i64::try_from(since_1970().as_nanos()).unwrap_or(i64::MAX)
}

/// Whether the clock is disciplined, and how far off it may be.
///
/// # Errors
/// Where a sandbox forbids the call.
pub(crate) fn discipline() -> io::Result<(bool, Span)> {
    // SAFETY: an all-zero `timex` is valid, and its `modes` of 0 changes nothing.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the call writes into the `timex` that it is given.
    let answer = unsafe { libc::adjtimex(&raw mut state) };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    let synchronised = answer != libc::TIME_ERROR && state.status & libc::STA_UNSYNC == 0;
    Ok((synchronised, Span::from_micros(u64::try_from(state.maxerror).unwrap_or(0))))
}

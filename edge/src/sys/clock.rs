//! What the kernel says of its clock: `adjtimex(2)`, which only libc has.

use farline_core::units::Span;
use std::io;

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

//! Random bytes of the kernel's.

use rustix::rand::{GetRandomFlags, getrandom};
use std::io;

/// Fills all of `into`, however much of it comes at once.
///
/// # Errors
/// When the kernel gives none.
pub(crate) fn fill(into: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < into.len() {
        filled += getrandom(&mut into[filled..], GetRandomFlags::empty())?;
    }
    Ok(())
}

//! Wakes or ends a wait for a device from another thread.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// What a waiting thread watches next to its device.
#[derive(Debug)]
pub(crate) struct Breaker {
    wake: OwnedFd,
    broken: AtomicBool,
}

impl Breaker {
    /// One that nobody has woken.
    ///
    /// # Errors
    /// When the system has no file descriptor left.
    pub(crate) fn new() -> io::Result<Breaker> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Breaker { wake, broken: AtomicBool::new(false) })
    }

    /// Makes the wait return once.
    pub(crate) fn wake(&self) {
        // The counter can only overflow after 2^64 wakes.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Makes this wait and all later ones fail.
    #[cfg(any(feature = "rdma", test))]
    pub(crate) fn break_now(&self) {
        self.broken.store(true, Ordering::Release);
        self.wake();
    }

    /// Whether somebody woke the wait since the last look.
    ///
    /// # Errors
    /// When it was broken.
    pub(crate) fn is_woken(&self) -> io::Result<bool> {
        let woken = rustix::io::read(&self.wake, &mut [0u8; 8]).is_ok();
        if self.broken.load(Ordering::Acquire) {
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "broken off"));
        }
        Ok(woken)
    }
}

impl AsFd for Breaker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_counts_once_and_a_break_for_ever() {
        let breaker = Breaker::new().expect("a descriptor");
        assert!(!breaker.is_woken().expect("whole"));
        breaker.wake();
        breaker.wake();
        assert!(breaker.is_woken().expect("whole"));
        assert!(!breaker.is_woken().expect("whole"));
        breaker.break_now();
        assert!(breaker.is_woken().is_err());
        assert!(breaker.is_woken().is_err());
    }
}

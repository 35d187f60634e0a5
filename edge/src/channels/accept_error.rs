//! What an error of accept(2) means for who listens: almost never that the listener is gone.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// What to do after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterError {
    /// One connection died before it was taken: the next.
    GoOn,
    /// This host has no room, or its network or firewall objects: try again after a while.
    BackOff,
    /// The listener itself is no listener any more.
    End,
}

impl AfterError {
    /// That of `error`, as accept(2) of Linux names them: what went wrong with a connection before
    /// it was taken is reported by the call that would have taken it.
    pub(crate) fn of(error: &io::Error) -> AfterError {
        match error.raw_os_error() {
            Some(libc::ECONNABORTED | libc::EINTR | libc::EAGAIN) => AfterError::GoOn,
            Some(libc::EBADF | libc::EINVAL | libc::ENOTSOCK | libc::EFAULT) => AfterError::End,
            _ => AfterError::BackOff,
        }
    }
}

/// Whether this process, or all of this host, has no file descriptor left.
pub(crate) fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// How long to wait between two tries: longer each time, until one succeeds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BackOff {
    failures: u32,
}

impl BackOff {
    const FIRST: Duration = Duration::from_millis(10);
    const MOST: Duration = Duration::from_secs(1);

    /// The next span to wait.
    pub(crate) fn next(&mut self) -> Duration {
        let span = BackOff::FIRST * (1 << self.failures.min(10));
        self.failures += 1;
        span.min(BackOff::MOST)
    }

    /// A try succeeded.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

/// The next connection, whatever keeps this host from taking one for a while, of which `full` hears
/// where that is that no file descriptor is left; nothing once the listener is none any more.
pub(crate) async fn accept_next(
    listener: &TcpListener,
    back_off: &mut BackOff,
    full: impl Fn(&io::Error),
) -> Option<(TcpStream, SocketAddr)> {
    loop {
        match listener.accept().await {
            Ok(came) => {
                back_off.reset();
                return Some(came);
            }
            Err(error) => match AfterError::of(&error) {
                AfterError::GoOn => {}
                AfterError::BackOff => {
                    if is_out_of_descriptors(&error) {
                        full(&error);
                    }
                    tokio::time::sleep(back_off.next()).await;
                }
                AfterError::End => return None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_closed_listener_ends_what_listens() {
        let after = |errno| AfterError::of(&io::Error::from_raw_os_error(errno));
        for errno in [
            libc::EPROTO,
            libc::EPERM,
            libc::ENOBUFS,
            libc::ENOMEM,
            libc::ENETDOWN,
            libc::EHOSTUNREACH,
            libc::EMFILE,
            libc::ENFILE,
            libc::EOPNOTSUPP,
        ] {
            assert_eq!(after(errno), AfterError::BackOff, "{errno}");
        }
        assert_eq!(after(libc::ECONNABORTED), AfterError::GoOn);
        assert_eq!(after(libc::EBADF), AfterError::End);
    }

    #[test]
    fn it_waits_longer_each_time_but_never_long() {
        let mut back_off = BackOff::default();
        let waits: Vec<Duration> = (0..50).map(|_| back_off.next()).collect();
        assert!(waits.is_sorted() && waits[0] < waits[1], "{waits:?}");
        assert_eq!(waits[49], Duration::from_secs(1));
        back_off.reset();
        assert_eq!(back_off.next(), waits[0]);
    }
}

//! How long a TCP connection waits before it tries once more to get through: without a bound the
//! next try after an outage may be as far away as the outage was long.

use super::tcp::{set_number, tcp_info};
use farline_core::units::Span;
use std::io;
use std::os::fd::AsFd;

/// `TCP_RTO_MAX_MS` (include/uapi/linux/tcp.h), since Linux 6.15.
const TCP_RTO_MAX_MS: libc::c_int = 44;
/// The least bound that Linux takes (net/ipv4/tcp.c), and its own (`TCP_RTO_MAX_SEC`).
const LEAST: Span = Span::from_secs(1);
const MOST: Span = Span::from_secs(120);
/// So many round trips at least: a timer below the round trip would send everything twice.
const TRIPS: f64 = 4.0;
/// The timer that Linux's own lifetime of a connection begins with (`TCP_RTO_MIN`).
const FIRST: Span = Span::from_millis(200);
/// How often Linux tries again before it gives a connection up (`tcp_retries2`), where it does not
/// say.
const RETRIES: u64 = 15;

/// Has a connection with a round trip of `rtt` try to get through at least each second, or each
/// four round trips, and be given up no earlier for it: what the kernel counts are tries.
///
/// # Errors
/// When the kernel has no such option (before 6.15): then the connection is as it was.
pub(crate) fn retry_often(socket: &impl AsFd, rtt: Span) -> io::Result<()> {
    let stream = socket2::SockRef::from(socket);
    let lasts = lifetime(setting("tcp_retries2").unwrap_or(RETRIES), usual_bound());
    stream.set_tcp_user_timeout(Some(lasts.into()))?;
    bound(socket, bound_for(rtt)).inspect_err(|_| drop(stream.set_tcp_user_timeout(None)))
}

/// Has a connection that was told to try often try as the system does.
///
/// # Errors
/// When the kernel has no such option.
pub(crate) fn retry_as_usual(socket: &impl AsFd) -> io::Result<()> {
    bound(socket, usual_bound())?;
    // A peer that closes its window for long is not dead: with a timeout it would be.
    socket2::SockRef::from(socket).set_tcp_user_timeout(None)
}

/// Has a control connection, which is given up by a timeout of its own, try often as long as it
/// lives: the word that a transfer is over must not wait for what an outage left of its timer.
pub(crate) fn control_retries_often(socket: &impl AsFd) {
    let rtt = tcp_info(socket).map(|info| info.rtt);
    // Only a wish: kernels before 6.15 have no such bound.
    let _ = rtt.and_then(|rtt| bound(socket, bound_for(rtt)));
}

fn bound_for(rtt: Span) -> Span {
    rtt.mul_f64(TRIPS).clamp(LEAST, MOST)
}

fn bound(socket: &impl AsFd, most: Span) -> io::Result<()> {
    set_number(socket, libc::IPPROTO_TCP, TCP_RTO_MAX_MS, most.as_nanos() / 1_000_000)
}

/// The system's own bound (`tcp_rto_max_ms`).
fn usual_bound() -> Span {
    setting("tcp_rto_max_ms").map_or(MOST, Span::from_millis).clamp(LEAST, MOST)
}

fn setting(sysctl: &str) -> Option<u64> {
    std::fs::read_to_string(format!("/proc/sys/net/ipv4/{sysctl}")).ok()?.trim().parse().ok()
}

/// How long Linux lets a connection without an answer live that tries `retries` times, and at
/// least each `most` (`tcp_model_timeout`, net/ipv4/tcp_timer.c).
fn lifetime(retries: u64, most: Span) -> Span {
    let doublings = u64::from((most.as_nanos() / FIRST.as_nanos()).checked_ilog2().unwrap_or(0));
    let doubled = FIRST.mul_f64(((2_u64 << retries.min(doublings).min(60)) - 1) as f64);
    doubled + most.mul_f64(retries.saturating_sub(doublings) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    /// What the kernel says of the option, in milliseconds.
    fn bound_of(stream: &TcpStream) -> Option<libc::c_int> {
        let (mut value, mut len) = (0, size_of::<libc::c_int>() as libc::socklen_t);
        let (fd, level) = (stream.as_fd().as_raw_fd(), libc::IPPROTO_TCP);
        // SAFETY: the kernel writes `len` bytes at most to a number that outlives the call.
        let result = unsafe {
            libc::getsockopt(fd, level, TCP_RTO_MAX_MS, (&raw mut value).cast(), &raw mut len)
        };
        (result == 0).then_some(value)
    }

    #[test]
    fn a_connection_that_tries_often_lives_as_long() {
        let seconds = |retries, most| lifetime(retries, Span::from_secs(most)).as_secs_f64();
        // ip-sysctl.rst: "a hypothetical timeout of 924.6 seconds".
        assert!((seconds(15, 120) - 924.6).abs() < 0.01);
        assert!((seconds(5, 120) - 12.6).abs() < 0.01);
        assert!((seconds(15, 1) - 14.4).abs() < 0.01, "why it needs a timeout of its own");

        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("connect");
        let timeout = || socket2::SockRef::from(&near).tcp_user_timeout().expect("a socket");
        let Some(usual) = bound_of(&near) else {
            assert!(retry_often(&near, Span::ZERO).is_err(), "this kernel has no bound");
            assert_eq!(timeout(), None);
            return;
        };
        retry_often(&near, Span::from_millis(20)).expect("a bound");
        let expected = lifetime(setting("tcp_retries2").unwrap_or(RETRIES), usual_bound());
        assert_eq!(bound_of(&near), Some(1_000));
        assert_eq!(timeout().map(|lasts| lasts.as_secs()), Some(expected.as_secs_f64() as u64));
        retry_often(&near, Span::from_secs(2)).expect("a bound");
        assert_eq!(bound_of(&near), Some(8_000), "a long path is not sent everything twice");
        retry_as_usual(&near).expect("a bound");
        assert_eq!((bound_of(&near), timeout()), (Some(usual), None));
        control_retries_often(&near);
        assert_eq!(bound_of(&near), Some(1_000));
    }
}

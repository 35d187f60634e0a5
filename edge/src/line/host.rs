//! What this host's clocks are worth, and what its devices drop.

use crate::sys::clock::discipline;
use crate::sys::ethtool::interface_of;
use farline_core::line::ClockState;
use farline_core::line::stamp::StampTime;
use farline_core::units::{Span, Time};
use rustix::time::{ClockId, clock_gettime};
use std::net::IpAddr;

/// The time of day, with what the kernel says of it.
pub(super) fn now(discipline: (bool, Span)) -> StampTime {
    StampTime {
        time: at(ClockId::Realtime),
        is_synchronised: discipline.0,
        error_ns: discipline.1.as_nanos(),
        as_it_came: None,
    }
}

/// Since this machine booted, by a clock that nobody sets.
pub(super) fn steady() -> Time {
    at(ClockId::Monotonic)
}

/// How long a test has been running, over all processes that it ran in.
#[derive(Clone, Copy, Debug)]
pub(super) struct TestClock {
    started: Time,
    before: Span,
}

impl TestClock {
    /// A test that was running for `before` when the last process ended.
    pub(super) fn start(before: Span) -> TestClock {
        TestClock { started: steady(), before }
    }

    /// When the test began, by the monotonic clock in nanoseconds; it wraps where that is before
    /// the clock did, and so does a difference to it.
    pub(super) fn zero(&self) -> u64 {
        self.started.as_nanos().wrapping_sub(self.before.as_nanos())
    }

    /// Nanoseconds since the test began.
    pub(super) fn since(&self) -> u64 {
        self.at(steady())
    }

    /// Nanoseconds from the test's begin to `time` by the steady clock.
    pub(super) fn at(&self, time: Time) -> u64 {
        (time.since(self.started) + self.before).as_nanos()
    }
}

fn at(clock: ClockId) -> Time {
    let now = clock_gettime(clock);
    Time::from_nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

/// Whether the clock is synchronised, and how far off it may be: not, and by a second, where a
/// sandbox keeps that for itself.
pub(super) fn clock_state() -> (bool, Span) {
    discipline().unwrap_or((false, Span::from_secs(1)))
}

/// The same for a report.
pub(super) fn kernel_clock((is_synchronised, error): (bool, Span)) -> ClockState {
    ClockState { is_synchronised, error_ns: error.as_nanos() }
}

/// Names the clock that this process reads: the same in every namespace of a machine until it
/// reboots.
pub(super) fn boot() -> u64 {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let hash = blake3::hash(id.as_bytes());
    hash.as_bytes().first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// What nobody else knows.
pub(crate) fn random() -> u64 {
    let mut bytes = [0; 8];
    // Without the system's random numbers TLS would not run either; then time will do.
    if aws_lc_rs::rand::fill(&mut bytes).is_err() {
        bytes = steady().as_nanos().to_be_bytes();
    }
    u64::from_be_bytes(bytes)
}

/// The first 16 bytes of the HMAC of `bytes`.
pub(super) fn mac(key: &aws_lc_rs::hmac::Key, bytes: &[u8]) -> [u8; 16] {
    let tag = aws_lc_rs::hmac::sign(key, bytes);
    tag.as_ref().first_chunk().copied().unwrap_or_default()
}

/// The drops of the device through which an address of this host's is reached.
#[derive(Clone, Debug)]
pub(super) struct DeviceDrops {
    device: Option<String>,
}

impl DeviceDrops {
    pub(super) fn of(local: IpAddr) -> DeviceDrops {
        DeviceDrops { device: interface_of(local.to_canonical()) }
    }

    pub(super) fn named(device: &str) -> DeviceDrops {
        DeviceDrops { device: Some(device.to_owned()) }
    }

    /// Packets dropped on their way in and on their way out, since the device came up.
    pub(super) fn read(&self) -> (u64, u64) {
        let Some(device) = &self.device else { return (0, 0) };
        let text = std::fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
        counted(&text, device)
    }
}

/// The columns of proc(5): bytes, packets, errs, drop and fifo of what comes in, and from the ninth
/// on the same of what goes out.
fn counted(text: &str, device: &str) -> (u64, u64) {
    let mut lines = text.lines().filter_map(|line| line.trim_start().split_once(':'));
    let Some((_, counts)) = lines.find(|(name, _)| *name == device) else { return (0, 0) };
    let counts: Vec<u64> =
        counts.split_whitespace().filter_map(|count| count.parse().ok()).collect();
    let sum = |from: usize| counts.iter().skip(from).take(2).sum();
    (sum(3), sum(11))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_and_overruns_of_a_device_are_added_up() {
        let text = "Inter-|   Receive                                                |  Transmit\n \
            face |bytes    packets errs drop fifo frame compressed multicast|bytes packets errs \
                    drop fifo colls carrier compressed\n    lo:  1 2 0 0 0 0 0 0 1 2 0 0 0 0 0 0\n  \
            wan0: 100 10 0 3 4 0 0 0 200 20 0 5 6 0 0 0\n";
        assert_eq!(counted(text, "wan0"), (7, 11));
        assert_eq!(counted(text, "eth0"), (0, 0));
        assert!(DeviceDrops::of(IpAddr::from([127, 0, 0, 1])).device.is_some());
    }

    #[test]
    fn the_time_of_day_is_this_century() {
        let now = now(clock_state());
        assert!(now.time.as_nanos() > 1_600_000_000_000_000_000);
        assert_ne!(boot(), 0);
    }
}

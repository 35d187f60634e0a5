//! What follows from a path's round-trip time: how long a queue pair waits for an acknowledgement,
//! how many of them fill the path, and for how many slots on their way they are made.

use super::MOST_CREDITS;
use crate::units::{Bytes, Rate, Span};

/// The exponent of the acknowledgement timeout, 4.096 us * 2^n (InfiniBand Architecture
/// Specification 1.2.1, section 9.7.6.1.3), for a path of this round-trip time.
///
/// Four round trips, since a responder may coalesce acknowledgements, and no less than 1.07 s
/// (2^18). A packet lost in the middle is asked for at once; the timeout is for the last one and
/// for a peer that is gone, and eight of them are an outage that a connection survives. A shorter
/// one makes a device in software repeat what is only late: Linux's soft-RoCE then fails with
/// "remote invalid request", which 67 ms did on a busy guest.
pub fn ack_timeout_exponent(rtt: Span) -> u8 {
    const LEAST: u8 = 18;
    let wanted = rtt.as_nanos().saturating_mul(4);
    (LEAST..31).find(|&exponent| 4096u64 << exponent >= wanted).unwrap_or(31)
}

/// How many queue pairs a channel should have on a path of this round-trip time.
///
/// One reliable connection has a limited number of packets on their way, whatever is posted.
/// Devices differ; Linux's soft-RoCE has 128, of which its own interface may hold 64 (rxe_param.h:
/// `RXE_MAX_UNACKED_PSNS`, `RXE_INFLIGHT_SKBS_PER_QP_HIGH`). A millisecond is 12.5 MB at 100
/// Gbit/s, which one still carries; what is farther gets four, as parallel streams for TCP, and
/// beyond 20 ms eight. More would take longer to connect than they save: rdma_cm asks for one after
/// the other.
pub fn queue_pairs_for(rtt: Span) -> u8 {
    match rtt {
        near if near <= Span::from_millis(1) => 1,
        far if far <= Span::from_millis(20) => 4,
        _ => 8,
    }
}

/// The rate for which a channel's queues are made.
const AIM: Rate = Rate::from_bps(100_000_000_000);

/// For how many slots of `slot_len` on their way a channel should be made that begins with `begin`:
/// for two bandwidth-delay products. Its window grows up to that when the path turns out to hold as
/// much; what is only agreed on costs some kilobytes for each.
pub fn credits_for(rtt: Span, slot_len: Bytes, begin: u16) -> u16 {
    let wanted = 2 * AIM.bytes_in(rtt).0 / slot_len.0.max(1);
    u16::try_from(wanted).unwrap_or(u16::MAX).max(begin).clamp(1, MOST_CREDITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_path_gets_all_credits_a_short_one_its_first() {
        let credits = |rtt| credits_for(rtt, Bytes::mib(1), 8);
        assert_eq!(
            (credits(Span::from_micros(50)), credits(Span::from_millis(163))),
            (8, MOST_CREDITS)
        );
        // 1 ms at 100 Gbit/s, twice, are 23.8 MiB.
        assert_eq!(credits(Span::from_millis(1)), 23);
        assert_eq!(credits_for(Span::ZERO, Bytes::mib(1), 1000), MOST_CREDITS);
    }

    #[test]
    fn timeouts_fit_the_longest_path_and_are_short_on_a_short_one() {
        let timeout =
            |rtt_ms: u64| Span::from_nanos(4096 << ack_timeout_exponent(Span::from_millis(rtt_ms)));
        assert!(
            timeout(163) >= Span::from_millis(4 * 163) && timeout(163) < Span::from_millis(8 * 163)
        );
        assert_eq!(timeout(0), Span::from_nanos(4096 << 18));
        assert_eq!(ack_timeout_exponent(Span::from_millis(u64::MAX / 2_000_000)), 31);
    }
}

//! A booked rate, as a client has a node admit it: `OPTS FARLINE rate=BITS,CHANNELS`
//! (`docs/protocol.md`, O-8).

use crate::units::{Bytes, Rate, Span};

/// Products of rate and round trip that buffers are made for: a packet that is lost twice is waited
/// for, and a reader may pause.
const PRODUCTS: f64 = 2.0;
/// Bytes on top: a few blocks that a reader has not taken yet.
const SPARE: u64 = 8 << 20;
/// The most of a buffer: half of what a kernel lets one have.
const MOST: u64 = 512 << 20;
/// A round trip of which nothing is known is taken to be so long.
const UNKNOWN_RTT: Span = Span::from_millis(200);

/// What a session's sender is to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldRate {
    /// Of all channels together: bits on an Ethernet's wire.
    pub rate: Rate,
    /// Channels that share it evenly, at least one.
    pub channels: usize,
}

impl HeldRate {
    /// What each channel holds.
    pub fn share(&self) -> Rate {
        Rate::from_bps(self.rate.as_bps() / self.channels.max(1) as u64)
    }

    /// Bytes that a channel's buffers must hold over a path of this round trip.
    pub fn buffer(&self, rtt: Span) -> Bytes {
        let rtt = if rtt == Span::ZERO { UNKNOWN_RTT } else { rtt };
        let product = self.share().bytes_in(rtt).0 as f64 * PRODUCTS;
        Bytes((product as u64).saturating_add(SPARE).min(MOST))
    }

    /// What the path holds for which [`buffer`](Self::buffer) gave such a buffer.
    pub fn on_path(buffer: Bytes) -> Bytes {
        Bytes((buffer.0.saturating_sub(SPARE) as f64 / PRODUCTS) as u64)
    }

    /// The option's value.
    pub fn value(&self) -> String {
        format!("{},{}", self.rate.as_bps(), self.channels)
    }

    /// Reads the option's value; `None` for what is none. A rate of 0 asks for nothing.
    pub fn parse(value: &str) -> Option<HeldRate> {
        let (rate, channels) = value.split_once(',')?;
        let channels = channels.parse().ok().filter(|channels| (1..=1_024).contains(channels))?;
        Some(HeldRate { rate: Rate::from_bps(rate.parse().ok()?), channels })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_read_back_and_nonsense_is_none() {
        let held = HeldRate { rate: Rate::from_bps(4_000_000_000), channels: 4 };
        assert_eq!(held.value(), "4000000000,4");
        assert_eq!(HeldRate::parse(&held.value()), Some(held));
        assert_eq!(held.share(), Rate::from_bps(1_000_000_000));
        for wrong in ["", "4000000000", "4G,1", "1,0", "1,", "-1,1", "1,1,1", "1,4096"] {
            assert_eq!(HeldRate::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn buffers_hold_twice_what_is_on_its_way() {
        let held = |gbit: u64| HeldRate { rate: Rate::from_bps(gbit * 1_000_000_000), channels: 1 };
        let rtt = Span::from_millis(100);
        assert_eq!(held(1).buffer(rtt), Bytes(25_000_000 + SPARE));
        assert_eq!(held(1).buffer(Span::ZERO), Bytes(50_000_000 + SPARE));
        assert_eq!(held(1_000).buffer(rtt), Bytes(MOST));
        assert_eq!(HeldRate::on_path(held(1).buffer(rtt)), Bytes(12_500_000));
        assert_eq!(HeldRate::on_path(Bytes(1)), Bytes(0), "one that was asked for");
    }
}

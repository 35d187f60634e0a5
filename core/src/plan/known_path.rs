//! With how many channels a transfer begins over a path that is known, where their number is all
//! that it can choose by what it knows.
//!
//! A TCP connection begins with the window that its kernel gives it; with more it begins by a
//! program in the kernel alone (RFC 9959). Several begin together with more than one: twice as many
//! are a round trip sooner at what the path held. None of them sends what it might not send over an
//! unknown path, so that there is nothing to give back where the path has become another.

use super::estimate::{WORTH, most_streams};
use super::limits::ChannelLimits;
use crate::congestion::SavedPath;
use crate::units::{Bytes, Rate, Span};

/// What a connection begins with: ten segments (RFC 6928), of 1,500-byte packets with timestamps.
const FIRST_WINDOW: Bytes = Bytes(10 * 1_448);
/// Over a shorter path windows have grown before anybody notices.
const SHORTEST: Span = Span::from_millis(5);

impl SavedPath {
    /// With how many channels to begin to move `size`, where a plan that knows nothing of the path
    /// has `planned`: the fewest of that number, doubled so often, of which more win nothing that
    /// is worth it over a path as it was. Together they begin with no more than half of what it
    /// held. `rtt` is the round trip now: of a path that it does not confirm nothing is known.
    pub fn channels(&self, planned: u32, rtt: Span, size: Bytes) -> u32 {
        let planned = planned.max(1);
        if self.rtt < SHORTEST || !self.is_confirmed_by(rtt) {
            return planned;
        }
        let first = |streams: u32| u64::from(streams) * FIRST_WINDOW.0;
        // Slow start is over at half of what is known, as with a jump, or when all is sent.
        let aim = self.jump().min(size).0;
        let at_rate = Rate::of(self.in_flight, self.rtt).time_for(size);
        let took = |streams: u32| {
            let trips = (aim as f64 / first(streams) as f64).log2().max(0.0);
            at_rate + rtt.mul_f64(trips)
        };
        let most = ChannelLimits::TRANSFER.min(most_streams(Some(size)));
        let twice = |streams: &u32| {
            let twice = streams.saturating_mul(2);
            (twice <= most && first(twice) <= aim).then_some(twice)
        };
        let tried: Vec<u32> = std::iter::successors(Some(planned), twice).collect();
        let least = tried.iter().map(|&streams| took(streams)).min().unwrap_or_default();
        let is_good = |streams: &u32| took(*streams) <= least.mul_f64(1.0 + WORTH);
        tried.into_iter().find(is_good).unwrap_or(planned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Reason, StreamsReason};

    /// A path of so many Mbit/s and milliseconds, as an earlier transfer saw it.
    fn saved(mbps: u64, millis: u64) -> SavedPath {
        let rtt = Span::from_millis(millis);
        let in_flight = Rate::from_bps(mbps * 1_000_000).bytes_in(rtt);
        SavedPath { in_flight, rtt, fills: true }
    }

    #[test]
    fn a_known_path_has_the_channels_that_save_it_round_trips() {
        // Mbit/s, ms, channels planned, MiB, channels.
        let cases = [
            (100, 300, 2, 16, 16),
            (100, 300, 16, 16, 16),
            (1_000, 100, 4, 128, 16),
            // Beyond the 10 Gbit/s that a plan takes a path to be.
            (100_000, 163, 2, 10_240, 16),
            (100_000, 163, 3, 10_240, 12),
            // A round trip is nothing in so long a transfer.
            (100, 300, 4, 10_240, 4),
            (1_000, 100, 4, 1_024, 4),
            // There is too little for more, in the transfer and on the path.
            (100, 300, 4, 1, 4),
            (1, 300, 1, 16, 1),
            // Nobody notices it.
            (10_000, 4, 2, 64, 2),
        ];
        for (mbps, millis, planned, mib, channels) in cases {
            let path = saved(mbps, millis);
            let chosen = path.channels(planned, path.rtt, Bytes::mib(mib));
            assert_eq!(chosen, channels, "{mbps} Mbit/s, {millis} ms, {planned}, {mib} MiB");
        }
    }

    #[test]
    fn a_path_that_became_another_has_the_channels_of_any() {
        let path = saved(100, 300);
        let now = |millis| path.channels(2, Span::from_millis(millis), Bytes::mib(16));
        assert_eq!([100, 200, 300, 1_000, 4_000].map(now), [2, 16, 16, 16, 2]);
        assert_eq!(path.channels(0, Span::from_millis(100), Bytes::mib(16)), 1);
    }

    #[test]
    fn channels_begin_with_no_more_than_half_of_what_a_path_held() {
        for mbps in [1, 3, 10, 30, 100, 1_000, 100_000] {
            for planned in 1..=16 {
                let path = saved(mbps, 163);
                let channels = path.channels(planned, path.rtt, Bytes::mib(64));
                let begun = u64::from(channels) * FIRST_WINDOW.0;
                assert!((planned..=ChannelLimits::TRANSFER).contains(&channels), "{channels}");
                assert!(channels == planned || begun <= path.jump().0, "{mbps}: {channels}");
            }
        }
    }

    #[test]
    fn a_known_path_is_said_to_be_used_by_channels_or_bpf() {
        let (in_flight, rtt, age) = (Bytes(3 << 20), Span::from_millis(300), Span::from_secs(60));
        let by = |is_by_bpf| Reason::Resumed { in_flight, rtt, age, is_by_bpf }.to_string();
        assert!(by(true).ends_with("confirms it, by BPF"), "{}", by(true));
        assert!(by(false).ends_with("by the channel's own control"), "{}", by(false));
        let more = Reason::Channels(16, StreamsReason::KnownPath { planned: 4, in_flight });
        assert_eq!(
            more.to_string(),
            "16 channels to begin with: more than the 4 of any path, as this one held 3 MiB and \
             BPF, by which fewer begin from that, is not this user's to load"
        );
    }
}

//! What a transfer that sends has shown of its path: the highest rate at which its bytes arrived,
//! and the least round trip.

use crate::congestion::SavedPath;
use crate::units::{Bytes, Rate, Span, Time};
use std::collections::VecDeque;

/// A rate is that of so long at least, however short the path: a receiver acknowledges in bursts.
const LEAST_WINDOW: Span = Span::from_millis(200);
/// While losses are repaired a rate is that of so many times as long: where a peer acknowledges in
/// order, all that waited for a packet is acknowledged at once.
const REPAIR_WINDOWS: f64 = 4.0;
/// So many round trips after a packet was sent again it has arrived and was acknowledged.
const REPAIR_RTTS: f64 = 2.0;

/// The machine: looks at how much has arrived go in, what is worth keeping comes out.
#[derive(Clone, Debug, Default)]
pub struct PathRecord {
    /// Looks of the last window, and one before it.
    looks: VecDeque<(Time, u64)>,
    /// Bytes a second, at best.
    best: f64,
    rtt: Option<Span>,
    arrived: u64,
    /// Packets sent, and of those sent again.
    packets: (u64, u64),
    /// When a packet was last sent again.
    repaired: Option<Time>,
}

impl PathRecord {
    /// What a receiver saw, which was given `looks` at all that had come by then, over a path of
    /// `rtt`: the rate at which the second half came. A receiver does not know what waited for a
    /// packet that was lost and then came at once, so that the highest of its rates says nothing;
    /// its mean over so long says too little rather than too much.
    pub fn of_arrivals(looks: &[(Time, Bytes)], rtt: Span) -> PathRecord {
        let total = looks.last().map_or(0, |(_, bytes)| bytes.0);
        let first = |part: u64| looks.iter().find(|(_, bytes)| bytes.0 >= part);
        let mut record = PathRecord { rtt: Some(rtt), arrived: total, ..PathRecord::default() };
        if let (Some((from, half)), Some((until, _))) = (first(total.div_ceil(2)), first(total)) {
            let took = until.since(*from);
            if took >= rtt.mul_f64(2.0).max(LEAST_WINDOW) {
                record.best = (total - half.0) as f64 / took.as_secs_f64();
            }
        }
        record
    }

    /// At `now` so many bytes have arrived of all channels together; `rtt` is the least round trip
    /// of any.
    pub fn sample(&mut self, now: Time, arrived: Bytes, rtt: Option<Span>, packets: (u64, u64)) {
        if arrived.0 < self.arrived {
            // A channel is gone, and what it brought with it.
            self.looks.clear();
        }
        if packets.1 > self.packets.1 {
            self.repaired = Some(now);
        }
        (self.arrived, self.packets) = (arrived.0, packets);
        self.rtt = self.rtt.into_iter().chain(rtt.filter(|rtt| *rtt > Span::ZERO)).min();
        self.looks.push_back((now, arrived.0));
        let rtt = self.rtt.unwrap_or_default();
        let repairs = self.repaired.is_some_and(|at| now.since(at) <= rtt.mul_f64(REPAIR_RTTS));
        let window = rtt.max(LEAST_WINDOW).mul_f64(if repairs { REPAIR_WINDOWS } else { 1.0 });
        while self.looks.get(1).is_some_and(|&(at, _)| now.since(at) >= window) {
            self.looks.pop_front();
        }
        let Some(&(from, before)) = self.looks.front() else { return };
        let took = now.since(from);
        if took >= window {
            self.best = self.best.max((arrived.0 - before) as f64 / took.as_secs_f64());
        }
    }

    /// The highest rate of a round trip and more; nothing before there was one.
    pub fn rate(&self) -> Option<Rate> {
        (self.best > 0.0).then(|| Rate::from_bps((self.best * 8.0) as u64))
    }

    /// The part of its packets that had to be sent again.
    pub fn lost(&self) -> Option<f64> {
        let (sent, again) = self.packets;
        (sent > 0).then(|| again as f64 / sent as f64)
    }

    /// What the next flow may begin from: the bytes that were on their way at that rate, and
    /// whether they filled the path, which other eyes saw.
    pub fn saved(&self, fills: bool) -> Option<SavedPath> {
        let rtt = self.rtt?;
        let in_flight = Bytes((self.best * rtt.as_secs_f64()) as u64);
        (in_flight.0 > 0).then_some(SavedPath { in_flight, rtt, fills })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks every 100 ms at what `arrived` says of a time in milliseconds.
    fn record(rtt: Span, until: u64, arrived: impl Fn(u64) -> u64) -> PathRecord {
        let mut record = PathRecord::default();
        for at in (0..=until).step_by(100) {
            let now = Time::ZERO + Span::from_millis(at);
            record.sample(now, Bytes(arrived(at)), Some(rtt), (1000, 10));
        }
        record
    }

    #[test]
    fn the_rate_that_was_put_in_comes_back() {
        let rtt = Span::from_millis(163);
        // 500 kB/ms after a second of a tenth of it, and nothing at the end.
        let arrived =
            |at: u64| at.min(1000) * 50_000 + at.clamp(1000, 3000).saturating_sub(1000) * 500_000;
        let record = record(rtt, 4000, arrived);
        assert_eq!(record.rate(), Some(Rate::from_bps(4_000_000_000)));
        let saved = record.saved(false).expect("a rate and a round trip");
        assert_eq!((saved.in_flight, saved.rtt), (Bytes(81_500_000), rtt));
        assert_eq!(record.lost(), Some(0.01));
    }

    #[test]
    fn a_receiver_tells_the_rate_of_the_second_half() {
        let rtt = Span::from_millis(100);
        let of = |arrived: &dyn Fn(u64) -> u64, until: u64| {
            let looks: Vec<(Time, Bytes)> = (0..=until)
                .step_by(100)
                .map(|at| (Time::ZERO + Span::from_millis(at), Bytes(arrived(at))))
                .collect();
            PathRecord::of_arrivals(&looks, rtt)
        };
        // 1 kB/ms after a slow beginning, and nothing at the end.
        let steady = of(&|at| at.saturating_sub(500).min(4000) * 1000, 8000);
        assert_eq!(steady.rate(), Some(Rate::from_bps(8_000_000)));
        assert_eq!(steady.saved(false).map(|saved| saved.in_flight), Some(Bytes(100_000)));
        assert_eq!(steady.lost(), None);
        // The same, of which a second's worth comes at once behind a packet that was lost.
        let held = |at: u64| if (2000..3000).contains(&at) { 2000 } else { at.min(4000) } * 1000;
        let rate = of(&held, 5000).rate().expect("a rate").as_bps();
        assert!((7_900_000..=8_100_000).contains(&rate), "{rate}");
        assert_eq!(of(&|at| at * 1000, 200).rate(), None, "a moment says nothing");
        assert_eq!(PathRecord::of_arrivals(&[], rtt).rate(), None);
    }

    #[test]
    fn a_burst_is_no_rate_and_a_moment_says_nothing() {
        // All of a second's bytes within 100 ms: at best half of it is the rate of a window.
        let burst = record(Span::from_millis(1), 1000, |at| if at >= 500 { 10_000_000 } else { 0 });
        assert_eq!(burst.rate(), Some(Rate::from_bps(400_000_000)));
        assert!(record(Span::from_millis(1), 100, |at| at * 1000).saved(false).is_none());
        // Of a path longer than all that was seen nothing is known.
        assert!(record(Span::from_millis(900), 800, |at| at * 1000).saved(false).is_none());
    }

    #[test]
    fn what_waited_for_a_lost_packet_is_no_rate() {
        // 1 MB/s, of which nothing is acknowledged for 600 ms, until what was lost has come.
        let rtt = Span::from_millis(300);
        let mut record = PathRecord::default();
        for at in (0..=4000_u64).step_by(100) {
            let now = Time::ZERO + Span::from_millis(at);
            let arrived = if (2000..2600).contains(&at) { 2_000_000 } else { at * 1000 };
            record.sample(now, Bytes(arrived), Some(rtt), (at, u64::from(at >= 2300)));
        }
        assert_eq!(record.rate(), Some(Rate::from_bps(8_000_000)));
    }

    #[test]
    fn a_channel_that_is_gone_takes_no_rate_along() {
        let mut record = record(Span::from_millis(10), 1000, |at| at * 1000);
        let before = record.rate();
        record.sample(Time::ZERO + Span::from_millis(1100), Bytes(600_000), None, (0, 0));
        record.sample(Time::ZERO + Span::from_millis(1300), Bytes(800_000), None, (0, 0));
        assert_eq!(record.rate(), before);
        assert_eq!(record.lost(), None);
    }
}

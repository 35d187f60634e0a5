//! How fast packets arrive, and how fast the path could bring them: medians of late intervals.

use super::sequence::SequenceNumber;
use crate::units::{Span, Time};
use std::collections::VecDeque;

/// Bursts whose intervals say how fast packets arrive (draft-gg-udt-03, section 3.2.1; libudt).
const INTERVALS: usize = 16;
/// Packet pairs that say what the path could bring.
const PAIRS: usize = 64;
/// Every so many packets the next follows at once, so that their distance is the bottleneck's.
const PAIR_EVERY: u32 = 16;
/// Seconds that packets which a host took in together were apart at most: it had no time to sleep
/// between them. A slower bottleneck has them come one by one.
const TOGETHER: f64 = 10e-6;
/// Intervals further than this factor from the median count for nothing.
const OUTLIER: f64 = 8.0;

/// The speeds that a receiver measures.
///
/// Packets that a host takes in together have one time of arrival: the interval before such a burst
/// is shared among what came in the burst before, and so is it for a pair that came together. Where
/// the sender is slow that interval says nothing of the path: such a pair was close all the same.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// Seconds per packet of late bursts.
    intervals: VecDeque<f64>,
    /// Seconds between the packets of late pairs.
    pairs: VecDeque<f64>,
    /// When the newest burst came, and how many packets it has so far.
    burst: Option<(Time, u32)>,
    /// A pair's first packet, if it is the last that came.
    pair: Option<(SequenceNumber, Time)>,
}

/// Whether the packet of that number is the first of a pair: both ends tell by the number itself,
/// as libudt does, wherever a connection's numbers begin.
pub(super) const fn begins_pair(sequence: SequenceNumber) -> bool {
    sequence.raw().is_multiple_of(PAIR_EVERY)
}

impl Arrivals {
    /// A packet came, for the first time.
    pub(super) fn came(&mut self, now: Time, sequence: SequenceNumber) {
        match &mut self.burst {
            Some((at, count)) if *at >= now => *count += 1,
            burst => {
                if let Some((at, count)) = burst {
                    push(&mut self.intervals, seconds(*at, now) / f64::from(*count), INTERVALS);
                }
                *burst = Some((now, 1));
            }
        }
        match self.pair.take() {
            Some((first, at)) if first.after(1) == sequence => {
                let together = self.intervals.back().map(|interval| interval.min(TOGETHER));
                let apart = (now > at).then(|| seconds(at, now));
                if let Some(interval) = apart.or(together) {
                    push(&mut self.pairs, interval, PAIRS);
                }
            }
            _ => {}
        }
        if begins_pair(sequence) {
            self.pair = Some((sequence, now));
        }
    }

    /// What came last was sent again, at the sender's pace, and is no pair with what follows.
    pub(super) fn repaired(&mut self) {
        self.pair = None;
    }

    /// Packets per second that arrive; 0 while too few did at one pace.
    pub(super) fn speed(&self) -> f64 {
        filtered(&self.intervals, INTERVALS / 2)
    }

    /// Packets per second that the path could bring; 0 while nothing is known of it.
    pub(super) fn capacity(&self) -> f64 {
        filtered(&self.pairs, 0)
    }
}

fn seconds(from: Time, to: Time) -> f64 {
    to.since(from).max(Span::from_nanos(1)).as_secs_f64()
}

fn push(window: &mut VecDeque<f64>, value: f64, most: usize) {
    if window.len() == most {
        window.pop_front();
    }
    window.push_back(value);
}

/// One over the mean of those near the median, if they are more than `least`.
fn filtered(window: &VecDeque<f64>, least: usize) -> f64 {
    let mut sorted: Vec<f64> = window.iter().copied().collect();
    sorted.sort_by(f64::total_cmp);
    let Some(&median) = sorted.get(sorted.len() / 2) else { return 0.0 };
    let near =
        || window.iter().filter(|&&value| value > median / OUTLIER && value < median * OUTLIER);
    match near().count() {
        count if count > least => count as f64 / near().sum::<f64>(),
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number `index` of a connection whose numbers wrap soon.
    fn number(index: u64) -> SequenceNumber {
        SequenceNumber::new(0x7FFF_FFF0).after(index)
    }

    #[test]
    fn pairs_tell_the_path_and_the_rest_tells_the_sender() {
        let mut arrivals = Arrivals::default();
        // One packet in 100 us, and the second of a pair 12 us behind the first.
        for index in 0..320 {
            let late = if index % 16 == 1 { 88 } else { 0 };
            let at = Time::ZERO + Span::from_micros(index * 100 - late);
            arrivals.came(at, number(index));
        }
        assert!((arrivals.capacity() * 12e-6 - 1.0).abs() < 0.01, "{}", arrivals.capacity());
        assert!((arrivals.speed() * 100e-6 - 1.0).abs() < 0.2, "{}", arrivals.speed());
    }

    #[test]
    fn bursts_share_the_time_before_the_next() {
        let mut arrivals = Arrivals::default();
        for index in 0..4400 {
            arrivals.came(Time::ZERO + Span::from_micros(index / 44 * 53), number(index));
        }
        let each = 53e-6 / 44.0;
        assert!((arrivals.speed() * each - 1.0).abs() < 0.01, "{}", arrivals.speed());
        assert!((arrivals.capacity() * each - 1.0).abs() < 0.01, "{}", arrivals.capacity());
    }

    #[test]
    fn a_slow_senders_pairs_still_tell_that_the_path_is_fast() {
        let mut arrivals = Arrivals::default();
        // 300 packets a second, but the two of a pair come together.
        for index in 0..320 {
            let early = if index % 16 == 1 { 3_300 } else { 0 };
            let at = Time::ZERO + Span::from_micros(index * 3_300 - early);
            arrivals.came(at, number(index));
        }
        assert!(arrivals.speed() < 320.0, "{}", arrivals.speed());
        assert!(arrivals.capacity() > 50_000.0, "{}", arrivals.capacity());
    }

    #[test]
    fn too_few_packets_say_nothing() {
        let mut arrivals = Arrivals::default();
        assert_eq!((arrivals.speed(), arrivals.capacity()), (0.0, 0.0));
        for index in 1..5 {
            arrivals.came(Time::ZERO + Span::from_micros(index), number(index));
        }
        assert_eq!((arrivals.speed(), arrivals.capacity()), (0.0, 0.0));
    }
}

//! How exact the link was: histograms of delay error, and the verdict whether a run may be
//! believed.

use farline_core::statistics::Moments;
use farline_core::units::{Span, Time};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Errors above this count as this: a minute.
const LONGEST: u64 = 60_000_000_000;

/// Upper bounds of the buckets that are reported, in microseconds.
const BOUNDS_US: [u64; 22] = [
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000,
    200_000, 500_000, 1_000_000, 2_000_000, 5_000_000, 60_000_000,
];

/// A histogram of spans with two significant digits.
#[derive(Clone, Debug)]
pub(super) struct Spans(Histogram<u64>);

impl Spans {
    pub(super) fn new() -> Spans {
        Spans(
            Histogram::new_with_bounds(1, LONGEST, 2)
                .expect("these constants are in the histogram's range"),
        )
    }

    pub(super) fn record(&mut self, span: Span) {
        self.0.saturating_record(span.as_nanos());
    }

    /// Becomes a copy of `other`, in place.
    pub(super) fn copy_from(&mut self, other: &Spans) {
        self.0.clone_from(&other.0);
    }

    pub(super) fn summary(&self) -> Accuracy {
        let micros = |nanos: u64| nanos as f64 / 1e3;
        let mut buckets: Vec<(u64, u64)> = BOUNDS_US.iter().map(|&bound| (bound, 0)).collect();
        for recorded in self.0.iter_recorded() {
            let nanos = recorded.value_iterated_to();
            let place =
                BOUNDS_US.partition_point(|bound| bound * 1_000 < nanos).min(BOUNDS_US.len() - 1);
            buckets[place].1 += recorded.count_at_value();
        }
        while buckets.last().is_some_and(|&(_, count)| count == 0) {
            buckets.pop();
        }
        Accuracy {
            count: self.0.len(),
            p50_us: micros(self.0.value_at_quantile(0.5)),
            p99_us: micros(self.0.value_at_quantile(0.99)),
            max_us: micros(self.0.max()),
            buckets,
        }
    }
}

/// The delay that packets were given, from when each was read to when it was written: the model's,
/// and how late the link was with the write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LinkDelay {
    /// How many writes.
    pub count: u64,
    /// Mean, in microseconds.
    pub mean_us: f64,
    /// Standard deviation, in microseconds.
    pub sd_us: f64,
}

impl LinkDelay {
    /// Of delays in nanoseconds.
    pub(super) fn of(delays: &Moments) -> LinkDelay {
        let (mean_us, sd_us) = (delays.mean() / 1e3, delays.sd() / 1e3);
        LinkDelay { count: delays.count(), mean_us, sd_us }
    }
}

/// A stamp that may be later than this is in doubt: half of what makes a run invalid, at least.
const DOUBT: Span = Span::from_micros(500);

/// Bounds how much too late packets are stamped, which is when they are read and not when the
/// device had them.
///
/// A packet that finds the model's wire idle came after the device was last seen empty, and is
/// later than the one before it by no more than the wire was idle. One that finds it busy waits its
/// turn whenever it is read, behind those that were late, until the device is seen empty: what
/// comes then was not held back. So a stop of the mover counts for the packets that it held, as
/// when they are written late, and not for all that come before the wire is idle again.
#[derive(Debug)]
pub(super) struct Stamps {
    empty_at: Time,
    busy_until: Time,
    late: Span,
}

impl Stamps {
    pub(super) fn new(now: Time) -> Stamps {
        Stamps { empty_at: now, busy_until: now, late: Span::ZERO }
    }

    /// The device was seen empty.
    pub(super) fn empty(&mut self, now: Time) {
        (self.empty_at, self.late) = (now, Span::ZERO);
    }

    /// The wire is busy until `then` with what was read.
    pub(super) fn busy_until(&mut self, then: Time) {
        self.busy_until = then;
    }

    /// Whether packets are stamped so late that to see the device empty, which ends it, is worth a
    /// read.
    pub(super) fn in_doubt(&self) -> bool {
        self.late > DOUBT
    }

    /// A packet is read: how much too late it may be stamped.
    pub(super) fn read(&mut self, now: Time) -> Span {
        if self.busy_until <= now {
            let idle = now.since(self.busy_until.max(self.empty_at));
            self.late = (self.late + idle).min(now.since(self.empty_at));
        }
        self.late
    }
}

/// A distribution of delay errors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Accuracy {
    /// How many errors were recorded: one for each write or read.
    pub count: u64,
    /// Median, in microseconds.
    pub p50_us: f64,
    /// 99th percentile, in microseconds.
    pub p99_us: f64,
    /// Largest, in microseconds.
    pub max_us: f64,
    /// Upper bound of each bucket in microseconds, and how many errors fell in it; empty buckets at
    /// the end are left out.
    pub buckets: Vec<(u64, u64)>,
}

impl Accuracy {
    /// How many errors were above `limit_us` for certain: those of buckets that begin there or
    /// later.
    pub fn above(&self, limit_us: f64) -> u64 {
        let begins = [0].into_iter().chain(self.buckets.iter().map(|(bound, _)| *bound));
        let counted = begins.zip(&self.buckets);
        counted.filter(|(begin, _)| *begin as f64 >= limit_us).map(|(_, (_, count))| count).sum()
    }
}

/// The most that the 99th percentile of lateness may be: the larger of 1 ms and 2 % of the round
/// trip.
pub fn lateness_limit(rtt: Span) -> Span {
    rtt.mul_f64(0.02).max(Span::from_millis(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_deviation_of_delays_come_back() {
        let (mut rng, mut delays) = (farline_core::units::Rng::new(3), Moments::default());
        // A uniform draw of a span has a deviation of the span over the root of twelve.
        (0..100_000).for_each(|_| delays.add(1e9 + 1e6 * rng.unit()));
        let given = LinkDelay::of(&delays);
        assert_eq!(given.count, 100_000);
        assert!((given.mean_us - 1_000_500.0).abs() < 4.0, "{given:?}");
        assert!((given.sd_us - 288.7).abs() < 2.0, "{given:?}");
        assert_eq!(LinkDelay::of(&Moments::default()), LinkDelay::default());
    }

    #[test]
    fn a_stamp_is_late_by_what_the_wire_idled() {
        let at = |micros| Time::ZERO + Span::from_micros(micros);
        let mut stamps = Stamps::new(at(0));
        // On an idle wire it may have come at once; those behind it are as late.
        assert_eq!(stamps.read(at(30)), Span::from_micros(30));
        stamps.busy_until(at(100));
        assert_eq!(stamps.read(at(40)), Span::from_micros(30));
        stamps.busy_until(at(200));
        // Read 20 us after the wire fell idle, from a device that was never empty: later by that.
        assert_eq!(stamps.read(at(220)), Span::from_micros(50));
        stamps.busy_until(at(300));
        // Empty while the wire was busy: what comes next was not held, and waits for the wire
        // anyway.
        stamps.empty(at(290));
        assert_eq!(stamps.read(at(295)), Span::ZERO);
        stamps.busy_until(at(400));
        stamps.empty(at(500));
        assert_eq!(stamps.read(at(505)), Span::from_micros(5));
        // Long not looked at, it is in doubt until it was seen empty.
        assert_eq!(stamps.read(at(1_200)), Span::from_micros(700));
        stamps.busy_until(at(1_300));
        assert!(stamps.in_doubt());
        stamps.empty(at(1_250));
        assert!(!stamps.in_doubt());
    }

    #[test]
    fn errors_fall_in_the_bucket_whose_bound_they_do_not_exceed() {
        let mut spans = Spans::new();
        for micros in [0, 3, 3, 40, 700] {
            spans.record(Span::from_micros(micros));
        }
        let summary = spans.summary();
        assert_eq!(summary.count, 5);
        assert_eq!(
            summary.buckets.iter().filter(|b| b.1 > 0).copied().collect::<Vec<_>>(),
            [(1, 1), (5, 2), (50, 1), (1_000, 1)]
        );
        assert!((2.9..3.1).contains(&summary.p50_us), "{summary:?}");
        assert_eq!(lateness_limit(Span::from_micros(280)), Span::from_millis(1));
        assert_eq!(lateness_limit(Span::from_millis(163)), Span::from_micros(3_260));
    }
}

//! Delays by the second in which they were asked for, until it is known whether an emulated link
//! kept its own time in that second.

use super::delay::DelaySample;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Samples of late seconds that are kept, for a link that is never in time.
const ASIDE: usize = 2_000;

/// Samples of seconds that are not settled. What another process goes on from has none of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct UnsettledDelays {
    samples: BTreeMap<u64, Vec<DelaySample>>,
    late: BTreeSet<u64>,
    aside: Vec<DelaySample>,
}

impl UnsettledDelays {
    /// A sample that was asked for in `second`.
    pub(super) fn add(&mut self, second: u64, sample: DelaySample) {
        self.samples.entry(second).or_default().push(sample);
    }

    /// The link was late in `second`.
    pub(super) fn note_late(&mut self, second: u64) {
        self.late.insert(second);
    }

    /// Nothing more comes of `second`: its samples, unless the link was late in it.
    pub(super) fn settle(&mut self, second: u64) -> Option<Vec<DelaySample>> {
        let samples = self.samples.remove(&second).unwrap_or_default();
        if !self.late.remove(&second) {
            return Some(samples);
        }
        let room = ASIDE.saturating_sub(self.aside.len());
        self.aside.extend(samples.into_iter().take(room));
        None
    }

    /// The first samples of late seconds.
    pub(super) fn take_aside(&mut self) -> Vec<DelaySample> {
        std::mem::take(&mut self.aside)
    }
}

/// Delays that an emulated link gave packets, by its own clock, while it was in time; in
/// microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkAccount {
    /// To the far end.
    pub there: DelaySums,
    /// From it.
    pub back: DelaySums,
}

impl LinkAccount {
    /// A figure by the name that presets have for it. There and back are drawn independently.
    pub fn figure(&self, name: &str) -> Option<f64> {
        let (there, back) = (self.there, self.back);
        let mean_us = there.mean()? + back.mean()?;
        match name {
            "rtt_mean_ms" => Some(mean_us / 1e3),
            "rtt_sd_percent" => Some(there.sd()?.hypot(back.sd()?) / mean_us * 100.0),
            "one_way_mean_ms" => Some(there.mean()? / 1e3),
            _ => None,
        }
    }
}

/// Sums from which mean and deviation follow, and which can be added and taken from each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DelaySums {
    count: f64,
    sum: f64,
    squares: f64,
}

impl DelaySums {
    /// Of `count` delays with this mean and deviation.
    pub fn of(count: u64, mean: f64, sd: f64) -> DelaySums {
        let n = count as f64;
        let squares = sd * sd * (n - 1.0).max(0.0) + n * mean * mean;
        DelaySums { count: n, sum: n * mean, squares }
    }

    /// Those of these that `earlier` had not.
    #[must_use]
    pub fn since(self, earlier: DelaySums) -> DelaySums {
        DelaySums {
            count: self.count - earlier.count,
            sum: self.sum - earlier.sum,
            squares: self.squares - earlier.squares,
        }
    }

    /// Both.
    #[must_use]
    pub fn and(self, other: DelaySums) -> DelaySums {
        DelaySums {
            count: self.count + other.count,
            sum: self.sum + other.sum,
            squares: self.squares + other.squares,
        }
    }

    /// Their mean; `None` of none.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0.0).then(|| self.sum / self.count)
    }

    /// Their standard deviation; `None` of fewer than two.
    pub fn sd(&self) -> Option<f64> {
        let mean = self.mean().filter(|_| self.count > 1.0)?;
        Some(((self.squares - mean * self.sum) / (self.count - 1.0)).max(0.0).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Summary;
    use crate::units::{Rng, Span, Time};

    #[test]
    fn sums_of_parts_are_those_of_the_whole() {
        let mut rng = Rng::new(1);
        let delays: Vec<f64> = (0..1_000).map(|_| 26_695.0 + 150.0 * rng.unit()).collect();
        let sums = |part: &[f64]| {
            let it = Summary::of(part).expect("some");
            DelaySums::of(part.len() as u64, it.mean, it.sd)
        };
        let (whole, first) = (sums(&delays), sums(&delays[..300]));
        let middle = sums(&delays[..700]).since(first);
        let outer = first.and(whole.since(sums(&delays[..700])));
        for (found, truth) in [
            (middle, sums(&delays[300..700])),
            (outer, sums(&[&delays[..300], &delays[700..]].concat())),
        ] {
            assert!((found.mean().expect("some") - truth.mean().expect("some")).abs() < 1e-6);
            assert!((found.sd().expect("some") - truth.sd().expect("some")).abs() < 1e-3);
        }
        assert_eq!((DelaySums::default().mean(), DelaySums::of(1, 5.0, 0.0).sd()), (None, None));
    }

    #[test]
    fn delays_of_seconds_in_which_the_link_was_late_are_set_aside() {
        let at = |ns| Time::ZERO + Span::from_nanos(ns);
        let sample =
            |ns| DelaySample { sent: at(ns), received: at(ns), returned: at(ns), came: at(ns + 1) };
        let mut unsettled = UnsettledDelays::default();
        for second in 0..4 {
            (0..1_500).for_each(|n| unsettled.add(second, sample(second * 10_000 + n)));
        }
        unsettled.note_late(1);
        unsettled.note_late(2);
        let counted: Vec<Option<usize>> =
            (0..5).map(|second| Some(unsettled.settle(second)?.len())).collect();
        assert_eq!(counted, [Some(1_500), None, None, Some(1_500), Some(0)]);
        assert_eq!(unsettled.take_aside().len(), ASIDE);
    }
}

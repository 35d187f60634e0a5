//! All delays of a test in bounded memory: a histogram of them, their mean and deviation, and means
//! of parts of the time.

use super::delay_summary::DelaySummary;
use crate::statistics::{Moments, Summary};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A place of the histogram is this part of its values wide: a 1024th, as an HDR histogram of three
/// digits.
const PLACE_BITS: u32 = 10;
/// The most parts of the time; where there would be more, two become one.
const MOST_PARTS: usize = 40;
/// How long a part is at first, in nanoseconds.
const FIRST_PART: f64 = 1e7;
/// So few say nothing of how sure a mean is.
const FEW: u64 = 80;

/// Every delay of a kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct DelayAccount {
    moments: Moments,
    min: f64,
    max: f64,
    places: BTreeMap<u64, u64>,
    /// Count and sum of parts of the time, one behind the other.
    parts: Vec<(u64, f64)>,
    /// The sums of their squares. An earlier version's state has none: then they are far too small
    /// for the part, whose deviation is zero, as of one that is not known.
    #[serde(default)]
    part_squares: Vec<f64>,
    part_ns: f64,
}

/// The place of a delay in whole nanoseconds: exact below 2^11, then by its first eleven bits.
fn place_of(nanos: u64) -> u64 {
    let shift = (u64::BITS - nanos.leading_zeros()).saturating_sub(PLACE_BITS + 1);
    (u64::from(shift) << (PLACE_BITS + 1)) + (nanos >> shift)
}

/// The middle of a place.
fn middle_of(place: u64) -> f64 {
    let (shift, first) = (place >> (PLACE_BITS + 1), place & ((1 << (PLACE_BITS + 1)) - 1));
    let width = (1_u64 << shift) as f64;
    first as f64 * width + (width - 1.0) / 2.0
}

impl DelayAccount {
    /// How many there were.
    pub(super) fn count(&self) -> u64 {
        self.moments.count()
    }

    /// A delay `at` nanoseconds after the first.
    pub(super) fn add(&mut self, at: f64, delay: f64) {
        if self.count() == 0 {
            (self.min, self.max, self.part_ns) = (delay, delay, FIRST_PART);
        }
        self.moments.add(delay);
        (self.min, self.max) = (self.min.min(delay), self.max.max(delay));
        *self.places.entry(place_of(delay.max(0.0) as u64)).or_default() += 1;
        while at / self.part_ns >= MOST_PARTS as f64 {
            self.part_ns *= 2.0;
            let joined =
                |pair: &[(u64, f64)]| pair.iter().fold((0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
            self.parts = self.parts.chunks(2).map(joined).collect();
            self.part_squares = self.part_squares.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
        let part = (at.max(0.0) / self.part_ns) as usize;
        if self.parts.len() <= part {
            self.parts.resize(part + 1, (0, 0.0));
        }
        self.parts[part].0 += 1;
        self.parts[part].1 += delay;
        self.part_squares.resize(self.parts.len(), 0.0);
        self.part_squares[part] += delay * delay;
    }

    /// The delay below which this part of them is.
    fn quantile(&self, part: f64) -> f64 {
        let wanted = (self.count().saturating_sub(1) as f64 * part).round() as u64;
        let mut below = 0;
        let found = self.places.iter().find(|(_, count)| {
            below += *count;
            below > wanted
        });
        let middle = found.map_or(self.max, |(place, _)| middle_of(*place));
        middle.clamp(self.min, self.max)
    }

    /// Parts of the time, without a last one that has hardly begun.
    fn whole_parts(&self) -> &[(u64, f64)] {
        let usual = self.count() as f64 / self.parts.len().max(1) as f64;
        let is_short = self.parts.last().is_some_and(|(count, _)| (*count as f64) < usual / 2.0);
        &self.parts[..self.parts.len() - usize::from(is_short)]
    }

    /// Means of parts of the time, in order; of a last one that has hardly begun, none.
    pub(super) fn part_means(&self) -> Vec<f64> {
        let seen = self.whole_parts().iter().filter(|(count, _)| *count > 0);
        seen.map(|(count, sum)| sum / *count as f64).collect()
    }

    /// Standard deviations within parts of the time, in order; zero where it is not known.
    pub(super) fn part_sds(&self) -> Vec<f64> {
        let parts = self.whole_parts().iter().zip(&self.part_squares);
        let known = parts.filter(|((count, _), _)| *count > 1);
        let sd = |(&(count, sum), squares): (&(u64, f64), &f64)| {
            let n = count as f64;
            ((squares - sum * sum / n) / (n - 1.0)).max(0.0).sqrt()
        };
        known.map(sd).collect()
    }

    /// All of them; `None` of none.
    pub(super) fn summary(&self) -> Option<DelaySummary> {
        if self.count() == 0 {
            return None;
        }
        let half = Summary::of(&self.part_means())
            .and_then(|means| means.ci95)
            .map(|(low, high)| (high - low) / 2.0);
        let half = half.filter(|_| self.count() >= FEW);
        let mean = self.moments.mean();
        Some(DelaySummary {
            mean_ns: mean,
            // Around the mean of all, which parts of unlike length do not have.
            mean_ci95_ns: half.map(|half| (mean - half, mean + half)),
            sd_ns: self.moments.sd(),
            min_ns: self.min,
            median_ns: self.quantile(0.5),
            p90_ns: self.quantile(0.9),
            p99_ns: self.quantile(0.99),
            p999_ns: self.quantile(0.999),
            max_ns: self.max,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Rng;

    #[test]
    fn places_are_a_thousandth_wide_and_in_order() {
        let mut last = None;
        for nanos in (0..5_000).chain((13..60).flat_map(|bits| [1 << bits, (1 << bits) + 777])) {
            let place = place_of(nanos);
            assert!(last <= Some(place), "{nanos}");
            last = Some(place);
            let off = (middle_of(place) - nanos as f64).abs();
            assert!(off <= nanos as f64 / 1024.0, "{nanos}: {off}");
        }
    }

    #[test]
    fn one_held_packet_of_many_is_the_most_and_moves_no_quantile() {
        let mut rng = Rng::new(7);
        let mut account = DelayAccount::default();
        let mut all = Vec::new();
        for n in 0..20_000 {
            let delay = if n == 11_111 { 3e8 } else { 1e5 + rng.unit() * 5e4 };
            account.add(f64::from(n) * 1e7, delay);
            all.push(delay);
        }
        let summary = account.summary().expect("some");
        assert_eq!((summary.max_ns, account.count()), (3e8, 20_000));
        let whole = Summary::of(&all).expect("some");
        assert!(
            (summary.mean_ns - whole.mean).abs() < 1.0
                && (summary.sd_ns / whole.sd - 1.0).abs() < 1e-9
        );
        all.sort_by(f64::total_cmp);
        for (found, part) in
            [(summary.median_ns, 0.5), (summary.p99_ns, 0.99), (summary.p999_ns, 0.999)]
        {
            let exact = all[(19_999.0 * part) as usize];
            assert!((found / exact - 1.0).abs() < 2e-3, "{part}: {found} for {exact}");
        }
        let (low, high) = summary.mean_ci95_ns.expect("enough");
        assert!(low < summary.mean_ns && summary.mean_ns < high);
        assert!((20..=MOST_PARTS).contains(&account.part_means().len()));
        // Of all parts but the one with the packet that was held, those of the draw.
        let sds = account.part_sds();
        let usual = sds.iter().filter(|sd| (**sd / (5e4 / 12_f64.sqrt()) - 1.0).abs() < 0.1);
        assert_eq!((sds.len(), usual.count()), (account.part_means().len(), sds.len() - 1));
    }

    #[test]
    fn the_mean_lies_in_its_interval_as_often_as_it_says() {
        let inside = (0..400_u64).filter(|seed| {
            let mut rng = Rng::new(*seed);
            let mut account = DelayAccount::default();
            (0..6_000).for_each(|n| account.add(f64::from(n) * 1e7, 1e6 * rng.unit()));
            let (low, high) = account.summary().and_then(|all| all.mean_ci95_ns).expect("enough");
            (low..high).contains(&5e5)
        });
        let inside = inside.count();
        assert!((364..=396).contains(&inside), "{inside} of 400");
    }
}

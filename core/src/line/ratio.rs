//! A ratio of events to trials with the interval in which the true one lies.

use serde::{Deserialize, Serialize};
use statrs::function::erf::erfc_inv;
use statrs::function::gamma::gamma_lr;

/// How often something happened, of how many times it could have.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// How often it happened.
    pub events: u64,
    /// How often it could have.
    pub trials: f64,
    /// The interval's probability, such as 0.95.
    pub confidence: f64,
    /// The interval's lower end; zero without events.
    pub low: f64,
    /// Its upper end: without events, `-ln((1 - confidence) / 2) / trials`.
    pub high: f64,
    /// Where the ratio lies below with `confidence`, all of what is left being above: without
    /// events `-ln(1 - confidence) / trials`, as bit error ratios are mostly stated.
    pub below: f64,
}

impl Ratio {
    /// Of events that do not depend on each other: Garwood's interval of a Poisson count
    /// (Biometrika 28, 1936). `None` without trials.
    pub fn of(events: u64, trials: f64, confidence: f64) -> Option<Ratio> {
        Ratio::of_equal_clusters(events, trials, 1.0, confidence)
    }

    /// Of events that come in clusters: `dispersion` is the mean size of the cluster that an event
    /// is in (the sum of the clusters' squares over the sum of them), which is the variance of a
    /// compound Poisson count over its mean. The interval is Garwood's of as many clusters of equal
    /// size, and reaches as far up as their sizes leave open, which of few clusters is farther.
    ///
    /// Without events nothing is known of clusters: then the bounds are of events that come one by
    /// one, or else of clusters in place of events.
    pub fn clustered(events: u64, trials: f64, dispersion: f64, confidence: f64) -> Option<Ratio> {
        // Of one cluster twice its size is what an event is to be expected in.
        let dispersion = dispersion.min(2.0 * events as f64).max(1.0);
        let equal = Ratio::of_equal_clusters(events, trials, dispersion, confidence)?;
        if events == 0 {
            return Some(equal);
        }
        let most = |tail: f64| equal.value() * most_times(events as f64 / dispersion, tail);
        let outside = 1.0 - confidence;
        let (high, below) = (most(outside / 2.0), most(outside));
        Some(Ratio { high: equal.high.max(high), below: equal.below.max(below), ..equal })
    }

    /// Garwood's interval of the number of clusters, each of `size` events.
    fn of_equal_clusters(events: u64, trials: f64, size: f64, confidence: f64) -> Option<Ratio> {
        if trials <= 0.0 {
            return None;
        }
        let (clusters, scale) = (events as f64 / size, size / trials);
        let outside = 1.0 - confidence;
        Some(Ratio {
            events,
            trials,
            confidence,
            low: scale * lowest(clusters, outside / 2.0),
            high: scale * highest(clusters, outside / 2.0),
            below: scale * highest(clusters, outside),
        })
    }

    /// Events over trials.
    pub fn value(&self) -> f64 {
        self.events as f64 / self.trials
    }

    /// Whether `ratio` lies in the interval.
    pub fn holds(&self, ratio: f64) -> bool {
        (self.low..=self.high).contains(&ratio)
    }
}

/// How many times what was seen a ratio is at most, where so many clusters of equal size would vary
/// as much as those that came: one above it is as improbable as a normal value beyond `tail`.
///
/// Of a Poisson number `k` of clusters with exponential sizes that add up to `s`, the likelihood of
/// their mean sum `r s`, at the mean size that suits it best, is `((1 + r)^2 / 4 r)^-k` of its most
/// (so that `r` solves `cosh(ln r) = 2 exp(z^2 / 2 k) - 1`). They vary as `k / 2` equal ones do.
fn most_times(clusters: f64, tail: f64) -> f64 {
    let z = std::f64::consts::SQRT_2 * erfc_inv(2.0 * tail);
    (2.0 * (z * z / (4.0 * clusters)).exp() - 1.0).acosh().exp()
}

/// The mean of which `count` or more come with probability `tail`.
fn lowest(count: f64, tail: f64) -> f64 {
    if count <= 0.0 {
        return 0.0;
    }
    // The probability of `count` or more at a mean m is the lower incomplete gamma of it.
    solved(|mean| gamma_lr(count, mean) < tail)
}

/// The mean of which `count` or fewer come with probability `tail`.
fn highest(count: f64, tail: f64) -> f64 {
    if count <= 0.0 {
        return -tail.ln();
    }
    solved(|mean| 1.0 - gamma_lr(count + 1.0, mean) > tail)
}

/// From 1e15 down to nothing that matters.
const HALVINGS: usize = 200;

/// The least positive number for which `is_below` no longer holds, by bisection.
fn solved(is_below: impl Fn(f64) -> bool) -> f64 {
    let mut high = 1.0;
    while is_below(high) && high < 1e15 {
        high *= 2.0;
    }
    let mut low = 0.0;
    // From a root that is too small for a number the ends never come close by what they are.
    for _ in 0..HALVINGS {
        if high - low <= 1e-12 * high {
            break;
        }
        let middle = (low + high) / 2.0;
        if is_below(middle) { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_too_small_for_a_number_ends_the_search() {
        // A single event of a thousand that came together counts for next to none.
        for count in [1e-3, 1e-6, 1e-12] {
            assert!((0.0..1e-12).contains(&lowest(count, 0.025)), "{count}");
        }
    }

    #[test]
    fn bounds_are_those_of_the_printed_table() {
        // Agilent J-BERT N4903 manual, page 247: 95 % of a ratio below, by errors seen.
        let table = [2.996, 4.744, 6.296, 7.754, 9.154, 10.51, 11.84];
        for (errors, bits) in table.into_iter().enumerate() {
            let bound = Ratio::of(errors as u64, 1.0, 0.95).expect("trials").below;
            assert!((bound - bits).abs() < 0.006, "{errors}: {bound}");
        }
        // And of a ratio above: 1 to 7 errors within so many bits. (For 3 the manual as we have it
        // says 0.8117; half of the chi-square of 6 degrees at 5 % is 0.8177.)
        for (errors, bits) in
            [0.0513, 0.3554, 0.8177, 1.366, 1.970, 2.613, 3.285].into_iter().enumerate()
        {
            let low = Ratio::of(errors as u64 + 1, 1.0, 0.90).expect("trials").low;
            assert!((low - bits).abs() < 0.001, "{errors}: {low}");
        }
    }

    #[test]
    fn the_papers_91_hours_are_below_1e15_at_94_6_per_cent() {
        // 3.6572e14 bytes without an error (Trans-European, section 3).
        let bits = 3.6572e14 * 8.0;
        let bound = Ratio::of(0, bits, 0.95).expect("trials").below;
        assert!((bound - 1.024e-15).abs() < 1e-18, "{bound}");
        assert!(Ratio::of(0, bits, 0.946).expect("trials").below < 1e-15);
    }

    #[test]
    fn of_many_clusters_the_size_is_known_and_of_one_it_is_not() {
        let ratio = |clusters: u64, dispersion: f64| {
            Ratio::clustered(clusters * 5, 1.0, dispersion, 0.95).expect("trials")
        };
        // One cluster of five, by its likelihood: 25 times as many.
        let one = ratio(1, 10.0);
        assert!((one.high / one.value() - 25.2).abs() < 0.1, "{one:?}");
        assert!(one.below < one.high, "{one:?}");
        // Of a hundred both ways of looking at it are one.
        let many = ratio(100, 9.0);
        let equal = Ratio::of_equal_clusters(500, 1.0, 9.0, 0.95).expect("trials");
        assert!((1.0..1.01).contains(&(many.high / equal.high)), "{many:?} {equal:?}");
        assert_eq!((many.low, ratio(0, 1.0)), (equal.low, Ratio::of(0, 1.0, 0.95).expect("some")));
    }

    #[test]
    fn no_trials_say_nothing_and_clusters_widen() {
        assert_eq!(Ratio::of(0, 0.0, 0.95), None);
        let alone = Ratio::of(100, 1e6, 0.95).expect("trials");
        let clustered = Ratio::clustered(100, 1e6, 5.0, 0.95).expect("trials");
        assert!(clustered.low < alone.low && clustered.high > alone.high);
        assert!(alone.holds(1e-4) && !alone.holds(2e-4), "{alone:?}");
    }
}

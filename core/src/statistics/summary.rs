//! A few repetitions in a few numbers: mean, deviation, confidence interval, variation.

use super::student;
use serde::{Deserialize, Serialize};

/// What repetitions of one measurement say; in the unit of the samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// How many samples.
    pub n: usize,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation, of a sample (n - 1); zero for one.
    pub sd: f64,
    /// The least.
    pub min: f64,
    /// Half are below.
    pub median: f64,
    /// The largest.
    pub max: f64,
    /// The 95 % confidence interval of the mean by Student's t, low and high; absent for one
    /// sample, which says nothing of it.
    pub ci95: Option<(f64, f64)>,
}

impl Summary {
    /// The summary of `samples`; `None` without a finite one.
    pub fn of(samples: &[f64]) -> Option<Summary> {
        let mut sorted: Vec<f64> =
            samples.iter().copied().filter(|sample| sample.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let n = sorted.len();
        let mean = sorted.iter().sum::<f64>() / n as f64;
        let squares: f64 = sorted.iter().map(|sample| (sample - mean).powi(2)).sum();
        let sd = if n > 1 { (squares / (n - 1) as f64).sqrt() } else { 0.0 };
        let median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0;
        let ci95 = (n > 1).then(|| {
            let half = student::quantile(0.95, (n - 1) as f64) * sd / (n as f64).sqrt();
            (mean - half, mean + half)
        });
        Some(Summary { n, mean, sd, min, median, max, ci95 })
    }

    /// Where one more sample lies in 19 of 20 cases, by Student's t: farther off than the mean's
    /// interval, which says where the mean is (Hahn and Meeker, "Statistical Intervals", section
    /// 4.7). `None` for one sample.
    pub fn prediction95(&self) -> Option<(f64, f64)> {
        let n = self.n as f64;
        let half = || student::quantile(0.95, n - 1.0) * self.sd * (1.0 + 1.0 / n).sqrt();
        (self.n > 1).then(|| (self.mean - half(), self.mean + half()))
    }

    /// The coefficient of variation: deviation over mean; zero where the mean is.
    pub fn variation(&self) -> f64 {
        if self.mean == 0.0 { 0.0 } else { self.sd / self.mean.abs() }
    }

    /// Half of the confidence interval over the mean; infinite for one sample.
    pub fn relative_half_width(&self) -> f64 {
        match self.ci95 {
            Some((low, high)) if self.mean != 0.0 => (high - low) / 2.0 / self.mean.abs(),
            Some((low, high)) if high == low => 0.0,
            _ => f64::INFINITY,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Rng;
    use proptest::prelude::*;

    #[test]
    fn ten_repetitions_have_an_interval_of_0_715_deviations() {
        // t(9) / sqrt(10) = 2.262 / 3.162.
        let samples: Vec<f64> = (1..=10).map(f64::from).collect();
        let summary = Summary::of(&samples).expect("samples");
        assert_eq!((summary.mean, summary.median, summary.n), (5.5, 5.5, 10));
        assert!((summary.sd - 3.027_650).abs() < 1e-6);
        let (low, high) = summary.ci95.expect("an interval");
        assert!(((high - low) / 2.0 / summary.sd - 0.715).abs() < 5e-4, "{summary:?}");
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(
            Summary::of(&[3.0]).map(|one| (one.sd, one.ci95, one.relative_half_width())),
            Some((0.0, None, f64::INFINITY))
        );
    }

    #[test]
    fn nineteen_of_twenty_intervals_hold_the_true_mean() {
        let mut rng = Rng::new(5);
        let trials = 4_000;
        let holds = (0..trials).filter(|_| {
            let samples: Vec<f64> = (0..5).map(|_| 7.0 + 2.0 * rng.normal()).collect();
            Summary::of(&samples)
                .and_then(|summary| summary.ci95)
                .is_some_and(|(low, high)| (low..=high).contains(&7.0))
        });
        let share = holds.count() as f64 / f64::from(trials);
        assert!((share - 0.95).abs() < 0.011, "{share}");
    }

    #[test]
    fn three_samples_predict_nineteen_of_twenty_to_come() {
        let mut rng = Rng::new(6);
        let trials = 4_000;
        let holds = (0..trials).filter(|_| {
            let samples: Vec<f64> = (0..3).map(|_| 7.0 + 2.0 * rng.normal()).collect();
            let next = 7.0 + 2.0 * rng.normal();
            let foretold = Summary::of(&samples).and_then(|summary| summary.prediction95());
            foretold.is_some_and(|(low, high)| (low..=high).contains(&next))
        });
        let share = holds.count() as f64 / f64::from(trials);
        assert!((share - 0.95).abs() < 0.011, "{share}");
        assert_eq!(Summary::of(&[3.0]).and_then(|one| one.prediction95()), None);
    }

    proptest! {
        #[test]
        fn shifting_and_scaling_samples_shifts_and_scales_the_summary(
            samples in prop::collection::vec(-1e3f64..1e3, 2..30), shift in -1e3f64..1e3, scale in 0.1f64..10.0,
        ) {
            let one = Summary::of(&samples).expect("samples");
            let moved: Vec<f64> = samples.iter().map(|sample| sample * scale + shift).collect();
            let other = Summary::of(&moved).expect("samples");
            prop_assert!((other.mean - (one.mean * scale + shift)).abs() < 1e-6);
            prop_assert!((other.sd - one.sd * scale).abs() < 1e-6);
            prop_assert!(one.min <= one.median && one.median <= one.max && one.min <= one.mean && one.mean <= one.max + 1e-9);
        }
    }
}

//! Mean and deviation of samples that are not kept.

use serde::{Deserialize, Serialize};

/// What samples so far amount to, without rounding away a small deviation of large ones (B. P.
/// Welford, Technometrics 4, 1962); in the unit of the samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moments {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Moments {
    /// Takes one more.
    pub fn add(&mut self, sample: f64) {
        self.count += 1;
        let off = sample - self.mean;
        self.mean += off / self.count as f64;
        self.squares += off * (sample - self.mean);
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their mean; zero of none.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// Their standard deviation, of a sample (n - 1); zero of one or none.
    pub fn sd(&self) -> f64 {
        (self.squares / self.count.saturating_sub(1).max(1) as f64).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Summary;
    use crate::units::Rng;

    #[test]
    fn they_are_those_of_a_summary() {
        let mut rng = Rng::new(5);
        let samples: Vec<f64> = (0..1_000).map(|_| 1e7 + rng.unit()).collect();
        let mut moments = Moments::default();
        assert_eq!((moments.count(), moments.mean(), moments.sd()), (0, 0.0, 0.0));
        samples.iter().for_each(|sample| moments.add(*sample));
        let whole = Summary::of(&samples).expect("some");
        assert_eq!(moments.count(), 1_000);
        assert!((moments.mean() - whole.mean).abs() < 1e-6, "{moments:?}");
        assert!((moments.sd() / whole.sd - 1.0).abs() < 1e-6, "{moments:?}");
    }
}

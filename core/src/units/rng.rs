//! Seeded random numbers: the same seed gives the same run on every machine and in every version.

use rand_core::{Rng as _, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A seeded generator (xoshiro256++, Blackman and Vigna 2019); its stream is part of Farline's
/// results.
#[derive(Clone, Debug)]
pub struct Rng(Xoshiro256PlusPlus);

impl Rng {
    /// The generator of `seed`.
    pub fn new(seed: u64) -> Rng {
        Rng(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// An independent generator for `purpose`, so that one more draw in one place does not shift
    /// another.
    pub fn fork(&self, purpose: u64) -> Rng {
        let mut base = self.0.clone();
        Rng::new(base.next_u64() ^ purpose.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// Sixty-four random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Fills `into` with random bytes.
    pub fn fill(&mut self, into: &mut [u8]) {
        for part in into.chunks_mut(8) {
            part.copy_from_slice(&self.next_u64().to_le_bytes()[..part.len()]);
        }
    }

    /// Uniform in `0..bound`, without bias; zero when `bound` is.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        // Lemire 2019, "Fast Random Integer Generation in an Interval".
        loop {
            let product = u128::from(self.next_u64()) * u128::from(bound);
            let low = product as u64;
            if low >= bound.wrapping_neg() % bound {
                return (product >> 64) as u64;
            }
        }
    }

    /// Uniform in `[0, 1)` with 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Trials before the first success when each succeeds with probability `p`: 0 for `p >= 1`,
    /// `u64::MAX` for `p <= 0`.
    ///
    /// Geometric by inversion, `floor(ln(1-u) / ln(1-p))`.
    pub fn trials_before_success(&mut self, p: f64) -> u64 {
        if p <= 0.0 {
            return u64::MAX;
        }
        if p >= 1.0 {
            return 0;
        }
        ((-self.unit()).ln_1p() / (-p).ln_1p()) as u64
    }

    /// A normal deviate of mean 0 and standard deviation 1 (Marsaglia's polar method).
    pub fn normal(&mut self) -> f64 {
        loop {
            let (x, y) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                return x * (-2.0 * square.ln() / square).sqrt();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn geometric_gaps_have_the_right_mean() {
        for p in [0.5, 1e-2, 1e-4] {
            let mut rng = Rng::new(7);
            let n = 20_000;
            let sum: f64 = (0..n).map(|_| rng.trials_before_success(p) as f64).sum();
            let expected = (1.0 - p) / p;
            let mean = sum / f64::from(n);
            assert!(
                (mean / expected - 1.0).abs() < 0.05,
                "p {p}: mean {mean}, expected {expected}"
            );
        }
        assert_eq!(Rng::new(1).trials_before_success(0.0), u64::MAX);
        assert_eq!(Rng::new(1).trials_before_success(1.0), 0);
    }

    #[test]
    fn the_stream_of_a_seed_is_fixed() {
        let mut rng = Rng::new(42);
        let first: Vec<u64> = (0..3).map(|_| rng.below(1_000_000)).collect();
        let mut again = Rng::new(42);
        assert_eq!(first, (0..3).map(|_| again.below(1_000_000)).collect::<Vec<_>>());
        assert_ne!(Rng::new(42).fork(1).next_u64(), Rng::new(42).fork(2).next_u64());
    }
}

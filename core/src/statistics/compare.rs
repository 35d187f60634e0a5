//! Whether two sets of repetitions differ by more than chance.

use super::student;
use super::summary::Summary;
use crate::units::Rng;
use serde::{Deserialize, Serialize};
use statrs::function::beta::beta_reg;

/// What a test of two means found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The second mean less the first, in the samples' unit.
    pub difference: f64,
    /// The same over the first mean.
    pub relative: f64,
    /// How probable a difference of at least this size is if there is none.
    pub p: f64,
}

impl Comparison {
    /// Whether the difference is significant at `level`, such as 0.05.
    pub fn significant(&self, level: f64) -> bool {
        self.p < level
    }
}

/// Welch's t test of two means, which does not take the variances for equal (Welch, Biometrika 34,
/// 1947).
///
/// `None` with fewer than two samples on a side.
pub fn welch(a: &[f64], b: &[f64]) -> Option<Comparison> {
    let (first, second) = (Summary::of(a)?, Summary::of(b)?);
    if first.n < 2 || second.n < 2 {
        return None;
    }
    let (va, vb) = (first.sd.powi(2) / first.n as f64, second.sd.powi(2) / second.n as f64);
    let p = if va + vb == 0.0 {
        // Samples that never vary differ for certain or not at all.
        if first.mean == second.mean { 1.0 } else { 0.0 }
    } else {
        let t = (second.mean - first.mean) / (va + vb).sqrt();
        // The Welch-Satterthwaite equation.
        let degrees = (va + vb).powi(2)
            / (va.powi(2) / (first.n - 1) as f64 + vb.powi(2) / (second.n - 1) as f64);
        student::beyond(t, degrees)
    };
    Some(compared(first.mean, second.mean, p))
}

/// The test of two variances by the logarithms of those of parts (Bartlett and Kendall, Supplement
/// to the Journal of the Royal Statistical Society 8, 1946), with Welch's t: how much variances
/// vary is taken from the parts, so that it does not depend on the distribution being normal (Box,
/// Biometrika 40, 1953).
///
/// `a` and `b` are the standard deviations of parts; those of zero say nothing. Returns how
/// probable so large a difference is if there is none; `None` with fewer than two parts on a side.
pub fn deviations(a: &[f64], b: &[f64]) -> Option<f64> {
    let logs = |sds: &[f64]| -> Vec<f64> {
        sds.iter().filter(|sd| **sd > 0.0).map(|sd| 2.0 * sd.ln()).collect()
    };
    welch(&logs(a), &logs(b)).map(|found| found.p)
}

/// The conditional test of two Poisson counts, each with how often it could have happened
/// (Przyborowski and Wilenski, Biometrika 31, 1940), on both sides: of both together, the first has
/// its share by chance. Counts need not be whole.
///
/// Returns how probable so large a difference of the two ratios is if there is none; `None` without
/// trials on a side.
pub fn counts(first: (f64, f64), second: (f64, f64)) -> Option<f64> {
    let ((a, of_a), (b, of_b)) = (first, second);
    if !(of_a > 0.0 && of_b > 0.0) {
        return None;
    }
    let share = of_a / (of_a + of_b);
    // As many or more of n at a probability are the regularised beta function of that.
    let as_many = |count: f64, rest: f64, share: f64| {
        if count > 0.0 { beta_reg(count, rest + 1.0, share) } else { 1.0 }
    };
    let tail = as_many(a, b, share).min(as_many(b, a, 1.0 - share));
    Some((2.0 * tail).min(1.0))
}

/// Which of several tests, of these `p`, say more than chance at `level` taken together: where
/// nothing differs, one of them does with a probability of at most `level` (Holm, Scandinavian
/// Journal of Statistics 6, 1979).
pub fn holm(p: &[f64], level: f64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut says = vec![false; p.len()];
    for (rank, at) in order.into_iter().enumerate() {
        if p[at] >= level / (p.len() - rank) as f64 {
            break;
        }
        says[at] = true;
    }
    says
}

/// The permutation test of two means: how often a random division of all samples differs as much.
/// It assumes no distribution.
///
/// `rounds` random divisions of `seed`; the division that was measured is one of them, so that p is
/// never zero. `None` without samples on a side.
pub fn permutation(a: &[f64], b: &[f64], rounds: u32, seed: u64) -> Option<Comparison> {
    let (first, second) = (Summary::of(a)?, Summary::of(b)?);
    let difference = second.mean - first.mean;
    let mut pool: Vec<f64> =
        a.iter().chain(b).copied().filter(|sample| sample.is_finite()).collect();
    let total: f64 = pool.iter().sum();
    let mut rng = Rng::new(seed);
    let slack = 1e-12 * pool.iter().fold(0.0f64, |most, sample| most.max(sample.abs()));
    let mut as_large = 1u32;
    for _ in 0..rounds {
        // Fisher and Yates, only as far as the first group goes.
        for i in 0..first.n {
            let j = i + rng.below((pool.len() - i) as u64) as usize;
            pool.swap(i, j);
        }
        let sum: f64 = pool[..first.n].iter().sum();
        let apart = (total - sum) / second.n as f64 - sum / first.n as f64;
        as_large += u32::from(apart.abs() >= difference.abs() - slack);
    }
    Some(compared(first.mean, second.mean, f64::from(as_large) / f64::from(rounds + 1)))
}

fn compared(first: f64, second: f64, p: f64) -> Comparison {
    let difference = second - first;
    Comparison { difference, relative: if first == 0.0 { 0.0 } else { difference / first }, p }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normals(rng: &mut Rng, n: usize, mean: f64, sd: f64) -> Vec<f64> {
        (0..n).map(|_| mean + sd * rng.normal()).collect()
    }

    #[test]
    fn welch_gives_the_p_of_a_worked_example() {
        // t = -2.8353 with 27.71 degrees of freedom; the density integrated beyond it gives p =
        // 0.008453.
        let a = [
            27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7,
            21.4,
        ];
        let b = [
            27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 30.0,
            23.9,
        ];
        let found = welch(&a, &b).expect("enough samples");
        let by_chance = permutation(&a, &b, 20_000, 1).expect("enough samples");
        assert!((found.p - by_chance.p).abs() < 0.004, "{found:?} {by_chance:?}");
        assert!((found.p - 0.008_453).abs() < 2e-6, "{found:?}");
        assert!((found.difference - 2.766_667).abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn equal_means_are_found_different_as_often_as_the_level_says() {
        let mut rng = Rng::new(11);
        let trials = 2_000u32;
        let (mut by_welch, mut by_permutation) = (0, 0);
        for trial in 0..trials {
            let (a, b) = (normals(&mut rng, 10, 5.0, 1.0), normals(&mut rng, 10, 5.0, 3.0));
            by_welch += u32::from(welch(&a, &b).is_some_and(|found| found.significant(0.05)));
            if trial < 400 {
                let b = normals(&mut rng, 10, 5.0, 1.0);
                by_permutation += u32::from(
                    permutation(&a, &b, 400, trial.into())
                        .is_some_and(|found| found.significant(0.05)),
                );
            }
        }
        assert!(
            (0.038..0.062).contains(&(f64::from(by_welch) / f64::from(trials))),
            "{by_welch} of {trials}"
        );
        assert!(
            (0.02..0.08).contains(&(f64::from(by_permutation) / 400.0)),
            "{by_permutation} of 400"
        );
    }

    #[test]
    fn three_deviations_are_a_difference_one_sample_is_not() {
        let mut rng = Rng::new(3);
        let (a, b) = (normals(&mut rng, 10, 5.0, 1.0), normals(&mut rng, 10, 8.0, 1.0));
        assert!(
            welch(&a, &b).is_some_and(|found| found.significant(0.001) && found.relative > 0.3)
        );
        assert!(permutation(&a, &b, 2_000, 1).is_some_and(|found| found.significant(0.01)));
        assert_eq!(welch(&a, &b[..1]), None);
        assert_eq!(welch(&[2.0, 2.0], &[2.0, 2.0]).map(|found| found.p), Some(1.0));
        assert_eq!(welch(&[2.0, 2.0], &[3.0, 3.0]).map(|found| found.p), Some(0.0));
    }

    #[test]
    fn two_counts_have_the_p_of_the_binomial() {
        // 9 and 1 of equally many: 2 (1 + 10) of 2^10.
        let p = counts((9.0, 50.0), (1.0, 50.0)).expect("trials");
        assert!((p - 22.0 / 1024.0).abs() < 1e-12, "{p}");
        assert_eq!(counts((3.0, 10.0), (3.0, 10.0)), Some(1.0));
        assert_eq!(counts((0.0, 10.0), (0.0, 10.0)), Some(1.0));
        assert_eq!(counts((1.0, 0.0), (1.0, 10.0)), None);
    }

    #[test]
    fn equal_deviations_differ_as_often_as_the_level_says() {
        // Of exponential draws, for which Bartlett's own test and the F test find a difference far
        // more often.
        let part = |rng: &mut Rng, scale: f64| {
            let draws: Vec<f64> = (0..100).map(|_| -scale * (1.0 - rng.unit()).ln()).collect();
            Summary::of(&draws).expect("draws").sd
        };
        let parts =
            |rng: &mut Rng, scale: f64| -> Vec<f64> { (0..20).map(|_| part(rng, scale)).collect() };
        let found = |scale: f64| {
            (0..400)
                .filter(|seed| {
                    let mut rng = Rng::new(*seed);
                    let (a, b) = (parts(&mut rng, 1.0), parts(&mut rng, scale));
                    deviations(&a, &b).expect("parts") < 0.05
                })
                .count()
        };
        let (alike, apart) = (found(1.0), found(1.3));
        assert!((6..=36).contains(&alike), "{alike} of 400");
        assert!(apart > 390, "{apart} of 400");
        assert_eq!(
            deviations(&[1.0, 2.0], &[0.0, 3.0]),
            None,
            "a part that never varies says nothing"
        );
    }
}

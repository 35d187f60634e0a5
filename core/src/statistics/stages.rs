//! How many repetitions a narrow interval takes, decided so that the interval still holds what it
//! says: Stein's two stages.
//!
//! Whoever looks after each repetition and stops as soon as the interval is narrow, stops where
//! chance made it narrow: with three to ten looks and a variation of 5 % nine of ten intervals hold
//! the mean, not nineteen of twenty. Stein (Annals of Mathematical Statistics 16, 1945) looks once.
//! The first stage decides by its deviation how many there are in all, and that deviation, with the
//! first stage's degrees of freedom, makes the interval: the mean of all does not depend on it, so
//! the interval is Student's whatever was decided.

use super::student;
use super::summary::Summary;

/// The share of intervals that hold the mean.
const HOLDS: f64 = 0.95;

/// The standard error of the mean of `samples` with its degrees of freedom: by the deviation of the
/// `first` of them where these decided how many there are, else by that of all. `None` for one
/// sample.
pub fn error_of_mean(samples: &[f64], first: Option<usize>) -> Option<(f64, f64)> {
    let decided = first.map_or(samples, |first| {
        &samples[..first.clamp(2, samples.len().max(2)).min(samples.len())]
    });
    let stage = Summary::of(decided).filter(|stage| stage.n > 1)?;
    Some((stage.sd / (samples.len() as f64).sqrt(), (stage.n - 1) as f64))
}

impl Summary {
    /// The summary of `samples` of which the `first` decided how many there are; as [`Summary::of`]
    /// where nothing was decided.
    pub fn in_stages(samples: &[f64], first: Option<usize>) -> Option<Summary> {
        let summary = Summary::of(samples)?;
        let ci95 = error_of_mean(samples, first).map(|(error, degrees)| {
            let half = student::quantile(HOLDS, degrees) * error;
            (summary.mean - half, summary.mean + half)
        });
        Some(Summary { ci95, ..summary })
    }
}

/// How many samples it takes until half of the interval is `half_width` of the mean, as the `first`
/// stage says.
pub fn needed(first: &[f64], half_width: f64) -> f64 {
    let Some(stage) = Summary::of(first).filter(|stage| stage.n > 1) else { return f64::INFINITY };
    if stage.sd == 0.0 {
        return stage.n as f64;
    }
    let half = student::quantile(HOLDS, (stage.n - 1) as f64) * stage.sd;
    (half / (half_width * stage.mean.abs())).powi(2).ceil().max(stage.n as f64)
}

/// The mean of several cells' means, each as heavy as the others however often it was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pooled {
    /// Of the means.
    pub mean: f64,
    /// How far the cells' means lie apart; zero for one cell.
    pub sd: f64,
    /// The 95 % interval of the mean of these cells, from how each cell's repetitions differ;
    /// absent where one was measured once.
    pub ci95: Option<(f64, f64)>,
}

impl Pooled {
    /// Of cells with their mean and what [`error_of_mean`] says of it; `None` without a cell.
    ///
    /// Errors of independent means add by their squares, with the degrees of freedom of Welch and
    /// Satterthwaite.
    pub fn of(cells: &[(f64, Option<(f64, f64)>)]) -> Option<Pooled> {
        let between = Summary::of(&cells.iter().map(|(mean, _)| *mean).collect::<Vec<_>>())?;
        let errors: Option<Vec<(f64, f64)>> = cells.iter().map(|(_, error)| *error).collect();
        let ci95 = errors.map(|errors| {
            let squares: f64 = errors.iter().map(|(error, _)| error * error).sum();
            let fourths: f64 = errors.iter().map(|(error, degrees)| error.powi(4) / degrees).sum();
            let half = if squares > 0.0 {
                student::quantile(HOLDS, squares * squares / fourths) * squares.sqrt()
                    / cells.len() as f64
            } else {
                0.0
            };
            (between.mean - half, between.mean + half)
        });
        Some(Pooled { mean: between.mean, sd: between.sd, ci95 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Rng;

    /// Of cells with the `variation`, measured `least` to ten times until within 3 %: the share
    /// whose interval holds the true mean, and how often they were measured.
    fn covered(variation: f64, least: usize, seed: u64) -> (f64, f64) {
        let (mut rng, trials, mut held, mut ran) = (Rng::new(seed), 2_500, 0, 0);
        for _ in 0..trials {
            let all: Vec<f64> = (0..10).map(|_| 8.0 * (1.0 + variation * rng.normal())).collect();
            let count = needed(&all[..least], 0.03).clamp(least as f64, 10.0) as usize;
            let (low, high) = Summary::in_stages(&all[..count], Some(least))
                .and_then(|one| one.ci95)
                .expect("an interval");
            held += usize::from((low..=high).contains(&8.0));
            ran += count;
        }
        (held as f64 / f64::from(trials), ran as f64 / f64::from(trials))
    }

    #[test]
    fn two_stage_intervals_hold_the_mean_in_nineteen_of_twenty() {
        for (i, variation) in [0.01, 0.02, 0.03, 0.05, 0.10].into_iter().enumerate() {
            let (share, ran) = covered(variation, 5, 7 + i as u64);
            println!("variation {variation}: {share:.3} hold the mean after {ran:.1} repetitions");
            // Three deviations of a share of 2500.
            assert!((share - 0.95).abs() < 0.0135, "{variation}: {share}");
        }
        assert!(covered(0.01, 5, 1).1 < 5.5 && covered(0.10, 5, 1).1 > 9.5);
    }

    #[test]
    fn who_looks_after_each_repetition_has_fewer_that_hold_it() {
        let (mut rng, trials, mut held) = (Rng::new(3), 2_000, 0);
        for _ in 0..trials {
            let all: Vec<f64> = (0..10).map(|_| 8.0 * (1.0 + 0.05 * rng.normal())).collect();
            let narrow = |n: &usize| {
                Summary::of(&all[..*n]).is_some_and(|one| one.relative_half_width() <= 0.03)
            };
            let count = (3..10).find(narrow).unwrap_or(10);
            let (low, high) =
                Summary::of(&all[..count]).and_then(|one| one.ci95).expect("an interval");
            held += usize::from((low..=high).contains(&8.0));
        }
        let share = held as f64 / f64::from(trials);
        assert!((0.88..0.93).contains(&share), "the rule that this one took the place of: {share}");
    }

    #[test]
    fn cells_count_alike_however_often_they_were_measured() {
        let mut rng = Rng::new(11);
        let (trials, mut held) = (2_000, 0);
        for _ in 0..trials {
            // The true means lie far apart: their spread is no error of the mean.
            let cells = [(5.0, 3), (7.0, 10), (9.0, 4)].map(|(mean, n): (f64, usize)| {
                let all: Vec<f64> = (0..n).map(|_| mean * (1.0 + 0.04 * rng.normal())).collect();
                (Summary::of(&all).expect("samples").mean, error_of_mean(&all, None))
            });
            let pooled = Pooled::of(&cells).expect("cells");
            let (low, high) = pooled.ci95.expect("an interval");
            assert!(high - low < 2.0 && pooled.sd > 1.0, "{pooled:?}");
            held += usize::from((low..=high).contains(&7.0));
        }
        let share = held as f64 / f64::from(trials);
        assert!((share - 0.95).abs() < 0.02, "{share}");
        assert_eq!(
            Pooled::of(&[(5.0, Some((0.1, 4.0))), (7.0, None)]).map(|one| (one.mean, one.ci95)),
            Some((6.0, None))
        );
        assert_eq!(Pooled::of(&[]), None);
        let once = Summary::in_stages(&[5.0], Some(5)).expect("a sample");
        assert_eq!((once.ci95, error_of_mean(&[], Some(5))), (None, None));
    }
}

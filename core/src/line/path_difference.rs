//! How two paths of a comparison differ, in mean and deviation of round trips and in losses, and
//! which of it is more than chance.

use super::compared_path::ComparedPath;
use super::scientific::scientific;
use crate::statistics::{deviations, holm, welch};
use serde::Serialize;

/// Of comparisons of paths that are alike at most one in twenty says that anything differs.
const LEVEL: f64 = 0.05;

/// How two paths differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PathDifference {
    /// The first.
    pub first: String,
    /// The second.
    pub second: String,
    /// The second's mean less the first's, in nanoseconds.
    pub mean_ns: f64,
    /// How probable so large a difference is by chance.
    pub p: f64,
    /// The second's deviation over the first's.
    pub sd_ratio: f64,
    /// How probable a ratio so far from one is by chance; absent where a document has no deviations
    /// of parts, as those of earlier versions.
    pub sd_p: Option<f64>,
    /// Frames lost of those sent: the first's and the second's.
    pub losses: Option<(f64, f64)>,
    /// How probable so large a difference of these is by chance.
    pub loss_p: Option<f64>,
    /// Whether the means differ by more than chance, with regard to how many tests the comparison
    /// makes (Holm).
    pub differs: bool,
    /// The same of deviations, where these were tested.
    pub sd_differs: Option<bool>,
    /// The same of losses.
    pub loss_differs: Option<bool>,
}

impl PathDifference {
    pub(super) fn of(first: &ComparedPath, second: &ComparedPath) -> Option<PathDifference> {
        let means = welch(&first.part_means_ns, &second.part_means_ns)?;
        let losses = first.losses.zip(second.losses);
        // Where neither lost anything there is nothing to test.
        let tested = losses.filter(|(first, second)| first.lost + second.lost > 0.0);
        Some(PathDifference {
            first: first.name.clone(),
            second: second.name.clone(),
            mean_ns: second.rtt.mean_ns - first.rtt.mean_ns,
            p: means.p,
            sd_ratio: second.rtt.sd_ns / first.rtt.sd_ns,
            sd_p: deviations(&first.part_sds_ns, &second.part_sds_ns),
            losses: losses.map(|(first, second)| (first.ratio(), second.ratio())),
            loss_p: tested.and_then(|(first, second)| first.p(&second)),
            differs: false,
            sd_differs: None,
            loss_differs: None,
        })
    }

    /// Says of each which tests say more than chance: of many some would.
    pub(super) fn decide(differences: &mut [PathDifference]) {
        let tested = |it: &PathDifference| [Some(it.p), it.sd_p, it.loss_p];
        let p: Vec<f64> = differences.iter().flat_map(tested).flatten().collect();
        let mut says = holm(&p, LEVEL).into_iter();
        for difference in differences {
            difference.differs = says.next().unwrap_or(false);
            difference.sd_differs = difference.sd_p.and_then(|_| says.next());
            difference.loss_differs = difference.loss_p.and_then(|_| says.next());
        }
    }

    /// That in sentences, with the tests' names.
    pub(super) fn said(&self) -> String {
        let PathDifference { first, second, mean_ns, p, sd_ratio, .. } = self;
        let word = if *mean_ns < 0.0 { "shorter" } else { "longer" };
        let mut said = format!(
            "{second} is {:.4} ms {word} than {first} on average: {} (Welch's test of means of parts in \
             time); its deviation is {sd_ratio:.2} times that",
            mean_ns.abs() / 1e6,
            chance(self.differs, *p)
        );
        if let (Some(differs), Some(p)) = (self.sd_differs, self.sd_p) {
            let test = "Bartlett and Kendall's test of the variances within these parts";
            said += &format!(": {} ({test})", chance(differs, p));
        }
        if let (Some((before, now)), Some(differs), Some(p)) =
            (self.losses, self.loss_differs, self.loss_p)
        {
            said += &format!(
                "; it lost {} of its frames against {}: {} (the conditional test of two counts, with \
                 losses of a burst as one)",
                scientific(now, 1),
                scientific(before, 1),
                chance(differs, p)
            );
        }
        said + "."
    }
}

/// Whether a difference is by chance, and how probable that is.
fn chance(differs: bool, p: f64) -> String {
    let is = match (differs, p < LEVEL) {
        (true, _) => "more than chance",
        (false, true) => "not more than chance among so many tests",
        (false, false) => "not more than chance",
    };
    format!("{is}, p = {p:.1e}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::compared_path::PathLosses;
    use crate::line::simulate_bursts;
    use crate::statistics::counts;
    use crate::units::Rng;

    /// Losses of a path that loses bursts of `burst` frames in the mean, `ratio` of all frames.
    fn losses(ratio: f64, burst: f64, seed: u64) -> PathLosses {
        let (turns_good, frames) = (1.0 / burst, 20_000);
        let turns_bad = ratio * turns_good / (1.0 - ratio);
        let runs = simulate_bursts(frames, turns_bad, turns_good, &mut Rng::new(seed));
        let (seen, burst_squares) = (runs.lost as f64, runs.burst_squares as f64);
        PathLosses { lost: seen, sent: frames as f64, seen, burst_squares }
    }

    #[test]
    fn losses_of_one_path_differ_by_chance_alone() {
        let differ = |other: f64, burst: f64| {
            let seeds = (0..300).filter(|seed| {
                let (a, b) = (losses(0.01, burst, *seed), losses(other, burst, seed + 1_000));
                a.p(&b).expect("frames") < LEVEL
            });
            seeds.count()
        };
        let (alike, in_bursts) = (differ(0.01, 1.0), differ(0.01, 6.0));
        assert!(alike <= 28 && in_bursts <= 28, "{alike} and {in_bursts} of 300");
        // Counted one by one, those in bursts would differ in most.
        let one_by_one = (0..300).filter(|seed| {
            let (a, b) = (losses(0.01, 6.0, *seed), losses(0.01, 6.0, seed + 1_000));
            counts((a.lost, a.sent), (b.lost, b.sent)) < Some(LEVEL)
        });
        assert!(one_by_one.count() > 120);
        let (apart, bursts_apart) = (differ(0.03, 1.0), differ(0.03, 6.0));
        assert!(apart > 295 && bursts_apart > 270, "{apart} and {bursts_apart} of 300");
    }
}

//! Gilbert's model of bursty loss, fitted to a sequence of received and lost frames.

use serde::{Deserialize, Serialize};

/// How often a frame of a kind followed one of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GilbertCounts {
    /// A received one after a received one.
    pub stayed_good: u64,
    /// A lost one after a received one.
    pub turned_bad: u64,
    /// A received one after a lost one.
    pub turned_good: u64,
    /// A lost one after a lost one.
    pub stayed_bad: u64,
}

/// A chain of two states, in one of which every frame arrives and in the other none (Gilbert, Bell
/// System Technical Journal 39, 1960, with h = 0); intervals are Wilson's of 95 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gilbert {
    /// The probability that a lost frame follows a received one.
    pub turns_bad: f64,
    /// Within what that lies.
    pub turns_bad_ci95: (f64, f64),
    /// The probability that a received frame follows a lost one: the inverse of the mean run.
    pub turns_good: f64,
    /// Within what that lies.
    pub turns_good_ci95: (f64, f64),
}

impl GilbertCounts {
    /// Both together.
    pub(super) fn with(&self, other: &GilbertCounts) -> GilbertCounts {
        GilbertCounts {
            stayed_good: self.stayed_good.saturating_add(other.stayed_good),
            turned_bad: self.turned_bad.saturating_add(other.turned_bad),
            turned_good: self.turned_good.saturating_add(other.turned_good),
            stayed_bad: self.stayed_bad.saturating_add(other.stayed_bad),
        }
    }

    /// The maximum-likelihood fit; `None` where no frame was lost.
    pub fn fit(&self) -> Option<Gilbert> {
        let (good, bad) = (self.stayed_good + self.turned_bad, self.stayed_bad + self.turned_good);
        if self.turned_bad == 0 || bad == 0 {
            return None;
        }
        Some(Gilbert {
            turns_bad: self.turned_bad as f64 / good as f64,
            turns_bad_ci95: wilson(self.turned_bad, good),
            turns_good: self.turned_good as f64 / bad as f64,
            turns_good_ci95: wilson(self.turned_good, bad),
        })
    }
}

/// The interval of 95 % of a probability of which `hits` of `trials` were seen (Wilson, Journal of
/// the American Statistical Association 22, 1927).
fn wilson(hits: u64, trials: u64) -> (f64, f64) {
    const Z: f64 = 1.959_964;
    let (hits, n) = (hits as f64, trials as f64);
    let share = hits / n;
    let middle = (share + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let half = Z / (1.0 + Z * Z / n) * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    ((middle - half).max(0.0), (middle + half).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Rng;

    #[test]
    fn probabilities_put_in_lie_in_the_intervals() {
        let (turns_bad, turns_good) = (1e-3, 0.2);
        let mut held = [0; 2];
        for seed in 0..400 {
            let mut rng = Rng::new(seed);
            let mut counts = GilbertCounts::default();
            let mut is_lost = false;
            for _ in 0..50_000 {
                let turns = rng.unit() < if is_lost { turns_good } else { turns_bad };
                match (is_lost, turns) {
                    (false, false) => counts.stayed_good += 1,
                    (false, true) => counts.turned_bad += 1,
                    (true, true) => counts.turned_good += 1,
                    (true, false) => counts.stayed_bad += 1,
                }
                is_lost ^= turns;
            }
            let fit = counts.fit().expect("losses");
            let within = |(low, high): (f64, f64), truth| u32::from(low <= truth && truth <= high);
            held[0] += within(fit.turns_bad_ci95, turns_bad);
            held[1] += within(fit.turns_good_ci95, turns_good);
        }
        assert!(held.iter().all(|held| *held >= 372), "{held:?} of 400: less than 93 %");
    }
}

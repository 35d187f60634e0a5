//! Where a profile turns from concave to convex: Rao's transition RTT, by a fit of two sigmoids.
//!
//! Rao et al., HPDC 2017 and "Learning Concave-Convex Profiles": a throughput profile, scaled to its capacity, is fitted by
//! flipped sigmoids `g(tau) = 1 - 1 / (1 + e^(-a (tau - tau0)))`, which are concave up to tau0 and convex beyond: one with
//! `tau0 >= tau_T` up to the transition RTT tau_T, another with `tau0 <= tau_T` beyond it.

use serde::{Deserialize, Serialize};

/// A flipped sigmoid.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sigmoid {
    /// How steep: a, per millisecond.
    pub steepness: f64,
    /// Where it is one half: tau0, in milliseconds.
    pub middle_ms: f64,
}

impl Sigmoid {
    /// The share of capacity at an rtt of `ms`.
    pub fn at(&self, ms: f64) -> f64 {
        1.0 / (1.0 + (self.steepness * (ms - self.middle_ms)).exp())
    }
}

/// The fit of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transition {
    /// tau_T in milliseconds: up to it the profile is concave. The first rtt when it is convex throughout.
    pub rtt_ms: f64,
    /// The sigmoid up to tau_T; absent when the profile is convex throughout.
    pub concave: Option<Sigmoid>,
    /// The sigmoid beyond tau_T; absent when the profile is concave throughout.
    pub convex: Option<Sigmoid>,
    /// Root of the mean square error, in shares of capacity.
    pub rmse: f64,
}

impl Transition {
    /// The fitted share of capacity at an rtt of `ms`.
    pub fn at(&self, ms: f64) -> f64 {
        let side = if ms <= self.rtt_ms { self.concave.or(self.convex) } else { self.convex.or(self.concave) };
        side.map_or(0.0, |sigmoid| sigmoid.at(ms))
    }
}

/// Fits `points`, (rtt in milliseconds, throughput) in ascending rtt, scaled by `capacity`; `None` for fewer than three rtts.
///
/// Every measured rtt is tried as tau_T; the least sum of squares wins. The true transition lies between that rtt and the next.
pub fn transition(points: &[(f64, f64)], capacity: f64) -> Option<Transition> {
    let last = points.last()?.0;
    if points.len() < 3 || capacity <= 0.0 || last <= points[0].0 {
        return None;
    }
    let shares: Vec<(f64, f64)> = points.iter().map(|&(ms, throughput)| (ms, (throughput / capacity).clamp(0.0, 1.0))).collect();
    let mut best: Option<(f64, Transition)> = None;
    for turn in 0..shares.len() {
        let rtt_ms = shares[turn].0;
        let (left, right) = shares.split_at(turn + 1);
        // One point on a side is no curve: the other sigmoid takes it.
        let (left, right) = match (left.len(), right.len()) {
            (1, _) => (&shares[..0], &shares[..]),
            (_, 1) => continue,
            _ => (left, right),
        };
        let concave = (!left.is_empty()).then(|| fit(left, (rtt_ms, 10.0 * last)));
        let convex = (!right.is_empty()).then(|| fit(right, (-10.0 * last, rtt_ms)));
        let squares = concave.map_or(0.0, |(_, squares)| squares) + convex.map_or(0.0, |(_, squares)| squares);
        // A turn that gains nothing is not one: the first, simplest division stands.
        if best.as_ref().is_none_or(|(least, _)| squares < least - 1e-9) {
            let rmse = (squares / shares.len() as f64).sqrt();
            let (concave, convex) = (concave.map(|(sigmoid, _)| sigmoid), convex.map(|(sigmoid, _)| sigmoid));
            best = Some((squares, Transition { rtt_ms, concave, convex, rmse }));
        }
    }
    best.map(|(_, found)| found)
}

/// The sigmoid of least squares with its middle between `low` and `high`, by a grid that is refined around its best point.
fn fit(points: &[(f64, f64)], (low, high): (f64, f64)) -> (Sigmoid, f64) {
    let squares = |sigmoid: Sigmoid| points.iter().map(|&(ms, share)| (sigmoid.at(ms) - share).powi(2)).sum::<f64>();
    let range = points.last().map_or(1.0, |point| point.0.abs()).max(1e-3);
    const STEPS: usize = 24;
    // Steepness spans decades, so its logarithm is searched.
    let (mut a_from, mut a_to) = ((1e-4 / range).ln(), (1e3 / range).ln());
    let (mut m_from, mut m_to) = (low, high);
    let mut best = (Sigmoid { steepness: a_from.exp(), middle_ms: low }, f64::INFINITY);
    for _ in 0..12 {
        for i in 0..=STEPS {
            for j in 0..=STEPS {
                let share = |k: usize| k as f64 / STEPS as f64;
                let steepness = (a_from + share(i) * (a_to - a_from)).exp();
                let sigmoid = Sigmoid { steepness, middle_ms: m_from + share(j) * (m_to - m_from) };
                let sum = squares(sigmoid);
                if sum < best.1 {
                    best = (sigmoid, sum);
                }
            }
        }
        let (a, m) = (best.0.steepness.ln(), best.0.middle_ms);
        let (a_half, m_half) = ((a_to - a_from) / 6.0, (m_to - m_from) / 6.0);
        (a_from, a_to) = (a - a_half, a + a_half);
        (m_from, m_to) = ((m - m_half).max(low), (m + m_half).min(high));
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rao's suite, in milliseconds.
    const SUITE: [f64; 7] = [0.4, 11.8, 22.6, 45.6, 91.6, 183.0, 366.0];

    #[test]
    fn the_turn_of_a_made_profile_is_found() {
        for turn in [45.6, 91.6] {
            let (left, right) =
                (Sigmoid { steepness: 0.02, middle_ms: turn + 60.0 }, Sigmoid { steepness: 0.012, middle_ms: turn - 30.0 });
            let points: Vec<(f64, f64)> =
                SUITE.iter().map(|&ms| (ms, 9.3 * if ms <= turn { left.at(ms) } else { right.at(ms) })).collect();
            let found = transition(&points, 9.3).expect("enough points");
            assert_eq!(found.rtt_ms, turn, "{found:?}");
            assert!(found.rmse < 0.01, "{found:?}");
        }
    }

    #[test]
    fn window_limited_throughput_is_convex_and_a_plateau_concave() {
        // min(C, W / rtt) from the second point on: a hyperbola.
        let hyperbola: Vec<(f64, f64)> = SUITE.iter().map(|&ms| (ms, (9.3f64).min(0.4 * 9.3 / ms))).collect();
        let found = transition(&hyperbola, 9.3).expect("enough points");
        assert!(found.rtt_ms <= 11.8, "{found:?}");
        let plateau: Vec<(f64, f64)> = SUITE.iter().map(|&ms| (ms, 9.3 - 0.00002 * ms * ms)).collect();
        let found = transition(&plateau, 9.3).expect("enough points");
        assert!(found.rtt_ms >= 183.0 && found.rmse < 0.05, "{found:?}");
        assert_eq!(transition(&plateau[..2], 9.3), None);
    }
}

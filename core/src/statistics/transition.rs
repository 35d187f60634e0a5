//! Where a profile turns from concave to convex: Rao's transition RTT, by a fit of two sigmoids.
//!
//! Rao et al., HPDC 2017 and "Learning Concave-Convex Profiles": a throughput profile, scaled to
//! its capacity, is fitted by flipped sigmoids `g(tau) = 1 - 1 / (1 + e^(-a (tau - tau0)))`, which
//! are concave up to tau0 and convex beyond: one with `tau0 >= tau_T` up to the transition RTT
//! tau_T, another with `tau0 <= tau_T` beyond it.

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

/// Where a profile turns, as far as the rtts that were measured tell; in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TransitionRtt {
    /// Convex throughout: if it turns, then below the least rtt.
    Below(f64),
    /// Concave up to the first of two neighbouring rtts, convex from the second on: it turns
    /// somewhere between them.
    Between(f64, f64),
    /// Concave throughout: if it turns, then beyond the largest rtt.
    Beyond(f64),
}

/// The fit of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transition {
    /// Where it turns, tau_T.
    #[serde(rename = "turn")]
    pub rtt: TransitionRtt,
    /// The sigmoid up to tau_T; absent when the profile is convex throughout.
    pub concave: Option<Sigmoid>,
    /// The sigmoid beyond tau_T; absent when the profile is concave throughout.
    pub convex: Option<Sigmoid>,
    /// Root of the mean square error, in shares of capacity.
    pub rmse: f64,
}

/// Why a profile has no transition RTT that could be named.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TransitionError {
    /// It has so many rtts, and [`LEAST_RTTS`] are needed.
    TooFew(usize),
    /// The best fit is off by so much, in shares of capacity.
    PoorFit(f64),
}

/// Two sigmoids have four parameters: with fewer rtts than this they go through every point,
/// wherever the profile is divided.
pub const LEAST_RTTS: usize = 6;
/// What is farther from the points than this, in shares of capacity, does not describe them.
const MOST_RMSE: f64 = 0.05;
/// Throughput is not known better than this, in shares of capacity: what two fits differ by below
/// it is no reason to prefer one.
const KNOWN_TO: f64 = 0.005;

/// Fits `points`, (rtt in milliseconds, throughput) in ascending rtt, scaled by `capacity`.
///
/// Every division between two rtts is tried, and none at all. The least Bayesian information
/// criterion wins (Schwarz 1978), so that a second sigmoid has to be worth its two parameters. The
/// true transition lies between the two rtts of the division.
///
/// # Errors
/// [`TransitionError`] where there are too few rtts, or no division fits.
pub fn transition(points: &[(f64, f64)], capacity: f64) -> Result<Transition, TransitionError> {
    let count = points.len();
    let last = points.last().map_or(0.0, |point| point.0);
    if count < LEAST_RTTS || capacity <= 0.0 || last <= points[0].0 {
        return Err(TransitionError::TooFew(count));
    }
    let shares: Vec<(f64, f64)> = points
        .iter()
        .map(|&(ms, throughput)| (ms, (throughput / capacity).clamp(0.0, 1.0)))
        .collect();
    let mut best: Option<(f64, Transition)> = None;
    for left in 0..=count {
        let (near, far) = shares.split_at(left);
        // The turn lies beyond the last rtt of the concave side, and before the first of the convex
        // one.
        let (from, to) = (
            near.last().map_or(shares[0].0, |point| point.0),
            far.first().map_or(last, |point| point.0),
        );
        let concave = (!near.is_empty()).then(|| fit(near, (from, 10.0 * last)));
        let convex = (!far.is_empty()).then(|| fit(far, (-10.0 * last, to)));
        let squares = concave.map_or(0.0, |(_, squares)| squares)
            + convex.map_or(0.0, |(_, squares)| squares);
        let parameters = if concave.is_some() && convex.is_some() { 4.0 } else { 2.0 };
        let mean = squares / count as f64 + KNOWN_TO * KNOWN_TO;
        let criterion = count as f64 * mean.ln() + parameters * (count as f64).ln();
        if best.as_ref().is_none_or(|(least, _)| criterion < least - 1e-9) {
            let rtt = match left {
                0 => TransitionRtt::Below(shares[0].0),
                all if all == count => TransitionRtt::Beyond(last),
                _ => TransitionRtt::Between(from, to),
            };
            let (concave, convex) =
                (concave.map(|(sigmoid, _)| sigmoid), convex.map(|(sigmoid, _)| sigmoid));
            best = Some((
                criterion,
                Transition { rtt, concave, convex, rmse: (squares / count as f64).sqrt() },
            ));
        }
    }
    let found = best.map(|(_, found)| found).ok_or(TransitionError::TooFew(count))?;
    if found.rmse > MOST_RMSE { Err(TransitionError::PoorFit(found.rmse)) } else { Ok(found) }
}

/// The sigmoid of least squares with its middle between `low` and `high`, by a grid that is refined
/// around its best point.
fn fit(points: &[(f64, f64)], (low, high): (f64, f64)) -> (Sigmoid, f64) {
    let squares = |sigmoid: Sigmoid| {
        points.iter().map(|&(ms, share)| (sigmoid.at(ms) - share).powi(2)).sum::<f64>()
    };
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

    /// A profile over `rtts` that turns at `turn` between them, of 9.3.
    fn made(rtts: &[f64], turn: f64) -> Vec<(f64, f64)> {
        let last = rtts[rtts.len() - 1];
        let near = Sigmoid { steepness: 6.0 / last, middle_ms: turn + 0.2 * last };
        let far = Sigmoid { steepness: 4.0 / last, middle_ms: turn - 0.1 * last };
        rtts.iter()
            .map(|&ms| (ms, 9.3 * if ms <= turn { near.at(ms) } else { far.at(ms) }))
            .collect()
    }

    #[test]
    fn a_synthetic_transition_lies_in_its_bracket_anywhere() {
        for (turn, bracket) in
            [(60.0, (45.6, 91.6)), (120.0, (91.6, 183.0)), (200.0, (183.0, 366.0))]
        {
            let found = transition(&made(&SUITE, turn), 9.3).expect("enough points");
            assert_eq!(
                found.rtt,
                TransitionRtt::Between(bracket.0, bracket.1),
                "{turn}: {found:?}"
            );
            assert!(found.rmse < 0.01, "{found:?}");
        }
        // The last but one of seven is among them; more distances narrow it.
        let dense: Vec<f64> = (1..=20).map(|i| f64::from(i) * 15.0).collect();
        let found = transition(&made(&dense, 130.0), 9.3).expect("enough points");
        assert_eq!(found.rtt, TransitionRtt::Between(120.0, 135.0), "{found:?}");
    }

    #[test]
    fn window_limited_throughput_is_convex_and_a_plateau_concave() {
        // min(C, W / rtt) from the second point on: a hyperbola.
        let hyperbola: Vec<(f64, f64)> =
            SUITE.iter().map(|&ms| (ms, 4.0 / (1.0 + ms / 60.0))).collect();
        let found = transition(&hyperbola, 9.3).expect("enough points");
        assert_eq!(found.rtt, TransitionRtt::Below(0.4), "{found:?}");
        let plateau: Vec<(f64, f64)> =
            SUITE.iter().map(|&ms| (ms, 9.3 - 0.00002 * ms * ms)).collect();
        let found = transition(&plateau, 9.3).expect("enough points");
        assert_eq!(found.rtt, TransitionRtt::Beyond(366.0), "{found:?}");
        assert!(found.rmse < 0.05, "{found:?}");
    }

    #[test]
    fn too_few_distances_and_a_poor_fit_name_nothing() {
        let all = made(&SUITE, 60.0);
        // Four free parameters go through SC08's four points.
        assert_eq!(transition(&all[..4], 9.3), Err(TransitionError::TooFew(4)));
        assert_eq!(transition(&[], 9.3), Err(TransitionError::TooFew(0)));
        let saw: Vec<(f64, f64)> = SUITE
            .iter()
            .enumerate()
            .map(|(i, &ms)| (ms, if i % 2 == 0 { 8.0 } else { 4.0 }))
            .collect();
        assert!(
            matches!(transition(&saw, 9.3), Err(TransitionError::PoorFit(rmse)) if rmse > 0.1),
            "{:?}",
            transition(&saw, 9.3)
        );
    }
}

//! A test that ends as soon as a ratio is known to be below its limit, or above it.
//!
//! Both sides are mixtures of likelihood ratios against the limit itself (Robbins, Annals of
//! Mathematical Statistics 41, 1970): while the true ratio is not below the limit, the first is a
//! supermartingale, and by Ville's inequality it ever passes `1 / (1 - confidence)` with a
//! probability of at most `1 - confidence`. So the statement holds however often one looks, which a
//! table of limits for a fixed number of errors does not give. What is paid for it: without an
//! error the test takes 3.4 over the limit and not 3.0 at 95 %.

use serde::{Deserialize, Serialize};

/// Ratios to the limit that a good line is believed to have, and how much each is believed.
const GOOD: [(f64, f64); 4] = [(0.0, 0.5), (1.0 / 3.0, 0.4), (0.6, 0.06), (0.85, 0.04)];
/// The same of a bad line.
const BAD: [(f64, f64); 5] = [(1.2, 0.05), (2.0, 0.15), (3.0, 0.35), (10.0, 0.3), (100.0, 0.15)];

/// What the test says so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RatioDecision {
    /// The ratio is below the limit.
    Accepted,
    /// The ratio is above the limit.
    Refused,
    /// Neither can be said yet.
    Open,
}

/// The test of one ratio: each trial by itself, with a small probability of an event.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RatioTest {
    /// The limit.
    pub limit: f64,
    /// How sure a decision is, above 0 and below 1: each wrong one has at most the rest.
    pub confidence: f64,
}

impl RatioTest {
    /// What can be said after `events` of `trials`.
    pub fn decide(&self, events: u64, trials: f64) -> RatioDecision {
        let expected = self.limit * trials;
        let needed = -(1.0 - self.confidence).ln();
        if evidence(&GOOD, events, expected) >= needed {
            RatioDecision::Accepted
        } else if evidence(&BAD, events, expected) >= needed {
            RatioDecision::Refused
        } else {
            RatioDecision::Open
        }
    }

    /// How many trials it takes to accept when there are `events` in all: those without any are how
    /// long the test takes at best.
    pub fn trials_to_accept(&self, events: u64) -> f64 {
        let needed = -(1.0 - self.confidence).ln();
        let (mut low, mut high) = (0.0, 1.0);
        while evidence(&GOOD, events, high) < needed {
            (low, high) = (high, high * 2.0);
        }
        while high - low > 1e-9 * high {
            let middle = (low + high) / 2.0;
            if evidence(&GOOD, events, middle) < needed { low = middle } else { high = middle }
        }
        high / self.limit
    }
}

/// The logarithm of the mixture of likelihood ratios of `events`, of which `expected` would come at
/// the limit.
fn evidence(believed: &[(f64, f64)], events: u64, expected: f64) -> f64 {
    let term = |(ratio, weight): (f64, f64)| {
        let of_events = if events == 0 { 0.0 } else { events as f64 * ratio.ln() };
        weight.ln() + of_events - (ratio - 1.0) * expected
    };
    let terms = || believed.iter().copied().map(term);
    let most = terms().fold(f64::NEG_INFINITY, f64::max);
    most + terms().map(|term| (term - most).exp()).sum::<f64>().ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST: RatioTest = RatioTest { limit: 1e-12, confidence: 0.95 };

    #[test]
    fn at_best_it_takes_3_4_over_the_limit() {
        let best = TEST.trials_to_accept(0) * TEST.limit;
        assert!((3.3..3.5).contains(&best), "{best}");
        assert_eq!(TEST.decide(0, best * 1.001 / TEST.limit), RatioDecision::Accepted);
        assert_eq!(TEST.decide(0, best * 0.999 / TEST.limit), RatioDecision::Open);
        assert!(TEST.trials_to_accept(1) > TEST.trials_to_accept(0) * 1.3);
    }

    #[test]
    fn a_bad_line_is_refused_by_a_few_errors() {
        assert_eq!(TEST.decide(3, 1e11), RatioDecision::Refused);
        assert_eq!(TEST.decide(3, 3e12), RatioDecision::Open);
        assert_eq!(TEST.decide(1, 0.0), RatioDecision::Open);
    }
}

//! A test that ends as soon as a ratio is known to be below its limit, or above it, also where
//! losses come in bursts.
//!
//! What is lost is taken for bursts that begin independently of each other, of geometric sizes; one
//! by one is the burst of one. Both sides hold a mixture of such lines against the likeliest line
//! on the wrong side of the limit, whatever its bursts (universal inference: Wasserman, Ramdas and
//! Balakrishnan, PNAS 117, 2020; of single losses it is Robbins's mixture, Annals of Mathematical
//! Statistics 41, 1970). That is below a supermartingale while the line is on the wrong side, and
//! by Ville's inequality it ever passes `1 / (1 - confidence)` with a probability of at most
//! `1 - confidence`. So the statement holds however often one looks, which a table of limits for a
//! fixed number of errors does not give. What is paid for it: without an error the test takes 3.4
//! over the limit and not 3.0 at 95 %.
//!
//! Before the first loss nothing is known of bursts, and a line that loses rarely but much at once
//! looks like one that loses nothing. So a pass holds for bursts of a mean size that is asked for,
//! and of what came.

use super::runs::LossRuns;
use serde::{Deserialize, Serialize};

/// Ratios to the limit that a good line is believed to have, and how much each is believed.
const GOOD: [(f64, f64); 4] = [(0.0, 0.37), (1.0 / 3.0, 0.51), (0.6, 0.07), (0.85, 0.05)];
/// The same of a bad line.
const BAD: [(f64, f64); 5] = [(1.2, 0.05), (2.0, 0.15), (3.0, 0.35), (10.0, 0.3), (100.0, 0.15)];
/// Mean sizes of bursts that either is believed to have, and how much each is believed.
const BURSTS: [(f64, f64); 12] = [
    (1.0, 0.45),
    // Where single losses are many, some are near each other by chance.
    (1.02, 0.1),
    (1.08, 0.1),
    (1.25, 0.05),
    (1.6, 0.04),
    (2.5, 0.05),
    (5.0, 0.06),
    (10.0, 0.06),
    (25.0, 0.04),
    (80.0, 0.03),
    (300.0, 0.01),
    (MOST_BURST, 0.01),
];
/// A burst of more frames counts as several: an outage is no single event, whatever it took.
pub const MOST_BURST: f64 = 1_000.0;

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

/// Losses as the test counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LossCounts {
    /// How many.
    pub events: u64,
    /// In how many bursts.
    pub bursts: f64,
    /// The mean size of the burst that a loss is in, which is no less than that of a burst.
    pub size: f64,
}

impl LossCounts {
    /// So many that are each by themselves.
    pub fn single(events: u64) -> LossCounts {
        LossCounts { events, bursts: events as f64, size: 1.0 }
    }

    /// So many, of which `runs` tells how they came. Those that it does not tell of yet may be one
    /// burst; of more than there are it tells how the others came.
    pub fn of(events: u64, runs: &LossRuns) -> LossCounts {
        let told = if runs.bursts > 0 { runs.bursts } else { runs.runs } as f64;
        let untold = events.saturating_sub(runs.lost) as f64;
        let part = (events as f64 / runs.lost.max(1) as f64).min(1.0);
        let bursts = told * part + untold.min(1.0);
        let bursts = bursts.clamp(1.0_f64.min(events as f64), events as f64);
        LossCounts { events, bursts, size: runs.dispersion().max(untold) }
    }

    /// The same, and so many that are each by themselves.
    pub fn and_single(self, events: u64) -> LossCounts {
        LossCounts { events: self.events + events, bursts: self.bursts + events as f64, ..self }
    }

    /// The same with large bursts as several.
    fn in_parts(self) -> LossCounts {
        LossCounts { bursts: self.bursts.max(self.events as f64 / MOST_BURST), ..self }
    }
}

/// The test of one ratio: each burst by itself, with a small probability of one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RatioTest {
    /// The limit.
    pub limit: f64,
    /// How sure a decision is, above 0 and below 1: each wrong one has at most the rest.
    pub confidence: f64,
    /// For bursts of which mean size a pass holds, whatever came: 1 or more.
    pub burst: f64,
}

impl RatioTest {
    /// What can be said after `losses` of `trials`.
    pub fn decide(&self, losses: &LossCounts, trials: f64) -> RatioDecision {
        let (losses, expected) = (losses.in_parts(), self.limit * trials);
        if self.accepts(&losses, expected) {
            RatioDecision::Accepted
        } else if self.refuses(&losses, expected) {
            RatioDecision::Refused
        } else {
            RatioDecision::Open
        }
    }

    /// How many trials it takes to accept when there are `losses` in all: those without any are how
    /// long the test takes at best.
    pub fn trials_to_accept(&self, losses: &LossCounts) -> f64 {
        let losses = losses.in_parts();
        let (mut low, mut high) = (0.0, 1.0);
        while !self.accepts(&losses, high) {
            (low, high) = (high, high * 2.0);
        }
        while high - low > 1e-9 * high {
            let middle = (low + high) / 2.0;
            if self.accepts(&losses, middle) { high = middle } else { low = middle }
        }
        high / self.limit
    }

    fn needed(&self) -> f64 {
        -(1.0 - self.confidence).ln()
    }

    fn accepts(&self, losses: &LossCounts, expected: f64) -> bool {
        // The likeliest line is a good one, or nothing speaks for one.
        let is_good = (losses.events as f64) < expected;
        let mean = losses.events as f64 / losses.bursts;
        let most_burst = self.burst.max(losses.size).max(mean).clamp(1.0, MOST_BURST);
        is_good && evidence(&GOOD, losses, most_burst, expected) >= self.needed()
    }

    fn refuses(&self, losses: &LossCounts, expected: f64) -> bool {
        let is_bad = losses.events as f64 > expected;
        is_bad && evidence(&BAD, losses, MOST_BURST, expected) >= self.needed()
    }
}

/// The logarithm of the likelihood of `losses` by the mixture of those `believed`, over what it is
/// at most for a line at the limit with bursts of up to `most_burst`; `expected` would come of it.
fn evidence(believed: &[(f64, f64)], losses: &LossCounts, most_burst: f64, expected: f64) -> f64 {
    let terms = || {
        believed.iter().flat_map(|(ratio, weight)| {
            let of = move |(burst, share): &(f64, f64)| {
                (weight * share).ln() + likelihood(losses, *ratio, 1.0 / burst, expected)
            };
            BURSTS.iter().map(of)
        })
    };
    let most = terms().fold(f64::NEG_INFINITY, f64::max);
    let mixed = most + terms().map(|term| (term - most).exp()).sum::<f64>().ln();
    let likeliest = likeliest_at_limit(losses, expected).clamp(1.0 / most_burst, 1.0);
    mixed - likelihood(losses, 1.0, likeliest, expected)
}

/// The logarithm of the likelihood of `losses` where `expected` would come at the limit, for a line
/// of `ratio` times the limit whose bursts end with probability `ends` at each loss; less what is
/// the same for all lines.
///
/// With `b` bursts of `n` losses in all, a burst begins `ratio ends expected` times in the mean:
/// Poisson's `(ratio ends)^b exp(-ratio ends expected)`, times `(1 - ends)^(n - b) ends^b`.
fn likelihood(losses: &LossCounts, ratio: f64, ends: f64, expected: f64) -> f64 {
    let (bursts, more) = (losses.bursts, losses.events as f64 - losses.bursts);
    let times_ln = |count: f64, of: f64| if count > 0.0 { count * of.ln() } else { 0.0 };
    let begins = ratio * ends;
    times_ln(bursts, begins) - begins * expected
        + times_ln(more, 1.0 - ends)
        + times_ln(bursts, ends)
}

/// The `ends` that is likeliest at the limit itself: the lesser root of
/// `expected e^2 - (bursts + events + expected) e + 2 bursts`. In `ends` the likelihood has one
/// maximum, so that beyond a bound the bound is the likeliest.
fn likeliest_at_limit(losses: &LossCounts, expected: f64) -> f64 {
    let (twice, sum) = (2.0 * losses.bursts, losses.bursts + losses.events as f64 + expected);
    let root = (sum * sum - 4.0 * twice * expected).max(0.0).sqrt();
    if twice > 0.0 { 2.0 * twice / (sum + root) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST: RatioTest = RatioTest { limit: 1e-12, confidence: 0.95, burst: 1.0 };

    fn single(events: u64) -> LossCounts {
        LossCounts::single(events)
    }

    #[test]
    fn at_best_it_takes_3_4_over_the_limit() {
        let best = TEST.trials_to_accept(&single(0)) * TEST.limit;
        assert!((3.3..3.5).contains(&best), "{best}");
        assert_eq!(TEST.decide(&single(0), best * 1.001 / TEST.limit), RatioDecision::Accepted);
        assert_eq!(TEST.decide(&single(0), best * 0.999 / TEST.limit), RatioDecision::Open);
        let one = TEST.trials_to_accept(&single(1));
        assert!(one > TEST.trials_to_accept(&single(0)) * 1.3);
        // For bursts of five it is five to six times as long.
        let five = RatioTest { burst: 5.0, ..TEST }.trials_to_accept(&single(0)) * TEST.limit;
        assert!((5.0..6.0).contains(&(five / best)), "{five}");
    }

    #[test]
    fn a_bad_line_is_refused_by_a_few_errors() {
        assert_eq!(TEST.decide(&single(3), 1e11), RatioDecision::Refused);
        assert_eq!(TEST.decide(&single(3), 3e12), RatioDecision::Open);
        assert_eq!(TEST.decide(&single(1), 0.0), RatioDecision::Open);
    }

    #[test]
    fn a_burst_says_less_than_as_many_losses() {
        let burst = LossCounts { events: 10, bursts: 1.0, size: 19.0 };
        // Five were to be expected, and twenty.
        for (expected, decision) in [(2.0, RatioDecision::Refused), (40.0, RatioDecision::Accepted)]
        {
            let trials = expected / TEST.limit;
            assert_eq!(TEST.decide(&single(10), trials), decision);
            assert_eq!(TEST.decide(&burst, trials), RatioDecision::Open);
        }
        // An outage is no burst of frames.
        let outage = LossCounts { events: 100_000, bursts: 1.0, size: 200_000.0 };
        assert_eq!(TEST.decide(&outage, 1e3 / TEST.limit), RatioDecision::Refused);
    }

    #[test]
    fn the_likeliest_line_at_the_limit_is_found() {
        for (events, bursts, expected) in
            [(10, 2.0, 4.0), (10, 10.0, 4.0), (10, 1.0, 300.0), (900, 30.0, 100.0), (3, 3.0, 1e-9)]
        {
            let losses = LossCounts { events, bursts, size: 1.0 };
            let best = likeliest_at_limit(&losses, expected);
            let most = likelihood(&losses, 1.0, best, expected);
            for step in 1..1_000 {
                let ends = f64::from(step) / 1_000.0;
                let other = likelihood(&losses, 1.0, ends, expected);
                assert!(other <= most + 1e-9, "{ends} for {best}: {losses:?} {expected}");
            }
        }
    }

    #[test]
    fn what_is_not_told_may_be_one_burst() {
        let mut runs = LossRuns::default();
        assert_eq!(LossCounts::of(0, &runs).bursts, 0.0);
        let untold = LossCounts { events: 7, bursts: 1.0, size: 7.0 };
        assert_eq!(LossCounts::of(7, &runs), untold);
        (runs.lost, runs.bursts, runs.burst_squares) = (10, 4, 28);
        let some = LossCounts::of(12, &runs);
        assert_eq!((some.bursts, some.size), (5.0, runs.dispersion()));
        // A receiver tells of frames that do not count, too; another knows no bursts.
        assert_eq!(LossCounts::of(5, &runs).bursts, 2.0);
        (runs.bursts, runs.runs) = (0, 5);
        assert_eq!(LossCounts::of(10, &runs).and_single(2).bursts, 7.0);
        // Nor of one whose counts cannot be.
        (runs.runs, runs.burst_squares) = (0, 0);
        let lie = LossCounts::of(10, &runs);
        assert_eq!((lie.bursts, lie.size), (1.0, 1.0));
        assert_eq!(TEST.decide(&lie, 12.0 / TEST.limit), RatioDecision::Open);
    }
}

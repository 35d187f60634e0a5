//! The model of Gilbert and Elliott, fitted to the latest losses: two hidden states that both lose.

use super::loss_sequence::LossEntry;
use bobyqa::{Bobyqa, Config};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Fewer frames lost than this say nothing of two states.
const LEAST_LOST: u64 = 20;
/// Twice the difference of log-likelihoods within the interval of 95 % of one parameter: the
/// quantile of chi-squared with one degree of freedom (Wilks, Annals of Mathematical Statistics 9,
/// 1938).
const ONE_PARAMETER: f64 = 3.841;
/// What two states must gain over independent losses. Their three parameters more are not all
/// determined where there is one state, so the quantile of 95 % is none of chi-squared's; that
/// with three degrees of freedom is on the safe side (a test has it).
const TWO_STATES: f64 = 7.815;
/// How close the search comes to the best of a parameter, and to the ends of its interval, in
/// parameters of the search.
const NEAR: f64 = 1e-4;
/// Powers of two up to which runs go.
const POWERS: usize = 48;

/// A probability and the interval of 95 % that it lies in.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbabilityEstimate {
    /// The most likely value.
    pub value: f64,
    /// From where.
    pub low: f64,
    /// To where.
    pub high: f64,
}

/// A chain of a good and a bad state, in each of which a frame is lost with a probability of its
/// own (Elliott, Bell System Technical Journal 42, 1963; Gilbert's of 1960 where the good one loses
/// none). The most likely parameters, and intervals by profile likelihood.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GilbertElliott {
    /// The probability that the bad state follows the good one.
    pub turns_bad: ProbabilityEstimate,
    /// The probability that the good state follows the bad one: the inverse of its mean length in
    /// frames.
    pub turns_good: ProbabilityEstimate,
    /// The probability that a frame is lost in the good state.
    pub lost_good: ProbabilityEstimate,
    /// The probability that a frame is lost in the bad state.
    pub lost_bad: ProbabilityEstimate,
    /// Frames to which it is fitted.
    pub frames: u64,
    /// Those of them that were lost.
    pub lost: u64,
}

impl GilbertElliott {
    /// The fit to frames in order; `None` where fewer than 20 were lost, or where independent
    /// losses say as much.
    pub fn fit<'a>(entries: impl IntoIterator<Item = &'a LossEntry>) -> Option<GilbertElliott> {
        let fit = Fit::new(entries.into_iter().copied().collect())?;
        let best = fit.best()?;
        if 2.0 * (fit.independent() - best.misfit) < TWO_STATES {
            return None;
        }
        let intervals = [0, 1, 2, 3].map(|fixed| fit.interval(&best, fixed));
        let of = |fixed: usize, value: f64| ProbabilityEstimate {
            value,
            low: intervals[fixed].0.min(value),
            high: intervals[fixed].1.max(value),
        };
        let chain = fit.chain(&best.at);
        Some(GilbertElliott {
            turns_bad: of(0, chain.turns_bad),
            turns_good: of(1, chain.turns_good),
            lost_good: of(2, chain.lost_good),
            lost_bad: of(3, chain.lost_bad),
            frames: fit.frames,
            lost: fit.lost,
        })
    }

    /// The model in a line.
    pub(super) fn words(&self) -> String {
        format!(
            "of {:.1} frames each, {:.2} % of all: lost of these {}, of the others {} (at 95 %)",
            1.0 / self.turns_good.value,
            self.bad() * 100.0,
            self.lost_bad,
            self.lost_good,
        )
    }

    /// The part of all frames that are in the bad state.
    fn bad(&self) -> f64 {
        self.turns_bad.value / (self.turns_bad.value + self.turns_good.value)
    }

    /// The model in sentences.
    pub(super) fn said(&self) -> String {
        format!(
            "Gilbert's and Elliott's model, of the latest {} frames, {} of them lost (each at 95 %): \
             in the good state a frame is lost with probability {}, in the bad one with {}; the bad one \
             follows the good one with {} and ends with {}: it holds {:.2} % of the frames, {:.1} at a \
             time.",
            self.frames,
            self.lost,
            self.lost_good,
            self.lost_bad,
            self.turns_bad,
            self.turns_good,
            self.bad() * 100.0,
            1.0 / self.turns_good.value,
        )
    }
}

impl fmt::Display for ProbabilityEstimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ProbabilityEstimate { value, low, high } = self;
        match *value < 0.01 {
            true => write!(f, "{value:.2e} ({low:.2e} to {high:.2e})"),
            false => write!(f, "{value:.3} ({low:.3} to {high:.3})"),
        }
    }
}

/// The parameters.
#[derive(Clone, Copy, Debug)]
struct Chain {
    turns_bad: f64,
    turns_good: f64,
    lost_good: f64,
    lost_bad: f64,
}

/// As the search sees them: logarithms of the two turns, the good state's losses as a part of the
/// mean and the bad one's as a part of what is between the mean and one, which keeps the states
/// apart.
type Searched = [f64; 4];

struct Best {
    at: Searched,
    /// Less the log-likelihood.
    misfit: f64,
}

struct Fit {
    entries: Vec<LossEntry>,
    frames: u64,
    lost: u64,
    lower: Searched,
    upper: Searched,
}

impl Fit {
    fn new(entries: Vec<LossEntry>) -> Option<Fit> {
        // They come from another end: sums stay numbers.
        let sum = |of: fn(&LossEntry) -> u64| entries.iter().map(of).fold(0, u64::saturating_add);
        let lost = sum(|entry| entry.1);
        let frames = sum(|entry| entry.0).saturating_add(lost);
        if lost < LEAST_LOST || lost == frames {
            return None;
        }
        // States that outlast all frames, and are not known to end.
        let longest = -(frames as f64).ln() - 2.0;
        let lower = [longest, longest, 0.0, 0.0];
        Some(Fit { entries, frames, lost, lower, upper: [0.0, 0.0, 1.0, 1.0] })
    }

    fn mean(&self) -> f64 {
        self.lost as f64 / self.frames as f64
    }

    fn chain(&self, at: &[f64]) -> Chain {
        let mean = self.mean();
        Chain {
            turns_bad: at[0].exp(),
            turns_good: at[1].exp(),
            lost_good: mean * at[2],
            lost_bad: mean + (1.0 - mean) * at[3],
        }
    }

    /// The searched parameter number `of` by the probability that it stands for.
    fn probability(&self, of: usize, at: f64) -> f64 {
        let chain = self.chain(&[at; 4]);
        [chain.turns_bad, chain.turns_good, chain.lost_good, chain.lost_bad][of]
    }

    /// Less the log-likelihood of independent losses.
    fn independent(&self) -> f64 {
        let mean = self.mean();
        -(self.lost as f64 * mean.ln() + (self.frames - self.lost) as f64 * (1.0 - mean).ln())
    }

    /// Less the log-likelihood, by the forward algorithm (Rabiner, Proceedings of the IEEE 77,
    /// 1989) over whole runs.
    fn misfit(&self, at: &[f64]) -> f64 {
        let chain = self.chain(at);
        let Chain { turns_bad, turns_good, lost_good, lost_bad } = chain;
        let came = Powers::new(&chain, 1.0 - lost_good, 1.0 - lost_bad);
        let lost = Powers::new(&chain, lost_good, lost_bad);
        let bad = turns_bad / (turns_bad + turns_good);
        let begin = [1.0 - bad, bad];
        let (mut state, mut likelihood) = (begin, 0.0);
        for entry in &self.entries {
            likelihood += came.run(&mut state, entry.0) + lost.run(&mut state, entry.1);
            if entry.1 == 0 {
                state = begin;
            }
        }
        -likelihood
    }

    fn best(&self) -> Option<Best> {
        let mut best: Option<Best> = None;
        // Bursts that lose all, half and a tenth, short and long, with and without losses between
        // them.
        for lost_bad in [0.9, 0.5, 0.1] {
            for turns_good in [0.3_f64, 0.02] {
                for lost_good in [0.05, 0.5] {
                    let mean = self.mean();
                    let bad = mean * (1.0 - lost_good) / (mean + (1.0 - mean) * lost_bad);
                    let turns_bad = (turns_good * bad / (1.0 - bad)).ln();
                    let start = [turns_bad, turns_good.ln(), lost_good, lost_bad];
                    let found = self.search(start, None, f64::NEG_INFINITY)?;
                    if best.as_ref().is_none_or(|best| found.misfit < best.misfit) {
                        best = Some(found);
                    }
                }
            }
        }
        best
    }

    /// The best near `start`, in which the parameter number `fixed` stays as it is; or what fits
    /// well `enough`.
    fn search(&self, start: Searched, fixed: Option<usize>, enough: f64) -> Option<Best> {
        let free: Vec<usize> = (0..4).filter(|of| Some(*of) != fixed).collect();
        let at = |of: &[f64]| -> Searched {
            let mut all = start;
            free.iter().zip(of).for_each(|(to, value)| all[*to] = *value);
            all
        };
        let mut config = Config::new(free.len());
        (config.rho_begin, config.rho_end) = (0.1, NEAR);
        config.f_target = enough;
        let mut solver = Bobyqa::new(free.len(), config).ok()?;
        let of = |all: Searched| -> Vec<f64> { free.iter().map(|from| all[*from]).collect() };
        let (lower, upper) = (of(self.lower), of(self.upper));
        let mut found = of(start);
        for (value, (low, high)) in found.iter_mut().zip(lower.iter().zip(&upper)) {
            *value = value.clamp(*low, *high);
        }
        let outcome = solver.minimize(|of| self.misfit(&at(of)), &mut found, &lower, &upper);
        outcome.found_finite().then(|| Best { at: at(&found), misfit: outcome.f })
    }

    /// From which value to which the parameter number `fixed` may go before the best of the others
    /// is significantly worse.
    fn interval(&self, best: &Best, fixed: usize) -> (f64, f64) {
        let end = |limit: f64| {
            // What fits as well, and what does not.
            let (mut inside, mut outside) = (best.at, limit);
            let worse = |start: Searched| -> Option<Searched> {
                let enough = best.misfit + ONE_PARAMETER / 2.0;
                let found = self.search(start, Some(fixed), enough)?;
                (found.misfit <= enough).then_some(found.at)
            };
            let with = |at: Searched, value: f64| {
                let mut at = at;
                at[fixed] = value;
                at
            };
            if let Some(at) = worse(with(inside, limit)) {
                return at[fixed];
            }
            while (outside - inside[fixed]).abs()
                > NEAR.max(0.01 * (outside - best.at[fixed]).abs())
            {
                let middle = f64::midpoint(inside[fixed], outside);
                match worse(with(inside, middle)) {
                    Some(at) => inside = at,
                    None => outside = middle,
                }
            }
            outside
        };
        let ends = (end(self.lower[fixed]), end(self.upper[fixed]));
        (self.probability(fixed, ends.0), self.probability(fixed, ends.1))
    }
}

/// Powers of the matrix that takes a state over a frame of one kind, each by a scale of its own.
struct Powers([([[f64; 2]; 2], f64); POWERS]);

impl Powers {
    fn new(chain: &Chain, good: f64, bad: f64) -> Powers {
        let Chain { turns_bad, turns_good, .. } = *chain;
        let one = [
            [(1.0 - turns_bad) * good, turns_bad * bad],
            [turns_good * good, (1.0 - turns_good) * bad],
        ];
        let mut powers = [([[0.0; 2]; 2], f64::NEG_INFINITY); POWERS];
        let mut last = scaled(one, 0.0);
        for power in &mut powers {
            *power = last;
            let ([[a, b], [c, d]], scale) = last;
            let square = [[a * a + b * c, b * (a + d)], [c * (a + d), d * d + b * c]];
            last = scaled(square, 2.0 * scale);
        }
        Powers(powers)
    }

    /// Takes `state` over `frames`; returns the logarithm of how probable that was.
    fn run(&self, state: &mut [f64; 2], mut frames: u64) -> f64 {
        let mut likelihood = 0.0;
        while frames > 0 {
            let power = (frames.trailing_zeros() as usize).min(POWERS - 1);
            frames -= 1 << power;
            let (matrix, scale) = &self.0[power];
            let [good, bad] = *state;
            *state = [
                good * matrix[0][0] + bad * matrix[1][0],
                good * matrix[0][1] + bad * matrix[1][1],
            ];
            likelihood += scale;
        }
        let sum = state[0] + state[1];
        *state = state.map(|part| part / sum);
        likelihood + sum.ln()
    }
}

/// The matrix with a largest element of one, and the logarithm of what it is to be multiplied by.
fn scaled(matrix: [[f64; 2]; 2], scale: f64) -> ([[f64; 2]; 2], f64) {
    let largest = matrix.iter().flatten().fold(f64::MIN_POSITIVE, |a, b| a.max(*b));
    (matrix.map(|row| row.map(|element| element / largest)), scale + largest.ln())
}

#[cfg(test)]
mod tests {
    use super::super::loss_sequence::LossSequence;
    use super::*;
    use crate::units::Rng;

    /// The losses of `frames` frames over `chain`.
    fn drawn(chain: &Chain, frames: u64, seed: u64) -> LossSequence {
        let (mut rng, mut is_bad, mut sequence) = (Rng::new(seed), false, LossSequence::default());
        for _ in 0..frames {
            is_bad ^= rng.unit() < if is_bad { chain.turns_good } else { chain.turns_bad };
            match rng.unit() < if is_bad { chain.lost_bad } else { chain.lost_good } {
                true => sequence.lost(),
                false => sequence.received(1),
            }
        }
        sequence.unknown();
        sequence
    }

    fn held(chain: &Chain, frames: u64, seeds: u64) -> ([u32; 4], u64) {
        let (mut held, mut fitted) = ([0; 4], 0);
        for seed in 0..seeds {
            let Some(fit) = GilbertElliott::fit(drawn(chain, frames, seed).entries()) else {
                continue;
            };
            fitted += 1;
            let truths = [
                (fit.turns_bad, chain.turns_bad),
                (fit.turns_good, chain.turns_good),
                (fit.lost_good, chain.lost_good),
                (fit.lost_bad, chain.lost_bad),
            ];
            for (held, (fitted, truth)) in held.iter_mut().zip(truths) {
                *held += u32::from(fitted.low <= truth && truth <= fitted.high);
            }
        }
        (held, fitted)
    }

    #[test]
    fn parameters_put_in_lie_in_the_intervals() {
        // Of 20 intervals of 95 %, fewer than 15 hold in one of 3,000 rows.
        for (turns_bad, turns_good, lost_good, lost_bad, frames) in [
            (1e-3, 0.05, 1e-4, 0.4, 100_000),
            (1e-3, 0.2, 0.0, 1.0, 100_000),
            (1e-4, 0.01, 1e-4, 0.1, 1_000_000),
            (3e-4, 0.02, 0.0, 0.5, 200_000),
        ] {
            let chain = Chain { turns_bad, turns_good, lost_good, lost_bad };
            let (held, fitted) = held(&chain, frames, 20);
            assert_eq!(fitted, 20, "{chain:?}");
            assert!(held.iter().all(|held| *held >= 15), "{held:?} of 20: {chain:?}");
        }
    }

    #[test]
    fn independent_losses_have_one_state() {
        for loss in [1e-3, 0.1] {
            let chain = Chain { turns_bad: 0.0, turns_good: 1.0, lost_good: loss, lost_bad: loss };
            let (_, fitted) = held(&chain, (100.0 / loss) as u64, 100);
            assert!(fitted <= 10, "{fitted} of 100 have two states at {loss}");
        }
    }

    #[test]
    fn numbers_of_a_liar_are_fitted_without_harm() {
        for entries in [
            vec![(u64::MAX, u64::MAX); 3],
            vec![(0, u64::MAX)],
            vec![(u64::MAX, 20), (0, 0), (0, 1)],
            vec![(0, 0); 5],
            vec![],
        ] {
            GilbertElliott::fit(&entries);
        }
    }
}

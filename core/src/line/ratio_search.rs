//! The highest loads that a line carries at several loss ratios, found in one search: MLRsearch
//! (draft-ietf-bmwg-mlrsearch) over short trials, of which some may be worse.
//!
//! What a load is for a goal, and what a goal's result is, is the draft's; which load is next is
//! not said there. Here it is the whole rate, then what came of that, then halves of what is open,
//! coarse first and with few trials.

use serde::{Deserialize, Serialize};

/// The least load that is tried, in per cent: a line that does not carry it carries nothing.
const LEAST: f64 = 0.1;
/// A goal is reached in so many steps, each half as wide as the one before.
const LEVELS: i32 = 3;
/// After so many trials in which a host did not keep up, if they are most at a load, it is given
/// up.
const GIVEN_UP: usize = 3;
/// A load that was measured is taken in place of a new one if it is at most this part of the open
/// interval from where the new one would be.
const NEAR: f64 = 0.2;

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchGoal {
    /// The most loss of a good trial.
    pub loss_ratio: f64,
    /// The part of the time that may be worse.
    pub exceed_ratio: f64,
    /// Seconds of trials after which a load is decided on.
    pub duration_sum: f64,
    /// Whole seconds of a trial at the begin of the search.
    pub initial_seconds: f64,
    /// Whole seconds of a trial that counts in full.
    pub final_seconds: f64,
    /// How far apart the bounds may be, as a part of the upper one.
    pub relative_width: f64,
}

/// One trial.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GoalTrial {
    /// The load, in per cent of the line's rate.
    pub load_percent: f64,
    /// How long it was.
    pub seconds: f64,
    /// Lost frames of those sent; `None` where a host did not keep up.
    pub loss: Option<f64>,
}

/// What was found for a goal.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GoalOutcome {
    /// The goal.
    pub goal: SearchGoal,
    /// What came, at the lower bound, in the worst of the trials that may not be worse: the
    /// conditional throughput, in per cent of the rate.
    pub throughput_percent: Option<f64>,
    /// The relevant lower bound: the highest load below the upper one that was carried.
    pub lower_percent: Option<f64>,
    /// The relevant upper bound: the least load that was not; none where the whole rate is carried.
    pub upper_percent: Option<f64>,
    /// Whether at the upper bound it was a host that did not keep up.
    pub is_host_limited: bool,
}

/// The machine: it says which load is next and for how long, and is told what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RatioSearch {
    /// What is looked for.
    pub goals: Vec<SearchGoal>,
    /// What was tried, in order.
    pub trials: Vec<GoalTrial>,
}

/// What a load is for a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Lower,
    Upper,
    Open,
}

/// Seconds of trials at one load.
#[derive(Clone, Copy, Default)]
struct Sums {
    /// Of trials that are long enough to count: those with too much loss, and the others.
    full: (f64, f64),
    /// Of shorter ones.
    short: (f64, f64),
    /// Trials in which a host did not keep up, and all of them.
    unfit: usize,
    trials: usize,
}

impl Sums {
    fn is_given_up(&self) -> bool {
        self.unfit >= GIVEN_UP && 2 * self.unfit > self.trials
    }
}

impl SearchGoal {
    /// The goal of trials of one second, of which half may be worse.
    pub fn of_seconds(loss_ratio: f64, duration_sum: f64) -> SearchGoal {
        SearchGoal {
            loss_ratio,
            exceed_ratio: 0.5,
            duration_sum,
            initial_seconds: 1.0,
            final_seconds: 1.0,
            relative_width: 0.005,
        }
    }

    /// RFC 2544's: no loss, in one trial of `seconds`.
    pub fn of_one_trial(loss_ratio: f64, seconds: f64) -> SearchGoal {
        SearchGoal {
            exceed_ratio: 0.0,
            final_seconds: seconds,
            ..SearchGoal::of_seconds(loss_ratio, seconds)
        }
    }

    /// The goal of a step on the way to it; of the last one it is the goal.
    fn at(&self, level: i32) -> SearchGoal {
        let part = f64::from(level) / f64::from(LEVELS - 1);
        let between = |from: f64, to: f64| (from * (to / from).powf(part)).round().max(1.0);
        SearchGoal {
            duration_sum: between(self.initial_seconds, self.duration_sum),
            final_seconds: between(self.initial_seconds, self.final_seconds),
            relative_width: self.relative_width * 2_f64.powi(LEVELS - 1 - level),
            ..*self
        }
    }

    /// What a load with these sums is: the draft's classification. Short trials with loss count as
    /// far as short ones without do not balance them.
    fn side(&self, sums: &Sums) -> Side {
        if sums.is_given_up() {
            return Side::Upper;
        }
        let balancing = sums.short.1 * self.exceed_ratio / (1.0 - self.exceed_ratio);
        let high = sums.full.0 + (sums.short.0 - balancing).max(0.0);
        let full = high + sums.full.1;
        let whole = full.max(self.duration_sum);
        let (optimistic, pessimistic) = (high / whole, (high + whole - full) / whole);
        if optimistic > self.exceed_ratio {
            Side::Upper
        } else if pessimistic <= self.exceed_ratio {
            Side::Lower
        } else {
            Side::Open
        }
    }
}

impl RatioSearch {
    /// A search from the whole rate down.
    pub fn new(goals: Vec<SearchGoal>) -> RatioSearch {
        RatioSearch { goals, trials: Vec::new() }
    }

    /// The load of the next trial, in per cent of the rate, and its seconds; `None` when the search
    /// is over.
    pub fn next(&self) -> Option<(f64, f64)> {
        let levels = (0..LEVELS).flat_map(|level| self.goals.iter().map(move |goal| (level, goal)));
        levels
            .map(|(level, goal)| (level, goal, goal.at(level)))
            .find_map(|(level, goal, step)| Some((self.wanted(goal, level)?, step.final_seconds)))
    }

    /// What came of the trial that was said.
    pub fn record(&mut self, loss: Option<f64>) {
        if let Some((load_percent, seconds)) = self.next() {
            self.trials.push(GoalTrial { load_percent, seconds, loss });
        }
    }

    /// Seconds of all trials.
    pub fn seconds(&self) -> f64 {
        self.trials.iter().map(|trial| trial.seconds).sum()
    }

    /// What was found for each goal until now.
    pub fn outcomes(&self) -> Vec<GoalOutcome> {
        self.goals.iter().map(|goal| self.outcome(goal)).collect()
    }

    fn outcome(&self, goal: &SearchGoal) -> GoalOutcome {
        let (lower, upper) = self.bounds(goal);
        GoalOutcome {
            goal: *goal,
            throughput_percent: lower.map(|load| load * (1.0 - self.worst_that_counts(goal, load))),
            lower_percent: lower,
            upper_percent: upper,
            is_host_limited: upper.is_some_and(|load| self.sums(goal, load).is_given_up()),
        }
    }

    /// The loss of the worst trial at `load` after those that may be worse are left out.
    fn worst_that_counts(&self, goal: &SearchGoal, load: f64) -> f64 {
        let mut trials: Vec<(f64, f64)> = self
            .at_load(load)
            .filter(|trial| trial.seconds >= goal.final_seconds)
            .filter_map(|trial| Some((trial.loss?, trial.seconds)))
            .collect();
        trials.sort_by(|a, b| a.0.total_cmp(&b.0));
        let all: f64 = trials.iter().map(|(_, seconds)| seconds).sum();
        let (mut left, mut worst) = ((1.0 - goal.exceed_ratio) * all, 1.0);
        for (loss, seconds) in trials {
            if left <= 0.0 {
                break;
            }
            (worst, left) = (loss, left - seconds);
        }
        worst
    }

    fn at_load(&self, load: f64) -> impl Iterator<Item = &GoalTrial> {
        self.trials.iter().filter(move |trial| trial.load_percent == load)
    }

    /// The loads that were tried, in ascending order.
    fn loads(&self) -> Vec<f64> {
        let mut loads: Vec<f64> = self.trials.iter().map(|trial| trial.load_percent).collect();
        loads.sort_by(f64::total_cmp);
        loads.dedup();
        loads
    }

    fn sums(&self, goal: &SearchGoal, load: f64) -> Sums {
        let mut sums = Sums::default();
        for trial in self.at_load(load) {
            sums.trials += 1;
            let Some(loss) = trial.loss else {
                sums.unfit += 1;
                continue;
            };
            let is_full = trial.seconds >= goal.final_seconds;
            let side = if is_full { &mut sums.full } else { &mut sums.short };
            let sum = if loss > goal.loss_ratio { &mut side.0 } else { &mut side.1 };
            *sum += trial.seconds;
        }
        sums
    }

    fn side(&self, goal: &SearchGoal, load: f64) -> Side {
        goal.side(&self.sums(goal, load))
    }

    /// The highest load below the upper bound that is carried, and the least that is not.
    fn bounds(&self, goal: &SearchGoal) -> (Option<f64>, Option<f64>) {
        let (mut lower, mut upper) = (None, None);
        for load in self.loads() {
            match self.side(goal, load) {
                Side::Lower => lower = Some(load),
                Side::Upper => {
                    upper = Some(load);
                    break;
                }
                Side::Open => {}
            }
        }
        (lower, upper)
    }

    /// What came of the whole rate, in per cent of it: about what the line carries.
    fn hint(&self) -> Option<f64> {
        let first = self.trials.iter().find(|trial| trial.load_percent >= 100.0)?;
        Some((100.0 * (1.0 - first.loss?)).max(LEAST)).filter(|load| *load < 100.0)
    }

    /// The load that brings a step of a goal further; `None` when it is reached.
    fn wanted(&self, goal: &SearchGoal, level: i32) -> Option<f64> {
        let step = goal.at(level);
        let (lower, upper) = self.bounds(&step);
        // What the step before found is where this one begins.
        let before = if level > 0 { self.bounds(&goal.at(level - 1)) } else { (None, None) };
        let far = |side: Side| {
            let tried = self.loads().into_iter().filter(|load| self.side(&step, *load) == side);
            2.0 * step.relative_width * 2_f64.powi(tried.count().min(16) as i32 - 1)
        };
        match (lower, upper) {
            (Some(lower), Some(upper)) => {
                let is_close = (upper - lower) / upper <= step.relative_width;
                (!is_close).then(|| self.near(f64::midpoint(lower, upper), lower, upper))
            }
            (Some(lower), None) if lower >= 100.0 => None,
            (Some(lower), None) => {
                let above = before.1.filter(|load| *load > lower);
                let further = lower / (1.0 - far(Side::Lower)).max(0.5);
                Some(above.unwrap_or(further.min(100.0)))
            }
            (None, Some(upper)) if upper <= LEAST => None,
            (None, Some(upper)) => {
                let below = before.0.or(self.hint()).filter(|load| *load < upper);
                let further = upper * (1.0 - far(Side::Upper)).max(0.5);
                Some(below.unwrap_or(further.max(LEAST)))
            }
            (None, None) => Some(before.0.or(before.1).unwrap_or(100.0)),
        }
    }

    /// `load`, or one between the bounds that was measured already and is as good.
    fn near(&self, load: f64, lower: f64, upper: f64) -> f64 {
        let most = (upper - lower) * NEAR;
        let measured = self.loads().into_iter().filter(|other| (other - load).abs() <= most);
        measured.min_by(|a, b| (a - load).abs().total_cmp(&(b - load).abs())).unwrap_or(load)
    }
}

#[cfg(test)]
#[path = "ratio_search_tests.rs"]
mod tests;

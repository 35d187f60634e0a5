//! The highest load that a line carries with at most so much loss: the search of RFC 2544, section
//! 26.1, by halving.

use serde::{Deserialize, Serialize};

/// One trial of the search.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadTrial {
    /// The load, in per cent of the line's rate.
    pub load_percent: f64,
    /// Lost frames of those sent; `None` where a host did not keep up.
    pub loss: Option<f64>,
}

/// The machine: it says which load is next, and is told what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadSearch {
    /// The most loss that is let pass; 0 is RFC 2544's throughput.
    pub goal: f64,
    /// How exact the load is to be, in per cent of the rate.
    pub precision_percent: f64,
    /// What was tried, in order.
    pub trials: Vec<LoadTrial>,
    carried: f64,
    refused: f64,
}

impl LoadSearch {
    /// A search from the whole rate down.
    pub fn new(goal: f64, precision_percent: f64) -> LoadSearch {
        LoadSearch {
            goal,
            precision_percent,
            trials: Vec::new(),
            carried: 0.0,
            // The first trial is at 100: half-way to twice that.
            refused: 200.0,
        }
    }

    /// The load of the next trial; `None` when the search is over.
    pub fn next(&self) -> Option<f64> {
        let is_over =
            self.carried >= 100.0 || self.refused - self.carried <= self.precision_percent;
        (!is_over).then_some(f64::midpoint(self.carried, self.refused))
    }

    /// What came of the trial at the load that was said. A host that does not keep up is no reason
    /// to believe that the line would not, but the search ends below it.
    pub fn record(&mut self, loss: Option<f64>) {
        let Some(load_percent) = self.next() else { return };
        self.trials.push(LoadTrial { load_percent, loss });
        match loss {
            Some(loss) if loss <= self.goal => self.carried = load_percent,
            _ => self.refused = load_percent,
        }
    }

    /// The highest load that was carried; 0 where none was.
    pub fn carried_percent(&self) -> f64 {
        self.carried
    }

    /// Whether what ended the search from above was a host that did not keep up.
    pub fn is_host_limited(&self) -> bool {
        let same = |trial: &&LoadTrial| trial.load_percent == self.refused;
        self.trials.iter().find(same).is_some_and(|trial| trial.loss.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Bytes, Rate, Rng, Span, Time};
    use crate::wan::{Direction, Frames, OneWayLink, Output, Packet};

    /// The loss of a trial at `load` of 1 Gbit/s over a link of `rate` with a short queue.
    fn trial(rate: Rate, load: f64) -> f64 {
        let direction =
            Direction { queue: Bytes(30_000), ..Direction::new(rate, Span::ZERO, Span::ZERO) };
        let mut link = OneWayLink::new(Time::ZERO, &direction, [], &Rng::new(1));
        let gap = Span::from_secs_f64(1_538.0 * 8.0 / (1e9 * load / 100.0));
        let (mut now, frames) = (Time::ZERO, 20_000);
        for token in 0..frames {
            link.handle(now, Packet { token, frames: Frames::one(1_500) });
            while !matches!(link.poll(now), Output::Wait(_)) {}
            now += gap;
        }
        link.counters().dropped() as f64 / frames as f64
    }

    #[test]
    fn the_rate_of_the_link_is_found() {
        for rate in [100_000_000, 370_000_000, 990_000_000, 2_000_000_000] {
            let mut search = LoadSearch::new(0.0, 0.5);
            while let Some(load) = search.next() {
                assert!(search.trials.len() < 20);
                search.record(Some(trial(Rate::from_bps(rate), load)));
            }
            let truth = (rate as f64 / 1e7).min(100.0);
            let found = search.carried_percent();
            // What a queue of 20 frames takes of 20,000 is a thousandth.
            assert!(found <= truth * 1.002 && found >= truth - 0.6, "{found} for {truth}");
            assert!(!search.is_host_limited());
        }
    }

    #[test]
    fn a_host_that_does_not_keep_up_is_named() {
        let mut search = LoadSearch::new(0.0, 1.0);
        while let Some(load) = search.next() {
            search.record((load <= 30.0).then_some(0.0));
        }
        assert!(search.is_host_limited() && (29.0..=30.0).contains(&search.carried_percent()));
    }
}

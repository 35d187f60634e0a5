//! From what was seen of a repetition to what stands in the document: its ramp, its steady part,
//! its recovery.

use super::document::Job;
use super::grid::Grid;
use super::repetition::{Goodput, LimitedBy, Lost, Repetition};
use crate::statistics::{jain, recovery, split};
use crate::units::Rate;

/// What is above this share of the later level is no longer ramp.
const RAMPED: f64 = 0.9;
/// A rate is back when it is above this share of that before the disturbance.
const BACK: f64 = 0.9;
/// And stays there for this many samples.
const STAYS: usize = 3;

/// What was seen of one repetition, by a model or at a path's ends.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// What arrived in each sample interval, in bit/s, all streams together; [`Grid::samples`] of
    /// them.
    pub samples: Vec<f64>,
    /// What arrived of each stream, in bit/s; empty where that is not known.
    pub streams: Vec<f64>,
    /// What the sender knows to have arrived, in bit/s over the whole time.
    pub sender_bps: f64,
    /// The same in each sample interval of its own time; empty where it was not asked so often.
    pub sender_samples: Vec<f64>,
    /// Segments lost or sent again.
    pub retransmits: u64,
    /// Reductions of a window, where somebody looked.
    pub reductions: Option<u64>,
    /// Retransmission timers that ran out, where that is told.
    pub timeouts: Option<u64>,
    /// What held the streams back.
    pub limited_by: LimitedBy,
    /// When packets were lost.
    pub losses: Vec<Lost>,
}

impl Observed {
    /// This and what was seen of the `other` direction meanwhile, as one.
    #[must_use]
    pub fn joined(mut self, other: Observed) -> Observed {
        fn add(samples: &mut Vec<f64>, other: &[f64]) {
            samples.truncate(other.len());
            samples.iter_mut().zip(other).for_each(|(sample, more)| *sample += more);
        }
        add(&mut self.samples, &other.samples);
        add(&mut self.sender_samples, &other.sender_samples);
        self.streams.extend(other.streams);
        self.sender_bps += other.sender_bps;
        self.retransmits += other.retransmits;
        // What is known of one way alone is not the sum of both.
        self.reductions = self.reductions.zip(other.reductions).map(|(one, more)| one + more);
        self.timeouts = self.timeouts.zip(other.timeouts).map(|(one, more)| one + more);
        self.losses.extend(other.losses);
        self.losses.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        if self.limited_by == LimitedBy::Congestion {
            self.limited_by = other.limited_by;
        }
        self
    }

    /// The repetition that `job` asked for. Where ramp and steady part meet is the receiver's to
    /// say; the sender's samples are cut there, half a round trip off, since its time began so much
    /// earlier.
    pub fn repetition(self, grid: &Grid, job: &Job) -> Repetition {
        let samples = self.samples;
        let seconds = samples.len() as f64 * grid.sample_s;
        let disturbed = grid
            .disturbance
            .map(|disturbance| (disturbance.at_ns.as_secs_f64() / grid.sample_s) as usize);
        // What a disturbance does is not the ramp.
        let undisturbed = disturbed.map_or(&samples[..], |at| &samples[..at.min(samples.len())]);
        let ramp = split(undisturbed, RAMPED).map_or(0, |split| split.ramp);
        let ramp = ramp
            .max((grid.warm_up_s / grid.sample_s).ceil() as usize)
            .min(samples.len().saturating_sub(1));
        let mean = |part: &[f64]| {
            if part.is_empty() { 0.0 } else { part.iter().sum::<f64>() / part.len() as f64 }
        };
        let rate = |bps: f64| Rate::from_bps(bps as u64);
        let sent = &self.sender_samples;
        let goodput = |part: std::ops::Range<usize>| Goodput {
            sender_bps: sent.get(part.clone()).map(|sent| rate(mean(sent))),
            receiver_bps: rate(mean(&samples[part])),
        };
        Repetition {
            index: job.index,
            seed: job.seed,
            began: None,
            seconds,
            ramp_s: ramp as f64 * grid.sample_s,
            whole: Goodput {
                sender_bps: Some(rate(self.sender_bps)),
                receiver_bps: rate(mean(&samples)),
            },
            ramp: goodput(0..ramp),
            steady: goodput(ramp..samples.len()),
            retransmits: self.retransmits,
            reductions: self.reductions,
            timeouts: self.timeouts,
            limited_by: self.limited_by,
            fairness: jain(&self.streams),
            recovery_s: disturbed
                .and_then(|at| recovery(&samples, at, BACK, STAYS))
                .map(|samples| samples as f64 * grid.sample_s),
            cpu: None,
            rtt_ns: None,
            link: None,
            losses: self.losses,
            invalid: None,
            samples_bps: samples.into_iter().map(rate).collect(),
            streams_bps: self.streams.into_iter().map(rate).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::Algorithm;
    use crate::experiment::Experiment;
    use crate::profile::{Cell, PathPoint};
    use crate::units::Span;

    fn seen(samples: &[f64], sender_samples: Vec<f64>, warm_up_s: f64) -> Repetition {
        let path = PathPoint::custom(Rate::from_bps(1_000_000_000), Span::from_millis(10));
        let grid = Grid {
            warm_up_s,
            sample_s: 0.5,
            ..Grid::new("custom", vec![path], vec![Algorithm::Cubic])
        };
        let cell: Cell = grid.cells().remove(0);
        let job = Job { place: 0, cell, index: 0, attempt: 0, seed: 1 };
        Observed {
            samples: samples.to_vec(),
            sender_bps: 7.0,
            sender_samples,
            ..Observed::default()
        }
        .repetition(&grid, &job)
    }

    #[test]
    fn ramp_and_steady_part_split_and_warm_up_is_the_least_ramp() {
        let samples = [100.0, 400.0, 950.0, 1_000.0, 1_000.0, 1_000.0, 1_000.0, 1_000.0];
        let bps = |goodput: Goodput| goodput.receiver_bps.as_bps();
        let one = seen(&samples, samples.map(|bps| bps + 4.0).to_vec(), 0.0);
        assert_eq!((one.ramp_s, bps(one.ramp), bps(one.steady)), (1.0, 250, 991));
        let sent = |goodput: Goodput| goodput.sender_bps.map(Rate::as_bps);
        assert_eq!((sent(one.ramp), sent(one.steady)), (Some(254), Some(995)), "the sender's own");
        assert_eq!(
            (one.whole.sender_bps, bps(one.whole)),
            (Some(Rate::from_bps(7)), 806),
            "each end's own"
        );
        let warm = seen(&samples, vec![400.0; 3], 1.4);
        assert_eq!(sent(warm.steady), None, "a sender that was asked for a part of the time");
        assert_eq!((warm.ramp_s, bps(warm.ramp), bps(warm.steady)), (1.5, 483, 1_000));
        assert_eq!(bps(warm.whole), 806, "the whole is as it was");
    }
}

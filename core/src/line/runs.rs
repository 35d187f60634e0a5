//! Runs of lost frames, and how far losses are apart.

use super::gilbert::GilbertCounts;
use super::loss_sequence::LossSequence;
use serde::{Deserialize, Serialize};

/// The received frames between two losses that are not of one burst (RFC 3611, section 4.7.2).
const BURST_GAP: u64 = 16;
/// Powers of two by which runs and distances are counted.
const POWERS: usize = 24;

/// Runs of lost frames and the distances between losses (RFC 3357), from what is decided.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossRuns {
    /// Frames lost, other than by the receiver itself.
    pub lost: u64,
    /// Runs of frames lost one after the other.
    pub runs: u64,
    /// The longest of them.
    pub longest: u64,
    /// How many are at least as long as 1, 2, 4 ... frames and shorter than the next.
    pub by_length: Vec<u64>,
    /// How many losses are at least 1, 2, 4 ... frames behind the one before.
    pub by_distance: Vec<u64>,
    /// The sum of the squares of the losses in a burst: losses with fewer than 16 received frames
    /// between them.
    pub burst_squares: u64,
    /// How many bursts there were; 0 where that is not told.
    #[serde(default)]
    pub bursts: u64,
    /// What followed what.
    pub counts: GilbertCounts,
    /// The latest of all that, in order; not told with the rest.
    #[serde(skip)]
    pub(super) sequence: LossSequence,
    run: u64,
    burst: u64,
    since_loss: Option<u64>,
    /// Whether the frame before was received; nothing where that is not known.
    before: Option<bool>,
}

impl LossRuns {
    pub(super) fn received(&mut self, count: u64) {
        self.sequence.received(count);
        match self.before {
            Some(true) => self.counts.stayed_good += count,
            Some(false) => {
                self.counts.turned_good += 1;
                self.counts.stayed_good += count - 1;
            }
            None => self.counts.stayed_good += count - 1,
        }
        self.before = Some(true);
        self.end_run();
        self.since_loss = self.since_loss.map(|since| since + count);
        if self.since_loss.is_some_and(|since| since >= BURST_GAP) {
            self.end_burst();
        }
    }

    pub(super) fn lost(&mut self) {
        self.sequence.lost();
        match self.before {
            Some(true) => self.counts.turned_bad += 1,
            Some(false) => self.counts.stayed_bad += 1,
            None => {}
        }
        self.before = Some(false);
        if let Some(since) = self.since_loss {
            count_power(&mut self.by_distance, since + 1);
        }
        self.since_loss = Some(0);
        self.lost += 1;
        self.run += 1;
        self.burst += 1;
    }

    /// What became of a frame is not known: this host lost it, if nobody else did.
    pub(super) fn unknown(&mut self) {
        self.before = None;
        self.close();
        self.since_loss = None;
    }

    /// The same, and those of another account of later frames; what lies between the two is not
    /// known.
    pub(super) fn followed_by(&self, next: &LossRuns) -> LossRuns {
        let added = |a: &[u64], b: &[u64]| -> Vec<u64> {
            let at = |of: &[u64], n: usize| of.get(n).copied().unwrap_or(0);
            (0..a.len().max(b.len())).map(|n| at(a, n).saturating_add(at(b, n))).collect()
        };
        LossRuns {
            lost: self.lost.saturating_add(next.lost),
            runs: self.runs.saturating_add(next.runs),
            longest: self.longest.max(next.longest),
            by_length: added(&self.by_length, &next.by_length),
            by_distance: added(&self.by_distance, &next.by_distance),
            burst_squares: self.burst_squares.saturating_add(next.burst_squares),
            bursts: if self.tells_bursts() && next.tells_bursts() {
                self.bursts.saturating_add(next.bursts)
            } else {
                0
            },
            counts: self.counts.with(&next.counts),
            ..LossRuns::default()
        }
    }

    pub(super) fn close(&mut self) {
        self.sequence.unknown();
        self.end_run();
        self.end_burst();
    }

    fn tells_bursts(&self) -> bool {
        self.lost == 0 || self.bursts > 0
    }

    /// The mean size of the burst in which a lost frame is: 1 where each is lost by itself.
    ///
    /// Of k bursts whose sizes are geometric the mean that was seen is k / (k + 1) of it: of
    /// exponential sizes x that add up to s the sum of (x/s)^2 is 2 / (k + 1) in the mean
    /// (Dirichlet's distribution), and their mean size is s / k.
    pub fn dispersion(&self) -> f64 {
        if self.lost == 0 {
            return 1.0;
        }
        let seen = (self.burst_squares as f64 / self.lost as f64).max(1.0);
        let bursts = self.bursts as f64;
        if self.bursts == 0 { seen } else { 1.0 + (seen - 1.0) * (bursts + 1.0) / bursts }
    }

    fn end_run(&mut self) {
        let run = std::mem::take(&mut self.run);
        if run > 0 {
            self.runs += 1;
            self.longest = self.longest.max(run);
            count_power(&mut self.by_length, run);
        }
    }

    fn end_burst(&mut self) {
        let burst = std::mem::take(&mut self.burst);
        self.bursts += u64::from(burst > 0);
        self.burst_squares = self.burst_squares.saturating_add(burst.saturating_mul(burst));
    }
}

/// Counts `value`, above 0, by its power of two.
fn count_power(counts: &mut Vec<u64>, value: u64) {
    let power = (value.ilog2() as usize).min(POWERS - 1);
    if counts.len() <= power {
        counts.resize(power + 1, 0);
    }
    counts[power] += 1;
}

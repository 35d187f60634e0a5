//! One path of a comparison: what of its test is put next to others'.

use super::delay_summary::DelaySummary;
use super::document::LineDocument;
use super::outcome::LineOutcome;
use crate::statistics::counts;
use serde::Serialize;

/// One path of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedPath {
    /// Its name.
    pub name: String,
    /// Where the test went.
    pub target: String,
    /// When it ended, UTC.
    pub date: String,
    /// How.
    pub outcome: LineOutcome,
    /// That in a sentence.
    pub verdict: String,
    /// Its round trips.
    pub rtt: DelaySummary,
    /// Deviation of these in per cent of the mean.
    pub sd_percent: f64,
    /// Frames lost of those sent, where any were sent.
    pub loss: Option<f64>,
    /// The means of parts in time, in nanoseconds.
    pub part_means_ns: Vec<f64>,
    /// The deviations within these parts.
    pub part_sds_ns: Vec<f64>,
    /// Frames lost, of how many, and how large a burst a loss is in.
    #[serde(skip)]
    pub(super) losses: Option<PathLosses>,
    /// A sample of round trips, in ascending order.
    #[serde(skip)]
    pub(super) rtts_ns: Vec<f64>,
}

/// Losses of a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PathLosses {
    pub(super) lost: f64,
    pub(super) sent: f64,
    /// All losses that the receiver saw, and the sum of the squares of those in a burst.
    pub(super) seen: f64,
    pub(super) burst_squares: f64,
}

impl PathLosses {
    pub(super) fn of(document: &LineDocument) -> Option<PathLosses> {
        let (loss, runs) = (document.loss?, &document.totals.runs);
        let (seen, burst_squares) = (runs.lost as f64, runs.burst_squares as f64);
        Some(PathLosses { lost: loss.events as f64, sent: loss.trials, seen, burst_squares })
    }

    pub(super) fn ratio(&self) -> f64 {
        self.lost / self.sent
    }

    /// How probable so large a difference is by chance. Losses of a burst are one event, not many:
    /// as for the interval of a ratio, counts are divided by the mean size of the burst that a loss
    /// is in, which is taken from both.
    pub(super) fn p(&self, other: &PathLosses) -> Option<f64> {
        let seen = self.seen + other.seen;
        let burst = ((self.burst_squares + other.burst_squares) / seen.max(1.0)).max(1.0);
        counts((self.lost / burst, self.sent), (other.lost / burst, other.sent))
    }
}

impl ComparedPath {
    pub(super) fn of(name: &str, document: &LineDocument) -> Option<ComparedPath> {
        let rtt = document.rtt?;
        let mut rtts_ns = document.rtts_ns.clone();
        rtts_ns.retain(|rtt| rtt.is_finite());
        rtts_ns.sort_by(f64::total_cmp);
        if rtts_ns.is_empty() {
            return None;
        }
        Some(ComparedPath {
            name: name.to_owned(),
            target: document.settings.target.clone(),
            date: document.date.clone(),
            outcome: document.outcome,
            verdict: document.verdict.clone(),
            rtt,
            sd_percent: rtt.sd_ns / rtt.mean_ns * 100.0,
            loss: document.loss.map(|loss| loss.value()),
            part_means_ns: document.rtt_part_means_ns.clone(),
            part_sds_ns: document.rtt_part_sds_ns.clone(),
            losses: PathLosses::of(document),
            rtts_ns,
        })
    }
}

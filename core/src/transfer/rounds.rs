//! Round trips of a sender's samples, and whether the rate still grows from one to the next: BBR's
//! test for a full pipe (Cardwell et al. 2016, section 4.1).

use super::path_sample::PathSample;
use crate::units::{Bytes, Rate, Span};

/// A round is at least as long as samples need to tell rates apart.
const LEAST_ROUND: Span = Span::from_millis(100);
/// Of rounds whose rates are compared, since acknowledgements come in bursts of a round trip.
pub(super) const BURST_TRIPS: f64 = 2.0;
/// Growth in a round below this counts towards the end.
const GROWTH: f64 = 1.25;

/// Rounds of so many round trips each.
#[derive(Debug)]
pub(super) struct Rounds {
    trips: f64,
    began: Option<PathSample>,
    /// The best rate of a round, in bits a second.
    pub(super) best: f64,
    /// Rounds without growth, one behind the other, up to now.
    pub(super) flat: u32,
}

impl Rounds {
    /// None yet.
    pub(super) fn of(trips: f64) -> Rounds {
        Rounds { trips, began: None, best: 0.0, flat: 0 }
    }

    /// The rate of a round, in bits a second, when one is over.
    pub(super) fn rate(&mut self, sample: &PathSample) -> Option<f64> {
        let round = *self.began.get_or_insert(*sample);
        let took = sample.at.since(round.at);
        if took < LEAST_ROUND.max(sample.min_rtt.mul_f64(self.trips)) {
            return None;
        }
        self.began = Some(*sample);
        let bytes = Bytes(sample.delivered.0.saturating_sub(round.delivered.0));
        Some(Rate::of(bytes, took).as_bps() as f64)
    }

    /// Whether that rate has grown.
    pub(super) fn judge(&mut self, rate: f64) -> bool {
        let grew = rate >= self.best * GROWTH;
        self.flat = if grew { 0 } else { self.flat + 1 };
        self.best = self.best.max(rate);
        grew
    }
}

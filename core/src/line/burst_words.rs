//! What a report says of bursts: what few of them, or none, leave open, and what they make of a
//! decision.

use super::document::LineDocument;
use super::outcome::LineOutcome;
use super::scientific::counted;
use super::settings::LineCriterion;
use super::verdict::percent;

/// Of fewer bursts the size is hardly known.
const FEW: u64 = 10;
/// A burst of so many frames stands for all where none was seen.
const FOR_EXAMPLE: f64 = 10.0;

impl LineDocument {
    /// Whether frames were sent, and none of them was lost.
    fn has_no_losses(&self) -> bool {
        self.loss.is_some_and(|loss| loss.events == 0)
    }

    /// How far a bound without losses goes; nothing where there were some.
    pub(super) fn no_burst_words(&self) -> String {
        let loss = self.loss.filter(|_| self.has_no_losses());
        loss.map_or(String::new(), |loss| {
            let tens = (FOR_EXAMPLE * loss.below).min(1.0);
            format!(" if lost one by one, {tens:.2e} if ten at a time")
        })
    }

    /// What few bursts, or none, leave open; `None` where there were enough.
    pub(super) fn few_bursts_words(&self) -> Option<String> {
        if self.has_no_losses() {
            let said = "No frame was lost, so that nothing is known of bursts: the first row's \
                        bounds hold where frames are lost one by one. Where they are lost in \
                        bursts, these are bounds of how many bursts there are, and as many times \
                        more frames are lost as a burst takes.";
            return Some(said.to_owned());
        }
        let bursts = self.totals.runs.bursts;
        (1..FEW).contains(&bursts).then(|| {
            format!(
                "The losses came in {}, of which the next may be much larger: the first row's \
                 interval has that in it.",
                counted(bursts, "burst", "bursts")
            )
        })
    }

    /// Where a decision on losses, which counts frames one by one, says more than the interval,
    /// which knows of bursts.
    pub(super) fn decided_in_bursts_words(&self) -> Option<String> {
        let (loss, Some(LineCriterion::Loss(limit))) = (self.loss?, self.settings.criterion) else {
            return None;
        };
        let side = match self.outcome {
            LineOutcome::Passed if loss.events > 0 && loss.below > limit => "above",
            LineOutcome::Failed if loss.low < limit => "below",
            _ => return None,
        };
        Some(format!(
            "The decision counts frames one by one, and these were lost in bursts: by the interval, \
             which knows that, the ratio may be {side} {limit:e} at {} %. A longer test says more.",
            percent(loss.confidence)
        ))
    }
}

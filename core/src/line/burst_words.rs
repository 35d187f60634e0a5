//! What a report says of bursts: what few of them, or none, leave open, and what they make of a
//! decision.

use super::document::LineDocument;
use super::outcome::LineOutcome;
use super::scientific::counted;
use super::settings::LineCriterion;
use super::verdict::percent;
use crate::units::Setting;

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
            return Some(format!(
                "No frame was lost, so that nothing is known of bursts: the first row's bounds hold \
                 where frames are lost one by one. Where they are lost in bursts, these are bounds \
                 of how many bursts there are, and as many times more frames are lost as a burst \
                 takes.{}",
                self.pass_words()
            ));
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

    /// For which bursts a pass without a loss holds; nothing where it is none.
    fn pass_words(&self) -> String {
        if self.outcome != LineOutcome::Passed {
            return String::new();
        }
        let held = match self.settings.loss_burst {
            burst if burst > 1.0 => format!("for bursts of {burst} frames in the mean, or fewer"),
            _ => "where frames are lost one by one".to_owned(),
        };
        format!(
            " The decision holds {held}. One for bursts of more takes so many times longer ({}).",
            Setting::LossBurst
        )
    }

    /// Where more was lost while a test that was decided ended, and the interval of all that came,
    /// which knows how little few bursts tell of others, no longer says as much.
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
            "This was decided as soon as it could be. By the interval of all that came until the \
             end, which knows that the next burst may be much larger, the ratio may be {side} \
             {limit:e} at {} %. A longer test says more.",
            percent(loss.confidence)
        ))
    }
}

//! What can be said of a test so far: the decision, how it ended, and that in a sentence.

use super::document::{LineDocument, LineTest};
use super::outcome::LineOutcome;
use super::ratio::Ratio;
use super::scientific::counted;
use super::sequential::{LossCounts, RatioDecision, RatioTest};
use super::settings::{LineCriterion, LineSettings};
use crate::units::{Error, ErrorCode, Fault, Span};

/// More untested than this part of the time: this host was not fit to say.
const MOST_UNTESTED: f64 = 0.1;

impl LineDocument {
    /// Whether the test broke off, and has time left.
    pub fn can_go_on(&self) -> bool {
        let counted = self.sums.tested + self.sums.untested();
        self.broken_off.is_some() && counted < self.settings.most_seconds
    }
}

impl LineTest {
    /// Whether it is decided, or its time is over: there is nothing to go on with.
    pub fn is_over(&self) -> bool {
        let counted = self.sums.tested + self.sums.untested();
        counted >= self.settings.most_seconds || self.decision() != RatioDecision::Open
    }

    /// A user ended it: what is known by then is the report, of a test that was not whole unless it
    /// is decided or its time was over.
    pub fn ended_by_user(&mut self) {
        if !self.is_over() {
            self.broken_off = Some("ended by you".to_owned());
        }
    }

    /// The same, where it did not break off.
    ///
    /// # Errors
    /// [`Fault::Between`] where it did.
    pub fn whole(self) -> Result<LineTest, Error> {
        match self.broken_off {
            Some(why) => Err(Error::new(Fault::Between, ErrorCode::LineGone, why)),
            None => Ok(self),
        }
    }

    /// Which losses of how many trials the criterion is about.
    fn counted(&self) -> (LossCounts, f64) {
        let sums = &self.sums;
        let lost = LossCounts::of(sums.lost, &self.totals.runs);
        match self.settings.criterion {
            Some(LineCriterion::Loss(_)) => (lost, sums.sent as f64),
            _ => (lost.and_single(sums.wrong_frames), sums.framed_bits as f64),
        }
    }

    /// The test that decides; `None` where nothing is to be decided.
    pub fn decides(&self) -> Option<RatioTest> {
        let limit = match self.settings.criterion? {
            LineCriterion::BitErrors(limit) | LineCriterion::Loss(limit) => limit,
        };
        let LineSettings { confidence, loss_burst, .. } = self.settings;
        Some(RatioTest { limit, confidence, burst: loss_burst })
    }

    /// What can be decided so far, or was.
    pub fn decision(&self) -> RatioDecision {
        if let Some(decided) = self.decided {
            return decided;
        }
        let (losses, trials) = self.counted();
        self.decides().map_or(RatioDecision::Open, |test| test.decide(&losses, trials))
    }

    /// How long it takes at least until the line is accepted, if nothing more is lost.
    pub fn left(&self) -> Option<Span> {
        let test = self.decides()?;
        let (losses, trials) = self.counted();
        let more = (test.trials_to_accept(&losses) - trials).max(0.0);
        Some(Span::from_secs_f64(more / self.settings.trials_a_second()))
    }

    /// Lost frames of those sent.
    pub(super) fn loss(&self) -> Option<Ratio> {
        let dispersion = self.totals.runs.dispersion();
        let sums = &self.sums;
        let found =
            Ratio::clustered(sums.lost, sums.sent as f64, dispersion, self.settings.confidence)?;
        // Of few bursts the bound is above all frames.
        let most = |bound: f64| bound.min(1.0);
        Some(Ratio { high: most(found.high), below: most(found.below), ..found })
    }

    /// How it ended, if it ends now, and that in a sentence.
    pub fn verdict(&self) -> (LineOutcome, String) {
        let (outcome, said) = self.verdict_of_what_came();
        match &self.broken_off {
            Some(why) if outcome != LineOutcome::Failed => {
                (LineOutcome::BrokenOff, format!("broken off: {why}; {said}"))
            }
            Some(why) => (outcome, format!("{said}; broken off: {why}")),
            None => (outcome, said),
        }
    }

    fn verdict_of_what_came(&self) -> (LineOutcome, String) {
        let sums = &self.sums;
        let (tested, untested) = (sums.tested, sums.untested());
        let time = format!("{} tested, {untested} s untested", words(Span::from_secs(tested)));
        // An end that was away was not unfit.
        let kept_out = untested - sums.away;
        let is_unfit = tested == 0 || kept_out as f64 > MOST_UNTESTED * (tested + kept_out) as f64;
        let percent = percent(self.settings.confidence);
        let (what, unit, limit) = match self.settings.criterion {
            None if is_unfit => {
                return (
                    LineOutcome::Unfit,
                    format!("too few seconds count to say anything: {time}"),
                );
            }
            None => {
                let found = self.loss().map_or(String::new(), |loss| {
                    format!("{} of {} frames lost; ", loss.events, loss.trials)
                });
                return (LineOutcome::Measured, format!("{found}{time}"));
            }
            Some(LineCriterion::BitErrors(limit)) => ("bit error ratio", "bits", limit),
            Some(LineCriterion::Loss(limit)) => ("loss ratio", "frames", limit),
        };
        let (LossCounts { events, .. }, trials) = self.counted();
        let counts = format!("{} in {trials:.3e} {unit}", counted(events, "error", "errors"));
        let after = words(Span::from_secs(tested));
        let bursts = match self.settings.loss_burst {
            burst if burst > 1.0 => format!(" in bursts of {burst}"),
            _ => String::new(),
        };
        let ended = |side: &str, how: &str| {
            format!(
                "{what}{bursts} {side} {limit:e} at {percent} %: {how} after {after}; {}; {counts}",
                counted(untested, "untested second", "untested seconds")
            )
        };
        match self.decision() {
            RatioDecision::Accepted => (LineOutcome::Passed, ended("below", "passed")),
            RatioDecision::Refused => (LineOutcome::Failed, ended("above", "failed")),
            RatioDecision::Open if is_unfit => {
                (LineOutcome::Unfit, format!("too few seconds count to decide on {what}: {time}"))
            }
            RatioDecision::Open => (LineOutcome::Undecided, ended("against", "not decided")),
        }
    }
}

/// A confidence in per cent as it was given, which its ratio of 64 bits is not.
pub(super) fn percent(confidence: f64) -> f64 {
    (confidence * 1e11).round() / 1e9
}

/// A span as people say it: `18 min 6 s`.
pub fn words(span: Span) -> String {
    let seconds = span.as_secs_f64().ceil() as u64;
    match (seconds / 3_600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

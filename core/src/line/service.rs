//! A service level, and whether a line holds it at each step of ITU-T Y.1564's configuration test.

use super::document::LineDocument;
use crate::units::{Error, ErrorCode, Fault, Rate, Setting};
use serde::{Deserialize, Serialize};

/// The steps of the committed rate, in per cent (Y.1564, section 8.1).
const STEPS: [f64; 4] = [25.0, 50.0, 75.0, 100.0];

/// What may be agreed on.
const LOSS: &str = "frame loss ratio";
const DELAY: &str = "mean one-way delay, ms";
const VARIATION: &str = "delay variation, ms";
const AVAILABILITY: &str = "availability";

/// What was agreed on; what is absent is not looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceLevel {
    /// The committed information rate, on the wire, such as `"400M"`.
    pub rate: String,
    /// The most frames lost of those sent.
    pub frame_loss_ratio: Option<f64>,
    /// The most mean one-way delay, in milliseconds.
    pub frame_transfer_delay_ms: Option<f64>,
    /// The most variation of delay: the 99th percentile less the least, in milliseconds.
    pub frame_delay_variation_ms: Option<f64>,
    /// The least part of the seconds without total loss.
    pub availability: Option<f64>,
}

/// One thing that was looked at in one step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServiceRow {
    /// The step, in per cent of the committed rate.
    pub load_percent: f64,
    /// What was looked at.
    pub what: String,
    /// What was found.
    pub found: f64,
    /// What was agreed on.
    pub agreed: f64,
    /// Whether the one holds the other.
    pub is_held: bool,
}

impl ServiceLevel {
    /// Reads a service level in TOML.
    ///
    /// # Errors
    /// [`Fault::You`] when it is none.
    pub fn read(text: &str) -> Result<ServiceLevel, Error> {
        let wrong = |why: String| Error::new(Fault::You, ErrorCode::LineSetting, why);
        let level: ServiceLevel =
            toml::from_str(text).map_err(|error| wrong(error.message().to_owned()))?;
        level.committed()?;
        if level.agreed().is_empty() {
            return Err(wrong("it has a rate and nothing to hold a line against".to_owned()).hint(format!(
                "agree on frame_loss_ratio, frame_transfer_delay_ms, frame_delay_variation_ms or \
                 availability; what a line carries, `farline line {}` finds",
                Setting::Search
            )));
        }
        Ok(level)
    }

    /// What is looked at.
    pub fn agreed(&self) -> Vec<&'static str> {
        let all = [
            (LOSS, self.frame_loss_ratio),
            (DELAY, self.frame_transfer_delay_ms),
            (VARIATION, self.frame_delay_variation_ms),
            (AVAILABILITY, self.availability),
        ];
        all.into_iter().filter_map(|(what, agreed)| agreed.map(|_| what)).collect()
    }

    /// The committed rate.
    ///
    /// # Errors
    /// [`Fault::You`] when it is none.
    pub fn committed(&self) -> Result<Rate, Error> {
        self.rate.parse().map_err(|error| {
            Error::new(Fault::You, ErrorCode::LineSetting, format!("the rate: {error}"))
        })
    }

    /// The loads of the steps, in per cent of the committed rate.
    pub fn steps() -> impl Iterator<Item = f64> {
        STEPS.into_iter()
    }

    /// Holds the test of a step against the level.
    ///
    /// # Errors
    /// Why the test says nothing of it: a host did not keep up, or what was agreed on was not
    /// measured.
    pub fn judge(&self, document: &LineDocument) -> Result<Vec<ServiceRow>, String> {
        if !document.outcome.is_fit() {
            return Err(document.verdict.clone());
        }
        let at_most = |what: &str, found: Option<f64>, agreed: Option<f64>| {
            let agreed = agreed?;
            let row = |found: f64| self.row(document, what, found, agreed, found <= agreed);
            Some(found.map(row).ok_or_else(|| format!("{what}: not measured")))
        };
        let delay = document.one_way_delay;
        let rows = [
            at_most(LOSS, document.loss.map(|loss| loss.value()), self.frame_loss_ratio),
            at_most(DELAY, delay.map(|delay| delay.mean_ns / 1e6), self.frame_transfer_delay_ms),
            at_most(
                VARIATION,
                delay.map(|delay| (delay.p99_ns - delay.min_ns) / 1e6),
                self.frame_delay_variation_ms,
            ),
            self.availability.map(|agreed| {
                let found = document.availability();
                Ok(self.row(document, AVAILABILITY, found, agreed, found >= agreed))
            }),
        ];
        rows.into_iter().flatten().collect()
    }

    fn row(
        &self,
        document: &LineDocument,
        what: &str,
        found: f64,
        agreed: f64,
        is_held: bool,
    ) -> ServiceRow {
        let load_percent = document.settings.load_percent;
        ServiceRow { load_percent, what: what.to_owned(), found, agreed, is_held }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::{FrameMix, LineSettings, LineTest, SecondRow, SentSecond};

    fn document(lost: u64) -> LineDocument {
        let mut test = LineTest::new(
            LineSettings {
                target: "there".to_owned(),
                rate: Rate::from_bps(1_000_000),
                load_percent: 50.0,
                frames: FrameMix::cjpat(),
                ethernet: None,
                burst: 1,
                criterion: None,
                confidence: 0.95,
                loss_burst: 1.0,
                most_seconds: 4,
                most_frames: None,
            },
            true,
        );
        for second in 0..4 {
            test.note_sent(SentSecond { second, frames: 1_000, ..SentSecond::default() });
            let received = if second == 3 { 0 } else { 1_000 - lost };
            test.note_row(SecondRow { second, received, ..SecondRow::default() });
        }
        test.settle(4);
        test.document("0", "today")
    }

    #[test]
    fn a_level_is_held_or_not_as_the_figures_say() {
        let level =
            ServiceLevel::read("rate = \"400M\"\nframe_loss_ratio = 0.3\navailability = 0.9")
                .expect("a level");
        let rows = level.judge(&document(0)).expect("fit");
        assert_eq!(rows.len(), 2, "what is not agreed on is not looked at");
        assert!(rows[0].is_held && rows[0].found == 0.25, "{rows:?}");
        assert!(!rows[1].is_held && rows[1].found == 0.75, "a second without a frame: {rows:?}");
        assert!(!level.judge(&document(100)).expect("fit")[0].is_held);
        assert_eq!(level.agreed(), [LOSS, AVAILABILITY]);
        // No packet came back: what was agreed on is not held for want of a figure.
        let level = ServiceLevel::read("rate = \"1G\"\nframe_transfer_delay_ms = 3").expect("one");
        let why = level.judge(&document(0)).expect_err("nothing was measured");
        assert!(why.contains("mean one-way delay"), "{why}");
    }

    #[test]
    fn what_is_no_level_is_refused() {
        for wrong in ["", "rate = \"fast\"", "rate = \"1G\"\nspeed = 3", "rate = \"1G\""] {
            let error = ServiceLevel::read(wrong).expect_err(wrong);
            assert_eq!((error.fault, error.code), (Fault::You, ErrorCode::LineSetting));
        }
        assert_eq!(ServiceLevel::steps().collect::<Vec<_>>(), [25.0, 50.0, 75.0, 100.0]);
    }
}

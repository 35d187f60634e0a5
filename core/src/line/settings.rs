//! What a line test is asked to do.

use super::frames::{EthernetFraming, FrameMix};
use crate::units::{Error, ErrorCode, Fault, Rate, Setting};
use serde::{Deserialize, Serialize};

/// What a line is held against.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LineCriterion {
    /// Wrong bits, of those from Ethernet header to FCS; a frame that did not come has one at
    /// least, and counts as one.
    BitErrors(f64),
    /// Lost frames, of those sent.
    Loss(f64),
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LineSettings {
    /// The other end, as it was given.
    pub target: String,
    /// The line's rate, on the wire; zero where frames leave as fast as this host can.
    pub rate: Rate,
    /// The part of it that is sent.
    pub load_percent: f64,
    /// What is sent.
    pub frames: FrameMix,
    /// Where frames are Ethernet's own: how they travel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ethernet: Option<EthernetFraming>,
    /// Frames that leave back to back.
    pub burst: u32,
    /// What the line is held against.
    pub criterion: Option<LineCriterion>,
    /// How sure decisions and intervals are.
    pub confidence: f64,
    /// How many frames are lost at once, in the mean, on the lines that a pass holds for, whatever
    /// came: 1 where they are lost one by one.
    #[serde(default = "one")]
    pub loss_burst: f64,
    /// How long the test lasts at most, in seconds.
    pub most_seconds: u64,
    /// Frames after which it ends, where it is one burst.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_frames: Option<u64>,
}

fn one() -> f64 {
    1.0
}

impl LineSettings {
    /// Refuses a burst, or a frame, that takes longer than the test.
    ///
    /// # Errors
    /// [`Fault::You`] for such a burst.
    pub fn check_burst(&self) -> Result<(), Error> {
        let seconds = f64::from(self.burst) / self.frames_a_second();
        // As fast as the host can, without a rate.
        if self.rate.as_bps() > 0 && seconds > self.most_seconds as f64 {
            let (what, hint) = match self.burst {
                1 => (
                    "a frame".to_owned(),
                    format!("take a higher {}, or a longer {}", Setting::Rate, Setting::For),
                ),
                n => (
                    format!("a burst of {n} frames"),
                    format!("take a smaller {}, or a longer {}", Setting::Burst, Setting::For),
                ),
            };
            let message = format!(
                "{what} takes {seconds:.1} s at this load, longer than the test ({} s)",
                self.most_seconds
            );
            return Err(Error::new(Fault::You, ErrorCode::LineSetting, message).hint(hint));
        }
        Ok(())
    }

    /// Frames that are sent in a second.
    pub fn frames_a_second(&self) -> f64 {
        let bits = self.rate.as_bps() as f64 * self.load_percent / 100.0;
        bits / (self.wire_bytes() as f64 * 8.0) * self.frames.turn.len() as f64
    }

    /// Bytes of wire time of a turn, tags included.
    fn wire_bytes(&self) -> u64 {
        self.frames.wire_bytes() + self.tag_bytes() * self.frames.turn.len() as u64
    }

    /// Bytes that a tag adds to each frame.
    pub fn tag_bytes(&self) -> u64 {
        self.ethernet.as_ref().map_or(0, EthernetFraming::tag_bytes)
    }

    /// Trials in a second: frames, or their bits from header to FCS.
    pub(super) fn trials_a_second(&self) -> f64 {
        let frames = self.frames_a_second();
        match self.criterion {
            Some(LineCriterion::Loss(_)) => frames,
            _ => frames / self.frames.turn.len() as f64 * self.frames.framed_bytes() as f64 * 8.0,
        }
    }
}

//! What of a test under way is written down, each second, for another process to go on from.

use super::document::LineTest;
use crate::units::{Error, ErrorCode, Fault, Span, Time};
use serde::{Deserialize, Serialize};

/// Seconds that may have gone by since a state was written, beyond those that the clock says.
const SPARE_SECONDS: f64 = 10.0;

/// A test that can go on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LineState {
    /// `farline/line-state/1`.
    pub schema: String,
    /// The test's number, which both ends know.
    pub session: u64,
    /// When it began, since 1970.
    pub begun: Time,
    /// When this was written.
    pub written: Time,
    /// A number above that of each frame sent until then.
    pub next_frame: u64,
    /// Which run of the other end it was.
    pub instance: u64,
    /// What is known.
    pub test: LineTest,
}

impl LineState {
    /// Its schema.
    pub const SCHEMA: &'static str = "farline/line-state/1";

    /// Reads a state.
    ///
    /// # Errors
    /// [`Fault::You`] when it is none.
    pub fn read(json: &str) -> Result<LineState, Error> {
        let wrong = |why: String| {
            Error::new(
                Fault::You,
                ErrorCode::LineState,
                format!("no line test to go on with: {why}"),
            )
        };
        let state: LineState =
            serde_json::from_str(json).map_err(|error| wrong(error.to_string()))?;
        match state.schema == LineState::SCHEMA {
            true => Ok(state),
            false => Err(wrong(format!("its schema is {}", state.schema))),
        }
    }

    /// How long after its begin the test is at `now`; a clock that was set back is not believed.
    pub fn since_begin(&self, now: Time) -> Span {
        now.max(self.written).since(self.begun)
    }

    /// A number that no frame has had when the test goes on at `now`.
    pub fn frames_from(&self, now: Time) -> u64 {
        let away = now.since(self.written).as_secs_f64() + SPARE_SECONDS;
        self.next_frame + (away * self.test.settings.frames_a_second()).ceil() as u64
    }
}

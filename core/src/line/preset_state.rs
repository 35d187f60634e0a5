//! What of a preset under way is written down for another process to go on from.

use super::document::LineDocument;
use super::raw::RawRow;
use super::read::schema_of;
use super::state::LineState;
use crate::units::{Error, ErrorCode, Fault};
use serde::{Deserialize, Serialize};

/// A preset that can go on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PresetState {
    /// `farline/line-preset-state/1`.
    pub schema: String,
    /// The preset's name.
    pub preset: String,
    /// Whether it is done in full.
    pub is_full: bool,
    /// What came of the paths that are done, in the preset's order.
    pub documents: Vec<LineDocument>,
    /// The test of the next one, where it has begun.
    pub running: Option<LineState>,
    /// Sizes of raw Ethernet that are done, in the preset's order.
    pub sizes: Vec<RawRow>,
    /// Whether there is nothing left to do.
    pub is_over: bool,
}

impl PresetState {
    /// Its schema.
    pub const SCHEMA: &'static str = "farline/line-preset-state/1";

    /// Of a preset that has not begun.
    pub fn new(preset: &str, is_full: bool) -> PresetState {
        PresetState {
            schema: PresetState::SCHEMA.to_owned(),
            preset: preset.to_owned(),
            is_full,
            documents: Vec::new(),
            running: None,
            sizes: Vec::new(),
            is_over: false,
        }
    }
}

/// What a file has to go on from: one test, or those of a preset.
#[derive(Clone, Debug, PartialEq)]
pub enum SavedTest {
    /// A test.
    Line(Box<LineState>),
    /// A preset.
    Preset(Box<PresetState>),
}

impl SavedTest {
    /// Reads either.
    ///
    /// # Errors
    /// [`Fault::You`] when it is neither.
    pub fn read(json: &str) -> Result<SavedTest, Error> {
        if schema_of(json).as_deref() != Some(PresetState::SCHEMA) {
            return Ok(SavedTest::Line(Box::new(LineState::read(json)?)));
        }
        let state = serde_json::from_str(json).map_err(|error| {
            let message = format!("no preset to go on with: {error}");
            Error::new(Fault::You, ErrorCode::LineState, message)
        })?;
        Ok(SavedTest::Preset(Box::new(state)))
    }

    /// Whether there is nothing left to go on with.
    pub fn is_over(&self) -> bool {
        match self {
            SavedTest::Line(state) => state.test.is_over(),
            SavedTest::Preset(state) => state.is_over,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::{LinePreset, LineTest};
    use crate::units::Time;

    #[test]
    fn what_is_written_is_what_a_preset_goes_on_from() {
        let preset = LinePreset::named("usn-vlans").expect("it is there");
        let settings = preset.tests(false).expect("its tests")[0].settings.clone();
        let line = LineState {
            schema: LineState::SCHEMA.to_owned(),
            session: 7,
            begun: Time::from_nanos(5),
            written: Time::from_nanos(9),
            next_frame: 3,
            instance: 1,
            test: LineTest::new(settings, true),
        };
        let state = PresetState {
            documents: vec![line.test.document("0", "then")],
            running: Some(line.clone()),
            ..PresetState::new("usn-vlans", false)
        };
        let text = serde_json::to_string(&state).expect("JSON");
        let read = SavedTest::read(&text).expect("a state");
        assert_eq!((&read, read.is_over()), (&SavedTest::Preset(Box::new(state)), false));
        let text = serde_json::to_string(&line).expect("JSON");
        assert_eq!(SavedTest::read(&text), Ok(SavedTest::Line(Box::new(line))));
        for wrong in ["", "{}", r#"{"schema": "farline/line-preset-state/1"}"#] {
            let error = SavedTest::read(wrong).expect_err("no state");
            assert_eq!((error.fault, error.code), (Fault::You, ErrorCode::LineState), "{wrong}");
        }
    }
}

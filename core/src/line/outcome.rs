//! How a test of a line ended.

use serde::{Deserialize, Serialize};

/// How a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LineOutcome {
    /// The ratio is below what was asked.
    Passed,
    /// It is above.
    Failed,
    /// Neither could be said in the time.
    Undecided,
    /// Nothing was asked but to measure.
    Measured,
    /// Too little of the time counts: this host, or the other, did not keep up.
    Unfit,
    /// The other end was gone before it was over, or this host could not go on.
    BrokenOff,
}

impl LineOutcome {
    /// Whether what was found is of the line, and of all of the test.
    pub fn is_fit(self) -> bool {
        !matches!(self, LineOutcome::Unfit | LineOutcome::BrokenOff)
    }
}

//! How a channel of registered slots noticed what its device completed.

use serde::Serialize;

/// How many completions were noticed in which way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CompletionStats {
    /// By looking.
    pub polled: u64,
    /// After a sleep that the device ended.
    pub told: u64,
}

impl CompletionStats {
    /// Both together.
    #[must_use]
    pub fn and(self, other: CompletionStats) -> CompletionStats {
        CompletionStats { polled: self.polled + other.polled, told: self.told + other.told }
    }
}

//! Answers of a STAMP reflector that a test refuses, by why.

use super::scientific::counted;
use serde::{Deserialize, Serialize};

/// Packets that came from the reflector's address and count for nothing: it lies, somebody forges
/// what it says, or it is very late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedAnswers {
    /// Too short to be STAMP's.
    pub too_short: u64,
    /// In the authenticated mode: whose HMAC is not that of the key.
    pub wrong_hmac: u64,
    /// To a number that no packet has that is waited for: it was never sent, or more than two
    /// seconds before.
    pub never_asked: u64,
    /// To a packet that was sent at another time than they say.
    pub other_time: u64,
}

impl RefusedAnswers {
    /// How many, and why; `None` where there were none.
    pub fn words(&self) -> Option<String> {
        let reasons = [
            (self.too_short, "too short for STAMP"),
            (self.wrong_hmac, "with an HMAC that is not the key's"),
            (self.never_asked, "to what was never sent, or too late"),
            (self.other_time, "to a packet that was sent at another time"),
        ];
        let seen = reasons.iter().filter(|(count, _)| *count > 0);
        let said: Vec<String> = seen
            .map(|(count, why)| format!("{} {why}", counted(*count, "answer", "answers")))
            .collect();
        (!said.is_empty()).then(|| format!("{}; they count for nothing", said.join(", ")))
    }
}

//! When blocks went missing, whether another pass is worth making.

use crate::units::{Error, ErrorCode};

/// Passes in a row that may bring nothing new: one may lose its every channel to a passing fault.
const MOST_FRUITLESS: u32 = 3;

/// The passes of one transfer (`docs/protocol.md`, clause I-7).
#[derive(Debug, Default)]
pub struct Passes {
    /// How many were begun.
    pub made: u64,
    /// Blocks that came other than they were sent, by the receiver's word.
    pub bad_blocks: u64,
    /// Headers that did.
    pub bad_headers: u64,
    best: u64,
    fruitless: u32,
}

impl Passes {
    /// Takes in that a pass ended with `error` when the receiver held `held` bytes; returns the
    /// error where another pass is of no use.
    ///
    /// # Errors
    /// Then: that one.
    pub fn failed(&mut self, error: Error, held: u64) -> Result<(), Error> {
        if !matches!(
            error.code,
            ErrorCode::BlocksMissing | ErrorCode::ChannelLost | ErrorCode::DataConnection
        ) {
            return Err(error);
        }
        self.bad_blocks += count(&error.message, "bad_blocks=");
        self.bad_headers += count(&error.message, "bad_headers=");
        self.fruitless = if held > self.best { 0 } else { self.fruitless + 1 };
        self.best = self.best.max(held);
        if self.fruitless >= MOST_FRUITLESS { Err(error) } else { Ok(()) }
    }
}

/// The number behind `name` in what a node says at the end of a pass (I-7); 0 where it says none.
fn count(said: &str, name: &str) -> u64 {
    let digits = said
        .split_once(name)
        .and_then(|(_, rest)| rest.split(|c: char| !c.is_ascii_digit()).next());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

//! One transfer between two servers, by what each of them says of its end.

use super::blame::of_two_servers;
use crate::units::{Error, Span, Time};

/// How long the other end's word is worth waiting for once one has failed: it may wait for the one.
const WORD_TIMEOUT: Span = Span::from_secs(2);

/// One of two servers between which data moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataEnd {
    /// The files are its own.
    Sender,
    /// They land there.
    Receiver,
}

/// Where a transfer between two servers stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PairedState {
    /// These have yet to say how it ended; no longer than until then, where there is a time.
    Waiting(Vec<DataEnd>, Option<Time>),
    /// Both have said their last word on it.
    Over(Result<(), Error>),
    /// One failed, and of the other nothing is known.
    Broken(Error),
}

/// Both ends' last words on one transfer. The first that fails ends the wait soon.
#[derive(Clone, Debug)]
pub struct PairedTransfer {
    left: Vec<DataEnd>,
    failed: Option<Error>,
    until: Option<Time>,
}

impl Default for PairedTransfer {
    fn default() -> PairedTransfer {
        PairedTransfer { left: vec![DataEnd::Receiver, DataEnd::Sender], failed: None, until: None }
    }
}

impl PairedTransfer {
    /// Takes in the last word of `end`. What has spoken already changes nothing.
    pub fn ended(&mut self, now: Time, end: DataEnd, result: Result<(), Error>) {
        let Some(at) = self.left.iter().position(|left| *left == end) else { return };
        self.left.remove(at);
        self.failed = match (self.failed.take(), result.err()) {
            (Some(first), second) => Some(of_two_servers(first, second)),
            (None, second) => second,
        };
        self.until = self.failed.is_some().then_some(now + WORD_TIMEOUT);
    }

    /// Where it stands at `now`.
    pub fn state(&self, now: Time) -> PairedState {
        match &self.failed {
            failed if self.left.is_empty() => PairedState::Over(failed.clone().map_or(Ok(()), Err)),
            Some(error) if self.until.is_some_and(|until| now >= until) => {
                PairedState::Broken(error.clone())
            }
            _ => PairedState::Waiting(self.left.clone(), self.until),
        }
    }
}

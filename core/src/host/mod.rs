//! Whether a host is fit for long fast paths: what was read of it goes in, findings come out, in
//! words and with the command that mends each.
//!
//! Nothing is read here; `farline::host` does that. A fact that could not be read is absent, and
//! what is absent is not judged.

mod facts;
mod judge;
mod network;

pub use facts::{Clock, Disk, HostFacts, Interface, PathFacts, Ring, Speed};
pub use judge::judge;

use serde::Serialize;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// As it should be.
    Good,
    /// It works, and would work better otherwise.
    Advice,
    /// It holds transfers back.
    Problem,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// A stable slug, such as `receive-buffers`.
    pub about: &'static str,
    /// How much it matters.
    pub level: Level,
    /// What was found and what it means, in one sentence or two.
    pub words: String,
    /// The command that mends it, for root unless it says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mend: Option<String>,
}

impl Finding {
    fn good(about: &'static str, words: impl Into<String>) -> Finding {
        Finding { about, level: Level::Good, words: words.into(), mend: None }
    }

    fn advice(about: &'static str, words: impl Into<String>) -> Finding {
        Finding { level: Level::Advice, ..Finding::good(about, words) }
    }

    fn problem(about: &'static str, words: impl Into<String>) -> Finding {
        Finding { level: Level::Problem, ..Finding::good(about, words) }
    }

    fn mend(self, command: impl Into<String>) -> Finding {
        Finding { mend: Some(command.into()), ..self }
    }
}

#[cfg(test)]
mod tests;

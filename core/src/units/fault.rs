//! Errors that say what failed, whose fault it is, and what to try.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Whose fault an error is; decides the exit code and whether trying again makes sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Fault {
    /// The path between: lost connection, timeout, link down.
    Between,
    /// Farline itself: a defect worth reporting.
    Bug,
    /// This host: disk full, no permission, missing kernel feature.
    Here,
    /// Said no: policy, authentication, no capacity.
    Refused,
    /// The other end: it broke its protocol or failed.
    There,
    /// The request: bad argument, no such file.
    You,
}

impl Fault {
    /// The process exit code of an error with this fault. Documented in the man page.
    pub const fn exit_code(self) -> u8 {
        match self {
            Fault::You => 2,
            Fault::Here => 3,
            Fault::There => 4,
            Fault::Between => 5,
            Fault::Refused => 6,
            Fault::Bug => 70,
        }
    }
}

/// One failure: a stable code, one line for people, and what to try.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Error {
    /// Whose fault it is.
    pub fault: Fault,
    /// A stable slug, such as `digest-mismatch`: for scripts, documents and searches.
    pub code: &'static str,
    /// What failed, in one line, with names and numbers.
    pub message: String,
    /// What to try next, when there is something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Error {
    /// An error without a hint.
    pub fn new(fault: Fault, code: &'static str, message: impl Into<String>) -> Error {
        Error { fault, code, message: message.into(), hint: None }
    }

    /// The same error with what to try next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Error {
        self.hint = Some(hint.into());
        self
    }

    /// The same error with what was being done, put before the message: `copying a to b: disk
    /// full`.
    #[must_use]
    pub fn while_doing(mut self, doing: impl fmt::Display) -> Error {
        self.message = format!("{doing}: {}", self.message);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

//! Errors that say what failed, whose fault it is, and what to try.

use super::{ErrorCode, Retry, Setting, SettingName, escaped_lines};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

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

/// One failure: whose fault, of what kind, one line for people, and what to try.
///
/// Two errors are equal when they say the same; what caused them does not count.
#[derive(Clone, Debug, Serialize)]
pub struct Error {
    /// Whose fault it is.
    pub fault: Fault,
    /// What kind of failure it is: for scripts, documents and searches.
    pub code: ErrorCode,
    /// What failed, in one line, with names and numbers.
    pub message: String,
    /// What to try next, when there is something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The error beneath, such as the system's, when it is at hand. Its words are in the message.
    #[serde(skip)]
    pub source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error without a hint. What would steer a terminal in its words, of which many are a
    /// peer's or a file's name, is written out ([`escaped`](super::escaped)).
    pub fn new(fault: Fault, code: ErrorCode, message: impl Into<String>) -> Error {
        Error { fault, code, message: plain(message.into()), hint: None, source: None }
    }

    /// This build has no `what`, which the feature of this name brings.
    pub fn not_built(what: impl fmt::Display, feature: &str) -> Error {
        let message = format!("this build of Farline has no {what}");
        Error::new(Fault::Here, ErrorCode::NotBuilt, message)
            .hint(format!("build it with the feature `{feature}`"))
    }

    /// The same error with what to try next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Error {
        self.hint = Some(plain(hint.into()));
        self
    }

    /// The same error with what was being done, put before the message: `copying a to b: disk
    /// full`.
    #[must_use]
    pub fn while_doing(mut self, doing: impl fmt::Display) -> Error {
        self.message = plain(format!("{doing}: {}", self.message));
        self
    }

    /// The same error with the one beneath it.
    #[must_use]
    pub fn caused_by(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Error {
        self.source = Some(Arc::new(source));
        self
    }

    /// The same error with each setting that its words name called as `name` says.
    #[must_use]
    pub fn with_settings_named(&self, name: SettingName) -> Error {
        let mut named = self.clone();
        named.message = Setting::renamed(&self.message, name);
        named.hint = self.hint.as_deref().map(|hint| Setting::renamed(hint, name));
        named
    }

    /// Whether the same request may succeed when it is made again. A wrong request stays wrong and
    /// a defect stays a defect, whatever the code.
    pub fn retry(&self) -> Retry {
        match (self.fault, self.code) {
            (Fault::You | Fault::Bug, _) => Retry::Never,
            // ssh has one status for a host that is away and for a login that it refuses.
            (Fault::Refused, ErrorCode::SshFailed) => Retry::Never,
            (Fault::Here | Fault::There | Fault::Between | Fault::Refused, code) => code.retry(),
        }
    }
}

/// The same words without what would steer a terminal.
fn plain(words: String) -> String {
    match escaped_lines(&words) {
        Cow::Borrowed(_) => words,
        Cow::Owned(plain) => plain,
    }
}

impl PartialEq for Error {
    fn eq(&self, other: &Error) -> bool {
        (self.fault, self.code, &self.message, &self.hint)
            == (other.fault, other.code, &other.message, &other.hint)
    }
}

impl Eq for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    #[test]
    fn the_fault_forbids_what_the_code_would_allow() {
        let lost = |fault| Error::new(fault, ErrorCode::DataConnection, "no connection");
        assert_eq!(lost(Fault::Between).retry(), Retry::Now);
        assert_eq!(lost(Fault::You).retry(), Retry::Never);
        assert_eq!(lost(Fault::Bug).retry(), Retry::Never);
        let ssh = |fault| Error::new(fault, ErrorCode::SshFailed, "ssh failed");
        assert_eq!(ssh(Fault::Between).retry(), Retry::After);
        assert_eq!(ssh(Fault::Refused).retry(), Retry::Never);
    }

    #[test]
    fn no_words_of_an_error_steer_a_terminal() {
        let said = Error::new(Fault::There, ErrorCode::Io, "a\u{1b}[2J")
            .hint("b\u{9b}2J")
            .while_doing("c\u{7}\nd");
        assert_eq!(
            (&said.message[..], said.hint.as_deref()),
            ("c\\x07\nd: a\\x1b[2J", Some("b\\x9b2J"))
        );
    }

    #[test]
    fn the_error_beneath_is_kept_but_not_compared() {
        let bare = Error::new(Fault::Here, ErrorCode::Storage, "a: disk on fire");
        let caused = bare.clone().caused_by(std::fmt::Error);
        assert!(bare.source().is_none());
        assert!(caused.clone().hint("x").source().is_some_and(|source| source.is::<fmt::Error>()));
        assert_eq!(bare, caused);
        let json = serde_json::to_string(&caused).expect("an object");
        assert_eq!(json, r#"{"fault":"here","code":"storage","message":"a: disk on fire"}"#);
    }
}

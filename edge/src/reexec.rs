//! Starts this program again in a role of Farline's own: what crosses is a value, not a command
//! line.
//!
//! Some work needs a process of its own: an emulator that outlives its maker, an end of a
//! measurement in another network namespace. [`command`] starts the running program, or another
//! that embeds the library, with the role as JSON in [`VARIABLE`];
//! [`agent::run`](crate::agent::run) finds it there.

use farline_core::units::{Error, ErrorCode, Fault};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
#[cfg(any(feature = "line", feature = "profile"))]
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// The environment variable that holds the role. It is no place for secrets.
pub(crate) const VARIABLE: &str = "FARLINE_AGENT";

/// Whether this program asked at its start what it is to be.
static HAS_ASKED: AtomicBool = AtomicBool::new(false);

/// What a process is started for.
pub(crate) trait Role: Serialize + DeserializeOwned {
    /// The module whose role it is, as it crosses.
    const MODULE: &'static str;
}

/// Notes that this program will play the role that it is started with.
pub(crate) fn has_asked() {
    HAS_ASKED.store(true, Ordering::Relaxed);
}

/// A command that runs `program` in `role`: another program that embeds the library, or this one.
///
/// # Errors
/// When this program is not known, or would not play the role.
pub(crate) fn command<R: Role>(program: Option<&Path>, role: &R) -> Result<Command, Error> {
    let mut command = match program {
        Some(program) => Command::new(program),
        None if !HAS_ASKED.load(Ordering::Relaxed) => {
            let message = "this program embeds Farline and never called farline::agent::run()";
            return Err(Error::new(Fault::You, ErrorCode::AgentMissing, message).hint(
                "call it first thing in main: Farline starts the program again for its work",
            ));
        }
        None => Command::new(std::env::current_exe().map_err(|error| {
            Error::new(Fault::Here, ErrorCode::AgentStart, format!("finding this program: {error}"))
        })?),
    };
    command.env(VARIABLE, text(role)?);
    Ok(command)
}

/// The role as it stands in [`VARIABLE`].
pub(crate) fn text<R: Role>(role: &R) -> Result<String, Error> {
    serde_json::to_string(&serde_json::json!({ R::MODULE: role }))
        .map_err(|error| Error::new(Fault::Bug, ErrorCode::AgentStart, format!("a role: {error}")))
}

/// The role of `R`'s module in `text`, or nothing when it is another module's.
///
/// # Errors
/// When it is this module's and makes no sense: another version's, or not Farline's.
pub(crate) fn role_in<R: Role>(text: &OsStr) -> Result<Option<R>, Error> {
    let wrong = |why: String| {
        Error::new(
            Fault::You,
            ErrorCode::AgentRole,
            format!("{VARIABLE} holds no role of Farline: {why}"),
        )
        .hint(format!("programs set it for themselves: unset {VARIABLE}"))
    };
    let text = text.to_str().ok_or_else(|| wrong("it is not text".to_owned()))?;
    let mut value: serde_json::Value =
        serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    match value.get_mut(R::MODULE) {
        None => Ok(None),
        Some(role) => {
            serde_json::from_value(role.take()).map(Some).map_err(|error| wrong(error.to_string()))
        }
    }
}

/// Says on standard output, as one line of JSON, what came of a role: whoever started it reads
/// that.
///
/// # Errors
/// When nobody reads it any more.
#[cfg(any(feature = "line", feature = "profile"))]
pub(crate) fn say(what: &impl Serialize) -> Result<(), Error> {
    let failed = |error: io::Error| {
        Error::new(Fault::Here, ErrorCode::ProfileEnd, format!("telling what came of it: {error}"))
    };
    let line = serde_json::to_string(what).map_err(|error| failed(error.into()))?;
    writeln!(io::stdout(), "{line}").and_then(|()| io::stdout().flush()).map_err(failed)
}

/// What a process said in a role (`say`): its result, or its error as `--json` prints it, whose
/// code may be one of a later version.
///
/// # Errors
/// `silence` where it said neither: it ended.
pub(crate) fn reply<T: DeserializeOwned>(
    text: &str,
    silence: Error,
) -> Result<Result<T, Error>, Error> {
    #[derive(Deserialize)]
    struct Failed {
        error: Failure,
    }
    #[derive(Deserialize)]
    struct Failure {
        fault: Fault,
        code: String,
        message: String,
        hint: Option<String>,
    }
    if let Ok(result) = serde_json::from_str(text) {
        return Ok(Ok(result));
    }
    let Ok(Failed { error }) = serde_json::from_str(text) else { return Err(silence) };
    let code = ErrorCode::from_slug(&error.code).unwrap_or(silence.code);
    Ok(Err(Error { hint: error.hint, ..Error::new(error.fault, code, error.message) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Part {
        Wait,
        Count { to: u32 },
    }

    impl Role for Part {
        const MODULE: &'static str = "part";
    }

    #[test]
    fn a_role_crosses_as_it_is_and_is_one_modules_alone() {
        for role in [Part::Wait, Part::Count { to: 3 }] {
            let text = text(&role).expect("text");
            assert_eq!(role_in::<Part>(text.as_ref()), Ok(Some(role)), "{text}");
        }
        assert_eq!(role_in::<Part>(r#"{"other":{}}"#.as_ref()), Ok(None));
    }

    #[test]
    fn what_is_no_role_is_said_to_be_none() {
        for text in ["", "farline", "{", r#"{"part":"Fly"}"#, r#"{"part":{"Count":{}}}"#] {
            let error = role_in::<Part>(text.as_ref()).expect_err(text);
            assert_eq!((error.fault, error.code), (Fault::You, ErrorCode::AgentRole), "{text}");
            assert!(error.hint.is_some_and(|hint| hint.contains(VARIABLE)), "{text}");
        }
    }

    #[test]
    fn a_program_that_would_not_play_a_role_is_not_started() {
        // The test's own harness never asks.
        let error = command(None, &Part::Wait).expect_err("it would run the tests again");
        assert_eq!(error.code, ErrorCode::AgentMissing);
        let other = command(Some(Path::new("/bin/other")), &Part::Wait).expect("given");
        assert_eq!(other.get_program(), "/bin/other");
    }
}

//! An end of a measurement as a process of its own, and what it says.

use super::ProbeRequest;
use farline_core::units::{Error, ErrorCode, Fault};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

/// One end of a measurement, as a process in its side of the link.
pub(super) struct End {
    pub(super) child: Child,
    stdout: BufReader<ChildStdout>,
}

impl End {
    pub(super) fn start(command: &mut Command, request: &ProbeRequest) -> Result<End, Error> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed("an end", &error))?;
        if let (Some(mut stdin), Ok(text)) = (child.stdin.take(), serde_json::to_vec(request)) {
            // An end that stops early says why on its standard output.
            let _ = stdin.write_all(&text);
        }
        let stdout = child
            .stdout
            .take()
            .ok_or_else(|| Error::new(Fault::Bug, ErrorCode::ProfileEnd, "an end has no output"))?;
        Ok(End { child, stdout: BufReader::new(stdout) })
    }

    /// One line of its output.
    pub(super) fn answer<T: DeserializeOwned>(&mut self) -> Result<T, Error> {
        let mut line = String::new();
        self.stdout.read_line(&mut line).map_err(|error| failed("an end", &error))?;
        parse(&line)
    }

    /// The rest of it, when the end has ended.
    pub(super) fn result<T: DeserializeOwned>(mut self) -> Result<T, Error> {
        let mut text = String::new();
        self.stdout.read_to_string(&mut text).map_err(|error| failed("an end", &error))?;
        let _ = self.child.wait();
        parse(&text)
    }
}

pub(super) fn failed(what: &str, error: &io::Error) -> Error {
    Error::new(
        Fault::Here,
        ErrorCode::ProfileEnd,
        format!("running {what} of the measurement: {error}"),
    )
}

/// What an end said of what it was asked: its result, or its error as `--json` prints it.
///
/// # Errors
/// When it said neither: it ended.
pub(super) fn reply<T: DeserializeOwned>(text: &str) -> Result<Result<T, Error>, Error> {
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
    let Ok(Failed { error }) = serde_json::from_str(text) else {
        return Err(Error::new(
            Fault::Here,
            ErrorCode::ProfileEnd,
            "an end of the measurement ended without a word",
        ));
    };
    let code = ErrorCode::from_slug(&error.code).unwrap_or(ErrorCode::ProfileEnd);
    Ok(Err(Error { hint: error.hint, ..Error::new(error.fault, code, error.message) }))
}

/// The result of an end that ran for it alone.
pub(super) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    reply(text)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ends_error_is_its_own_and_silence_is_its_end() {
        let told = Error::new(Fault::Between, ErrorCode::ProfileSilent, "nobody").hint("ping");
        let line = serde_json::json!({ "error": told }).to_string();
        assert_eq!(reply::<u64>(&line), Ok(Err(told.clone())));
        assert_eq!(parse::<u64>(&line), Err(told));
        assert_eq!(reply::<u64>("7\n"), Ok(Ok(7)));
        let later = line.replace(ErrorCode::ProfileSilent.slug(), "of-a-later-version");
        let code = |reply: Result<Result<u64, Error>, Error>| match reply {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some((false, error.code)),
            Err(error) => Some((true, error.code)),
        };
        assert_eq!(code(reply(&later)), Some((false, ErrorCode::ProfileEnd)));
        assert_eq!(code(reply("")), Some((true, ErrorCode::ProfileEnd)));
    }
}

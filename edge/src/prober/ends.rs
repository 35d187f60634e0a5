//! An end of a measurement as a process of its own, what it is asked, and what it says.

use crate::reexec;
use farline_core::units::{Error, ErrorCode, Fault};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// One end of a measurement, as a process, which ends with this.
pub(super) struct End {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl End {
    /// The end that `command` runs.
    pub(super) fn start(command: &mut Command) -> Result<End, Error> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed("an end", &error))?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let stdout = stdout
            .ok_or_else(|| Error::new(Fault::Bug, ErrorCode::ProfileEnd, "an end has no output"))?;
        Ok(End { child, stdin, stdout: BufReader::new(stdout) })
    }

    /// The same, which is asked once and for all.
    pub(super) fn asked(command: &mut Command, request: &impl Serialize) -> Result<End, Error> {
        let mut end = End::start(command)?;
        // An end that stops early says why on its standard output.
        let _ = end.ask(request);
        end.stdin = None;
        Ok(end)
    }

    /// Asks it for something, in one line.
    pub(super) fn ask(&mut self, request: &impl Serialize) -> Result<(), Error> {
        let mut line = serde_json::to_vec(request)
            .map_err(|error| Error::new(Fault::Bug, ErrorCode::ProfileEnd, error.to_string()))?;
        line.push(b'\n');
        match &mut self.stdin {
            Some(stdin) => stdin.write_all(&line).map_err(|error| failed("an end", &error)),
            None => Err(Error::new(Fault::Bug, ErrorCode::ProfileEnd, "an end has no input")),
        }
    }

    /// What it says in its next line: of what it was asked, or that it failed; an error when it is
    /// gone.
    pub(super) fn answer<T: DeserializeOwned>(&mut self) -> Result<Result<T, Error>, Error> {
        let mut line = String::new();
        self.stdout.read_line(&mut line).map_err(|error| failed("an end", &error))?;
        reply(&line)
    }

    /// The rest of what it says, when it has ended.
    pub(super) fn result<T: DeserializeOwned>(mut self) -> Result<T, Error> {
        let mut text = String::new();
        self.stdout.read_to_string(&mut text).map_err(|error| failed("an end", &error))?;
        let _ = self.child.wait();
        parse(&text)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        // Its input ends, and so does it; one that hangs in a device is not waited for.
        self.stdin = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(super) fn failed(what: &str, error: &io::Error) -> Error {
    Error::new(
        Fault::Here,
        ErrorCode::ProfileEnd,
        format!("running {what} of the measurement: {error}"),
    )
}

/// What an end said of what it was asked: its result, or its error.
///
/// # Errors
/// When it said neither: it ended.
fn reply<T: DeserializeOwned>(text: &str) -> Result<Result<T, Error>, Error> {
    let silence = "an end of the measurement ended without a word";
    reexec::reply(text, Error::new(Fault::Here, ErrorCode::ProfileEnd, silence))
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

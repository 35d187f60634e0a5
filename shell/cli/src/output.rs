//! What a command prints: text for people or JSON for programs, and errors in either form.

use farline_core::units::Error;
use std::process::ExitCode;

/// How this run prints.
pub(crate) struct Output {
    json: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Output {
        Output { json }
    }

    /// Whether results are printed as JSON.
    pub(crate) fn json(&self) -> bool {
        self.json
    }

    /// Prints `error` and answers the exit code that goes with its fault.
    pub(crate) fn error(&self, error: &Error) -> ExitCode {
        if self.json {
            println!("{}", serde_json::json!({ "schema": "farline/error/1", "error": error }));
        } else {
            eprintln!("farline: {error}");
            if let Some(hint) = &error.hint {
                eprintln!("hint: {hint}");
            }
        }
        ExitCode::from(error.fault.exit_code())
    }
}

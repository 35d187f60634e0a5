//! The link's errors, and their way from the emulator's process to the one that started it.

use farline_core::units::{Error, Fault};
use serde::{Deserialize, Serialize};

/// Every code that an error of the link may have.
const CODES: [&str; 13] = [
    "link-device",
    "link-emulator",
    "link-folder",
    "link-forbidden",
    "link-gone",
    "link-ip",
    "link-lock",
    "link-memory",
    "link-name",
    "link-path",
    "link-setting",
    "link-state",
    "link-taken",
];

/// An error of this host.
pub(super) fn here(code: &'static str, message: impl Into<String>) -> Error {
    Error::new(Fault::Here, code, message)
}

/// An error of the request.
pub(super) fn you(code: &'static str, message: impl Into<String>) -> Error {
    Error::new(Fault::You, code, message)
}

/// What the emulator's process says when it is up, or cannot be.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    Ready,
    Failed { yours: bool, code: String, message: String, hint: Option<String> },
}

impl Report {
    pub(super) fn of(result: Result<(), &Error>) -> Report {
        match result {
            Ok(()) => Report::Ready,
            Err(error) => Report::Failed {
                yours: error.fault == Fault::You,
                code: error.code.to_owned(),
                message: error.message.clone(),
                hint: error.hint.clone(),
            },
        }
    }

    pub(super) fn into_result(self) -> Result<(), Error> {
        match self {
            Report::Ready => Ok(()),
            Report::Failed { yours, code, message, hint } => {
                let code =
                    CODES.into_iter().find(|&known| known == code).unwrap_or("link-emulator");
                Err(Error {
                    fault: if yours { Fault::You } else { Fault::Here },
                    code,
                    message,
                    hint,
                })
            }
        }
    }
}

//! The link's errors, and their way from the emulator's process to the one that started it.

use farline_core::units::{Error, ErrorCode, Fault};
use serde::{Deserialize, Serialize};

/// An error of this host.
pub(super) fn here(code: ErrorCode, message: impl Into<String>) -> Error {
    Error::new(Fault::Here, code, message)
}

/// An error of the request.
pub(super) fn you(code: ErrorCode, message: impl Into<String>) -> Error {
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
                code: error.code.to_string(),
                message: error.message.clone(),
                hint: error.hint.clone(),
            },
        }
    }

    pub(super) fn into_result(self) -> Result<(), Error> {
        match self {
            Report::Ready => Ok(()),
            Report::Failed { yours, code, message, hint } => {
                let fault = if yours { Fault::You } else { Fault::Here };
                let code = ErrorCode::from_slug(&code).unwrap_or(ErrorCode::LinkEmulator);
                Err(Error { hint, ..Error::new(fault, code, message) })
            }
        }
    }
}

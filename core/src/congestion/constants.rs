//! The two sets of constants of a control.

use crate::units::{Error, ErrorCode, Fault};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Which constants a control runs with.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Constants {
    /// Those of Linux's module of the same name.
    #[default]
    Linux,
    /// Those of the paper or RFC.
    Paper,
}

impl fmt::Display for Constants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Constants::Linux => "linux",
            Constants::Paper => "paper",
        })
    }
}

impl FromStr for Constants {
    type Err = Error;
    fn from_str(text: &str) -> Result<Constants, Error> {
        match text {
            "linux" => Ok(Constants::Linux),
            "paper" => Ok(Constants::Paper),
            _ => Err(Error::new(
                Fault::You,
                ErrorCode::CongestionSet,
                format!("`{text}` is not a set of constants"),
            )
            .hint("paper: as published; linux: as Linux's module of that name")),
        }
    }
}

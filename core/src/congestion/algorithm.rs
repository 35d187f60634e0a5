//! The controls by name.

use super::bbr::Bbr;
use super::bic::Bic;
use super::careful_resume::CarefulResume;
use super::constants::Constants;
use super::control::{Control, Start};
use super::cubic::Cubic;
use super::held::HeldControl;
use super::highspeed::HighSpeed;
use super::htcp::HTcp;
use super::loss_based::LossBased;
use super::reno::Reno;
use super::scalable::Scalable;
use super::vegas::Vegas;
use crate::units::{Error, ErrorCode, Fault, Rng};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A congestion control, named as Linux names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    /// BBR, version 1.
    Bbr,
    /// BIC.
    Bic,
    /// CUBIC.
    Cubic,
    /// HighSpeed TCP.
    HighSpeed,
    /// H-TCP.
    HTcp,
    /// NewReno.
    Reno,
    /// Scalable TCP.
    Scalable,
    /// Vegas.
    Vegas,
    /// A booked rate, whatever is lost: no control for a shared path, so not among
    /// [`Algorithm::ALL`] nor by its name where any control may be chosen.
    #[serde(skip)]
    Held,
}

impl Algorithm {
    /// All that share a path, in the order of their names.
    pub const ALL: [Algorithm; 8] = [
        Algorithm::Bbr,
        Algorithm::Bic,
        Algorithm::Cubic,
        Algorithm::HighSpeed,
        Algorithm::HTcp,
        Algorithm::Reno,
        Algorithm::Scalable,
        Algorithm::Vegas,
    ];

    /// Linux's name for it.
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::Bbr => "bbr",
            Algorithm::Bic => "bic",
            Algorithm::Cubic => "cubic",
            Algorithm::HighSpeed => "highspeed",
            Algorithm::HTcp => "htcp",
            Algorithm::Reno => "reno",
            Algorithm::Scalable => "scalable",
            Algorithm::Vegas => "vegas",
            Algorithm::Held => "held",
        }
    }

    /// Whether every kernel has it, so that Farline brings none: it always runs with Linux's
    /// constants.
    pub const fn is_native(self) -> bool {
        matches!(self, Algorithm::Bbr | Algorithm::Cubic | Algorithm::Reno)
    }

    /// A control for a flow that begins as `start` says, with care where it resumes (RFC 9959);
    /// `seed` serves those that draw lots (BBR's first phase).
    pub fn control(self, set: Constants, start: Start, seed: &Rng) -> Box<dyn Control> {
        if let Some(saved) = start.saved.filter(|_| self != Algorithm::Held) {
            let seed = seed.fork(9959);
            let make = move |start| self.control(set, start, &seed);
            return Box::new(CarefulResume::new(make, start, saved));
        }
        match self {
            Algorithm::Bbr => Box::new(Bbr::new(start, seed)),
            Algorithm::Bic => Box::new(LossBased::new(start, Bic::new(set))),
            Algorithm::Cubic => Box::new(LossBased::new(start, Cubic::new(set))),
            Algorithm::HighSpeed => Box::new(LossBased::new(start, HighSpeed::new(set))),
            Algorithm::HTcp => Box::new(LossBased::new(start, HTcp::new(set))),
            Algorithm::Reno => Box::new(LossBased::new(start, Reno)),
            Algorithm::Scalable => Box::new(LossBased::new(start, Scalable::new(set))),
            Algorithm::Vegas => Box::new(LossBased::new(start, Vegas::new(set))),
            Algorithm::Held => Box::new(HeldControl::new(start)),
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = Error;
    fn from_str(text: &str) -> Result<Algorithm, Error> {
        Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == text).ok_or_else(|| {
            let known: Vec<&str> =
                Algorithm::ALL.iter().map(|algorithm| algorithm.name()).collect();
            Error::new(
                Fault::You,
                ErrorCode::UnknownCongestion,
                format!("there is no congestion control called `{text}`"),
            )
            .hint(format!("known ones: {}", known.join(", ")))
        })
    }
}

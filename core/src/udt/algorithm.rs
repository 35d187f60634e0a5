//! The controls of a UDT flow by name.

use super::model_based::ModelBased;
use super::native::Native;
use super::rate::RateControl;
use crate::units::{Bytes, Rate, Rng};
use std::fmt;

/// Which control a flow has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RateAlgorithm {
    /// UDT's own.
    #[default]
    Native,
    /// A rate that was booked: bits on an Ethernet's wire per second.
    Held(Rate),
    /// BBR, as [`congestion`](crate::congestion) has it.
    Bbr,
}

impl RateAlgorithm {
    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            RateAlgorithm::Native => "udt",
            RateAlgorithm::Held(_) => "held",
            RateAlgorithm::Bbr => "bbr",
        }
    }

    /// The control of a new flow whose packets are of `packet` bytes, IP and UDP headers included.
    pub fn control(self, packet: Bytes, seed: &Rng) -> Box<dyn RateControl> {
        match self {
            RateAlgorithm::Native => Box::new(Native::new(seed)),
            RateAlgorithm::Held(rate) => Box::new(ModelBased::held(rate, packet, seed)),
            RateAlgorithm::Bbr => Box::new(ModelBased::bbr(packet, seed)),
        }
    }
}

impl fmt::Display for RateAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RateAlgorithm::Held(rate) => write!(f, "{}:{rate}", self.name()),
            _ => f.write_str(self.name()),
        }
    }
}

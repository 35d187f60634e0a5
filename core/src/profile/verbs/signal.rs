//! The generations of InfiniBand's 4x ports: what they signal, and what is left of it after the line code.

use crate::units::Rate;
use serde::{Deserialize, Serialize};

/// A 4x port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Signal {
    /// Four lanes of 2.5 Gbit/s, 8b/10b: what a Longbow XR carries.
    #[default]
    Sdr,
    /// Four of 5 Gbit/s, 8b/10b.
    Ddr,
    /// Four of 10 Gbit/s, 8b/10b.
    Qdr,
    /// Four of 25.78125 Gbit/s, 64b/66b.
    Edr,
    /// Four of 106.25 Gbit/s, 256b/257b within Reed-Solomon blocks of 544 symbols that carry 514.
    Ndr,
}

impl Signal {
    /// All of them, the slowest first.
    pub const ALL: [Signal; 5] = [Signal::Sdr, Signal::Ddr, Signal::Qdr, Signal::Edr, Signal::Ndr];

    /// Its name in small letters.
    pub fn name(self) -> &'static str {
        match self {
            Signal::Sdr => "sdr",
            Signal::Ddr => "ddr",
            Signal::Qdr => "qdr",
            Signal::Edr => "edr",
            Signal::Ndr => "ndr",
        }
    }

    /// Bits in a second that packets can have, all four lanes together (InfiniBand Architecture Specification, volume 2: release 1.2.1,
    /// chapter 5 for SDR to QDR; release 1.3 for EDR; 1.5 for NDR).
    pub fn data_rate(self) -> Rate {
        /// Lanes of a 4x port.
        const LANES: u64 = 4;
        let (lane, carried, of) = match self {
            Signal::Sdr => (2_500_000_000, 8, 10),
            Signal::Ddr => (5_000_000_000, 8, 10),
            Signal::Qdr => (10_000_000_000, 8, 10),
            Signal::Edr => (25_781_250_000, 64, 66),
            Signal::Ndr => (106_250_000_000, 514 * 256, 544 * 257),
        };
        Rate::from_bps(LANES * lane * carried / of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_after_the_line_code_is_what_the_generations_are_sold_as() {
        let gbit = Signal::ALL.map(|signal| signal.data_rate().as_bps() as f64 / 1e9);
        assert_eq!(gbit, [8.0, 16.0, 32.0, 100.0, 400.0]);
    }
}

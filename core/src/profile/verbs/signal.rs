//! The generations of InfiniBand's 4x ports: what they signal, what is left of it after the line
//! code, and how many messages an adapter of the time handles.

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

/// What is known of an adapter of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adapter {
    /// What it is called.
    pub name: &'static str,
    /// Messages that it handles in a second each way.
    pub messages_per_s: u64,
    /// Where that is published.
    pub source: &'static str,
}

/// The papers' hosts have it (ICPP08, section 2.1: "DDR memfree MT25208"). ConnectX raises small
/// messages' aggregate bandwidth by a factor of 10 over it, so it handles a tenth of ConnectX's
/// messages; no paper prints it.
const INFINIHOST: Adapter = Adapter {
    name: "InfiniHost III",
    messages_per_s: CONNECTX.messages_per_s / 10,
    source: "a tenth of ConnectX's: Sur and others, HOTI 2007",
};
/// 8 to 9 million messages of 1 to 8 bytes by one thread.
const CONNECTX: Adapter = Adapter {
    name: "ConnectX",
    messages_per_s: 8_500_000,
    source: "Mellanox's slides in insideHPC, Mellanox Message Rate Benchmark Data, June 2010",
};
/// A message in 5 ns, by the whole adapter.
const CONNECTX_5: Adapter = Adapter {
    name: "ConnectX-5",
    messages_per_s: 200_000_000,
    source: "Hoefler and others, sPIN, slides of June 2017: 1 message in 5 ns",
};

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

    /// What its bits are coded in.
    pub(super) fn line_code(self) -> &'static str {
        match self {
            Signal::Sdr | Signal::Ddr | Signal::Qdr => "8b/10b",
            Signal::Edr => "64b/66b",
            Signal::Ndr => "256b/257b and Reed-Solomon",
        }
    }

    /// An adapter with such a port whose rate of messages is published; `None` where none was
    /// found, so that the port alone is the limit.
    pub fn adapter(self) -> Option<Adapter> {
        match self {
            Signal::Sdr | Signal::Ddr => Some(INFINIHOST),
            Signal::Qdr => Some(CONNECTX),
            Signal::Edr => Some(CONNECTX_5),
            Signal::Ndr => None,
        }
    }

    /// Bits in a second that packets can have, all four lanes together (InfiniBand Architecture
    /// Specification, volume 2: release 1.2.1, chapter 5 for SDR to QDR; release 1.3 for EDR; 1.5
    /// for NDR).
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
    fn rates_after_line_code_are_those_the_ports_are_sold_as() {
        let gbit = Signal::ALL.map(|signal| signal.data_rate().as_gbps());
        assert_eq!(gbit, [8.0, 16.0, 32.0, 100.0, 400.0]);
    }

    #[test]
    fn no_generation_handles_fewer_messages_than_the_one_before() {
        let rates = Signal::ALL
            .map(|signal| signal.adapter().map_or(u64::MAX, |adapter| adapter.messages_per_s));
        assert_eq!(rates[0], 850_000, "that of the papers' own adapters");
        assert!(rates.is_sorted() && rates[2] >= 10 * rates[1], "{rates:?}");
    }
}

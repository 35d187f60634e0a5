//! What is simulated: a path, what happens to it, and the flows.

use super::super::algorithm::RateAlgorithm;
use super::super::sequence::SequenceNumber;
use crate::congestion::SavedPath;
use crate::units::{Bytes, Rate, Span};
use crate::wan::{Change, Direction, EventSide};

/// One flow between the two sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UdtFlow {
    /// How both ends send.
    pub rate: RateAlgorithm,
    /// Bytes that side a sends to side b, and b to a.
    pub bytes: (Bytes, Bytes),
    /// What an earlier flow saw of the path, where it is to begin from that.
    pub saved: Option<SavedPath>,
    /// How long after the run's beginning it begins.
    pub after: Span,
    /// The number of its first packets.
    pub first: SequenceNumber,
    /// Packets that each receiver has room for.
    pub room: u32,
    /// How fast receivers read; at once when absent.
    pub reads: Option<Rate>,
    /// How long after the flow's beginning they begin to.
    pub reads_after: Span,
    /// How fast the program at either end writes; at once when absent.
    pub writes: Option<Rate>,
}

impl UdtFlow {
    /// One that sends `bytes` from a to b.
    pub const fn of(rate: RateAlgorithm, bytes: Bytes) -> UdtFlow {
        UdtFlow {
            rate,
            bytes: (bytes, Bytes(0)),
            saved: None,
            after: Span::ZERO,
            first: SequenceNumber::new(0),
            room: 25_600,
            reads: None,
            reads_after: Span::ZERO,
            writes: None,
        }
    }
}

/// Flows over a link.
#[derive(Clone, Debug)]
pub struct UdtScenario {
    /// From a to b, and back.
    pub directions: (Direction, Direction),
    /// What happens to the link, at spans from the beginning.
    pub changes: Vec<(Span, EventSide, Change)>,
    /// Probability that a packet arrives twice.
    pub duplicates: f64,
    /// The path's MTU from spans on, and whether a sender is told.
    pub mtu: Vec<(Span, u32, bool)>,
    /// The flows.
    pub flows: Vec<UdtFlow>,
    /// The longest packet, IP header included.
    pub packet_len: u32,
    /// A host that has slept wakes at multiples of this.
    pub wakes_every: Span,
    /// Of all random choices.
    pub seed: u64,
}

impl UdtScenario {
    /// A clean path of `rate` and `rtt` whose queue holds a bandwidth-delay product, or 4 MiB.
    pub fn new(rate: Rate, rtt: Span, flows: Vec<UdtFlow>) -> UdtScenario {
        let there = Span::from_nanos(rtt.as_nanos() / 2);
        let back = rtt.saturating_sub(there);
        UdtScenario {
            directions: (Direction::new(rate, there, rtt), Direction::new(rate, back, rtt)),
            changes: Vec::new(),
            duplicates: 0.0,
            mtu: Vec::new(),
            flows,
            packet_len: 1500,
            wakes_every: Span::ZERO,
            seed: 1,
        }
    }
}

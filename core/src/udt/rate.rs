//! What decides how fast a sender is: a control that is told what happened, as UDT's CCC was.

use crate::congestion::{Acked, SavedPath, Yielded};
use crate::units::{Bytes, Span, Time};
use std::fmt;

/// The interval in which a sender looks at its rate and a receiver acknowledges: SYN
/// (draft-gg-udt-03, section 3.2).
pub const SYN: Span = Span::from_millis(10);

/// What a sender knows of its path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathState {
    /// The round-trip time, smoothed.
    pub rtt: Span,
    /// The newest measured by itself, of a packet that was sent once.
    pub last_rtt: Option<Span>,
    /// Packets per second that arrive; 0 while it is not known.
    pub arriving: f64,
    /// Packets per second that the path could bring; 0 while it is not known.
    pub capacity: f64,
    /// Packets sent so far, each counted once.
    pub sent: u64,
    /// Those of which nothing is left to be known: all before a first one.
    pub acknowledged: u64,
    /// Those that have arrived or are known to be missing: all before a first one.
    pub heard_of: u64,
    /// Those beyond that have arrived all the same, or will be sent again.
    pub beyond: u64,
    /// Bytes of a full packet, IP and UDP headers included.
    pub packet: Bytes,
    /// Packets that the receiver takes at most.
    pub most: u64,
}

/// What happened to a flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RateEvent {
    /// Packets arrived.
    Acked(Acked),
    /// Packets did not.
    Lost {
        /// The first of them.
        first: u64,
        /// How many.
        packets: u64,
    },
    /// Nothing was heard for so long that all on their way are sent again.
    Timeout,
}

/// What a flow may do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Seconds between the beginnings of two packets; 0 is without limit.
    pub interval: f64,
    /// Packets that may be on their way and unacknowledged.
    pub window: f64,
}

/// A congestion control of one UDT flow. Times must not run backwards.
pub trait RateControl: fmt::Debug + Send {
    /// Takes in what happened at `now`.
    fn handle(&mut self, now: Time, path: &PathState, event: RateEvent);

    /// What the flow may do until the next `handle`.
    fn poll(&self) -> Pace;

    /// Begins from what an earlier flow saw of the path, with care (RFC 9959). A held rate needs no
    /// slow start, and BBR does not give way to losses soon enough where a path became slower.
    fn resume(&mut self, _path: &PathState, _saved: SavedPath) {}

    /// Whether it gave a part of its rate up for good, and why.
    fn yielded(&self) -> Option<Yielded> {
        None
    }
}

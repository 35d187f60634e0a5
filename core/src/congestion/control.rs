//! What a congestion control is told and what it returns.

use crate::units::{Bytes, Rate, Span, Time};
use std::fmt;

/// Packets acknowledged, cumulatively or selectively, and what is known of the flow at that moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Acked {
    /// How many, for the first time.
    pub packets: u32,
    /// How many over the flow's life, these included.
    pub delivered: u64,
    /// What `delivered` was when the newest of these was sent: at or above the last round's
    /// `delivered`, a round has passed.
    pub delivered_at_send: u64,
    /// How many were found lost over the flow's life.
    pub lost: u64,
    /// The longer of the spans in which the packets between those two counts were sent and were
    /// acknowledged.
    pub interval: Span,
    /// Packets on their way, before this acknowledgement.
    pub in_flight: u32,
    /// Whether the window is what held the sender back. A window that is not used up does not grow
    /// (RFC 9438, 5.8).
    pub window_limited: bool,
}

/// Something that happened to a flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// Packets were acknowledged.
    Acked(Acked),
    /// An acknowledgement carried a congestion mark. Told once for each round (RFC 3168, 6.1.2).
    Ecn,
    /// Packets were found lost and the sender enters recovery. Told once for each window of data
    /// (RFC 6582, 3.2).
    Loss,
    /// All that was on its way when recovery began is accounted for.
    Recovered,
    /// A round-trip time was measured. Told before the `Acked` that it came with.
    Rtt(Span),
    /// The retransmission timer ran out.
    Timeout,
}

/// What a flow may do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allowed {
    /// Packets on their way at once.
    pub window: f64,
    /// Below this window the flow is in slow start; infinite before the first loss.
    pub threshold: f64,
    /// No faster than this, bytes on the wire counted; without one the window alone decides.
    pub pacing: Option<Rate>,
}

/// A congestion control of one flow. Times must not run backwards.
pub trait Control: fmt::Debug + Send {
    /// Takes in what happened at `now`.
    fn handle(&mut self, now: Time, event: Event);

    /// What the flow may do until the next `handle`.
    fn poll(&self) -> Allowed;

    /// Whether it gave up a part of a rate that it was to hold.
    fn yielded(&self) -> Option<Yielded> {
        None
    }
}

/// A held rate of which a part was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Yielded {
    /// What is left: bits on an Ethernet's wire.
    pub rate: Rate,
    /// What was booked.
    pub booked: Rate,
    /// Why the last step was made.
    pub why: YieldReason,
}

/// What shows that a path is not reserved for a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum YieldReason {
    /// It loses packets, round after round.
    Loss,
    /// A queue stands on it, round after round.
    Queue,
}

impl fmt::Display for YieldReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            YieldReason::Loss => "the path loses packets round after round",
            YieldReason::Queue => "a queue stands on the path",
        })
    }
}

/// What an earlier flow saw of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedPath {
    /// Bytes on their way that arrived, at most.
    pub in_flight: Bytes,
    /// The least round trip.
    pub rtt: Span,
    /// Whether that was all that the path had: a flow that ended while it grew says nothing of what
    /// is beyond.
    pub fills: bool,
}

/// How a flow begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Start {
    /// The first window, in packets.
    pub window: f64,
    /// The first slow-start threshold, in packets: infinite where nothing is known of the path.
    pub threshold: f64,
    /// The window never grows beyond this, in packets.
    pub clamp: f64,
    /// Bytes on the wire of a packet that carries a full segment; turns packets into a pacing rate.
    pub packet: Bytes,
    /// How long after the run's beginning.
    pub after: Span,
    /// What an earlier flow saw of the path, for a flow that resumes with care.
    pub saved: Option<SavedPath>,
    /// The rate that [`Algorithm::Held`](super::Algorithm::Held) holds: bits on an Ethernet's wire.
    pub held: Option<Rate>,
}

impl Default for Start {
    /// Ten packets of 1500 bytes (RFC 6928), no threshold, no clamp, at once, over a path of which
    /// nothing is known.
    fn default() -> Start {
        Start {
            window: 10.0,
            threshold: f64::INFINITY,
            clamp: f64::INFINITY,
            packet: Bytes(1500),
            after: Span::ZERO,
            saved: None,
            held: None,
        }
    }
}

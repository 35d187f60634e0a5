//! What a sender sees of its channels at a moment.

use crate::units::{Bytes, Span, Time};

/// Totals of a transfer's channels at a moment.
#[derive(Clone, Copy, Debug)]
pub struct PathSample {
    /// When.
    pub at: Time,
    /// Channels that are open.
    pub channels: usize,
    /// Bytes that have reached the receiver since the start, by its acknowledgements, in order or
    /// not: those in order alone come in leaps when a gap is filled.
    pub delivered: Bytes,
    /// Segments sent again since the start.
    pub retransmits: u64,
    /// Smoothed round-trip time of the channel where it is least: a queue on the path delays all of
    /// them, a receiver that delays its acknowledgements some.
    pub rtt: Span,
    /// The least round-trip time of any channel.
    pub min_rtt: Span,
    /// Time in which the receiver's window held a channel back, summed over channels, since the
    /// start.
    pub rwnd_limited: Span,
    /// Channels that have on their way what the receiver has room for, but for a part: a control
    /// that goes by a model of the path settles just below, where the kernel counts no waiting.
    pub filled: usize,
    /// Channels whose socket buffer holds nothing that is not on its way.
    pub starved: usize,
    /// Time in which a channel's socket buffer was full and all of it on its way, as the kernel
    /// counts it, summed over channels, since the start.
    pub sndbuf_limited: Span,
    /// How long no channel that has something on its way has heard of it.
    pub silence: Span,
    /// Whether the network held the channels back since the last sample, rather than a store, the
    /// processor or the receiver.
    pub network_bound: bool,
    /// Whether the congestion control goes by a model of the path (BBR) and not by losses alone.
    pub is_model_based: bool,
}

/// A queue is a part of the round trip, where that is long.
const QUEUE_PART: f64 = 0.05;
/// What hosts are late by: segments that leave and come in bursts, a processor that others use.
const NOISE: Span = Span::from_millis(1);
const NOISE_SHORT: Span = Span::from_micros(100);
const NOISE_PART: f64 = 0.5;

/// A queue for certain, whatever acknowledgements were late by.
const LONG_PART: f64 = 0.4;
const LONG: Span = Span::from_millis(5);

/// From here on silence is an outage: a lost packet's timer runs out earlier (RFC 6298 has it at a
/// second), and so does the second one of a short path.
const OUTAGE: Span = Span::from_secs(2);
const OUTAGE_TRIPS: f64 = 8.0;

impl PathSample {
    /// Whether nothing gets through.
    pub(super) fn is_outage(&self) -> bool {
        self.silence > OUTAGE.max(self.min_rtt.mul_f64(OUTAGE_TRIPS))
    }

    /// Whether the round trip is longer than the path's least by what nothing but a queue explains.
    pub(super) fn has_long_queue(&self) -> bool {
        self.rtt > self.min_rtt + self.min_rtt.mul_f64(LONG_PART).max(LONG)
    }

    /// Whether the round trip is longer than the path's least by more than hosts are late by.
    pub fn has_queue(&self) -> bool {
        let noise = NOISE.min(self.min_rtt.mul_f64(NOISE_PART) + NOISE_SHORT);
        self.rtt > self.min_rtt + self.min_rtt.mul_f64(QUEUE_PART).max(noise)
    }
}

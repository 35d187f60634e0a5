//! What a sender sees of its channels at a moment.

use crate::units::{Bytes, Span, Time};

/// Totals of a transfer's channels at a moment.
#[derive(Clone, Copy, Debug)]
pub struct PathSample {
    /// When.
    pub at: Time,
    /// Channels that are open.
    pub channels: usize,
    /// Bytes that the receiver has acknowledged since the start.
    pub acknowledged: Bytes,
    /// Segments sent again since the start.
    pub retransmits: u64,
    /// Smoothed round-trip time, averaged over channels.
    pub rtt: Span,
    /// The least round-trip time of any channel.
    pub min_rtt: Span,
    /// Whether the network held the channels back since the last sample, rather than a store, the
    /// processor or the receiver.
    pub network_bound: bool,
}

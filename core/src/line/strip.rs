//! The strip of time: parts of a test, which get coarser as it gets longer.

use serde::{Deserialize, Serialize};

/// A part of the strip of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StripPart {
    /// Frames sent in seconds that count.
    pub sent: u64,
    /// Those that did not come.
    pub lost: u64,
    /// Those that came with a wrong bit.
    pub wrong_frames: u64,
    /// Seconds that do not count.
    pub untested: u64,
    /// The mean round trip, in nanoseconds, of `rtts` packets.
    pub rtt_ns: f64,
    /// How many packets.
    pub rtts: u64,
}

impl StripPart {
    /// Parts that follow each other, as one.
    pub(super) fn joined(parts: &[StripPart]) -> StripPart {
        let sum = |of: fn(&StripPart) -> u64| parts.iter().map(of).sum::<u64>();
        let rtts = sum(|part| part.rtts);
        let rtt_ns = parts.iter().map(|part| part.rtt_ns * part.rtts as f64).sum::<f64>();
        StripPart {
            sent: sum(|part| part.sent),
            lost: sum(|part| part.lost),
            wrong_frames: sum(|part| part.wrong_frames),
            untested: sum(|part| part.untested),
            rtt_ns: if rtts == 0 { 0.0 } else { rtt_ns / rtts as f64 },
            rtts,
        }
    }
}

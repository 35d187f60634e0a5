//! What became of the frames: offered, delivered, and dropped by cause.

use serde::{Deserialize, Serialize};
use std::ops::Add;

/// Why the model dropped a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A bit error made the frame check sequence wrong.
    BitError,
    /// Random loss.
    Loss,
    /// A scripted outage, or a scripted loss of the next frames.
    Outage,
    /// The queue was full.
    Queue,
}

/// Frames and bytes of IP counted by one [`OneWayLink`](super::OneWayLink) since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Packets offered; a super-packet is one.
    pub packets: u64,
    /// Frames offered.
    pub frames: u64,
    /// Bytes of IP offered.
    pub bytes: u64,
    /// Frames delivered.
    pub delivered_frames: u64,
    /// Bytes of IP delivered.
    pub delivered_bytes: u64,
    /// Frames delivered with a bit of their payload flipped under a valid checksum, as asked.
    pub flipped_frames: u64,
    /// Frames dropped because the queue was full.
    pub dropped_queue: u64,
    /// Frames dropped by random loss.
    pub dropped_loss: u64,
    /// Frames dropped by bit errors.
    pub dropped_bit_error: u64,
    /// Frames dropped by a scripted outage or loss.
    pub dropped_outage: u64,
}

impl Add for Counters {
    type Output = Counters;
    fn add(self, other: Counters) -> Counters {
        Counters {
            packets: self.packets + other.packets,
            frames: self.frames + other.frames,
            bytes: self.bytes + other.bytes,
            delivered_frames: self.delivered_frames + other.delivered_frames,
            delivered_bytes: self.delivered_bytes + other.delivered_bytes,
            flipped_frames: self.flipped_frames + other.flipped_frames,
            dropped_queue: self.dropped_queue + other.dropped_queue,
            dropped_loss: self.dropped_loss + other.dropped_loss,
            dropped_bit_error: self.dropped_bit_error + other.dropped_bit_error,
            dropped_outage: self.dropped_outage + other.dropped_outage,
        }
    }
}

impl Counters {
    /// Frames dropped, all causes.
    pub const fn dropped(&self) -> u64 {
        self.dropped_queue + self.dropped_loss + self.dropped_bit_error + self.dropped_outage
    }

    /// Frames on the wire or in the queue: neither delivered nor dropped yet.
    pub const fn in_flight(&self) -> u64 {
        self.frames - self.delivered_frames - self.dropped()
    }

    pub(super) fn drop_frames(&mut self, cause: Cause, frames: u32) {
        let counter = match cause {
            Cause::BitError => &mut self.dropped_bit_error,
            Cause::Loss => &mut self.dropped_loss,
            Cause::Outage => &mut self.dropped_outage,
            Cause::Queue => &mut self.dropped_queue,
        };
        *counter += u64::from(frames);
    }
}

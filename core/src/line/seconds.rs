//! Seconds of a test: what was sent in each, what is said of it, and their sums.

use super::receive_drops::ReceiveDrops;
use super::tally::SecondRow;
use super::way::FrameWay;
use serde::{Deserialize, Serialize};

/// What was sent in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentSecond {
    /// Which, from 0 on.
    pub second: u64,
    /// Frames.
    pub frames: u64,
    /// Their bits from header to FCS.
    pub framed_bits: u64,
    /// Packets that this host dropped on their way out.
    pub own_drops: u64,
    /// Whether less was sent than was to be.
    pub is_short: bool,
    /// One above the number of the last of them; 0 where that is not known.
    #[serde(default)]
    pub next: u64,
}

/// Why a second does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Untested {
    /// The sender did not send as much as it was to.
    SenderLate,
    /// The sender dropped packets on their way out.
    SenderDrops,
    /// The receiver dropped packets that had come.
    ReceiverDrops,
    /// An end was not there.
    Away,
    /// The receiver says that more came, or was compared, than was sent.
    ImpossibleCounts,
}

/// Everything that was sent, and what it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SenderTotals {
    /// Frames.
    pub frames: u64,
    /// Packets that this host dropped on their way out.
    pub own_drops: u64,
    /// Packets that came to its device, of answers and of whatever else, and not to a socket, since
    /// the test began; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_drops: Option<ReceiveDrops>,
    /// Processor time of the thread that sends, in nanoseconds.
    pub cpu_ns: u64,
    /// How long it sent, in nanoseconds.
    pub took_ns: u64,
    /// By which way frames without a pace left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way: Option<FrameWay>,
}

/// A second, and what can be said of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestedSecond {
    /// Which.
    pub second: u64,
    /// Frames sent.
    pub sent: u64,
    /// Those that did not come.
    pub lost: u64,
    /// Those that came with a wrong bit.
    pub wrong_frames: u64,
    /// Their wrong bits.
    pub wrong_bits: u64,
    /// Why it does not count, where it does not.
    pub untested: Option<Untested>,
}

/// Sums over the seconds that count, and how many do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineSums {
    /// Seconds that count.
    pub tested: u64,
    /// Those in which the sender was late.
    pub sender_late: u64,
    /// Those in which it dropped packets.
    pub sender_drops: u64,
    /// Those in which the receiver did.
    pub receiver_drops: u64,
    /// Those in which an end was not there.
    pub away: u64,
    /// Those of which the receiver counts more than was sent.
    #[serde(default)]
    pub impossible_counts: u64,
    /// Frames sent.
    pub sent: u64,
    /// Their bits from header to FCS.
    pub framed_bits: u64,
    /// Frames that did not come.
    pub lost: u64,
    /// Frames with a wrong bit.
    pub wrong_frames: u64,
    /// Wrong bits.
    pub wrong_bits: u64,
    /// Bits that were compared.
    pub compared_bits: u64,
    /// Seconds in which none of the frames came.
    pub dark: u64,
    /// Seconds in which a frame did not come or had a wrong bit; 0 in documents of versions before.
    #[serde(default)]
    pub errored: u64,
    /// Frames that came again.
    pub duplicates: u64,
    /// Frames out of order.
    pub reordered: u64,
}

impl LineSums {
    /// Seconds that do not count.
    pub fn untested(&self) -> u64 {
        self.sender_late
            + self.sender_drops
            + self.receiver_drops
            + self.away
            + self.impossible_counts
    }
}

impl SecondRow {
    /// Whether so much can have come of what was sent.
    pub(super) fn can_be_of(&self, sent: &SentSecond) -> bool {
        self.received <= sent.frames
            && self.wrong_frames <= self.received
            && self.compared_bits <= sent.framed_bits
            && self.wrong_bits <= self.compared_bits
    }
}

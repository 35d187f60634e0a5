//! What goes into one end of an RDMA channel, and what comes out of it.

use super::QueuePair;
use super::record::{BlockSource, Credit, Record, RecordHeader};
use crate::transfer::SlotId;
use std::fmt;

/// A work request of this end, once it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkRequest {
    /// A record was sent.
    Record,
    /// A block was written; the device needs its slot no more.
    Write(SlotId),
    /// A block was read into its slot.
    Read(SlotId),
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The caller has an empty slot to receive into.
    Offer {
        /// The slot.
        slot: SlotId,
        /// Where it lies, and the key by which the peer may write there: neither is told where
        /// blocks are read.
        address: u64,
        /// The key.
        key: u32,
        /// Its length in bytes.
        len: u32,
    },
    /// The caller has a full slot to send.
    Send {
        /// The slot.
        slot: SlotId,
        /// Where it lies, and the key by which the peer may read there: both are told where blocks
        /// are read, and nowhere else.
        source: BlockSource,
        /// How many bytes of it, from its start.
        len: u32,
        /// The header to go with them.
        header: RecordHeader,
    },
    /// The caller's transfer is over.
    Mark(RecordHeader),
    /// A message came, and its receive was posted again.
    Received {
        /// On which queue pair.
        on: QueuePair,
        /// What it says.
        record: Record,
    },
    /// The device says that a block was written with an immediate, whose receive was posted again.
    Written {
        /// On which queue pair.
        on: QueuePair,
        /// The immediate.
        credit: u32,
        /// How many bytes.
        len: u32,
    },
    /// A work request of this end is done.
    Completed {
        /// On which queue pair.
        on: QueuePair,
        /// Which.
        work: WorkRequest,
    },
}

/// What to do, or what is so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send a record.
    Post {
        /// On which queue pair.
        on: QueuePair,
        /// The record.
        record: Record,
    },
    /// Write a block.
    Write {
        /// On which queue pair.
        on: QueuePair,
        /// The slot that holds it.
        slot: SlotId,
        /// Its length in bytes.
        len: u32,
        /// Where to.
        to: Credit,
        /// Whether the credit's number goes with it as the immediate.
        immediate: bool,
    },
    /// Read a block of the peer's.
    Read {
        /// On which queue pair.
        on: QueuePair,
        /// The offered slot to read into.
        slot: SlotId,
        /// Its length in bytes.
        len: u32,
        /// Where from.
        from: BlockSource,
    },
    /// The channel needs this sent slot no more.
    Sent(SlotId),
    /// The peer has read all blocks of a transfer of this end's that is over: what it was told may
    /// become void.
    Taken,
    /// A block lies in an offered slot, which is the caller's again.
    Arrived {
        /// The slot.
        slot: SlotId,
        /// How many bytes, from its start.
        len: u32,
        /// The header that came with them.
        header: RecordHeader,
    },
    /// The peer's transfer is over.
    Ended {
        /// An offered slot, which comes back unused.
        slot: SlotId,
        /// The mark's header.
        header: RecordHeader,
    },
    /// An offered slot comes back unused.
    Returned(SlotId),
    /// The peer broke the protocol: the channel is of no more use, and
    /// [`Endpoint::withdraw`](super::Endpoint::withdraw) gives its slots back.
    Broken(Violation),
}

/// How a peer broke the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A message that is no record.
    NoRecord,
    /// A credit that was not given, or was used already.
    UnknownCredit,
    /// Another number of bytes than announced, or more than the slot holds.
    WrongLength,
    /// A write that was not announced on its queue pair, or that nobody may make since blocks are
    /// read.
    NotAnnounced,
    /// More credits than agreed, or of a transfer that has not begun.
    WrongCredits,
    /// An end-of-data mark that does not fit what came before it.
    WrongMark,
    /// A slot that is too short for the blocks that were agreed on.
    ShortSlot,
    /// A block that it says it has read, and that it was not offered.
    NotExposed,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Violation::NoRecord => "the peer sent a message that means nothing",
            Violation::UnknownCredit => "the peer used a slot that it was not given",
            Violation::WrongLength => "the peer wrote another number of bytes than it announced",
            Violation::NotAnnounced => "the peer wrote a block that it had not announced",
            Violation::WrongCredits => "the peer gave more slots than agreed",
            Violation::WrongMark => "the peer's end-of-data mark does not fit what it sent",
            Violation::ShortSlot => "the peer offers slots that are too short for a block",
            Violation::NotExposed => {
                "the peer says that it has read a block that it was not told of"
            }
        })
    }
}

impl std::error::Error for Violation {}

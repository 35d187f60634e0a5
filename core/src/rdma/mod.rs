//! An RDMA channel's protocol: who may write which block into which advertised slot, and what each
//! completion means.
//!
//! A channel is one or more reliable connections (*queue pairs*) between the same two ends. The
//! receiver advertises empty slots, each a *credit*; the sender announces a block in a record,
//! writes it into a credited slot with an RDMA WRITE, and has nothing to do with the slot from then
//! on; or it says where the block lies, and the receiver fetches it with an RDMA READ and says that
//! it has. [`Endpoint`] decides all of it and touches no memory. The wire is in `docs/protocol.md`,
//! clauses V-1 to V-11.
//!
//! Not here: how a queue pair is connected, how memory is registered, what waits for a completion.

pub mod completion_poller;
mod endpoint;
mod events;
mod exchange;
mod failure;
mod greeting;
mod limits;
mod locked;
mod port;
mod record;
mod refusal;
#[cfg(test)]
mod simulation;
mod timing;

pub use endpoint::{Endpoint, EndpointSettings};
pub use events::{Input, Output, Violation, WorkRequest};
pub use exchange::{Acceptance, Numbered, QpAddress, RdmaOffer};
pub use failure::RdmaFailure;
pub use greeting::{ANSWER_LEN, GREETING_LEN, GreetingError, GreetingReply, RdmaGreeting, VERSION};
pub use limits::DeviceLimits;
pub use locked::Lockable;
pub use port::{Gid, LinkLayer, Port, why_none};
pub use record::{Announcement, BlockSource, Credit, HEADER_LEN_MOST, Record, RecordHeader};
pub use refusal::{REFUSAL_LEN, Refusal};
pub use timing::{ack_timeout_exponent, credits_for, queue_pairs_for};

/// One of the reliable connections of a channel, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueuePair(pub u8);

/// How a block comes to where it belongs, and how its receiver learns that it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The announcing record goes first, and the RDMA WRITE carries the credit's number as its
    /// immediate: InfiniBand and RoCE. The device itself then says how many bytes were written.
    Immediate,
    /// The record goes behind a plain RDMA WRITE: iWARP, which has no immediate (RFC 5040, section
    /// 4).
    Behind,
    /// The record says where the block lies, and the receiver reads it from there with an RDMA
    /// READ: the memory of a receiver is open to nobody, at the price of a second round trip.
    Read,
}

/// The most queue pairs of one channel.
pub const MOST_QUEUE_PAIRS: u8 = 16;
/// The most slots that one channel has advertised at once.
pub const MOST_CREDITS: u16 = 256;

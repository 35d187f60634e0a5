//! A transfer: what is sent (layout, manifest), in which order and through which buffers (sender,
//! receiver, staging), and whether it arrived (digests), and what of it survives a crash
//! (durability, journal).
//!
//! A transfer moves one *space* of bytes from a sender to a receiver over any number of channels.
//! For a plain `STOR` or `RETR` the space is the file. For a tree it is a [`Layout`]: every file of
//! the tree at an offset of its own, small files packed into common blocks, so that ten thousand
//! small files travel as a few large blocks and one round trip.
//!
//! [`Sender`] and [`Receiver`] are machines of two verbs: `handle(input)`, then `poll()` until
//! [`None`]. They need no clock and move no payload: a [`Block`] names bytes of the space, a
//! [`SlotId`] names the buffer that holds them.
//!
//! Not here: how a channel moves bytes, how a file is opened, what a thread does.

mod attributes;
mod buffer_autotuner;
mod channel_autotuner;
mod completion_stats;
mod digest;
mod durable;
mod durable_window;
#[cfg(test)]
mod files;
pub mod journal;
mod layout;
mod limit;
mod losses;
mod manifest;
mod manifest_index;
mod pacer;
mod params;
mod path_record;
mod path_sample;
mod probe;
mod receiver;
mod rounds;
#[cfg(test)]
mod scenario;
mod sender;
#[cfg(test)]
mod simulation;
mod slow_start;
mod staging;
#[cfg(test)]
mod tests;
mod window;

pub use attributes::{Account, AttributeSet, Attributes};
pub use buffer_autotuner::{BufferAutotuner, PoolSample, Resize};
pub use channel_autotuner::{Advice, ChannelAutotuner, TuningLimits};
pub use completion_stats::CompletionStats;
pub use digest::{
    BlockDigest, Digest, DigestAlgorithm, DigestVerdict, Digests, PieceDigest, VerdictList,
    crc64_with, crc64_with_zeros,
};
pub use durable::{Batch, Durability};
pub use durable_window::DurableWindow;
pub use layout::{Block, Entry, EntryKind, LONGEST_BLOCK, Layout, Piece, SHORTEST_BLOCK};
pub use limit::{
    Diagnosis, Limit, Party, PathMonitor, PathTimes, RecentWaits, StageTime, StageTimes,
    StoreMedium, Waits,
};
pub use losses::{JudgedSample, LossJudge};
pub use manifest::{ManifestError, ManifestParser, manifest_lines, parse_manifest};
pub use manifest_index::ManifestIndex;
pub use pacer::Pacer;
pub use params::{PathContext, PriorMeasurement, TransferParams, UserOverrides};
pub use path_record::PathRecord;
pub use path_sample::PathSample;
pub use receiver::{Receiver, ReceiverInput, ReceiverOutput};
pub use sender::{Sender, SenderInput, SenderOutput};
pub use slow_start::{SlowStartPace, SlowStartPacer, SlowStartSample};
pub use staging::{Staging, Watermarks};

/// A buffer of the staging pool, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotId(pub usize);

/// A data channel of a transfer, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelId(pub usize);

//! The data path that node and client share: threads, slots and channels around the machines of
//! `core::transfer`.
//!
//! Sending: reader threads fill slots from a [`Source`](crate::stores::Source), one thread a
//! channel empties them. Receiving: one thread a channel fills slots, writer threads empty them
//! into a [`Sink`](crate::stores::Sink). In between, a machine behind a mutex decides; its answers
//! go to the threads' queues. A block is a mebibyte, so a 10 Gbit/s transfer takes the mutex some
//! thousand times a second. What a stock client stores of a few kilobytes is received by the thread
//! that asks ([`receive_inline`]).

mod acceptor;
mod audit;
mod block_check;
mod broken;
mod in_order;
mod inline;
mod journal;
mod lists;
mod local;
mod pace;
mod path_start;
mod receive;
mod secured_port;
mod send;
mod shared;
mod stream;
mod tally;
mod tune;
mod unsent;

pub(crate) use acceptor::{Acceptor, DataPeers, Incoming};
pub(crate) use audit::Audit;
pub(crate) use broken::reset;
pub(crate) use farline_core::copy::{Integrity, TREE_MODULE};
pub(crate) use in_order::{receive_in_order, send_in_order};
pub(crate) use inline::receive_inline;
pub(crate) use lists::{
    List, MANIFEST_LIMIT, ManifestSource, VerdictSink, VerdictSource, entries_of, list_layout,
};
pub(crate) use local::{ALGORITHM as LOCAL_DIGESTS, LocalMove, LocalState};
pub use pace::LiveRate;
pub(crate) use pace::Pace;
pub(crate) use path_start::{LoadedControl, PathStart};
pub(crate) use receive::{ReceiveJob, ReceiveOutcome, receive};
pub(crate) use secured_port::{PortSecurity, SecuredPort};
pub(crate) use send::{SendJob, SendOutcome, WantedBlocks, least_left, send};
pub(crate) use shared::Cancel;
pub(crate) use stream::{BlockReader, StreamJob, send_stream};
pub(crate) use tally::{Stage, Tally};
pub(crate) use tune::{Notify, OpenOutcome, Tuning, tuning_limits, window_limit};
pub(crate) use unsent::UnsentWork;

use farline_core::transfer::LONGEST_BLOCK;

/// Bytes in a block and a slot: the network buffer of the ADTS paper (section IV.A), at which it
/// filled its link.
pub(crate) const BLOCK_LEN: usize = LONGEST_BLOCK;

/// A file whose length nobody said: longer than any file system holds.
pub(crate) const UNKNOWN_LEN: u64 = 1 << 62;

#[cfg(test)]
mod idle_tests;
#[cfg(test)]
mod tests;

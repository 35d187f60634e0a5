//! The data path that node and client share: threads, slots and channels around the machines of `core::transfer`.
//!
//! Sending: reader threads fill slots from a [`Source`](crate::stores::Source), one thread a channel empties them.
//! Receiving: one thread a channel fills slots, writer threads empty them into a [`Sink`](crate::stores::Sink).
//! In between, a machine behind a mutex decides; its answers go to the threads' queues. A block is a mebibyte, so a
//! 10 Gbit/s transfer takes the mutex some thousand times a second.

mod acceptor;
mod desk;
mod pace;
mod receive;
mod send;
mod tally;

pub use acceptor::{Acceptor, Incoming, bind};
pub use desk::Cancel;
pub use pace::Pace;
pub use receive::{ReceiveJob, Received, receive};
pub use send::{Audit, SendJob, Sent, send};
pub use tally::Tally;

/// Bytes in a block and a slot: the network buffer of the ADTS paper (section IV.A), at which it filled its link.
pub const BLOCK_LEN: usize = 1 << 20;

/// The ERET and ESTO module that moves trees between Farline ends (`docs/protocol.md`).
pub(crate) const TREE_MODULE: &str = "FARLINE.TREE";
/// The longest manifest that either end takes: some million entries.
pub(crate) const MANIFEST_LIMIT: usize = 256 << 20;
/// A file whose length nobody said: longer than any file system holds.
pub(crate) const UNKNOWN_LEN: u64 = 1 << 62;

#[cfg(test)]
mod tests;

//! How a copy is to be made, how it is asked to end, and what is told of it meanwhile.

use super::connect_options::ConnectOptions;
use super::existing::Existing;
use crate::stores::DirectIo;
use farline_core::profile::Stall;
use farline_core::rdma::{MOST_QUEUE_PAIRS, queue_pairs_for};
use farline_core::transfer::UserOverrides;
use farline_core::units::{Bytes, Error, Fault, Rate, Span};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How a copy is to be made.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Copy folders with all that is in them.
    pub recursive: bool,
    /// How nodes are reached.
    pub reach: ConnectOptions,
    /// Not faster than this, all channels together.
    pub limit: Option<Rate>,
    /// What the user fixed rather than leave to Farline.
    pub overrides: UserOverrides,
    /// How arrival is checked.
    pub verify: Verify,
    /// Have servers that are not Farline compute checksums, to compare with (CKSM).
    pub compare_at_stock: bool,
    /// What becomes of files that are at the destination already.
    pub existing: Existing,
    /// Socket buffers of data connections; the kernel's own sizing when absent.
    pub buffer: Option<Bytes>,
    /// Whether files are read and written past the page cache.
    pub direct_io: DirectIo,
    /// Move data by RDMA, over so many queue pairs a channel, or as many as the round-trip time
    /// asks for.
    pub rdma: Option<RdmaOptions>,
    /// How it is asked to end early.
    pub stop: CancelToken,
    /// How staging is put to the test.
    pub trial: Trial,
}

/// That data should go by RDMA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RdmaOptions {
    /// Queue pairs of each channel, when the user fixed them.
    pub queue_pairs: Option<u8>,
    /// Connect them by what both ends tell each other over the control connection, and not by
    /// rdma_cm.
    pub exchange: bool,
    /// Have receivers read blocks, where the node can, and senders not write them.
    pub read: bool,
}

impl RdmaOptions {
    /// Queue pairs of each channel on a path of this round-trip time.
    pub(super) fn queue_pairs_at(&self, rtt: Span) -> u8 {
        self.queue_pairs.unwrap_or_else(|| queue_pairs_for(rtt)).clamp(1, MOST_QUEUE_PAIRS)
    }
}

/// What a measurement of staging does to a copy from here to a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trial {
    /// The source stalls so.
    pub stall: Option<Stall>,
    /// It gives no more than this.
    pub read: Option<Rate>,
    /// Reading and sending take turns.
    pub in_turns: bool,
}

/// Asks a copy that runs to end soon, with what it can go on from made durable.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// Asks.
    pub fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// The error of a copy that ends because it was asked to.
    pub fn error() -> Error {
        Error::new(
            Fault::You,
            "interrupted",
            "interrupted; nothing half-done was left under a final name",
        )
    }

    /// Why the copy ends, if it was asked to.
    pub(super) fn reason(&self) -> Option<Error> {
        self.0.load(Ordering::Relaxed).then(CancelToken::error)
    }
}

/// How a copy's arrival is checked, between Farline ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// CRC32C of every block, and BLAKE3 of every file, compared end to end.
    #[default]
    Digest,
    /// CRC32C of every block.
    Checksum,
    /// By TCP's checksum alone.
    None,
}

/// Where a copy stands, for whoever watches it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Bytes that have arrived.
    pub bytes: Bytes,
    /// Bytes in all, once known.
    pub bytes_total: Option<Bytes>,
    /// Files in all, once known.
    pub files_total: Option<u64>,
    /// Since the start.
    pub elapsed: Span,
}

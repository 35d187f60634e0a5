//! What the RDMA channels of a session are to be like, and why none of them came about.

use crate::channels::told;
use crate::sys::verbs::Rejected;
use farline_core::rdma::{MOST_CREDITS, Refusal};
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Setting, Span};
use std::io;
use std::net::SocketAddr;

/// What the channels of a session are to be like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fabric {
    /// Queue pairs of each channel.
    pub(super) queue_pairs: u8,
    /// Slots that a channel's ends advertise to begin with.
    pub(super) credits: usize,
    /// Whether there may be more of them when the path turns out to hold more.
    pub(super) elastic: bool,
    /// Bytes of a slot.
    pub(super) slot_len: Bytes,
    /// The path's round-trip time.
    pub(super) rtt: Span,
    /// Whether the ends connect by what they tell each other over the control connection (V-9), and
    /// not by rdma_cm.
    pub(super) exchange: bool,
    /// Whether receivers read blocks (V-11), and senders do not write them.
    pub(super) read: bool,
}

impl Fabric {
    /// Slots to begin with, as they travel.
    pub(super) fn begin(&self) -> u16 {
        self.credits.clamp(1, usize::from(MOST_CREDITS)) as u16
    }
}

/// Why no connection to `address` came about; this end's packets carry `mtu` bytes.
pub(super) fn refused(address: SocketAddr, mtu: u16, error: io::Error) -> Error {
    if let Some(told) = told(&error) {
        return told.clone();
    }
    let rejected = error.get_ref().and_then(|inner| inner.downcast_ref::<Rejected>());
    if let Some(refusal) = rejected.and_then(|rejected| Refusal::decode(&rejected.private_data)) {
        return refusal.error(mtu);
    }
    if error.kind() == io::ErrorKind::OutOfMemory {
        return Error::new(
            Fault::Here,
            ErrorCode::RdmaRoom,
            format!(
                "the RDMA device has no room for \
            another connection: {error}"
            ),
        )
        .hint(format!(
            "use fewer queue pairs ({} rdma:1), less {}, or raise the limit of locked memory \
             (`ulimit -l`)",
            Setting::Channel,
            Setting::Staging
        ));
    }
    Error::new(
        Fault::Between,
        ErrorCode::DataConnection,
        format!("cannot connect to {address} by RDMA: {error}"),
    )
    .hint(format!(
        "both hosts need a route between their RDMA devices; {} tcp goes without",
        Setting::Channel
    ))
}

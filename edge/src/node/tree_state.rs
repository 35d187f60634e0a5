//! A session's tree between its transfers: what came in or goes out of it so far.

use super::list_memory::ListShare;
use super::quota::QuotaShare;
use crate::mover::Audit;
use crate::stores::{Landing, Source};
use farline_core::transfer::{Digests, Layout};
use farline_core::units::ByteRanges;
use std::sync::{Arc, Mutex};

/// A tree between its transfers.
#[derive(Default)]
pub(super) struct TreeState {
    pub(super) incoming: Option<IncomingTree>,
    pub(super) outgoing: Option<OutgoingTree>,
}

/// One that comes in.
#[derive(Debug)]
pub(super) struct IncomingTree {
    pub(super) layout: Arc<Layout>,
    pub(super) sink: Box<dyn Landing>,
    pub(super) digests: Mutex<Digests>,
    /// What is in the sink.
    pub(super) held: ByteRanges,
    /// Memory of its list.
    pub(super) _share: ListShare,
    /// What it takes of what its user may store today.
    pub(super) quota: Option<QuotaShare>,
}

/// One that goes out.
pub(super) struct OutgoingTree {
    pub(super) layout: Arc<Layout>,
    pub(super) source: Arc<dyn Source>,
    pub(super) audit: Arc<Audit>,
    /// Whether the last data went without losing a channel, as far as this end knows.
    pub(super) whole: bool,
    /// Memory of its list.
    pub(super) _share: ListShare,
}

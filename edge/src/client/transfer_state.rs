//! What can be seen and changed of a transfer while its threads run.

use super::options::{Options, Trial};
use crate::channels::Handle;
use crate::channels::stack::Opener;
use crate::mover::{Cancel, LiveRate, Notify, Pace, PathStart, Tally};
use crate::sys::lock::lock;
use farline_core::copy::HeldRate;
use farline_core::plan::Reason;
use farline_core::transfer::TuningLimits;
use farline_core::units::Bytes;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// What can be seen of a transfer while its threads run.
#[derive(Default)]
pub(super) struct TransferState {
    pub(super) tally: Tally,
    /// Holds the copy to the rate that was asked for.
    pub(super) pace: Option<Arc<Pace>>,
    /// The booked rate that its sender holds.
    pub(super) rate: Option<HeldRate>,
    /// What may become of that, or of the pace's, while it runs.
    pub(super) live_rate: Option<LiveRate>,
    pub(super) trial: Trial,
    /// Whether the other end holds it instead.
    pub(super) paced_there: AtomicBool,
    pub(super) cancel: Cancel,
    /// Payload that the receiver held before.
    pub(super) held: AtomicU64,
    /// Whether this end is busy by itself, so that the other's silence means nothing.
    pub(super) is_alone: AtomicBool,
    /// What may change while this end sends.
    pub(super) tuning: OnceLock<LiveTuning>,
    /// What its channels begin from, and what they see of the path.
    pub(super) start: OnceLock<PathStart>,
    /// Whether the staging pool may grow.
    is_elastic: bool,
    /// What was measured and changed.
    pub(super) changes: Mutex<Vec<Reason>>,
    pub(super) total: Mutex<(Option<Bytes>, Option<u64>)>,
    /// Counts the files that have their final names.
    files: OnceLock<CountFiles>,
    /// The sending end's channels with the bytes they had acknowledged before, to see what has
    /// really arrived.
    handles: Mutex<Vec<(Handle, u64)>>,
}

/// Counts files that have landed, where that is known.
type CountFiles = Box<dyn Fn() -> Option<u64> + Send + Sync>;

/// What of a transfer may change while this end sends.
pub(super) struct LiveTuning {
    pub(super) tuning_limits: TuningLimits,
    /// How to open more channels.
    pub(super) opener: Option<Opener>,
}

impl TransferState {
    /// Ready for a transfer of a copy with `options`.
    pub(super) fn new(options: &Options, pace: Option<Arc<Pace>>) -> TransferState {
        let is_elastic = options.overrides.staging.is_none() && !options.trial.in_turns;
        let rate = options.held;
        TransferState {
            pace,
            rate,
            live_rate: options.live_rate.clone(),
            trial: options.trial,
            is_elastic,
            ..TransferState::default()
        }
    }

    /// Notes what was measured or changed.
    pub(super) fn changed(&self, why: Reason) {
        lock(&self.changes).push(why);
    }

    /// Whether the staging pool may grow.
    pub(super) fn is_elastic(&self) -> bool {
        self.is_elastic
    }

    /// Who is told when the pool of the transfer that `tally` counts grows, where it may.
    pub(super) fn growth<'a>(&self, tally: &Tally, tell: Notify<'a>) -> Option<Notify<'a>> {
        (self.is_elastic() && std::ptr::eq(tally, &self.tally)).then_some(tell)
    }

    /// What holds what comes: nothing, where the other end does and its rate never changes.
    pub(super) fn receiving_pace(&self) -> Option<Arc<Pace>> {
        let there = self.paced_there.load(Ordering::Relaxed) && self.live_rate.is_none();
        self.pace.clone().filter(|_| !there)
    }

    /// Does `work` that the other end has no part in.
    pub(super) fn alone<T>(&self, work: impl FnOnce() -> T) -> T {
        self.is_alone.store(true, Ordering::Relaxed);
        let done = work();
        self.is_alone.store(false, Ordering::Relaxed);
        done
    }

    pub(super) fn expect(&self, bytes: u64, files: u64) {
        *lock(&self.total) = (Some(Bytes(bytes)), Some(files));
    }

    /// Has files that land while others come counted by `count`.
    pub(super) fn count_files(&self, count: impl Fn() -> Option<u64> + Send + Sync + 'static) {
        // Once a pass: the next has a state of its own.
        let _ = self.files.set(Box::new(count));
    }

    /// Files that have their final names, where that is known.
    pub(super) fn files(&self) -> Option<u64> {
        self.files.get().and_then(|count| count())
    }

    pub(super) fn follow(&self, handles: Vec<Handle>) {
        let acked = |handle: &Handle| handle.tcp_info().map_or(0, |info| info.bytes_acked);
        // Of a connection that ssh carries the kernel knows nothing.
        let handles = handles.into_iter().filter(|handle| handle.tcp_info().is_some());
        let handles =
            handles.map(|handle| (acked(&handle), handle)).map(|(base, handle)| (handle, base));
        *lock(&self.handles) = handles.collect();
    }

    /// A channel that was opened while the others send.
    pub(super) fn follow_another(&self, handle: Handle) {
        let mut handles = lock(&self.handles);
        // Where nothing is known of the others, the tally alone counts.
        if !handles.is_empty() {
            handles.push((handle, 0));
        }
    }

    /// Whether all that is to be moved has arrived, and there is anything.
    pub(super) fn has_arrived_whole(&self) -> bool {
        let total = lock(&self.total).0;
        total.is_some_and(|total| total.0 > 0 && self.arrived() >= total.0)
    }

    /// Payload that has arrived: what the peer's kernel acknowledged when we send, what is in the
    /// store when we receive.
    pub(super) fn arrived(&self) -> u64 {
        let handles = lock(&self.handles);
        let held = self.held.load(Ordering::Relaxed);
        if handles.is_empty() {
            return held + self.tally.bytes();
        }
        let acked: u64 = handles
            .iter()
            .map(|(handle, base)| {
                handle.tcp_info().map_or(0, |info| info.bytes_acked.saturating_sub(*base))
            })
            .sum();
        held + acked.min(self.tally.bytes())
    }
}

//! What can be seen and changed of a transfer while its threads run.

use super::options::{Options, Trial};
use crate::channels::Handle;
use crate::channels::stack::Opener;
use crate::mover::{Cancel, LiveRate, Notify, Pace, PathStart, Tally};
use crate::sys::lock::lock;
use farline_core::copy::HeldRate;
use farline_core::plan::Reason;
use farline_core::transfer::{TuningLimits, Waits};
use farline_core::units::Bytes;
use std::collections::BTreeSet;
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
    /// The sending end's channels, to see what has really arrived.
    followed: Mutex<Vec<Followed>>,
}

/// A channel over which this end sends.
struct Followed {
    handle: Handle,
    /// Of which connection it is one, where its driver tells what a kernel tells of TCP.
    connection: Option<usize>,
    /// What had arrived, and what was sent again, before.
    before: Sent,
}

/// Bytes that arrived, and packets that were sent again as no kernel tells.
#[derive(Clone, Copy, Default)]
struct Sent {
    arrived: u64,
    again: u64,
}

impl Followed {
    /// Nothing where nobody tells what arrived, as of a connection that ssh carries.
    fn new(handle: Handle) -> Option<Followed> {
        let sample = handle.sample();
        let connection = sample.flow.filter(|_| sample.tcp.is_none()).map(|flow| flow.connection);
        let followed = Followed { handle, connection, before: Sent::default() };
        let before = followed.sample()?;
        Some(Followed { before, ..followed })
    }

    fn sample(&self) -> Option<Sent> {
        let sample = self.handle.sample();
        match (sample.tcp, sample.flow) {
            (Some(info), _) => Some(Sent { arrived: info.bytes_acked, again: 0 }),
            (None, flow) => flow.map(|flow| Sent { arrived: flow.arrived, again: flow.packets.1 }),
        }
    }

    /// What it did since.
    fn since(&self) -> Sent {
        let Sent { arrived, again } = self.sample().unwrap_or(self.before);
        Sent {
            arrived: arrived.saturating_sub(self.before.arrived),
            again: again.saturating_sub(self.before.again),
        }
    }
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
    pub(super) fn on_resize<'a>(&self, tally: &Tally, notify: Notify<'a>) -> Option<Notify<'a>> {
        (self.is_elastic() && std::ptr::eq(tally, &self.tally)).then_some(notify)
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
        *lock(&self.followed) = handles.into_iter().filter_map(Followed::new).collect();
    }

    /// A channel that was opened while the others send.
    pub(super) fn follow_another(&self, handle: Handle) {
        let mut followed = lock(&self.followed);
        // Where nothing is known of the others, the tally alone counts.
        if !followed.is_empty() {
            followed.extend(Followed::new(handle));
        }
    }

    /// What all that are followed did together; `None` without any. Several may be of one
    /// connection.
    fn sent(&self) -> Option<Sent> {
        let mut seen = BTreeSet::new();
        lock(&self.followed)
            .iter()
            .filter(|one| one.connection.is_none_or(|connection| seen.insert(connection)))
            .map(Followed::since)
            .reduce(|sum, one| Sent {
                arrived: sum.arrived + one.arrived,
                again: sum.again + one.again,
            })
    }

    /// Where the time of this end's channels and threads went, once all that was sent is over: what
    /// waits in this process when its threads end is lost and sent again after.
    pub(super) fn waits(&self) -> Waits {
        let waits = self.tally.waits();
        let again = self.sent().unwrap_or_default().again;
        Waits { retransmits: waits.retransmits.max(again), ..waits }
    }

    /// Whether all that is to be moved has arrived, and there is anything.
    pub(super) fn has_arrived_whole(&self) -> bool {
        let total = lock(&self.total).0;
        total.is_some_and(|total| total.0 > 0 && self.arrived() >= total.0)
    }

    /// Payload that has arrived: what the peer acknowledged when we send, what is in the store when
    /// we receive.
    pub(super) fn arrived(&self) -> u64 {
        let (held, moved) = (self.held.load(Ordering::Relaxed), self.tally.bytes());
        held + self.sent().map_or(moved, |sent| sent.arrived.min(moved))
    }
}

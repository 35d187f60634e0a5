//! Running totals of a transfer, read by the progress display while it runs.

use crate::sys::busy::BusyClock;
use crate::sys::lock::lock;
use farline_core::transfer::{PathTimes, StageTime, StageTimes, Waits};
use farline_core::units::Span;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

/// Totals that threads add to and anyone reads.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Payload bytes through this end: handed to the network when sending, in the store when
    /// receiving.
    bytes: AtomicU64,
    /// The same with bytes sent again.
    on_wire: AtomicU64,
    began: OnceLock<Instant>,
    first: OnceLock<Instant>,
    store_wait: AtomicU64,
    network: AtomicU64,
    pace_wait: AtomicU64,
    busy: Mutex<StageTimes>,
    /// Of the sends that are over, and of the one that runs.
    path: Mutex<(PathTimes, PathTimes)>,
    /// Writes to the store that have begun and not ended.
    storing: AtomicU64,
    bad_blocks: AtomicU64,
    bad_headers: AtomicU64,
    lost_channels: AtomicU64,
    resent: AtomicU64,
    has_waited_for_zeros: AtomicBool,
    has_lacked_staging: AtomicBool,
}

impl Tally {
    /// Whether blocks of zeros waited, since others move files.
    pub(crate) fn has_waited_for_zeros(&self) -> bool {
        self.has_waited_for_zeros.load(Ordering::Relaxed)
    }

    /// Notes that they did.
    pub(crate) fn wait_for_zeros(&self) {
        self.has_waited_for_zeros.store(true, Ordering::Relaxed);
    }

    /// Whether a staging pool did not grow for want of memory.
    pub(crate) fn has_lacked_staging(&self) -> bool {
        self.has_lacked_staging.load(Ordering::Relaxed)
    }

    /// Notes that it did not.
    pub(super) fn lack_staging(&self) {
        self.has_lacked_staging.store(true, Ordering::Relaxed);
    }

    /// Payload bytes so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes that crossed the channels so far, headers and repeats included.
    pub(crate) fn on_wire(&self) -> u64 {
        self.on_wire.load(Ordering::Relaxed)
    }

    /// Blocks that arrived other than they were sent.
    pub(crate) fn bad_blocks(&self) -> u64 {
        self.bad_blocks.load(Ordering::Relaxed)
    }

    /// Headers that did, each of which cost a channel.
    pub(crate) fn bad_headers(&self) -> u64 {
        self.bad_headers.load(Ordering::Relaxed)
    }

    /// Channels that broke while others went on, those with a bad header among them.
    pub(crate) fn lost_channels(&self) -> u64 {
        self.lost_channels.load(Ordering::Relaxed)
    }

    /// Time that channels waited for the store, summed over channels.
    pub(crate) fn store_wait(&self) -> Span {
        Span::from_nanos(self.store_wait.load(Ordering::Relaxed))
    }

    /// Time that channels were in the network, summed over channels.
    pub(crate) fn network(&self) -> Span {
        Span::from_nanos(self.network.load(Ordering::Relaxed))
    }

    /// Where the time of this end's channels and threads went.
    pub(crate) fn waits(&self) -> Waits {
        let (over, now) = *lock(&self.path);
        Waits {
            store: self.store_wait(),
            pace: Span::from_nanos(self.pace_wait.load(Ordering::Relaxed)),
            network: self.network(),
            busy: *lock(&self.busy),
            path: over.and(now),
            retransmits: self.resent.load(Ordering::Relaxed),
            ..Waits::default()
        }
    }

    /// When the first payload was given to the network, when sending, or had come whole into a
    /// slot, when receiving.
    pub(crate) fn began(&self) -> Option<Instant> {
        self.began.get().copied()
    }

    /// When the first payload was through this end.
    pub(crate) fn first_byte(&self) -> Option<Instant> {
        self.first.get().copied()
    }

    /// The first payload moves now, unless one did before.
    pub(super) fn begin(&self) {
        self.began.get_or_init(Instant::now);
    }

    pub(crate) fn add_bytes(&self, bytes: usize) {
        self.first.get_or_init(Instant::now);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Whether something is being written to the store now: for long, where the store is what is
    /// slow.
    pub(crate) fn is_storing(&self) -> bool {
        self.storing.load(Ordering::Relaxed) > 0
    }

    /// Runs `write`, which puts something into the store.
    pub(super) fn while_storing<T>(&self, write: impl FnOnce() -> T) -> T {
        self.storing.fetch_add(1, Ordering::Relaxed);
        let written = write();
        self.storing.fetch_sub(1, Ordering::Relaxed);
        written
    }

    pub(super) fn add_bad_block(&self) {
        self.bad_blocks.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn add_lost_channel(&self, bad_header: bool) {
        self.bad_headers.fetch_add(u64::from(bad_header), Ordering::Relaxed);
        self.lost_channels.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn add_on_wire(&self, bytes: usize) {
        self.on_wire.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn add_store_wait(&self, since: Instant) {
        self.store_wait.fetch_add(nanos(since), Ordering::Relaxed);
    }

    pub(super) fn add_pace_wait(&self, since: Instant) {
        self.pace_wait.fetch_add(nanos(since), Ordering::Relaxed);
    }

    /// Notes how busy the calling thread, which serves `stage`, was until the guard goes.
    pub(crate) fn thread(&self, stage: Stage) -> StageThread<'_> {
        StageThread { tally: self, stage, clock: BusyClock::start() }
    }

    /// What a send that runs has seen of the path so far.
    pub(super) fn see_path(&self, times: PathTimes) {
        lock(&self.path).1 = times;
    }

    /// That send is over.
    pub(super) fn end_path(&self) {
        let mut path = lock(&self.path);
        *path = (path.0.and(path.1), PathTimes::default());
    }

    /// So many channels waited for the network since then, with no thread at work for them.
    pub(super) fn add_flush(&self, channels: usize, since: Instant) {
        let waited = Span::from(since.elapsed()).mul_f64(channels as f64);
        self.network.fetch_add(waited.as_nanos(), Ordering::Relaxed);
        let idle = StageTime { busy: Span::ZERO, active: waited };
        let mut busy = lock(&self.busy);
        busy.channels = busy.channels.and(idle);
    }

    /// So many packets were sent again over channels of which no kernel tells.
    pub(super) fn add_resent(&self, packets: u64) {
        self.resent.fetch_add(packets, Ordering::Relaxed);
    }

    pub(crate) fn add_network(&self, since: Instant) {
        self.network.fetch_add(nanos(since), Ordering::Relaxed);
    }
}

/// What a thread of a transfer is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stage {
    Reading,
    Channel,
    Writing,
}

/// Measures a thread until it is dropped there.
pub(crate) struct StageThread<'a> {
    tally: &'a Tally,
    stage: Stage,
    clock: BusyClock,
}

impl StageThread<'_> {
    /// The thread waited for other stages since then.
    pub(crate) fn idle(&self, since: Instant) {
        self.clock.idle(since);
    }
}

impl Drop for StageThread<'_> {
    fn drop(&mut self) {
        let (busy, active) = self.clock.busy_and_active();
        let mut all = lock(&self.tally.busy);
        let stage = match self.stage {
            Stage::Reading => &mut all.reading,
            Stage::Channel => &mut all.channels,
            Stage::Writing => &mut all.writing,
        };
        *stage = stage.and(StageTime { busy: busy.into(), active: active.into() });
    }
}

fn nanos(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

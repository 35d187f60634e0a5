//! How large the staging pool should be, and how much of it may be on its way: both begin small.
//! The pool doubles while a store that comes in bursts makes the network wait; the window of
//! registered slots while it is what holds the path back.
//!
//! A pool bridges the pauses of a store. Where the network always waits for the store, the store is
//! slow and no pool helps; where it never does, the pool is large enough, and a larger one only
//! drives blocks out of the processor's caches before they are sent. Where the network waited *and*
//! the store's side rested within one window, a larger pool would have carried something over the
//! pause.
//!
//! A window that is full all the time moves as much in a round trip as it holds, so that twice the
//! rate times the round-trip time is twice the window; on a path that carries no more, a larger
//! window changes no rate, and two bandwidth-delay products are where it ends.

use crate::plan::Reason;
use crate::units::{Bytes, Rate, Span, Time};
use std::collections::VecDeque;

/// The time over which waiting and resting are looked at together.
const WINDOW: Span = Span::from_millis(1_000);

/// The least time over which the rate is looked at for the window; on long paths it is two round
/// trips.
const ROUND: Span = Span::from_millis(200);

/// The pool's part next to the window, for the store to read ahead or to lag behind.
const FOR_THE_STORE: Bytes = Bytes::mib(8);

/// The part of the channels' time that must go to waiting for the store before it is worth memory.
const WORTH: f64 = 0.01;

/// A doubling that leaves more than this part of the waiting as it was has not bridged anything.
const HELPED: f64 = 0.9;

/// What a process may take besides two bandwidth-delay products, less what it takes without a pool.
const BESIDES: Bytes = Bytes::mib(32);

/// Totals of one end's pool at a moment.
#[derive(Clone, Copy, Debug)]
pub struct PoolSample {
    /// When.
    pub at: Time,
    /// Channels that are open.
    pub channels: usize,
    /// Time that channels waited for the store since the start: for a full slot when sending, for a
    /// free one when receiving. Summed over channels.
    pub waited: Span,
    /// How often the store's side rested since the start: the pool was full when reading, empty
    /// when writing.
    pub rests: u64,
    /// Bytes that moved since the start.
    pub moved: Bytes,
    /// Round-trip time of the path; zero where it is not known.
    pub rtt: Span,
    /// Bytes of the slots that channels may have on their way; zero where they are of ordered
    /// bytes, whose window is the kernel's.
    pub window: Bytes,
    /// What that may come to: by what both ends and their devices agreed on, and by the memory that
    /// may be locked.
    pub widest: Bytes,
}

impl PoolSample {
    fn rate_since(&self, before: &PoolSample) -> Rate {
        Rate::of(Bytes(self.moved.0.saturating_sub(before.moved.0)), self.at.since(before.at))
    }
}

/// A larger pool, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Resize {
    /// The pool's new size, or the one that it has.
    pub staging: Bytes,
    /// How much of it may be on its way, by channels of registered slots; what it was where only
    /// the pool grew.
    pub window: Bytes,
    /// Why.
    pub why: Reason,
}

/// Watches one end's pool and says when it should grow.
#[derive(Debug)]
pub struct BufferAutotuner {
    staging: Bytes,
    opened: Option<PoolSample>,
    /// The sample from which the rate for the window is counted.
    round: Option<PoolSample>,
    /// The part of their time that channels waited before the pool grew last.
    before: Option<f64>,
    is_over: bool,
    resizes: VecDeque<Resize>,
}

impl BufferAutotuner {
    /// Watches a pool of `staging`.
    pub fn new(staging: Bytes) -> BufferAutotuner {
        BufferAutotuner {
            staging,
            opened: None,
            round: None,
            before: None,
            is_over: false,
            resizes: VecDeque::new(),
        }
    }

    /// Takes in a sample; several a second.
    pub fn handle(&mut self, sample: PoolSample) {
        self.widen(sample);
        self.bridge(sample);
    }

    /// Has more slots on their way where the window holds the path back.
    fn widen(&mut self, sample: PoolSample) {
        let first = *self.round.get_or_insert(sample);
        let took = sample.at.since(first.at);
        if took < ROUND.max(sample.rtt + sample.rtt) {
            return;
        }
        self.round = Some(sample);
        if sample.window == Bytes(0) {
            return;
        }
        let product = sample.rate_since(&first).bytes_in(sample.rtt);
        let window = (2 * sample.window.0).min(2 * product.0).min(sample.widest.0);
        // Less than an eighth more is the rate's own noise.
        if window < sample.window.0 + sample.window.0 / 8 {
            return;
        }
        self.staging = self.staging.max(Bytes(window + FOR_THE_STORE.0));
        let (staging, window) = (self.staging, Bytes(window));
        let why = Reason::Wider { window, staging, before: sample.window, product };
        self.resizes.push_back(Resize { staging, window, why });
    }

    /// Makes the pool larger where the store comes in bursts.
    fn bridge(&mut self, sample: PoolSample) {
        let first = *self.opened.get_or_insert(sample);
        let took = sample.at.since(first.at);
        if took < WINDOW {
            return;
        }
        self.opened = Some(sample);
        let time = took.as_secs_f64() * sample.channels.max(1) as f64;
        let waited = sample.waited.saturating_sub(first.waited).as_secs_f64() / time;
        if self.is_over || waited < WORTH || sample.rests == first.rests {
            return;
        }
        if self.before.is_some_and(|before| waited > before * HELPED) {
            self.is_over = true;
            return;
        }
        let bound = 2 * sample.rate_since(&first).bytes_in(sample.rtt).0 + BESIDES.0;
        let staging = Bytes((2 * self.staging.0).min(bound));
        if staging <= self.staging {
            return;
        }
        self.before = Some(waited);
        self.staging = staging;
        let why = Reason::Bursts { staging, waited };
        self.resizes.push_back(Resize { staging, window: sample.window, why });
    }

    /// What to do next; `None` until something is seen.
    pub fn poll(&mut self) -> Option<Resize> {
        self.resizes.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Rng;

    /// A store that gives `rate` while it works and nothing in the last `pause` of each second,
    /// before a network of `network` bytes a second.
    struct Store {
        rate: f64,
        pause: f64,
        network: f64,
        rtt: Span,
    }

    /// Runs for a virtual minute; returns the pool's size and the part of the last ten seconds
    /// in which the network waited.
    fn run(store: &Store, seed: u64) -> (Bytes, f64) {
        const STEP: f64 = 0.001;
        let mut rng = Rng::new(seed);
        let mut pool = Bytes::mib(8);
        let mut autotuner = BufferAutotuner::new(pool);
        let (mut filled, mut moved, mut waited, mut rests, mut is_resting) =
            (0.0, 0.0, 0.0, 0, false);
        let mut late = 0.0;
        for step in 0..60_000u32 {
            let now = f64::from(step) * STEP;
            let pauses = now.fract() > 1.0 - store.pause;
            let read = if pauses { 0.0 } else { store.rate * STEP * (0.9 + 0.2 * rng.unit()) };
            filled += read;
            let room = pool.0 as f64;
            if filled >= room {
                filled = room;
                rests += u64::from(!is_resting);
            }
            is_resting = filled >= room;
            let wants = store.network * STEP;
            let takes = wants.min(filled);
            filled -= takes;
            moved += takes;
            let idle = STEP * (1.0 - takes / wants);
            waited += 4.0 * idle;
            late += if now >= 50.0 { idle } else { 0.0 };
            if step % 100 == 0 {
                autotuner.handle(PoolSample {
                    at: Time::ZERO + Span::from_secs_f64(now),
                    channels: 4,
                    waited: Span::from_secs_f64(waited),
                    rests,
                    moved: Bytes(moved as u64),
                    rtt: store.rtt,
                    window: Bytes(0),
                    widest: Bytes(0),
                });
            }
            while let Some(resize) = autotuner.poll() {
                assert!(resize.staging > pool, "seed {seed}: {resize:?} is no growth from {pool}");
                pool = resize.staging;
            }
        }
        (pool, late / 10.0)
    }

    #[test]
    fn a_bursty_store_gets_the_pool_that_bridges_its_pauses() {
        for seed in 0..20 {
            // 50 ms at 4 Gbit/s are 24 MiB.
            let store = Store { rate: 1e9, pause: 0.05, network: 5e8, rtt: Span::from_millis(27) };
            let (pool, waited) = run(&store, seed);
            assert!(pool >= Bytes::mib(24) && pool <= Bytes::mib(64), "seed {seed}: {pool}");
            assert!(
                waited < 0.01,
                "seed {seed}: the network still waits for {:.1} %",
                waited * 100.0
            );
        }
    }

    #[test]
    fn a_slow_store_and_a_fast_one_get_no_more_memory() {
        for seed in 0..20 {
            let slow = Store { rate: 1e8, pause: 0.05, network: 5e8, rtt: Span::from_millis(27) };
            assert_eq!(run(&slow, seed).0, Bytes::mib(8), "seed {seed}");
            let fast = Store { rate: 1e9, pause: 0.0, network: 5e8, rtt: Span::from_millis(27) };
            assert_eq!(run(&fast, seed).0, Bytes::mib(8), "seed {seed}");
        }
    }

    #[test]
    fn memory_stays_within_little_more_than_two_bdps() {
        for seed in 0..20 {
            // Half a second at 8 Gbit/s are 477 MiB; the path holds 12.
            let store = Store { rate: 2.5e9, pause: 0.5, network: 1e9, rtt: Span::from_millis(13) };
            let (pool, waited) = run(&store, seed);
            assert!(pool.0 <= 2 * 13_000_000 + BESIDES.0, "seed {seed}: {pool}");
            assert!(waited > 0.01, "seed {seed}: a pool of {pool} cannot bridge that");
        }
    }

    /// A path of `rate` bytes a second that registered slots fill: as much moves in a round trip as
    /// is on its way. Runs for ten virtual seconds; returns pool, window and rate at the end.
    fn fill(rate: f64, rtt: Span, widest: Bytes, seed: u64) -> (Bytes, Bytes, f64) {
        let mut rng = Rng::new(seed);
        let (mut pool, mut window) = (Bytes::mib(16), Bytes::mib(8));
        let mut autotuner = BufferAutotuner::new(pool);
        let (mut moved, mut last) = (0.0, 0.0);
        for step in 0..100u32 {
            let by_window = window.0 as f64 / rtt.as_secs_f64();
            last = rate.min(by_window) * (0.95 + 0.1 * rng.unit());
            autotuner.handle(PoolSample {
                at: Time::ZERO + Span::from_millis(100 * u64::from(step)),
                channels: 1,
                waited: Span::ZERO,
                rests: 0,
                moved: Bytes(moved as u64),
                rtt,
                window,
                widest,
            });
            moved += 0.1 * last;
            while let Some(resize) = autotuner.poll() {
                assert!(
                    resize.window > window && resize.staging >= pool,
                    "seed {seed}: {resize:?} is no growth"
                );
                (pool, window) = (resize.staging, resize.window);
            }
        }
        (pool, window, last)
    }

    #[test]
    fn registered_slots_fill_a_long_path_within_two_bdps() {
        for seed in 0..50 {
            // 10 Gbit/s over 163 ms: 204 MB are on their way, 25 times what a channel begins with.
            let (rate, rtt) = (1.25e9, Span::from_millis(163));
            let product = rate * rtt.as_secs_f64();
            let (pool, window, last) = fill(rate, rtt, Bytes::mib(1024), seed);
            assert!(last > 0.94 * rate, "seed {seed}: {last} bytes a second with {window}");
            assert!(
                pool.0 as f64 <= 2.0 * 1.05 * product + BESIDES.0 as f64,
                "seed {seed}: {pool}"
            );
            // What may not be locked, or was not agreed on, is not used.
            let (pool, window, _) = fill(rate, rtt, Bytes::mib(24), seed);
            assert_eq!((pool, window), (Bytes::mib(32), Bytes::mib(24)), "seed {seed}");
        }
    }

    #[test]
    fn on_a_short_or_unknown_path_the_window_stays() {
        for (rate, rtt) in
            [(1.25e9, Span::from_micros(50)), (1e7, Span::from_millis(163)), (1.25e9, Span::ZERO)]
        {
            // A path of no length moves at its rate whatever the window.
            let (pool, window, _) = fill(rate, rtt.max(Span::from_nanos(1)), Bytes::mib(1024), 1);
            assert_eq!((pool, window), (Bytes::mib(16), Bytes::mib(8)), "{rtt}");
        }
    }
}

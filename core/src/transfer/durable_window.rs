//! How much a receiver may have written that is not durable yet, and when it makes it durable: what
//! a crash costs.
//!
//! A checkpoint is due after a quarter of a second, or once half the window is written, of the
//! first a quarter; a copy too short for either makes none. Writers wait while the window is full.
//! It begins at 64 MiB. A disk whose syncs take long whatever their size would be held to one
//! window a sync. Where writers have to wait, a small checkpoint and a large one tell it from a
//! disk that has a rate of its own, for which the window stays; the other's is doubled for as long
//! as a doubling makes it faster, and comes to what the disk writes in about a second.
//!
//! Of each piece of a file there is a line to remember and to journal, so that their number has a
//! limit too. Many small files take a processor about as long to land as to write: where syncs are
//! short, they land while others still come and not all at the end.

use crate::units::{Bytes, Span, Time};

/// The window to begin with.
const FIRST: Bytes = Bytes::mib(64);
/// The most pieces of files that may be written and not durable: a hundred bytes each at a
/// receiver.
const MOST_PIECES: u64 = 65_536;
/// Between two checkpoints where much was written.
const REST: Span = Span::from_millis(250);
/// What much is: less is left for [`REST_OF_LITTLE`], so that a few small files are not synced one
/// by one.
const MUCH: Bytes = Bytes::mib(8);
const REST_OF_LITTLE: Span = Span::from_secs(1);
/// Where half a window is written before that, the rest is so many times the last sync: the other
/// half is for what comes during the next.
const RESTS_PER_SYNC: f64 = 0.5;
/// How much larger than a small checkpoint a large one is, and how much faster it makes the disk
/// where a sync's own time weighs: a disk with a rate of its own is as fast with both.
const LARGER: u64 = 2;
const FASTER: f64 = 1.5;
/// Checkpoints that may be too alike to tell before the window stays as it is.
const ALIKE: u32 = 4;
/// What a doubling must bring, and over how many checkpoints that is seen: what one makes durable
/// was written while the one before ran.
const WORTH: f64 = 1.3;
const TRIED: u32 = 2;

/// From so many pieces on the next checkpoint rests as long as the last took, where that was short.
const MANY: u64 = 1_024;
const SHORT_SYNC: Span = Span::from_millis(50);

/// The account of what is not durable yet.
#[derive(Debug)]
pub struct DurableWindow {
    window: u64,
    /// Written since the last checkpoint began.
    written: Written,
    /// Being made durable, since then.
    syncing: Option<(Written, Time)>,
    /// When the last checkpoint ended.
    ended: Time,
    /// What it made durable, and how long that took.
    last: Option<(u64, Span)>,
    /// Whether a writer waited since the last checkpoint began.
    was_full: bool,
    /// What became durable since the window's last change, or since it was first full.
    trial: Option<Trial>,
    /// Bytes a second that became durable, before the last change.
    before: f64,
    phase: Phase,
}

/// Bytes that are not durable, and of how many pieces of files.
#[derive(Clone, Copy, Debug, Default)]
struct Written {
    bytes: u64,
    pieces: u64,
}

/// How far the window's size is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// What the disk is like is not known yet, after so many checkpoints that were too alike.
    First { alike: u32 },
    /// It is doubled while that helps.
    Doubled,
    /// For good.
    Settled,
}

/// Checkpoints with a window of one size, in which writers had to wait.
#[derive(Clone, Copy, Debug)]
struct Trial {
    since: Time,
    bytes: u64,
    full: u32,
}

impl DurableWindow {
    /// Nothing written at `now`.
    pub fn new(now: Time) -> DurableWindow {
        DurableWindow {
            window: FIRST.0,
            written: Written::default(),
            syncing: None,
            ended: now,
            last: None,
            was_full: false,
            trial: None,
            before: 0.0,
            phase: Phase::First { alike: 0 },
        }
    }

    /// The most that may be written and not durable.
    pub fn window(&self) -> Bytes {
        Bytes(self.window)
    }

    /// Takes `bytes` of `pieces` of files in, which a writer is about to write; false where it must
    /// wait for the end of a checkpoint.
    pub fn admit(&mut self, bytes: u64, pieces: u64) -> bool {
        let lost_by_crash = self.not_durable();
        // One write may be larger than all of it.
        if lost_by_crash.bytes > 0
            && (lost_by_crash.bytes + bytes > self.window
                || lost_by_crash.pieces + pieces > MOST_PIECES)
        {
            self.was_full = true;
            return false;
        }
        self.written.bytes += bytes;
        self.written.pieces += pieces;
        true
    }

    fn not_durable(&self) -> Written {
        let syncing = self.syncing.map_or(Written::default(), |(written, _)| written);
        Written {
            bytes: self.written.bytes + syncing.bytes,
            pieces: self.written.pieces + syncing.pieces,
        }
    }

    /// When the next checkpoint is due, by what is known at `now`; `None` while nothing is written,
    /// and while one runs.
    pub fn due(&self, now: Time) -> Option<Time> {
        let Written { bytes, pieces } = self.written;
        if bytes == 0 || self.syncing.is_some() {
            return None;
        }
        if self.was_full {
            return Some(now);
        }
        let rest = if bytes >= MUCH.0 { REST } else { REST_OF_LITTLE };
        let (part, took) = self.last.map_or((4, Span::ZERO), |(_, took)| (2, took));
        let rest = match bytes * part >= self.window || pieces * part >= MOST_PIECES {
            true => rest.min(took.mul_f64(RESTS_PER_SYNC)),
            false => rest,
        };
        let rest = match pieces >= MANY && took <= SHORT_SYNC {
            true => rest.min(took),
            false => rest,
        };
        Some(self.ended + rest)
    }

    /// A checkpoint of all that is written begins.
    pub fn begin(&mut self, now: Time) {
        self.syncing = Some((std::mem::take(&mut self.written), now));
    }

    /// It ended.
    pub fn end(&mut self, now: Time) {
        let Some((Written { bytes, .. }, began)) = self.syncing.take() else { return };
        let cycle_began = std::mem::replace(&mut self.ended, now);
        let took = now.since(began);
        let before = self.last.replace((bytes, took));
        let was_full = std::mem::take(&mut self.was_full);
        match self.phase {
            Phase::First { alike } if was_full => {
                self.phase =
                    before.map_or(self.phase, |before| self.judge(before, (bytes, took), alike));
            }
            Phase::Doubled if was_full || self.trial.is_some() => {
                self.try_doubled(now, cycle_began, bytes, was_full);
            }
            _ => {}
        }
    }

    /// Tells by two checkpoints whether a sync's own time weighs.
    fn judge(&mut self, one: (u64, Span), other: (u64, Span), alike: u32) -> Phase {
        let (small, large) = if one.0 <= other.0 { (one, other) } else { (other, one) };
        let rate = |(bytes, took): (u64, Span)| bytes as f64 / took.as_secs_f64().max(1e-9);
        if small.0 * LARGER > large.0 {
            return if alike < ALIKE { Phase::First { alike: alike + 1 } } else { Phase::Settled };
        }
        if rate(large) < rate(small) * FASTER {
            return Phase::Settled;
        }
        self.before = rate((one.0 + other.0, one.1 + other.1));
        self.window *= 2;
        Phase::Doubled
    }

    fn try_doubled(&mut self, now: Time, cycle_began: Time, bytes: u64, was_full: bool) {
        let trial = self.trial.get_or_insert(Trial { since: cycle_began, bytes: 0, full: 0 });
        trial.bytes += bytes;
        trial.full += u32::from(was_full);
        if trial.full < TRIED {
            return;
        }
        let rate = trial.bytes as f64 / now.since(trial.since).as_secs_f64().max(1e-9);
        self.trial = None;
        if rate >= self.before * WORTH {
            self.before = rate;
            self.window *= 2;
        } else {
            self.window = (self.window / 2).max(FIRST.0);
            self.phase = Phase::Settled;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Rng;

    struct Disk {
        /// Bytes a second that a sync brings to the medium.
        rate: f64,
        /// What any sync takes besides.
        latency: f64,
    }

    /// Seconds for `size` bytes that come at `arrives` bytes a second in blocks of 1 MiB, the most
    /// that a crash would have lost, and the window at the end.
    fn copy(disk: &Disk, arrives: f64, size: u64, seed: u64) -> (f64, u64, u64) {
        let (mut window, mut rng) = (DurableWindow::new(Time::ZERO), Rng::new(seed));
        let (mut now, mut left, mut worst) = (0.0_f64, size, 0);
        let mut syncs_until = None;
        let at = |now: f64| Time::ZERO + Span::from_secs_f64(now);
        let mut next_block = 0.0;
        while left > 0 || window.written.bytes > 0 || window.syncing.is_some() {
            let mut progressed = false;
            if let Some(until) = syncs_until
                && now >= until
            {
                window.end(at(now));
                (syncs_until, progressed) = (None, true);
            }
            if window.due(at(now)).is_some_and(|due| due <= at(now)) {
                let bytes = window.written.bytes as f64;
                window.begin(at(now));
                let noise = 0.9 + 0.2 * rng.unit();
                syncs_until = Some(now + (disk.latency + bytes / disk.rate) * noise);
                progressed = true;
            }
            if left > 0 && now >= next_block && window.admit((1 << 20).min(left), 1) {
                left -= (1 << 20).min(left);
                // What waited does not catch up.
                next_block = f64::max(next_block, now - 0.001) + f64::from(1 << 20) / arrives;
                progressed = true;
            }
            worst = worst.max(window.not_durable().bytes);
            if !progressed {
                now += 0.000_5;
            }
            assert!(now < 600.0, "it never ends");
        }
        (now, worst, window.window)
    }

    #[test]
    fn a_fast_disk_is_not_waited_for() {
        for seed in 0..20 {
            let nvme = Disk { rate: 3e9, latency: 0.004 };
            let (took, worst, _) = copy(&nvme, 1.2e9, 2 << 30, seed);
            assert!(took < 1.05 * (2_u64 << 30) as f64 / 1.2e9 + 0.3, "seed {seed}: {took} s");
            // A quarter of a second of what arrives, and what a sync takes.
            assert!(worst < 420 << 20, "seed {seed}: {worst} bytes");
        }
    }

    #[test]
    fn a_slow_disk_holds_the_copy_to_its_rate() {
        for seed in 0..20 {
            let slow = Disk { rate: 40e6, latency: 0.01 };
            let (took, worst, window) = copy(&slow, 1e9, 400 << 20, seed);
            assert!(took < 1.15 * f64::from(400 << 20) / 40e6, "seed {seed}: {took} s");
            assert!(worst <= 64 << 20 && window <= 64 << 20, "seed {seed}: {worst} bytes");
        }
    }

    #[test]
    fn a_sync_that_takes_a_second_costs_about_a_second_of_data() {
        for seed in 0..20 {
            let late = Disk { rate: 2e9, latency: 1.0 };
            let (took, worst, _) = copy(&late, 200e6, 1 << 30, seed);
            let alone = f64::from(1 << 30) / 200e6;
            assert!(took < alone + 9.0, "seed {seed}: {took} s rather than {alone}");
            assert!(worst <= 512 << 20, "seed {seed}: {worst} bytes");
        }
    }

    #[test]
    fn little_is_left_for_a_second_and_nothing_for_ever() {
        let mut window = DurableWindow::new(Time::ZERO);
        assert_eq!(window.due(Time::ZERO), None);
        assert!(window.admit(1 << 20, 1));
        assert_eq!(window.due(Time::ZERO), Some(Time::ZERO + Span::from_secs(1)));
        assert!(window.admit(8 << 20, 1));
        assert_eq!(window.due(Time::ZERO), Some(Time::ZERO + Span::from_millis(250)));
    }

    #[test]
    fn small_files_land_while_others_come_where_syncs_are_short() {
        let at = |ms: u64| Time::ZERO + Span::from_millis(ms);
        let mut window = DurableWindow::new(Time::ZERO);
        assert!(window.admit(1_000, 1_000));
        assert_eq!(window.due(at(10)), Some(at(1_000)), "few");
        assert!(window.admit(24, 24));
        assert_eq!(window.due(at(10)), Some(at(0)));
        window.begin(at(10));
        window.end(at(12));
        assert!(window.admit(2_000, 2_000));
        assert_eq!(window.due(at(12)), Some(at(14)), "half of the time goes to syncs of 2 ms");
        window.begin(at(14));
        window.end(at(420));
        assert!(window.admit(2_000, 2_000));
        assert_eq!(window.due(at(420)), Some(at(1_420)), "a slow disk rests as with few");
    }

    #[test]
    fn a_write_larger_than_the_window_is_written_alone() {
        let mut window = DurableWindow::new(Time::ZERO);
        assert!(window.admit(1 << 30, 1) && !window.admit(1, 1));
        window.begin(Time::ZERO);
        assert!(!window.admit(1, 1));
        window.end(Time::ZERO + Span::from_millis(1));
        assert!(window.admit(1, 1));
    }

    #[test]
    fn files_of_some_bytes_fill_the_window_by_their_number() {
        let mut window = DurableWindow::new(Time::ZERO);
        let admitted = (0..1_000).take_while(|_| window.admit(100 * 50, 100)).count();
        assert_eq!(admitted, 655, "65,500 files");
        assert_eq!(window.due(Time::ZERO), Some(Time::ZERO), "who waits has it made durable");
        window.begin(Time::ZERO);
        assert!(!window.admit(50, 100), "they are not durable yet");
        window.end(Time::ZERO + Span::from_millis(1));
        assert!(window.admit(50, 100));
    }
}

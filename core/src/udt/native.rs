//! UDT's own control: additive increase by the bandwidth that is left, a decrease of a ninth, and a
//! window from the speed of arrival.
//!
//! Gu and Grossman, "UDT: UDP-based data transfer for high-speed wide area networks", Computer
//! Networks 51(7), 2007, and draft-gg-udt-03, section 5. libudt 4.11 rounds its interval up to
//! whole microseconds at a decrease, which at 10 Gbit/s is more than the decrease; this does not.

use super::rate::{Pace, PathState, RateControl, RateEvent, SYN};
use crate::congestion::SavedPath;
use crate::units::{Rng, Time};

/// Packets of the first window, and those that a window has on top of the path's.
const FIRST_WINDOW: f64 = 16.0;
/// Of the old window in the new one.
const ALPHA: f64 = 0.875;
/// Packets per SYN by which a rate grows at least.
const LEAST_INCREASE: f64 = 0.01;
/// The increase for each power of ten of the bandwidth that is left: beta, in bytes.
const BETA: f64 = 1.5e-6;
/// The interval grows by this at a decrease: the rate falls by a ninth.
const DECREASE: f64 = 1.125;
/// Decreases within one time of congestion: 0.875^5 is a half.
const MOST_DECREASES: u32 = 5;
/// A flow whose packets arrive at so much of what the path could bring has it for itself.
const ALONE: f64 = 0.9;
/// Seconds per packet: a packet in ten seconds is as good as none.
const LONGEST_INTERVAL: f64 = 10.0;

/// Packets that may have arrived of a flow that still begins.
const MOST_BEFORE: u64 = 100;

/// Where a flow stands that begins from what an earlier one saw: RFC 9959's phases within slow
/// start.
#[derive(Clone, Copy, Debug)]
enum Resuming {
    /// Reconnaissance: until the first window has arrived.
    Confirms(SavedPath),
    /// Until what was sent before packet `until` is acknowledged; `arrived` packets have since.
    Unproven { until: u64, limit: f64, arrived: f64 },
    /// Slow start goes on from there, paced, and ends at so many packets.
    Proven { limit: f64 },
    /// It has: until what was sent before packet `until` is acknowledged, arrivals say what was
    /// sent more slowly.
    Full { until: u64, limit: f64 },
}

/// The machine.
#[derive(Debug)]
pub(super) struct Native {
    interval: f64,
    window: f64,
    is_slow_start: bool,
    resuming: Option<Resuming>,
    /// When the rate was last looked at.
    looked: Time,
    /// A loss came since then.
    has_lost: bool,
    /// The interval at the last decrease: above it, less than the path's capacity was too much.
    interval_at_decrease: f64,
    /// Losses up to this packet are of a time of congestion that is known.
    congested_to: u64,
    reports: u32,
    mean_reports: f64,
    decreases: u32,
    /// Of the reports in a time of congestion, each so-manieth decreases the rate: senders that
    /// share a queue do not all do so at once.
    decrease_every: u32,
    rng: Rng,
}

impl Native {
    pub(super) fn new(seed: &Rng) -> Native {
        Native {
            interval: 0.0,
            window: FIRST_WINDOW,
            is_slow_start: true,
            resuming: None,
            looked: Time::ZERO,
            has_lost: false,
            interval_at_decrease: 0.0,
            congested_to: 0,
            reports: 0,
            mean_reports: 0.0,
            decreases: 0,
            decrease_every: 1,
            rng: seed.fork(31),
        }
    }

    fn end_slow_start(&mut self, path: &PathState) {
        self.is_slow_start = false;
        let round = path.last_rtt.unwrap_or(path.rtt) + SYN;
        // What the window says was doubled last. libudt's first reports are of intervals that it
        // has not measured yet: a packet in a second.
        let windows = self.window / round.as_secs_f64() / 2.0;
        let arriving = if path.arriving * 4.0 < windows { windows } else { path.arriving };
        self.interval = 1.0 / arriving;
        self.congested_to = path.sent;
        if path.arriving > 0.0 && path.arriving >= path.capacity * ALONE {
            // Whatever else is lost of what left until now, it left faster than that. Next to
            // others what arrived is more than a fair part, and each report of it counts.
            self.decreases = MOST_DECREASES;
        }
    }

    fn acked(&mut self, now: Time, path: &PathState, packets: u32) {
        if self.is_slow_start {
            self.window += f64::from(packets);
            self.proceed(path, f64::from(packets));
            if self.window >= path.most as f64 {
                self.window = path.most as f64;
                self.end_slow_start(path);
            }
            return;
        }
        if now.since(self.looked) < SYN {
            return;
        }
        self.looked = now;
        if path.arriving > 0.0 {
            let held = path.arriving * (path.rtt + SYN).as_secs_f64() + FIRST_WINDOW;
            self.window = self.window * ALPHA + held * (1.0 - ALPHA);
        }
        if std::mem::take(&mut self.has_lost) {
            return;
        }
        let mut left = path.capacity - 1.0 / self.interval;
        if self.interval > self.interval_at_decrease {
            left = left.min(path.capacity / 9.0);
        }
        let bytes = path.packet.0 as f64;
        let increase = match left > 0.0 {
            true => 10f64.powf((left * bytes * 8.0).log10().ceil()) * BETA / bytes,
            false => 0.0,
        };
        let syn = SYN.as_secs_f64();
        self.interval *= syn / (self.interval * increase.max(LEAST_INCREASE) + syn);
    }

    /// Takes a flow that resumes through its phases.
    fn proceed(&mut self, path: &PathState, packets: f64) {
        match &mut self.resuming {
            Some(Resuming::Confirms(saved)) if path.acknowledged as f64 >= FIRST_WINDOW => {
                let rtt = path.last_rtt.unwrap_or(path.rtt);
                let limit = saved.threshold(path.packet);
                let jump = saved.jump_packets(path.packet).min(path.most as f64);
                let is_confirmed = saved.is_confirmed_by(rtt);
                self.resuming = None;
                if is_confirmed && jump > self.window {
                    (self.window, self.interval) = (jump, rtt.as_secs_f64() / jump);
                    let until = path.sent;
                    self.resuming = Some(Resuming::Unproven { until, limit, arrived: 0.0 });
                }
            }
            Some(Resuming::Unproven { until, limit, arrived }) => {
                *arrived += packets;
                // The window does not grow until the first of what it let go has come.
                self.window -= packets;
                if path.acknowledged > *until {
                    self.resuming = Some(Resuming::Proven { limit: *limit });
                }
            }
            Some(Resuming::Proven { limit }) => {
                let limit = *limit;
                self.window = self.window.min(limit);
                let rtt = path.last_rtt.unwrap_or(path.rtt).as_secs_f64();
                self.interval = rtt / self.window;
                // Beyond what the path held before nothing is known.
                if self.window >= limit {
                    self.resuming = Some(Resuming::Full { until: path.sent, limit });
                }
            }
            Some(Resuming::Full { until, limit }) => {
                self.window = *limit;
                if path.acknowledged > *until {
                    self.resuming = None;
                    self.is_slow_start = false;
                }
            }
            _ => {}
        }
    }

    /// A loss while a flow goes by what an earlier one saw: half of what arrives is left.
    fn retreat(&mut self, path: &PathState) {
        if let Some(Resuming::Unproven { arrived, .. }) = self.resuming.take() {
            self.window = (arrived / 2.0).max(FIRST_WINDOW);
            let rtt = path.last_rtt.unwrap_or(path.rtt) + SYN;
            self.interval = self.interval.max(rtt.as_secs_f64() / self.window);
        }
    }

    fn lost(&mut self, path: &PathState, first: u64) {
        if self.is_slow_start {
            self.end_slow_start(path);
            self.retreat(path);
            if path.arriving > 0.0 {
                return;
            }
        }
        self.has_lost = true;
        if first >= self.congested_to {
            self.interval_at_decrease = self.interval;
            self.mean_reports = self.mean_reports * 0.875 + f64::from(self.reports) * 0.125;
            let most = self.mean_reports.ceil().max(1.0);
            self.decrease_every = 1 + self.rng.below(most as u64) as u32;
            (self.reports, self.decreases) = (1, 1);
        } else {
            self.reports += 1;
            if self.decreases >= MOST_DECREASES || !self.reports.is_multiple_of(self.decrease_every)
            {
                return;
            }
            self.decreases += 1;
        }
        self.congested_to = path.sent;
        self.interval = (self.interval * DECREASE).min(LONGEST_INTERVAL);
    }
}

impl RateControl for Native {
    fn handle(&mut self, now: Time, path: &PathState, event: RateEvent) {
        match event {
            RateEvent::Acked(acked) => self.acked(now, path, acked.packets),
            RateEvent::Lost { first, .. } => self.lost(path, first),
            RateEvent::Timeout if self.is_slow_start => {
                self.end_slow_start(path);
                self.retreat(path);
            }
            RateEvent::Timeout => {}
        }
    }

    fn resume(&mut self, path: &PathState, saved: SavedPath) {
        // A flow that is under way knows more than an earlier one.
        if self.is_slow_start && path.acknowledged < MOST_BEFORE {
            self.resuming = Some(Resuming::Confirms(saved));
        }
    }

    fn poll(&self) -> Pace {
        Pace { interval: self.interval, window: self.window }
    }
}

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

/// Where a flow stands that begins from what an earlier one saw: RFC 9959's phases, section 3.
///
/// `pipe` packets are those that have found a place on the path (`PipeSize`).
#[derive(Clone, Copy, Debug)]
enum Resuming {
    /// Reconnaissance: until the first window has arrived.
    Confirms(SavedPath),
    /// Until packet `first`, the jump's first, is acknowledged.
    Unvalidated { saved: SavedPath, first: u64, pipe: f64 },
    /// Until all before packet `end`, which was sent after the jump, are acknowledged: slow start
    /// goes on, paced, and a loss is the jump's.
    Validating { saved: SavedPath, end: u64, pipe: f64 },
    /// Safe retreat: no faster than `pace` for a round trip, and until all before packet `end` have
    /// come or are known to be missing.
    Retreat { end: u64, pipe: f64, pace: Pace, until: Time },
    /// Slow start goes on from there, paced, and ends at so many packets.
    Proven { limit: f64 },
    /// It has, or a retreat is over: until what was sent before packet `until` is acknowledged,
    /// arrivals say what was sent more slowly.
    Full { until: u64, limit: f64 },
}

/// Whether the newest round trip is another path's. A receiver keeps what it knows to itself for up
/// to a SYN, which is no part of the path.
fn is_another(path: &PathState, saved: &SavedPath) -> bool {
    path.last_rtt.is_some_and(|rtt| {
        !saved.is_confirmed_by(rtt) && !saved.is_confirmed_by(rtt.saturating_sub(SYN))
    })
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
        // What was sent without proof is so after slow start too.
        self.resuming = self.resuming.filter(|phase| {
            matches!(phase, Resuming::Validating { .. } | Resuming::Retreat { .. })
        });
    }

    fn acked(&mut self, now: Time, path: &PathState, packets: u32) {
        let was_slow_start = self.is_slow_start;
        if was_slow_start {
            self.window += f64::from(packets);
        }
        let retreated = matches!(self.resuming, Some(Resuming::Retreat { .. }));
        self.proceed(now, path, f64::from(packets));
        if retreated || self.holds() {
            return;
        }
        if was_slow_start {
            if self.is_slow_start && self.window >= path.most as f64 {
                self.window = path.most as f64;
                self.end_slow_start(path);
            }
            return;
        }
        if now.since(self.looked) < SYN {
            return;
        }
        self.looked = now;
        let is_held = matches!(self.resuming, Some(Resuming::Full { .. }));
        if path.arriving > 0.0 && !is_held {
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

    /// Whether nothing grows by what arrives (RFC 9959, sections 3.3 and 3.5).
    fn holds(&self) -> bool {
        matches!(self.resuming, Some(Resuming::Unvalidated { .. } | Resuming::Retreat { .. }))
    }

    /// Takes a flow that resumes through its phases.
    fn proceed(&mut self, now: Time, path: &PathState, packets: f64) {
        let rtt = path.last_rtt.unwrap_or(path.rtt);
        match self.resuming {
            Some(Resuming::Confirms(saved)) if path.acknowledged as f64 >= FIRST_WINDOW => {
                let jump = saved.jump_packets(path.packet).min(path.most as f64);
                self.resuming = None;
                if saved.is_confirmed_by(rtt) && jump > self.window {
                    (self.window, self.interval) = (jump, rtt.as_secs_f64() / jump);
                    let pipe = (path.sent - path.acknowledged) as f64;
                    self.resuming = Some(Resuming::Unvalidated { saved, first: path.sent, pipe });
                }
            }
            Some(Resuming::Unvalidated { saved, first, pipe }) => {
                // The window does not grow until the first of what it let go has come.
                self.window -= packets;
                let pipe = pipe + packets;
                self.resuming = Some(Resuming::Unvalidated { saved, first, pipe });
                if is_another(path, &saved) {
                    self.retreat(now, path);
                } else if path.acknowledged > first {
                    let flight = (path.sent - path.acknowledged) as f64;
                    let proven = pipe.max(FIRST_WINDOW);
                    if flight <= proven {
                        // It had not so much to send: nothing is on its way without proof.
                        (self.window, self.interval) = (proven, 0.0);
                        self.resuming = None;
                    } else {
                        self.window = flight;
                        let end = path.sent;
                        self.resuming = Some(Resuming::Validating { saved, end, pipe });
                    }
                }
            }
            Some(Resuming::Validating { saved, end, pipe }) => {
                let limit = saved.threshold(path.packet);
                let pipe = pipe + packets;
                self.resuming = Some(Resuming::Validating { saved, end, pipe });
                if self.is_slow_start {
                    self.window = self.window.min(limit);
                    self.interval = rtt.as_secs_f64() / self.window;
                }
                if is_another(path, &saved) {
                    self.retreat(now, path);
                } else if path.acknowledged >= end {
                    self.resuming = self.is_slow_start.then_some(Resuming::Proven { limit });
                }
            }
            Some(Resuming::Retreat { end, pipe, pace, until }) => {
                let pipe = pipe + packets;
                self.resuming = Some(Resuming::Retreat { end, pipe, pace, until });
                if now >= until && path.heard_of >= end {
                    // What has arrived is the threshold: no more leaves in a round trip. Until that
                    // is acknowledged, arrivals say how slow the retreat was.
                    let limit = self.window.min(pipe.max(FIRST_WINDOW));
                    self.window = limit;
                    self.interval = self.interval.max(rtt.as_secs_f64() / limit);
                    self.resuming = Some(Resuming::Full { until: path.sent, limit });
                }
            }
            Some(Resuming::Proven { limit }) => {
                self.window = self.window.min(limit);
                self.interval = rtt.as_secs_f64() / self.window;
                // Beyond what the path held before nothing is known.
                if self.window >= limit {
                    self.resuming = Some(Resuming::Full { until: path.sent, limit });
                }
            }
            Some(Resuming::Full { until, limit }) => {
                self.window = limit;
                if path.acknowledged > until {
                    self.resuming = None;
                    self.is_slow_start = false;
                }
            }
            _ => {}
        }
    }

    /// Where something is on its way without proof, a loss or another round trip says that the path
    /// is not what it was: half of what has arrived is left (RFC 9959, section 3.5).
    fn retreat(&mut self, now: Time, path: &PathState) {
        let (end, pipe) = match self.resuming {
            Some(Resuming::Unvalidated { pipe, .. }) => (path.sent, pipe),
            Some(Resuming::Validating { end, pipe, .. }) => (end, pipe),
            _ => return,
        };
        let window = (pipe / 2.0).max(FIRST_WINDOW);
        let round = path.last_rtt.unwrap_or(path.rtt) + SYN;
        let pace = Pace { interval: round.as_secs_f64() / window, window };
        self.resuming = Some(Resuming::Retreat { end, pipe, pace, until: now + round });
        if self.is_slow_start {
            self.end_slow_start(path);
        }
    }

    fn lost(&mut self, now: Time, path: &PathState, first: u64) {
        let was_slow_start = self.is_slow_start;
        self.retreat(now, path);
        if self.is_slow_start {
            self.end_slow_start(path);
        }
        if was_slow_start && path.arriving > 0.0 {
            return;
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
            RateEvent::Lost { first, .. } => self.lost(now, path, first),
            RateEvent::Timeout => {
                self.retreat(now, path);
                if self.is_slow_start {
                    self.end_slow_start(path);
                }
            }
        }
    }

    fn resume(&mut self, path: &PathState, saved: SavedPath) {
        // A flow that is under way knows more than an earlier one.
        if self.is_slow_start && path.acknowledged < MOST_BEFORE {
            self.resuming = Some(Resuming::Confirms(saved));
        }
    }

    fn poll(&self) -> Pace {
        match self.resuming {
            Some(Resuming::Retreat { pace, .. }) => {
                Pace { interval: self.interval.max(pace.interval), window: pace.window }
            }
            _ => Pace { interval: self.interval, window: self.window },
        }
    }
}

#[cfg(test)]
mod tests;

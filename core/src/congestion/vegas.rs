//! Vegas: a window that keeps two to four packets in the path's queues (Brakmo, Peterson, JSAC
//! 13(8), 1995).

use super::constants::Constants;
use super::control::Acked;
use super::loss_based::{LEAST, Window, WindowAlgorithm};
use super::reno;
use crate::units::{Span, Time};

/// Fewer packets than this in queues: add one (section IV.B).
const ALPHA: f64 = 2.0;
/// More than this: take one away (section IV.B).
const BETA: f64 = 4.0;
/// More than this ends slow start (section IV.C).
const GAMMA: f64 = 1.0;
/// With fewer samples of a round a delayed acknowledgement could pass for a queue: Reno
/// (tcp_vegas).
const SAMPLES: u32 = 2;

/// The window algorithm of Vegas.
#[derive(Clone, Debug)]
pub(super) struct Vegas {
    set: Constants,
    /// The least rtt ever: BaseRTT.
    base: Option<Span>,
    /// The least rtt of this round, and how many there were.
    least: Option<Span>,
    samples: u32,
    /// The round ends with a packet that was sent after this many had been delivered.
    round_ends: u64,
    /// Whether slow start grows in this round: every other one (section IV.C).
    grows: bool,
}

impl Vegas {
    pub(super) fn new(set: Constants) -> Vegas {
        Vegas { set, base: None, least: None, samples: 0, round_ends: 0, grows: true }
    }

    /// Packets in queues and the window that would leave them empty (section IV.B: Diff, and
    /// Expected times the rtt).
    fn queued(&self, packets: f64) -> Option<(f64, f64)> {
        let (base, least) = (self.base?.as_secs_f64(), self.least?.as_secs_f64());
        Some((packets * (least - base) / base, packets * base / least))
    }

    /// Once a round.
    fn adjust(&mut self, window: &mut Window, acked: f64) {
        let slow_start = window.packets < window.threshold;
        match self.queued(window.packets).filter(|_| self.samples > SAMPLES) {
            None if slow_start => drop(window.slow_start(acked)),
            None => window.add(acked / window.packets),
            Some((queued, empty)) if slow_start && queued > GAMMA => {
                window.packets = window.packets.min(empty + 1.0);
                window.threshold = window.threshold.min(window.packets);
            }
            Some(_) if slow_start => drop(window.slow_start(acked)),
            Some((queued, _)) if queued > BETA => {
                window.packets -= 1.0;
                window.threshold = window.threshold.min(window.packets);
            }
            Some((queued, _)) if queued < ALPHA => window.add(1.0),
            Some(_) => {}
        }
        window.packets = window.packets.max(LEAST);
    }
}

impl WindowAlgorithm for Vegas {
    fn acked(&mut self, _now: Time, window: &mut Window, acked: &Acked) {
        let packets = f64::from(acked.packets);
        if acked.delivered_at_send >= self.round_ends {
            self.round_ends = acked.delivered;
            if acked.window_limited {
                self.adjust(window, packets);
            }
            (self.least, self.samples) = (None, 0);
            self.grows = !self.grows || self.set == Constants::Linux;
        } else if window.packets < window.threshold && acked.window_limited && self.grows {
            window.slow_start(packets);
        }
    }

    fn congestion_avoidance(&mut self, _now: Time, _window: &mut Window, _acked: f64) {}

    fn backoff(&mut self, _now: Time, packets: f64) -> f64 {
        // As Reno: the paper's finer retransmissions are the sender's, not the window's.
        packets * reno::LEFT
    }

    fn rtt(&mut self, _now: Time, sample: Span, open: bool) {
        self.base = Some(self.base.map_or(sample, |base| base.min(sample)));
        if open {
            self.least = Some(self.least.map_or(sample, |least| least.min(sample)));
            self.samples += 1;
        }
    }

    fn recovered(&mut self, _now: Time) {
        (self.least, self.samples) = (None, 0);
    }

    fn timeout(&mut self, _now: Time) {
        (self.least, self.samples) = (None, 0);
    }
}

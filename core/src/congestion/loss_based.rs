//! What all window-based controls share: slow start, one reduction for each window of data,
//! recovery.

use super::control::{Acked, Allowed, Control, Event, Start};
use crate::units::{Span, Time};
use std::fmt;

/// The least window after a reduction, in packets (RFC 5681, equation 4).
pub(super) const LEAST: f64 = 2.0;

/// The window that an algorithm works on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) packets: f64,
    pub(super) threshold: f64,
    clamp: f64,
}

impl Window {
    /// Adds `packets`, but not beyond the clamp.
    pub(super) fn add(&mut self, packets: f64) {
        self.packets = (self.packets + packets).min(self.clamp);
    }

    /// Grows by one packet for each of `acked` up to the threshold (RFC 5681, 3.1) and returns how
    /// many are left over.
    pub(super) fn slow_start(&mut self, acked: f64) -> f64 {
        let used = acked.min((self.threshold - self.packets).max(0.0));
        self.add(used);
        acked - used
    }
}

/// How one control differs from another.
pub(super) trait WindowAlgorithm: fmt::Debug + Send {
    /// `acked` packets were acknowledged in congestion avoidance by a flow that used its window up.
    fn congestion_avoidance(&mut self, now: Time, window: &mut Window, acked: f64);

    /// The window after a loss in a window of `packets`.
    fn backoff(&mut self, now: Time, packets: f64) -> f64;

    /// Every acknowledgement outside recovery; by default slow start up to the threshold, then
    /// [`congestion_avoidance`](WindowAlgorithm::congestion_avoidance).
    fn acked(&mut self, now: Time, window: &mut Window, acked: &Acked) {
        if !acked.window_limited {
            return;
        }
        let left = window.slow_start(f64::from(acked.packets));
        if left > 0.0 {
            self.congestion_avoidance(now, window, left);
        }
    }

    /// Every acknowledgement, also in recovery.
    fn delivered(&mut self, _now: Time, _window: &Window, _packets: u32) {}

    /// An rtt sample; `open` outside recovery.
    fn rtt(&mut self, _now: Time, _sample: Span, _open: bool) {}

    /// Congestion avoidance begins again after a reduction.
    fn recovered(&mut self, _now: Time) {}

    /// All is forgotten.
    fn timeout(&mut self, _now: Time) {}
}

/// Where a flow stands between two losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    Recovery,
}

/// A window-based control: the shared part around a [`WindowAlgorithm`].
#[derive(Debug)]
pub(super) struct LossBased<L> {
    window: Window,
    phase: Phase,
    algorithm: L,
}

impl<L: WindowAlgorithm> LossBased<L> {
    pub(super) fn new(start: Start, algorithm: L) -> LossBased<L> {
        let window = Window {
            packets: start.window.min(start.clamp),
            threshold: start.threshold,
            clamp: start.clamp,
        };
        LossBased { window, phase: Phase::Open, algorithm }
    }

    fn reduce(&mut self, now: Time) {
        self.window.threshold = self.algorithm.backoff(now, self.window.packets).max(LEAST);
    }
}

impl<L: WindowAlgorithm> Control for LossBased<L> {
    fn handle(&mut self, now: Time, event: Event) {
        match event {
            Event::Rtt(sample) => self.algorithm.rtt(now, sample, self.phase == Phase::Open),
            Event::Acked(acked) => {
                self.algorithm.delivered(now, &self.window, acked.packets);
                if self.phase == Phase::Open {
                    self.algorithm.acked(now, &mut self.window, &acked);
                }
            }
            Event::Loss | Event::Ecn if self.phase == Phase::Recovery => {}
            Event::Loss => {
                self.reduce(now);
                // Proportional Rate Reduction ends recovery at the threshold (RFC 9937); the way
                // there is the sender's.
                self.window.packets = self.window.threshold;
                self.phase = Phase::Recovery;
            }
            Event::Ecn => {
                self.reduce(now);
                self.window.packets = self.window.threshold;
                self.algorithm.recovered(now);
            }
            Event::Recovered => {
                if self.phase == Phase::Recovery {
                    self.phase = Phase::Open;
                    self.algorithm.recovered(now);
                }
            }
            Event::Timeout => {
                self.reduce(now);
                self.algorithm.timeout(now);
                // The loss window (RFC 5681, 3.1).
                self.window.packets = 1.0;
                self.phase = Phase::Open;
            }
        }
    }

    fn poll(&self) -> Allowed {
        Allowed { window: self.window.packets, threshold: self.window.threshold, pacing: None }
    }
}

//! Careful Resume (RFC 9959): a flow over a path that an earlier one measured goes to half of what
//! that one had on its way, after a first round trip says that the path is the same.
//!
//! It stands around any control. The phases are the RFC's, section 4:
//!
//! | phase | window | ends |
//! |---|---|---|
//! | reconnaissance | the control's | when the first window has arrived and more is to be sent than that: with a jump, or as any flow where the path is not confirmed |
//! | unvalidated | the jump, paced over one round trip | when a packet that it sent has arrived, or is lost |
//! | validating | what was on its way, from where the control goes on | when all that was sent without proof has arrived |
//! | safe retreat | half of what has arrived | the same; then the threshold is what has arrived |
//! | normal | the control's | never |
//!
//! Beyond the RFC, slow start ends at all that the earlier flow had on its way, where that filled
//! the path, so that a flow over a path that is as it was does not overshoot it. A packet belongs
//! to the phase in which it was sent, which the count of delivered packets at that moment tells.

use super::control::{Acked, Allowed, Control, Event, SavedPath, Start};
use crate::units::{Bytes, Rate, Span, Time};
use std::fmt;

/// Of what was on its way before, at most this part is sent without proof (RFC 9959, section 3.3:
/// no more than half).
const JUMP: f64 = 0.5;
/// The path is another one where its round trip is shorter than this part of the saved one, since a
/// window would then be a higher rate (RFC 9959, section 3.2).
const LEAST_RTT: f64 = 0.5;
/// Or longer than so many times the saved one.
const MOST_RTT: f64 = 10.0;

impl SavedPath {
    /// What was on its way, in packets of `packet` bytes.
    pub(crate) fn packets(&self, packet: Bytes) -> f64 {
        self.in_flight.0 as f64 / packet.0.max(1) as f64
    }

    /// Bytes that may be sent without proof.
    pub fn jump(&self) -> Bytes {
        Bytes((self.in_flight.0 as f64 * JUMP) as u64)
    }

    /// The same in packets of `packet` bytes.
    pub(crate) fn jump_packets(&self, packet: Bytes) -> f64 {
        self.packets(packet) * JUMP
    }

    /// Packets at which slow start ends: what filled the path before; of another nothing is known.
    pub(crate) fn threshold(&self, packet: Bytes) -> f64 {
        if self.fills { self.packets(packet) } else { f64::INFINITY }
    }

    /// Whether flows whose windows are `begun` together gain by a jump. When the path is confirmed,
    /// a round trip has doubled them: a jump to less than twice that saves no round trip.
    pub fn is_worth_a_jump_from(&self, begun: Bytes) -> bool {
        self.jump().0 >= 4 * begun.0
    }

    /// Whether a path with this round trip may be the same one.
    pub(crate) fn is_confirmed_by(&self, rtt: Span) -> bool {
        let (rtt, saved) = (rtt.as_secs_f64(), self.rtt.as_secs_f64());
        rtt >= LEAST_RTT * saved && rtt < MOST_RTT * saved
    }
}

/// Where a flow stands.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Reconnaissance,
    /// Since `delivered` packets had arrived.
    Unvalidated {
        delivered: u64,
    },
    /// The same, since when nothing more is sent without proof.
    Validating {
        delivered: u64,
    },
    Retreat {
        delivered: u64,
        window: f64,
    },
    Normal,
}

/// A control that resumes.
pub(super) struct CarefulResume<M> {
    /// Makes a control that begins as it is told.
    make: M,
    start: Start,
    saved: SavedPath,
    phase: Phase,
    /// The control, made anew where a phase sets its window.
    machine: Box<dyn Control>,
    /// Packets that the path has been shown to hold (`PipeSize`).
    pipe: f64,
    /// Packets that arrived so far.
    delivered: u64,
    /// Packets on their way, as the last acknowledgement had it.
    in_flight: f64,
    least_rtt: Option<Span>,
}

impl<M: Fn(Start) -> Box<dyn Control> + Send> CarefulResume<M> {
    /// A flow under what `make` makes, which begins as `start` says, over a path of which `saved`
    /// is known.
    pub(super) fn new(make: M, start: Start, saved: SavedPath) -> CarefulResume<M> {
        let start = Start { saved: None, ..start };
        CarefulResume {
            machine: make(start),
            make,
            start,
            saved,
            phase: Phase::Reconnaissance,
            pipe: 0.0,
            delivered: 0,
            in_flight: 0.0,
            least_rtt: None,
        }
    }

    /// Packets that may be sent without proof.
    fn jump(&self) -> f64 {
        self.saved.jump_packets(self.start.packet).min(self.start.clamp)
    }

    /// Whether the round trip is the saved path's.
    fn is_confirmed(&self) -> bool {
        self.least_rtt.is_some_and(|rtt| self.saved.is_confirmed_by(rtt))
    }

    /// Has the control go on from a window and a threshold.
    fn go_on(&mut self, now: Time, window: f64, threshold: f64) {
        let start = Start { window, threshold, ..self.start };
        self.machine = (self.make)(start);
        if let Some(rtt) = self.least_rtt {
            self.machine.handle(now, Event::Rtt(rtt));
        }
    }

    fn retreat(&mut self) {
        let window = (self.pipe / 2.0).max(self.start.window);
        self.phase = Phase::Retreat { delivered: self.delivered, window };
    }

    fn acked(&mut self, now: Time, acked: Acked) {
        self.delivered = acked.delivered;
        self.in_flight = f64::from(acked.in_flight.saturating_sub(acked.packets));
        let packets = f64::from(acked.packets);
        match self.phase {
            Phase::Normal => self.machine.handle(now, Event::Acked(acked)),
            Phase::Reconnaissance => {
                let before = self.machine.poll().window;
                self.machine.handle(now, Event::Acked(acked));
                if (acked.delivered as f64) < self.start.window {
                    return;
                }
                if !self.is_confirmed() || before >= self.jump() {
                    self.phase = Phase::Normal;
                    return;
                }
                // A flow that has no use for its first window has none for a jump yet: of QUIC's,
                // what arrived may be its handshake. One that is paced is never held by its window,
                // but has more than the first on its way by now.
                if !acked.window_limited && f64::from(acked.in_flight) <= self.start.window {
                    return;
                }
                self.pipe = self.in_flight;
                self.phase = Phase::Unvalidated { delivered: acked.delivered };
            }
            Phase::Unvalidated { delivered } => {
                self.pipe += packets;
                if acked.delivered_at_send < delivered {
                    return;
                }
                let on_way = f64::from(acked.in_flight);
                if on_way <= self.pipe {
                    // It had not so much to send: nothing is on its way without proof.
                    self.go_on(now, self.pipe.max(self.start.window), f64::INFINITY);
                    self.phase = Phase::Normal;
                } else {
                    let threshold = self.saved.threshold(self.start.packet).min(self.start.clamp);
                    self.go_on(now, on_way.min(self.jump()), threshold);
                    self.phase = Phase::Validating { delivered: acked.delivered };
                    self.machine.handle(now, Event::Acked(acked));
                }
            }
            Phase::Validating { delivered } => {
                self.pipe += packets;
                self.machine.handle(now, Event::Acked(acked));
                if acked.delivered_at_send >= delivered {
                    self.phase = Phase::Normal;
                }
            }
            Phase::Retreat { delivered, window } => {
                self.pipe += packets;
                // What was sent at the count itself was sent before the loss was found.
                if acked.delivered_at_send > delivered {
                    self.go_on(now, window, self.pipe);
                    self.phase = Phase::Normal;
                }
            }
        }
    }
}

impl<M> fmt::Debug for CarefulResume<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CarefulResume({:?}, {:?})", self.phase, self.machine)
    }
}

impl<M: Fn(Start) -> Box<dyn Control> + Send> Control for CarefulResume<M> {
    fn handle(&mut self, now: Time, event: Event) {
        if let Event::Rtt(sample) = event {
            self.least_rtt = Some(self.least_rtt.map_or(sample, |least| least.min(sample)));
        }
        match (event, self.phase) {
            (Event::Acked(acked), _) => self.acked(now, acked),
            (Event::Loss | Event::Ecn, Phase::Unvalidated { .. } | Phase::Validating { .. }) => {
                self.retreat();
            }
            // Half has been given back, for all that was sent without proof.
            (Event::Loss | Event::Ecn | Event::Recovered, Phase::Retreat { .. }) => {}
            (Event::Timeout, Phase::Reconnaissance | Phase::Normal) | (Event::Rtt(_), _) => {
                self.machine.handle(now, event);
            }
            (Event::Timeout, _) => {
                self.go_on(now, self.start.window, self.pipe.max(self.start.window));
                self.machine.handle(now, event);
                self.phase = Phase::Normal;
            }
            (_, Phase::Reconnaissance) => {
                self.machine.handle(now, event);
                self.phase = Phase::Normal;
            }
            _ => self.machine.handle(now, event),
        }
    }

    fn poll(&self) -> Allowed {
        let allowed = self.machine.poll();
        match self.phase {
            Phase::Unvalidated { .. } => {
                let window = self.jump();
                let rtt = self.least_rtt.unwrap_or(self.saved.rtt);
                let bits = window * self.start.packet.0 as f64 * 8.0;
                let pacing = Rate::from_bps((bits / rtt.as_secs_f64().max(1e-9)) as u64);
                Allowed { window, pacing: Some(pacing), ..allowed }
            }
            Phase::Retreat { window, .. } => Allowed { window, threshold: window, pacing: None },
            Phase::Reconnaissance | Phase::Validating { .. } | Phase::Normal => allowed,
        }
    }
}

#[cfg(test)]
mod tests;

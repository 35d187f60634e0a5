//! A control of `core/congestion` for a UDT flow: BBR or a held rate, which need neither NAKs nor
//! packet pairs.

use super::rate::{Pace, PathState, RateControl, RateEvent, SYN};
use crate::congestion::{Algorithm, Constants, Control, Event, Start, Yielded};
use crate::units::{Bytes, Rate, Rng, Time};

/// Tells a control what it wants to know of a flow, in its words.
#[derive(Debug)]
pub(super) struct ModelBased {
    control: Box<dyn Control>,
    packet: Bytes,
    /// In recovery until all up to this packet is acknowledged.
    recovery: Option<u64>,
    /// What has arrived beyond the first that is missing, or was given up: not in flight.
    beyond: u64,
}

impl ModelBased {
    pub(super) fn bbr(packet: Bytes, seed: &Rng) -> ModelBased {
        ModelBased::new(Algorithm::Bbr, Start { packet, ..Start::default() }, seed)
    }

    /// Of a rate that was booked: bits on an Ethernet's wire.
    pub(super) fn held(rate: Rate, packet: Bytes, seed: &Rng) -> ModelBased {
        let start = Start { packet, held: Some(rate), ..Start::default() };
        ModelBased::new(Algorithm::Held, start, seed)
    }

    fn new(algorithm: Algorithm, start: Start, seed: &Rng) -> ModelBased {
        let packet = start.packet;
        let control = algorithm.control(Constants::Linux, start, seed);
        ModelBased { control, packet, recovery: None, beyond: 0 }
    }

    /// Seconds between two packets at `rate`.
    fn interval(&self, rate: Rate) -> f64 {
        rate.time_for(self.packet).as_secs_f64()
    }

    /// Packets that may have arrived without a word: a receiver keeps what it knows to itself for
    /// up to a SYN, which on a short path is longer than all that BBR has in flight.
    fn unheard(&self, pacing: Option<Rate>) -> f64 {
        let interval = pacing.map_or(0.0, |rate| self.interval(rate));
        if interval > 0.0 { SYN.as_secs_f64() / interval } else { 0.0 }
    }
}

impl RateControl for ModelBased {
    fn handle(&mut self, now: Time, path: &PathState, event: RateEvent) {
        self.beyond = path.beyond;
        match event {
            RateEvent::Acked(mut acked) => {
                // What the window leaves out is not on its way for the control either: its probe
                // for the round trip waits until no more than its least window is.
                let unheard = self.unheard(self.control.poll().pacing) as u32;
                acked.in_flight = acked.in_flight.saturating_sub(unheard);
                if self.recovery.is_some_and(|end| path.acknowledged >= end) {
                    self.recovery = None;
                    self.control.handle(now, Event::Recovered);
                }
                if let Some(rtt) = path.last_rtt {
                    self.control.handle(now, Event::Rtt(rtt));
                }
                self.control.handle(now, Event::Acked(acked));
            }
            RateEvent::Lost { .. } if self.recovery.is_none() => {
                self.recovery = Some(path.sent);
                self.control.handle(now, Event::Loss);
            }
            RateEvent::Lost { .. } => {}
            RateEvent::Timeout => self.control.handle(now, Event::Timeout),
        }
    }

    fn poll(&self) -> Pace {
        let allowed = self.control.poll();
        let unheard = self.unheard(allowed.pacing);
        let interval = allowed.pacing.map_or(0.0, |rate| self.interval(rate));
        Pace { interval, window: allowed.window + unheard + self.beyond as f64 }
    }

    fn yielded(&self) -> Option<Yielded> {
        self.control.yielded()
    }
}

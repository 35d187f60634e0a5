//! A rate that was booked: sent from the first round trip on, losses made good and no rate given
//! back.
//!
//! Only for a path that is reserved for the flow. Where loss or a queue shows for several rounds
//! that it is not, the rate is given up step by step, and [`HeldControl::yielded`] says why. Rounds
//! are counted by time, since a flow that repairs losses has no sample of each round trip.

use super::control::{Allowed, Control, Event, Start, YieldReason, Yielded};
use crate::units::{Bytes, Rate, Span, Time};
use crate::wan::frames::wire_bytes;

/// A part of the packets of a round that a reserved path does not lose; so many packets are chance,
/// though, however short the round.
const MOST_LOST: f64 = 0.02;
const CHANCE: u64 = 2;
/// A least round trip of a round that is longer than the least ever by this factor, and by
/// [`QUEUED_LEAST`], has a queue in it.
const QUEUED: f64 = 1.5;
const QUEUED_LEAST: Span = Span::from_millis(10);
/// A round is the least round trip, and at least so long: on a short path a few packets say
/// nothing.
const LEAST_ROUND: Span = Span::from_millis(20);
/// Rounds after each other before a step.
const BAD_ROUNDS: u32 = 3;
/// What is kept of the rate at a step, and the least of the booked one.
const KEPT: f64 = 0.85;
const LEAST: f64 = 0.05;
/// The window in least round trips, each with [`QUEUED_LEAST`]: a packet that is lost twice is not
/// waited for, and no queue grows for ever.
const WINDOWS: f64 = 4.0;
/// The least window, in packets.
const LEAST_WINDOW: f64 = 64.0;

/// The machine.
#[derive(Debug)]
pub(super) struct HeldControl {
    /// As booked: bits on an Ethernet's wire. Without it a flow has its first window and no more.
    rate: Option<Rate>,
    packet: Bytes,
    first_window: f64,
    clamp: f64,
    /// The part of the rate that is sent.
    part: f64,
    /// The least round trip ever, of the last round, and of this one.
    least_rtt: Option<Span>,
    last_rtt: Option<Span>,
    round_rtt: Option<Span>,
    round_began: Option<Time>,
    /// Packets that had arrived and been lost when the round began.
    delivered: u64,
    lost: u64,
    bad_rounds: u32,
    why: Option<YieldReason>,
}

impl HeldControl {
    pub(super) fn new(start: Start) -> HeldControl {
        HeldControl {
            rate: start.held,
            packet: start.packet,
            first_window: start.window,
            clamp: start.clamp,
            part: 1.0,
            least_rtt: None,
            last_rtt: None,
            round_rtt: None,
            round_began: None,
            delivered: 0,
            lost: 0,
            bad_rounds: 0,
            why: None,
        }
    }

    /// What is sent now of a booked `rate`: packets a second.
    fn packets(&self, rate: Rate) -> f64 {
        rate.as_bps() as f64 * self.part / (wire_bytes(self.packet.0) * 8) as f64
    }

    /// A round in which so many packets arrived and were lost is over.
    fn round(&mut self, arrived: u64, lost: u64) {
        let loses = lost > CHANCE && lost as f64 > MOST_LOST * (arrived + lost) as f64;
        let before = std::mem::replace(&mut self.last_rtt, self.round_rtt);
        let queues = self.least_rtt.zip(self.round_rtt.take()).is_some_and(|(least, of_round)| {
            of_round > least.mul_f64(QUEUED) && of_round > least + QUEUED_LEAST
        });
        // What was given up is enough for a queue that becomes shorter.
        let drains = queues && before.zip(self.last_rtt).is_some_and(|(old, new)| new < old);
        match (loses, queues) {
            (false, true) if drains => {}
            (false, false) => self.bad_rounds = 0,
            _ => self.bad_rounds += 1,
        }
        if self.bad_rounds >= BAD_ROUNDS {
            self.bad_rounds = 0;
            self.part = (self.part * KEPT).max(LEAST);
            self.why = Some(if loses { YieldReason::Loss } else { YieldReason::Queue });
        }
    }
}

impl Control for HeldControl {
    fn handle(&mut self, now: Time, event: Event) {
        match event {
            Event::Rtt(rtt) => {
                for least in [&mut self.least_rtt, &mut self.round_rtt] {
                    *least = Some(least.map_or(rtt, |least| least.min(rtt)));
                }
            }
            Event::Acked(acked) => {
                let began = *self.round_began.get_or_insert(now);
                let long = self.least_rtt.unwrap_or_default().max(LEAST_ROUND);
                if now.since(began) >= long {
                    let arrived = acked.delivered.saturating_sub(self.delivered);
                    self.round(arrived, acked.lost.saturating_sub(self.lost));
                    (self.round_began, self.delivered, self.lost) =
                        (Some(now), acked.delivered, acked.lost);
                }
            }
            Event::Loss | Event::Ecn | Event::Recovered | Event::Timeout => {}
        }
    }

    fn poll(&self) -> Allowed {
        let threshold = f64::INFINITY;
        let Some(rate) = self.rate else {
            return Allowed { window: self.first_window, threshold, pacing: None };
        };
        let packets = self.packets(rate);
        let window = self.least_rtt.map_or(f64::INFINITY, |rtt| {
            (packets * (rtt + QUEUED_LEAST).as_secs_f64() * WINDOWS).max(LEAST_WINDOW)
        });
        let pacing = Rate::from_bps((packets * (self.packet.0 * 8) as f64).max(1.0) as u64);
        Allowed { window: window.min(self.clamp), threshold, pacing: Some(pacing) }
    }

    fn yielded(&self) -> Option<Yielded> {
        let booked = self.rate?;
        let rate = Rate::from_bps((booked.as_bps() as f64 * self.part) as u64);
        self.why.map(|why| Yielded { rate, booked, why })
    }
}

#[cfg(test)]
mod tests;

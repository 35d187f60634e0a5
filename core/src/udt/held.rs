//! A rate that was booked: sent from the first packet on, losses made good and no rate given back.
//!
//! Only for a path that is reserved. When loss or a queue shows for several round trips that it is
//! not, the rate is given up step by step, and the control says so.

use super::rate::{Pace, PathState, RateControl, RateEvent};
use crate::units::{Bytes, Rate, Span, Time};
use crate::wan::frames::wire_bytes;

/// A part of the packets of a round trip that a reserved path does not lose.
const MOST_LOST: f64 = 0.02;
/// A round trip longer than the least by this factor, and by [`QUEUED_LEAST`], has a queue in it.
const QUEUED: f64 = 1.5;
const QUEUED_LEAST: Span = Span::from_millis(10);
/// Round trips after each other before a step.
const BAD_ROUNDS: u32 = 3;
/// What is kept of the rate at a step, and the least of the booked one.
const KEPT: f64 = 0.85;
const LEAST: f64 = 0.05;
/// The window in round trips: a packet that is lost twice is not waited for.
const ROUNDS: f64 = 4.0;

/// The machine.
#[derive(Debug)]
pub(super) struct Held {
    /// Packets per second as booked, and the part of it that is sent.
    rate: f64,
    part: f64,
    window: f64,
    /// The least round-trip time ever, and of this round.
    least_rtt: Option<Span>,
    round_rtt: Option<Span>,
    /// A round is over when all that was sent at its beginning is acknowledged.
    round_ends: u64,
    round_began: u64,
    lost: u64,
    bad_rounds: u32,
    yielded: Option<&'static str>,
}

impl Held {
    pub(super) fn new(rate: Rate, packet: Bytes) -> Held {
        let packets = rate.as_bps() as f64 / (wire_bytes(packet.0) * 8) as f64;
        Held {
            rate: packets,
            part: 1.0,
            window: f64::INFINITY,
            least_rtt: None,
            round_rtt: None,
            round_ends: 0,
            round_began: 0,
            lost: 0,
            bad_rounds: 0,
            yielded: None,
        }
    }

    fn round(&mut self, path: &PathState) {
        let passed = path.acknowledged - self.round_began;
        let loses = self.lost as f64 > MOST_LOST * passed as f64;
        let queues = self.least_rtt.zip(self.round_rtt.take()).is_some_and(|(least, of_round)| {
            of_round > least.mul_f64(QUEUED) && of_round > least + QUEUED_LEAST
        });
        self.bad_rounds = if loses || queues { self.bad_rounds + 1 } else { 0 };
        if self.bad_rounds >= BAD_ROUNDS {
            self.bad_rounds = 0;
            self.part = (self.part * KEPT).max(LEAST);
            self.yielded = Some(match loses {
                true => "the path loses what it was booked for",
                false => "a queue stands on the path that was booked",
            });
        }
        (self.round_began, self.round_ends, self.lost) = (path.acknowledged, path.sent, 0);
    }
}

impl RateControl for Held {
    fn handle(&mut self, _now: Time, path: &PathState, event: RateEvent) {
        if let Some(rtt) = path.last_rtt {
            for least in [&mut self.least_rtt, &mut self.round_rtt] {
                *least = Some(least.map_or(rtt, |least| least.min(rtt)));
            }
        }
        match event {
            RateEvent::Acked(_) => {
                self.window = (self.rate * path.rtt.as_secs_f64() * ROUNDS).max(1024.0);
                if path.acknowledged >= self.round_ends && path.acknowledged > self.round_began {
                    self.round(path);
                }
            }
            RateEvent::Lost { packets, .. } => self.lost += packets,
            RateEvent::Timeout => {}
        }
    }

    fn poll(&self) -> Pace {
        Pace { interval: 1.0 / (self.rate * self.part).max(1e-3), window: self.window }
    }

    fn yielded(&self) -> Option<&'static str> {
        self.yielded
    }
}

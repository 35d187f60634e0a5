//! Paces a transfer in slow start to what arrives, from when the round trip grows on, before the
//! queue that makes it grow overflows.
//!
//! Slow start doubles what is on its way in each round trip, and that a path is full is seen a
//! round trip late: on a long, fast one gigabits are lost at once, and to send them again takes
//! seconds. HyStart++ (RFC 9406) ends it by the round trip of each round's first acknowledgements;
//! of Linux's cubic those find the queue empty where data still comes in bursts, and the next come
//! a round trip later. Here all channels are looked at several times a round trip, by the same
//! threshold. A rate can be given back, which a window that was taken away for a delay that was no
//! queue cannot: where the round trip is short again, the rate grows as before.
//!
//! It ends where the windows are full: a congestion control holds the channels then.

use crate::units::{Bytes, Rate, Span, Time};
use std::collections::VecDeque;

/// Over a shorter path slow start is over before anybody looks, and sends little again.
const LEAST_RTT: Span = Span::from_millis(30);
/// So often it is looked at in a round trip, but no more often than that takes.
const LOOKS: f64 = 16.0;
const LEAST_LOOK: Span = Span::from_millis(5);

/// What the round trip is longer by than the least where a queue is forming (RFC 9406, section
/// 4.3).
const RTT_DIVISOR: f64 = 8.0;
const LEAST_THRESHOLD: Span = Span::from_millis(4);
const MOST_THRESHOLD: Span = Span::from_millis(16);

/// The part of a round trip over which a rate is looked for that the path carries: data still comes
/// in bursts, and a whole round trip's rate is half of the path's.
const BURST_PART: f64 = 0.25;

/// A full path carries in a round trip what was on its way at the beginning of the one before, a
/// quarter of what slow start has on its way now. Less is a delay of something else.
const LEAST_PART: f64 = 0.25;

/// What is sent grows so in a round trip without a queue (RFC 9406 has a quarter of slow start's
/// growth), so with one, and so where that goes on for long, until full windows end it.
const GROWTH: f64 = 1.25;
const GROWTH_IN_QUEUE: f64 = 1.005;
const LATE_GROWTH_IN_QUEUE: f64 = 1.05;
const LATE_ROUNDS: u32 = 64;
/// Of the best that arrived in a round trip so much is sent at least: the next may have been of
/// what a busy host sent late.
const OF_BEST: f64 = 0.9;
/// Whether a queue was one, and no delay of something else, shows in the first round trips: until
/// then a rate without one grows as slow start has it.
const DOUBTED_ROUNDS: u32 = 16;
const SLOW_START: f64 = 2.0;
/// Round trips with a queue from which on it is one for certain.
const CERTAIN_ROUNDS: u32 = 2;
/// A rate of which less than this part arrived is not what held the channels: a store was. What
/// arrived was sent a round trip ago, when the rate had not grown.
const USED: f64 = 0.75;
/// Nor is it where so much of the windows is on its way.
const FULL: f64 = 0.95;

/// What a look at a transfer's TCP channels shows.
#[derive(Clone, Copy, Debug)]
pub struct SlowStartSample {
    /// When.
    pub at: Time,
    /// Bytes that have reached the receiver since the start.
    pub delivered: Bytes,
    /// Bytes on their way.
    pub in_flight: Bytes,
    /// Bytes that the congestion windows let be on their way.
    pub windows: Bytes,
    /// Smoothed round-trip time of the channel in the middle: the bursts of one may find the queue
    /// empty that those of the others fill.
    pub rtt: Span,
    /// The least round-trip time of any channel.
    pub min_rtt: Span,
    /// Segments sent again since the start.
    pub retransmits: u64,
    /// Whether a channel's window is below its slow-start threshold.
    pub is_slow_start: bool,
}

impl SlowStartSample {
    /// Whether a queue is forming.
    fn has_queue(&self) -> bool {
        let threshold = self.min_rtt.mul_f64(1.0 / RTT_DIVISOR);
        self.rtt >= self.min_rtt + threshold.clamp(LEAST_THRESHOLD, MOST_THRESHOLD)
    }

    /// Whether a path that carries `rate`, in bits a second, is full of what is on its way.
    fn is_filled_by(&self, rate: f64) -> bool {
        rate / 8.0 * self.rtt.as_secs_f64() >= self.in_flight.0 as f64 * LEAST_PART
    }

    /// Whether windows, and nothing else, hold the channels back.
    fn is_full(&self) -> bool {
        !self.is_slow_start && self.in_flight.0 as f64 >= self.windows.0 as f64 * FULL
    }
}

/// What the channels together are to be held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlowStartPace {
    /// To this rate.
    At(Rate),
    /// To none any more.
    Free,
}

/// Watches a transfer until its slow start is over.
#[derive(Debug, Default)]
pub struct SlowStartPacer {
    /// Samples of the last round trip.
    recent: VecDeque<(Time, Bytes)>,
    /// Segments sent again before the first look.
    retransmits: Option<u64>,
    state: State,
}

#[derive(Debug, Default)]
enum State {
    /// Slow start goes on as it likes.
    #[default]
    Watches,
    Holds(Hold),
    Over,
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    /// In bits a second; and in the round trip before.
    rate: f64,
    before: f64,
    /// The best that arrived in a round trip.
    best: f64,
    /// Where the round trip began that is under way.
    round: SlowStartSample,
    rounds: u32,
    /// Round trips with a queue, one behind the other, up to now.
    queued_rounds: u32,
    /// Whether there was a queue in its second half: bursts that made one before are over then.
    has_queue: bool,
    /// Whether there was none in the last one.
    is_growing: bool,
}

impl SlowStartPacer {
    /// How long to wait for the next look at a path of `min_rtt`; `None` when none is needed.
    pub fn next_look(&self, min_rtt: Span) -> Option<Span> {
        let is_over = matches!(self.state, State::Over);
        (!is_over).then(|| min_rtt.mul_f64(1.0 / LOOKS).max(LEAST_LOOK))
    }

    /// Whether channels are held now.
    pub fn holds(&self) -> bool {
        matches!(self.state, State::Holds(_))
    }

    /// The rate at which the path is full, once that is certain: a queue that stays for some round
    /// trips is no delay of something else.
    pub fn full_rate(&self) -> Option<Rate> {
        let State::Holds(hold) = &self.state else { return None };
        (hold.queued_rounds >= CERTAIN_ROUNDS).then(|| Rate::from_bps(hold.rate as u64))
    }

    /// There is nothing to look for any more.
    pub fn end(&mut self) {
        self.state = State::Over;
    }

    /// Takes in a look; returns what changes.
    pub fn handle(&mut self, sample: SlowStartSample) -> Option<SlowStartPace> {
        let first = *self.retransmits.get_or_insert(sample.retransmits);
        self.remember(&sample);
        let burst = if sample.has_queue() { self.burst(&sample) } else { None };
        match &mut self.state {
            State::Over => None,
            State::Watches => {
                // What was lost before a queue was seen has ended slow start.
                let is_over = !sample.is_slow_start || sample.retransmits > first;
                if is_over || sample.min_rtt < LEAST_RTT {
                    self.state = State::Over;
                    return None;
                }
                let rate = burst?;
                self.state = State::Holds(Hold::new(rate, sample));
                Some(pace(rate))
            }
            State::Holds(hold) => {
                let took = sample.at.since(hold.round.at);
                if let Some(rate) = burst.filter(|_| hold.is_growing) {
                    hold.fill(rate, sample);
                    return Some(pace(hold.rate));
                }
                hold.has_queue |= took >= sample.rtt.mul_f64(0.5) && sample.has_queue();
                if took < sample.rtt {
                    return None;
                }
                if hold.turn(&sample, took) {
                    self.state = State::Over;
                    return Some(SlowStartPace::Free);
                }
                Some(pace(hold.rate))
            }
        }
    }

    fn remember(&mut self, sample: &SlowStartSample) {
        self.recent.push_back((sample.at, sample.delivered));
        while self.recent.get(1).is_some_and(|next| sample.at.since(next.0) >= sample.min_rtt) {
            self.recent.pop_front();
        }
    }

    /// The best rate of a burst in the last round trip, in bits a second, where what is on its way
    /// fills a path that carries it.
    fn burst(&self, sample: &SlowStartSample) -> Option<f64> {
        let least = sample.min_rtt.mul_f64(BURST_PART);
        let from = |begin: &(Time, Bytes)| {
            let end = self.recent.iter().find(|end| end.0.since(begin.0) >= least)?;
            Some(rate_of(begin.1, end.1, end.0.since(begin.0)))
        };
        let best = self.recent.iter().filter_map(from).reduce(f64::max);
        best.filter(|&rate| sample.is_filled_by(rate))
    }
}

impl Hold {
    fn new(rate: f64, round: SlowStartSample) -> Hold {
        Hold {
            rate,
            before: rate,
            best: 0.0,
            round,
            rounds: 0,
            queued_rounds: 0,
            has_queue: false,
            is_growing: false,
        }
    }

    /// There is a queue again, at a rate that carries `burst`.
    fn fill(&mut self, burst: f64, round: SlowStartSample) {
        self.rate = self.rate.min(burst);
        (self.before, self.round) = (self.rate, round);
        (self.has_queue, self.is_growing) = (false, false);
    }

    /// A round trip is over; returns whether the hold is.
    fn turn(&mut self, sample: &SlowStartSample, took: Span) -> bool {
        let arrived = rate_of(self.round.delivered, sample.delivered, took);
        let loses = sample.retransmits > self.round.retransmits;
        let has_queue = std::mem::take(&mut self.has_queue) || loses;
        self.rounds += 1;
        self.round = *sample;
        self.best = self.best.max(arrived);
        self.is_growing = !has_queue;
        self.queued_rounds = if has_queue { self.queued_rounds + 1 } else { 0 };
        let is_used = arrived >= self.before * USED;
        self.before = self.rate;
        if has_queue {
            let is_late = self.rounds > LATE_ROUNDS;
            let growth = if is_late { LATE_GROWTH_IN_QUEUE } else { GROWTH_IN_QUEUE };
            self.rate = arrived.max(self.best * OF_BEST) * growth;
        } else if is_used {
            self.rate *= if self.rounds > DOUBTED_ROUNDS { GROWTH } else { SLOW_START };
        }
        sample.is_full()
    }
}

fn rate_of(before: Bytes, after: Bytes, took: Span) -> f64 {
    Rate::of(Bytes(after.0.saturating_sub(before.0)), took).as_bps() as f64
}

fn pace(rate: f64) -> SlowStartPace {
    SlowStartPace::At(Rate::from_bps(rate as u64))
}

#[cfg(test)]
mod tests;

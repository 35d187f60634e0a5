//! One direction of a link as a machine: packets in, deliveries and drops out, nothing but
//! descriptors.

use super::counters::{Cause, Counters};
use super::frames::Frames;
use super::impairments::{FrameOutcome, Impairments};
use super::jitter::Jitter;
use super::queue::Queue;
use super::script::Change;
use super::settings::Direction;
use crate::units::{Bytes, Rate, Rng, Span, Time};
use std::collections::VecDeque;
use std::ops::Range;

/// A packet offered to the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The caller's name for it.
    pub token: u64,
    /// What it is on the wire.
    pub frames: Frames,
}

/// What the link says when polled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// These frames of the packet are at the far end.
    Deliver {
        /// The packet.
        token: u64,
        /// Which of its frames.
        frames: Range<u32>,
        /// When their last bit arrived: at or before the `now` of the poll.
        due: Time,
        /// When there is one: a payload bit of the only frame is to be flipped, chosen by this
        /// number.
        flip: Option<u64>,
    },
    /// These frames of the packet will never arrive.
    Dropped {
        /// The packet.
        token: u64,
        /// Which of its frames.
        frames: Range<u32>,
        /// Why.
        cause: Cause,
    },
    /// Nothing until this time, or until the next `handle` when there is none.
    Wait(Option<Time>),
}

/// Frames between the queue and the far end.
#[derive(Clone, Debug)]
struct Flight {
    token: u64,
    frames: Range<u32>,
    bytes: u64,
    /// When the last bit leaves.
    leaves: Time,
    /// When it arrives.
    due: Time,
    flip: Option<u64>,
}

/// One direction of a link. See the [module](super) for what it does to a frame.
#[derive(Clone, Debug)]
pub struct OneWayLink {
    one_way_delay: Span,
    queue: Queue,
    impairments: Impairments,
    jitter: Jitter,
    /// Changes to come, in order of time.
    script: VecDeque<(Time, Change)>,
    outage_until: Time,
    lose_next: u64,
    flights: VecDeque<Flight>,
    drops: VecDeque<Output>,
    last_due: Time,
    counters: Counters,
}

impl OneWayLink {
    /// An idle link that begins at `now`, with `changes` at spans from then, and random choices
    /// from `seed`.
    ///
    /// The two directions of a path want seeds of their own: [`Rng::fork`] gives them.
    pub fn new(
        now: Time,
        direction: &Direction,
        changes: impl IntoIterator<Item = (Span, Change)>,
        seed: &Rng,
    ) -> OneWayLink {
        let mut script: Vec<(Time, Change)> = Vec::new();
        for (at, change) in changes {
            script.push((now + at, change));
            if let Change::Cross(_, Some(span)) = change {
                script.push((now + at + span, Change::Cross(Rate::from_bps(0), None)));
            }
        }
        script.sort_by_key(|&(at, _)| at);
        OneWayLink {
            one_way_delay: direction.one_way_delay,
            queue: Queue::new(now, direction.rate, direction.queue),
            impairments: Impairments::new(direction, seed),
            jitter: Jitter::new(direction.jitter, direction.reorder, seed),
            script: script.into(),
            outage_until: now,
            lose_next: 0,
            flights: VecDeque::new(),
            drops: VecDeque::new(),
            last_due: now,
            counters: Counters::default(),
        }
    }

    /// Offers `packet` to the link at `now`; times must not run backwards.
    pub fn handle(&mut self, now: Time, packet: Packet) {
        self.advance(now);
        let Packet { token, frames } = packet;
        let all = 0..frames.count();
        self.counters.packets += 1;
        self.counters.frames += u64::from(frames.count());
        self.counters.bytes += frames.carried_bytes(&all);

        let scripted =
            if now < self.outage_until { frames.count() } else { self.lose(frames.count()) };
        self.drop_frames(token, 0..scripted, Cause::Outage);
        let accepted = self.accepted(&frames, scripted..frames.count());
        self.drop_frames(token, accepted.end..frames.count(), Cause::Queue);
        if !accepted.is_empty() {
            self.send(token, &frames, accepted);
        }
    }

    /// What has happened until `now`. Poll until it says [`Output::Wait`].
    pub fn poll(&mut self, now: Time) -> Output {
        self.advance(now);
        if let Some(drop) = self.drops.pop_front() {
            return drop;
        }
        if self.flights.front().is_some_and(|flight| flight.due <= now)
            && let Some(flight) = self.flights.pop_front()
        {
            self.counters.delivered_frames += u64::from(flight.frames.end - flight.frames.start);
            self.counters.delivered_bytes += flight.bytes;
            self.counters.flipped_frames += u64::from(flight.flip.is_some());
            return Output::Deliver {
                token: flight.token,
                frames: flight.frames,
                due: flight.due,
                flip: flight.flip,
            };
        }
        // A change of rate may bring the next arrival forward, so it is worth waking for.
        let due = self.flights.front().map(|flight| flight.due);
        let change = self.script.front().map(|&(at, _)| at);
        Output::Wait(due.map(|due| change.map_or(due, |change| change.min(due))))
    }

    /// What has been counted so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Bytes on the wire that wait or are being sent at `now`, cross-traffic included; zero when
    /// the wire is idle.
    pub fn backlog(&mut self, now: Time) -> Bytes {
        self.advance(now);
        self.queue.backlog()
    }

    /// When the wire will be idle if nothing more is offered: at or before `now` when it is. A
    /// packet offered before then is delivered at the same time as one offered now.
    pub fn idle_at(&mut self, now: Time) -> Time {
        self.advance(now);
        self.queue.drained_at()
    }

    /// Plays the script and lets the queue drain until `now`.
    fn advance(&mut self, now: Time) {
        while let Some(&(at, change)) = self.script.front().filter(|(at, _)| *at <= now) {
            self.script.pop_front();
            self.make(at, change);
        }
        self.queue.advance(now);
    }

    /// Makes a change at `now` that no script foresaw; times must not run backwards.
    pub fn change(&mut self, now: Time, change: Change) {
        self.advance(now);
        self.make(now, change);
    }

    fn make(&mut self, at: Time, change: Change) {
        self.queue.advance(at);
        match change {
            Change::Burst(bytes) => self.queue.burst(bytes),
            Change::Cross(rate, _) => self.queue.set_cross(rate),
            Change::Lose(frames) => self.lose_next += frames,
            Change::Outage(span) => self.outage_until = self.outage_until.max(at + span),
            Change::Rate(rate) => self.change_rate(at, rate),
        }
    }

    /// Frames that have not left at `at` take their time at the new rate.
    fn change_rate(&mut self, at: Time, rate: Rate) {
        let before = self.queue.set_rate(rate);
        let stretch = before.as_bps() as f64 / self.queue.rate().as_bps() as f64;
        for flight in self.flights.iter_mut().filter(|flight| flight.leaves > at) {
            let leaves = at + flight.leaves.since(at).mul_f64(stretch);
            flight.due = leaves + flight.due.since(flight.leaves);
            flight.leaves = leaves;
        }
        if self.jitter.reorders() {
            self.flights.make_contiguous().sort_by_key(|flight| flight.due);
        } else {
            let mut last = Time::ZERO;
            for flight in &mut self.flights {
                flight.due = flight.due.max(last);
                last = flight.due;
            }
            self.last_due = last.max(at);
        }
    }

    /// How many of `count` frames a scripted loss takes.
    fn lose(&mut self, count: u32) -> u32 {
        let lost = self.lose_next.min(u64::from(count)) as u32;
        self.lose_next -= u64::from(lost);
        lost
    }

    /// The part of `range`, from its start, that the queue has room for; it is put in the queue by
    /// [`send`](OneWayLink::send).
    fn accepted(&self, frames: &Frames, range: Range<u32>) -> Range<u32> {
        if range.is_empty() || self.queue.accepts(frames.wire_bytes(&range)) {
            return range;
        }
        let (mut fits, mut too_many) = (range.start, range.end);
        while too_many - fits > 1 {
            let middle = fits + (too_many - fits) / 2;
            if self.queue.accepts(frames.wire_bytes(&(range.start..middle))) {
                fits = middle
            } else {
                too_many = middle
            }
        }
        // An idle wire sends one frame, however short its queue.
        range.start..if fits == range.start && self.queue.is_idle() { fits + 1 } else { fits }
    }

    /// Puts `range` on the wire and schedules what survives it.
    fn send(&mut self, token: u64, frames: &Frames, range: Range<u32>) {
        let OneWayLink {
            queue,
            impairments,
            jitter,
            flights,
            drops,
            counters,
            last_due,
            one_way_delay,
            ..
        } = self;
        impairments.pass(frames, range, |run, outcome| {
            let flip = match outcome {
                FrameOutcome::Lost(cause) => {
                    queue.push(frames.wire_bytes(&run));
                    counters.drop_frames(cause, run.end - run.start);
                    drops.push_back(Output::Dropped { token, frames: run, cause });
                    return;
                }
                FrameOutcome::Flipped(which) => Some(which),
                FrameOutcome::Arrives => None,
            };
            let pieces = if jitter.reorders() { run.end - run.start } else { 1 };
            let each = (run.end - run.start) / pieces;
            for piece in 0..pieces {
                let frames_of = run.start + piece * each..run.start + (piece + 1) * each;
                let leaves = queue.push(frames.wire_bytes(&frames_of));
                let mut due = leaves + *one_way_delay + jitter.at(leaves);
                let bytes = frames.carried_bytes(&frames_of);
                if jitter.reorders() {
                    let place = flights.partition_point(|flight| flight.due <= due);
                    flights.insert(
                        place,
                        Flight { token, frames: frames_of, bytes, leaves, due, flip },
                    );
                } else {
                    due = due.max(*last_due);
                    *last_due = due;
                    flights.push_back(Flight {
                        token,
                        frames: frames_of,
                        bytes,
                        leaves,
                        due,
                        flip,
                    });
                }
            }
        });
    }

    fn drop_frames(&mut self, token: u64, frames: Range<u32>, cause: Cause) {
        if !frames.is_empty() {
            self.counters.drop_frames(cause, frames.end - frames.start);
            self.drops.push_back(Output::Dropped { token, frames, cause });
        }
    }
}

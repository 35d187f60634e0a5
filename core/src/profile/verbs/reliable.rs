//! One reliable connection over range extenders, packet by packet in virtual time: what losses and
//! timeouts leave of it.
//!
//! The rules are those of the InfiniBand Architecture Specification 1.2.1, chapter 9.7: a responder
//! takes packets in order only, answers the first one out of order with one negative
//! acknowledgement and says nothing more until the missing one is there; a requester goes back to
//! it and sends everything from there again, and does the same when nothing was acknowledged for
//! its timeout. Nothing slows a requester down: where packets are lost to a full queue, what it
//! sends again fills the queue again.

use super::model::{Messages, RELIABLE_HEADERS};
use crate::units::{Bytes, Rate, Rng, Span, Time};
use crate::wan::{Change, Extender, Extension, Frames, Packet};
use std::collections::VecDeque;
use std::ops::Range;

/// Packets that the requester hands over at once: 128 KiB of 2 KiB packets, which is 0.13 ms of 8
/// Gbit/s.
const TRAIN: u64 = 64;
/// A requester gives up after as many tries without progress (perftest, rdma_bw.c: `retry_cnt =
/// 7`).
const RETRIES: u32 = 7;

/// What is run.
#[derive(Clone, Debug)]
pub struct VerbsScenario {
    /// The messages, of one connection.
    pub messages: Messages,
    /// Payload of a full packet.
    pub mtu: Bytes,
    /// The most of payload that the host sends.
    pub host: Rate,
    /// The way there; back, acknowledgements take the same time and meet no other traffic.
    pub way: Extension,
    /// Other traffic on the long haul all the time.
    pub cross: Rate,
    /// Messages that the adapter handles in a second; `None` for as many as its port has room for.
    pub messages_per_s: Option<u64>,
    /// How long the requester waits for progress.
    pub timeout: Span,
    /// What was acknowledged until then counts, if the run takes longer.
    pub most: Span,
    /// Of every random choice.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct VerbsOutcome {
    /// Payload of acknowledged messages over the time until the last acknowledgement.
    pub throughput: Rate,
    /// How long that was.
    pub seconds: f64,
    /// Packets sent more than once, each time counted.
    pub again: u64,
    /// Frames that the long haul lost.
    pub lost: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// Whether the requester gave the connection up.
    pub broken: bool,
}

/// Runs `scenario` to its end.
pub fn simulate(scenario: &VerbsScenario) -> VerbsOutcome {
    let mut run = VerbsRun::new(scenario);
    while run.step() {}
    run.outcome()
}

/// What the responder says: everything before this packet has arrived, and whether what came then
/// was out of order.
#[derive(Clone, Copy, Debug)]
struct Answer {
    before: u64,
    missing: bool,
}

struct VerbsRun<'a> {
    scenario: &'a VerbsScenario,
    extender: Extender,
    now: Time,
    /// Packets of a message, and of all.
    each: u64,
    all: u64,
    /// The next packet to send, the first that was never sent, and the first that is not
    /// acknowledged.
    next: u64,
    fresh: u64,
    acknowledged: u64,
    /// When the host is ready to send again.
    ready: Time,
    /// When the requester runs out of patience, while something is unacknowledged.
    deadline: Option<Time>,
    tries: u32,
    /// The packet that the responder waits for, and whether it has said that it is missing.
    expected: u64,
    complained: bool,
    answers: VecDeque<(Time, Answer)>,
    trains: VecDeque<Range<u64>>,
    first_train: u64,
    /// When the last acknowledgement with news came.
    news: Time,
    outcome: VerbsOutcome,
}

impl<'a> VerbsRun<'a> {
    fn new(scenario: &'a VerbsScenario) -> VerbsRun<'a> {
        let cross = (Span::ZERO, Change::Cross(scenario.cross, None));
        let each = scenario.messages.packets_each(scenario.mtu);
        VerbsRun {
            extender: Extender::new(
                Time::ZERO,
                scenario.way.clone(),
                [cross],
                &Rng::new(scenario.seed),
            ),
            scenario,
            now: Time::ZERO,
            each,
            all: each * scenario.messages.count,
            next: 0,
            fresh: 0,
            acknowledged: 0,
            ready: Time::ZERO,
            deadline: None,
            tries: 0,
            expected: 0,
            complained: false,
            answers: VecDeque::new(),
            trains: VecDeque::new(),
            first_train: 0,
            news: Time::ZERO,
            outcome: VerbsOutcome::default(),
        }
    }

    /// Does what is due now and goes on to the next time at which something is; false when all is
    /// over.
    fn step(&mut self) -> bool {
        self.hear_extender();
        while let Some(&(_, answer)) = self.answers.front().filter(|(at, _)| *at <= self.now) {
            self.answers.pop_front();
            self.take(answer);
        }
        if self.deadline.is_some_and(|deadline| deadline <= self.now) {
            self.outcome.timeouts += 1;
            self.go_back(self.acknowledged);
        }
        if self.outcome.broken
            || self.acknowledged >= self.all
            || self.now.since(Time::ZERO) >= self.scenario.most
        {
            return false;
        }
        let offered = self.send();
        let answer = self.answers.front().map(|(at, _)| *at);
        // Only now: what was handed over has times of its own.
        let hears = self.hear_extender();
        let sooner = hears.into_iter().chain(offered).chain(answer).chain(self.deadline).min();
        let Some(next) = sooner else { return false };
        self.now = self.now.max(next);
        true
    }

    /// Takes what has arrived or was lost; returns when the extender has more to say.
    fn hear_extender(&mut self) -> Option<Time> {
        use crate::wan::Output;
        loop {
            match self.extender.poll(self.now) {
                Output::Wait(next) => return next,
                Output::Dropped { frames, .. } => {
                    self.outcome.lost += u64::from(frames.end - frames.start)
                }
                Output::Deliver { token, frames, due, .. } => {
                    // Trains cross in order, so those before this one have nothing more to deliver.
                    while self.first_train < token {
                        self.trains.pop_front();
                        self.first_train += 1;
                    }
                    let Some(train) = self.trains.front() else { continue };
                    let run =
                        train.start + u64::from(frames.start)..train.start + u64::from(frames.end);
                    self.respond(run, due);
                }
            }
        }
    }

    /// What the responder does with the packets of `run`, the last of which arrived at `due`.
    fn respond(&mut self, run: Range<u64>, due: Time) {
        let back = due + self.scenario.way.back;
        let message_ends =
            |packets: &Range<u64>| packets.end / self.each > packets.start / self.each;
        if run.start > self.expected {
            if !std::mem::replace(&mut self.complained, true) {
                self.answers.push_back((back, Answer { before: self.expected, missing: true }));
            }
            return;
        }
        let ends = message_ends(&run);
        if run.end > self.expected {
            self.expected = run.end;
            self.complained = false;
        }
        if ends {
            self.answers.push_back((back, Answer { before: self.expected, missing: false }));
        }
    }

    /// What the requester does with an answer.
    fn take(&mut self, answer: Answer) {
        if answer.before > self.acknowledged {
            self.acknowledged = answer.before;
            self.next = self.next.max(answer.before);
            self.tries = 0;
            self.news = self.now;
            self.wait_for_progress();
        }
        if answer.missing && answer.before == self.acknowledged {
            self.go_back(answer.before);
        }
    }

    /// Sends everything from `packet` again.
    fn go_back(&mut self, packet: u64) {
        self.tries += 1;
        self.outcome.broken = self.tries > RETRIES;
        self.next = packet;
        self.wait_for_progress();
    }

    fn wait_for_progress(&mut self) {
        self.deadline = (self.fresh > self.acknowledged).then(|| self.now + self.scenario.timeout);
    }

    /// Hands over what the queue, the host and the near extender allow; returns when the host has
    /// more.
    fn send(&mut self) -> Option<Time> {
        loop {
            let depth = (self.acknowledged / self.each + self.scenario.messages.depth) * self.each;
            let window =
                depth.min(self.acknowledged + self.scenario.messages.packets).min(self.all);
            if self.next >= window {
                return None;
            }
            if self.ready > self.now {
                return Some(self.ready);
            }
            // A train ends with its message, whose last packet may be short.
            let end = window.min(self.next + TRAIN).min((self.next / self.each + 1) * self.each);
            let (frames, payload) = self.frames(self.next..end);
            if self.extender.credits(self.now) < Bytes(frames.carried_bytes(&(0..frames.count()))) {
                // The extender itself says when it has passed something on.
                return None;
            }
            self.extender.handle(
                self.now,
                Packet { token: self.first_train + self.trains.len() as u64, frames },
            );
            self.trains.push_back(self.next..end);
            self.outcome.again += self.fresh.min(end).saturating_sub(self.next);
            self.next = end;
            self.fresh = self.fresh.max(end);
            self.ready = self.now + self.scenario.host.time_for(payload).max(self.handling(end));
            if self.deadline.is_none() {
                self.wait_for_progress();
            }
        }
    }

    /// How long the adapter takes for the message that ends before packet `end`, if one does.
    fn handling(&self, end: u64) -> Span {
        match self.scenario.messages_per_s {
            Some(rate) if end.is_multiple_of(self.each) => {
                Span::from_nanos(1_000_000_000 / rate.max(1))
            }
            _ => Span::ZERO,
        }
    }

    /// These packets of one message on the wire, and their payload.
    fn frames(&self, packets: Range<u64>) -> (Frames, Bytes) {
        let (mtu, size) = (self.scenario.mtu.0, self.scenario.messages.size.0);
        let from = (packets.start % self.each) * mtu;
        let payload = ((packets.end - packets.start) * mtu).min(size.saturating_sub(from));
        // At most a train of the largest packets, far below 4 GiB.
        (Frames::train(RELIABLE_HEADERS, payload as u32, mtu as u32), Bytes(payload))
    }

    fn outcome(mut self) -> VerbsOutcome {
        let finished = self.acknowledged >= self.all;
        let until = if finished { self.news } else { self.now.max(self.news) };
        let payload = self.acknowledged / self.each * self.scenario.messages.size.0;
        self.outcome.seconds = until.since(Time::ZERO).as_secs_f64();
        self.outcome.throughput = Rate::of(Bytes(payload), until.since(Time::ZERO));
        self.outcome
    }
}

#[cfg(test)]
#[path = "reliable_tests.rs"]
mod tests;

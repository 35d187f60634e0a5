//! One sender: what is on its way, what was lost, and what its control said.

use super::super::control::{Acked, Control, Event};
use crate::units::{Bytes, Rate, Span, Time};
use std::collections::VecDeque;
use std::ops::Range;

/// A packet is lost when this many later ones have been acknowledged (RFC 6675, DupThresh).
const REORDERING: u64 = 3;
/// The retransmission timer never runs out sooner (Linux; RFC 6298 has a second).
const LEAST_TIMEOUT: Span = Span::from_millis(200);
/// Nor before this while no round trip is known (RFC 6298, 2.1).
const FIRST_TIMEOUT: Span = Span::from_secs(1);

/// The control's answer at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// When.
    pub at: Time,
    /// Packets.
    pub window: f64,
    /// Packets.
    pub threshold: f64,
    /// The last round-trip time measured.
    pub rtt: Span,
    /// Packets delivered since the flow began.
    pub delivered: u64,
}

/// What made a window smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReductionCause {
    /// Lost packets, found by later acknowledgements.
    Loss,
    /// The retransmission timer.
    Timeout,
}

/// One reduction of a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reduction {
    /// When the sender found out.
    pub at: Time,
    /// The window before, in packets.
    pub before: f64,
    /// The threshold that was set, in packets.
    pub after: f64,
    /// When recovery ended; `None` while it has not.
    pub ended: Option<Time>,
    /// Why.
    pub why: ReductionCause,
}

/// A packet on its way.
#[derive(Clone, Copy, Debug)]
struct Sent {
    number: u64,
    at: Time,
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
}

/// Proportional Rate Reduction (RFC 9937), without which a sender whose new window is still more
/// than the path holds would lose for ever: until what is on its way fits the new window, a part of
/// what arrives is sent; from then on as much as arrives.
#[derive(Debug)]
struct Reducing {
    /// The new window as a part of the old one.
    part: f64,
    delivered: u64,
    sent: u64,
}

impl Reducing {
    fn room(&self, outstanding: f64, window: f64) -> f64 {
        let (delivered, sent) = (self.delivered as f64, self.sent as f64);
        let room = if outstanding > window {
            (delivered * self.part).ceil() - sent
        } else {
            (delivered - sent).min(window - outstanding)
        };
        // What was lost first is sent at once.
        if self.sent == 0 { room.max(1.0) } else { room }
    }
}

/// A sender.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) control: Box<dyn Control>,
    pub(super) packet: Bytes,
    next: u64,
    outstanding: VecDeque<Sent>,
    pub(super) delivered: u64,
    /// Packets that were lost.
    pub(super) lost: u64,
    delivered_at: Time,
    first_sent_at: Time,
    /// Recovery ends with the first acknowledgement of a packet from this number on, when nothing
    /// is `owed`.
    recovery: Option<u64>,
    /// Packets found lost in this recovery that were not sent again yet. What is sent in their
    /// place belongs to the recovery: losing it once more is no new event (RFC 6675, 5, which
    /// leaves recovery when all of before is acknowledged).
    owed: u64,
    /// In the recovery of a control that has no pace of its own.
    reducing: Option<Reducing>,
    rtt: Span,
    deviation: Span,
    timer_from: Time,
    may_send_at: Time,
    pub(super) reductions: Vec<Reduction>,
    pub(super) trace: Vec<Point>,
    sample_every: Span,
    /// The most packets that leave as one train.
    train: u64,
}

impl Flow {
    pub(super) fn new(
        now: Time,
        control: Box<dyn Control>,
        packet: Bytes,
        sample_every: Span,
        train: u64,
    ) -> Flow {
        Flow {
            control,
            packet,
            next: 0,
            outstanding: VecDeque::new(),
            delivered: 0,
            lost: 0,
            delivered_at: now,
            first_sent_at: now,
            recovery: None,
            owed: 0,
            reducing: None,
            rtt: Span::ZERO,
            deviation: Span::ZERO,
            timer_from: now,
            may_send_at: now,
            reductions: Vec::new(),
            trace: Vec::new(),
            sample_every,
            train: train.max(1),
        }
    }

    /// Goes on with another control, which begins at the window and threshold of the one before, as
    /// in Linux when TCP_CONGESTION is set.
    pub(super) fn replace(&mut self, control: Box<dyn Control>) {
        self.control = control;
        self.reducing = None;
    }

    /// The numbers of the packets that may leave now, as one train.
    pub(super) fn send(&mut self, now: Time) -> Option<Range<u64>> {
        let allowed = self.control.poll();
        let (window, outstanding) = (allowed.window.max(1.0), self.outstanding.len() as f64);
        let room = self
            .reducing
            .as_ref()
            .map_or(window - outstanding, |reducing| reducing.room(outstanding, window));
        if room < 1.0 || now < self.may_send_at {
            return None;
        }
        let pacing = allowed.pacing.filter(|&rate| rate > Rate::default());
        let count = if pacing.is_some() { 1 } else { (room as u64).min(self.train) };
        if let Some(rate) = pacing {
            self.may_send_at = self.may_send_at.max(now) + rate.time_for(self.packet);
        }
        if self.outstanding.is_empty() {
            (self.first_sent_at, self.delivered_at, self.timer_from) = (now, now, now);
        }
        let numbers = self.next..self.next + count;
        self.next = numbers.end;
        if let Some(reducing) = &mut self.reducing {
            reducing.sent += count;
        }
        let again = self.owed.min(count);
        if again > 0 {
            self.owed -= again;
            self.recovery = self.recovery.map(|_| numbers.start + again - 1);
        }
        let (delivered, delivered_at, first_sent_at) =
            (self.delivered, self.delivered_at, self.first_sent_at);
        self.outstanding.extend(numbers.clone().map(|number| Sent {
            number,
            at: now,
            delivered,
            delivered_at,
            first_sent_at,
        }));
        Some(numbers)
    }

    /// When to look at this flow again if no acknowledgement comes: its pacing or its timer.
    pub(super) fn wakes(&self, now: Time) -> Option<Time> {
        let timer = (!self.outstanding.is_empty()).then(|| self.timer());
        let window = self.control.poll().window.max(1.0);
        let paced = (self.may_send_at > now && self.outstanding.len() as f64 + 1.0 <= window)
            .then_some(self.may_send_at);
        [timer, paced].into_iter().flatten().min()
    }

    fn timer(&self) -> Time {
        if self.rtt == Span::ZERO {
            return self.timer_from + FIRST_TIMEOUT;
        }
        self.timer_from + (self.rtt + self.deviation.mul_f64(4.0)).max(self.rtt + LEAST_TIMEOUT)
    }

    /// Packets `numbers`, neighbours that were sent together, were acknowledged.
    pub(super) fn acknowledged(&mut self, now: Time, numbers: &Range<u64>) {
        let in_flight = u32::try_from(self.outstanding.len()).unwrap_or(u32::MAX);
        let from = self.outstanding.partition_point(|sent| sent.number < numbers.start);
        let until = self.outstanding.partition_point(|sent| sent.number < numbers.end);
        // Those given up after a timeout are no longer there.
        let Some(sent) = self.outstanding.get(from).copied().filter(|_| until > from) else {
            return;
        };
        self.outstanding.drain(from..until);
        let packets = (until - from) as u32;
        let newest = numbers.end - 1;
        self.timer_from = now;
        self.delivered += u64::from(packets);
        self.delivered_at = now;
        self.first_sent_at = sent.at;
        let window = self.control.poll().window;
        let rtt = now.since(sent.at);
        self.measured(rtt);
        self.control.handle(now, Event::Rtt(rtt));
        if self.owed == 0 && self.recovery.is_some_and(|ends| newest >= ends) {
            (self.recovery, self.reducing) = (None, None);
            if let Some(reduction) = self.reductions.last_mut() {
                reduction.ended = Some(now);
            }
            self.control.handle(now, Event::Recovered);
        }
        let lost_before =
            self.outstanding.partition_point(|sent| sent.number + REORDERING <= newest);
        if lost_before > 0 {
            self.outstanding.drain(..lost_before);
            self.lost += lost_before as u64;
            // A loss among packets of the window that was reduced already is the same event (RFC
            // 6582, 3.2).
            if self.recovery.is_none() {
                self.reduced(now, window, Event::Loss, ReductionCause::Loss);
            }
            self.owed += lost_before as u64;
        }
        if let Some(reducing) = &mut self.reducing {
            reducing.delivered += u64::from(packets);
        }
        self.control.handle(
            now,
            Event::Acked(Acked {
                packets,
                delivered: self.delivered,
                delivered_at_send: sent.delivered,
                lost: self.lost,
                interval: now.since(sent.delivered_at).max(sent.at.since(sent.first_sent_at)),
                in_flight,
                window_limited: f64::from(in_flight) + 1.0 > window,
            }),
        );
        self.record(now);
    }

    /// Looks at the timer.
    pub(super) fn tick(&mut self, now: Time) {
        if !self.outstanding.is_empty() && now >= self.timer() {
            let before = self.control.poll().window;
            self.lost += self.outstanding.len() as u64;
            self.outstanding.clear();
            self.timer_from = now;
            self.reduced(now, before, Event::Timeout, ReductionCause::Timeout);
            self.record(now);
        }
    }

    fn reduced(&mut self, now: Time, before: f64, event: Event, why: ReductionCause) {
        if let Some(open) = self.reductions.last_mut().filter(|last| last.ended.is_none()) {
            open.ended = Some(now);
        }
        self.control.handle(now, event);
        let ended = (why == ReductionCause::Timeout).then_some(now);
        self.recovery = (why == ReductionCause::Loss).then_some(self.next);
        self.owed = 0;
        let allowed = self.control.poll();
        let reduces = why == ReductionCause::Loss && allowed.pacing.is_none();
        self.reducing =
            reduces.then(|| Reducing { part: allowed.window / before, delivered: 0, sent: 0 });
        self.reductions.push(Reduction {
            at: now,
            before,
            after: self.control.poll().threshold,
            ended,
            why,
        });
    }

    /// RFC 6298, section 2.
    fn measured(&mut self, sample: Span) {
        if self.rtt == Span::ZERO {
            (self.rtt, self.deviation) = (sample, sample.mul_f64(0.5));
            return;
        }
        let apart = sample.saturating_sub(self.rtt).max(self.rtt.saturating_sub(sample));
        self.deviation = self.deviation.mul_f64(0.75) + apart.mul_f64(0.25);
        self.rtt = self.rtt.mul_f64(0.875) + sample.mul_f64(0.125);
    }

    fn record(&mut self, now: Time) {
        if self.trace.last().is_none_or(|last| now.since(last.at) >= self.sample_every) {
            let allowed = self.control.poll();
            let Flow { rtt, delivered, .. } = *self;
            self.trace.push(Point {
                at: now,
                window: allowed.window,
                threshold: allowed.threshold,
                rtt,
                delivered,
            });
        }
    }
}

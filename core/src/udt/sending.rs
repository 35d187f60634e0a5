//! The half of a connection that sends: which packet goes next, and when.

use super::arrivals::begins_pair;
use super::events::DataPacket;
use super::packet::{HEADER_LEN, LossRange, ReceiverState, message_word};
use super::rate::{PathState, RateControl, RateEvent, SYN};
use super::receiving::LEAST_ROOM;
use super::sequence::SequenceNumber;
use crate::congestion::{Acked, SavedPath, Yielded};
use crate::units::{ByteRanges, Bytes, Span, Time};
use std::collections::VecDeque;
use std::ops::Range;

/// How long an answer may take while no round trip was measured (RFC 6298, 2.1): libudt's guess of
/// 100 ms takes each path of more than 300 ms for dead.
pub(super) const FIRST_TIMEOUT: Span = Span::from_secs(1);
/// A sender that wakes late makes good what it missed of this, and no more.
const MOST_CATCH_UP: Span = Span::from_millis(2);
/// The shortest datagrams that a path is ever taken to need: IPv6 carries them everywhere.
const SHORTEST_DATAGRAM: u32 = 1232;
/// A path that swallows the same packet so often while others pass is narrower than it was.
const SWALLOWED: u32 = 3;

/// A packet that is not acknowledged.
#[derive(Clone, Copy, Debug)]
struct Sent {
    bytes_from: u64,
    len: u32,
    at: Time,
    times: u32,
    /// What had been delivered when it was first sent, when that was, and when what had been
    /// delivered last then was first sent.
    delivered: u64,
    delivered_at: Time,
    delivered_sent_at: Time,
}

/// The machine.
#[derive(Debug)]
pub(super) struct Sending {
    first: SequenceNumber,
    control: Box<dyn RateControl>,
    /// The longest payload, and the longest datagram that was agreed on.
    payload: u32,
    packet: Bytes,
    /// Packets `acknowledged..next` are on their way; the first of `sent` is `acknowledged`.
    acknowledged: u64,
    next: u64,
    sent: VecDeque<Sent>,
    /// Packets before this one were acknowledged in full. libudt's light acknowledgements are of
    /// packets that its program cannot read yet, and never can if the connection ends then.
    settled: u64,
    /// Bytes of the stream: given to packets, and there to be.
    cut: u64,
    written: u64,
    /// Packets to be sent again.
    losses: ByteRanges,
    /// Packets that the peer reported and that are not acknowledged since; all others before
    /// `heard_of` have come.
    missing: ByteRanges,
    heard_of: u64,
    /// Packets before this one may be sent, by the peer's room, which was told last.
    room_to: u64,
    room_told: u64,
    /// How often the first of `sent` was sent to a peer that may have had no room for it.
    unwanted: u32,
    most: u64,
    /// When the next packet may leave; intervals that a pair owes.
    next_at: Time,
    owed: u32,
    heard_at: Time,
    is_limited: bool,
    rtt: Span,
    variation: Span,
    last_rtt: Option<Span>,
    least_rtt: Option<Span>,
    arriving: f64,
    capacity: f64,
    delivered: u64,
    delivered_at: Time,
    delivered_sent_at: Time,
    /// Packets that were reported missing.
    lost: u64,
    pub(super) resent: u64,
}

impl Sending {
    pub(super) fn new(
        now: Time,
        first: SequenceNumber,
        datagram: u32,
        window: u32,
        control: Box<dyn RateControl>,
    ) -> Sending {
        Sending {
            first,
            control,
            payload: datagram.saturating_sub(HEADER_LEN as u32).max(1),
            packet: Bytes(u64::from(datagram) + 28),
            acknowledged: 0,
            next: 0,
            sent: VecDeque::new(),
            settled: 0,
            cut: 0,
            written: 0,
            losses: ByteRanges::new(),
            missing: ByteRanges::new(),
            heard_of: 0,
            room_to: u64::from(window),
            room_told: u64::from(window),
            unwanted: 0,
            most: u64::from(window),
            next_at: now,
            owed: 0,
            heard_at: now,
            is_limited: false,
            // libudt: ten SYNs, and half of that.
            rtt: Span::from_millis(100),
            variation: Span::from_millis(50),
            last_rtt: None,
            least_rtt: None,
            arriving: 0.0,
            capacity: 0.0,
            delivered: 0,
            delivered_at: now,
            delivered_sent_at: now,
            lost: 0,
            resent: 0,
        }
    }

    /// Something came from the peer.
    pub(super) fn heard(&mut self, now: Time) {
        self.heard_at = now;
    }

    /// Has the control begin from what an earlier flow saw.
    pub(super) fn resume(&mut self, saved: SavedPath) {
        let path = self.path();
        self.control.resume(&path, saved);
    }

    /// Packets that were sent, each counted once.
    pub(super) fn sent_packets(&self) -> u64 {
        self.next
    }

    pub(super) fn written(&mut self, bytes: u64) {
        self.written += bytes;
    }

    /// The stream's bytes that the peer has.
    pub(super) fn acknowledged_bytes(&self) -> u64 {
        self.sent.front().map_or(self.cut, |sent| sent.bytes_from)
    }

    /// Bytes of the stream that were sent at least once, and that are there to be.
    pub(super) fn sent_bytes(&self) -> (u64, u64) {
        (self.cut, self.written)
    }

    /// The smoothed round-trip time, once one was measured.
    pub(super) fn smoothed_rtt(&self) -> Option<Span> {
        self.least_rtt.map(|_| self.rtt)
    }

    /// Whether the peer's program can read all that there was to send.
    pub(super) fn is_idle(&self) -> bool {
        self.cut == self.written && self.settled == self.next
    }

    pub(super) fn has_unacknowledged(&self) -> bool {
        !self.sent.is_empty()
    }

    pub(super) fn least_rtt(&self) -> Option<Span> {
        self.least_rtt
    }

    pub(super) fn yielded(&self) -> Option<Yielded> {
        self.control.yielded()
    }

    /// The path takes no longer datagrams; what is cut already stays as it is.
    pub(super) fn longest_datagram(&mut self, len: u32) {
        let payload = len.max(SHORTEST_DATAGRAM).saturating_sub(HEADER_LEN as u32);
        self.payload = self.payload.min(payload);
    }

    /// How long a packet may stay unacknowledged before something is wrong.
    pub(super) fn timeout(&self) -> Span {
        let timeout = self.rtt + self.variation.mul_f64(4.0) + SYN + SYN;
        match self.least_rtt {
            Some(_) => timeout,
            None => timeout.max(FIRST_TIMEOUT),
        }
    }

    /// An acknowledgement of all before `next`; returns whether it says something new. `None` of
    /// one that is old, or nobody's: what was never sent cannot have come.
    pub(super) fn acked(
        &mut self,
        now: Time,
        next: SequenceNumber,
        known: Option<&ReceiverState>,
    ) -> Option<bool> {
        let index = next.index(self.first, self.acknowledged)?;
        if index > self.next || index < self.acknowledged {
            return None;
        }
        let mut was_full = false;
        if let Some(known) = known {
            self.settled = index;
            // No receiver tells of less: a damaged word of none would stop both for good.
            self.room_to = index + u64::from(known.room).max(LEAST_ROOM);
            self.most = self.most.max(u64::from(known.room));
            was_full = std::mem::replace(&mut self.room_told, known.room.into()) <= LEAST_ROOM;
        }
        if index == self.acknowledged {
            if was_full {
                self.unwanted = self.sent.front().map_or(0, |head| head.times);
            }
            return Some(false);
        }
        if let Some(known) = known {
            self.measured(known);
        }
        let newest = self.sent.get((index - 1 - self.acknowledged) as usize).copied();
        self.sent.drain(..(index - self.acknowledged) as usize);
        self.acknowledged = index;
        let head = self.sent.front().filter(|_| was_full);
        self.unwanted = head.map_or(0, |head| head.times);
        self.losses.remove(0..index);
        self.missing.remove(0..index);
        self.told_delivered(now, newest);
        if let Some(newest) = newest.filter(|newest| newest.times > 1) {
            self.overtaken(now, newest.at);
        }
        Some(true)
    }

    /// What was sent again at `at` has come, and what left before that, and is overdue, has not: it
    /// is lost (as RFC 8985 has it). No report tells of the end of a stream, or of a window:
    /// nothing comes behind it that would show what is missing.
    fn overtaken(&mut self, now: Time, at: Time) {
        let unheard = self.heard_of.max(self.acknowledged)..self.next;
        let mut first = None;
        let mut packets = 0;
        for index in unheard {
            let sent = &self.sent[(index - self.acknowledged) as usize];
            let waits = index..index + 1;
            if sent.at < at && self.overdue_at(sent) <= now && !self.losses.contains(&waits) {
                first = first.or(Some(index));
                packets += 1;
                self.losses.insert(waits);
            }
        }
        if let Some(first) = first {
            self.lost += packets;
            let path = self.path();
            self.control.handle(now, &path, RateEvent::Lost { first, packets });
        }
    }

    /// The peer's report of what it knows. Its round-trip time begins with a guess and is taken for
    /// as long as this end has measured none itself.
    fn measured(&mut self, known: &ReceiverState) {
        if self.least_rtt.is_none() {
            self.took(Span::from_micros(u64::from(known.rtt.0.max(1))));
        }
        let smooth = |old: &mut f64, new: u32| {
            *old = match (new, *old > 0.0) {
                (0, _) => *old,
                (new, false) => f64::from(new),
                (new, true) => *old * 0.875 + f64::from(new) * 0.125,
            };
        };
        if let Some((arriving, capacity)) = known.rates {
            smooth(&mut self.arriving, arriving);
            smooth(&mut self.capacity, capacity);
        }
    }

    /// A round trip took so long.
    fn took(&mut self, rtt: Span) {
        let off = rtt.max(self.rtt).saturating_sub(rtt.min(self.rtt));
        self.variation = self.variation.mul_f64(0.75) + off.mul_f64(0.25);
        self.rtt = self.rtt.mul_f64(0.875) + rtt.mul_f64(0.125);
    }

    /// A report of losses; returns whether any of it is not acknowledged.
    pub(super) fn lost(&mut self, now: Time, losses: &[LossRange]) -> bool {
        let (mut first, mut packets) = (None, 0);
        let mut newest = None;
        for loss in losses {
            let index = |sequence: SequenceNumber| sequence.index(self.first, self.acknowledged);
            let (Some(from), Some(last)) = (index(loss.first), index(loss.last)) else { continue };
            if from > last || last >= self.next {
                continue;
            }
            let range = from.max(self.acknowledged)..last + 1;
            if range.is_empty() {
                continue;
            }
            first = Some(first.map_or(range.start, |first: u64| first.min(range.start)));
            packets += range.end - range.start;
            if range.end > self.heard_of {
                // What was reported before is no new loss.
                self.lost += range.end - range.start.max(self.heard_of);
                self.missing.insert(range.start.max(self.heard_of)..range.end);
                if range.start > self.heard_of.max(self.acknowledged) {
                    newest = self.sent.get((range.start - 1 - self.acknowledged) as usize).copied();
                }
                self.heard_of = range.end;
            }
            self.losses.insert(range);
        }
        let Some(first) = first else { return false };
        // A report of what lies far ahead says that all before it has come.
        self.told_delivered(now, newest);
        let path = self.path();
        self.control.handle(now, &path, RateEvent::Lost { first, packets });
        true
    }

    /// Tells the control what has come, of which `newest` was sent last.
    fn told_delivered(&mut self, now: Time, newest: Option<Sent>) {
        let beyond = self.heard_of.saturating_sub(self.acknowledged);
        let delivered =
            (self.acknowledged + beyond).saturating_sub(self.missing.total()).max(self.delivered);
        let packets = u32::try_from(delivered - self.delivered).unwrap_or(u32::MAX);
        if packets == 0 {
            return;
        }
        let in_flight = self.in_flight();
        self.last_rtt = None;
        let mut acked = Acked {
            packets,
            delivered,
            // Of what was sent again, what it was at first: no round is counted too many.
            delivered_at_send: newest.map_or(self.delivered, |sent| sent.delivered),
            lost: self.lost,
            interval: Span::ZERO,
            in_flight: u32::try_from(in_flight).unwrap_or(u32::MAX),
            window_limited: std::mem::take(&mut self.is_limited),
        };
        if let Some(sent) = newest.filter(|sent| sent.times == 1) {
            let rtt = now.since(sent.at);
            self.last_rtt = Some(rtt);
            if self.least_rtt.is_none() {
                // RFC 6298, 2.2.
                (self.rtt, self.variation) = (rtt, rtt.mul_f64(0.5));
            }
            self.took(rtt);
            self.least_rtt = Some(self.least_rtt.map_or(rtt, |least| least.min(rtt)));
            acked.interval =
                now.since(sent.delivered_at).max(sent.at.since(sent.delivered_sent_at));
            self.delivered_sent_at = sent.at;
        }
        (self.delivered, self.delivered_at) = (delivered, now);
        let path = self.path();
        self.control.handle(now, &path, RateEvent::Acked(acked));
    }

    /// Nothing was heard for long: all that is not acknowledged is sent again.
    pub(super) fn timed_out(&mut self, now: Time) {
        self.narrow();
        if self.losses.is_empty() && self.acknowledged < self.next {
            self.losses.insert(self.acknowledged..self.next);
        }
        let path = self.path();
        self.control.handle(now, &path, RateEvent::Timeout);
    }

    fn in_flight(&self) -> u64 {
        (self.next - self.delivered).saturating_sub(self.losses.total())
    }

    fn path(&self) -> PathState {
        let outstanding = self.next - self.acknowledged;
        PathState {
            rtt: self.rtt,
            last_rtt: self.last_rtt,
            arriving: self.arriving,
            capacity: self.capacity,
            sent: self.next,
            acknowledged: self.acknowledged,
            heard_of: self.heard_of.max(self.acknowledged),
            beyond: outstanding.saturating_sub(self.in_flight()),
            packet: self.packet,
            most: self.most,
        }
    }

    /// The packet that may leave at `now`.
    pub(super) fn poll(&mut self, now: Time) -> Option<DataPacket> {
        self.suspect(now);
        if now < self.next_at {
            return None;
        }
        let lost = self.losses.iter().next().map(|range| range.start);
        let index = match lost {
            Some(index) => {
                self.losses.remove(index..index + 1);
                self.resent += 1;
                index
            }
            None if self.may_grow() => self.cut_one(now),
            None => return None,
        };
        let interval = self.control.poll().interval;
        self.next_at = self.next_at.max(now - MOST_CATCH_UP);
        if lost.is_none() && begins_pair(self.first.after(index)) {
            self.owed += 1;
        } else {
            let intervals = f64::from(std::mem::take(&mut self.owed) + 1);
            self.next_at += Span::from_secs_f64(interval * intervals);
        }
        let sent = self.sent.get_mut((index - self.acknowledged) as usize)?;
        (sent.at, sent.times) = (now, sent.times + 1);
        Some(DataPacket {
            sequence: self.first.after(index),
            message: message_word(index),
            bytes: sent.bytes_from..sent.bytes_from + u64::from(sent.len),
            may_fragment: sent.len > self.payload,
        })
    }

    /// Whether a new packet may be sent, its time apart.
    fn may_grow(&mut self) -> bool {
        if self.cut == self.written || self.next >= self.room_to {
            return false;
        }
        let fits = ((self.next - self.acknowledged) as f64) < self.control.poll().window;
        self.is_limited |= !fits;
        fits
    }

    fn cut_one(&mut self, now: Time) -> u64 {
        let len = (self.written - self.cut).min(u64::from(self.payload)) as u32;
        if self.sent.is_empty() {
            (self.delivered_at, self.delivered_sent_at) = (now, now);
        }
        self.sent.push_back(Sent {
            bytes_from: self.cut,
            len,
            at: now,
            times: 0,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            delivered_sent_at: self.delivered_sent_at,
        });
        self.cut += u64::from(len);
        self.next += 1;
        self.next - 1
    }

    /// The first packet that is not acknowledged should long be: libudt reports a loss only once,
    /// and the report may have been lost, or the packet again. So may others that were reported.
    fn suspect(&mut self, now: Time) {
        if self.suspects_at().is_none_or(|at| at > now) {
            return;
        }
        self.narrow();
        let overdue = |index: &u64| {
            let sent = self.sent.get((index - self.acknowledged) as usize);
            sent.is_some_and(|sent| self.overdue_at(sent) <= now)
        };
        let reported = self.missing.iter().flatten().filter(overdue);
        let again: Vec<u64> = std::iter::once(self.acknowledged).chain(reported).collect();
        for index in again {
            self.losses.insert(index..index + 1);
        }
    }

    /// When a packet that was sent should be acknowledged: each time it is sent again, later.
    fn overdue_at(&self, sent: &Sent) -> Time {
        sent.at + self.timeout().mul_f64(f64::from(sent.times.clamp(1, 8)))
    }

    /// A packet that does not come again and again, while the peer is heard and has room for it, is
    /// too long for the path.
    fn narrow(&mut self) {
        let is_swallowed = |head: &Sent| {
            head.times.saturating_sub(self.unwanted) >= SWALLOWED && self.heard_at > head.at
        };
        // The least room is told by who has none too.
        if self.room_told > LEAST_ROOM && self.sent.front().is_some_and(is_swallowed) {
            self.longest_datagram(SHORTEST_DATAGRAM);
        }
    }

    /// When that will be so.
    fn suspects_at(&self) -> Option<Time> {
        let head = self.sent.front()?;
        let waits: Range<u64> = self.acknowledged..self.acknowledged + 1;
        (!self.losses.contains(&waits)).then(|| self.overdue_at(head))
    }

    /// When to look again.
    pub(super) fn wakes(&mut self) -> Option<Time> {
        let may_send = !self.losses.is_empty() || self.may_grow();
        let next = may_send.then_some(self.next_at);
        [next, self.suspects_at()].into_iter().flatten().min()
    }
}

//! The half of a connection that receives: what is in order, what is missing, and what to tell the
//! sender of it.

use super::arrivals::Arrivals;
use super::packet::{ControlPacket, HEADER_LEN, LossRange, MOST_LOSSES, ReceiverState};
use super::rate::SYN;
use super::sequence::SequenceNumber;
use crate::units::{ByteRanges, Span, Time};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Packets between two acknowledgements that only say how far the stream is (libudt).
const LIGHT_EVERY: u64 = 64;
/// Acknowledgements whose return is waited for, to learn the round-trip time.
const MOST_PENDING: usize = 1024;
/// The least room that is ever told, as by libudt: a sender must be able to ask.
pub(super) const LEAST_ROOM: u64 = 2;

/// Losses of which so many bytes tell: each takes two words, or one.
fn losses_in(bytes: u32) -> usize {
    (bytes as usize / 8).clamp(1, MOST_LOSSES)
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It is kept.
    Kept,
    /// It is of no use.
    Discarded,
}

/// The machine.
#[derive(Debug)]
pub(super) struct Receiving {
    first: SequenceNumber,
    /// Packets that there is memory for.
    capacity: u64,
    /// A whole packet's payload, and the longest that the peer may send.
    payload: u32,
    longest: u32,
    /// Losses that one packet reports at most.
    most_losses: usize,
    /// All packets before this one have come, and of those all before `delivered` are out.
    contiguous: u64,
    delivered: u64,
    /// Delivered packets whose memory is still in use.
    unread: u64,
    /// One past the last packet that came.
    highest: u64,
    /// From `delivered` on: token and length of what came.
    kept: VecDeque<Option<(u64, u32)>>,
    missing: ByteRanges,
    /// Ranges to report now, with how often they were; those reported, by when they will be again
    /// if they still are missing.
    to_report: VecDeque<(Range<u64>, u32)>,
    reported: BTreeMap<(Time, u64), (Range<u64>, u32)>,
    arrivals: Arrivals,
    rtt: Span,
    variation: Span,
    is_measured: bool,
    /// The last acknowledgement's number; those whose arrival is not known: number and when.
    number: u32,
    pending: VecDeque<(u32, Time)>,
    /// The furthest that was acknowledged.
    told: u64,
    told_at: Time,
    told_room: u64,
    rates_at: Time,
    next_ack: Time,
    /// Packets since the last acknowledgement, and light ones since.
    since_ack: u64,
    light: u64,
    wants_light: bool,
    /// Whether something came again since the sender was told last: it may not know.
    has_repeats: bool,
    pub(super) duplicates: u64,
}

impl Receiving {
    pub(super) fn new(
        now: Time,
        first: SequenceNumber,
        (payload, longest): (u32, u32),
        capacity: u64,
    ) -> Receiving {
        Receiving {
            first,
            capacity,
            payload,
            longest,
            most_losses: losses_in(payload),
            contiguous: 0,
            delivered: 0,
            unread: 0,
            highest: 0,
            kept: VecDeque::new(),
            missing: ByteRanges::new(),
            to_report: VecDeque::new(),
            reported: BTreeMap::new(),
            arrivals: Arrivals::default(),
            rtt: Span::from_millis(100),
            variation: Span::from_millis(50),
            is_measured: false,
            number: 0,
            pending: VecDeque::new(),
            told: 0,
            told_at: now,
            told_room: capacity,
            rates_at: now,
            next_ack: now + SYN,
            since_ack: 0,
            light: 0,
            wants_light: false,
            has_repeats: false,
            duplicates: 0,
        }
    }

    /// There is memory for so many packets from now on.
    pub(super) fn resize(&mut self, capacity: u64) {
        self.capacity = capacity.max(LEAST_ROOM);
    }

    /// The path takes no longer datagrams: reports are datagrams too.
    pub(super) fn longest_datagram(&mut self, len: u32) {
        let most = losses_in(len.saturating_sub(HEADER_LEN as u32));
        self.most_losses = self.most_losses.min(most);
    }

    /// Packets that there is room for beyond those that came in order.
    fn room(&self) -> u64 {
        self.capacity.saturating_sub(self.unread + (self.contiguous - self.delivered))
    }

    /// A data packet came.
    pub(super) fn data(
        &mut self,
        arrived: Time,
        now: Time,
        sequence: SequenceNumber,
        len: u32,
        token: u64,
    ) -> Place {
        if len > self.longest {
            // Room is counted in packets, none of which is longer than was agreed on.
            return Place::Discarded;
        }
        let index = sequence.index(self.first, self.contiguous);
        let Some(index) = index.filter(|&index| index < self.contiguous + self.room()) else {
            return Place::Discarded;
        };
        let at = index.checked_sub(self.delivered).map(|at| at as usize);
        let Some(at) = at.filter(|&at| self.kept.get(at).is_none_or(Option::is_none)) else {
            self.duplicates += 1;
            self.has_repeats = true;
            return Place::Discarded;
        };
        if self.kept.len() <= at {
            self.kept.resize(at + 1, None);
        }
        self.kept[at] = Some((token, len));
        self.arrivals.came(arrived, sequence);
        if index >= self.highest {
            if index > self.highest {
                let gap = self.highest..index;
                self.missing.insert(gap.clone());
                self.to_report.push_back((gap, 0));
            }
            self.highest = index + 1;
        } else {
            self.arrivals.repaired();
            self.missing.remove(index..index + 1);
        }
        self.contiguous = self.missing.iter().next().map_or(self.highest, |gap| gap.start);
        self.since_ack += 1;
        self.wants_light |= self.since_ack >= LIGHT_EVERY * (self.light + 1);
        if len < self.payload && self.contiguous == self.highest {
            // A message's end, most likely: somebody waits for word of it.
            self.next_ack = self.next_ack.min(now);
        }
        Place::Kept
    }

    /// The next packet in order.
    pub(super) fn deliver(&mut self) -> Option<(u64, u32)> {
        if self.delivered == self.contiguous {
            return None;
        }
        let next = self.kept.pop_front().flatten()?;
        self.delivered += 1;
        self.unread += 1;
        Some(next)
    }

    pub(super) fn read(&mut self, packets: u64) {
        self.unread = self.unread.saturating_sub(packets);
    }

    /// An acknowledgement of this end's has arrived.
    pub(super) fn heard(&mut self, now: Time, number: u32) {
        let Some(at) = self.pending.iter().position(|&(pending, _)| pending == number) else {
            return;
        };
        let (_, sent) = self.pending[at];
        self.pending.drain(..=at);
        let rtt = now.since(sent).max(Span::from_micros(1));
        if !std::mem::replace(&mut self.is_measured, true) {
            // RFC 6298, 2.2: what was there before was a guess.
            (self.rtt, self.variation) = (rtt, rtt.mul_f64(0.5));
            return;
        }
        let off = rtt.max(self.rtt).saturating_sub(rtt.min(self.rtt));
        self.variation = self.variation.mul_f64(0.75) + off.mul_f64(0.25);
        self.rtt = self.rtt.mul_f64(0.875) + rtt.mul_f64(0.125);
    }

    /// What to tell the sender at `now`.
    pub(super) fn poll(&mut self, now: Time) -> Option<ControlPacket> {
        if let Some(nak) = self.report(now) {
            return Some(nak);
        }
        if now >= self.next_ack {
            self.next_ack = now + SYN;
            if let Some(ack) = self.acknowledge(now) {
                return Some(ack);
            }
        }
        if std::mem::take(&mut self.wants_light) {
            self.light += 1;
            if self.contiguous > self.told {
                let next = self.first.after(self.contiguous);
                return Some(ControlPacket::Ack { number: 0, next, known: None });
            }
        }
        None
    }

    fn acknowledge(&mut self, now: Time) -> Option<ControlPacket> {
        (self.since_ack, self.light, self.wants_light) = (0, 0, false);
        let room = self.room().max(LEAST_ROOM);
        // A sender that was told of little room hears when there is more.
        let opens = self.told_room < self.capacity / 4 && room > self.told_room * 2;
        let unheard = self.sender_may_not_know() && now.since(self.told_at) > self.timeout();
        if self.contiguous == self.told && !opens && !unheard {
            return None;
        }
        self.number = self.number.wrapping_add(1) & 0x7FFF_FFFF;
        let micros = |span: Span| u32::try_from(span.as_nanos() / 1000).unwrap_or(u32::MAX);
        let rates = (now.since(self.rates_at) >= SYN).then(|| {
            self.rates_at = now;
            (self.arrivals.speed().round() as u32, self.arrivals.capacity().round() as u32)
        });
        (self.told, self.told_at, self.told_room) = (self.contiguous, now, room);
        self.has_repeats = false;
        if self.pending.len() == MOST_PENDING {
            self.pending.pop_front();
        }
        self.pending.push_back((self.number, now));
        Some(ControlPacket::Ack {
            number: self.number,
            next: self.first.after(self.contiguous),
            known: Some(ReceiverState {
                rtt: (micros(self.rtt), micros(self.variation)),
                room: u32::try_from(room).unwrap_or(u32::MAX),
                rates,
            }),
        })
    }

    /// What is newly missing, or still.
    fn report(&mut self, now: Time) -> Option<ControlPacket> {
        while let Some(first) = self.reported.first_entry().filter(|first| first.key().0 <= now) {
            let (range, times) = first.remove();
            let still = self.missing.overlapping(range);
            self.to_report.extend(still.map(|part| (part, times)));
        }
        let mut losses = Vec::new();
        while losses.len() < self.most_losses
            && let Some((range, times)) = self.to_report.pop_front()
        {
            // Each time longer: draft-gg-udt-03, section 3.4.
            let due = now + self.timeout().mul_f64(f64::from(times + 1)) + SYN;
            losses.push(LossRange::of(self.first, &range));
            self.reported.insert((due, range.start), (range, times + 1));
        }
        (!losses.is_empty()).then_some(ControlPacket::Nak(losses))
    }

    /// The round-trip time, smoothed, once it was measured.
    pub(super) fn rtt(&self) -> Option<Span> {
        self.is_measured.then_some(self.rtt)
    }

    /// How long word of the sender may take.
    pub(super) fn timeout(&self) -> Span {
        self.rtt + self.variation.mul_f64(4.0)
    }

    /// Whether what was told last may not have been heard, even if it only told of room: a sender
    /// that never heard of it waits for ever. One that confirmed what was damaged on its way sends
    /// again what has come.
    fn sender_may_not_know(&self) -> bool {
        !self.pending.is_empty() || self.has_repeats
    }

    /// When to look again.
    pub(super) fn wakes(&self) -> Option<Time> {
        let reports = self.reported.first_key_value().map(|(&(due, _), _)| due);
        let was_full = self.told_room < self.capacity / 4;
        let has_to_tell = self.contiguous > self.told || self.sender_may_not_know() || was_full;
        [reports, has_to_tell.then_some(self.next_ack)].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::super::handshake::SocketId;
    use super::super::packet::{Content, UdtPacket};
    use super::*;

    /// Packets are numbered from here, so that they wrap soon.
    const FIRST: SequenceNumber = SequenceNumber::new(0x7FFF_FFF0);

    fn receiving(payload: u32) -> Receiving {
        Receiving::new(Time::ZERO, FIRST, (payload, payload), 10_000)
    }

    fn came(receiving: &mut Receiving, at: Span, index: u64) {
        let now = Time::ZERO + at;
        let place = receiving.data(now, now, FIRST.after(index), receiving.payload, index);
        assert_eq!(place, Place::Kept, "packet {index}");
    }

    #[test]
    fn what_is_sent_again_makes_no_path_look_slow() {
        let mut receiving = receiving(1456);
        // A packet in 100 us, the second of a pair 12 us behind the first, and 1600 are lost.
        for index in (0..160).chain(1760..3000) {
            let early = if index % 16 == 1 { 88 } else { 0 };
            came(&mut receiving, Span::from_micros(index * 100 - early), index);
        }
        let close = |receiving: &Receiving| (receiving.arrivals.capacity() * 12e-6 - 1.0).abs();
        assert!(close(&receiving) < 0.01, "{}", receiving.arrivals.capacity());
        // They come again a millisecond apart, pairs or not.
        for index in 160..1760 {
            came(&mut receiving, Span::from_micros(300_000 + index * 1000), index);
        }
        assert!(close(&receiving) < 0.01, "{}", receiving.arrivals.capacity());
    }

    #[test]
    fn a_report_is_no_longer_than_the_path_takes() {
        for (payload, told) in [(532, None), (1356, None), (8956, None), (1456, Some(1252))] {
            let mut receiving = receiving(payload);
            if let Some(len) = told {
                receiving.longest_datagram(len);
            }
            for index in (3..2000).step_by(4) {
                came(&mut receiving, Span::ZERO, index);
            }
            let longest = told.unwrap_or(payload + HEADER_LEN as u32) as usize;
            let mut reported = 0;
            while let Some(ControlPacket::Nak(losses)) = receiving.poll(Time::ZERO) {
                reported += losses.len();
                let content = Content::Control(ControlPacket::Nak(losses));
                let mut bytes = Vec::new();
                UdtPacket { timestamp: 0, to: SocketId(0), content }.encode(&mut bytes);
                assert!(bytes.len() <= longest, "{} bytes of {longest}", bytes.len());
            }
            assert_eq!(reported, 500);
        }
    }
}

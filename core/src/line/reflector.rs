//! The far end of a test: it counts load frames, answers what it is asked, and sends STAMP packets
//! back.
//!
//! Invariants: nothing is kept of an address that has not shown its cookie; no answer is longer
//! than what it answers; nobody is answered who did not ask.

use super::follow_up::FollowUp;
use super::load::LoadReader;
use super::message::{LineAnswer, LineRequest, read_message};
use super::stamp::{Mac, ReflectorPacket, SenderPacket, StampTime, UNAUTHENTICATED};
use super::tally::TallyTotals;
use super::way::FrameWay;
use crate::units::{Rate, Span, Time};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

/// A cookie is good for the minute in which it was made, and the next.
const COOKIE_LASTS: Span = Span::from_secs(60);
/// How long a test is kept whose sender says nothing: it may have been killed and go on.
const KEPT: Span = Span::from_secs(3_600);
/// How long a flood may be silent before its frames have no way of their own any more.
const FLOOD_SILENCE: Span = Span::from_secs(10);
/// Tests at once.
const MOST_SESSIONS: usize = 16;
/// Tests that may be granted and have not begun.
const MOST_GRANTED: usize = 64;
/// Addresses of which it is known when the last answer left.
const MOST_FOLLOWED: usize = 64;
/// What a test without a pace says that it will send.
const UNPACED: Rate = Rate::from_bps(u64::MAX);
/// Rows in an answer; fewer have room.
const ROWS: usize = 16;
/// Entries of losses in an answer; fewer have room.
const LOSSES: usize = 256;

/// What a reflector is told at its start.
#[derive(Clone, Debug)]
pub struct ReflectorSettings {
    /// Its cookies come from it; nobody else may know it.
    pub secret: [u8; 32],
    /// Another for each start.
    pub instance: u64,
    /// Which clock it reads.
    pub boot: u64,
    /// The most that all tests together may send; no limit where there is none.
    pub most: Option<Rate>,
    /// Whether anybody's STAMP packets are sent back, as the standard has it, or only those of a
    /// test's sender.
    pub is_open: bool,
    /// Whether payloads are compared, bit by bit.
    pub is_compared: bool,
    /// Whether a test must have been granted ([`LineReflector::grant`]); to others nothing is said.
    pub is_granted_only: bool,
}

/// What came, and when.
#[derive(Clone, Copy, Debug)]
pub struct LineDatagram<'a> {
    /// From whom.
    pub from: SocketAddr,
    /// Its payload.
    pub bytes: &'a [u8],
    /// When the kernel had it, since 1970.
    pub received: Time,
    /// Its TTL or hop limit.
    pub ttl: u8,
}

#[derive(Debug)]
struct ReflectorSession {
    reader: LoadReader,
    rate: Rate,
    heard: Time,
    /// When its first frame was taken, and its latest.
    frames: Option<(Time, Time)>,
    /// Packets were dropped here since its last frame.
    after_own_drops: bool,
    reflected: u32,
    /// By which way its frames come, where that can differ.
    way: Option<FrameWay>,
}

/// The machine.
#[derive(Debug)]
pub struct LineReflector {
    settings: ReflectorSettings,
    sessions: BTreeMap<u64, ReflectorSession>,
    addresses: BTreeMap<SocketAddr, u64>,
    /// Tests that were granted, the latest last.
    granted: VecDeque<u64>,
    /// Where a test without a pace has just begun.
    flood: Option<SocketAddr>,
    /// Packets sent back to others.
    reflected: u32,
    /// When the last answers left that were timed, one of each address, the latest last.
    followed: VecDeque<(SocketAddr, FollowUp)>,
    /// The number of the answer that is to be timed.
    timed: Option<u32>,
}

impl LineReflector {
    /// One without tests.
    pub fn new(settings: ReflectorSettings) -> LineReflector {
        LineReflector {
            settings,
            sessions: BTreeMap::new(),
            addresses: BTreeMap::new(),
            granted: VecDeque::new(),
            flood: None,
            reflected: 0,
            followed: VecDeque::new(),
            timed: None,
        }
    }

    /// Lets the test `session` begin, where tests must be granted. Of many that do not begin, the
    /// oldest are forgotten.
    pub fn grant(&mut self, session: u64) {
        if self.granted.len() >= MOST_GRANTED {
            self.granted.pop_front();
        }
        self.granted.push_back(session);
    }

    /// How many tests are known.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// From where frames will come as fast as a host can send them, once the answer of the last
    /// [`handle`](LineReflector::handle) is there; each such test is told of once.
    pub fn take_flood(&mut self) -> Option<SocketAddr> {
        self.flood.take()
    }

    /// The number of the answer that the last [`handle`](LineReflector::handle) returned, where its
    /// sender wants to know when it leaves; each is told of once.
    pub fn take_timed(&mut self) -> Option<u32> {
        self.timed.take()
    }

    /// When an answer to `from` left; it is said with the next one.
    pub fn note_left(&mut self, from: SocketAddr, follow_up: FollowUp) {
        self.followed.retain(|(other, _)| *other != from);
        if self.followed.len() >= MOST_FOLLOWED {
            self.followed.pop_front();
        }
        self.followed.push_back((from, follow_up));
    }

    /// By which way the frames of the test without a pace at `from` come.
    pub fn note_way(&mut self, from: SocketAddr, way: FrameWay) {
        let session = self.addresses.get(&from).and_then(|id| self.sessions.get_mut(id));
        if let Some(session) = session {
            session.way = Some(way);
        }
    }

    /// Whether a test without a pace is under way from `from`, and said something of late.
    pub fn is_flood(&self, now: Time, from: SocketAddr) -> bool {
        let session = self.addresses.get(&from).and_then(|id| self.sessions.get(id));
        session.is_some_and(|session| {
            session.rate == UNPACED && now.since(session.heard) < FLOOD_SILENCE
        })
    }

    /// This host dropped `packets` that had come, whosever they were; none where it only may have.
    pub fn note_own_drops(&mut self, packets: u64) {
        for session in self.sessions.values_mut() {
            session.after_own_drops = true;
            session.reader.tally.note_own_drops(packets);
        }
    }

    /// Takes what came, at `now` by a clock that does not step and `clock` by one that knows the
    /// date; returns what is to be sent back to where it came from.
    pub fn handle(
        &mut self,
        now: Time,
        clock: StampTime,
        datagram: &LineDatagram<'_>,
        mac: Option<Mac<'_>>,
    ) -> Option<Vec<u8>> {
        if let Some(id) = self.addresses.get(&datagram.from)
            && let Some(session) = self.sessions.get_mut(id)
            && session.reader.take(datagram.bytes, session.after_own_drops)
        {
            session.after_own_drops = false;
            session.heard = now;
            session.frames = session.frames.map(|(first, _)| (first, now)).or(Some((now, now)));
            return None;
        }
        if let Some(request) = read_message(datagram.bytes) {
            return self.answer(now, clock, datagram, request)?.fitting(datagram.bytes.len());
        }
        self.reflect(clock, datagram, mac)
    }

    fn answer(
        &mut self,
        now: Time,
        clock: StampTime,
        datagram: &LineDatagram<'_>,
        request: LineRequest,
    ) -> Option<LineAnswer> {
        self.forget(now);
        let from = datagram.from;
        Some(match request {
            LineRequest::Hello { nonce } => {
                LineAnswer::Cookie { nonce, cookie: self.cookie(from, now) }
            }
            LineRequest::Begin { nonce, cookie, session, rate_bps, at_us } => {
                let before =
                    Time::from_nanos(now.as_nanos().saturating_sub(COOKIE_LASTS.as_nanos()));
                if cookie != self.cookie(from, now) && cookie != self.cookie(from, before) {
                    return None;
                }
                if self.settings.is_granted_only && !self.may_begin(session) {
                    return None;
                }
                let rate = Rate::from_bps(rate_bps);
                if let Some(refused) = self.refuses(session, rate, nonce) {
                    return Some(refused);
                }
                self.begin(now, from, session, rate, at_us);
                LineAnswer::Begun {
                    nonce,
                    instance: self.settings.instance,
                    boot: self.settings.boot,
                    is_synchronised: clock.is_synchronised,
                    clock_error_ns: clock.error_ns,
                }
            }
            LineRequest::Rows { nonce, session, since } => match self.known(now, from, session) {
                None => LineAnswer::Unknown { nonce },
                Some(session) => {
                    let rows = session.reader.tally.rows(since, ROWS);
                    LineAnswer::Rows { nonce, is_more: rows.len() == ROWS, rows }
                }
            },
            LineRequest::Totals { nonce, session, sent } => match self.known(now, from, session) {
                None => LineAnswer::Unknown { nonce },
                Some(session) => {
                    if let (true, Some(sent)) = (session.after_own_drops, sent) {
                        session.reader.tally.note_own_end(sent);
                    }
                    let totals = session.reader.tally.totals(sent);
                    let way = session.way;
                    let (first, last) = session.frames.unwrap_or((now, now));
                    let came_ns = last.as_nanos().saturating_sub(first.as_nanos());
                    LineAnswer::Totals {
                        nonce,
                        totals: Box::new(TallyTotals { came_ns, way, ..totals }),
                    }
                }
            },
            LineRequest::Losses { nonce, session, since, sent } => {
                match self.known(now, from, session) {
                    None => LineAnswer::Unknown { nonce },
                    Some(session) => {
                        let (first, entries) = session.reader.tally.losses(since, sent, LOSSES);
                        let is_more = entries.len() == LOSSES;
                        LineAnswer::Losses { nonce, first, entries, is_more }
                    }
                }
            }
            LineRequest::End { nonce, session } => {
                if self.known(now, from, session).is_some() {
                    self.sessions.remove(&session);
                    self.addresses.remove(&from);
                }
                LineAnswer::Ended { nonce }
            }
        })
    }

    /// Whether the session `id` was granted, or has begun.
    fn may_begin(&self, id: u64) -> bool {
        self.sessions.contains_key(&id) || self.granted.contains(&id)
    }

    /// Why the session `id` cannot send at `rate`; `None` where it can.
    fn refuses(&self, id: u64, rate: Rate, nonce: u64) -> Option<LineAnswer> {
        let others = self.sessions.iter().filter(|(other, _)| **other != id);
        let taken: u64 = others.map(|(_, session)| session.rate.as_bps()).sum();
        let is_full = !self.sessions.contains_key(&id) && self.sessions.len() >= MOST_SESSIONS;
        let left = self.settings.most.map(|most| most.as_bps().saturating_sub(taken));
        let is_too_much = left.is_some_and(|left| rate.as_bps() > left);
        (is_full || is_too_much)
            .then(|| LineAnswer::Refused { nonce, most_bps: left.filter(|_| !is_full) })
    }

    fn begin(&mut self, now: Time, from: SocketAddr, id: u64, rate: Rate, at_us: u64) {
        let is_compared = self.settings.is_compared;
        let session = self.sessions.entry(id).or_insert_with(|| ReflectorSession {
            reader: LoadReader::new(id, at_us, is_compared),
            rate,
            heard: now,
            frames: None,
            after_own_drops: false,
            reflected: 0,
            way: None,
        });
        (session.rate, session.heard) = (rate, now);
        self.granted.retain(|granted| *granted != id);
        // A sender that goes on is at another address, and does not know what it sent last.
        if at_us > 0 && !self.addresses.contains_key(&from) {
            session.reader.tally.go_on();
        }
        if rate == UNPACED && self.addresses.get(&from) != Some(&id) {
            self.flood = Some(from);
        }
        self.addresses.retain(|_, other| *other != id);
        self.addresses.insert(from, id);
    }

    /// The session `id`, which is that of whoever is at `from`.
    fn known(&mut self, now: Time, from: SocketAddr, id: u64) -> Option<&mut ReflectorSession> {
        self.addresses.get(&from).filter(|known| **known == id)?;
        let session = self.sessions.get_mut(&id)?;
        session.heard = now;
        Some(session)
    }

    fn reflect(
        &mut self,
        clock: StampTime,
        datagram: &LineDatagram<'_>,
        mac: Option<Mac<'_>>,
    ) -> Option<Vec<u8>> {
        let session = self.addresses.get(&datagram.from).and_then(|id| self.sessions.get_mut(id));
        if session.is_none() && !self.settings.is_open {
            return None;
        }
        let packet = SenderPacket::read(mac, datagram.bytes)?;
        let reflected = session.map_or(&mut self.reflected, |session| &mut session.reflected);
        // The stateful mode counts for each session; the stateless one repeats the sender's number.
        let sequence = if self.settings.is_open { packet.sequence } else { *reflected };
        *reflected = reflected.wrapping_add(1);
        // TWAMP's packets may be shorter by what is zero at an answer's end.
        let len = datagram.bytes.len();
        let mut bytes = datagram.bytes.to_vec();
        bytes.resize(len.max(UNAUTHENTICATED), 0);
        ReflectorPacket {
            sequence,
            sent: clock,
            session: packet.session,
            received: datagram.received,
            sender_sequence: packet.sequence,
            sender_sent: packet.sent,
            sender_ttl: datagram.ttl,
        }
        .write(mac, &mut bytes);
        // The authenticated mode would need a TLV with an HMAC of TLVs.
        if mac.is_none() && FollowUp::is_asked(&bytes) {
            let before = self.followed.iter().find(|(other, _)| *other == datagram.from);
            FollowUp::answer(before.map(|(_, follow_up)| *follow_up), &mut bytes);
            self.timed = Some(sequence);
        }
        bytes.truncate(len);
        Some(bytes)
    }

    fn cookie(&self, from: SocketAddr, at: Time) -> u64 {
        let minute = at.as_nanos() / COOKIE_LASTS.as_nanos();
        let hash = blake3::keyed_hash(&self.settings.secret, format!("{from} {minute}").as_bytes());
        hash.as_bytes().first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
    }

    fn forget(&mut self, now: Time) {
        self.sessions.retain(|_, session| now.since(session.heard) < KEPT);
        let sessions = &self.sessions;
        self.addresses.retain(|_, id| sessions.contains_key(id));
    }
}

#[cfg(test)]
mod tests {
    use super::super::follow_up::FOLLOW_UP_PACKET;
    use super::super::message::write_message;
    use super::super::{FrameMix, LoadWriter, Pattern, stamp};
    use super::*;

    fn reflector(most: Option<u64>, is_open: bool) -> LineReflector {
        LineReflector::new(ReflectorSettings {
            secret: [7; 32],
            instance: 1,
            boot: 2,
            most: most.map(Rate::from_bps),
            is_open,
            is_compared: true,
            is_granted_only: false,
        })
    }

    const CLOCK: StampTime = StampTime {
        time: Time::from_nanos(5_000),
        is_synchronised: true,
        error_ns: 1_000,
        as_it_came: None,
    };

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    fn sends(reflector: &mut LineReflector, port: u16, bytes: &[u8]) -> Option<Vec<u8>> {
        sends_at(reflector, Time::ZERO, port, bytes)
    }

    fn sends_at(
        reflector: &mut LineReflector,
        now: Time,
        port: u16,
        bytes: &[u8],
    ) -> Option<Vec<u8>> {
        let received = Time::from_nanos(4_000);
        let datagram = LineDatagram { from: address(port), bytes, received, ttl: 60 };
        reflector.handle(now, CLOCK, &datagram, None)
    }

    fn asks(reflector: &mut LineReflector, port: u16, request: &LineRequest) -> Option<LineAnswer> {
        let bytes = request.bytes();
        let answer = sends(reflector, port, &bytes)?;
        assert!(answer.len() <= bytes.len(), "an amplifier");
        read_message(&answer)
    }

    fn begins(reflector: &mut LineReflector, port: u16, rate_bps: u64) -> Option<LineAnswer> {
        let cookie = match asks(reflector, port, &LineRequest::Hello { nonce: 1 }) {
            Some(LineAnswer::Cookie { nonce: 1, cookie }) => cookie,
            other => panic!("{other:?}"),
        };
        let begin = LineRequest::Begin { nonce: 2, cookie, session: 9, rate_bps, at_us: 0 };
        asks(reflector, port, &begin)
    }

    #[test]
    fn nothing_is_kept_or_sent_without_the_cookie() {
        let mut reflector = reflector(None, false);
        let begin = LineRequest::Begin { nonce: 2, cookie: 1, session: 9, rate_bps: 1, at_us: 0 };
        assert_eq!(asks(&mut reflector, 1, &begin), None);
        assert_eq!(reflector.sessions(), 0);
        // A cookie is of one address.
        let Some(LineAnswer::Cookie { cookie, .. }) =
            asks(&mut reflector, 1, &LineRequest::Hello { nonce: 1 })
        else {
            panic!("a cookie");
        };
        let begin = LineRequest::Begin { nonce: 2, cookie, session: 9, rate_bps: 1, at_us: 0 };
        assert_eq!(asks(&mut reflector, 2, &begin), None);
        assert_eq!(sends(&mut reflector, 3, &[0; 44]), None, "STAMP of a stranger");
        // A request that is too short for its answer gets none.
        assert_eq!(sends(&mut reflector, 1, &write_message(&begin, 0)), None);
    }

    #[test]
    fn it_tells_from_the_first_frame_to_the_last_how_long_they_came() {
        let mut reflector = reflector(None, false);
        assert!(matches!(begins(&mut reflector, 1, 1_000), Some(LineAnswer::Begun { .. })));
        let kind = FrameMix::fixed(64, Pattern::Crpat).turn[0];
        let (mut writer, mut frame) = (LoadWriter::new(9, 0), [0; 18]);
        for n in 3..8 {
            writer.write(kind, n, false, &mut frame);
            assert_eq!(sends_at(&mut reflector, Time::from_nanos(n * 100), 1, &frame), None);
        }
        reflector.note_way(address(1), FrameWay::PacketRing);
        // What is asked later changes nothing.
        let request = LineRequest::Totals { nonce: 3, session: 9, sent: Some(8) };
        match asks(&mut reflector, 1, &request) {
            Some(LineAnswer::Totals { totals, .. }) => {
                assert_eq!((totals.came_ns, totals.way), (400, Some(FrameWay::PacketRing)))
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn frames_are_counted_for_their_session_alone() {
        let mut reflector = reflector(None, false);
        assert!(matches!(begins(&mut reflector, 1, 1_000), Some(LineAnswer::Begun { .. })));
        let kind = FrameMix::fixed(64, Pattern::Crpat).turn[0];
        let mut writer = LoadWriter::new(9, 0);
        let mut frame = [0; 18];
        for n in 0..10 {
            writer.write(kind, n, false, &mut frame);
            if n != 4 {
                assert_eq!(sends(&mut reflector, 1, &frame), None);
            }
        }
        assert_eq!(sends(&mut reflector, 2, &frame), None, "from elsewhere");
        let totals = LineRequest::Totals { nonce: 3, session: 9, sent: Some(10) };
        match asks(&mut reflector, 1, &totals) {
            Some(LineAnswer::Totals { totals, .. }) => {
                assert_eq!((totals.received, totals.runs.lost), (9, 1))
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(asks(&mut reflector, 2, &totals), Some(LineAnswer::Unknown { nonce: 3 }));
        // What is not decided yet is told once all is sent.
        for (sent, told) in [(None, vec![]), (Some(10), vec![(4, 1), (5, 0)])] {
            let losses = LineRequest::Losses { nonce: 4, session: 9, since: 0, sent };
            let answer = LineAnswer::Losses { nonce: 4, first: 0, entries: told, is_more: false };
            assert_eq!(asks(&mut reflector, 1, &losses), Some(answer));
        }
    }

    #[test]
    fn a_test_without_a_pace_is_told_of_once() {
        let mut reflector = reflector(None, false);
        assert!(matches!(begins(&mut reflector, 1, 1_000), Some(LineAnswer::Begun { .. })));
        assert_eq!(
            (reflector.take_flood(), reflector.is_flood(Time::ZERO, address(1))),
            (None, false)
        );
        for told in [Some(address(2)), None] {
            assert!(matches!(begins(&mut reflector, 2, u64::MAX), Some(LineAnswer::Begun { .. })));
            assert_eq!(reflector.take_flood(), told, "asked again, it is the same test");
        }
        let after = |seconds| Time::ZERO + Span::from_secs(seconds);
        assert!(
            reflector.is_flood(after(9), address(2)) && !reflector.is_flood(after(10), address(2))
        );
        let end = LineRequest::End { nonce: 3, session: 9 };
        assert_eq!(asks(&mut reflector, 2, &end), Some(LineAnswer::Ended { nonce: 3 }));
        assert!(!reflector.is_flood(Time::ZERO, address(2)));
    }

    #[test]
    fn no_more_is_let_in_than_is_allowed() {
        let mut reflector = reflector(Some(1_000), false);
        let refused = LineAnswer::Refused { nonce: 2, most_bps: Some(1_000) };
        assert_eq!(begins(&mut reflector, 1, 1_001), Some(refused));
        assert!(matches!(begins(&mut reflector, 1, 1_000), Some(LineAnswer::Begun { .. })));
    }

    #[test]
    fn where_tests_are_granted_no_other_begins() {
        let mut reflector = reflector(None, false);
        reflector.settings.is_granted_only = true;
        assert_eq!(begins(&mut reflector, 1, 1_000), None);
        reflector.grant(8);
        assert_eq!(begins(&mut reflector, 1, 1_000), None, "another was granted");
        reflector.grant(9);
        for _ in 0..2 {
            assert!(matches!(begins(&mut reflector, 1, 1_000), Some(LineAnswer::Begun { .. })));
        }
        (0..1_000).for_each(|session| reflector.grant(1_000 + session));
        assert!(reflector.granted.len() <= MOST_GRANTED && !reflector.may_begin(8));
    }

    #[test]
    fn an_answer_says_when_the_one_before_it_left() {
        let mut reflector = reflector(None, true);
        let mut bytes = [0; FOLLOW_UP_PACKET];
        stamp::SenderPacket { sequence: 3, sent: CLOCK, session: 8 }.write(None, &mut bytes);
        sends(&mut reflector, 5, &bytes).expect("an answer");
        assert_eq!(reflector.take_timed(), None, "nobody asked");
        FollowUp::ask(&mut bytes);
        let left = FollowUp { sequence: 3, sent: Time::from_nanos(6_000_000_000) };
        for (port, before) in [(5, None), (5, Some(left)), (6, None)] {
            let back = sends(&mut reflector, port, &bytes).expect("an answer");
            assert_eq!((back.len(), FollowUp::read(&back)), (bytes.len(), before));
            assert_eq!((reflector.take_timed(), reflector.take_timed()), (Some(3), None));
            reflector.note_left(address(5), left);
        }
        (0..1_000).for_each(|port| reflector.note_left(address(port), left));
        assert_eq!(reflector.followed.len(), MOST_FOLLOWED);
    }

    #[test]
    fn twamps_shorter_packets_are_answered_with_as_many_bytes() {
        let mut reflector = reflector(None, true);
        let mut bytes = [0; 44];
        stamp::SenderPacket { sequence: 3, sent: CLOCK, session: 0 }.write(None, &mut bytes);
        let back = sends(&mut reflector, 5, &bytes[..41]).expect("an answer");
        let packet = stamp::ReflectorPacket::read(None, &back).expect("a packet");
        assert_eq!((back.len(), packet.sender_sequence, packet.sender_ttl), (41, 3, 60));
        assert_eq!(sends(&mut reflector, 5, &bytes[..40]), None, "no answer is longer");
    }

    #[test]
    fn stamp_packets_come_back_with_their_padding() {
        let mut reflector = reflector(None, true);
        let mut bytes = [0xab; 60];
        let sent = stamp::SenderPacket { sequence: 3, sent: CLOCK, session: 8 };
        sent.write(None, &mut bytes);
        let back = sends(&mut reflector, 5, &bytes).expect("an answer");
        assert_eq!((back.len(), &back[44..]), (60, &[0xab; 16][..]));
        let packet = stamp::ReflectorPacket::read(None, &back).expect("a packet");
        assert_eq!((packet.sequence, packet.sender_sequence, packet.sender_ttl), (3, 3, 60));
        assert_eq!((packet.session, packet.received), (8, Time::from_nanos(4_000)));
    }
}

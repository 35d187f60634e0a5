//! The far end of a test: it counts load frames, answers what it is asked, and sends STAMP packets
//! back.
//!
//! Invariants: nothing is kept of an address that has not shown its cookie; no answer is longer
//! than what it answers; nobody is answered who did not ask.

use super::follow_up::FollowUp;
use super::load::LoadReader;
use super::message::{LineAnswer, LineRequest, read_message};
use super::receive_drops::ReceiveDrops;
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
    /// What the devices dropped by which they come, where that is known.
    device_drops: Option<ReceiveDrops>,
    /// The latest second of which a frame had come when these were last looked at.
    looked_at: u64,
    /// What came until then came while a device dropped packets.
    device_dropped: Option<Time>,
    reflected: u32,
    /// By which way its frames come, where that can differ.
    way: Option<FrameWay>,
}

impl ReflectorSession {
    /// Counts a frame of its load; returns whether it is one.
    fn takes(&mut self, now: Time, datagram: &LineDatagram<'_>) -> bool {
        let before = self.reader.tally.last_second();
        if !self.reader.take(datagram.bytes, self.after_own_drops) {
            return false;
        }
        self.after_own_drops = false;
        if let Some(until) = self.device_dropped {
            let last = self.reader.tally.last_second();
            self.reader.tally.note_own_seconds(before.min(last), last);
            self.device_dropped = Some(until).filter(|until| datagram.received <= *until);
        }
        self.heard = now;
        self.frames = self.frames.map(|(first, _)| (first, now)).or(Some((now, now)));
        true
    }

    /// The second of the last frame, where packets were dropped here since.
    fn dropping_since(&self) -> Option<u64> {
        let is_dropping = self.after_own_drops || self.device_dropped.is_some();
        is_dropping.then(|| self.reader.tally.last_second())
    }
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

    /// From where tests send.
    pub fn senders(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        self.addresses.keys().copied()
    }

    /// The devices by which what comes from `from` comes to this host dropped so many packets since
    /// they were last looked at, whosever they were; it is `at` by the clock of datagrams.
    pub fn note_device_drops(&mut self, from: SocketAddr, at: Time, drops: &ReceiveDrops) {
        let session = self.addresses.get(&from).and_then(|id| self.sessions.get_mut(id));
        let Some(session) = session else { return };
        session.device_drops = Some(session.device_drops.unwrap_or_default().and(drops));
        let last = session.reader.tally.last_second();
        let since = std::mem::replace(&mut session.looked_at, last);
        if drops.all() > 0 {
            session.reader.tally.note_own_seconds(since.min(last), last);
            // What stands in the socket's queue came before, and what was dropped between it.
            session.device_dropped = Some(at);
        }
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
            && session.takes(now, datagram)
        {
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
                    let dropping_since = session.dropping_since();
                    LineAnswer::Rows { nonce, is_more: rows.len() == ROWS, rows, dropping_since }
                }
            },
            LineRequest::Totals { nonce, session, sent, settled } => {
                match self.known(now, from, session) {
                    None => LineAnswer::Unknown { nonce },
                    Some(session) => {
                        if let (true, Some(sent)) = (session.after_own_drops, sent) {
                            session.reader.tally.note_own_end(sent);
                        }
                        session.reader.tally.settle(&settled);
                        let totals = session.reader.tally.totals(sent);
                        let (way, device_drops) = (session.way, session.device_drops);
                        let (first, last) = session.frames.unwrap_or((now, now));
                        let came_ns = last.as_nanos().saturating_sub(first.as_nanos());
                        let settled = session.reader.tally.settled();
                        let totals = Box::new(TallyTotals { came_ns, way, device_drops, ..totals });
                        LineAnswer::Totals { nonce, settled, totals }
                    }
                }
            }
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
            device_drops: None,
            looked_at: 0,
            device_dropped: None,
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
#[path = "reflector_tests.rs"]
mod tests;

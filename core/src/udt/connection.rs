//! One end of a UDT connection as a machine, from the handshake's end to the farewell.

use super::algorithm::RateAlgorithm;
use super::events::{Ended, Input, Output};
use super::handshake::{HandshakeKind, SocketId, UdtHandshake};
use super::packet::{ControlPacket, HEADER_LEN};
use super::rate::SYN;
use super::receiving::{Place, Receiving};
use super::sending::{FIRST_TIMEOUT, Sending};
use super::sequence::SequenceNumber;
use crate::congestion::Yielded;
use crate::units::{Bytes, Rng, Span, Time};
use std::collections::VecDeque;

/// A peer is not missed sooner than this (draft-gg-udt-03, section 3.1 has half a second, libudt
/// this).
const LEAST_EXPIRY: Span = Span::from_millis(300);
/// So often something was said into a silence before the connection is given up.
const LEAST_EXPIRIES: u32 = 4;
/// A connection says that it is there at least this often.
const KEEP_ALIVE_EVERY: Span = Span::from_secs(1);
/// How long an end that is done repeats its farewell to a peer that has not heard it.
const LINGER: Span = Span::from_secs(5);
/// The most bytes of IP and UDP headers that `packet_len` counts: libudt takes IPv4 for granted.
pub(super) const BELOW_UDT: u32 = 28;
/// The shortest packets that can be agreed on: IPv4 carries them whole everywhere.
pub(super) const LEAST_PACKET: u32 = 576;

/// What both ends have come to by the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Established {
    /// This end, and the peer.
    pub ends: (SocketId, SocketId),
    /// The numbers of the first packets that this end sends, and that it receives.
    pub first: (SequenceNumber, SequenceNumber),
    /// The longest packet in bytes, IP and UDP headers (28 bytes) included.
    pub packet_len: u32,
    /// Packets that the peer has room for.
    pub window: u32,
    /// What is said to a peer that asks still.
    pub reply: UdtHandshake,
    /// Whether both ends asked.
    pub is_rendezvous: bool,
}

/// What one end wants of its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndSettings {
    /// The longest packet in bytes, IP and UDP headers (28 bytes) included.
    pub packet_len: u32,
    /// Packets that this end has room for.
    pub room: u32,
    /// How it sends.
    pub rate: RateAlgorithm,
    /// How long nothing may be heard of a peer that should speak.
    pub idle_timeout: Span,
}

impl Default for EndSettings {
    /// 1500 bytes and 25600 packets as libudt has them, its own control, half a minute.
    fn default() -> EndSettings {
        EndSettings {
            packet_len: 1500,
            room: 25_600,
            rate: RateAlgorithm::Native,
            idle_timeout: Span::from_secs(30),
        }
    }
}

/// The machine: `handle`, then `poll` until it says [`Output::Wait`].
#[derive(Debug)]
pub struct Connection {
    established: Established,
    sending: Sending,
    receiving: Receiving,
    settings: EndSettings,
    /// What is to be said at once.
    urgent: VecDeque<Output>,
    /// Bytes of the stream of which it was said that the peer has them.
    said: u64,
    heard_at: Time,
    expiries: u32,
    /// Since when, and last when, the peer has lacked what it had acknowledged.
    contradicted: Option<(Time, Time)>,
    expires: Time,
    spoke_at: Time,
    ack2_at: Time,
    finishes: bool,
    ended: Option<(Ended, Time)>,
}

impl Connection {
    /// A connection that begins at `now`.
    pub fn new(
        now: Time,
        established: Established,
        settings: EndSettings,
        seed: &Rng,
    ) -> Connection {
        let packet_len = established.packet_len.min(settings.packet_len);
        let datagram = packet_len.saturating_sub(BELOW_UDT);
        let payload = datagram.saturating_sub(HEADER_LEN as u32);
        // In a rendezvous libudt goes by what this end said, and not by what both can.
        let longest = match established.is_rendezvous {
            true => settings.packet_len.saturating_sub(BELOW_UDT + HEADER_LEN as u32),
            false => payload,
        };
        let control = settings.rate.control(Bytes(u64::from(packet_len)), seed);
        let (own, peers) = established.first;
        Connection {
            sending: Sending::new(now, own, datagram, established.window, control),
            receiving: Receiving::new(now, peers, (payload, longest), u64::from(settings.room)),
            established,
            settings,
            urgent: VecDeque::new(),
            said: 0,
            heard_at: now,
            expiries: 0,
            contradicted: None,
            expires: now + FIRST_TIMEOUT,
            spoke_at: now,
            ack2_at: now,
            finishes: false,
            ended: None,
        }
    }

    /// What both ends have come to.
    pub fn established(&self) -> &Established {
        &self.established
    }

    /// The least round-trip time that a packet of this end's took; else what acknowledgements took.
    pub fn least_rtt(&self) -> Option<Span> {
        self.sending.least_rtt().or(self.receiving.rtt())
    }

    /// The smoothed round-trip time of this end's packets, once one was measured.
    pub fn smoothed_rtt(&self) -> Option<Span> {
        self.sending.smoothed_rtt()
    }

    /// Bytes of this end's stream that were sent at least once, of those that the program wrote.
    pub fn sent_bytes(&self) -> (u64, u64) {
        self.sending.sent_bytes()
    }

    /// Packets that were sent, and of those sent again.
    pub fn packets(&self) -> (u64, u64) {
        (self.sending.sent_packets(), self.sending.resent)
    }

    /// Packets sent again, and packets that came twice.
    pub fn repeats(&self) -> (u64, u64) {
        (self.sending.resent, self.receiving.duplicates)
    }

    /// Whether the control gave a part of a held rate up, and why.
    pub fn yielded(&self) -> Option<Yielded> {
        self.sending.yielded()
    }

    /// Why the connection is over, if it is.
    pub fn ended(&self) -> Option<Ended> {
        self.ended.map(|(why, _)| why)
    }

    /// Whether not even a farewell is owed to anybody.
    pub fn is_forgotten(&self, now: Time) -> bool {
        self.ended.is_some_and(|(why, at)| why != Ended::Here || now >= at + LINGER)
    }

    /// Takes in what happened at `now`; times must not run backwards.
    pub fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Data { token, .. } if self.ended.is_some() => {
                self.urgent.push_back(Output::Discard(token));
                self.farewell();
            }
            Input::Data { sequence, len, token, arrived } => {
                self.heard(now);
                let place = self.receiving.data(arrived.min(now), now, sequence, len, token);
                if place == Place::Discarded {
                    self.urgent.push_back(Output::Discard(token));
                }
            }
            Input::Control(control) => self.control(now, control),
            Input::Written(bytes) if self.ended.is_none() => self.sending.written(bytes),
            Input::Written(_) => {}
            Input::Read(packets) => self.receiving.read(packets),
            Input::Room(packets) => self.receiving.resize(u64::from(packets)),
            Input::Resume(saved) => self.sending.resume(saved),
            Input::LongestDatagram(len) => {
                self.sending.longest_datagram(len);
                self.receiving.longest_datagram(len);
            }
            Input::Finish => self.finishes = true,
            Input::Abort => self.end(now, Ended::Here),
        }
    }

    fn control(&mut self, now: Time, control: ControlPacket) {
        if self.ended.is_some() {
            if control != ControlPacket::Shutdown {
                self.farewell();
            }
            return;
        }
        self.heard(now);
        if matches!(control, ControlPacket::Ack { .. } | ControlPacket::Nak(_)) {
            self.replied(now);
        }
        match control {
            ControlPacket::Ack { number, next, known } => {
                // One a SYN is enough for the round-trip time, and one more for what is repeated.
                // What cannot be, damaged on its way, is not confirmed: the peer says it again.
                match self.sending.acked(now, next, known.as_ref()) {
                    None => self.contradicted(now),
                    Some(is_new) => {
                        self.contradicted = None;
                        if known.is_some() && (!is_new || now.since(self.ack2_at) >= SYN) {
                            self.ack2_at = now;
                            self.urgent.push_back(Output::Send(ControlPacket::Ack2 { number }));
                        }
                    }
                }
            }
            ControlPacket::Ack2 { number } => self.receiving.heard(now, number),
            ControlPacket::Nak(losses) => {
                if !self.sending.lost(now, &losses) {
                    self.contradicted(now);
                }
            }
            ControlPacket::Shutdown => self.end(now, Ended::Peer),
            ControlPacket::Handshake(asks) => self.asked_again(&asks),
            ControlPacket::KeepAlive | ControlPacket::Other(_) => {}
        }
    }

    /// The peer has not heard this end's last handshake.
    fn asked_again(&mut self, asks: &UdtHandshake) {
        let peer = self.established.ends.1;
        // Whoever listens replies to a client itself; a second reply here would go round for ever.
        let answers = self.established.is_rendezvous && asks.kind != HandshakeKind::Connected;
        if answers && asks.from == peer {
            self.urgent.push_back(Output::Send(ControlPacket::Handshake(self.established.reply)));
        }
    }

    fn heard(&mut self, now: Time) {
        self.heard_at = now;
        self.sending.heard(now);
        // A peer that is there, as its keep-alives say, may miss what was sent all the same.
        if !self.sending.has_unacknowledged() {
            self.replied(now);
        }
    }

    /// The peer says that it lacks what it has acknowledged. Late words do; one that was damaged
    /// on its way leaves nothing else to be said, and what it cost is here no more.
    fn contradicted(&mut self, now: Time) {
        let idle_timeout = self.settings.idle_timeout;
        let known = self.contradicted.filter(|(_, last)| now.since(*last) < idle_timeout);
        let since = known.map_or(now, |(since, _)| since);
        self.contradicted = Some((since, now));
        if now.since(since) >= idle_timeout {
            self.end(now, Ended::IdleTimeout);
        }
    }

    /// The peer owes nothing, or has said what it has.
    fn replied(&mut self, now: Time) {
        self.expiries = 0;
        self.expires = now + self.expiry_period();
    }

    /// How long nothing may be heard before something is said or sent again: by the longer of the
    /// round trips that the halves have measured, one of which may have had nothing to measure.
    fn expiry_period(&self) -> Span {
        let sending = self.sending.smoothed_rtt().map(|_| self.sending.timeout());
        let receiving = self.receiving.rtt().map(|_| self.receiving.timeout() + SYN);
        sending.max(receiving).unwrap_or(FIRST_TIMEOUT).max(LEAST_EXPIRY)
    }

    fn end(&mut self, now: Time, why: Ended) {
        if self.ended.is_some() {
            return;
        }
        self.ended = Some((why, now));
        if why == Ended::Here {
            self.farewell();
        }
        self.urgent.push_back(Output::Ended(why));
    }

    fn farewell(&mut self) {
        if self.ended() == Some(Ended::Here) {
            self.urgent.push_back(Output::Send(ControlPacket::Shutdown));
        }
    }

    /// What to do at `now`.
    pub fn poll(&mut self, now: Time) -> Output {
        if let Some(output) = self.urgent.pop_front() {
            return output;
        }
        // What came in order is the reader's, even after the end.
        if let Some((token, len)) = self.receiving.deliver() {
            return Output::Deliver { token, len };
        }
        if self.ended.is_some() {
            return Output::Wait(None);
        }
        let acknowledged = self.sending.acknowledged_bytes();
        if acknowledged > self.said {
            self.said = acknowledged;
            return Output::Acknowledged(acknowledged);
        }
        if let Some(control) = self.receiving.poll(now) {
            self.spoke_at = now;
            return Output::Send(control);
        }
        if self.finishes && self.sending.is_idle() {
            self.end(now, Ended::Here);
            return self.poll(now);
        }
        if now >= self.expires {
            self.expired(now);
            if let Some(output) = self.urgent.pop_front() {
                return output;
            }
        }
        let was_idle = !self.sending.has_unacknowledged();
        if let Some(packet) = self.sending.poll(now) {
            if was_idle {
                // A peer that had nothing to acknowledge was not silent (libudt's `send` has that).
                self.expires = self.expires.max(now + self.expiry_period());
            }
            return Output::SendData(packet);
        }
        if now >= self.spoke_at + KEEP_ALIVE_EVERY {
            self.spoke_at = now;
            return Output::Send(ControlPacket::KeepAlive);
        }
        let own = [Some(self.expires), Some(self.spoke_at + KEEP_ALIVE_EVERY)];
        let halves = [self.sending.wakes(), self.receiving.wakes()];
        Output::Wait(own.into_iter().chain(halves).flatten().min())
    }

    /// Nothing was heard of the peer for a while.
    fn expired(&mut self, now: Time) {
        self.expiries += 1;
        if self.expiries > LEAST_EXPIRIES && now.since(self.heard_at) >= self.settings.idle_timeout
        {
            return self.end(now, Ended::IdleTimeout);
        }
        match self.sending.has_unacknowledged() {
            true => self.sending.timed_out(now),
            false => {
                self.spoke_at = now;
                self.urgent.push_back(Output::Send(ControlPacket::KeepAlive));
            }
        }
        let timeout = self.expiry_period();
        let longest = Span::from_nanos(self.settings.idle_timeout.as_nanos() / 8);
        let wait = timeout.mul_f64(f64::from(self.expiries)).min(longest.max(timeout));
        self.expires = now + wait;
    }
}

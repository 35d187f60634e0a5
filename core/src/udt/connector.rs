//! Who asks for a connection: of a listener, or of one that asks at the same time.

use super::connection::{EndSettings, Established, LEAST_PACKET};
use super::handshake::{HandshakeKind, SocketId, UdtHandshake};
use super::listener::said_address;
use super::sequence::SequenceNumber;
use crate::units::{Rng, Span, Time};
use std::net::IpAddr;

/// A handshake without a reply is sent again after this (libudt).
const AGAIN_AFTER: Span = Span::from_millis(250);

/// What a connector does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectorOutput {
    /// Send a handshake, to nobody in particular at the peer's address: [`SocketId`] 0.
    Send(UdtHandshake),
    /// There is a connection.
    Connected(Established),
    /// There will be none.
    Failed(ConnectFailure),
    /// Nothing until this time, or the next `handle`.
    Wait(Time),
}

/// Why no connection came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectFailure {
    /// Nobody replied in time.
    TimedOut,
    /// The listener refused, for the reason of this number.
    Refused(i32),
    /// The reply makes no sense: other first packets, or packets that are too short.
    Nonsense,
}

/// The machine.
#[derive(Debug)]
pub struct Connector {
    asks: UdtHandshake,
    is_rendezvous: bool,
    /// Whether the next handshake asks a listener anew, for another cookie: the one that came may
    /// have been somebody else's word.
    renews: bool,
    /// What the other end of a rendezvous said.
    other: Option<UdtHandshake>,
    next_at: Time,
    gives_up: Time,
    outcome: Option<ConnectorOutput>,
}

impl Connector {
    /// One that asks a listener at `peer` from `now` on, until `gives_up`. What names and numbers
    /// this end draws comes from `random`, which nobody else may know.
    pub fn new(
        now: Time,
        gives_up: Time,
        peer: IpAddr,
        settings: &EndSettings,
        random: &mut Rng,
    ) -> Connector {
        let asks = UdtHandshake {
            kind: HandshakeKind::Request,
            is_stream: true,
            first: SequenceNumber::new(random.next_u64() as u32),
            packet_len: settings.packet_len,
            window: settings.room,
            from: SocketId(random.next_u64() as u32 | 1),
            cookie: 0,
            address: said_address(peer),
        };
        let (is_rendezvous, renews, other, outcome) = (false, false, None, None);
        Connector { asks, is_rendezvous, renews, other, next_at: now, gives_up, outcome }
    }

    /// The same for one that asks whoever asks it.
    #[must_use]
    pub fn rendezvous(mut self) -> Connector {
        self.asks.kind = HandshakeKind::Rendezvous;
        self.is_rendezvous = true;
        self
    }

    /// The same with another first packet's number.
    #[must_use]
    pub fn counting_from(mut self, first: SequenceNumber) -> Connector {
        self.asks.first = first;
        self
    }

    /// This end.
    pub fn own(&self) -> SocketId {
        self.asks.from
    }

    /// Whether a packet for `to` is for this end: one for nobody is in a rendezvous alone, where
    /// neither end knows the other's name. Who sees no packet of this end knows its name no more
    /// than a cookie.
    pub fn is_for(&self, to: SocketId) -> bool {
        to == self.own() || self.is_rendezvous && to == SocketId(0)
    }

    /// A handshake [for this end](Self::is_for) came from the peer's address.
    pub fn handle(&mut self, now: Time, said: &UdtHandshake) {
        if self.outcome.is_some() {
            return;
        }
        match (self.is_rendezvous, said.kind) {
            // Whichever cookie comes is shown at once, a later one too: if one is the listener's,
            // it has it.
            (false, HandshakeKind::Request)
                if self.asks.kind == HandshakeKind::Request
                    || self.asks.cookie != said.cookie
                    || !self.renews =>
            {
                self.asks.kind = HandshakeKind::Response;
                self.asks.cookie = said.cookie;
                (self.renews, self.next_at) = (false, now);
            }
            // Without the cookie's way there and back nobody says that it is the listener.
            (false, _) if self.asks.kind == HandshakeKind::Request => {}
            (_, HandshakeKind::Refused(reason)) => {
                self.outcome = Some(ConnectorOutput::Failed(ConnectFailure::Refused(reason)));
            }
            (false, HandshakeKind::Response) => {
                self.connected(said);
            }
            (true, HandshakeKind::Rendezvous) => self.met(now, said),
            (true, HandshakeKind::Response | HandshakeKind::Connected) => {
                match self.asks.kind == HandshakeKind::Rendezvous {
                    true => self.met(now, said),
                    false => self.connected(said),
                }
            }
            _ => {}
        }
    }

    /// Something other than a handshake came for this end: the other end of a rendezvous is
    /// connected already.
    pub fn hear(&mut self) {
        if self.is_rendezvous
            && self.outcome.is_none()
            && let Some(other) = self.other
        {
            self.connected(&other);
        }
    }

    fn met(&mut self, now: Time, said: &UdtHandshake) {
        self.other = Some(*said);
        if self.asks.kind == HandshakeKind::Rendezvous {
            self.asks.kind = HandshakeKind::Response;
            self.next_at = now;
        }
    }

    fn connected(&mut self, said: &UdtHandshake) {
        let packet_len = said.packet_len.min(self.asks.packet_len);
        let same = self.is_rendezvous || said.first == self.asks.first;
        if !same || packet_len < LEAST_PACKET || !said.is_stream {
            self.outcome = Some(ConnectorOutput::Failed(ConnectFailure::Nonsense));
            return;
        }
        self.outcome = Some(ConnectorOutput::Connected(Established {
            ends: (self.asks.from, said.from),
            first: (self.asks.first, said.first),
            packet_len,
            window: said.window,
            reply: UdtHandshake { kind: HandshakeKind::Connected, ..self.asks },
            is_rendezvous: self.is_rendezvous,
        }));
    }

    /// What to do at `now`. Poll until it says [`ConnectorOutput::Wait`]; an outcome stays.
    pub fn poll(&mut self, now: Time) -> ConnectorOutput {
        if let Some(outcome) = &self.outcome {
            return outcome.clone();
        }
        if now >= self.gives_up {
            return ConnectorOutput::Failed(ConnectFailure::TimedOut);
        }
        if now >= self.next_at {
            self.next_at = now + AGAIN_AFTER;
            if std::mem::take(&mut self.renews) {
                let kind = HandshakeKind::Request;
                return ConnectorOutput::Send(UdtHandshake { kind, cookie: 0, ..self.asks });
            }
            self.renews = !self.is_rendezvous && self.asks.kind == HandshakeKind::Response;
            return ConnectorOutput::Send(self.asks);
        }
        ConnectorOutput::Wait(self.next_at.min(self.gives_up))
    }
}

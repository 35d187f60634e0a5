//! Who waits for clients: nothing is kept of one, and no more said than it said, until it has shown
//! that it is where it says.

use super::connection::{EndSettings, Established, LEAST_PACKET};
use super::handshake::{HandshakeKind, SocketId, UdtHandshake};
use crate::units::{Span, Time};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

/// A cookie is good for the minute in which it was made, and the next.
const COOKIE_LASTS: Span = Span::from_secs(60);
/// What libudt says of a version or a kind of socket that does not fit, as this listener does of
/// packets that are too short, and of any other reason.
const WRONG_KIND: i32 = 1002;
const NO_ROOM: i32 = 1000;

/// What a listener does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenerOutput {
    /// Send a handshake.
    Send {
        /// Where to.
        address: SocketAddr,
        /// To whom there.
        to: SocketId,
        /// The handshake.
        handshake: UdtHandshake,
    },
    /// A client is connected.
    Accepted {
        /// Where it is.
        address: SocketAddr,
        /// What was agreed on.
        established: Established,
    },
    /// Nothing until the next `handle`.
    Wait,
}

/// The machine.
#[derive(Debug)]
pub struct UdtListener {
    secret: [u8; 32],
    settings: EndSettings,
    most: usize,
    /// Ends named so far.
    named: u64,
    /// Clients that are connected, and what each is told if it asks again.
    clients: BTreeMap<(SocketAddr, SocketId), UdtHandshake>,
    outputs: VecDeque<ListenerOutput>,
}

impl UdtListener {
    /// One that takes up to `most` clients at once, and as many again that are known. Its cookies
    /// and the names of its ends come from `secret`, which nobody else may know.
    pub fn new(secret: [u8; 32], settings: EndSettings, most: usize) -> UdtListener {
        let (clients, outputs) = (BTreeMap::new(), VecDeque::new());
        UdtListener { secret, settings, most, named: 0, clients, outputs }
    }

    /// A handshake came from `address`, for nobody that is connected, which shows that it is of one
    /// that is wanted where it `is_known`; times must not run backwards.
    pub fn handle(&mut self, now: Time, address: SocketAddr, asks: &UdtHandshake, is_known: bool) {
        // 0 is whoever listens: a reply to it would be a request.
        if asks.from == SocketId(0) {
            return;
        }
        let minute = now.as_nanos() / COOKIE_LASTS.as_nanos();
        let mut reply = UdtHandshake { address: said_address(address.ip()), ..*asks };
        match asks.kind {
            HandshakeKind::Request => reply.cookie = self.cookie(address, minute),
            HandshakeKind::Response if self.is_proven(address, minute, asks.cookie) => {
                reply = self.accept(address, asks, reply, is_known);
            }
            _ => return,
        }
        self.outputs.push_back(ListenerOutput::Send { address, to: asks.from, handshake: reply });
    }

    /// What to do. Poll until it says [`ListenerOutput::Wait`].
    pub fn poll(&mut self) -> ListenerOutput {
        self.outputs.pop_front().unwrap_or(ListenerOutput::Wait)
    }

    /// The connection of `peer` at `address` is over.
    pub fn forget(&mut self, address: SocketAddr, peer: SocketId) {
        self.clients.remove(&(address, peer));
    }

    fn is_proven(&self, address: SocketAddr, minute: u64, cookie: u32) -> bool {
        let before = minute.saturating_sub(1);
        [minute, before].into_iter().any(|minute| self.cookie(address, minute) == cookie)
    }

    fn cookie(&self, address: SocketAddr, minute: u64) -> u32 {
        self.drawn(&format!("cookie {address} {minute}"))
    }

    /// What only this listener can say of `what`; never 0, which means nobody and no cookie.
    fn drawn(&self, what: &str) -> u32 {
        let hash = blake3::keyed_hash(&self.secret, what.as_bytes());
        let [a, b, c, d, ..] = *hash.as_bytes();
        u32::from_be_bytes([a, b, c, d]).max(1)
    }

    fn accept(
        &mut self,
        address: SocketAddr,
        asks: &UdtHandshake,
        reply: UdtHandshake,
        is_known: bool,
    ) -> UdtHandshake {
        if let Some(&said) = self.clients.get(&(address, asks.from)) {
            return said;
        }
        let refused = |reason| UdtHandshake { kind: HandshakeKind::Refused(reason), ..reply };
        let packet_len = asks.packet_len.min(self.settings.packet_len);
        if !asks.is_stream || packet_len < LEAST_PACKET {
            return refused(WRONG_KIND);
        }
        // Strangers, however many, leave room for who is wanted.
        let most = if is_known { 2 * self.most } else { self.most };
        if self.clients.len() >= most {
            return refused(NO_ROOM);
        }
        self.named += 1;
        let own = SocketId(self.drawn(&format!("end {}", self.named)));
        let reply = UdtHandshake {
            kind: HandshakeKind::Response,
            packet_len,
            window: self.settings.room,
            from: own,
            ..reply
        };
        self.clients.insert((address, asks.from), reply);
        let established = Established {
            ends: (own, asks.from),
            // Both directions count from what the client chose.
            first: (asks.first, asks.first),
            packet_len,
            window: asks.window,
            reply,
            is_rendezvous: false,
        };
        self.outputs.push_back(ListenerOutput::Accepted { address, established });
        reply
    }
}

/// An address as libudt writes it: words whose bytes stand the other way round.
pub(super) fn said_address(ip: IpAddr) -> [u8; 16] {
    let mut said = [0; 16];
    match ip {
        IpAddr::V4(ip) => said[..4].copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) => said = ip.octets(),
    }
    said.as_chunks_mut::<4>().0.iter_mut().for_each(|word| word.reverse());
    said
}

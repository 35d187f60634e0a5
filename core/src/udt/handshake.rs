//! The 48 bytes by which two ends of UDT come to a connection.

use super::sequence::SequenceNumber;
use std::fmt;

/// The protocol's version.
const VERSION: u32 = 4;
/// Socket types: bytes in order, or messages, which Farline has no use for.
const STREAM: u32 = 1;
/// Bytes of a handshake behind the header.
pub(super) const HANDSHAKE_LEN: usize = 48;

/// One end of a connection; 0 is whoever listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId(pub u32);

/// Bytes that are no packet of UDT's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("these bytes are no UDT packet")
    }
}

impl std::error::Error for Malformed {}

/// What a handshake is in the exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeKind {
    /// A client asks a listener; the listener's reply is the same with a cookie.
    Request,
    /// Two ends ask each other at the same time.
    Rendezvous,
    /// A client that shows its cookie, the listener that accepts, or an end of a rendezvous that
    /// has heard the other.
    Response,
    /// An end of a rendezvous that is connected, to one that asks still.
    Connected,
    /// The listener takes no such connection; the reason's number.
    Refused(i32),
}

impl HandshakeKind {
    const fn raw(self) -> i32 {
        match self {
            HandshakeKind::Request => 1,
            HandshakeKind::Rendezvous => 0,
            HandshakeKind::Response => -1,
            HandshakeKind::Connected => -2,
            HandshakeKind::Refused(reason) => reason,
        }
    }

    const fn of(raw: i32) -> Option<HandshakeKind> {
        match raw {
            1 => Some(HandshakeKind::Request),
            0 => Some(HandshakeKind::Rendezvous),
            -1 => Some(HandshakeKind::Response),
            -2 => Some(HandshakeKind::Connected),
            // libudt: 1000 and above is an error, 1002 one of version or socket type.
            1000.. => Some(HandshakeKind::Refused(raw)),
            _ => None,
        }
    }
}

/// One handshake: draft-gg-udt-03, section 4.3, and the cookie that it left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdtHandshake {
    /// What it is.
    pub kind: HandshakeKind,
    /// Whether it speaks of a version 4 that carries a stream of bytes.
    pub is_stream: bool,
    /// The number of the first data packet; both directions count from the client's.
    pub first: SequenceNumber,
    /// The longest packet in bytes, IP and UDP headers (28 bytes) included.
    pub packet_len: u32,
    /// Packets that may be on their way to who says this.
    pub window: u32,
    /// Who says it.
    pub from: SocketId,
    /// What proves that the other end is where it says.
    pub cookie: u32,
    /// The address of whom it is said to, as 128 bits of libudt's order.
    pub address: [u8; 16],
}

impl UdtHandshake {
    /// Appends the 48 bytes.
    pub(super) fn encode(&self, into: &mut Vec<u8>) {
        let socket = if self.is_stream { STREAM } else { STREAM + 1 };
        for word in [
            VERSION,
            socket,
            self.first.raw(),
            self.packet_len,
            self.window,
            self.kind.raw() as u32,
            self.from.0,
            self.cookie,
        ] {
            into.extend_from_slice(&word.to_be_bytes());
        }
        into.extend_from_slice(&self.address);
    }

    /// Reads what stands behind the header.
    pub(super) fn decode(bytes: &[u8]) -> Result<UdtHandshake, Malformed> {
        let (words, []) = bytes.as_chunks::<4>() else { return Err(Malformed) };
        let &[version, socket, first, packet_len, window, kind, from, cookie, ref address @ ..] =
            words
        else {
            return Err(Malformed);
        };
        let word = u32::from_be_bytes;
        // The flag makes the others readable again as what they were.
        let is_stream = match (word(version), word(socket)) {
            (VERSION, STREAM) => true,
            (VERSION, other) if other == STREAM + 1 => false,
            _ => return Err(Malformed),
        };
        Ok(UdtHandshake {
            kind: HandshakeKind::of(word(kind) as i32).ok_or(Malformed)?,
            is_stream,
            first: SequenceNumber::new(word(first)),
            packet_len: word(packet_len),
            window: word(window),
            from: SocketId(word(from)),
            cookie: word(cookie),
            address: address.concat().try_into().map_err(|_| Malformed)?,
        })
    }
}

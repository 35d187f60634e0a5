//! UDT's packets: 16 bytes of header, and what control packets say behind it.
//!
//! draft-gg-udt-03, section 4, and libudt 4.11 where it differs: a light acknowledgement is one
//! word, and a control packet without content carries a word of zeros.

use super::handshake::{HANDSHAKE_LEN, Malformed, SocketId, UdtHandshake};
use super::sequence::SequenceNumber;
use std::ops::Range;

/// Bytes before a packet's payload.
pub const HEADER_LEN: usize = 16;
/// The most losses that one packet reports here: a packet of 1500 bytes holds them.
pub(super) const MOST_LOSSES: usize = 180;

const CONTROL: u32 = 1 << 31;
const IS_RANGE: u32 = 1 << 31;
/// First and last packet of a message: what a stream's packets say of themselves here.
const SOLO: u32 = 0b11 << 30;
const IN_ORDER: u32 = 1 << 29;

const HANDSHAKE: u32 = 0;
const KEEP_ALIVE: u32 = 1;
const ACK: u32 = 2;
const NAK: u32 = 3;
const SHUTDOWN: u32 = 5;
const ACK2: u32 = 6;

/// A packet without its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdtPacket {
    /// Microseconds since its sender's connection began; wraps after 71 minutes.
    pub timestamp: u32,
    /// For whom it is.
    pub to: SocketId,
    /// What it says.
    pub content: Content,
}

/// What a packet says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Bytes of the stream follow.
    Data {
        /// Their packet's number.
        sequence: SequenceNumber,
        /// The number of the message, which means nothing in a stream.
        message: u32,
    },
    /// Anything else.
    Control(ControlPacket),
}

/// A control packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlPacket {
    /// On the way to a connection.
    Handshake(UdtHandshake),
    /// Nothing but that there is still somebody.
    KeepAlive,
    /// What has come.
    Ack {
        /// The acknowledgement's own number, which an [`Ack2`](ControlPacket::Ack2) repeats; light
        /// ones have none.
        number: u32,
        /// All packets before this one are there.
        next: SequenceNumber,
        /// What is known beyond that; absent in a light one.
        known: Option<ReceiverState>,
    },
    /// What has not: from the first to the last packet of each range.
    Nak(Vec<LossRange>),
    /// Nothing more will come.
    Shutdown,
    /// An acknowledgement was received.
    Ack2 {
        /// Its number.
        number: u32,
    },
    /// What Farline has no use for, by its type: messages dropped by their sender, warnings.
    Other(u16),
}

/// What a receiver knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverState {
    /// The round-trip time and its variation in microseconds.
    pub rtt: (u32, u32),
    /// Packets that it has room for.
    pub room: u32,
    /// Packets per second that arrive, and that the path could bring; absent when neither was
    /// measured since the last acknowledgement.
    pub rates: Option<(u32, u32)>,
}

/// A run of packets that did not come, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossRange {
    /// The first.
    pub first: SequenceNumber,
    /// The last.
    pub last: SequenceNumber,
}

impl UdtPacket {
    /// Reads the header of `bytes`, and the content of a control packet; the payload of a data
    /// packet lies behind [`HEADER_LEN`].
    ///
    /// # Errors
    /// When it is none.
    pub fn decode(bytes: &[u8]) -> Result<UdtPacket, Malformed> {
        let (header, content) = bytes.split_first_chunk::<HEADER_LEN>().ok_or(Malformed)?;
        let word = |at: usize| {
            u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let (first, second) = (word(0), word(4));
        let content = if first & CONTROL == 0 {
            if content.is_empty() {
                return Err(Malformed);
            }
            Content::Data { sequence: SequenceNumber::new(first), message: second }
        } else {
            Content::Control(ControlPacket::decode((first & !CONTROL) >> 16, second, content)?)
        };
        Ok(UdtPacket { timestamp: word(8), to: SocketId(word(12)), content })
    }

    /// Appends the header, and the content of a control packet.
    pub fn encode(&self, into: &mut Vec<u8>) {
        let (first, second) = match &self.content {
            Content::Data { sequence, message } => (sequence.raw(), *message),
            Content::Control(control) => control.head(),
        };
        for word in [first, second, self.timestamp, self.to.0] {
            into.extend_from_slice(&word.to_be_bytes());
        }
        if let Content::Control(control) = &self.content {
            control.encode(into);
        }
    }
}

/// The message word of packet `index` of a stream: a message of its own, in order.
pub(super) const fn message_word(index: u64) -> u32 {
    SOLO | IN_ORDER | (index as u32 & (IN_ORDER - 1))
}

impl ControlPacket {
    fn head(&self) -> (u32, u32) {
        let (kind, info) = match self {
            ControlPacket::Handshake(_) => (HANDSHAKE, 0),
            ControlPacket::KeepAlive => (KEEP_ALIVE, 0),
            ControlPacket::Ack { number, .. } => (ACK, *number),
            ControlPacket::Nak(_) => (NAK, 0),
            ControlPacket::Shutdown => (SHUTDOWN, 0),
            ControlPacket::Ack2 { number } => (ACK2, *number),
            ControlPacket::Other(kind) => (u32::from(*kind), 0),
        };
        (CONTROL | kind << 16, info)
    }

    fn encode(&self, into: &mut Vec<u8>) {
        let mut words = |words: &[u32]| {
            words.iter().for_each(|word| into.extend_from_slice(&word.to_be_bytes()));
        };
        match self {
            ControlPacket::Handshake(handshake) => handshake.encode(into),
            ControlPacket::Ack { next, known: None, .. } => words(&[next.raw()]),
            ControlPacket::Ack { next, known: Some(known), .. } => {
                words(&[next.raw(), known.rtt.0, known.rtt.1, known.room]);
                if let Some((arriving, capacity)) = known.rates {
                    words(&[arriving, capacity]);
                }
            }
            ControlPacket::Nak(losses) => {
                for loss in losses {
                    match loss.first == loss.last {
                        true => words(&[loss.first.raw()]),
                        false => words(&[loss.first.raw() | IS_RANGE, loss.last.raw()]),
                    }
                }
            }
            ControlPacket::KeepAlive
            | ControlPacket::Shutdown
            | ControlPacket::Ack2 { .. }
            | ControlPacket::Other(_) => {
                words(&[0]);
            }
        }
    }

    fn decode(kind: u32, info: u32, content: &[u8]) -> Result<ControlPacket, Malformed> {
        let (words, _) = content.as_chunks::<4>();
        let word = |at: usize| words.get(at).map(|&word| u32::from_be_bytes(word));
        Ok(match kind {
            HANDSHAKE => {
                let content = content.get(..HANDSHAKE_LEN).ok_or(Malformed)?;
                ControlPacket::Handshake(UdtHandshake::decode(content)?)
            }
            KEEP_ALIVE => ControlPacket::KeepAlive,
            ACK => {
                let next = SequenceNumber::new(word(0).ok_or(Malformed)?);
                let known = match (word(1), word(2), word(3)) {
                    (Some(rtt), Some(variation), Some(room)) => Some(ReceiverState {
                        rtt: (rtt, variation),
                        room,
                        rates: word(4).zip(word(5)),
                    }),
                    _ => None,
                };
                ControlPacket::Ack { number: info, next, known }
            }
            NAK => ControlPacket::Nak(losses(words)?),
            SHUTDOWN => ControlPacket::Shutdown,
            ACK2 => ControlPacket::Ack2 { number: info },
            other => ControlPacket::Other(u16::try_from(other).map_err(|_| Malformed)?),
        })
    }
}

/// Reads a compressed list of losses: a range is two words, and the first says so.
fn losses(words: &[[u8; 4]]) -> Result<Vec<LossRange>, Malformed> {
    let mut losses = Vec::new();
    let mut words = words.iter().map(|&word| u32::from_be_bytes(word));
    while let Some(word) = words.next() {
        let first = SequenceNumber::new(word);
        let last = match word & IS_RANGE {
            0 => first,
            _ => SequenceNumber::new(words.next().ok_or(Malformed)?),
        };
        losses.push(LossRange { first, last });
    }
    match losses.is_empty() {
        true => Err(Malformed),
        false => Ok(losses),
    }
}

impl LossRange {
    /// The packets of `range`, of a stream whose first packet is numbered `first`.
    pub(super) const fn of(first: SequenceNumber, range: &Range<u64>) -> LossRange {
        LossRange { first: first.after(range.start), last: first.after(range.end - 1) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::handshake::HandshakeKind;
    use super::*;
    use proptest::prelude::*;

    fn encoded(content: Content) -> Vec<u8> {
        let mut bytes = Vec::new();
        UdtPacket { timestamp: 7, to: SocketId(0x0102_0304), content }.encode(&mut bytes);
        bytes
    }

    #[test]
    fn packets_are_as_the_draft_has_them() {
        let data = encoded(Content::Data {
            sequence: SequenceNumber::new(0x7FFF_FFFF),
            message: message_word(1),
        });
        assert_eq!(data, [0x7F, 255, 255, 255, 0xE0, 0, 0, 1, 0, 0, 0, 7, 1, 2, 3, 4]);
        let light = ControlPacket::Ack { number: 0, next: SequenceNumber::new(9), known: None };
        let light = encoded(Content::Control(light));
        assert_eq!(light[..8], [0x80, 2, 0, 0, 0, 0, 0, 0]);
        assert_eq!(light[16..], [0, 0, 0, 9]);
        let range = |first, last| LossRange {
            first: SequenceNumber::new(first),
            last: SequenceNumber::new(last),
        };
        let nak = encoded(Content::Control(ControlPacket::Nak(vec![range(2, 2), range(5, 9)])));
        assert_eq!(nak[16..], [0, 0, 0, 2, 0x80, 0, 0, 5, 0, 0, 0, 9]);
    }

    #[test]
    fn a_handshake_is_64_bytes_with_its_header() {
        let handshake = UdtHandshake {
            kind: HandshakeKind::Response,
            is_stream: true,
            first: SequenceNumber::new(5),
            packet_len: 1500,
            window: 25_600,
            from: SocketId(3),
            cookie: 0xDEAD_BEEF,
            address: [1; 16],
        };
        let bytes = encoded(Content::Control(ControlPacket::Handshake(handshake)));
        assert_eq!(bytes.len(), 64);
        assert_eq!(bytes[36..40], [255; 4], "a response is -1");
        let packet = UdtPacket::decode(&bytes).expect("a packet");
        assert_eq!(packet.content, Content::Control(ControlPacket::Handshake(handshake)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]
        #[test]
        fn what_is_understood_is_written_back_the_same(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..120), kind in 0_u8..8,
        ) {
            if bytes.len() > 4 && bytes[0] & 0x80 != 0 {
                // Random types are hardly ever known ones.
                (bytes[0], bytes[1]) = (0x80, kind);
            }
            if let Ok(packet) = UdtPacket::decode(&bytes) {
                let mut again = Vec::new();
                packet.encode(&mut again);
                if matches!(packet.content, Content::Data { .. }) {
                    again.push(0);
                }
                prop_assert_eq!(UdtPacket::decode(&again), Ok(packet));
            }
        }
    }
}

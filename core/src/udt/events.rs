//! What goes into one end of a UDT connection, and what comes out of it.

use super::handshake::SocketId;
use super::packet::{ControlPacket, HEADER_LEN};
use super::sequence::SequenceNumber;
use crate::congestion::SavedPath;
use crate::units::Time;
use std::fmt;
use std::ops::Range;

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A data packet for this end came from the peer's address.
    Data {
        /// Its number.
        sequence: SequenceNumber,
        /// Bytes of payload.
        len: u32,
        /// The caller's name for it, under which it is delivered or discarded.
        token: u64,
        /// When it arrived, if earlier than now.
        arrived: Time,
    },
    /// A control packet for this end came from the peer's address.
    Control(ControlPacket),
    /// So many bytes more are there to be sent.
    Written(u64),
    /// So many delivered packets more are read, and their memory is free again.
    Read(u64),
    /// This end has room for so many packets from now on; what came already is kept.
    Room(u32),
    /// No datagram longer than so many bytes, UDP's header not counted, passes the path whole.
    LongestDatagram(u32),
    /// What is sent from now on begins, with care, from what an earlier flow saw of the path
    /// (RFC 9959).
    Resume(SavedPath),
    /// Nothing more is written: what is there is sent, and then the connection ends.
    Finish,
    /// The connection ends now, whatever is still on its way.
    Abort,
}

/// What to do, or what is so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send a control packet.
    Send(ControlPacket),
    /// Send a data packet.
    SendData(DataPacket),
    /// A packet's bytes are next in the stream.
    Deliver {
        /// Which.
        token: u64,
        /// How many bytes.
        len: u32,
    },
    /// A packet is of no use: it came twice, or there is no room for it.
    Discard(u64),
    /// The peer has all bytes of the stream before this one.
    Acknowledged(u64),
    /// The connection is over; nothing comes out of it any more but a farewell for whoever does not
    /// know.
    Ended(Ended),
    /// Nothing until this time, or until the next `handle` when there is none.
    Wait(Option<Time>),
}

/// A data packet to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataPacket {
    /// Its number.
    pub sequence: SequenceNumber,
    /// The word behind it.
    pub message: u32,
    /// Which bytes of the stream it carries.
    pub bytes: Range<u64>,
    /// Whether the path may cut it in fragments: it was made before the path became narrower.
    pub may_fragment: bool,
}

impl DataPacket {
    /// The header that goes before its bytes.
    pub fn header(&self, timestamp: u32, to: SocketId) -> [u8; HEADER_LEN] {
        let mut header = [0; HEADER_LEN];
        let words = [self.sequence.raw(), self.message, timestamp, to.0];
        for (place, word) in header.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *place = word.to_be_bytes();
        }
        header
    }
}

/// Why a connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// This end finished, and the peer has everything; or it broke off.
    Here,
    /// The peer said that nothing more comes.
    Peer,
    /// Nothing was heard of the peer for too long.
    IdleTimeout,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Ended::Here => "this end closed the connection",
            Ended::Peer => "the peer closed the connection",
            Ended::IdleTimeout => "nothing was heard of the peer for too long",
        })
    }
}

//! UDT, version 4: a stream of bytes over UDP, as two machines that shake hands and one that keeps
//! a connection.
//!
//! The wire is that of draft-gg-udt-03 as libudt 4.11 speaks it. A client's [`Connector`] and a
//! [`UdtListener`] come to what is [`Established`] by a handshake with a cookie, or two connectors
//! meet; a [`Connection`] then numbers packets, acknowledges every 10 ms ([`SYN`]) and lightly
//! every 64 packets, reports losses at once and again while they last, and sends as its
//! [`RateControl`] says. Machines see numbers and lengths: which bytes of the stream a packet
//! carries, and under which token a received one lies with the caller. [`sim`] runs flows over
//! [`wan::OneWayLink`](crate::wan::OneWayLink).
//!
//! Where this differs from libudt, either end notices nothing: a report of losses that got lost is
//! repeated, an end that is done repeats its farewell, what was never sent cannot be acknowledged
//! (libudt closes), and the first packet that is missing for too long is sent again.
//!
//! Not here: sockets, buffers, and what protects the bytes. UDT's packets carry no proof of who
//! sent them: whoever sees them can end a connection or put bytes into it. The layer above (TLS)
//! makes that no more than a broken connection.

mod algorithm;
mod arrivals;
mod connection;
mod connector;
mod events;
mod handshake;
#[cfg(test)]
mod handshake_tests;
mod listener;
mod model_based;
mod native;
mod packet;
mod rate;
mod receiving;
mod sending;
mod sequence;
pub mod sim;
#[cfg(test)]
mod tests;

pub use algorithm::RateAlgorithm;
pub use connection::{Connection, EndSettings, Established};
pub use connector::{ConnectFailure, Connector, ConnectorOutput};
pub use events::{DataPacket, Ended, Input, Output};
pub use handshake::{HandshakeKind, Malformed, SocketId, UdtHandshake};
pub use listener::{ListenerOutput, UdtListener};
pub use packet::{Content, ControlPacket, HEADER_LEN, LossRange, ReceiverState, UdtPacket};
pub use rate::{Pace, PathState, RateControl, RateEvent, SYN};
pub use sequence::SequenceNumber;

//! UDT channels: `core::udt`'s machines over UDP sockets, in trains of packets.
//!
//! Each UDP port has a thread, which takes in what came, polls the machines of its connections and
//! sends; a program's end of a connection ([`UdtStream`]) hands it bytes and gets bytes through a
//! pipe. A client has a port for each channel, a node one for all of a session's. What is encrypted
//! is so by the layer above.

mod buffers;
mod connected;
mod datagrams;
mod driver;
mod pipe;
mod port;
mod stream;
mod unproven;

pub use driver::{UdtOptions, UdtPort, connect, driver};
pub use port::Accept;
pub use stream::UdtStream;

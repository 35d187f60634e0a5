//! By which way frames without a pace left a host, or came to one.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A way of the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FrameWay {
    /// Made by an XDP program and given to the device within the kernel.
    XdpProgram,
    /// Given to a packet socket by `sendmmsg`.
    PacketSocket,
    /// Taken at the device by an AF_XDP socket, past the kernel's packet buffers.
    XdpSocket,
    /// Taken from a packet socket's ring (`TPACKET_V3`).
    PacketRing,
}

impl FrameWay {
    /// As documents have it.
    pub fn name(self) -> &'static str {
        match self {
            FrameWay::XdpProgram => "xdp_program",
            FrameWay::PacketSocket => "packet_socket",
            FrameWay::XdpSocket => "xdp_socket",
            FrameWay::PacketRing => "packet_ring",
        }
    }
}

impl fmt::Display for FrameWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FrameWay::XdpProgram => "an XDP program in the kernel",
            FrameWay::PacketSocket => "a packet socket (sendmmsg)",
            FrameWay::XdpSocket => "an AF_XDP socket",
            FrameWay::PacketRing => "a packet ring",
        })
    }
}

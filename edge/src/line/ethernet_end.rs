//! Whose an Ethernet frame of a test is, and what it begins with.

use farline_core::line::EthernetFraming;
use std::net::{Ipv6Addr, SocketAddr};

/// Of an Ethernet frame: two addresses, a tag, a type, and whose it is.
const LONGEST_HEADER: usize = 20;

/// Whose frame it is, which a socket address holds for the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EthernetEnd {
    pub(super) address: [u8; 6],
    pub(super) tag: Option<u16>,
    pub(super) stream: u16,
}

/// What all frames of a test have in common before their payload: a multiple of four bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct EthernetHeader {
    bytes: [u8; LONGEST_HEADER],
    len: usize,
}

impl EthernetHeader {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl EthernetEnd {
    /// Of frames to this end from `own`.
    pub(super) fn header_to(self, own: [u8; 6]) -> EthernetHeader {
        self.header(self.address, own)
    }

    /// Of frames from this end to `own`.
    pub(super) fn header_from(self, own: [u8; 6]) -> EthernetHeader {
        self.header(own, self.address)
    }

    fn header(self, to: [u8; 6], from: [u8; 6]) -> EthernetHeader {
        let mut header = EthernetHeader { bytes: [0; LONGEST_HEADER], len: 0 };
        let mut put = |bytes: &[u8]| {
            header.bytes[header.len..header.len + bytes.len()].copy_from_slice(bytes);
            header.len += bytes.len();
        };
        put(&to);
        put(&from);
        if let Some(tag) = self.tag {
            put(&0x8100_u16.to_be_bytes());
            put(&tag.to_be_bytes());
        }
        put(&EthernetFraming::KIND.to_be_bytes());
        put(&self.stream.to_be_bytes());
        header
    }

    pub(super) fn as_address(self) -> SocketAddr {
        let [a, b, c, d, e, f] = self.address;
        let [high, low] = self.tag.unwrap_or(0).to_be_bytes();
        let is_tagged = u8::from(self.tag.is_some());
        let ip = [0xfe, 0x80, 0, 0, 0, 0, is_tagged, 0, high, low, a, b, c, d, e, f];
        SocketAddr::from((Ipv6Addr::from(ip), self.stream))
    }

    pub(super) fn of_address(address: SocketAddr) -> Option<EthernetEnd> {
        let SocketAddr::V6(address) = address else { return None };
        let [.., is_tagged, _, high, low, a, b, c, d, e, f] = address.ip().octets();
        Some(EthernetEnd {
            address: [a, b, c, d, e, f],
            tag: (is_tagged == 1).then(|| u16::from_be_bytes([high, low])),
            stream: address.port(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_a_frame_is_crosses_the_core_as_a_socket_address() {
        let end = EthernetEnd { address: [2, 0, 0, 0x77, 0, 1], tag: Some(0xabb9), stream: 9 };
        for end in [end, EthernetEnd { tag: None, ..end }, EthernetEnd { tag: Some(0), ..end }] {
            assert_eq!(EthernetEnd::of_address(end.as_address()), Some(end));
        }
        assert_eq!(EthernetEnd::of_address(([127, 0, 0, 1], 9).into()), None);
    }
}

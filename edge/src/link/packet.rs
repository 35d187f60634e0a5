//! What a packet read from a TUN device is: its super-packet header, its headers and payload, its
//! frames on the wire.

use crate::sys::tun;
use farline_core::wan::Frames;

// virtio 1.2, section 5.1.6: flags and types of a super-packet.
const NEEDS_CHECKSUM: u8 = 1;
const TYPE_NONE: u8 = 0;
const TYPE_TCP4: u8 = 1;
const TYPE_TCP6: u8 = 4;
const TYPE_UDP: u8 = 5;
const TYPE_ECN: u8 = 0x80;

/// The header before each packet, in this machine's byte order: TUN's legacy format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offload {
    pub(super) needs_checksum: bool,
    kind: u8,
    header: u16,
    pub(super) segment: u16,
    pub(super) checksum_start: u16,
    checksum_offset: u16,
}

impl Offload {
    fn read(bytes: &[u8]) -> Offload {
        let word = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        Offload {
            needs_checksum: bytes[0] & NEEDS_CHECKSUM != 0,
            kind: bytes[1],
            header: word(2),
            segment: word(4),
            checksum_start: word(6),
            checksum_offset: word(8),
        }
    }

    /// Writes the header of `segments` segments with `header` bytes of headers into the start of
    /// `bytes`.
    pub(super) fn write(&self, bytes: &mut [u8], segments: u32, header: u16) {
        let (kind, segment) = if segments > 1 { (self.kind, self.segment) } else { (TYPE_NONE, 0) };
        bytes[0] = u8::from(self.needs_checksum) * NEEDS_CHECKSUM;
        bytes[1] = kind;
        for (at, word) in
            [(2, header), (4, segment), (6, self.checksum_start), (8, self.checksum_offset)]
        {
            bytes[at..at + 2].copy_from_slice(&word.to_ne_bytes());
        }
    }
}

/// The transport protocol of a packet, where it matters to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Tcp,
    Udp,
    Icmp,
    Other,
}

impl Transport {
    /// Where its checksum is in its header.
    pub(super) const fn checksum_offset(self) -> Option<usize> {
        match self {
            Transport::Tcp => Some(16),
            Transport::Udp => Some(6),
            Transport::Icmp => Some(2),
            Transport::Other => None,
        }
    }
}

/// Where things are in a packet. Offsets count from the IP header, after [`tun::HEADER`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) offload: Offload,
    pub(super) ipv6: bool,
    pub(super) transport: Transport,
    /// Where the transport header is.
    pub(super) transport_start: usize,
    /// Where the payload is: the length of all headers.
    pub(super) payload_start: usize,
    /// Bytes of IP.
    pub(super) len: usize,
}

impl Layout {
    /// Reads the layout of `bytes`, header included. A packet that is not understood is one frame
    /// without parts.
    pub(super) fn of(bytes: &[u8]) -> Layout {
        let offload = Offload::read(bytes);
        let ip = &bytes[tun::HEADER..];
        let ipv6 = ip.first().is_some_and(|first| first >> 4 == 6);
        let opaque = Layout {
            offload: Offload { segment: 0, ..offload },
            ipv6,
            transport: Transport::Other,
            transport_start: ip.len(),
            payload_start: ip.len(),
            len: ip.len(),
        };
        let Some((transport, transport_start)) = transport(ip, ipv6) else { return opaque };
        let header = match transport {
            Transport::Tcp => {
                ip.get(transport_start + 12).map(|offset| usize::from(offset >> 4) * 4)
            }
            Transport::Udp | Transport::Icmp => Some(8),
            Transport::Other => None,
        };
        match header.map(|header| transport_start + header) {
            Some(payload_start) if payload_start <= ip.len() => {
                let cuts = matches!(
                    (offload.kind & !TYPE_ECN, transport),
                    (TYPE_TCP4 | TYPE_TCP6, Transport::Tcp) | (TYPE_UDP, Transport::Udp)
                );
                let segment = if cuts { offload.segment } else { 0 };
                Layout {
                    offload: Offload { segment, ..offload },
                    transport,
                    transport_start,
                    payload_start,
                    ..opaque
                }
            }
            _ => opaque,
        }
    }

    /// The frames it is on the wire.
    pub(super) fn frames(&self) -> Frames {
        let payload = self.len - self.payload_start;
        Frames::train(self.payload_start as u32, payload as u32, u32::from(self.offload.segment))
    }
}

/// The transport protocol and where its header begins; `None` for fragments and what is cut short.
fn transport(ip: &[u8], ipv6: bool) -> Option<(Transport, usize)> {
    let (protocol, start) = if ipv6 {
        // Extension headers are not followed: such a packet is never cut, only moved.
        (*ip.get(6)?, 40)
    } else {
        let fragment = u16::from_be_bytes([*ip.get(6)?, *ip.get(7)?]) & 0x3fff;
        if fragment != 0 {
            return None;
        }
        (*ip.get(9)?, usize::from(ip.first()? & 15) * 4)
    };
    let transport = match protocol {
        6 => Transport::Tcp,
        17 => Transport::Udp,
        1 | 58 => Transport::Icmp,
        _ => Transport::Other,
    };
    Some((transport, start))
}

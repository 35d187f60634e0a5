//! What a packet read from a TUN or TAP device is: its super-packet header, its headers and
//! payload, its frames on the wire.

use crate::sys::tun;
use farline_core::wan::Frames;

// virtio 1.2, section 5.1.6: flags and types of a super-packet.
const NEEDS_CHECKSUM: u8 = 1;
const TYPE_NONE: u8 = 0;
const TYPE_TCP4: u8 = 1;
const TYPE_TCP6: u8 = 4;
const TYPE_UDP: u8 = 5;
const TYPE_ECN: u8 = 0x80;

/// Bytes of an Ethernet header, and of a VLAN tag in it.
const ETHERNET: usize = 14;
const TAG: usize = 4;
// Types of Ethernet: VLAN tags (IEEE 802.1Q, 802.1ad), IP.
const VLAN: u16 = 0x8100;
const SERVICE_VLAN: u16 = 0x88a8;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

/// The header before each packet, in this machine's byte order: TUN's legacy format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// No IP at all: an Ethernet frame whose payload has no checksum that is known here.
    NotIp,
}

impl Transport {
    /// Where its checksum is in its header.
    pub(super) const fn checksum_offset(self) -> Option<usize> {
        match self {
            Transport::Tcp => Some(16),
            Transport::Udp => Some(6),
            Transport::Icmp => Some(2),
            Transport::Other | Transport::NotIp => None,
        }
    }
}

/// Where things are in a packet. Offsets count from the first header, after [`tun::HEADER`]: that
/// of IP, or of Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) offload: Offload,
    pub(super) ipv6: bool,
    pub(super) transport: Transport,
    /// Where the transport header is.
    pub(super) transport_start: usize,
    /// Where the payload is: the length of all headers.
    pub(super) payload_start: usize,
    /// Bytes from the first header on.
    pub(super) len: usize,
    /// Bytes of the Ethernet header, without VLAN tag; none of a packet that is IP.
    ethernet: usize,
    /// The VLAN whose tag a frame has.
    pub(super) vlan: Option<u16>,
}

impl Layout {
    /// Reads the layout of `bytes`, header included. A packet that is not understood is one frame
    /// without parts.
    pub(super) fn of(bytes: &[u8]) -> Layout {
        Layout::of_ip(Offload::read(bytes), &bytes[tun::HEADER..])
    }

    fn of_ip(offload: Offload, ip: &[u8]) -> Layout {
        let ipv6 = ip.first().is_some_and(|first| first >> 4 == 6);
        let opaque = Layout {
            offload: Offload { segment: 0, ..offload },
            ipv6,
            transport: Transport::Other,
            transport_start: ip.len(),
            payload_start: ip.len(),
            len: ip.len(),
            ethernet: 0,
            vlan: None,
        };
        let Some((transport, transport_start)) = transport(ip, ipv6) else { return opaque };
        let header = match transport {
            Transport::Tcp => {
                ip.get(transport_start + 12).map(|offset| usize::from(offset >> 4) * 4)
            }
            Transport::Udp | Transport::Icmp => Some(8),
            Transport::Other | Transport::NotIp => None,
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

    /// Reads the layout of an Ethernet frame behind its super-packet header, with or without a VLAN
    /// tag (IEEE 802.1Q). It is one frame, and no super-packet.
    pub(super) fn of_frame(bytes: &[u8]) -> Layout {
        let frame = &bytes[tun::HEADER..];
        let word = |at: usize| frame.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]]));
        let is_tagged = matches!(word(12), Some(VLAN | SERVICE_VLAN));
        let header = if is_tagged { ETHERNET + TAG } else { ETHERNET };
        let vlan = word(14).filter(|_| is_tagged).map(|tag| tag & 0xfff);
        let start = header.min(frame.len());
        let inner = match word(header - 2) {
            Some(IPV4 | IPV6) => Layout::of_ip(Offload::default(), &frame[start..]),
            _ => Layout { transport: Transport::NotIp, ..Layout::of_ip(Offload::default(), &[]) },
        };
        Layout {
            transport_start: start + inner.transport_start,
            payload_start: start + inner.payload_start,
            len: frame.len(),
            ethernet: ETHERNET.min(frame.len()),
            vlan,
            ..inner
        }
    }

    /// The frames it is on the wire.
    pub(super) fn frames(&self) -> Frames {
        let payload = self.len - self.payload_start;
        Frames::train(
            (self.payload_start - self.ethernet) as u32,
            payload as u32,
            u32::from(self.offload.segment),
        )
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame behind its super-packet header.
    fn frame(tag: Option<u16>, kind: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; tun::HEADER + 12];
        if let Some(tag) = tag {
            bytes.extend(VLAN.to_be_bytes());
            bytes.extend(tag.to_be_bytes());
        }
        bytes.extend(kind.to_be_bytes());
        bytes.extend(payload);
        bytes
    }

    #[test]
    fn a_frame_takes_the_wire_with_its_tag_and_knows_its_vlan() {
        let plain = Layout::of_frame(&frame(None, 0x88b5, &[7; 1_500]));
        assert_eq!((plain.vlan, plain.frames().framed_bytes(&(0..1))), (None, 1_518));
        assert_eq!((plain.payload_start, plain.transport), (14, Transport::NotIp));
        // Priority 5, VLAN 3001.
        let tagged = Layout::of_frame(&frame(Some(5 << 13 | 3_001), 0x88b5, &[7; 1_500]));
        assert_eq!((tagged.vlan, tagged.frames().framed_bytes(&(0..1))), (Some(3_001), 1_522));
        assert_eq!(tagged.payload_start, 18);
    }

    #[test]
    fn udp_in_a_frame_is_found_and_what_is_cut_short_is_no_panic() {
        let mut ip = vec![0x45, 0, 0, 48, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        ip.extend([0; 28]);
        let whole = frame(Some(9), IPV4, &ip);
        let layout = Layout::of_frame(&whole);
        assert_eq!((layout.transport, layout.transport_start), (Transport::Udp, 38));
        assert_eq!((layout.payload_start, layout.len), (46, 66));
        for len in tun::HEADER..whole.len() {
            let layout = Layout::of_frame(&whole[..len]);
            assert!(layout.payload_start <= layout.len.max(18), "{len}: {layout:?}");
            let _ = layout.frames();
        }
    }
}

//! Cutting a super-packet into what a network card would have sent, and flipping a bit that no
//! checksum shows.
//!
//! A piece is written as new headers and a slice of the packet where it lies. It follows
//! segmentation offload as cards do it: TCP sequence numbers advance, PSH and FIN stay with the
//! last segment and CWR with the first, IPv4 identifications advance, lengths and the IPv4 header
//! checksum are made anew, and the transport checksum field gets the sum of the pseudo-header,
//! which the receiving stack or card completes (CHECKSUM_PARTIAL).

use super::packet::{Layout, Transport};
use crate::sys::tun;
use std::ops::Range;

/// The longest headers of a piece: IPv4 with options or IPv6, and TCP with options.
const LONGEST: usize = tun::HEADER + 60 + 60;

const TCP_FIN_PSH: u8 = 0x01 | 0x08;
const TCP_CWR: u8 = 0x80;

/// The headers of a piece, ready to write before its payload.
#[derive(Debug)]
pub(super) struct Head {
    bytes: [u8; LONGEST],
    len: usize,
}

impl Head {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Where the payload of `frames` lies in a packet (header included) of this layout.
pub(super) fn payload(layout: &Layout, frames: &Range<u32>) -> Range<usize> {
    let start = tun::HEADER + layout.payload_start;
    let end = tun::HEADER + layout.len;
    match usize::from(layout.offload.segment) {
        0 => start..end,
        segment => {
            (start + frames.start as usize * segment).min(end)
                ..(start + frames.end as usize * segment).min(end)
        }
    }
}

/// The headers of the piece that consists of `frames` of the super-packet `packet`.
pub(super) fn head(packet: &[u8], layout: &Layout, frames: &Range<u32>) -> Head {
    let mut head = Head { bytes: [0; LONGEST], len: tun::HEADER + layout.payload_start };
    let payload = payload(layout, frames);
    let ip_len = layout.payload_start + payload.len();
    layout.offload.write(&mut head.bytes, frames.end - frames.start, layout.payload_start as u16);
    let ip = &mut head.bytes[tun::HEADER..tun::HEADER + layout.payload_start];
    ip.copy_from_slice(&packet[tun::HEADER..tun::HEADER + layout.payload_start]);

    if layout.ipv6 {
        put(ip, 4, (ip_len - 40) as u16);
    } else {
        put(ip, 2, ip_len as u16);
        let id = take(ip, 4).wrapping_add(frames.start as u16);
        put(ip, 4, id);
        put(ip, 10, 0);
        let sum = !fold(sum(&ip[..layout.transport_start]));
        put(ip, 10, sum);
    }
    let transport_len = ip_len - layout.transport_start;
    let pseudo = pseudo_header(ip, layout, transport_len);
    let transport = &mut ip[layout.transport_start..];
    match layout.transport {
        Transport::Tcp => {
            let advance = frames.start.wrapping_mul(u32::from(layout.offload.segment));
            let sequence =
                u32::from_be_bytes([transport[4], transport[5], transport[6], transport[7]])
                    .wrapping_add(advance);
            transport[4..8].copy_from_slice(&sequence.to_be_bytes());
            if payload.end < tun::HEADER + layout.len {
                transport[13] &= !TCP_FIN_PSH;
            }
            if frames.start > 0 {
                transport[13] &= !TCP_CWR;
            }
            put(transport, 16, pseudo);
        }
        Transport::Udp => {
            put(transport, 4, transport_len as u16);
            put(transport, 6, pseudo);
        }
        Transport::Icmp | Transport::Other | Transport::NotIp => {}
    }
    head
}

/// Flips the payload bit of frame `frame` that `which` chooses, and keeps a finished checksum
/// right.
///
/// Returns whether there was a payload bit to flip: an acknowledgement has none.
pub(super) fn flip(packet: &mut [u8], layout: &Layout, frame: u32, which: u64) -> bool {
    let payload = payload(layout, &(frame..frame + 1));
    let checksum = layout.transport.checksum_offset();
    if payload.is_empty() || (checksum.is_none() && layout.transport != Transport::NotIp) {
        return false;
    }
    let bit = which % (payload.len() as u64 * 8);
    let at = payload.start + (bit / 8) as usize;
    let Some(checksum) = checksum else {
        packet[at] ^= 1 << (bit % 8);
        return true;
    };
    let transport = tun::HEADER + layout.transport_start;
    // The checksum is over words from the transport header on; this is the word that holds the
    // byte.
    let word = transport + ((at - transport) & !1);
    let read = |packet: &[u8]| {
        u16::from_be_bytes([packet[word], packet.get(word + 1).copied().unwrap_or(0)])
    };
    let before = read(packet);
    packet[at] ^= 1 << (bit % 8);
    let after = read(packet);
    let checksum = transport + checksum;
    let old = take(packet, checksum);
    // Without an offload the checksum is finished: RFC 1624, equation 3. A UDP checksum of zero
    // means none.
    let unused = layout.transport == Transport::Udp && old == 0;
    if !layout.offload.needs_checksum && !unused {
        let new = !fold(u64::from(!old) + u64::from(!before) + u64::from(after));
        put(
            packet,
            checksum,
            if layout.transport == Transport::Udp && new == 0 { 0xffff } else { new },
        );
    }
    true
}

/// The folded sum of the pseudo-header (RFC 793, section 3.1; RFC 8200, section 8.1).
fn pseudo_header(ip: &[u8], layout: &Layout, transport_len: usize) -> u16 {
    let (addresses, protocol) = if layout.ipv6 { (8..40, ip[6]) } else { (12..20, ip[9]) };
    fold(sum(&ip[addresses]) + u64::from(protocol) + transport_len as u64)
}

/// The sum of the 16-bit words of `bytes`, an odd last byte padded with zero (RFC 1071).
fn sum(bytes: &[u8]) -> u64 {
    bytes
        .chunks(2)
        .map(|word| u64::from(u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or(0)])))
        .sum()
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn take(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn put(bytes: &mut [u8], at: usize, word: u16) {
    bytes[at..at + 2].copy_from_slice(&word.to_be_bytes());
}

#[cfg(test)]
#[path = "cut_tests.rs"]
mod tests;

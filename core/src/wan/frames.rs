//! What a packet is on the wire: how many Ethernet frames, and how many bits each takes.

use std::ops::Range;

/// Ethernet header: two addresses and a type (IEEE 802.3, clause 3).
pub const HEADER: u64 = 14;
/// Frame check sequence.
pub const FCS: u64 = 4;
/// Preamble and start-of-frame delimiter.
pub const PREAMBLE: u64 = 8;
/// Gap between two frames: 96 bit times.
pub const GAP: u64 = 12;
/// The shortest frame, header to FCS; shorter ones are padded.
pub const SHORTEST: u64 = 64;

/// Bytes from Ethernet header to FCS of a frame that carries `ip_bytes` of IP: what the FCS
/// protects.
pub const fn framed_bytes(ip_bytes: u64) -> u64 {
    let bytes = ip_bytes + HEADER + FCS;
    if bytes < SHORTEST { SHORTEST } else { bytes }
}

/// Bytes of wire time that a frame with `ip_bytes` of IP takes, preamble and gap included.
pub const fn wire_bytes(ip_bytes: u64) -> u64 {
    framed_bytes(ip_bytes) + PREAMBLE + GAP
}

/// The frames of one packet: all of the same size but the last, which may be shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frames {
    count: u32,
    ip_bytes: u32,
    last_ip_bytes: u32,
}

impl Frames {
    /// A packet that is one frame of `ip_bytes` of IP (headers included).
    pub const fn one(ip_bytes: u32) -> Frames {
        Frames { count: 1, ip_bytes, last_ip_bytes: ip_bytes }
    }

    /// A super-packet: `header` bytes of IP and transport header that each frame repeats, and
    /// `payload` bytes cut in pieces of `segment`. A `segment` of zero or no payload is one frame.
    pub const fn train(header: u32, payload: u32, segment: u32) -> Frames {
        if segment == 0 || payload <= segment {
            return Frames::one(header + payload);
        }
        let count = payload.div_ceil(segment);
        let last = payload - (count - 1) * segment;
        Frames { count, ip_bytes: header + segment, last_ip_bytes: header + last }
    }

    /// How many frames.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Bytes of IP in frame `index`, counted from 0.
    pub const fn ip_bytes(&self, index: u32) -> u32 {
        if index + 1 == self.count { self.last_ip_bytes } else { self.ip_bytes }
    }

    /// Bytes of wire time of the frames in `range`.
    pub fn wire_bytes(&self, range: &Range<u32>) -> u64 {
        self.sum(range, wire_bytes)
    }

    /// Bytes under an FCS of the frames in `range`: those in which a bit error costs the frame.
    pub fn framed_bytes(&self, range: &Range<u32>) -> u64 {
        self.sum(range, framed_bytes)
    }

    /// Bytes that the frames in `range` carry.
    pub fn carried_bytes(&self, range: &Range<u32>) -> u64 {
        self.sum(range, |carried| carried)
    }

    fn sum(&self, range: &Range<u32>, size: fn(u64) -> u64) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let last = range.end - 1;
        u64::from(last - range.start) * size(u64::from(self.ip_bytes))
            + size(u64::from(self.ip_bytes(last)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_its_ip_packet_and_38_bytes_at_least_84() {
        assert_eq!(wire_bytes(9_000), 9_038);
        assert_eq!(wire_bytes(1_500), 1_538);
        assert_eq!(wire_bytes(40), 84);
        assert_eq!(wire_bytes(46), 84);
        assert_eq!(wire_bytes(47), 85);
    }

    #[test]
    fn a_super_packet_is_full_frames_and_one_rest() {
        let train = Frames::train(52, 62_636 + 100, 8_948);
        assert_eq!(train.count(), 8);
        assert_eq!(train.ip_bytes(0), 9_000);
        assert_eq!(train.ip_bytes(7), 152);
        assert_eq!(train.wire_bytes(&(0..8)), 7 * 9_038 + 190);
        assert_eq!(train.wire_bytes(&(2..4)), 2 * 9_038);
        assert_eq!(train.framed_bytes(&(7..8)), 170);
        assert_eq!(Frames::train(52, 8_948, 8_948), Frames::one(9_000));
        assert_eq!(Frames::train(52, 0, 0), Frames::one(52));
    }
}

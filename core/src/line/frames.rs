//! Which frames are sent in which order: one size, or a mix of sizes.

use super::header::HEADER_BYTES;
use super::pattern::Pattern;
use crate::units::{Error, ErrorCode, Fault, Setting};
use crate::wan::frames::{FCS, GAP, HEADER, PREAMBLE};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Bytes of IP and UDP header in a frame.
const IP_AND_UDP: [u32; 2] = [28, 48];
/// The largest frame, which the switches of the Trans-European testbed carried.
const LARGEST: u32 = 9_252;
/// Frame sizes of RFC 2544, section 9.1.
const RFC2544: [u32; 7] = [64, 128, 256, 512, 1_024, 1_280, 1_518];

/// One kind of frame in a mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameKind {
    /// Bytes from Ethernet header to FCS.
    pub frame_bytes: u32,
    /// What it carries.
    pub pattern: Pattern,
}

/// How frames travel that are Ethernet's own, and not those of UDP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EthernetFraming {
    /// The device of this host.
    pub device: String,
    /// Their VLAN, 1 to 4094; without a number they may have a priority all the same.
    pub vlan: Option<u16>,
    /// Of their tag, 0 to 7.
    pub priority: u8,
}

impl EthernetFraming {
    /// Type of the frames: one of those that IEEE 802 leaves for experiments.
    pub const KIND: u16 = 0x88b5;
    /// Bytes behind the type that say whose frame it is.
    pub const STREAM_BYTES: usize = 2;

    /// The tag's priority and number (IEEE 802.1Q); `None` for frames without one.
    pub fn tag(&self) -> Option<u16> {
        let is_tagged = self.vlan.is_some() || self.priority > 0;
        is_tagged.then(|| u16::from(self.priority) << 13 | self.vlan.unwrap_or(0))
    }

    /// Bytes that the tag adds to each frame.
    pub fn tag_bytes(&self) -> u64 {
        if self.tag().is_some() { 4 } else { 0 }
    }

    /// Bytes of a frame that [`LoadWriter`](super::LoadWriter) fills.
    pub fn payload_bytes(kind: FrameKind) -> usize {
        let head = HEADER as usize + FCS as usize + Self::STREAM_BYTES;
        (kind.frame_bytes as usize).saturating_sub(head).max(HEADER_BYTES)
    }

    /// Bytes from header to FCS of a frame with `payload` bytes, tag included.
    pub fn framed_bytes(&self, payload: usize) -> u64 {
        let carried = (payload + Self::STREAM_BYTES) as u64;
        crate::wan::frames::framed_bytes(carried) + self.tag_bytes()
    }
}

/// Frames that follow each other, over and over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameMix {
    /// As it was asked for: `cjpat-mix`, `imix`, `rfc2544` or a size.
    pub name: String,
    /// One turn.
    pub turn: Vec<FrameKind>,
}

impl FrameMix {
    /// The mix of the Trans-European paper (section 3): of ten frames nine of 1518 bytes with CJPAT
    /// and one of 64 with CRPAT.
    pub fn cjpat() -> FrameMix {
        FrameMix::counted("cjpat-mix", &[(9, 1_518, Pattern::Cjpat), (1, 64, Pattern::Crpat)])
    }

    /// Frames of one size.
    pub fn fixed(frame_bytes: u32, pattern: Pattern) -> FrameMix {
        FrameMix::counted(&frame_bytes.to_string(), &[(1, frame_bytes, pattern)])
    }

    fn counted(name: &str, parts: &[(usize, u32, Pattern)]) -> FrameMix {
        let frames = |&(count, frame_bytes, pattern): &(usize, u32, Pattern)| {
            vec![FrameKind { frame_bytes, pattern }; count]
        };
        FrameMix { name: name.to_owned(), turn: parts.iter().flat_map(frames).collect() }
    }

    /// The same frames with `pattern` in all of them.
    #[must_use]
    pub fn with_pattern(mut self, pattern: Pattern) -> FrameMix {
        self.turn.iter_mut().for_each(|kind| kind.pattern = pattern);
        self
    }

    /// The same frames, none of them larger than one with `mtu` bytes of IP.
    ///
    /// # Errors
    /// [`Fault::You`] when one is: it would be cut in parts or not be sent at all.
    pub fn fits(&self, mtu: u32) -> Result<(), Error> {
        let largest = self.turn.iter().map(|kind| kind.frame_bytes).max().unwrap_or(0);
        let most = mtu + (HEADER + FCS) as u32;
        if largest <= most {
            return Ok(());
        }
        Err(Error::new(
            Fault::You,
            ErrorCode::LineFrames,
            format!("a frame of {largest} bytes does not fit the path's MTU of {mtu}"),
        )
        .hint(format!(
            "{} {most} is the largest; or raise the MTU of the devices",
            Setting::Frames
        )))
    }

    /// Bytes of a turn from header to FCS: those in which a wrong bit costs the frame.
    pub fn framed_bytes(&self) -> u64 {
        self.turn.iter().map(|kind| u64::from(kind.frame_bytes)).sum()
    }

    /// Bytes of wire time of a turn, preamble and gap included.
    pub fn wire_bytes(&self) -> u64 {
        self.framed_bytes() + self.turn.len() as u64 * (PREAMBLE + GAP)
    }
}

impl FrameKind {
    /// Bytes of UDP payload, over IPv6 or IPv4.
    pub fn payload_bytes(&self, is_ipv6: bool) -> usize {
        let headers = HEADER as u32 + FCS as u32 + IP_AND_UDP[usize::from(is_ipv6)];
        (self.frame_bytes.saturating_sub(headers) as usize).max(HEADER_BYTES)
    }
}

/// Bytes from header to FCS of the frame that carries `payload` bytes by UDP.
pub(super) fn frame_of_payload(payload: usize, is_ipv6: bool) -> u64 {
    let ip = payload as u64 + u64::from(IP_AND_UDP[usize::from(is_ipv6)]);
    crate::wan::frames::framed_bytes(ip)
}

impl FromStr for FrameMix {
    type Err = Error;
    fn from_str(text: &str) -> Result<FrameMix, Error> {
        let wrong = |message: String| {
            Error::new(Fault::You, ErrorCode::LineFrames, message)
                .hint("cjpat-mix, imix, rfc2544, or bytes from Ethernet header to FCS such as 1518")
        };
        match text {
            "cjpat-mix" => Ok(FrameMix::cjpat()),
            // The simple mix of the Internet's packet sizes: 7 to 4 to 1.
            "imix" => Ok(FrameMix::counted(
                text,
                &[(7, 64, Pattern::Crpat), (4, 594, Pattern::Cjpat), (1, 1_518, Pattern::Cjpat)],
            )),
            "rfc2544" => {
                Ok(FrameMix::counted(text, &RFC2544.map(|size| (1, size, Pattern::Cjpat))))
            }
            _ => {
                let size: u32 =
                    text.parse().map_err(|_| wrong(format!("`{text}` are no frames")))?;
                if !(64..=LARGEST).contains(&size) {
                    return Err(wrong(format!("a frame has 64 to {LARGEST} bytes, not {size}")));
                }
                Ok(FrameMix::fixed(size, Pattern::Cjpat))
            }
        }
    }
}

impl fmt::Display for FrameMix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_mix_is_nine_large_frames_and_a_small_one() {
        let mix: FrameMix = "cjpat-mix".parse().expect("a mix");
        assert_eq!((mix.turn.len(), mix.framed_bytes()), (10, 9 * 1_518 + 64));
        assert_eq!(mix.wire_bytes(), 9 * 1_538 + 84);
        assert_eq!(mix.turn[0].payload_bytes(false), 1_472);
        assert_eq!(mix.turn[9].payload_bytes(false), 18);
        assert_eq!(frame_of_payload(1_472, false), 1_518);
        assert_eq!(frame_of_payload(18, false), 64);
    }

    #[test]
    fn a_tag_is_four_bytes_more_of_the_wire_and_none_of_the_payload() {
        let plain = EthernetFraming { device: "eth0".to_owned(), vlan: None, priority: 0 };
        let tagged = EthernetFraming { vlan: Some(3_001), priority: 5, ..plain.clone() };
        assert_eq!((plain.tag(), tagged.tag()), (None, Some(0xabb9)));
        for size in [64, 1_518, 9_252] {
            let payload =
                EthernetFraming::payload_bytes(FrameMix::fixed(size, Pattern::Crpat).turn[0]);
            assert_eq!(payload as u32, size - 20);
            assert_eq!(plain.framed_bytes(payload), u64::from(size));
            assert_eq!(tagged.framed_bytes(payload), u64::from(size) + 4);
        }
    }

    #[test]
    fn what_does_not_fit_or_is_no_frame_is_refused() {
        for wrong in ["63", "9253", "jumbo", ""] {
            let error = wrong.parse::<FrameMix>().expect_err(wrong);
            assert_eq!((error.fault, error.code), (Fault::You, ErrorCode::LineFrames));
        }
        let jumbo: FrameMix = "9000".parse().expect("a size");
        assert!(jumbo.fits(1_500).is_err() && jumbo.fits(9_000).is_ok());
    }
}

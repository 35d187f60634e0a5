//! When a reflector's answer really left, which it says with its next one (RFC 8972, section 4.7):
//! a packet's own timestamp is read before it is sent, and a host may do other things in between.

use super::delay::DelaySample;
use super::stamp::{UNAUTHENTICATED, ntp_of, time_of};
use crate::units::Time;

/// Bytes of an unauthenticated test packet that asks for it.
pub const FOLLOW_UP_PACKET: usize = UNAUTHENTICATED + TLV;
/// Bytes of the TLV: flags, type, length; sequence number, timestamp, its mode, three of nothing.
const TLV: usize = 20;
/// The flag of a TLV that nobody has understood yet.
const UNRECOGNISED: u8 = 0x80;
/// Follow-Up Telemetry, and the length of its value.
const HEAD: [u8; 3] = [7, 0, 16];
/// The timestamp is by software of the host itself.
const LOCAL_SOFTWARE: u8 = 2;

/// When an answer left, by the clock of the host that sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowUp {
    /// The answer's own number.
    pub sequence: u32,
    /// When the host's device took it.
    pub sent: Time,
}

impl FollowUp {
    /// Asks for it in an unauthenticated test packet that has room.
    pub fn ask(packet: &mut [u8]) {
        if let Some(tlv) = packet.get_mut(UNAUTHENTICATED..FOLLOW_UP_PACKET) {
            tlv.fill(0);
            tlv[0] = UNRECOGNISED;
            tlv[1..4].copy_from_slice(&HEAD);
        }
    }

    /// Whether a test packet asks for it, right behind its own fields.
    pub fn is_asked(packet: &[u8]) -> bool {
        packet.len() >= FOLLOW_UP_PACKET && packet[UNAUTHENTICATED + 1..][..3] == HEAD
    }

    /// Puts it into the answer to a packet that asks; without one the answer says that there is
    /// none.
    pub fn answer(follow_up: Option<FollowUp>, packet: &mut [u8]) {
        if !FollowUp::is_asked(packet) {
            return;
        }
        let tlv = &mut packet[UNAUTHENTICATED..FOLLOW_UP_PACKET];
        tlv[0] &= !UNRECOGNISED;
        tlv[4..].fill(0);
        if let Some(FollowUp { sequence, sent }) = follow_up {
            tlv[4..8].copy_from_slice(&sequence.to_be_bytes());
            tlv[8..16].copy_from_slice(&ntp_of(sent).to_be_bytes());
            tlv[16] = LOCAL_SOFTWARE;
        }
    }

    /// Reads it from an answer; `None` where the reflector does not know it, or has none.
    pub fn read(packet: &[u8]) -> Option<FollowUp> {
        if !FollowUp::is_asked(packet) || packet[UNAUTHENTICATED] & UNRECOGNISED != 0 {
            return None;
        }
        let tlv = &packet[UNAUTHENTICATED..FOLLOW_UP_PACKET];
        let sequence = u32::from_be_bytes(*tlv[4..].first_chunk()?);
        let sent = u64::from_be_bytes(*tlv[8..].first_chunk()?);
        (sent != 0).then(|| FollowUp { sequence, sent: time_of(sent, false) })
    }
}

/// The latest sample, which waits for when its answer left.
#[derive(Clone, Copy, Debug, Default)]
pub struct FollowedSamples {
    waiting: Option<(u32, DelaySample)>,
}

impl FollowedSamples {
    /// Takes the sample of the answer that is number `sequence` at the reflector, with what came in
    /// it of the one before; returns the sample before, which is as exact as it will be. The last
    /// one stays.
    pub fn take(
        &mut self,
        sequence: u32,
        sample: DelaySample,
        follow_up: Option<FollowUp>,
    ) -> Option<DelaySample> {
        let (waited, mut before) = self.waiting.replace((sequence, sample))?;
        if let Some(follow_up) = follow_up.filter(|follow_up| follow_up.sequence == waited) {
            before.returned = follow_up.sent;
        }
        Some(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: u64) -> DelaySample {
        let [sent, received, returned, came] = [0, 10, 11, 21].map(|n| Time::from_nanos(at + n));
        DelaySample { sent, received, returned, came }
    }

    #[test]
    fn what_is_asked_is_answered_and_read_back() {
        let mut packet = [0xee; FOLLOW_UP_PACKET + 8];
        assert!(!FollowUp::is_asked(&packet), "padding");
        FollowUp::ask(&mut packet);
        assert!(FollowUp::is_asked(&packet));
        assert_eq!(FollowUp::read(&packet), None, "nobody has answered");
        FollowUp::answer(None, &mut packet);
        assert_eq!(FollowUp::read(&packet), None, "none is known");
        let follow_up = FollowUp { sequence: 9, sent: Time::from_nanos(1_789_000_000_987_654_321) };
        FollowUp::answer(Some(follow_up), &mut packet);
        assert_eq!(FollowUp::read(&packet), Some(follow_up));
        assert_eq!(packet[FOLLOW_UP_PACKET..], [0xee; 8], "padding stays");
        let mut short = [0; FOLLOW_UP_PACKET - 1];
        FollowUp::ask(&mut short);
        assert_eq!((short, FollowUp::read(&short)), ([0; FOLLOW_UP_PACKET - 1], None));
    }

    #[test]
    fn a_sample_has_the_time_at_which_its_answer_left() {
        let mut samples = FollowedSamples::default();
        let left = |sequence, at| Some(FollowUp { sequence, sent: Time::from_nanos(at) });
        assert_eq!(samples.take(0, sample(0), None), None);
        let late = DelaySample { returned: Time::from_nanos(15), ..sample(0) };
        assert_eq!(samples.take(1, sample(100), left(0, 15)), Some(late));
        assert_eq!(samples.take(3, sample(300), left(2, 250)), Some(sample(100)), "of another");
        assert_eq!(samples.take(4, sample(400), None), Some(sample(300)), "unknown");
    }
}

//! STAMP test packets (RFC 8762, with the session identifier of RFC 8972), which TWAMP Light's
//! reflectors understand too.
//!
//! The authenticated mode's HMAC is a function that the caller brings: HMAC-SHA-256, cut to 16
//! bytes.

use crate::units::Time;

/// Where a reflector listens by default.
pub const PORT: u16 = 862;
/// Bytes of an unauthenticated test packet; more may follow.
pub const UNAUTHENTICATED: usize = 44;
/// Bytes of an authenticated one.
pub const AUTHENTICATED: usize = 112;
/// Seconds from 1900, where NTP begins, to 1970.
const NTP_EPOCH: u64 = 2_208_988_800;
/// Bytes of an HMAC.
const MAC: usize = 16;

/// A time with what the clock is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StampTime {
    /// Since 1970, UTC.
    pub time: Time,
    /// Whether the clock is synchronised from outside.
    pub is_synchronised: bool,
    /// How far off it may be, in nanoseconds; rounded up when it is written.
    pub error_ns: u64,
    /// Both as they came in a packet, to go back to the last bit; absent for a time of one's own.
    pub as_it_came: Option<[u8; 10]>,
}

/// What a sender sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderPacket {
    /// Its number.
    pub sequence: u32,
    /// When it was sent.
    pub sent: StampTime,
    /// Which session of the sender's it is of; 0 where there is only one.
    pub session: u16,
}

/// What a reflector sends back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReflectorPacket {
    /// The reflector's own number: one for each packet of the session, or the sender's.
    pub sequence: u32,
    /// When it was sent back.
    pub sent: StampTime,
    /// Which session it is of.
    pub session: u16,
    /// When the sender's came.
    pub received: Time,
    /// The sender's number.
    pub sender_sequence: u32,
    /// When the sender's was sent.
    pub sender_sent: StampTime,
    /// The TTL or hop limit with which it came.
    pub sender_ttl: u8,
}

/// The HMAC of bytes under a key that both ends know.
pub type Mac<'a> = &'a dyn Fn(&[u8]) -> [u8; MAC];

/// Where the fields of a mode stand.
struct Layout {
    len: usize,
    /// What is read: TWAMP's reflectors (RFC 5357, section 4.2.1) send no more, and their senders
    /// as much.
    shortest: usize,
    stamp: usize,
    received: usize,
    sender_sequence: usize,
    sender_stamp: usize,
    sender_ttl: usize,
}

/// RFC 8762, figures 1 and 4.
const PLAIN: Layout = Layout {
    len: UNAUTHENTICATED,
    shortest: 41,
    stamp: 4,
    received: 16,
    sender_sequence: 24,
    sender_stamp: 28,
    sender_ttl: 40,
};
/// RFC 8762, figures 2 and 5.
const SECURED: Layout = Layout {
    len: AUTHENTICATED,
    shortest: AUTHENTICATED,
    stamp: 16,
    received: 32,
    sender_sequence: 48,
    sender_stamp: 64,
    sender_ttl: 80,
};

const fn layout(mac: Option<Mac<'_>>) -> &'static Layout {
    if mac.is_some() { &SECURED } else { &PLAIN }
}

impl Layout {
    /// The packet's own part of `bytes`; `None` where they are too short for one.
    fn own<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        (bytes.len() >= self.shortest).then(|| &bytes[..bytes.len().min(self.len)])
    }

    /// What packets of both ends begin with; zeros follow it.
    fn head(&self, sequence: u32, sent: &StampTime, session: u16, into: &mut [u8]) {
        into[..self.len].fill(0);
        into[..4].copy_from_slice(&sequence.to_be_bytes());
        sent.write(&mut into[self.stamp..]);
        into[self.stamp + 10..self.stamp + 12].copy_from_slice(&session.to_be_bytes());
    }
}

impl SenderPacket {
    /// Its bytes in the first ones of `into`, of which what stands behind is padding; authenticated
    /// where there is a `mac`.
    pub fn write(&self, mac: Option<Mac<'_>>, into: &mut [u8]) {
        let layout = layout(mac);
        layout.head(self.sequence, &self.sent, self.session, into);
        seal(mac, &mut into[..layout.len]);
    }

    /// Reads one; `None` where it is too short or, in the authenticated mode, forged.
    pub fn read(mac: Option<Mac<'_>>, bytes: &[u8]) -> Option<SenderPacket> {
        let layout = layout(mac);
        let bytes = opened(mac, layout.own(bytes)?)?;
        Some(SenderPacket {
            sequence: word(bytes, 0),
            sent: StampTime::read(&bytes[layout.stamp..]),
            session: half(bytes, layout.stamp + 10),
        })
    }
}

impl ReflectorPacket {
    /// Whether `len` bytes are enough for one: then only a wrong HMAC is a reason not to read it.
    pub fn is_long_enough(mac: Option<Mac<'_>>, len: usize) -> bool {
        len >= layout(mac).shortest
    }

    /// As [`SenderPacket::write`].
    pub fn write(&self, mac: Option<Mac<'_>>, into: &mut [u8]) {
        let layout = layout(mac);
        layout.head(self.sequence, &self.sent, self.session, into);
        into[layout.received..layout.received + 8]
            .copy_from_slice(&ntp_of(self.received).to_be_bytes());
        into[layout.sender_sequence..layout.sender_sequence + 4]
            .copy_from_slice(&self.sender_sequence.to_be_bytes());
        self.sender_sent.write(&mut into[layout.sender_stamp..]);
        into[layout.sender_ttl] = self.sender_ttl;
        seal(mac, &mut into[..layout.len]);
    }

    /// As [`SenderPacket::read`].
    pub fn read(mac: Option<Mac<'_>>, bytes: &[u8]) -> Option<ReflectorPacket> {
        let layout = layout(mac);
        let bytes = opened(mac, layout.own(bytes)?)?;
        Some(ReflectorPacket {
            sequence: word(bytes, 0),
            sent: StampTime::read(&bytes[layout.stamp..]),
            session: half(bytes, layout.stamp + 10),
            received: time_of(long(bytes, layout.received), false),
            sender_sequence: word(bytes, layout.sender_sequence),
            sender_sent: StampTime::read(&bytes[layout.sender_stamp..]),
            sender_ttl: bytes[layout.sender_ttl],
        })
    }
}

impl StampTime {
    /// Timestamp and error estimate (RFC 4656, section 4.1.2): NTP's format.
    fn write(&self, into: &mut [u8]) {
        if let Some(bytes) = self.as_it_came {
            return into[..10].copy_from_slice(&bytes);
        }
        into[..8].copy_from_slice(&ntp_of(self.time).to_be_bytes());
        // The error is `multiplier * 2^scale / 2^32` seconds; a multiplier of 0 is forbidden.
        let units = (u128::from(self.error_ns) << 32).div_ceil(1_000_000_000).max(1);
        let least = (128 - units.leading_zeros()).saturating_sub(8);
        // Rounded up, it may take a bit more.
        let scale = least + u32::from(units.div_ceil(1 << least) > 255);
        into[8] = u8::from(self.is_synchronised) << 7 | scale as u8;
        into[9] = units.div_ceil(1 << scale) as u8;
    }

    fn read(bytes: &[u8]) -> StampTime {
        // The second bit says that a timestamp is PTP's (RFC 8186).
        let is_ptp = bytes[8] & 0x40 != 0;
        let units = u128::from(bytes[9]) << (bytes[8] & 0x3f);
        let error = (units * 1_000_000_000) >> 32;
        StampTime {
            time: time_of(long(bytes, 0), is_ptp),
            is_synchronised: bytes[8] & 0x80 != 0,
            error_ns: u64::try_from(error).unwrap_or(u64::MAX),
            as_it_came: bytes.first_chunk().copied(),
        }
    }
}

/// Puts the HMAC at the end.
fn seal(mac: Option<Mac<'_>>, packet: &mut [u8]) {
    if let Some(mac) = mac {
        let body = packet.len() - MAC;
        let sum = mac(&packet[..body]);
        packet[body..].copy_from_slice(&sum);
    }
}

/// The packet, where the HMAC at its end is right.
fn opened<'a>(mac: Option<Mac<'_>>, packet: &'a [u8]) -> Option<&'a [u8]> {
    let Some(mac) = mac else { return Some(packet) };
    let (body, sum) = packet.split_at(packet.len() - MAC);
    // In a time that does not depend on where they differ.
    let difference = mac(body).iter().zip(sum).fold(0, |so_far, (a, b)| so_far | (a ^ b));
    (difference == 0).then_some(packet)
}

/// NTP's 64 bits of a time: seconds since 1900, and their 2^32nd parts.
pub(super) fn ntp_of(time: Time) -> u64 {
    let (seconds, nanos) = (time.as_nanos() / 1_000_000_000, time.as_nanos() % 1_000_000_000);
    let fraction = (nanos << 32).div_ceil(1_000_000_000);
    (seconds + NTP_EPOCH) << 32 | fraction
}

pub(super) fn time_of(bits: u64, is_ptp: bool) -> Time {
    let (seconds, fraction) = (bits >> 32, bits & 0xffff_ffff);
    if is_ptp {
        return Time::from_nanos(seconds * 1_000_000_000 + fraction);
    }
    // The era that began in 2036 has small numbers of seconds.
    let seconds = if seconds < NTP_EPOCH { seconds + (1 << 32) } else { seconds } - NTP_EPOCH;
    Time::from_nanos(seconds * 1_000_000_000 + ((fraction * 1_000_000_000) >> 32))
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from(half(bytes, at)) << 16 | u32::from(half(bytes, at + 2))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) << 32 | u64::from(word(bytes, at + 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> StampTime {
        StampTime {
            time: Time::from_nanos(nanos),
            is_synchronised: true,
            error_ns: 30_000,
            as_it_came: None,
        }
    }

    const REFLECTED: ReflectorPacket = ReflectorPacket {
        sequence: 9,
        sent: StampTime { time: Time::ZERO, is_synchronised: false, error_ns: 0, as_it_came: None },
        session: 0xbeef,
        received: Time::from_nanos(1_700_000_000_123_456_789),
        sender_sequence: 7,
        sender_sent: StampTime {
            time: Time::ZERO,
            is_synchronised: false,
            error_ns: 0,
            as_it_came: None,
        },
        sender_ttl: 255,
    };

    /// Stands for an HMAC: what it is made of decides it.
    fn sum(bytes: &[u8]) -> [u8; 16] {
        let crc = crc_fast::crc32_iscsi(bytes).to_be_bytes();
        std::array::from_fn(|i| crc[i % 4] ^ i as u8)
    }

    #[test]
    fn packets_are_read_back_in_both_modes() {
        for mac in [None, Some(&sum as Mac<'_>)] {
            let mut bytes = [0xff; 200];
            let sent =
                SenderPacket { sequence: 7, sent: at(1_789_000_000_987_654_321), session: 3 };
            sent.write(mac, &mut bytes);
            let back = SenderPacket::read(mac, &bytes).expect("a packet");
            assert_eq!((back.sequence, back.session), (7, 3));
            assert_eq!(back.sent.time, sent.sent.time);
            assert!(back.sent.is_synchronised && back.sent.error_ns >= 30_000);
            assert!(back.sent.error_ns < 31_000, "{back:?}");
            let reflected = ReflectorPacket { sender_sent: back.sent, ..REFLECTED };
            reflected.write(mac, &mut bytes);
            let back = ReflectorPacket::read(mac, &bytes).expect("a packet");
            assert_eq!((back.received, back.sender_ttl), (REFLECTED.received, 255));
            assert_eq!((back.sender_sequence, back.sender_sent.time), (7, sent.sent.time));
            assert_eq!(back.session, 0xbeef);
            // What another wrote goes back to the last bit.
            let odd = StampTime { as_it_came: Some([0xe5; 10]), ..back.sent };
            ReflectorPacket { sender_sent: odd, ..REFLECTED }.write(mac, &mut bytes);
            let back = ReflectorPacket::read(mac, &bytes).expect("a packet");
            assert_eq!(back.sender_sent.as_it_came, Some([0xe5; 10]));
        }
        assert_eq!(SenderPacket::read(None, &[0; 40]), None, "an answer would be longer");
        assert!(SenderPacket::read(None, &[0; 41]).is_some(), "TWAMP's");
        assert_eq!(SenderPacket::read(Some(&sum), &[0; AUTHENTICATED - 1]), None);
    }

    #[test]
    fn a_forged_packet_is_none() {
        let mut bytes = [0; AUTHENTICATED];
        REFLECTED.write(Some(&sum), &mut bytes);
        bytes[50] ^= 1;
        assert_eq!(ReflectorPacket::read(Some(&sum), &bytes), None);
    }

    #[test]
    fn times_are_read_as_ntp_of_either_era_and_as_ptp() {
        assert_eq!(ntp_of(Time::ZERO), NTP_EPOCH << 32);
        let later = Time::from_nanos(2_100_000_000_000_000_000);
        assert!(later.since(time_of(ntp_of(later), false)).as_nanos() <= 1);
        assert_eq!(time_of(5 << 32 | 7, true), Time::from_nanos(5_000_000_007));
    }
}

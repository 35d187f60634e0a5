//! What travels in the private data of a connection request and its answer: who connects, and as
//! what.

use super::{MOST_CREDITS, MOST_QUEUE_PAIRS, Placement, QueuePair};
use crate::units::Span;

/// What all private data begin with.
pub(super) const MAGIC: [u8; 7] = *b"FARLRDM";
/// The version of the protocol, which follows.
pub const VERSION: u8 = 1;

/// Bytes of a greeting: as much as rdma_cm leaves free in an InfiniBand request (92 bytes, of which
/// its own header takes 36).
pub const GREETING_LEN: usize = 56;
/// Bytes of an answer.
pub const ANSWER_LEN: usize = 16;

/// What who connects says of one queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RdmaGreeting {
    /// Shows that the session is theirs: made of the session's key and of the channel and queue
    /// pair, so that it serves once.
    pub proof: [u8; 32],
    /// The channel that the queue pair is of, among those of the session.
    pub channel: u32,
    /// Which of the channel's queue pairs it is.
    pub queue_pair: QueuePair,
    /// How many the channel has.
    pub queue_pairs: u8,
    /// The most slots that either end may advertise.
    pub credits: u16,
    /// How blocks are placed.
    pub placement: Placement,
    /// The exponent of the time after which either end sends again what was not acknowledged.
    pub ack_timeout: u8,
    /// Bytes that a packet of this end carries; 0 where it does not know.
    pub mtu: u16,
    /// How many slots either end advertises to begin with; 0 on the wire is as many as there may
    /// be.
    pub begin: u16,
    /// The path's round-trip time, which travels in tens of microseconds; zero where it is not
    /// known.
    pub rtt: Span,
}

/// The unit in which a round-trip time travels.
const RTT_UNIT: Span = Span::from_micros(10);

/// Why private data are no greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GreetingError {
    /// They are of another program, or make no sense.
    Foreign,
    /// They are of this version of the protocol, which is not ours.
    Version(u8),
}

impl RdmaGreeting {
    /// The private data.
    pub fn encode(&self) -> [u8; GREETING_LEN] {
        let mut bytes = [0; GREETING_LEN];
        bytes[..7].copy_from_slice(&MAGIC);
        bytes[7] = VERSION;
        bytes[8..40].copy_from_slice(&self.proof);
        bytes[40..44].copy_from_slice(&self.channel.to_be_bytes());
        bytes[44] = self.queue_pair.0;
        bytes[45] = self.queue_pairs;
        bytes[46..48].copy_from_slice(&self.credits.to_be_bytes());
        bytes[48] = self.placement.byte();
        bytes[49] = self.ack_timeout;
        bytes[50..52].copy_from_slice(&self.mtu.to_be_bytes());
        bytes[52..54].copy_from_slice(&self.begin.to_be_bytes());
        let rtt = u16::try_from(self.rtt.as_nanos() / RTT_UNIT.as_nanos()).unwrap_or(u16::MAX);
        bytes[54..56].copy_from_slice(&rtt.to_be_bytes());
        bytes
    }

    /// Reads private data, which the fabric may have padded.
    ///
    /// # Errors
    /// When they are of another program or version, or make no sense.
    pub fn decode(bytes: &[u8]) -> Result<RdmaGreeting, GreetingError> {
        match bytes.strip_prefix(&MAGIC).and_then(|rest| rest.first()) {
            None => Err(GreetingError::Foreign),
            Some(&VERSION) => Self::of_this_version(bytes).ok_or(GreetingError::Foreign),
            Some(&version) => Err(GreetingError::Version(version)),
        }
    }

    fn of_this_version(bytes: &[u8]) -> Option<RdmaGreeting> {
        let bytes: &[u8; GREETING_LEN] = bytes.first_chunk()?;
        let greeting = RdmaGreeting {
            proof: *bytes[8..40].first_chunk()?,
            channel: u32::from_be_bytes(*bytes[40..44].first_chunk()?),
            queue_pair: QueuePair(bytes[44]),
            queue_pairs: bytes[45],
            credits: u16::from_be_bytes(*bytes[46..48].first_chunk()?),
            placement: Placement::of_byte(bytes[48])?,
            ack_timeout: bytes[49],
            mtu: u16::from_be_bytes(*bytes[50..52].first_chunk()?),
            begin: match u16::from_be_bytes(*bytes[52..54].first_chunk()?) {
                0 => u16::from_be_bytes(*bytes[46..48].first_chunk()?),
                begin => begin,
            },
            rtt: Span::from_nanos(
                u64::from(u16::from_be_bytes(*bytes[54..56].first_chunk()?)) * RTT_UNIT.as_nanos(),
            ),
        };
        let sound = greeting.queue_pair.0 < greeting.queue_pairs
            && greeting.queue_pairs <= MOST_QUEUE_PAIRS
            && (1..=MOST_CREDITS).contains(&greeting.credits)
            && (1..=greeting.credits).contains(&greeting.begin)
            && greeting.ack_timeout < 32;
        sound.then_some(greeting)
    }
}

/// What who is connected to says of a queue pair that it accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GreetingReply {
    /// The most slots that either end may advertise: what was asked for, or less.
    pub credits: u16,
}

impl GreetingReply {
    /// The private data.
    pub fn encode(&self) -> [u8; ANSWER_LEN] {
        let mut bytes = [0; ANSWER_LEN];
        bytes[..7].copy_from_slice(&MAGIC);
        bytes[7] = VERSION;
        bytes[8..10].copy_from_slice(&self.credits.to_be_bytes());
        bytes
    }

    /// Reads private data, which the fabric may have padded; `None` when it is of another program
    /// or version, or makes no sense.
    pub fn decode(bytes: &[u8]) -> Option<GreetingReply> {
        let bytes: &[u8; ANSWER_LEN] = bytes.first_chunk()?;
        let credits = u16::from_be_bytes(*bytes[8..10].first_chunk()?);
        (bytes[..7] == MAGIC && bytes[7] == VERSION && (1..=MOST_CREDITS).contains(&credits))
            .then_some(GreetingReply { credits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greeting() -> RdmaGreeting {
        let (queue_pair, placement) = (QueuePair(2), Placement::Behind);
        let (begin, rtt) = (4, Span::from_millis(163));
        RdmaGreeting {
            proof: [7; 32],
            channel: 5,
            queue_pair,
            queue_pairs: 3,
            credits: 9,
            placement,
            ack_timeout: 14,
            mtu: 4096,
            begin,
            rtt,
        }
    }

    #[test]
    fn a_greeting_survives_the_padding_of_the_fabric() {
        let mut wire = greeting().encode().to_vec();
        wire.extend([0; 36]);
        assert_eq!(RdmaGreeting::decode(&wire), Ok(greeting()));
        let mut wire = GreetingReply { credits: 9 }.encode().to_vec();
        wire.extend([0; 180]);
        assert_eq!(GreetingReply::decode(&wire), Some(GreetingReply { credits: 9 }));
    }

    #[test]
    fn a_round_trip_too_long_for_the_field_is_its_longest() {
        let far = RdmaGreeting { rtt: Span::from_secs(9), ..greeting() };
        assert_eq!(
            RdmaGreeting::decode(&far.encode()).map(|greeting| greeting.rtt),
            Ok(Span::from_millis(655) + Span::from_micros(350))
        );
    }

    #[test]
    fn another_version_and_what_makes_no_sense_are_no_greeting() {
        // Name, queue pair number, count, credits, placement, timeout, credits to begin with.
        for (at, byte) in [
            (6, 0),
            (44, 3),
            (45, 0),
            (45, MOST_QUEUE_PAIRS + 1),
            (46, 0xff),
            (48, 0),
            (49, 32),
            (53, 10),
        ] {
            let mut wire = greeting().encode();
            wire[at] = byte;
            assert_eq!(RdmaGreeting::decode(&wire), Err(GreetingError::Foreign), "{at}");
        }
        assert_eq!(RdmaGreeting::decode(&greeting().encode()[..55]), Err(GreetingError::Foreign));
        assert_eq!(RdmaGreeting::decode(&[]), Err(GreetingError::Foreign));
        let mut wire = greeting().encode();
        wire[7] = 2;
        assert_eq!(RdmaGreeting::decode(&wire), Err(GreetingError::Version(2)));
        assert_eq!(GreetingReply::decode(&GreetingReply { credits: 0 }.encode()), None);
    }
}

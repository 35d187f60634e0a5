//! The second way of connecting (SC08, section IV.C): what the ends of a channel tell each other
//! over the control connection, where rdma_cm would carry it. The wire is clauses V-9 and V-10 of
//! `docs/protocol.md`.

use super::greeting::{ANSWER_LEN, GREETING_LEN, GreetingError};
use super::{GreetingReply, MOST_QUEUE_PAIRS, Placement, RdmaGreeting, VERSION};
use crate::units::{Error, ErrorCode, Fault, Setting};
use std::fmt::Write;

/// Bytes before the queue pairs.
const HEAD_LEN: usize = 20;
/// Bytes of one queue pair.
const PAIR_LEN: usize = 6;

/// One queue pair, as its peer must know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// Its number at its device: 24 bits, and neither 0 nor 1, which are the fabric's own.
    pub number: u32,
    /// The sequence number of the first packet that it sends, 24 bits.
    pub first_packet: u32,
}

/// Where the queue pairs of one end are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QpAddress {
    /// The port's global identifier.
    pub gid: [u8; 16],
    /// Its local identifier on an InfiniBand subnet; 0 on Ethernet.
    pub lid: u16,
    /// Bytes that a packet of the port carries: 256 to 4096.
    pub mtu: u16,
    /// Its queue pairs, in the order of their numbers in the channel.
    pub pairs: Vec<Numbered>,
    /// RDMA READs that each of them asks for, or answers, at once; 0 where none are to be.
    pub reads: u8,
}

/// What who connects says of a whole channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RdmaOffer {
    /// Who connects, and as what; it names the first queue pair and stands for all.
    pub greeting: RdmaGreeting,
    /// Where to.
    pub address: QpAddress,
}

/// What the node says of a channel that it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acceptance {
    /// What was agreed.
    pub answer: GreetingReply,
    /// Where to.
    pub address: QpAddress,
}

impl QpAddress {
    /// Bytes of the packets between this end and the peer that is at `theirs`: what both ports
    /// take.
    ///
    /// # Errors
    /// When the two cannot be connected: each reason is told.
    pub fn packets_to(&self, theirs: &QpAddress) -> Result<u16, Error> {
        let broken = |what: String| Err(nonsense(&what));
        if self.pairs.len() != theirs.pairs.len() {
            return broken(format!("{} queue pairs for {}", theirs.pairs.len(), self.pairs.len()));
        }
        if let Some(pair) = theirs.pairs.iter().find(|pair| pair.number < 2) {
            return broken(format!("queue pair {} is the fabric's own", pair.number));
        }
        if !(256..=4096).contains(&theirs.mtu) || !theirs.mtu.is_power_of_two() {
            return broken(format!("packets of {} bytes", theirs.mtu));
        }
        if (self.reads == 0) != (theirs.reads == 0) {
            return broken(format!("{} RDMA READs at once for {}", theirs.reads, self.reads));
        }
        if (self.lid == 0) != (theirs.lid == 0) {
            let kind = |lid: u16| if lid == 0 { "Ethernet" } else { "InfiniBand" };
            let message = format!(
                "the peer's RDMA port is on {}, this end's on {}",
                kind(theirs.lid),
                kind(self.lid)
            );
            return Err(Error::new(Fault::Between, ErrorCode::RdmaFabric, message).hint(format!(
                "both ends need devices of one kind; {} tcp needs none",
                Setting::Channel
            )));
        }
        let is_multicast = theirs.gid[0] == 0xff;
        if is_multicast || (theirs.lid == 0 && theirs.gid == [0; 16]) {
            return Err(Error::new(
                Fault::There,
                ErrorCode::RdmaGid,
                "the peer's RDMA port has no GID to send to",
            )
            .hint(format!(
                "its interface needs an address: `ip addr` there; {} tcp goes without",
                Setting::Channel
            )));
        }
        Ok(self.mtu.min(theirs.mtu))
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.gid);
        bytes.extend(self.lid.to_be_bytes());
        bytes.extend(self.mtu.to_be_bytes());
        for pair in &self.pairs {
            bytes.extend(&pair.number.to_be_bytes()[1..]);
            bytes.extend(&pair.first_packet.to_be_bytes()[1..]);
        }
        bytes.extend((self.reads > 0).then_some(self.reads));
    }

    fn decode(bytes: &[u8]) -> Option<QpAddress> {
        let (head, rest) = bytes.split_first_chunk::<HEAD_LEN>()?;
        let (pairs, reads) = match (rest.len() % PAIR_LEN, rest) {
            (0, pairs) => (pairs, 0),
            (1, [pairs @ .., reads]) if *reads > 0 => (pairs, *reads),
            _ => return None,
        };
        if pairs.is_empty() || pairs.len() / PAIR_LEN > usize::from(MOST_QUEUE_PAIRS) {
            return None;
        }
        let number =
            |bytes: &[u8]| bytes.iter().fold(0, |number, &byte| number << 8 | u32::from(byte));
        let pair = |bytes: &[u8]| Numbered {
            number: number(&bytes[..3]),
            first_packet: number(&bytes[3..]),
        };
        Some(QpAddress {
            gid: *head.first_chunk()?,
            lid: u16::from_be_bytes([head[16], head[17]]),
            mtu: u16::from_be_bytes([head[18], head[19]]),
            pairs: pairs.chunks_exact(PAIR_LEN).map(pair).collect(),
            reads,
        })
    }
}

impl RdmaOffer {
    /// The value of the option.
    pub fn encode(&self) -> String {
        let mut bytes = self.greeting.encode().to_vec();
        self.address.encode(&mut bytes);
        hex(&bytes)
    }

    /// Reads the value of the option.
    ///
    /// # Errors
    /// When it is of another version, or makes no sense.
    pub fn decode(text: &str) -> Result<RdmaOffer, Error> {
        let bytes = unhex(text).ok_or_else(|| nonsense("it is not hexadecimal"))?;
        let greeting = RdmaGreeting::decode(&bytes).map_err(|reason| match reason {
            GreetingError::Foreign => nonsense("it begins with no greeting"),
            GreetingError::Version(theirs) => other_version(theirs),
        })?;
        let address = bytes.get(GREETING_LEN..).and_then(QpAddress::decode);
        let address =
            address.filter(|found| found.pairs.len() == usize::from(greeting.queue_pairs));
        let address =
            address.ok_or_else(|| nonsense("its length fits no number of queue pairs"))?;
        if (greeting.placement == Placement::Read) != (address.reads > 0) {
            return Err(nonsense(&format!("{} RDMA READs at once", address.reads)));
        }
        Ok(RdmaOffer { greeting, address })
    }
}

impl Acceptance {
    /// The text of the reply, behind the option's name.
    pub fn encode(&self) -> String {
        let mut bytes = self.answer.encode().to_vec();
        self.address.encode(&mut bytes);
        hex(&bytes)
    }

    /// Reads what follows the option's name in a reply.
    ///
    /// # Errors
    /// When it makes no sense.
    pub fn decode(text: &str) -> Result<Acceptance, Error> {
        let bytes = unhex(text).ok_or_else(|| nonsense("it is not hexadecimal"))?;
        let answer =
            GreetingReply::decode(&bytes).ok_or_else(|| nonsense("it begins with no answer"))?;
        let address = bytes.get(ANSWER_LEN..).and_then(QpAddress::decode);
        let address =
            address.ok_or_else(|| nonsense("its length fits no number of queue pairs"))?;
        Ok(Acceptance { answer, address })
    }
}

fn nonsense(what: &str) -> Error {
    let message = format!("what the peer said of its RDMA channel makes no sense: {what}");
    Error::new(Fault::There, ErrorCode::RdmaBroken, message).hint(format!(
        "is it a Farline of another version? {} tcp goes another way",
        Setting::Channel
    ))
}

fn other_version(theirs: u8) -> Error {
    let message = format!(
        "the peer speaks version {theirs} of the RDMA channel, this Farline version {VERSION}"
    );
    Error::new(Fault::There, ErrorCode::RdmaVersion, message)
        .hint(format!("use the same Farline at both ends, or {} tcp", Setting::Channel))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
    let digits: Option<Vec<u8>> = text.trim().as_bytes().iter().map(digit).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdma::QueuePair;
    use crate::units::Span;
    use proptest::prelude::*;

    fn address(count: u32) -> QpAddress {
        let pair =
            |number| Numbered { number: 0xff_fff0 + number, first_packet: 0x12_3456 + number };
        let gid = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 1, 1];
        QpAddress { gid, lid: 0, mtu: 4096, pairs: (0..count).map(pair).collect(), reads: 0 }
    }

    fn offer(queue_pairs: u8) -> RdmaOffer {
        let greeting = RdmaGreeting {
            proof: [7; 32],
            channel: 5,
            queue_pair: QueuePair(0),
            queue_pairs,
            credits: 200,
            placement: Placement::Immediate,
            ack_timeout: 18,
            mtu: 4096,
            begin: 8,
            rtt: Span::from_millis(20),
        };
        RdmaOffer { greeting, address: address(queue_pairs.into()) }
    }

    #[test]
    fn offers_and_acceptances_read_as_they_were_written() {
        for count in [1, 4, 16] {
            assert_eq!(RdmaOffer::decode(&offer(count).encode()), Ok(offer(count)));
            let acceptance =
                Acceptance { answer: GreetingReply { credits: 9 }, address: address(count.into()) };
            assert_eq!(Acceptance::decode(&acceptance.encode()), Ok(acceptance));
            let mut read = offer(count);
            (read.greeting.placement, read.address.reads) = (Placement::Read, 16);
            assert_eq!(RdmaOffer::decode(&read.encode()), Ok(read));
        }
        assert!(
            RdmaOffer::decode(&format!("{}\r", offer(2).encode().to_uppercase())).is_ok(),
            "upper case is hexadecimal too"
        );
    }

    #[test]
    fn an_offer_of_another_version_or_length_is_refused() {
        let text = offer(2).encode();
        let said = |text: &str| {
            RdmaOffer::decode(text)
                .map_err(|error| (error.code, error.message))
                .expect_err("no offer")
        };
        let mut other = text.clone();
        other.replace_range(14..16, "09");
        assert_eq!(said(&other).0, ErrorCode::RdmaVersion);
        assert!(said(&other).1.contains("version 9"));
        for (text, why) in [
            ("zz", "hexadecimal"),
            (&text[..41], "hexadecimal"),
            (&text[..40], "no greeting"),
            (&text[..text.len() - 2], "fits no number"),
            (&text[..text.len() - 12], "fits no number"),
            (&format!("{text}00"), "fits no number"),
            (&format!("{text}10"), "16 RDMA READs"),
            ("", "no greeting"),
        ] {
            let (code, message) = said(text);
            assert!(code == ErrorCode::RdmaBroken && message.contains(why), "{why}: {message}");
        }
    }

    #[test]
    fn ends_are_told_why_or_use_the_smaller_packet() {
        let own = address(2);
        let why = |theirs: QpAddress| {
            let error = own.packets_to(&theirs).expect_err("they cannot be connected");
            assert!(error.hint.is_some(), "{error}");
            error.code
        };
        assert_eq!(own.packets_to(&QpAddress { mtu: 1024, ..address(2) }), Ok(1024));
        assert_eq!(QpAddress { mtu: 512, ..address(2) }.packets_to(&own), Ok(512));
        assert_eq!(why(address(3)), ErrorCode::RdmaBroken);
        assert_eq!(why(QpAddress { reads: 4, ..address(2) }), ErrorCode::RdmaBroken);
        assert_eq!(why(QpAddress { mtu: 1500, ..address(2) }), ErrorCode::RdmaBroken);
        assert_eq!(why(QpAddress { mtu: 8192, ..address(2) }), ErrorCode::RdmaBroken);
        assert_eq!(why(QpAddress { lid: 7, ..address(2) }), ErrorCode::RdmaFabric);
        assert_eq!(why(QpAddress { gid: [0; 16], ..address(2) }), ErrorCode::RdmaGid);
        assert_eq!(why(QpAddress { gid: [0xff; 16], ..address(2) }), ErrorCode::RdmaGid);
        let mut own_number = address(2);
        own_number.pairs[1].number = 1;
        assert_eq!(why(own_number), ErrorCode::RdmaBroken);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in ".{0,400}", bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = (RdmaOffer::decode(&text), Acceptance::decode(&text));
            if let Ok(offer) = RdmaOffer::decode(&hex(&bytes)) {
                prop_assert_eq!(offer.address.pairs.len(), usize::from(offer.greeting.queue_pairs));
            }
            let _ = Acceptance::decode(&hex(&bytes));
        }
    }
}

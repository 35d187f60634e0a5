//! What the two ends of a test say to each other next to its frames: requests of the sender's and
//! answers that are never longer.
//!
//! A message is a byte that no load frame begins with, a version, a CRC-32C and an object of JSON,
//! and behind that as many spaces as make a request as long as any answer to it.

use super::loss_sequence::LossEntry;
use super::open_losses::SettledFrames;
use super::tally::{SecondRow, TallyTotals};
use crc_fast::crc32_iscsi;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The first byte of every message; three of its bits differ from a load frame's.
pub const MESSAGE_KIND: u8 = 0xfa;
/// The second: which version of all of this it is.
const VERSION: u8 = 1;
const HEAD: usize = 6;
/// Bytes of every request: they pass any path of IPv6.
const REQUEST: usize = 1_200;

/// What the sender asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LineRequest {
    /// A cookie, which shows that the sender is where it says.
    Hello {
        /// Comes back with the answer, as those below.
        nonce: u64,
    },
    /// A test, or one that goes on from another address.
    Begin {
        /// Of this request.
        nonce: u64,
        /// As it was answered to Hello.
        cookie: u64,
        /// The test's number, drawn by the sender; only the two ends know it.
        session: u64,
        /// Bits that will be sent a second, on the wire.
        rate_bps: u64,
        /// Microseconds since the test began: above 0 where it goes on.
        at_us: u64,
    },
    /// What came in the seconds from `since` on.
    Rows {
        /// Of this request.
        nonce: u64,
        /// The test's number.
        session: u64,
        /// The first second.
        since: u64,
    },
    /// What came in all.
    Totals {
        /// Of this request.
        nonce: u64,
        /// The test's number.
        session: u64,
        /// How many frames were sent, once that is all.
        sent: Option<u64>,
        /// Which of them count.
        #[serde(default)]
        settled: SettledFrames,
    },
    /// The latest losses from number `since` on.
    Losses {
        /// Of this request.
        nonce: u64,
        /// The test's number.
        session: u64,
        /// The first.
        since: u64,
        /// How many frames were sent, once that is all.
        sent: Option<u64>,
    },
    /// The test is over.
    End {
        /// Of this request.
        nonce: u64,
        /// The test's number.
        session: u64,
    },
}

/// What the receiver answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LineAnswer {
    /// To Hello.
    Cookie {
        /// Of the request.
        nonce: u64,
        /// To be sent with Begin, from the same address.
        cookie: u64,
    },
    /// To Begin: frames are counted from now on.
    Begun {
        /// Of the request.
        nonce: u64,
        /// Which run of the receiver this is: another after it was killed.
        instance: u64,
        /// Which clock it reads: that of a machine since it booted.
        boot: u64,
        /// Whether its clock is synchronised.
        is_synchronised: bool,
        /// How far off that may be.
        clock_error_ns: u64,
    },
    /// To Begin: not so.
    Refused {
        /// Of the request.
        nonce: u64,
        /// The most that may be sent, in bits a second, where that is why.
        most_bps: Option<u64>,
    },
    /// To whatever is of a test that the receiver does not know.
    Unknown {
        /// Of the request.
        nonce: u64,
    },
    /// To Rows.
    Rows {
        /// Of the request.
        nonce: u64,
        /// The rows, as many as have room.
        rows: Vec<SecondRow>,
        /// Whether there are more.
        is_more: bool,
        /// The second of the last frame that came, where the receiver has dropped packets since: of
        /// those behind it nothing is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dropping_since: Option<u64>,
    },
    /// To Totals.
    Totals {
        /// Of the request.
        nonce: u64,
        /// Below which number it knows which frames count.
        #[serde(default)]
        settled: u64,
        /// Everything that came.
        totals: Box<TallyTotals>,
    },
    /// To Losses.
    Losses {
        /// Of the request.
        nonce: u64,
        /// The number of the first of these.
        first: u64,
        /// Losses in their order, as many as have room.
        entries: Vec<LossEntry>,
        /// Whether there are more.
        is_more: bool,
    },
    /// To End.
    Ended {
        /// Of the request.
        nonce: u64,
    },
}

impl LineAnswer {
    /// Which request it is to.
    pub fn nonce(&self) -> u64 {
        match self {
            LineAnswer::Cookie { nonce, .. }
            | LineAnswer::Begun { nonce, .. }
            | LineAnswer::Refused { nonce, .. }
            | LineAnswer::Unknown { nonce }
            | LineAnswer::Rows { nonce, .. }
            | LineAnswer::Totals { nonce, .. }
            | LineAnswer::Losses { nonce, .. }
            | LineAnswer::Ended { nonce } => *nonce,
        }
    }

    /// Its bytes as an answer to a request of `most` bytes; rows and losses that have no room are
    /// left to the next. `None` where it would be longer than what it answers.
    pub fn fitting(mut self, most: usize) -> Option<Vec<u8>> {
        loop {
            let bytes = write_message(&self, 0);
            if bytes.len() <= most {
                return Some(bytes);
            }
            *match &mut self {
                LineAnswer::Rows { rows, is_more, .. } => rows.pop().map(|_| is_more),
                LineAnswer::Losses { entries, is_more, .. } => entries.pop().map(|_| is_more),
                _ => None,
            }? = true;
        }
    }
}

impl LineRequest {
    /// Its bytes, of which there are as many as any answer has.
    pub fn bytes(&self) -> Vec<u8> {
        write_message(self, REQUEST)
    }
}

/// The bytes of a message, `least` at least.
pub fn write_message(message: &impl Serialize, least: usize) -> Vec<u8> {
    // What is made of numbers and lists can always be written.
    let json = serde_json::to_vec(message).unwrap_or_default();
    let mut bytes = vec![MESSAGE_KIND, VERSION];
    bytes.extend_from_slice(&crc32_iscsi(&json).to_be_bytes());
    bytes.extend_from_slice(&json);
    if bytes.len() < least {
        bytes.resize(least, b' ');
    }
    bytes
}

/// Reads a message; `None` for what is none, or has a wrong bit.
pub fn read_message<M: DeserializeOwned>(bytes: &[u8]) -> Option<M> {
    if bytes.first_chunk() != Some(&[MESSAGE_KIND, VERSION]) {
        return None;
    }
    let sum: [u8; 4] = bytes.get(2..HEAD)?.try_into().ok()?;
    let json = bytes[HEAD..].trim_ascii_end();
    if crc32_iscsi(json) != u32::from_be_bytes(sum) {
        return None;
    }
    serde_json::from_slice(json).ok()
}

#[cfg(test)]
mod tests {
    use super::super::receive_drops::ReceiveDrops;
    use super::super::way::FrameWay;
    use super::*;

    #[test]
    fn messages_are_read_back_and_damaged_ones_not() {
        let request = LineRequest::Rows { nonce: 1, session: u64::MAX, since: 3 };
        let mut bytes = request.bytes();
        assert_eq!(bytes.len(), REQUEST);
        assert_eq!(read_message(&bytes), Some(request));
        bytes[20] ^= 1;
        assert_eq!(read_message::<LineRequest>(&bytes), None);
        for len in 0..HEAD {
            assert_eq!(read_message::<LineRequest>(&bytes[..len]), None);
        }
    }

    #[test]
    fn no_answer_is_longer_than_its_request() {
        let row = SecondRow {
            second: u64::MAX,
            received: u64::MAX,
            wrong_frames: u64::MAX,
            wrong_bits: u64::MAX,
            compared_bits: u64::MAX,
            duplicates: u64::MAX,
            reordered: u64::MAX,
            has_own_drops: true,
        };
        let rows = vec![row; 64];
        let dropping_since = Some(u64::MAX);
        let rows = LineAnswer::Rows { nonce: u64::MAX, rows, is_more: false, dropping_since };
        let bytes = rows.fitting(REQUEST).expect("some have room");
        assert!(bytes.len() <= REQUEST);
        match read_message(&bytes) {
            Some(LineAnswer::Rows { rows, is_more, .. }) => {
                assert!(is_more && rows.len() >= 3, "{}", rows.len())
            }
            other => panic!("{other:?}"),
        }
        let mut totals = TallyTotals::default();
        totals.runs.by_length = vec![1 << 40; 24];
        totals.runs.by_distance = vec![1 << 30; 24];
        (totals.received, totals.next) = (1 << 45, 1 << 45);
        totals.way = Some(FrameWay::PacketRing);
        let drops = 1 << 45;
        totals.device_drops = Some(ReceiveDrops { missed: drops, dropped: drops, backlog: drops });
        let totals = Box::new(totals);
        let answer = LineAnswer::Totals { nonce: u64::MAX, settled: 1 << 45, totals };
        assert!(answer.fitting(REQUEST).is_some());
        let entries = vec![(u64::MAX, u64::MAX); 256];
        let losses = LineAnswer::Losses { nonce: 1, first: u64::MAX, entries, is_more: false };
        let bytes = losses.fitting(REQUEST).expect("some have room");
        match read_message(&bytes) {
            Some(LineAnswer::Losses { entries, is_more, .. }) => {
                assert!(bytes.len() <= REQUEST && is_more && entries.len() >= 20, "{entries:?}")
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(LineAnswer::Ended { nonce: 1 }.fitting(10), None, "a short request gets none");
    }

    #[test]
    fn as_many_ranges_as_are_asked_have_room() {
        let mut settled = SettledFrames::default();
        for n in 1..100 {
            settled.settle(u64::MAX - 1_000 + n, n % 2 == 0);
        }
        let settled = settled.question();
        let (nonce, session, sent) = (u64::MAX, u64::MAX, Some(u64::MAX));
        let request = LineRequest::Totals { nonce, session, sent, settled };
        assert_eq!(request.bytes().len(), REQUEST, "a longer one passes no path of IPv6");
        assert_eq!(read_message(&request.bytes()), Some(request));
        // An end of a version before says nothing of all that.
        let json = r#"{"totals":{"nonce":1,"session":2,"sent":null}}"#;
        let settled = SettledFrames::default();
        let before = LineRequest::Totals { nonce: 1, session: 2, sent: None, settled };
        assert_eq!(serde_json::from_str::<LineRequest>(json).ok(), Some(before));
    }
}

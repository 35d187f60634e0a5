//! What the ends of a channel SEND each other: credits, announced blocks, end-of-data marks.

use super::{Placement, Violation};

/// The longest MODE E header that a record carries: a checked one.
pub const HEADER_LEN_MOST: usize = 57;
/// Credits in one record.
const MOST_IN_RECORD: usize = 12;
/// Blocks that one record says are read.
const MOST_DONE: usize = 60;
const CREDIT_LEN: usize = 20;

/// An advertised slot: the right to write once into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    /// Its number, which no other slot of the channel had before (but 2^32 ago).
    pub number: u32,
    /// The remote key of its memory.
    pub key: u32,
    /// Its address at the receiver.
    pub address: u64,
    /// Its length in bytes.
    pub len: u32,
}

/// The MODE E header of a block or a mark, as bytes that the channel does not look into.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RecordHeader {
    bytes: [u8; HEADER_LEN_MOST],
    len: u8,
}

impl RecordHeader {
    /// Takes `bytes`; `None` when they are too many.
    pub fn new(bytes: &[u8]) -> Option<RecordHeader> {
        let mut header =
            RecordHeader { bytes: [0; HEADER_LEN_MOST], len: u8::try_from(bytes.len()).ok()? };
        header.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(header)
    }

    /// The header's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl std::fmt::Debug for RecordHeader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_bytes().fmt(f)
    }
}

/// A block that is on its way, or in its slot already where [`Placement::Behind`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The credit that it uses.
    pub credit: u32,
    /// Its length in bytes.
    pub len: u32,
    /// Its header.
    pub header: RecordHeader,
}

/// Where a block lies that is to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockSource {
    /// The remote key of its memory.
    pub key: u32,
    /// Its address at the sender.
    pub address: u64,
}

/// One message of the control kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Slots that may be written to, in the numbered transfer of this channel. Empty, it is the
    /// first word of who connected.
    Credits {
        /// Counts the end-of-data marks that came before.
        transfer: u32,
        /// The slots: 12 at most.
        credits: Vec<Credit>,
    },
    /// A block.
    Block(Announcement),
    /// A block that the receiver may read: [`Placement::Read`].
    Filled(Announcement, BlockSource),
    /// Blocks of the other direction that were read, by their credits: 60 at most. Their slots are
    /// the sender's again.
    Done(Vec<u32>),
    /// No block follows in this transfer.
    Mark {
        /// The credit that it uses, whose slot stays empty.
        credit: u32,
        /// How many blocks went before it: those on other queue pairs may come later than it.
        blocks: u64,
        /// Its header: `EOD` or `EOF`.
        header: RecordHeader,
    },
}

impl Record {
    /// The longest record in bytes.
    pub const LEN_MOST: usize = 8 + MOST_IN_RECORD * CREDIT_LEN;

    /// Bytes of the buffer that a record is sent from or received into.
    pub const BUFFER_LEN: usize = Self::LEN_MOST.next_multiple_of(64);

    /// How many credits go into one record.
    pub const CREDITS_MOST: usize = MOST_IN_RECORD;

    /// How many blocks one record says are read.
    pub const DONE_MOST: usize = MOST_DONE;

    /// The bytes of the message.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::LEN_MOST);
        match self {
            Record::Credits { transfer, credits } => {
                bytes.extend([1, credits.len() as u8, 0, 0]);
                bytes.extend(transfer.to_be_bytes());
                for credit in credits {
                    bytes.extend(credit.number.to_be_bytes());
                    bytes.extend(credit.key.to_be_bytes());
                    bytes.extend(credit.address.to_be_bytes());
                    bytes.extend(credit.len.to_be_bytes());
                }
            }
            Record::Block(Announcement { credit, len, header }) => {
                bytes.extend([2, header.len, 0, 0]);
                bytes.extend(credit.to_be_bytes());
                bytes.extend(len.to_be_bytes());
                bytes.extend(header.as_bytes());
            }
            Record::Filled(Announcement { credit, len, header }, BlockSource { key, address }) => {
                bytes.extend([4, header.len, 0, 0]);
                bytes.extend(credit.to_be_bytes());
                bytes.extend(len.to_be_bytes());
                bytes.extend(key.to_be_bytes());
                bytes.extend(address.to_be_bytes());
                bytes.extend(header.as_bytes());
            }
            Record::Done(credits) => {
                bytes.extend([5, credits.len() as u8, 0, 0]);
                bytes.extend(credits.iter().flat_map(|credit| credit.to_be_bytes()));
            }
            Record::Mark { credit, blocks, header } => {
                bytes.extend([3, header.len, 0, 0]);
                bytes.extend(credit.to_be_bytes());
                bytes.extend(blocks.to_be_bytes());
                bytes.extend(header.as_bytes());
            }
        }
        bytes
    }

    /// Reads a message.
    ///
    /// # Errors
    /// When it is none.
    pub fn decode(bytes: &[u8]) -> Result<Record, Violation> {
        let mut rest = Rest(bytes);
        let [kind, count, 0, 0] = rest.take()? else { return Err(Violation::NoRecord) };
        let record = match kind {
            1 => {
                if usize::from(count) > MOST_IN_RECORD {
                    return Err(Violation::NoRecord);
                }
                let transfer = rest.u32()?;
                let credit = |rest: &mut Rest<'_>| {
                    Ok(Credit {
                        number: rest.u32()?,
                        key: rest.u32()?,
                        address: rest.u64()?,
                        len: rest.u32()?,
                    })
                };
                let credits: Result<Vec<_>, Violation> =
                    (0..count).map(|_| credit(&mut rest)).collect();
                Record::Credits { transfer, credits: credits? }
            }
            2 => Record::Block(Announcement {
                credit: rest.u32()?,
                len: rest.u32()?,
                header: rest.header(count)?,
            }),
            3 => Record::Mark {
                credit: rest.u32()?,
                blocks: rest.u64()?,
                header: rest.header(count)?,
            },
            4 => {
                let (credit, len) = (rest.u32()?, rest.u32()?);
                let source = BlockSource { key: rest.u32()?, address: rest.u64()? };
                Record::Filled(Announcement { credit, len, header: rest.header(count)? }, source)
            }
            5 if (1..=MOST_DONE).contains(&usize::from(count)) => {
                let credits: Result<Vec<_>, Violation> = (0..count).map(|_| rest.u32()).collect();
                Record::Done(credits?)
            }
            _ => return Err(Violation::NoRecord),
        };
        if rest.0.is_empty() { Ok(record) } else { Err(Violation::NoRecord) }
    }
}

/// What is left of a message being read.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Violation> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Violation::NoRecord)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u32(&mut self) -> Result<u32, Violation> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64, Violation> {
        self.take().map(u64::from_be_bytes)
    }

    fn header(&mut self, len: u8) -> Result<RecordHeader, Violation> {
        let (header, rest) =
            self.0.split_at_checked(usize::from(len)).ok_or(Violation::NoRecord)?;
        self.0 = rest;
        RecordHeader::new(header).ok_or(Violation::NoRecord)
    }
}

impl Placement {
    /// How blocks are placed between devices of this kind, by RDMA READ or else by RDMA WRITE.
    pub fn between(is_iwarp: bool, read: bool) -> Placement {
        match (read, is_iwarp) {
            (true, _) => Placement::Read,
            (false, true) => Placement::Behind,
            (false, false) => Placement::Immediate,
        }
    }

    /// Whether devices of this kind can place blocks so.
    pub fn fits(self, is_iwarp: bool) -> bool {
        self == Placement::Read || self == Placement::between(is_iwarp, false)
    }

    /// Its byte in a [`RdmaGreeting`](super::RdmaGreeting).
    pub(super) fn byte(self) -> u8 {
        match self {
            Placement::Immediate => 1,
            Placement::Behind => 2,
            Placement::Read => 3,
        }
    }

    pub(super) fn of_byte(byte: u8) -> Option<Placement> {
        [Placement::Immediate, Placement::Behind, Placement::Read]
            .into_iter()
            .find(|placement| placement.byte() == byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn credit() -> impl Strategy<Value = Credit> {
        any::<(u32, u32, u64, u32)>().prop_map(|(number, key, address, len)| Credit {
            number,
            key,
            address,
            len,
        })
    }

    proptest! {
        #[test]
        fn a_record_reads_as_it_was_written(
            transfer in any::<u32>(),
            credits in prop::collection::vec(credit(), 0..=Record::CREDITS_MOST),
            header in prop::collection::vec(any::<u8>(), 0..=HEADER_LEN_MOST),
            (credit, len, blocks) in any::<(u32, u32, u64)>(),
            done in prop::collection::vec(any::<u32>(), 1..=Record::DONE_MOST),
        ) {
            let header = RecordHeader::new(&header).expect("short enough");
            for record in [
                Record::Credits { transfer, credits },
                Record::Block(Announcement { credit, len, header }),
                Record::Filled(Announcement { credit, len, header }, BlockSource { key: len, address: blocks }),
                Record::Done(done),
                Record::Mark { credit, blocks, header },
            ] {
                let bytes = record.encode();
                prop_assert!(bytes.len() <= Record::LEN_MOST);
                prop_assert_eq!(Record::decode(&bytes), Ok(record));
                prop_assert_eq!(Record::decode(&bytes[..bytes.len() - 1]), Err(Violation::NoRecord));
            }
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(record) = Record::decode(&bytes) {
                prop_assert_eq!(record.encode(), bytes);
            }
        }
    }
}

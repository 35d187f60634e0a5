//! The 17-byte block header of extended block mode (MODE E).
//!
//! GFD.20 section 4.1: one descriptor byte, a 64-bit count and a 64-bit offset, big-endian; `count`
//! bytes of payload follow on the same channel. The header is all this module touches: payload goes
//! from the channel straight into its slot.
//!
//! ```
//! use farline_core::gridftp::mode_e::Header;
//!
//! let header = Header::data(1 << 20, 4096);
//! assert_eq!(Header::decode(&header.encode()), Ok(header));
//! ```

use std::fmt;

/// Length of an encoded header in bytes.
pub const HEADER_LEN: usize = 17;

/// The descriptor bits of a block.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Flags(u8);

impl Flags {
    /// End of record; MODE E files have no records, so it is accepted and means nothing.
    pub const EOR: Flags = Flags(0x80);
    /// This header's offset is the number of EODs of the transfer.
    pub const EOF: Flags = Flags(0x40);
    /// The sender suspects errors in this block.
    pub const ERROR: Flags = Flags(0x20);
    /// The payload is a restart marker, not file data.
    pub const RESTART: Flags = Flags(0x10);
    /// Nothing follows on this channel in this transfer.
    pub const EOD: Flags = Flags(0x08);
    /// The sender closes this channel after this block; without it the channel stays open for the
    /// next transfer.
    pub const CLOSE: Flags = Flags(0x04);

    /// The flags of a descriptor byte. The two lowest bits are undefined, and kept.
    pub const fn from_bits(bits: u8) -> Flags {
        Flags(bits)
    }

    /// The descriptor byte.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether every flag of `other` is set.
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// The flags of both.
    #[must_use]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#04x}", self.0)
    }
}

/// The header of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// What the block is.
    pub flags: Flags,
    /// Bytes of payload that follow.
    pub count: u64,
    /// Where the payload belongs, from the start of the file or of the part (`ERET P`, `ESTO A`);
    /// with [`Flags::EOF`], the number of EODs to expect.
    pub offset: u64,
}

impl Header {
    /// A block of `count` bytes that belongs at `offset`.
    pub const fn data(offset: u64, count: u64) -> Header {
        Header { flags: Flags(0), count, offset }
    }

    /// The end of the file: the receiver is done after `eods_expected` EODs. Sent once per transfer
    /// and stripe.
    pub const fn eof(eods_expected: u64) -> Header {
        Header { flags: Flags::EOF, count: 0, offset: eods_expected }
    }

    /// The end of the data on one channel, which stays open for the next transfer.
    pub const fn eod() -> Header {
        Header { flags: Flags::EOD, count: 0, offset: 0 }
    }

    /// The end of the data on one channel, which the sender then closes.
    pub const fn close() -> Header {
        Header { flags: Flags::EOD.with(Flags::CLOSE), count: 0, offset: 0 }
    }

    /// The same header with `flags` added: EOF, EOD and CLOSE may share one block.
    #[must_use]
    pub const fn with(self, flags: Flags) -> Header {
        Header { flags: self.flags.with(flags), ..self }
    }

    /// The bytes on the wire.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[0] = self.flags.bits();
        bytes[1..9].copy_from_slice(&self.count.to_be_bytes());
        bytes[9..17].copy_from_slice(&self.offset.to_be_bytes());
        bytes
    }

    /// Reads a header.
    ///
    /// # Errors
    /// When the block would end beyond the last 64-bit offset, or an EOF block carries payload: its
    /// offset field is taken, so the payload would have no place.
    pub fn decode(bytes: &[u8; HEADER_LEN]) -> Result<Header, HeaderError> {
        let field = |at: usize| {
            let mut value = [0; 8];
            value.copy_from_slice(&bytes[at..at + 8]);
            u64::from_be_bytes(value)
        };
        let header = Header { flags: Flags(bytes[0]), count: field(1), offset: field(9) };
        if header.flags.contains(Flags::EOF) {
            // GFD.20 4.1 leaves the count of an EOF block unused: senders put zero there.
            return if header.count == 0 {
                Ok(header)
            } else {
                Err(HeaderError::EofWithPayload { count: header.count })
            };
        }
        match header.offset.checked_add(header.count) {
            Some(_) => Ok(header),
            None => {
                Err(HeaderError::BeyondLastOffset { offset: header.offset, count: header.count })
            }
        }
    }

    /// Whether the payload, if any, is file data.
    pub const fn is_data(&self) -> bool {
        self.count > 0 && !self.flags.contains(Flags::RESTART)
    }
}

/// A header no sender should write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderError {
    /// `offset + count` does not fit 64 bits.
    BeyondLastOffset {
        /// The header's offset.
        offset: u64,
        /// The header's count.
        count: u64,
    },
    /// An EOF block with a count.
    EofWithPayload {
        /// The header's count.
        count: u64,
    },
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeaderError::BeyondLastOffset { offset, count } => {
                write!(
                    f,
                    "a MODE E block of {count} bytes at offset {offset} ends beyond the last \
                     64-bit offset"
                )
            }
            HeaderError::EofWithPayload { count } => {
                write!(f, "a MODE E EOF block claims {count} bytes of payload")
            }
        }
    }
}

impl std::error::Error for HeaderError {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn headers_match_the_bytes_of_the_globus_server() {
        // Two streams, globus-gridftp-server 13.24: `08 0 0` on one channel, `48 0 2` on the other.
        let mut eod = [0; 17];
        eod[0] = 0x08;
        assert_eq!(Header::decode(&eod), Ok(Header::eod()));
        let mut eof = [0; 17];
        (eof[0], eof[16]) = (0x48, 2);
        assert_eq!(Header::decode(&eof), Ok(Header::eof(2).with(Flags::EOD)));
        assert_eq!(
            Header::data(0x0102, 0x40000).encode(),
            [0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]
        );
    }

    #[test]
    fn impossible_blocks_are_refused() {
        let beyond = Header::data(u64::MAX, 2);
        assert_eq!(
            Header::decode(&beyond.encode()),
            Err(HeaderError::BeyondLastOffset { offset: u64::MAX, count: 2 })
        );
        let eof = Header { count: 1, ..Header::eof(3) };
        assert_eq!(Header::decode(&eof.encode()), Err(HeaderError::EofWithPayload { count: 1 }));
    }

    proptest! {
        #[test]
        fn any_bytes_decode_without_panic_and_encode_back(bytes in any::<[u8; 17]>()) {
            if let Ok(header) = Header::decode(&bytes) {
                prop_assert_eq!(header.encode(), bytes);
            }
        }
    }
}

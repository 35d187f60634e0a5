//! The 57-byte header of a checked block: MODE E's, with CRC32C of payload and header and a digest
//! of the block.
//!
//! `docs/protocol.md`, clauses I-1 to I-4. A receiver reads one header of fixed length before each
//! payload and can tell a header that is damaged (its channel is of no more use) from a payload
//! that is (the block is sent again).
//!
//! ```
//! use farline_core::gridftp::checked::{Check, decode, encode};
//! use farline_core::gridftp::mode_e::Header;
//!
//! let payload = b"some bytes";
//! let check = Check::of(payload, [7; 32]);
//! let wire = encode(&Header::data(0, payload.len() as u64), &check);
//! let (header, check) = decode(&wire)?;
//! assert!(header.count == 10 && check.fits(payload) && !check.fits(b"other bytes"));
//! # Ok::<(), farline_core::gridftp::checked::DamagedHeader>(())
//! ```

mod zeros;

use super::mode_e::{Flags, HEADER_LEN, Header};
use crc_fast::crc32_iscsi;
use std::fmt;

/// Length of an encoded checked header in bytes.
pub const CHECKED_LEN: usize = HEADER_LEN + 4 + 32 + 4;
const PAYLOAD_AT: usize = HEADER_LEN;
const DIGEST_AT: usize = PAYLOAD_AT + 4;
const HEADER_SUM_AT: usize = DIGEST_AT + 32;

/// The flag of a block of nothing but zeros, which are not sent (clause Z-2). Only checked headers
/// have it: GFD.20 leaves the bit undefined.
pub const ZEROS: Flags = Flags::from_bits(0x02);

/// Whether a block may go as [`ZEROS`]; one with a byte of another value in its first page is told
/// at once.
pub fn is_zeros(block: &[u8]) -> bool {
    // Each byte is the one before it, and the first is zero: one comparison of memory, which ends
    // at the first that differs.
    block.first() == Some(&0) && block[1..] == block[..block.len() - 1]
}

/// What a sender says of a block besides where it belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// The CRC32C of the payload.
    pub payload: u32,
    /// The block's digest (clause I-3); zeros when the sender vouches for nothing.
    pub digest: [u8; 32],
}

impl Check {
    /// The check of `payload`, whose block digest is `digest`.
    pub fn of(payload: &[u8], digest: [u8; 32]) -> Check {
        Check { payload: crc32_iscsi(payload), digest }
    }

    /// That of a block whose digest is a checksum of its payload itself, so that another would say
    /// nothing more (clause I-5).
    pub fn by_digest(digest: [u8; 32]) -> Check {
        Check { payload: 0, digest }
    }

    /// Whether `payload` has the checksum.
    pub fn fits(&self, payload: &[u8]) -> bool {
        self.payload == crc32_iscsi(payload)
    }

    /// The check of so many zeros, none of which is looked at.
    pub fn of_zeros(len: u64, digest: [u8; 32]) -> Check {
        Check { payload: zeros::crc32c_of_zeros(len), digest }
    }

    /// Whether so many zeros have the checksum; none of them is looked at.
    pub fn fits_zeros(&self, len: u64) -> bool {
        self.payload == zeros::crc32c_of_zeros(len)
    }

    /// The block's digest, where the sender gave one.
    pub fn digest(&self) -> Option<&[u8; 32]> {
        (self.digest != [0; 32]).then_some(&self.digest)
    }
}

/// The bytes on the wire.
pub fn encode(header: &Header, check: &Check) -> [u8; CHECKED_LEN] {
    let mut bytes = [0; CHECKED_LEN];
    bytes[..HEADER_LEN].copy_from_slice(&header.encode());
    bytes[PAYLOAD_AT..DIGEST_AT].copy_from_slice(&check.payload.to_be_bytes());
    bytes[DIGEST_AT..HEADER_SUM_AT].copy_from_slice(&check.digest);
    let sum = crc32_iscsi(&bytes[..HEADER_SUM_AT]);
    bytes[HEADER_SUM_AT..].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// Reads a checked header.
///
/// # Errors
/// When its own checksum fails, or it passes and what it says is impossible.
pub fn decode(bytes: &[u8; CHECKED_LEN]) -> Result<(Header, Check), DamagedHeader> {
    let number = |at: usize| {
        bytes[at..at + 4].iter().fold(0u32, |number, &byte| number << 8 | u32::from(byte))
    };
    if number(HEADER_SUM_AT) != crc32_iscsi(&bytes[..HEADER_SUM_AT]) {
        return Err(DamagedHeader);
    }
    let (mut plain, mut digest) = ([0; HEADER_LEN], [0; 32]);
    plain.copy_from_slice(&bytes[..HEADER_LEN]);
    digest.copy_from_slice(&bytes[DIGEST_AT..HEADER_SUM_AT]);
    let header = Header::decode(&plain).map_err(|_| DamagedHeader)?;
    Ok((header, Check { payload: number(PAYLOAD_AT), digest }))
}

/// A header that did not arrive as it was sent: nothing behind it on its channel can be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamagedHeader;

impl fmt::Display for DamagedHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the checksum of a block's header fails")
    }
}

impl std::error::Error for DamagedHeader {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_checksum_is_castagnolis() {
        // RFC 3720, appendix B.4: 32 bytes of zeros, of ones, ascending.
        for (bytes, sum) in [([0u8; 32], 0x8A91_36AA), ([0xFF; 32], 0x62A8_AB43)] {
            assert_eq!(Check::of(&bytes, [0; 32]).payload, sum);
        }
        let ascending: Vec<u8> = (0..32).collect();
        assert_eq!(Check::of(&ascending, [0; 32]).payload, 0x46DD_794E);
    }

    #[test]
    fn zeros_are_told_from_blocks_with_one_other_byte_anywhere() {
        let mut block = vec![0; 4099];
        assert!(is_zeros(&block) && is_zeros(&[0]) && !is_zeros(&[]) && !is_zeros(&[1]));
        for at in [0, 1, 63, 64, 4095, 4098] {
            block[at] = 0x80;
            assert!(!is_zeros(&block), "at {at}");
            block[at] = 0;
        }
    }

    proptest! {
        #[test]
        fn one_flipped_bit_of_a_header_is_always_found(count in 0u64..1 << 40, offset in 0u64..1 << 40, bit in 0..CHECKED_LEN * 8) {
            let (header, check) = (Header::data(offset, count), Check::of(b"x", [3; 32]));
            let mut wire = encode(&header, &check);
            prop_assert_eq!(decode(&wire), Ok((header, check)));
            wire[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(decode(&wire), Err(DamagedHeader));
        }

        #[test]
        fn any_bytes_decode_without_panic(bytes in prop::collection::vec(any::<u8>(), CHECKED_LEN)) {
            let mut wire = [0; CHECKED_LEN];
            wire.copy_from_slice(&bytes);
            let _ = decode(&wire);
        }
    }
}

//! CRC32C of any number of zeros, without a look at them.
//!
//! A zero behind a message multiplies its remainder by x^8 modulo the polynomial, so that any
//! number of them is one power (M. Adler, zlib 1.3, `crc32_combine_op`).

use crate::units::CrcPolynomial;

/// Castagnoli's (RFC 3720, section 12.1).
static CASTAGNOLI: CrcPolynomial = CrcPolynomial::new(0x82f6_3b78, 32);

/// The CRC32C of `count` zeros.
pub(super) fn crc32c_of_zeros(count: u64) -> u32 {
    // The word before the first byte and behind the last is all ones.
    !(CASTAGNOLI.times(u64::from(u32::MAX), CASTAGNOLI.power_of_bytes(count)) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Rng;
    use crc_fast::{CrcAlgorithm, checksum_combine, crc32_iscsi};

    #[test]
    fn zeros_have_the_checksum_that_a_look_at_them_gives() {
        // RFC 3720, appendix B.4.
        assert_eq!(crc32c_of_zeros(32), 0x8a91_36aa);
        let (mut rng, zeros) = (Rng::new(5), vec![0; 1 << 20]);
        let random = (0..200).map(|_| rng.below(1 << 20) as usize);
        for len in (0..=70).chain([4095, 4096, 1 << 20]).chain(random) {
            assert_eq!(crc32c_of_zeros(len as u64), crc32_iscsi(&zeros[..len]), "{len} zeros");
        }
    }

    #[test]
    fn more_zeros_than_anybody_could_look_at_have_theirs() {
        // By doubling, with the library's way to join.
        let (mut sum, mut len) = (u64::from(crc32_iscsi(&[0])), 1_u64);
        while len < 1 << 62 {
            sum = checksum_combine(CrcAlgorithm::Crc32Iscsi, sum, sum, len);
            len *= 2;
            assert_eq!(u64::from(crc32c_of_zeros(len)), sum, "{len} zeros");
        }
    }
}

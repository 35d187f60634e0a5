//! CRC-64/NVME of files whose blocks arrive in any order.
//!
//! The CRC of a file is the sum over its blocks of each one's CRC times x to the power of the bits
//! behind it, modulo the polynomial: with the same word before the first byte and behind the last,
//! those cancel out (M. Adler, zlib 1.3, `crc32_combine_op`). So a block is added when it comes,
//! and which were added is all there is to remember.

use crate::transfer::layout::Layout;
use crate::units::{ByteRanges, CrcPolynomial};
use crc_fast::{CrcAlgorithm, checksum};
use std::ops::Range;

/// The polynomial of CRC-64/NVME (NVM Express, NVM Command Set Specification 1.0, figure 122).
static NVME: CrcPolynomial = CrcPolynomial::new(0x9a6c_9329_ac4b_c9b5, 64);

/// The CRC of `bytes`.
pub(super) fn crc(bytes: &[u8]) -> u64 {
    checksum(CrcAlgorithm::Crc64Nvme, bytes)
}

/// The CRC of what has the CRC `before` (of nothing: 0) and `bytes` behind it.
pub fn crc64_with(before: u64, bytes: &[u8]) -> u64 {
    joined(&[(0, before), (bytes.len() as u64, crc(bytes))])
}

/// The CRC of what has the CRC `before` and so many zeros behind it, none of which is looked at.
pub fn crc64_with_zeros(before: u64, count: u64) -> u64 {
    // The word before the first byte and behind the last is all ones.
    !NVME.times(!before, NVME.power_of_bytes(count))
}

/// The CRC of pieces that lie one behind the other, by the length and the CRC of each.
pub(super) fn joined(pieces: &[(u64, u64)]) -> u64 {
    pieces.iter().fold(0, |before, &(len, crc)| NVME.times(before, NVME.power_of_bytes(len)) ^ crc)
}

/// The blocks of one file that were added, and their sum.
#[derive(Debug)]
pub(super) struct Sum {
    crc: u64,
    /// Block numbers.
    added: ByteRanges,
    len: u64,
    block_len: u64,
}

impl Sum {
    /// No block of a file of `len` bytes in `layout`.
    pub(super) fn new(layout: &Layout, len: u64) -> Sum {
        Sum { crc: 0, added: ByteRanges::new(), len, block_len: layout.block_len() as u64 }
    }

    /// Adds the blocks numbered `range` by the CRC of their bytes together; returns the file's CRC
    /// once every block is there. What is there already in part changes nothing.
    pub(super) fn add(&mut self, range: Range<u64>, crc: u64) -> Option<u64> {
        let blocks = self.len.div_ceil(self.block_len);
        if range.end <= blocks && self.lacks(range.clone()) {
            let behind = self.len.saturating_sub(range.end.saturating_mul(self.block_len));
            self.crc ^= NVME.times(crc, NVME.power_of_bytes(behind));
            self.added.insert(range);
        }
        (self.added.total() == blocks).then_some(self.crc)
    }

    /// Whether none of the blocks numbered `range` was added.
    pub(super) fn lacks(&self, range: Range<u64>) -> bool {
        self.added.gaps(range.clone()) == [range]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Rng;

    #[test]
    fn the_check_value_is_the_published_one() {
        // CRC RevEng catalogue, CRC-64/NVME.
        assert_eq!(crc(b"123456789"), 0xae8b_1486_0a79_9888);
    }

    #[test]
    fn zeros_are_added_without_a_look() {
        for (head, zeros, tail) in [(0, 0, 0), (0, 1, 0), (5, 4096, 0), (0, 70_000, 3), (9, 1, 9)] {
            let (head, tail) = (vec![7; head], vec![9; tail]);
            let whole = [&head[..], &vec![0; zeros], &tail].concat();
            let summed = crc64_with_zeros(crc64_with(0, &head), zeros as u64);
            assert_eq!(crc64_with(summed, &tail), crc(&whole), "{zeros}");
        }
        // Of 8 EiB in the time of 64 products; in halves it is the same.
        let half = crc64_with_zeros(3, 1 << 62);
        assert_eq!(crc64_with_zeros(half, 1 << 62), crc64_with_zeros(3, 1 << 63));
    }

    #[test]
    fn blocks_in_any_order_give_the_crc_of_the_file() {
        let mut rng = Rng::new(7);
        for len in [1u64, 1023, 1024, 1025, 8192, 100_000] {
            let content: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
            let layout = Layout::of_file(len, 1024);
            for _ in 0..20 {
                let mut order: Vec<usize> = (0..layout.block_count() as usize).collect();
                for i in (1..order.len()).rev() {
                    order.swap(i, rng.below(i as u64 + 1) as usize);
                }
                let mut sum = Sum::new(&layout, len);
                let mut whole = None;
                // What comes twice changes nothing.
                for index in order.iter().chain(&order[..order.len() / 2]).copied() {
                    assert!(whole.is_none() || order.len() < 2 * order.len());
                    let block = &content[index * 1024..content.len().min(index * 1024 + 1024)];
                    let index = index as u64;
                    whole = sum.add(index..index + 1, crc(block));
                }
                assert_eq!(whole, Some(crc(&content)), "{len} bytes");
            }
        }
    }

    #[test]
    fn powers_agree_with_the_librarys_way_to_join() {
        let mut rng = Rng::new(8);
        for _ in 0..50 {
            let (a, b) = (rng.next_u64(), rng.next_u64());
            let behind = rng.next_u64() >> rng.below(64);
            let joined = crc_fast::checksum_combine(CrcAlgorithm::Crc64Nvme, a, b, behind);
            assert_eq!(NVME.times(a, NVME.power_of_bytes(behind)) ^ b, joined, "{behind} bytes");
            // All zeros, by doubling.
            let (mut zeros, mut len) = (crc(&[0]), 1_u64);
            while len < behind / 2 {
                zeros = crc_fast::checksum_combine(CrcAlgorithm::Crc64Nvme, zeros, zeros, len);
                len *= 2;
            }
            let joined = crc_fast::checksum_combine(CrcAlgorithm::Crc64Nvme, a, zeros, len);
            assert_eq!(crc64_with_zeros(a, len), joined, "{len} zeros");
        }
    }
}

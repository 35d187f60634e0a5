//! Checksums of whole files, by the names that `CKSM` has for them.

use super::ZEROS;
#[cfg(feature = "tls")]
use aws_lc_rs::digest;
use farline_core::transfer::{crc64_with, crc64_with_zeros};
use farline_core::units::Error;
use md5::Digest as _;
use std::ops::Range;

/// Bytes that are read at once.
const READ_LEN: usize = 1 << 20;
/// What Adler-32 counts modulo (RFC 1950, section 9).
const ADLER: u64 = 65_521;

/// An algorithm by which a whole file can be compared with one at another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChecksumAlgorithm {
    Crc64Nvme,
    #[cfg(feature = "tls")]
    Sha256,
    #[cfg(feature = "tls")]
    Sha512,
    #[cfg(feature = "tls")]
    Sha1,
    Md5,
    Adler32,
}

impl ChecksumAlgorithm {
    /// Preferred first. Only Farline nodes offer CRC-64/NVME, at the speed of memory; of the others
    /// the strongest goes first.
    pub(crate) const ALL: &[ChecksumAlgorithm] = &[
        ChecksumAlgorithm::Crc64Nvme,
        #[cfg(feature = "tls")]
        ChecksumAlgorithm::Sha256,
        #[cfg(feature = "tls")]
        ChecksumAlgorithm::Sha512,
        #[cfg(feature = "tls")]
        ChecksumAlgorithm::Sha1,
        ChecksumAlgorithm::Md5,
        ChecksumAlgorithm::Adler32,
    ];

    /// As FEAT and CKSM have it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ChecksumAlgorithm::Crc64Nvme => "CRC64NVME",
            #[cfg(feature = "tls")]
            ChecksumAlgorithm::Sha256 => "SHA256",
            #[cfg(feature = "tls")]
            ChecksumAlgorithm::Sha512 => "SHA512",
            #[cfg(feature = "tls")]
            ChecksumAlgorithm::Sha1 => "SHA1",
            ChecksumAlgorithm::Md5 => "MD5",
            ChecksumAlgorithm::Adler32 => "ADLER32",
        }
    }

    /// The one of that name.
    pub(crate) fn find(name: &str) -> Option<ChecksumAlgorithm> {
        ChecksumAlgorithm::ALL.iter().copied().find(|algorithm| algorithm.name() == name)
    }

    /// Whether zeros cost it nothing, however many there are.
    pub(crate) fn skips_zeros(self) -> bool {
        matches!(self, ChecksumAlgorithm::Crc64Nvme | ChecksumAlgorithm::Adler32)
    }

    /// Of the bytes of `range`, in lower-case hexadecimal digits, as servers say it.
    ///
    /// # Errors
    /// When `read` fails.
    pub(crate) fn of(
        self,
        range: Range<u64>,
        read: impl FnMut(u64, &mut [u8]) -> Result<(), Error>,
    ) -> Result<String, Error> {
        self.of_sparse(range, |_, _| Ok(0), read)
    }

    /// The same of a file with holes: `hole` says how many bytes from its first argument on, its
    /// second at most, lie in one, which are not read.
    ///
    /// # Errors
    /// When `hole` or `read` fails.
    pub(crate) fn of_sparse(
        self,
        range: Range<u64>,
        mut hole: impl FnMut(u64, u64) -> Result<u64, Error>,
        mut read: impl FnMut(u64, &mut [u8]) -> Result<(), Error>,
    ) -> Result<String, Error> {
        let mut sum = Sum::new(self);
        let part_len = |left: u64| left.min(READ_LEN as u64) as usize;
        let mut buffer = vec![0; part_len(range.end.saturating_sub(range.start))];
        let mut at = range.start;
        while at < range.end {
            let left = range.end - at;
            // A part at a time, where there is work to do for it.
            let most = if self.skips_zeros() { left } else { left.min(READ_LEN as u64) };
            let zeros = hole(at, most)?;
            if zeros > 0 {
                sum.add_zeros(zeros);
                at += zeros;
                continue;
            }
            let part = &mut buffer[..part_len(left)];
            read(at, part)?;
            sum.add(part);
            at += part.len() as u64;
        }
        Ok(sum.finish())
    }
}

/// A checksum of what came so far.
enum Sum {
    Crc64(u64),
    #[cfg(feature = "tls")]
    Sha(digest::Context),
    Md5(md5::Md5),
    Adler(adler2::Adler32),
}

impl Sum {
    fn new(algorithm: ChecksumAlgorithm) -> Sum {
        match algorithm {
            ChecksumAlgorithm::Crc64Nvme => Sum::Crc64(0),
            #[cfg(feature = "tls")]
            ChecksumAlgorithm::Sha512 => Sum::Sha(digest::Context::new(&digest::SHA512)),
            #[cfg(feature = "tls")]
            ChecksumAlgorithm::Sha256 => Sum::Sha(digest::Context::new(&digest::SHA256)),
            #[cfg(feature = "tls")]
            ChecksumAlgorithm::Sha1 => {
                Sum::Sha(digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY))
            }
            ChecksumAlgorithm::Md5 => Sum::Md5(md5::Md5::new()),
            ChecksumAlgorithm::Adler32 => Sum::Adler(adler2::Adler32::new()),
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        match self {
            Sum::Crc64(crc) => *crc = crc64_with(*crc, bytes),
            #[cfg(feature = "tls")]
            Sum::Sha(context) => context.update(bytes),
            Sum::Md5(md5) => md5.update(bytes),
            Sum::Adler(adler) => adler.write_slice(bytes),
        }
    }

    fn add_zeros(&mut self, count: u64) {
        match self {
            Sum::Crc64(crc) => *crc = crc64_with_zeros(*crc, count),
            Sum::Adler(adler) => {
                // RFC 1950, section 9: the low half is the sum of the bytes, the high half that of
                // the low half after each.
                let (low, high) = (adler.checksum() & 0xffff, adler.checksum() >> 16);
                let high = (u64::from(high) + count % ADLER * u64::from(low)) % ADLER;
                *adler = adler2::Adler32::from_checksum((high as u32) << 16 | low);
            }
            _ => {
                let mut left = count;
                while left > 0 {
                    let part = left.min(ZEROS.len() as u64) as usize;
                    self.add(&ZEROS[..part]);
                    left -= part as u64;
                }
            }
        }
    }

    fn finish(self) -> String {
        match self {
            Sum::Crc64(crc) => format!("{crc:016x}"),
            #[cfg(feature = "tls")]
            Sum::Sha(context) => hex(context.finish().as_ref()),
            Sum::Md5(md5) => hex(&md5.finalize()),
            Sum::Adler(adler) => hex(&adler.checksum().to_be_bytes()),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(algorithm: ChecksumAlgorithm, bytes: &[u8]) -> String {
        let read = |at: u64, into: &mut [u8]| {
            let from = usize::try_from(at).expect("small");
            into.copy_from_slice(&bytes[from..from + into.len()]);
            Ok(())
        };
        algorithm.of(0..bytes.len() as u64, read).expect("it can be read")
    }

    #[test]
    fn holes_are_summed_as_the_zeros_that_they_are() {
        let mut bytes = vec![7; 3 * READ_LEN + 9];
        let holes = [READ_LEN + 5..2 * READ_LEN + 7, 3 * READ_LEN..bytes.len()];
        holes.iter().for_each(|hole| bytes[hole.clone()].fill(0));
        for &algorithm in ChecksumAlgorithm::ALL {
            let hole = |at: u64, most: u64| {
                let found = holes.iter().find(|hole| hole.contains(&(at as usize)));
                Ok(found.map_or(0, |hole| (hole.end as u64 - at).min(most)))
            };
            let read = |at: u64, into: &mut [u8]| {
                into.copy_from_slice(&bytes[at as usize..at as usize + into.len()]);
                Ok(())
            };
            let sparse = algorithm.of_sparse(0..bytes.len() as u64, hole, read);
            assert_eq!(sparse.as_ref(), Ok(&of(algorithm, &bytes)), "{algorithm:?}");
        }
        // Nobody looks at the zeros of a file that is all hole.
        for algorithm in [ChecksumAlgorithm::Crc64Nvme, ChecksumAlgorithm::Adler32] {
            let none = |_, _: &mut [u8]| -> Result<(), Error> { panic!("it was read") };
            assert!(algorithm.of_sparse(0..u64::MAX, |_, most| Ok(most), none).is_ok());
        }
    }

    #[test]
    fn checksums_are_those_that_servers_say() {
        // As globus-gridftp-server 13.24 answers CKSM for a file of these bytes.
        let expected: &[(ChecksumAlgorithm, &str)] = &[
            (ChecksumAlgorithm::Md5, "850822f07bf1b422f89a773ad81d0ee5"),
            (ChecksumAlgorithm::Adler32, "0b7d02e2"),
            #[cfg(feature = "tls")]
            (ChecksumAlgorithm::Sha1, "50d4bce4c510b5950ddcd9baf7b52a1091351c57"),
            #[cfg(feature = "tls")]
            (
                ChecksumAlgorithm::Sha256,
                "2083a34f4dba4f5c71f77aecaa4fcf1539e2853999f7cd3d7e6ceb3e5f6f4728",
            ),
        ];
        for &(algorithm, digest) in expected {
            assert_eq!(of(algorithm, b"farline"), digest, "{algorithm:?}");
            assert_eq!(ChecksumAlgorithm::find(algorithm.name()), Some(algorithm));
        }
        // The check value of the catalogue of CRC algorithms (reveng), and over several reads.
        assert_eq!(of(ChecksumAlgorithm::Crc64Nvme, b"123456789"), "ae8b14860a799888");
        let long = vec![7; 2 * READ_LEN + 5];
        let whole = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, &long);
        assert_eq!(of(ChecksumAlgorithm::Crc64Nvme, &long), format!("{whole:016x}"));
    }
}

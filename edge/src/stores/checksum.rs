//! Checksums of whole files, by the names that `CKSM` has for them.

#[cfg(feature = "tls")]
use aws_lc_rs::digest;
use crc_fast::CrcAlgorithm;
use farline_core::units::Error;
use md5::Digest as _;
use std::ops::Range;

/// Bytes that are read at once.
const READ_LEN: usize = 1 << 20;

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

    /// Of the bytes of `range`, in lower-case hexadecimal digits, as servers say it.
    ///
    /// # Errors
    /// When `read` fails.
    pub(crate) fn of(
        self,
        range: Range<u64>,
        read: impl FnMut(u64, &mut [u8]) -> Result<(), Error>,
    ) -> Result<String, Error> {
        match self {
            #[cfg(feature = "tls")]
            ChecksumAlgorithm::Sha512 => sha(&digest::SHA512, range, read),
            #[cfg(feature = "tls")]
            ChecksumAlgorithm::Sha256 => sha(&digest::SHA256, range, read),
            #[cfg(feature = "tls")]
            ChecksumAlgorithm::Sha1 => sha(&digest::SHA1_FOR_LEGACY_USE_ONLY, range, read),
            ChecksumAlgorithm::Crc64Nvme => {
                let mut crc = crc_fast::Digest::new(CrcAlgorithm::Crc64Nvme);
                whole(range, read, |bytes| crc.update(bytes))?;
                Ok(format!("{:016x}", crc.finalize()))
            }
            ChecksumAlgorithm::Md5 => {
                let mut md5 = md5::Md5::new();
                whole(range, read, |bytes| md5.update(bytes))?;
                Ok(hex(&md5.finalize()))
            }
            ChecksumAlgorithm::Adler32 => {
                let mut adler = adler2::Adler32::new();
                whole(range, read, |bytes| adler.write_slice(bytes))?;
                Ok(hex(&adler.checksum().to_be_bytes()))
            }
        }
    }
}

#[cfg(feature = "tls")]
fn sha(
    algorithm: &'static digest::Algorithm,
    range: Range<u64>,
    read: impl FnMut(u64, &mut [u8]) -> Result<(), Error>,
) -> Result<String, Error> {
    let mut context = digest::Context::new(algorithm);
    whole(range, read, |bytes| context.update(bytes))?;
    Ok(hex(context.finish().as_ref()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads `range` from its start to its end.
fn whole(
    range: Range<u64>,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<(), Error>,
    mut take: impl FnMut(&[u8]),
) -> Result<(), Error> {
    let rest = |at: u64| usize::try_from(range.end.saturating_sub(at)).unwrap_or(READ_LEN);
    let mut buffer = vec![0; READ_LEN.min(rest(range.start))];
    let mut at = range.start;
    while at < range.end {
        let part = &mut buffer[..READ_LEN.min(rest(at))];
        read(at, part)?;
        take(part);
        at += part.len() as u64;
    }
    Ok(())
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
        let whole = crc_fast::checksum(CrcAlgorithm::Crc64Nvme, &long);
        assert_eq!(of(ChecksumAlgorithm::Crc64Nvme, &long), format!("{whole:016x}"));
    }
}

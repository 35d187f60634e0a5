//! `CKSM` and `SCKS`: what a node's files sum up to.

use super::files::beneath;
use super::reporter::Reporter;
use super::time_of_day::time_of_day;
use crate::identity::{Authorization, Deed};
use crate::mover::Cancel;
use crate::stores::{ChecksumAlgorithm, storage_error};
use farline_core::gridftp::Pathname;
use farline_core::gridftp::server::{Answer, ExpectedDigest};
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Span};
use rustix::fs::{OFlags, SeekFrom, seek};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::{AtomicU64, Ordering};

/// From this length on a checksum may take so long that the client wants to hear how far it is.
const LONG: u64 = 64 << 20;
/// Bytes in holes that are summed by what has to look at each: a file that says it has exabytes
/// costs who made it nothing, and would cost a processor for centuries.
const MOST_IN_HOLES: u64 = 64 << 30;

/// The names of what a node computes, for FEAT: what other clients look for goes first.
pub(super) fn offered() -> Vec<String> {
    let mut names: Vec<String> =
        ChecksumAlgorithm::ALL.iter().map(|algorithm| algorithm.name().to_owned()).collect();
    names.rotate_left(1);
    names
}

/// Part of a file that a client wants summed.
pub(super) struct WantedChecksum {
    pub(super) algorithm: String,
    pub(super) offset: u64,
    /// To its end, if not said.
    pub(super) length: Option<u64>,
    /// Between words on how far it is; zero: none.
    pub(super) markers: Span,
    pub(super) path: Pathname,
}

/// Computes it; `say_limit` hears of a file with more in holes than is summed.
///
/// # Errors
/// When the file cannot be read, or the client wants no more of it.
pub(super) fn compute(
    access: &Authorization,
    wanted: &WantedChecksum,
    cancel: &Cancel,
    (reporter, say_limit): (&Reporter, impl Fn(&Error)),
) -> Result<String, Error> {
    access.check(Deed::Read, &wanted.path)?;
    let path = wanted.path.as_bytes();
    let failed = |error: std::io::Error| storage_error("read", path, &error);
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = access.root().open_beneath(beneath(&wanted.path), flags, 0).map(File::from);
    let file = file.map_err(failed)?;
    let meta = file.metadata().map_err(failed)?;
    if !meta.is_file() {
        let message = format!("{} is no regular file", wanted.path);
        return Err(Error::new(Fault::You, ErrorCode::NotAFile, message));
    }
    let end = wanted.length.map_or(meta.len(), |len| wanted.offset.saturating_add(len));
    let range = wanted.offset.min(end)..end.min(meta.len());
    let algorithm = algorithm(&wanted.algorithm)?;
    let has_holes = meta.blocks().saturating_mul(512) < meta.len();
    if has_holes && !algorithm.skips_zeros() {
        let holes = bytes_in_holes(&file, range.clone()).map_err(failed)?;
        if holes > MOST_IN_HOLES {
            let message = format!(
                "more than {} of {} lie in holes, whose {} is not computed here",
                Bytes(MOST_IN_HOLES),
                wanted.path,
                wanted.algorithm
            );
            let error = Error::new(Fault::You, ErrorCode::Unsupported, message)
                .hint("CRC64NVME and ADLER32 are");
            say_limit(&error);
            return Err(error);
        }
    }
    let done = AtomicU64::new(0);
    let work = || {
        let hole = |at, most| {
            if let Some(reason) = cancel.reason() {
                return Err(reason);
            }
            let len = if has_holes { hole_at(&file, at, most).map_err(failed)? } else { 0 };
            done.fetch_add(len, Ordering::Relaxed);
            Ok(len)
        };
        algorithm.of_sparse(range.clone(), hole, |at, into| {
            file.read_exact_at(into, at).map_err(failed)?;
            done.fetch_add(into.len() as u64, Ordering::Relaxed);
            Ok(())
        })
    };
    if wanted.markers == Span::ZERO || range.end.saturating_sub(range.start) < LONG {
        return work();
    }
    let say = || {
        let bytes = done.load(Ordering::Relaxed);
        reporter.say(Answer::Processed { timestamp: time_of_day(), bytes });
    };
    reporter.repeat(wanted.markers.into(), say, work)
}

/// How many bytes from `at` on, `most` at most, lie in a hole.
fn hole_at(file: &File, at: u64, most: u64) -> io::Result<u64> {
    match seek(file, SeekFrom::Data(at)) {
        Ok(data) => Ok(data.saturating_sub(at).min(most)),
        // No data until the end, where that is still as far away.
        Err(Errno::NXIO) if file.metadata()?.len() >= at.saturating_add(most) => Ok(most),
        // It became shorter, or nobody knows its holes: to read it tells.
        Err(_) => Ok(0),
    }
}

/// How many bytes of `range` lie in holes, as far as they matter: a few more than [`MOST_IN_HOLES`]
/// are enough.
fn bytes_in_holes(file: &File, range: Range<u64>) -> io::Result<u64> {
    let (mut at, mut holes) = (range.start, 0_u64);
    while at < range.end && holes <= MOST_IN_HOLES {
        let hole = hole_at(file, at, range.end - at)?;
        (at, holes) = (at + hole, holes + hole);
        if at < range.end {
            at = seek(file, SeekFrom::Hole(at)).unwrap_or(range.end).max(at + 1);
        }
    }
    Ok(holes)
}

fn algorithm(name: &str) -> Result<ChecksumAlgorithm, Error> {
    ChecksumAlgorithm::find(name).ok_or_else(|| {
        let message = format!("the checksum {name} is not computed here");
        Error::new(Fault::You, ErrorCode::Unsupported, message)
    })
}

/// Compares `len` bytes that were stored, as `read` gives them back, with what the client said of
/// them (`SCKS`).
///
/// # Errors
/// When they differ, or cannot be read.
pub(super) fn compare(
    expected: &ExpectedDigest,
    len: u64,
    read: impl FnMut(u64, &mut [u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let got = algorithm(&expected.algorithm)?.of(0..len, read)?;
    if got.eq_ignore_ascii_case(expected.digest.trim()) {
        return Ok(());
    }
    let message = format!(
        "the {} of what arrived is {got}, and {} was announced with SCKS",
        expected.algorithm, expected.digest
    );
    Err(Error::new(Fault::Between, ErrorCode::DigestMismatch, message))
}

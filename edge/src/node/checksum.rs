//! `CKSM` and `SCKS`: what a node's files sum up to.

use super::files::beneath;
use super::reporter::Reporter;
use super::time_of_day::time_of_day;
use crate::identity::{Authorization, Deed};
use crate::mover::Cancel;
use crate::stores::{ChecksumAlgorithm, storage_error};
use farline_core::gridftp::Pathname;
use farline_core::gridftp::server::{Answer, ExpectedDigest};
use farline_core::units::{Error, ErrorCode, Fault, Span};
use rustix::fs::OFlags;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

/// From this length on a checksum may take so long that the client wants to hear how far it is.
const LONG: u64 = 64 << 20;

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

/// Computes it.
///
/// # Errors
/// When the file cannot be read, or the client wants no more of it.
pub(super) fn compute(
    access: &Authorization,
    wanted: &WantedChecksum,
    cancel: &Cancel,
    reporter: &Reporter,
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
    let done = AtomicU64::new(0);
    let work = || {
        algorithm(&wanted.algorithm)?.of(range.clone(), |at, into| {
            if let Some(reason) = cancel.reason() {
                return Err(reason);
            }
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

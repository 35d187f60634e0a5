//! Whether a stock server has the bytes that this host has: `CKSM`, against the same computed here
//! meanwhile.
//!
//! `docs/protocol.md`, clause G-6.

use super::control::Control;
use super::copy::Copy;
use super::options::{Options, Verify};
use crate::stores::ChecksumAlgorithm;
use farline_core::gridftp::client::Request;
use farline_core::gridftp::{Command, CommandOptions as Opts, Pathname, Reply};
use farline_core::units::{Error, ErrorCode, Fault, Setting, Span};

/// Between a server's words on how far a checksum is.
const MARKERS_EVERY: Span = Span::from_secs(5);

/// The checksum that this host and all of these servers can compute, preferred first.
pub(super) fn common(ends: &[&Control]) -> Option<ChecksumAlgorithm> {
    let offers = |control: &&Control, name: &str| {
        control.features().checksums.iter().any(|offer| offer == name)
    };
    let mut known = ChecksumAlgorithm::ALL.iter().copied();
    known.find(|algorithm| ends.iter().all(|end| offers(end, algorithm.name())))
}

/// What is said of files that were compared by it.
pub(super) fn compared_how(algorithm: ChecksumAlgorithm) -> &'static str {
    match algorithm {
        ChecksumAlgorithm::Crc64Nvme => {
            "CRC-64/NVME of every file, computed at both ends, compared (CKSM)"
        }
        #[cfg(feature = "tls")]
        ChecksumAlgorithm::Sha256 => "SHA256 of every file, computed at both ends, compared (CKSM)",
        #[cfg(feature = "tls")]
        ChecksumAlgorithm::Sha512 => "SHA512 of every file, computed at both ends, compared (CKSM)",
        #[cfg(feature = "tls")]
        ChecksumAlgorithm::Sha1 => "SHA1 of every file, computed at both ends, compared (CKSM)",
        ChecksumAlgorithm::Md5 => "MD5 of every file, computed at both ends, compared (CKSM)",
        ChecksumAlgorithm::Adler32 => {
            "ADLER32 of every file, computed at both ends, compared (CKSM)"
        }
    }
}

/// Refuses before anything moves what was asked for outright and cannot be had of `server`.
///
/// # Errors
/// Then.
pub(super) fn require(
    options: &Options,
    common: Option<ChecksumAlgorithm>,
    server: &str,
) -> Result<(), Error> {
    let refused = |message: String, hint: String| {
        Err(Error::new(Fault::There, ErrorCode::Unsupported, message).hint(hint))
    };
    match options.verify {
        Verify::Checksum => refused(
            format!(
                "{} checksum: {server}: blocks are checked between Farline nodes only",
                Setting::Verify
            ),
            format!(
                "{} digest compares whole files where the server computes checksums",
                Setting::Verify
            ),
        ),
        Verify::Blake3 => refused(
            format!("{} blake3: {server}: only Farline nodes compute it", Setting::Verify),
            format!(
                "{} digest compares whole files where the server computes checksums",
                Setting::Verify
            ),
        ),
        Verify::Digest if options.compare_at_stock && common.is_none() => refused(
            format!(
                "{} digest: {server}: no checksum (CKSM) that this host knows",
                Setting::Verify
            ),
            format!(
                "without {} digest the files are copied, and said to be not verified",
                Setting::Verify
            ),
        ),
        _ => Ok(()),
    }
}

/// Has a server that is busy with a checksum for long say how far it is, if it knows how to.
pub(super) fn ask_for_markers(control: &mut Control) {
    control.try_request(Request::Exec(Command::Options(Opts::Checksum { markers: MARKERS_EVERY })));
}

/// Asks a server for a checksum of its file at `path`.
pub(super) fn ask(control: &mut Control, wanted: ChecksumAlgorithm, path: Pathname) -> u64 {
    let algorithm = wanted.name().to_owned();
    let ask = Command::Checksum { algorithm, offset: 0, length: None, path };
    control.try_request(Request::Exec(ask))
}

/// What it says.
pub(super) fn said(reply: &Reply) -> String {
    reply.first().trim().to_ascii_lowercase()
}

/// A server did not say its checksum: an error where it was asked for outright, else a note.
///
/// Returns that nothing was compared.
///
/// # Errors
/// Then, and when the connection is lost.
pub(super) fn not_compared(copy: &mut Copy<'_>, error: Error) -> Result<bool, Error> {
    if error.fault == Fault::Between || copy.options.compare_at_stock {
        return Err(error);
    }
    copy.stats.note(format!("not compared: {error}"));
    Ok(false)
}

/// Compares what two ends say of the file at `path`; returns that it was compared.
///
/// # Errors
/// When it differs.
pub(super) fn judge(
    copy: &mut Copy<'_>,
    algorithm: ChecksumAlgorithm,
    path: &Pathname,
    [(one, its), (other, others)]: [(&str, &str); 2],
) -> Result<bool, Error> {
    if one != other {
        let name = algorithm.name();
        let message = format!("the {name} of {path} is {one} {its} and {other} {others}");
        return Err(Error::new(Fault::Between, ErrorCode::DigestMismatch, message)
            .hint("what came of it is given up; run the same command again, it starts anew"));
    }
    copy.stats.verified_how = compared_how(algorithm);
    Ok(true)
}

/// Compares a file of `len` bytes, read by `here`, with the one at `path` there; returns whether
/// that was possible. Both ends read their file at the same time, so it costs one reading.
///
/// # Errors
/// When they differ, or this end's cannot be read.
pub(super) async fn compare(
    copy: &mut Copy<'_>,
    control: &mut Control,
    path: Pathname,
    (len, here): (u64, impl FnMut(u64, &mut [u8]) -> Result<(), Error> + Send + 'static),
) -> Result<bool, Error> {
    let Some(shared) = common(&[&*control]) else { return Ok(false) };
    ask_for_markers(control);
    let id = ask(control, shared, path.clone());
    let ours =
        copy.supervise(Some(control), move |state| state.alone(|| shared.of(0..len, here))).await?;
    match copy.reply_to(control, id).await {
        Ok(reply) => {
            judge(copy, shared, &path, [(&said(&reply), "at the server"), (&ours, "here")])
        }
        Err(error) => not_compared(copy, error),
    }
}

/// Whether what was compared is the same, where it may be another file: then that is no error.
///
/// # Errors
/// When the ends cannot be asked any more.
pub(super) fn found_same(compared: Result<bool, Error>) -> Result<bool, Error> {
    match compared {
        Err(error) if error.code == ErrorCode::DigestMismatch => Ok(false),
        compared => compared,
    }
}

/// Notes whether each file that came of the source, one of perhaps several, was compared.
pub(super) fn conclude(copy: &mut Copy<'_>) {
    let (files, compared) = copy.of_source();
    copy.stats.verified = files > 0 && compared == files;
    if !copy.stats.verified {
        copy.stats.verified_how = match (copy.options.verify, compared) {
            (Verify::Digest, 0) if files == 0 => "nothing was copied",
            (Verify::Digest, 0) => {
                "not verified: no checksum (CKSM) that this host knows is computed there"
            }
            (Verify::Digest, _) => "not verified: not every file could be compared",
            _ => "not verified: switched off",
        };
    }
}

//! Whether a stock server has the bytes that this host has: `CKSM`, against the same computed here
//! meanwhile.
//!
//! `docs/protocol.md`, clause G-6.

use super::control::Control;
use super::copy::Copy;
use super::options::{Options, Verify};
use crate::mover::BLOCK_LEN;
use aws_lc_rs::digest;
use farline_core::gridftp::client::Request;
use farline_core::gridftp::{Command, Options as Opts, Pathname, Reply};
use farline_core::units::{Error, ErrorCode, Fault, Span};
use md5::Digest as _;

/// Between a server's words on how far a checksum is.
const MARKERS_EVERY: Span = Span::from_secs(5);

/// An algorithm that both ends have, strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Sha512,
    Sha256,
    Sha1,
    Md5,
    Adler32,
}

impl Algorithm {
    const ALL: [(Algorithm, &'static str, &'static str); 5] = [
        (
            Algorithm::Sha256,
            "SHA256",
            "SHA256 of every file, computed at both ends, compared (CKSM)",
        ),
        (
            Algorithm::Sha512,
            "SHA512",
            "SHA512 of every file, computed at both ends, compared (CKSM)",
        ),
        (Algorithm::Sha1, "SHA1", "SHA1 of every file, computed at both ends, compared (CKSM)"),
        (Algorithm::Md5, "MD5", "MD5 of every file, computed at both ends, compared (CKSM)"),
        (
            Algorithm::Adler32,
            "ADLER32",
            "ADLER32 of every file, computed at both ends, compared (CKSM)",
        ),
    ];

    /// In lower-case hexadecimal digits, as servers say it.
    fn of(
        self,
        len: u64,
        read: impl FnMut(u64, &mut [u8]) -> Result<(), Error>,
    ) -> Result<String, Error> {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let sha = match self {
            Algorithm::Sha512 => &digest::SHA512,
            Algorithm::Sha256 => &digest::SHA256,
            Algorithm::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
            Algorithm::Md5 => {
                let mut md5 = md5::Md5::new();
                whole(len, read, |bytes| md5.update(bytes))?;
                return Ok(hex(&md5.finalize()));
            }
            Algorithm::Adler32 => {
                let mut adler = adler2::Adler32::new();
                whole(len, read, |bytes| adler.write_slice(bytes))?;
                return Ok(hex(&adler.checksum().to_be_bytes()));
            }
        };
        let mut context = digest::Context::new(sha);
        whole(len, read, |bytes| context.update(bytes))?;
        Ok(hex(context.finish().as_ref()))
    }
}

/// Reads `len` bytes from their start to their end.
fn whole(
    len: u64,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<(), Error>,
    mut take: impl FnMut(&[u8]),
) -> Result<(), Error> {
    let mut buffer = vec![0; BLOCK_LEN];
    let mut at = 0;
    while at < len {
        let part = &mut buffer[..usize::try_from(len - at).unwrap_or(BLOCK_LEN).min(BLOCK_LEN)];
        read(at, part)?;
        take(part);
        at += part.len() as u64;
    }
    Ok(())
}

/// An algorithm, its name, and what is said of files that were compared by it.
pub(super) type Shared = (Algorithm, &'static str, &'static str);

/// The checksum that this host and all of these servers can compute, strongest first.
pub(super) fn common(ends: &[&Control]) -> Option<Shared> {
    let offers = |control: &&Control, name: &str| {
        control.features().checksums.iter().any(|offer| offer == name)
    };
    Algorithm::ALL.into_iter().find(|(_, name, _)| ends.iter().all(|end| offers(end, name)))
}

/// Refuses before anything moves what was asked for outright and cannot be had of `server`.
///
/// # Errors
/// Then.
pub(super) fn require(
    options: &Options,
    common: Option<Shared>,
    server: &str,
) -> Result<(), Error> {
    let refused = |message: String, hint: &str| {
        Err(Error::new(Fault::There, ErrorCode::Unsupported, message).hint(hint))
    };
    match options.verify {
        Verify::Checksum => refused(
            format!("--verify checksum: {server}: blocks are checked between Farline nodes only"),
            "--verify digest compares whole files where the server computes checksums",
        ),
        Verify::Blake3 => refused(
            format!("--verify blake3: {server}: only Farline nodes compute it"),
            "--verify digest compares whole files where the server computes checksums",
        ),
        Verify::Digest if options.compare_at_stock && common.is_none() => refused(
            format!("--verify digest: {server}: no checksum (CKSM) that this host knows"),
            "without --verify digest the files are copied, and said to be not verified",
        ),
        _ => Ok(()),
    }
}

/// Asks a server for a checksum of its file at `path`.
pub(super) fn ask(control: &mut Control, (_, name, _): Shared, path: Pathname) -> u64 {
    // A server that is busy for long says how far it is, if it knows how to.
    control.try_request(Request::Exec(Command::Options(Opts::Checksum { markers: MARKERS_EVERY })));
    let ask = Command::Checksum { algorithm: name.to_owned(), offset: 0, length: None, path };
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
    (_, name, how): Shared,
    path: &Pathname,
    [(one, its), (other, others)]: [(&str, &str); 2],
) -> Result<bool, Error> {
    if one != other {
        let message = format!("the {name} of {path} is {one} {its} and {other} {others}");
        return Err(Error::new(Fault::Between, ErrorCode::DigestMismatch, message)
            .hint("what came of it is given up; run the same command again, it starts anew"));
    }
    copy.stats.compared += 1;
    copy.stats.verified_how = how;
    Ok(true)
}

/// Compares a file of `len` bytes, read by `here`, with the one at `path` there; returns whether that
/// was possible. Both ends read their file at the same time, so it costs one reading.
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
    let id = ask(control, shared, path.clone());
    let algorithm = shared.0;
    let ours =
        copy.supervise(Some(control), move |live| live.alone(|| algorithm.of(len, here))).await?;
    match copy.reply_to(control, id).await {
        Ok(reply) => {
            judge(copy, shared, &path, [(&said(&reply), "at the server"), (&ours, "here")])
        }
        Err(error) => not_compared(copy, error),
    }
}

/// Notes whether each of `files` was compared.
pub(super) fn conclude(copy: &mut Copy<'_>, files: u64) {
    copy.stats.verified = files > 0 && copy.stats.compared == copy.stats.files;
    if !copy.stats.verified {
        copy.stats.verified_how = match (copy.options.verify, copy.stats.compared) {
            (Verify::Digest, 0) if files == 0 => "nothing was copied",
            (Verify::Digest, 0) => {
                "not verified: no checksum (CKSM) that this host knows is computed there"
            }
            (Verify::Digest, _) => "not verified: not every file could be compared",
            _ => "not verified: switched off",
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_that_servers_say() {
        // As globus-gridftp-server 13.24 answers CKSM for a file of these bytes.
        let bytes = b"farline";
        let expected = [
            (Algorithm::Md5, "850822f07bf1b422f89a773ad81d0ee5"),
            (Algorithm::Adler32, "0b7d02e2"),
            (Algorithm::Sha1, "50d4bce4c510b5950ddcd9baf7b52a1091351c57"),
            (Algorithm::Sha256, "2083a34f4dba4f5c71f77aecaa4fcf1539e2853999f7cd3d7e6ceb3e5f6f4728"),
        ];
        for (algorithm, digest) in expected {
            let computed = algorithm.of(bytes.len() as u64, |at, into| {
                let from = at as usize;
                into.copy_from_slice(&bytes[from..from + into.len()]);
                Ok(())
            });
            assert_eq!(computed.as_deref(), Ok(digest), "{algorithm:?}");
        }
    }
}

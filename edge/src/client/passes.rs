//! When blocks went missing, whether another pass is worth making; and what a resumed transfer is
//! known by.

use super::control::Control;
use crate::mover::Integrity;
use farline_core::gridftp::client::Request;
use farline_core::gridftp::{Command, Options as Opts};
use farline_core::transfer::journal::Origin;
use farline_core::units::{ByteRanges, Error, ErrorCode};

/// Passes in a row that may bring nothing new: one may lose its every channel to a passing fault.
const PATIENCE: u32 = 3;
/// Ranges that a REST line names at most: a command line has 8 KiB, a range at most 40 digits.
const RANGES_IN_REST: usize = 150;

/// The passes of one transfer (`docs/protocol.md`, clause I-7).
#[derive(Debug, Default)]
pub(super) struct Passes {
    pub(super) made: u64,
    pub(super) bad_blocks: u64,
    pub(super) bad_headers: u64,
    best: u64,
    fruitless: u32,
}

impl Passes {
    /// Takes in that a pass ended with `error` when the receiver held `held` bytes; answers with
    /// the error where another pass is of no use.
    pub(super) fn failed(&mut self, error: Error, held: u64) -> Result<(), Error> {
        if !matches!(
            error.code,
            ErrorCode::BlocksMissing | ErrorCode::ChannelLost | ErrorCode::DataConnection
        ) {
            return Err(error);
        }
        let count = |name: &str| {
            let (_, rest) = error.message.split_once(name)?;
            rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok()
        };
        self.bad_blocks += count("bad_blocks=").unwrap_or(0);
        self.bad_headers += count("bad_headers=").unwrap_or(0);
        self.fruitless = if held > self.best { 0 } else { self.fruitless + 1 };
        self.best = self.best.max(held);
        if self.fruitless >= PATIENCE { Err(error) } else { Ok(()) }
    }
}

/// Tells the server how blocks are guarded and, when it is to store, what the transfer is known by.
/// Answers with the requests.
pub(super) fn agree(
    control: &mut Control,
    integrity: Integrity,
    origin: Option<&Origin>,
) -> Vec<u64> {
    let mut options = Vec::new();
    if control.checks() {
        options.push(("check", if integrity.checks { "crc32c" } else { "none" }.to_owned()));
        options.push(("digest", if integrity.digests { "blake3" } else { "none" }.to_owned()));
        if integrity.short_zeros {
            options.push(("zeros", "short".to_owned()));
        }
        options.extend(origin.map(|origin| {
            ("source", blake3::Hash::from_bytes(origin.source).to_hex().to_string())
        }));
    }
    if control.names_omissions() && origin.is_none() {
        options.push(("omitted", "named".to_owned()));
    }
    let option = |(name, value): (&str, String)| {
        Request::Exec(Command::Options(Opts::Farline { name: name.to_owned(), value }))
    };
    options.into_iter().map(option).map(|request| control.request(request)).collect()
}

/// As much of `held` as a REST line can name: its longest ranges. What is not named comes again,
/// and is dropped.
pub(super) fn nameable(held: &ByteRanges) -> ByteRanges {
    let mut ranges: Vec<_> = held.iter().collect();
    ranges.sort_by_key(|range| std::cmp::Reverse(range.end - range.start));
    let mut named = ByteRanges::new();
    for range in ranges.into_iter().take(RANGES_IN_REST) {
        named.insert(range);
    }
    named
}

/// The identity of a source (clause R-5): where it is, and which paths there.
pub(super) fn source_of<'a>(host: &str, paths: impl Iterator<Item = &'a [u8]>) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("farline 2026 source of a transfer");
    hasher.update(host.as_bytes());
    for path in paths {
        hasher.update(b"\0").update(path);
    }
    *hasher.finalize().as_bytes()
}

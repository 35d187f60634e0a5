//! The readers of what bearers of tokens and their issuers send, for whoever feeds them anything:
//! fuzzers, and tests in their manner. No part of the library's interface.

use super::{Grant, Issuer, https, key_sets, token};

/// The issuer that a token names, and the id of its key, before anything of it is believed.
#[must_use]
pub fn claimed(token: &[u8]) -> (Option<String>, Option<String>) {
    (token::issuer_of(token), token::key_id_of(token))
}

/// Whom a token is of and what it grants, if it holds by `keys` at `now`, in seconds since 1970.
///
/// # Errors
/// In words, why it is not taken.
pub fn judged(
    issuer: &Issuer,
    token: &[u8],
    keys: &str,
    now: u64,
) -> Result<(String, Vec<Grant>), String> {
    let allowed = issuer.judge(token, keys, now)?;
    Ok((allowed.subject, allowed.grants))
}

/// Where the discovery document of the issuer `url` says that its keys are.
///
/// # Errors
/// In words, why it says nothing of them.
pub fn place_of_keys(url: &str, document: &[u8]) -> Result<String, String> {
    key_sets::place_of_keys(url, document)
}

/// The seconds for which a reply with this `Cache-Control` may be kept.
#[must_use]
pub fn kept_for(control: &str) -> Option<u64> {
    https::max_age_of(control)
}

//! What an authority took back, `HASH.r0`, where OpenSSL found no list: one that is there and
//! cannot be read vouches for nobody.

use openssl::error::ErrorStack;
use openssl::x509::{X509Crl, X509Ref};
use std::path::Path;

/// Whether the issuer of `certificate` publishes no list in `folder`. OpenSSL has one error for a
/// list that is not there and for one that it could not read.
///
/// # Errors
/// In words, when there is one.
pub(super) fn has_no_list(folder: &Path, certificate: &X509Ref) -> Result<(), String> {
    // What OpenSSL left of files that it could not read would break the connection later.
    drop(ErrorStack::get());
    let name = format!("{:08x}.r0", certificate.issuer_name_hash());
    let why = match std::fs::read(folder.join(&name)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => error.to_string(),
        Ok(bytes) => match X509Crl::from_pem(&bytes) {
            Ok(_) => "it is of another authority".to_owned(),
            Err(_) => "it is no list in PEM".to_owned(),
        },
    };
    drop(ErrorStack::get());
    Err(format!(
        "what was revoked is not known, so nobody of this authority is taken: certificates/{name} at the \
         end that refuses: {why}"
    ))
}

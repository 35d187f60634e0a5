//! What an authority took back, `HASH.r0`, where OpenSSL found no list: one that is there and
//! cannot be read vouches for nobody.

use openssl::error::ErrorStack;
use openssl::x509::{X509Crl, X509CrlRef, X509Ref};
use std::cmp::Ordering;
use std::io::ErrorKind;
use std::path::Path;

/// Whether the issuer of `certificate` publishes no list in `folder`. OpenSSL has one error for a
/// list that is not there, for one that it could not read, and for one that it does not take.
///
/// # Errors
/// In words, when there is one.
pub(super) fn has_no_list(folder: &Path, certificate: &X509Ref) -> Result<(), String> {
    // What OpenSSL left of files that it could not read would break the connection later.
    drop(ErrorStack::get());
    let name = format!("{:08x}.r0", certificate.issuer_name_hash());
    let path = folder.join(&name);
    let why = match std::fs::read(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => match path.symlink_metadata() {
            Ok(_) => "it is a link to a file that is missing".to_owned(),
            Err(_) => return Ok(()),
        },
        Err(error) => error.to_string(),
        Ok(bytes) => match X509Crl::from_pem(&bytes) {
            Ok(list) if is_of_issuer(&list, certificate) => {
                "it is of another key of this authority's, or not the whole list".to_owned()
            }
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

fn is_of_issuer(list: &X509CrlRef, certificate: &X509Ref) -> bool {
    let order = list.issuer_name().try_cmp(certificate.issuer_name());
    order.is_ok_and(|order| order == Ordering::Equal)
}

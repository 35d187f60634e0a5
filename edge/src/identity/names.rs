//! What a configuration says of client certificates: whose they are, and who signs them.

use crate::channels::trust::Fingerprint;
use std::path::PathBuf;
use std::str::FromStr;

/// Whose a certificate is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CertificateName {
    /// This very certificate, whoever signed it.
    Fingerprint(Fingerprint),
    /// A certificate of one of the authorities for clients, with this subject: `/O=Site/CN=alice`.
    Subject(String),
}

impl FromStr for CertificateName {
    type Err = String;

    /// Reads `sha256=HEX`, or a subject as a grid-mapfile has it.
    fn from_str(text: &str) -> Result<CertificateName, String> {
        if text.starts_with('/') && text.contains('=') {
            return Ok(CertificateName::Subject(text.to_owned()));
        }
        text.parse().map(CertificateName::Fingerprint).map_err(|_| {
            format!(
                "`{text}` is neither the fingerprint of a certificate (sha256=HEX) nor a subject \
                 (/O=Site/CN=alice)"
            )
        })
    }
}

/// The authorities whose client certificates are looked at, and what they took back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientAuthorities {
    /// PEM.
    pub certificates: Option<PathBuf>,
    /// Revocation lists in PEM.
    pub revoked: Option<PathBuf>,
}

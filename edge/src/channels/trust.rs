//! Who is who under TLS: a node's certificate, and whom a client takes for the node.
//!
//! What is said of TLS, in options and configuration files, stands here; what speaks it in
//! `by_rustls`. A build without the feature `tls` has `no_tls` in its place, where keys and
//! connections are types without values.

#[cfg(feature = "tls")]
mod by_rustls;
#[cfg(not(feature = "tls"))]
mod no_tls;
#[cfg(feature = "tls")]
mod subject;
#[cfg(feature = "tls")]
mod tickets;
#[cfg(not(feature = "tls"))]
use no_tls as by_rustls;

#[cfg(feature = "tls")]
pub(crate) use by_rustls::provider;
pub use by_rustls::{ClientConfig, NodeCertificate, ServerConfig};
pub(crate) use by_rustls::{
    ControlTls, SessionTls, ShownCertificate, accept_control, client, connect_control, pinned,
    refuses_certificate, untrusted,
};
#[cfg(feature = "tls")]
pub(crate) use subject::subject_of_certificate;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use tokio::io::{AsyncRead, AsyncWrite};

/// Bytes both ways.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}

/// The SHA-256 digest of a certificate in DER, written `sha256=HEX` or `sha256:HEX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256=")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Fingerprint {
    type Err = String;

    fn from_str(text: &str) -> Result<Fingerprint, String> {
        let digits = text.strip_prefix("sha256=").or(text.strip_prefix("sha256:")).unwrap_or(text);
        // openssl prints colons between the bytes.
        let digits: String = digits.chars().filter(|&c| c != ':').collect();
        let mut bytes = [0; 32];
        let wrong = || format!("`{text}` is no SHA-256 fingerprint: 64 hexadecimal digits");
        if digits.len() != 64 || !digits.is_ascii() {
            return Err(wrong());
        }
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).map_err(|_| wrong())?;
        }
        Ok(Fingerprint(bytes))
    }
}

/// A certificate, which those between it and its authority may follow, and its key, in two PEM
/// files or in one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientKey {
    /// The certificate.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

impl ClientKey {
    /// A certificate and its key, in PEM.
    pub fn new(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> ClientKey {
        ClientKey { certificate: certificate.into(), key: key.into() }
    }
}

/// What a node shows and trusts where users come with proxies of a grid: a folder as sites have it
/// at `/etc/grid-security`, with `hostcert.pem`, `hostkey.pem`, the folder `certificates` of
/// authorities, and `grid-mapfile` where there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GridSecurity {
    /// The folder.
    pub folder: PathBuf,
    /// Whether limited proxies, which jobs have, are taken, as other GridFTP servers do.
    pub limited_proxies: bool,
}

impl GridSecurity {
    /// That of `folder`, where limited proxies are taken.
    pub fn new(folder: impl Into<PathBuf>) -> GridSecurity {
        GridSecurity { folder: folder.into(), limited_proxies: true }
    }
}

/// What a user of a grid shows and trusts, for `gsiftp://`; what is absent is where every client of
/// grids looks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GridProxy {
    /// The proxy, its key and its chain in one PEM file; `$X509_USER_PROXY`, or `/tmp/x509up_uUID`.
    pub file: Option<PathBuf>,
    /// The folder of authorities; `$X509_CERT_DIR`, `~/.globus/certificates`, or
    /// `/etc/grid-security/certificates`.
    pub authorities: Option<PathBuf>,
}

/// Whom a client takes for the server it means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trust {
    /// Certificate authorities in a PEM file; the system's when absent.
    pub authorities: Option<PathBuf>,
    /// This certificate and no other, whoever signed it.
    pub fingerprint: Option<Fingerprint>,
}

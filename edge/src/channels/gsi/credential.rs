//! A certificate, the key to it, and those between it and an authority.

use super::proxy::kind_of;
use crate::channels::trust::subject_of_certificate;
use farline_core::gridftp::ProxyKind;
use farline_core::units::{Error, ErrorCode, Fault};
use openssl::asn1::Asn1TimeRef;
use openssl::error::ErrorStack;
use openssl::pkey::{PKey, Private};
use openssl::ssl::SslContextBuilder;
use openssl::x509::{X509, X509Ref};
use std::fmt::Display;
use std::path::Path;

/// What one end shows of itself.
pub(crate) struct Credential {
    /// The first is its own: it is never empty.
    chain: Vec<X509>,
    key: PKey<Private>,
}

impl Credential {
    /// Of two PEM files.
    ///
    /// # Errors
    /// When one cannot be read, or they do not belong together.
    pub(super) fn read(certificate: &Path, key: &Path) -> Result<Credential, Error> {
        let read = |path: &Path| std::fs::read(path).map_err(|error| wrong(path, &error));
        let chain = X509::stack_from_pem(&read(certificate)?);
        let chain = chain.map_err(|error| wrong(certificate, &error))?;
        let secret = PKey::private_key_from_pem_callback(&read(key)?, |_| Ok(0));
        let secret = secret.map_err(|error| wrong(key, &error))?;
        match chain.first().map(|own| own.public_key()) {
            Some(Ok(public)) if public.public_eq(&secret) => Ok(Credential { chain, key: secret }),
            Some(_) => Err(wrong(key, &"it is not the key of the certificate")),
            None => Err(wrong(certificate, &"no certificate is in it")),
        }
    }

    #[cfg(test)]
    pub(super) fn of(chain: Vec<X509>, key: PKey<Private>) -> Credential {
        Credential { chain, key }
    }

    /// Of what a peer delegated: the certificate that it signed for `key`, and its own chain;
    /// nothing when it is for another key.
    pub(super) fn delegated(chain: Vec<X509>, key: PKey<Private>) -> Option<Credential> {
        let public = chain.first()?.public_key().ok()?;
        public.public_eq(&key).then_some(Credential { chain, key })
    }

    /// Its own certificate.
    pub(super) fn first(&self) -> &X509Ref {
        &self.chain[0]
    }

    #[cfg(test)]
    pub(super) fn chain(&self) -> &[X509] {
        &self.chain
    }

    pub(super) fn key(&self) -> &PKey<Private> {
        &self.key
    }

    /// When the first of its chain expires.
    pub(super) fn ends(&self) -> &Asn1TimeRef {
        let ends = self.chain.iter().map(|certificate| certificate.not_after());
        ends.reduce(|first, other| if other < first { other } else { first })
            .unwrap_or_else(|| self.first().not_after())
    }

    /// The subject of the first of its chain that is no proxy.
    pub(super) fn subject(&self) -> Option<String> {
        let mut chain = self.chain.iter().filter_map(|certificate| certificate.to_der().ok());
        let own = chain.find(|der| kind_of(der) == Some(ProxyKind::EndEntity))?;
        subject_of_certificate(&own)
    }

    /// Has TLS show it.
    pub(super) fn show(&self, builder: &mut SslContextBuilder) -> Result<(), ErrorStack> {
        for (at, certificate) in self.chain.iter().enumerate() {
            match at {
                0 => builder.set_certificate(certificate)?,
                _ => builder.add_extra_chain_cert(certificate.clone())?,
            }
        }
        builder.set_private_key(&self.key)
    }
}

fn wrong(path: &Path, error: &dyn Display) -> Error {
    let message = format!("{}: {error}", path.display());
    Error::new(Fault::You, ErrorCode::BadCertificate, message).hint(
        "a folder as /etc/grid-security is wanted: hostcert.pem and hostkey.pem in PEM, without a password",
    )
}

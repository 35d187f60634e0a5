//! What kind of certificate one is: the core reads the extension, x509-parser finds it.

use farline_core::gridftp::ProxyKind;
use x509_parser::der_parser::oid;
use x509_parser::prelude::{FromDer, X509Certificate};

/// That of a certificate in DER; nothing when it cannot be read.
pub(super) fn kind_of(der: &[u8]) -> Option<ProxyKind> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let extension = oid!(1.3.6.1.5.5.7.1.14);
    let mut found = certificate.extensions().iter().filter(|other| other.oid == extension);
    let Some(info) = found.next() else { return Some(ProxyKind::EndEntity) };
    if found.next().is_some() {
        return None;
    }
    ProxyKind::of_extension(info.value)
}

//! How a certificate's subject is written.

use x509_parser::prelude::{FromDer, X509Certificate, X509Name};

/// A subject as OpenSSL's one line and grid-mapfiles have it: `/O=Site/CN=alice`.
pub(crate) fn subject_of(name: &X509Name<'_>) -> String {
    let mut text = String::new();
    for attribute in name.iter_attributes() {
        let kind = x509_parser::objects::oid2abbrev(
            attribute.attr_type(),
            x509_parser::objects::oid_registry(),
        );
        let kind = kind.map_or_else(|_| attribute.attr_type().to_id_string(), str::to_owned);
        // A slash within a value would read as another attribute, and a node must not be told
        // apart wrongly: what is not plain text matches nothing.
        let value = attribute.as_str().ok().filter(|value| !value.contains(['/', '\0']));
        text.push_str(&format!("/{kind}={}", value.unwrap_or("\u{fffd}")));
    }
    text
}

/// The subject of a certificate in DER; nothing when it is none.
pub(crate) fn subject_of_certificate(der: &[u8]) -> Option<String> {
    X509Certificate::from_der(der).ok().map(|(_, parsed)| subject_of(parsed.subject()))
}

//! What kind of certificate one is: a person's, or a proxy that speaks for somebody (RFC 3820).

use x509_parser::der_parser::oid;
use x509_parser::der_parser::parse_der;
use x509_parser::prelude::{FromDer, X509Certificate};

/// A certificate's place in a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// No proxy.
    Own,
    /// A proxy with all that its issuer may.
    Full,
    /// A proxy that may move files and start nothing: Globus' own language of policies.
    Limited,
    /// A proxy with rights of its own, or by a policy that is not understood here: it has none of
    /// its issuer's.
    Restricted,
}

impl Kind {
    /// That of a certificate in DER; nothing when it cannot be read.
    pub(super) fn of(der: &[u8]) -> Option<Kind> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let extension = oid!(1.3.6.1.5.5.7.1.14);
        let mut found = certificate.extensions().iter().filter(|other| other.oid == extension);
        let Some(info) = found.next() else { return Some(Kind::Own) };
        if found.next().is_some() {
            return None;
        }
        language(info.value)
    }
}

/// Reads `ProxyCertInfo ::= SEQUENCE { pCPathLenConstraint INTEGER OPTIONAL, proxyPolicy SEQUENCE {
/// policyLanguage OBJECT IDENTIFIER, policy OCTET STRING OPTIONAL } }`.
fn language(info: &[u8]) -> Option<Kind> {
    let (rest, info) = parse_der(info).ok()?;
    let policy = info.as_sequence().ok()?.last()?;
    let policy = policy.as_sequence().ok()?;
    let language = policy.first()?.as_oid().ok()?;
    if !rest.is_empty() {
        return None;
    }
    Some(match language {
        full if *full == oid!(1.3.6.1.5.5.7.21.1) => Kind::Full,
        limited if *limited == oid!(1.3.6.1.4.1.3536.1.1.1.9) => Kind::Limited,
        _ => Kind::Restricted,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_language_of_a_policy_says_what_a_proxy_is() {
        let info = |length: &[u8], language: &[u8]| {
            let policy =
                [&[0x30, language.len() as u8 + 2, 6, language.len() as u8], language].concat();
            [&[0x30, (length.len() + policy.len()) as u8], length, &policy].concat()
        };
        let full: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 21, 1];
        let limited: &[u8] = &[0x2b, 6, 1, 4, 1, 0x9b, 0x50, 1, 1, 1, 9];
        let independent: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 21, 2];
        assert_eq!(language(&info(&[], full)), Some(Kind::Full));
        assert_eq!(language(&info(&[2, 1, 3], limited)), Some(Kind::Limited));
        assert_eq!(language(&info(&[], independent)), Some(Kind::Restricted));
        assert_eq!(language(&[0x30, 0]), None);
        assert_eq!(language(&[]), None);
    }
}

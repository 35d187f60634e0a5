//! Whether a certificate is that of a host: an alternative name of it, or its common name where it
//! has none, as sites have had it before there were those (RFC 2818, section 3.1).

use std::net::IpAddr;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The services that common names of hosts begin with: `/CN=host/dtn2.example.org`.
const SERVICES: [&str; 2] = ["host/", "ftp/"];

/// Whether the certificate in DER names `host`. No other name of the host's is looked up: whoever
/// answers for its addresses could choose one.
pub(super) fn names(der: &[u8], host: &str) -> bool {
    let Ok((_, certificate)) = X509Certificate::from_der(der) else { return false };
    let address: Option<IpAddr> = host.parse().ok();
    let alternatives = certificate.subject_alternative_name().ok().flatten();
    let alternatives = alternatives.into_iter().flat_map(|names| &names.value.general_names);
    // Names of hosts alone: a person's address by mail next to them says nothing of the host.
    let is_hosts = |name: &&GeneralName<'_>| {
        matches!(name, GeneralName::DNSName(_) | GeneralName::IPAddress(_))
    };
    let mut alternatives = alternatives.filter(is_hosts).peekable();
    if alternatives.peek().is_some() {
        return alternatives.any(|name| match (name, address) {
            (GeneralName::DNSName(name), None) => is_same(name, host),
            (GeneralName::IPAddress(bytes), Some(IpAddr::V4(address))) => {
                *bytes == address.octets()
            }
            (GeneralName::IPAddress(bytes), Some(IpAddr::V6(address))) => {
                *bytes == address.octets()
            }
            _ => false,
        });
    }
    let mut common = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
    common.any(|name| {
        let service = SERVICES.iter().find_map(|service| name.strip_prefix(service));
        is_same(service.unwrap_or(name), host)
    })
}

/// RFC 2818, section 3.1, with a wildcard for one whole label at the left.
fn is_same(pattern: &str, host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    match pattern.strip_prefix("*.") {
        // Of a name with two labels at least after it.
        Some(rest) => host.split_once('.').is_some_and(|(first, domain)| {
            !first.is_empty() && rest.contains('.') && domain.eq_ignore_ascii_case(rest)
        }),
        None => pattern.eq_ignore_ascii_case(host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A certificate with this common name and these alternative names.
    fn certificate(common: &str, alternatives: &[&str]) -> Vec<u8> {
        let alternatives = alternatives.iter().map(|name| match name.split_once('@') {
            Some(_) => rcgen::SanType::Rfc822Name((*name).try_into().expect("text")),
            None => match name.parse() {
                Ok(address) => rcgen::SanType::IpAddress(address),
                Err(_) => rcgen::SanType::DnsName((*name).try_into().expect("text")),
            },
        });
        let mut params = rcgen::CertificateParams::default();
        params.subject_alt_names = alternatives.collect();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::CommonName, common);
        let key = rcgen::KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("a certificate").der().to_vec()
    }

    #[test]
    fn a_common_name_counts_where_no_other_name_is_of_a_host() {
        for (common, alternatives, host, is) in [
            ("host/dtn.example.org", &[][..], "dtn.example.org", true),
            ("dtn.example.org", &["admin@example.org"], "dtn.example.org", true),
            ("dtn.example.org", &["other.example.org"], "dtn.example.org", false),
            ("dtn.example.org", &["192.0.2.1"], "dtn.example.org", false),
            ("dtn.example.org", &["other.example.org"], "other.example.org", true),
            ("x", &["192.0.2.1", "2001:db8::1"], "2001:db8::1", true),
            ("192.0.2.2", &["192.0.2.1"], "192.0.2.2", false),
        ] {
            let shown = certificate(common, alternatives);
            assert_eq!(names(&shown, host), is, "{common} {alternatives:?} {host}");
        }
        assert!(!names(b"no certificate", "dtn.example.org"));
    }

    #[test]
    fn a_wildcard_stands_for_one_label() {
        for (pattern, host, is) in [
            ("dtn.example.org", "DTN.example.org.", true),
            ("dtn.example.org", "dtn2.example.org", false),
            ("*.example.org", "dtn.example.org", true),
            ("*.example.org", "a.dtn.example.org", false),
            ("*.example.org", "example.org", false),
            ("*.org", "example.org", false),
            ("*", "localhost", false),
            ("d*.example.org", "dtn.example.org", false),
        ] {
            assert_eq!(is_same(pattern, host), is, "{pattern} {host}");
        }
    }
}

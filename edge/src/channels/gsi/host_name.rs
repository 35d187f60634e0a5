//! Whether a certificate is that of a host, as Globus compares them by default (its "hybrid" way): an alternative
//! name of it (RFC 2818), or its common name, as sites have had it before there were those.

use std::net::IpAddr;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The services that common names of hosts begin with: `/CN=host/dtn2.example.org`.
const SERVICES: [&str; 2] = ["host/", "ftp/"];

/// Whether the certificate in DER names `host`. No other name of the host's is looked up: whoever answers
/// for its addresses could choose one.
pub(super) fn names(der: &[u8], host: &str) -> bool {
    let Ok((_, certificate)) = X509Certificate::from_der(der) else { return false };
    let address: Option<IpAddr> = host.parse().ok();
    let alternatives = certificate.subject_alternative_name().ok().flatten();
    let alternatives = alternatives.into_iter().flat_map(|names| &names.value.general_names);
    let mut common = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
    alternatives.into_iter().any(|name| match (name, address) {
        (GeneralName::DNSName(name), None) => is_same(name, host),
        (GeneralName::IPAddress(bytes), Some(IpAddr::V4(address))) => *bytes == address.octets(),
        (GeneralName::IPAddress(bytes), Some(IpAddr::V6(address))) => *bytes == address.octets(),
        _ => false,
    }) || common.any(|name| {
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

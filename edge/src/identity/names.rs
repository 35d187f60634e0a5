//! What a configuration says of client certificates: whose they are, and who signs them.

use super::Identities;
use crate::channels::trust::Fingerprint;
use farline_core::units::escaped;
use std::collections::{BTreeMap, BTreeSet};
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

impl Identities {
    /// That two are called the same, of whom one could never come in by its own rights; in words.
    pub(crate) fn same_names(&self) -> Option<String> {
        let mut names = BTreeSet::new();
        if let Some(twice) = self.people.iter().find(|person| !names.insert(&person.name)) {
            return Some(format!("two identities are called {}", escaped(&twice.name)));
        }
        let mut urls = BTreeMap::new();
        self.issuers.iter().zip(1..).find_map(|(issuer, number)| {
            let url = &issuer.issuer.url;
            let first: u32 = urls.insert(url, number)?;
            let shown = escaped(url);
            Some(format!("issuers {first} and {number} are both {shown}"))
        })
    }

    /// What is said of certificates and can mean nothing, or two things, with TLS or without, and
    /// with proxies of a grid or without; in words.
    pub(crate) fn wrong_certificates(&self, has_tls: bool, has_gsi: bool) -> Option<String> {
        let ClientAuthorities { certificates, revoked } = &self.authorities;
        if revoked.is_some() && certificates.is_none() {
            return Some("client_revoked says nothing without client_authorities".to_owned());
        }
        if certificates.is_some() && !has_tls {
            return Some("client_authorities says nothing without TLS".to_owned());
        }
        let mut seen: Vec<&CertificateName> = Vec::new();
        for person in &self.people {
            for name in &person.certificates {
                let said = match name {
                    CertificateName::Fingerprint(fingerprint) => format!("sha256={fingerprint}"),
                    CertificateName::Subject(subject) => escaped(subject).to_string(),
                };
                if seen.contains(&name) {
                    return Some(format!("the certificate {said} is of two identities"));
                }
                seen.push(name);
                let is_subject = matches!(name, CertificateName::Subject(_));
                if is_subject && certificates.is_none() && !has_gsi {
                    let who = escaped(&person.name);
                    return Some(format!(
                        "{said} of {who} says nothing without client_authorities, or gsi"
                    ));
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::{Grant, IdentityLimits, IdentityRights, Permissions, Person};

    fn people(names: &[(&str, &str)]) -> Identities {
        let person = |&(name, certificate): &(&str, &str)| Person {
            name: name.to_owned(),
            password: None,
            certificates: vec![certificate.parse().expect("a name")],
            voms: Vec::new(),
            grants: vec![Grant::new("/", Permissions::READ)],
            limits: IdentityLimits::default(),
            rights: IdentityRights::default(),
            clear_data: false,
            owner: None,
            calendar: None,
        };
        Identities { people: names.iter().map(person).collect(), ..Identities::default() }
    }

    #[test]
    fn certificates_of_nobody_or_of_two_are_refused() {
        let wrong = |identities: &Identities, has_gsi| {
            identities.wrong_certificates(true, has_gsi).unwrap_or_default()
        };
        let mut alone = people(&[("alice", "/O=Site/CN=alice")]);
        assert!(wrong(&alone, false).contains("/O=Site/CN=alice of alice"));
        assert_eq!(wrong(&alone, true), "");
        alone.authorities.revoked = Some("a.crl".into());
        assert!(wrong(&alone, true).contains("client_revoked"));
        alone.authorities.certificates = Some("a.pem".into());
        assert_eq!(wrong(&alone, false), "");
        assert!(alone.wrong_certificates(false, true).is_some());
        let twice = people(&[("alice", "/CN=a"), ("bob", "/CN=a")]);
        assert!(wrong(&twice, true).contains("of two identities"));
    }
}

//! Client certificates by rustls and x509-parser: which are looked at, and whose they are.

use super::{CertificateName, ClientAuthorities};
use crate::channels::trust::{Fingerprint, provider, subject_of_certificate};
use farline_core::units::{Error, ErrorCode, Fault};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme,
};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// What a client showed, and proved to have the key of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientCertificate {
    fingerprint: Fingerprint,
    /// `/O=Site/CN=alice`, of a certificate that an authority signed.
    subject: Option<String>,
    /// What servers of virtual organisations say of it.
    attributes: Vec<String>,
}

impl ClientCertificate {
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> ClientCertificate {
        ClientCertificate {
            fingerprint: Fingerprint::of(certificate),
            subject: subject_of_certificate(certificate),
            attributes: Vec::new(),
        }
    }

    /// The same, of whom servers of virtual organisations say this.
    pub(crate) fn with_attributes(self, attributes: Vec<String>) -> ClientCertificate {
        ClientCertificate { attributes, ..self }
    }

    /// Such as `/vo/group/Role=writer`; the first is the one that its owner prefers.
    pub(crate) fn attributes(&self) -> &[String] {
        &self.attributes
    }

    /// `/O=Site/CN=alice`; nothing when it cannot be read.
    pub(crate) fn subject(&self) -> Option<&str> {
        self.subject.as_deref()
    }

    /// The same, known by its fingerprint alone.
    pub(crate) fn without_subject(&self) -> ClientCertificate {
        ClientCertificate { subject: None, ..self.clone() }
    }

    pub(crate) fn is(&self, name: &CertificateName) -> bool {
        match name {
            CertificateName::Fingerprint(fingerprint) => *fingerprint == self.fingerprint,
            CertificateName::Subject(subject) => Some(subject) == self.subject.as_ref(),
        }
    }
}

/// Takes certificates that are known by themselves, and those of the authorities.
#[derive(Debug)]
pub(crate) struct ClientVerifier {
    known: Vec<Fingerprint>,
    authorities: Option<Arc<dyn ClientCertVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ClientVerifier {
    /// # Errors
    /// When a file cannot be read.
    pub(crate) fn new(
        known: Vec<Fingerprint>,
        files: &ClientAuthorities,
    ) -> Result<ClientVerifier, Error> {
        let provider = provider();
        let authorities = match &files.certificates {
            None => None,
            Some(path) => {
                let (mut roots, mut subjects) = (RootCertStore::empty(), Vec::new());
                for certificate in pem_of::<CertificateDer<'static>>(path)? {
                    subjects.extend(name_of(&certificate));
                    roots.add(certificate).map_err(|error| wrong(path, &error))?;
                }
                let builder = WebPkiClientVerifier::builder_with_provider(
                    Arc::new(roots),
                    Arc::clone(&provider),
                );
                let builder = match &files.revoked {
                    None => builder,
                    Some(path) => {
                        let lists = pem_of::<CertificateRevocationListDer<'static>>(path)?;
                        check_issuers(path, &lists, &subjects)?;
                        builder
                            .with_crls(lists)
                            .allow_unknown_revocation_status()
                            .enforce_revocation_expiration()
                    }
                };
                Some(builder.build().map_err(|error| {
                    match (&error, &files.revoked) {
                        (VerifierBuilderError::InvalidCrl(why), Some(revoked)) => wrong(
                            revoked,
                            &format!("a list is none of version 2 (RFC 5280): {why:?}"),
                        )
                        .hint("openssl ca -gencrl makes one of version 2 with `crl_extensions`"),
                        _ => wrong(path, &error),
                    }
                })?)
            }
        };
        Ok(ClientVerifier { known, authorities, provider })
    }
}

fn pem_of<T: PemObject>(path: &Path) -> Result<Vec<T>, Error> {
    let items = T::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match items {
        Ok(items) if items.is_empty() => Err(wrong(path, &"nothing of the kind is in it")),
        items => items.map_err(|error| wrong(path, &error)),
    }
}

/// A certificate's subject as it is encoded.
fn name_of(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    let (_, read) = x509_parser::parse_x509_certificate(certificate).ok()?;
    Some(read.subject().as_raw().to_vec())
}

/// Whether an authority's list of revoked certificates is against one, or does not hold any more.
fn is_taken_back(error: &rustls::Error) -> bool {
    use CertificateError::{ExpiredRevocationList, ExpiredRevocationListContext, Revoked};
    matches!(
        error,
        rustls::Error::InvalidCertificate(
            Revoked | ExpiredRevocationList | ExpiredRevocationListContext { .. }
        )
    )
}

/// Refuses what does not hold yet, or no more.
fn in_time(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), rustls::Error> {
    let (_, read) = x509_parser::parse_x509_certificate(certificate)
        .map_err(|_| CertificateError::BadEncoding)?;
    let (now, validity) = (i64::try_from(now.as_secs()).unwrap_or(i64::MAX), read.validity());
    if now > validity.not_after.timestamp() {
        return Err(CertificateError::Expired.into());
    }
    if now < validity.not_before.timestamp() {
        return Err(CertificateError::NotValidYet.into());
    }
    Ok(())
}

/// Refuses lists of which none can count: they are of authorities that nobody here trusts.
fn check_issuers(
    path: &Path,
    lists: &[CertificateRevocationListDer<'static>],
    authorities: &[Vec<u8>],
) -> Result<(), Error> {
    let mut issuers = Vec::new();
    for list in lists {
        let (_, read) = x509_parser::parse_x509_crl(list).map_err(|error| wrong(path, &error))?;
        if authorities.iter().any(|name| name == read.issuer().as_raw()) {
            return Ok(());
        }
        issuers.push(read.issuer().to_string());
    }
    let why = format!("lists of {}, which client_authorities does not name", issuers.join(" and "));
    Err(wrong(path, &why))
}

fn wrong(path: &Path, error: &dyn fmt::Display) -> Error {
    let message = format!("{}: {error}", path.display());
    Error::new(Fault::You, ErrorCode::BadCertificate, message).hint(
        "a PEM file with the authorities of clients, or with their revocation lists, is wanted",
    )
}

impl ClientCertVerifier for ClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // Clients keep a certificate back that no authority on the list signed; those known by
        // themselves are of none.
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let judged = match &self.authorities {
            Some(authorities) => authorities.verify_client_cert(end_entity, intermediates, now),
            None => Err(CertificateError::UnknownIssuer.into()),
        };
        if !self.known.contains(&Fingerprint::of(end_entity)) {
            return judged;
        }
        // Whoever signed it, it is known; but not what its authority took back, and not for ever.
        match judged {
            Err(error) if is_taken_back(&error) => Err(error),
            _ => in_time(end_entity, now).map(|()| ClientCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair};

    fn certificate(organisation: &str, name: &str) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, organisation);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("a certificate").der().clone()
    }

    #[test]
    fn a_certificate_is_known_by_its_print_or_its_subject() {
        let shown = certificate("Site", "alice");
        let client = ClientCertificate::of(&shown);
        let name = |text: &str| text.parse::<CertificateName>().expect("a name");
        assert!(client.is(&name("/O=Site/CN=alice")));
        assert!(!client.is(&name("/O=Site/CN=bob")) && !client.is(&name("/CN=alice")));
        assert!(client.is(&name(&Fingerprint::of(&shown).to_string())));
        assert!("alice".parse::<CertificateName>().is_err());
    }

    #[test]
    fn a_fingerprint_makes_nobody_else_by_the_name_in_it() {
        let (own, other) = (certificate("Site", "alice"), certificate("Site", "alice"));
        let person = |name: &str, certificate: String| {
            let text = format!(
                "name = '{name}'\ncertificates = ['{certificate}']\npaths = {{ '/' = 'read' }}"
            );
            toml::from_str::<crate::identity::IdentityFile>(&text).expect("TOML").build(false)
        };
        let mapfile = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(&mapfile, "\"/O=Site/CN=alice\" root\n").expect("written");
        let people = [
            person("alice", "/O=Site/CN=alice".to_owned()),
            person("root", "/CN=root".to_owned()),
            person("mallory", Fingerprint::of(&own).to_string()),
        ];
        let people = crate::identity::Identities {
            people: people.into_iter().collect::<Result<_, _>>().expect("valid"),
            grid_mapfile: Some(mapfile.path().to_owned()),
            ..Default::default()
        };
        let who = |user: &str, shown: &CertificateDer<'_>| {
            let shown = ClientCertificate::of(shown);
            let came = people.log_in(user.as_bytes(), b"", Some(&shown), &Default::default(), 0);
            came.map(|admitted| admitted.map(|admitted| admitted.name)).ok().flatten()
        };
        assert_eq!(who("anonymous", &own).as_deref(), Some("mallory"));
        assert_eq!(who("alice", &own), None);
        assert_eq!(who("root", &own), None, "not by the grid-mapfile either");
        assert_eq!(who("alice", &other).as_deref(), Some("alice"));
        assert_eq!(who("root", &other).as_deref(), Some("root"));
        assert_eq!(who(":globus-mapping:", &other).as_deref(), Some("alice"));
    }

    #[test]
    fn a_slash_in_a_name_makes_nobody_else_of_it() {
        let client = ClientCertificate::of(&certificate("Site/CN=alice", "x"));
        assert!(!client.is(&"/O=Site/CN=alice/CN=x".parse().expect("a name")));
    }

    #[test]
    fn a_list_counts_while_it_holds_and_only_its_authoritys() {
        let authority = |name: &str| {
            let mut params = CertificateParams::default();
            params.distinguished_name = rcgen::DistinguishedName::new();
            params.distinguished_name.push(DnType::CommonName, name);
            params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
            let key = KeyPair::generate().expect("a key");
            let pem = params.self_signed(&key).expect("a certificate").pem();
            (pem, rcgen::Issuer::new(params, key))
        };
        let signed = |serial: u64, by: &rcgen::Issuer<'static, KeyPair>| {
            let mut params = CertificateParams::default();
            params.serial_number = Some(serial.into());
            params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
            let key = KeyPair::generate().expect("a key");
            params.signed_by(&key, by).expect("a certificate").der().clone()
        };
        let list = |by: &rcgen::Issuer<'static, KeyPair>, until: i32| {
            let revoked = rcgen::RevokedCertParams {
                serial_number: 7_u64.into(),
                revocation_time: rcgen::date_time_ymd(2019, 1, 1),
                reason_code: None,
                invalidity_date: None,
            };
            let params = rcgen::CertificateRevocationListParams {
                this_update: rcgen::date_time_ymd(2019, 1, 1),
                next_update: rcgen::date_time_ymd(until, 1, 1),
                crl_number: 1_u64.into(),
                issuing_distribution_point: None,
                revoked_certs: vec![revoked],
                key_identifier_method: rcgen::KeyIdMethod::Sha256,
            };
            params.signed_by(by).expect("a list").pem().expect("PEM")
        };
        let (pem, own) = authority("own");
        let (_, other) = authority("other");
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("ca"), pem).expect("written");
        let knowing = |known: Vec<Fingerprint>, revoked: &str| {
            std::fs::write(at("crl"), revoked).expect("written");
            let (certificates, revoked) = (Some(at("ca")), Some(at("crl")));
            ClientVerifier::new(known, &ClientAuthorities { certificates, revoked })
        };
        let verifier = |revoked: &str| knowing(Vec::new(), revoked);
        let is_taken = |serial: u64, verifier: &ClientVerifier| {
            verifier.verify_client_cert(&signed(serial, &own), &[], UnixTime::now()).is_ok()
        };
        let current = verifier(&list(&own, 2090)).expect("a list");
        assert!(is_taken(6, &current) && !is_taken(7, &current));
        let over = verifier(&list(&own, 2020)).expect("a list");
        assert!(!is_taken(6, &over) && !is_taken(7, &over), "it may have got longer since");
        for (serial, until, is_taken) in [(6, 2090, true), (7, 2090, false), (6, 2020, false)] {
            let shown = signed(serial, &own);
            let known = knowing(vec![Fingerprint::of(&shown)], &list(&own, until)).expect("a list");
            let judged = known.verify_client_cert(&shown, &[], UnixTime::now());
            assert_eq!(judged.is_ok(), is_taken, "known by its print: {judged:?}");
        }
        let refused = verifier(&list(&other, 2090)).expect_err("of an authority that is not known");
        assert!(refused.message.contains("lists of CN=other"), "{refused}");
        verifier(&[list(&other, 2090), list(&own, 2090)].concat()).expect("one of them counts");
    }

    #[test]
    fn strangers_are_not_taken() {
        let (alice, stranger) = (certificate("Site", "alice"), certificate("Site", "alice"));
        let files = ClientAuthorities::default();
        let known = vec![Fingerprint::of(&alice)];
        let verifier = ClientVerifier::new(known, &files).expect("no file is read");
        assert!(verifier.verify_client_cert(&alice, &[], UnixTime::now()).is_ok());
        assert!(verifier.verify_client_cert(&stranger, &[], UnixTime::now()).is_err());
        // From 1975 to the year 4096, as rcgen makes them.
        for (seconds, why) in [(0, "NotValidYet"), (100_000_000_000, "Expired")] {
            let then = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
            let refused = verifier.verify_client_cert(&alice, &[], then).expect_err(why);
            assert!(refused.to_string().contains(why), "{refused}");
        }
    }
}

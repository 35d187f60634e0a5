//! TLS by rustls: a node's certificate, and how a client finds out whether it talks to the node.

use super::tickets::Tickets;
use super::{ClientKey, Duplex, Fingerprint, Trust};
use crate::sys::words::plain;
use aws_lc_rs::digest::{SHA256, digest};
use farline_core::units::{Error, ErrorCode, Fault, Setting};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::aws_lc_rs::{Ticketer, cipher_suite, default_provider};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
pub use rustls::{ClientConfig, ServerConfig};
use rustls::{DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// How long the handshake of a control connection may take the client.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// A certificate as a peer shows it.
pub(crate) type ShownCertificate = CertificateDer<'static>;

/// What encrypts a client's control connection: data connections of plain FTP servers go on from
/// it.
#[derive(Clone)]
pub(crate) struct ControlTls {
    pub(crate) name: ServerName<'static>,
    pub(crate) config: Arc<ClientConfig>,
    tickets: Arc<Tickets>,
    certificate: Option<Fingerprint>,
}

impl ControlTls {
    /// The certificate that the server showed.
    pub(crate) fn certificate(&self) -> Option<Fingerprint> {
        self.certificate
    }

    /// Whether a data connection can go on from it: each takes a ticket, and not all bring another.
    pub(crate) fn has_ticket(&self) -> bool {
        !self.tickets.is_empty()
    }
}

impl Fingerprint {
    /// That of `certificate`.
    pub fn of(certificate: &CertificateDer<'_>) -> Fingerprint {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, certificate).as_ref());
        Fingerprint(bytes)
    }
}

/// A node's key and certificate.
#[derive(Clone)]
#[non_exhaustive]
pub struct NodeCertificate {
    /// For the control channel and for data connections.
    pub config: Arc<ServerConfig>,
    chain: Vec<CertificateDer<'static>>,
    key: Arc<PrivateKeyDer<'static>>,
    /// Of the certificate.
    pub fingerprint: Fingerprint,
}

impl fmt::Debug for NodeCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeCertificate({})", self.fingerprint)
    }
}

/// Does the server's side of the handshake of a control connection; returns the connection and the
/// certificates that the client showed.
///
/// # Errors
/// When the client breaks TLS.
pub(crate) async fn accept_control(
    stream: impl Duplex + 'static,
    config: Arc<ServerConfig>,
) -> io::Result<(Box<dyn Duplex>, Vec<ShownCertificate>)> {
    let stream = TlsAcceptor::from(config).accept(stream).await?;
    let shown = stream.get_ref().1.peer_certificates().map(<[_]>::to_vec);
    Ok((Box::new(stream), shown.unwrap_or_default()))
}

/// Does the client's side of the handshake of a control connection to `host`.
///
/// # Errors
/// When the server breaks TLS, is not whom `trust` means, or takes too long.
pub(crate) async fn connect_control(
    stream: Box<dyn Duplex>,
    host: &str,
    trust: &Trust,
    own: Option<&ClientKey>,
) -> Result<(Box<dyn Duplex>, ControlTls), Error> {
    let (config, verifier) = client(trust, own)?;
    let name = ServerName::try_from(host.to_owned()).map_err(|_| {
        Error::new(Fault::You, ErrorCode::BadUrl, format!("`{host}` is no name for TLS"))
    })?;
    let tickets = Arc::<Tickets>::default();
    let mut config = ClientConfig::clone(&config);
    // Data connections of plain FTP servers go on from the control connection.
    config.resumption = Resumption::store(Arc::clone(&tickets) as _);
    let config = Arc::new(config);
    let handshake = TlsConnector::from(Arc::clone(&config)).connect(name.clone(), stream);
    let stream = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await;
    let stream = stream.map_err(|_| {
        Error::new(Fault::Between, ErrorCode::TlsTimeout, "the TLS handshake takes too long")
    })?;
    let stream = stream.map_err(|error| untrusted(host, trust, verifier.seen(), &error))?;
    let certificate = verifier.seen();
    Ok((Box::new(stream), ControlTls { name, config, tickets, certificate }))
}

/// What rustls says within an error of reading or writing.
fn said(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref())
}

/// Whether the other end ended TLS for the certificate that this one showed, or did not show (the
/// alerts of RFC 8446 section 6.2).
pub(crate) fn refuses_certificate(error: &io::Error) -> bool {
    use rustls::AlertDescription as Alert;
    matches!(
        said(error),
        Some(rustls::Error::AlertReceived(
            Alert::AccessDenied
                | Alert::BadCertificate
                | Alert::CertificateExpired
                | Alert::CertificateRequired
                | Alert::CertificateRevoked
                | Alert::CertificateUnknown
                | Alert::DecryptError
                | Alert::UnknownCA
                | Alert::UnsupportedCertificate
        ))
    )
}

/// Whether a certificate was no good for its time alone.
fn is_late(error: &io::Error) -> bool {
    use rustls::CertificateError as Wrong;
    matches!(
        said(error),
        Some(rustls::Error::InvalidCertificate(Wrong::Expired | Wrong::ExpiredContext { .. }))
    )
}

/// Whether an authority's own certificate was shown as a host's, for which rustls has no name of
/// its own.
fn is_an_authoritys(error: &io::Error) -> bool {
    use rustls::CertificateError::Other;
    let Some(rustls::Error::InvalidCertificate(Other(other))) = said(error) else { return false };
    matches!(other.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
}

/// The error of a handshake with `host` that failed for `error`, in which it showed what was
/// `seen`.
pub(crate) fn untrusted(
    host: &str,
    trust: &Trust,
    seen: Option<Fingerprint>,
    error: &std::io::Error,
) -> Error {
    match (trust.fingerprint, seen) {
        (_, None) => {
            Error::new(Fault::There, ErrorCode::TlsFailed, format!("TLS with {}: {error}", host))
        }
        (Some(wanted), Some(seen)) => {
            let message = format!("{} shows another certificate than {wanted}: {seen}", host);
            Error::new(Fault::Refused, ErrorCode::TlsUntrusted, message).hint(
                "somebody may stand between; if the node has a new key, its operator tells \
                    the new fingerprint; a pin is of the node's own certificate, and not of an \
                    authority",
            )
        }
        (None, Some(seen)) if is_an_authoritys(error) => {
            let message = format!("{host} shows the certificate of an authority as its own");
            Error::new(Fault::Refused, ErrorCode::TlsUntrusted, message).hint(format!(
                "if its operator confirms it: {} {seen}; or the node has a certificate that the \
                 authority signed (openssl req -addext basicConstraints=CA:FALSE)",
                Setting::TlsPin
            ))
        }
        (None, Some(seen)) => {
            let hint = match is_late(error) {
                true => "its certificate is over: its operator must renew it; or the clock of this host is wrong".to_owned(),
                false => format!(
                    "name its authority with {} FILE or, if its operator confirms it, {} {seen}",
                    Setting::TlsCa,
                    Setting::TlsPin
                ),
            };
            let message = format!("{host} cannot be trusted: {error}");
            Error::new(Fault::Refused, ErrorCode::TlsUntrusted, message).hint(hint)
        }
    }
}

/// TLS 1.3 with AES-GCM, for which processors have instructions.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    let cipher_suites =
        vec![cipher_suite::TLS13_AES_128_GCM_SHA256, cipher_suite::TLS13_AES_256_GCM_SHA384];
    Arc::new(CryptoProvider { cipher_suites, ..default_provider() })
}

impl NodeCertificate {
    /// A fresh key with a certificate that it signed itself: trusted by its fingerprint alone.
    ///
    /// # Errors
    /// When no key can be made.
    pub fn fresh() -> Result<NodeCertificate, Error> {
        let failed = |error: &dyn fmt::Display| {
            Error::new(Fault::Here, ErrorCode::NoKey, format!("cannot make a TLS key: {error}"))
        };
        let made = rcgen::generate_simple_self_signed(vec!["farline".to_owned()])
            .map_err(|error| failed(&error))?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        NodeCertificate::of(vec![made.cert.der().clone()], key).map_err(|error| failed(&error))
    }

    /// The certificate chain and the key in two PEM files.
    ///
    /// # Errors
    /// When a file cannot be read, or the two do not belong together.
    pub fn read(certificate: &Path, key: &Path) -> Result<NodeCertificate, Error> {
        let (chain, secret) = read_key(certificate, key)?;
        NodeCertificate::of(chain, secret).map_err(|error| wrong_key(key, &error))
    }

    fn of(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<NodeCertificate, rustls::Error> {
        let fingerprint =
            chain.first().map(Fingerprint::of).ok_or(rustls::Error::NoCertificatesPresented)?;
        let config =
            server(WebPkiClientVerifier::no_client_auth(), chain.clone(), key.clone_key())?;
        Ok(NodeCertificate { config, chain, key: Arc::new(key), fingerprint })
    }

    /// The same, which asks clients for certificates and has `verifier` look at them.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub(crate) fn asking(
        self,
        verifier: Arc<dyn ClientCertVerifier>,
    ) -> Result<NodeCertificate, Error> {
        let config = server(verifier, self.chain.clone(), self.key.clone_key());
        let config =
            config.map_err(|error| Error::new(Fault::Bug, ErrorCode::NoTls, error.to_string()))?;
        Ok(NodeCertificate { config, ..self })
    }

    /// TLS for one session: what resumes its control connection's TLS is of the same client.
    ///
    /// # Errors
    /// When there is no randomness.
    pub(crate) fn for_session(&self) -> Result<SessionTls, Error> {
        let tickets = Ticketer::new()
            .map_err(|error| Error::new(Fault::Here, ErrorCode::NoRandomness, error.to_string()))?;
        let with = |count| {
            let mut config = ServerConfig::clone(&self.config);
            (config.ticketer, config.send_tls13_tickets) = (Arc::clone(&tickets), count);
            Arc::new(config)
        };
        Ok(SessionTls { control: with(TICKETS), data: with(0) })
    }
}

/// Tickets that a client gets with its control connection, of which each data connection of a plain
/// FTP client takes one. None comes with a data connection: who only sends over it might never read
/// one, and its end would be a reset.
const TICKETS: usize = 16;

/// What one session's connections are encrypted with.
#[derive(Clone, Debug)]
pub(crate) struct SessionTls {
    pub(crate) control: Arc<ServerConfig>,
    pub(crate) data: Arc<ServerConfig>,
}

fn server(
    verifier: Arc<dyn ClientCertVerifier>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, rustls::Error> {
    let builder = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?;
    let mut config = builder.with_client_cert_verifier(verifier).with_single_cert(chain, key)?;
    // A ticket is a message that the receiver of one direction might never read.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(Arc::new(config))
}

fn wrong_key(path: &Path, error: &dyn fmt::Display) -> Error {
    let message = format!("{}: {error}", path.display());
    Error::new(Fault::You, ErrorCode::BadCertificate, message)
        .hint("a PEM file with the certificate, and one with its private key, are wanted")
}

/// The PEM file at `path` could not be read, or has nothing of what is wanted.
fn wrong_pem(path: &Path, error: &pem::Error) -> Error {
    match error {
        pem::Error::Io(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let message = format!("{}: {}", path.display(), plain(error));
            Error::new(Fault::You, ErrorCode::BadCertificate, message).hint(
                "have the user as whom this runs own or read it: programs that renew certificates \
                 often leave keys to root alone",
            )
        }
        _ => wrong_key(path, error),
    }
}

fn read_key(
    certificate: &Path,
    key: &Path,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Error> {
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| wrong_pem(certificate, &error))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong_pem(key, &error))?;
    if chain.is_empty() {
        return Err(wrong_key(certificate, &"no certificate is in it"));
    }
    Ok((chain, secret))
}

/// Takes one certificate, or asks `authorities`; keeps what it saw.
#[derive(Debug)]
pub(crate) struct Verifier {
    provider: Arc<CryptoProvider>,
    pinned: Option<Fingerprint>,
    authorities: Option<Arc<WebPkiServerVerifier>>,
    seen: Mutex<Option<Fingerprint>>,
}

impl Verifier {
    /// The certificate that the server showed.
    pub(crate) fn seen(&self) -> Option<Fingerprint> {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A client's TLS that trusts the certificate with this fingerprint alone.
///
/// # Errors
/// When TLS cannot be set up.
pub(crate) fn pinned(fingerprint: Fingerprint) -> Result<Arc<ClientConfig>, Error> {
    client(&Trust { authorities: None, fingerprint: Some(fingerprint) }, None)
        .map(|(config, _)| config)
}

/// A client's TLS, and its verifier, which tells afterwards what the server showed.
///
/// # Errors
/// When the authorities, or the client's own certificate, cannot be read.
pub(crate) fn client(
    trust: &Trust,
    own: Option<&ClientKey>,
) -> Result<(Arc<ClientConfig>, Arc<Verifier>), Error> {
    let provider = provider();
    let authorities = match trust.fingerprint {
        Some(_) => None,
        None => {
            let roots = Arc::new(roots(trust.authorities.as_deref())?);
            let built =
                WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
            Some(built.map_err(|error| {
                Error::new(
                    Fault::Here,
                    ErrorCode::NoAuthorities,
                    format!("no certificate authority to trust: {error}"),
                )
                .hint(format!(
                    "install ca-certificates, or say whom to trust with {} FILE or {}",
                    Setting::TlsCa,
                    Setting::TlsPin
                ))
            })?)
        }
    };
    let verifier = Arc::new(Verifier {
        provider: Arc::clone(&provider),
        pinned: trust.fingerprint,
        authorities,
        seen: Mutex::default(),
    });
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13]);
    let builder =
        builder.map_err(|error| Error::new(Fault::Bug, ErrorCode::NoTls, error.to_string()))?;
    let verifier_of_config = Arc::clone(&verifier);
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier_of_config);
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let (chain, key) = read_key(&own.certificate, &own.key)?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| wrong_key(&own.key, &error))?
        }
    };
    config.resumption = Resumption::disabled();
    Ok((Arc::new(config), verifier))
}

fn roots(file: Option<&Path>) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    let Some(file) = file else {
        // Certificates of the system that cannot be read are not trusted; none at all is told by
        // the builder.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(roots);
    };
    let wrong = |error: &dyn fmt::Display| {
        Error::new(Fault::You, ErrorCode::BadCertificate, format!("{}: {error}", file.display()))
    };
    let certificates: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    let certificates = certificates.map_err(|error| wrong(&error))?;
    if certificates.is_empty() {
        return Err(wrong(&"no certificate is in it"));
    }
    for certificate in certificates {
        roots.add(certificate).map_err(|error| wrong(&error))?;
    }
    Ok(roots)
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let seen = Fingerprint::of(certificate);
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen);
        match (&self.authorities, self.pinned) {
            (_, Some(pinned)) if pinned == seen => Ok(ServerCertVerified::assertion()),
            (Some(authorities), None) => {
                authorities.verify_server_cert(certificate, intermediates, name, ocsp, now)
            }
            _ => Err(rustls::Error::InvalidCertificate(
                rustls::CertificateError::ApplicationVerificationFailure,
            )),
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.2 is not spoken here".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_is_over_is_its_operators_to_renew() {
        let hint = |wrong: rustls::CertificateError| {
            let error = rustls::Error::InvalidCertificate(wrong);
            let error = io::Error::new(io::ErrorKind::InvalidData, error);
            let seen = Some(Fingerprint::of(&CertificateDer::from_slice(b"a certificate")));
            untrusted("dtn", &Trust::default(), seen, &error).hint.unwrap_or_default()
        };
        assert!(hint(rustls::CertificateError::Expired).contains("renew"));
        assert!(hint(rustls::CertificateError::UnknownIssuer).contains("`Setting::TlsCa` FILE"));
    }

    #[test]
    fn a_key_that_may_not_be_read_is_no_wrong_key() {
        let hint = |kind: io::ErrorKind| {
            let error = wrong_pem(Path::new("node.key"), &pem::Error::Io(kind.into()));
            assert!(error.message.starts_with("node.key: "), "{error}");
            error.hint.unwrap_or_default()
        };
        assert!(hint(io::ErrorKind::PermissionDenied).contains("to root alone"));
        assert!(hint(io::ErrorKind::InvalidData).contains("a PEM file"));
    }

    #[test]
    fn an_authoritys_certificate_shown_as_a_hosts_is_called_so() {
        let mut params = rcgen::CertificateParams::new(vec!["dtn".to_owned()]).expect("a name");
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().expect("a key");
        let shown = params.self_signed(&key).expect("a certificate");
        let mut roots = RootCertStore::empty();
        roots.add(shown.der().clone()).expect("an authority");
        let provider = Arc::new(default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        let name = ServerName::try_from("dtn").expect("a name");
        let refused = verifier.build().expect("a verifier").verify_server_cert(
            shown.der(),
            &[],
            &name,
            &[],
            UnixTime::now(),
        );
        let error = io::Error::new(io::ErrorKind::InvalidData, refused.expect_err("refused"));
        let seen = Some(Fingerprint::of(shown.der()));
        let error = untrusted("dtn", &Trust::default(), seen, &error);
        assert!(error.message.contains("of an authority as its own"), "{error}");
    }
}

//! TLS 1.3 of a calendar: its certificate, which it makes and keeps where it has none, and clients'
//! certificates, which are known by their fingerprints.

use crate::channels::trust::Fingerprint;
use farline_core::units::{Error, ErrorCode, Fault};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

/// The names of the files of a certificate that was made here.
const FILES: [&str; 2] = ["certificate.pem", "key.pem"];

/// Takes any client certificate whose owner shows that the key is his; who that is, and whether he
/// may do anything, is asked of the fingerprint.
#[derive(Debug)]
struct ByFingerprint(Arc<CryptoProvider>);

impl ClientCertVerifier for ByFingerprint {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
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
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Writes a file that its owner alone may read, unless it is there.
pub(super) fn write_secret(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// The server's TLS with the certificate in `files`, or that of the `state` folder; and the
/// certificate's fingerprint.
///
/// # Errors
/// When a file cannot be read or made, or the two do not belong together.
pub(super) fn server(
    files: Option<&(std::path::PathBuf, std::path::PathBuf)>,
    state: &Path,
) -> Result<(Arc<ServerConfig>, Fingerprint), Error> {
    let (certificate, key) = match files {
        Some((certificate, key)) => (certificate.clone(), key.clone()),
        None => {
            let [certificate, key] = FILES.map(|name| state.join(name));
            if !key.exists() || !certificate.exists() {
                make(&certificate, &key)?;
            }
            (certificate, key)
        }
    };
    let wrong = |path: &Path, error: &dyn std::fmt::Display| {
        let message = format!("{}: {error}", path.display());
        Error::new(Fault::You, ErrorCode::BadCertificate, message)
            .hint("a PEM file with the certificate, and one with its private key, are wanted")
    };
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(&certificate).and_then(Iterator::collect);
    let chain = chain.map_err(|error| wrong(&certificate, &error))?;
    let secret = PrivateKeyDer::from_pem_file(&key).map_err(|error| wrong(&key, &error))?;
    let Some(first) = chain.first() else {
        return Err(wrong(&certificate, &"no certificate is in it"));
    };
    let fingerprint = Fingerprint::of(first);
    let provider = Arc::new(default_provider());
    let verifier = Arc::new(ByFingerprint(Arc::clone(&provider)));
    let built = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .and_then(|builder| {
            builder.with_client_cert_verifier(verifier).with_single_cert(chain, secret)
        });
    let mut config = built.map_err(|error| wrong(&key, &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // Without tickets there is no early data, and so nothing that could be sent twice.
    config.send_tls13_tickets = 0;
    config.max_early_data_size = 0;
    Ok((Arc::new(config), fingerprint))
}

/// Makes a key, and a certificate that it signs itself: clients know it by its fingerprint, or take
/// the file for an authority.
fn make(certificate: &Path, key: &Path) -> Result<(), Error> {
    let failed = |error: &dyn std::fmt::Display| {
        Error::new(Fault::Here, ErrorCode::NoKey, format!("cannot make a TLS key: {error}"))
    };
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).map_err(|error| failed(&error))?;
    let _ = fs::remove_file(key);
    write_secret(key, &made.signing_key.serialize_pem()).map_err(|error| failed(&error))?;
    fs::write(certificate, made.cert.pem()).map_err(|error| failed(&error))
}

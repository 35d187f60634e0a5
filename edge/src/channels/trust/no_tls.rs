//! What stands in for TLS where this build has none: no key is made, no connection encrypted.

use super::{ClientKey, Duplex, Fingerprint, Trust};
use farline_core::units::Error;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A client's TLS: there is none.
#[derive(Debug)]
pub enum ClientConfig {}

/// A node's TLS: there is none.
#[derive(Debug)]
pub enum ServerConfig {}

/// A certificate as a peer shows it: nobody does.
#[derive(Clone, Debug)]
pub(crate) enum ShownCertificate {}

/// What encrypts a client's control connection: nothing does.
#[derive(Clone)]
pub(crate) enum ControlTls {}

impl ControlTls {
    pub(crate) fn certificate(&self) -> Option<Fingerprint> {
        match *self {}
    }

    pub(crate) fn has_ticket(&self) -> bool {
        match *self {}
    }
}

/// What one session's connections are encrypted with: nothing.
#[derive(Clone, Debug)]
pub(crate) struct SessionTls {
    pub(crate) control: Arc<ServerConfig>,
    pub(crate) data: Arc<ServerConfig>,
}

/// A node's key and certificate: none can be made.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeCertificate {
    /// For the control channel and for data connections.
    pub config: Arc<ServerConfig>,
    /// Of the certificate.
    pub fingerprint: Fingerprint,
}

fn no_tls() -> Error {
    Error::not_built("TLS", "tls")
}

impl Fingerprint {
    /// That of `certificate`.
    pub(crate) fn of(certificate: &ShownCertificate) -> Fingerprint {
        match *certificate {}
    }
}

impl NodeCertificate {
    /// # Errors
    /// Always: this build has no TLS.
    pub fn fresh() -> Result<NodeCertificate, Error> {
        Err(no_tls())
    }

    /// # Errors
    /// Always: this build has no TLS.
    pub fn read(_: &Path, _: &Path) -> Result<NodeCertificate, Error> {
        Err(no_tls())
    }

    pub(crate) fn asking<V>(self, _: Arc<V>) -> Result<NodeCertificate, Error> {
        match *self.config {}
    }

    pub(crate) fn for_session(&self) -> Result<SessionTls, Error> {
        match *self.config {}
    }
}

/// What a server showed: nothing.
#[derive(Debug)]
pub(crate) enum Verifier {}

impl Verifier {
    pub(crate) fn seen(&self) -> Option<Fingerprint> {
        match *self {}
    }
}

pub(crate) fn client(
    _: &Trust,
    _: Option<&ClientKey>,
) -> Result<(Arc<ClientConfig>, Arc<Verifier>), Error> {
    Err(no_tls())
}

pub(crate) fn refuses_certificate(_: &io::Error) -> bool {
    false
}

pub(crate) fn untrusted(_: &str, _: &Trust, _: Option<Fingerprint>, _: &io::Error) -> Error {
    no_tls()
}

pub(crate) fn pinned(_: Fingerprint) -> Result<Arc<ClientConfig>, Error> {
    Err(no_tls())
}

pub(crate) async fn accept_control(
    _: impl Duplex + 'static,
    config: Arc<ServerConfig>,
) -> io::Result<(Box<dyn Duplex>, Vec<ShownCertificate>)> {
    match *config {}
}

pub(crate) async fn connect_control(
    _: Box<dyn Duplex>,
    _: &str,
    _: &Trust,
    _: Option<&ClientKey>,
) -> Result<(Box<dyn Duplex>, ControlTls), Error> {
    Err(no_tls())
}

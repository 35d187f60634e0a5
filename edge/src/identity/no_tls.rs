//! What stands in for passwords, tokens and client certificates where this build has no TLS, over
//! which alone they are shown: nobody has any.

use super::calendar_rights::CalendarScope;
use super::{CertificateName, ClientAuthorities, Grant, Identities, Issuer};
use crate::channels::trust::{Fingerprint, ShownCertificate};
use farline_core::units::Error;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// A password as a configuration has it: none is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPassword(Infallible);

impl StoredPassword {
    /// # Errors
    /// Always: this build has no TLS.
    pub fn new(_: &str) -> Result<StoredPassword, String> {
        Err(Error::not_built("TLS", "tls").message)
    }

    pub(super) fn start(&self, _: Duration) -> Result<(), Error> {
        match self.0 {}
    }

    pub(super) fn pam_turns(&self) -> Option<Arc<Semaphore>> {
        match self.0 {}
    }

    pub(super) fn is(&self, _: Option<&str>, _: &[u8]) -> Result<bool, String> {
        match self.0 {}
    }
}

pub(super) fn stand_in<'a>(_: &[u8], _: &[&'a StoredPassword]) -> Option<&'a StoredPassword> {
    None
}

pub(super) fn compare_with_none(_: &[u8], _: Option<&StoredPassword>) {}

/// What a token lets its bearer do: nobody comes with one.
pub(super) struct Allowed {
    pub(super) subject: String,
    pub(super) grants: Vec<Grant>,
    pub(super) calendar: Option<CalendarScope>,
}

pub(super) fn issuer_of(_: &[u8]) -> Option<String> {
    None
}

pub(super) fn key_id_of(_: &[u8]) -> Option<String> {
    None
}

/// The keys of issuers: there are none.
#[derive(Debug, Default)]
pub(crate) struct KeySets(());

impl KeySets {
    /// # Errors
    /// Never.
    pub(crate) fn new(_: &Identities) -> Result<KeySets, Error> {
        Ok(KeySets(()))
    }

    pub(super) fn of(&self, _: &str, _: Option<&str>, _: Instant) -> Result<Arc<str>, String> {
        Err(Error::not_built("TLS", "tls").message)
    }
}

impl Issuer {
    pub(super) fn judge(&self, _: &[u8], _: &str, _: u64) -> Result<Allowed, String> {
        Err(Error::not_built("TLS", "tls").message)
    }
}

/// What a client showed: nobody shows anything.
#[derive(Clone, Debug)]
pub(crate) struct ClientCertificate(Infallible);

impl ClientCertificate {
    pub(crate) fn of(certificate: &ShownCertificate) -> ClientCertificate {
        match *certificate {}
    }

    pub(crate) fn subject(&self) -> Option<&str> {
        match self.0 {}
    }

    pub(crate) fn with_attributes(self, _: Vec<String>) -> ClientCertificate {
        match self.0 {}
    }

    pub(crate) fn attributes(&self) -> &[String] {
        match self.0 {}
    }

    pub(crate) fn without_subject(&self) -> ClientCertificate {
        match self.0 {}
    }

    pub(crate) fn is(&self, _: &CertificateName) -> bool {
        match self.0 {}
    }
}

/// What looks at certificates: nothing does.
#[derive(Debug)]
pub(crate) struct ClientVerifier(Infallible);

impl ClientVerifier {
    /// # Errors
    /// Always: this build has no TLS.
    pub(crate) fn new(_: Vec<Fingerprint>, _: &ClientAuthorities) -> Result<ClientVerifier, Error> {
        Err(Error::not_built("TLS", "tls"))
    }
}

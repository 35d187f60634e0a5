//! GSI, the security of grids: TLS whose peers show proxies, certificates that users sign
//! themselves for a day (RFC 3820), for control channels in tokens of GSSAPI and for data
//! connections as they are.
//!
//! By OpenSSL: rustls takes no chain in which a user's certificate signs another. What is on the
//! wire is Globus' `gssapi_gsi`, which nothing but its source describes:
//!
//! | step | initiator (TLS client) | acceptor (TLS server) |
//! |---|---|---|
//! | handshake | with its certificate | with its certificate |
//! | if it has nothing to send at the handshake's end (TLS 1.3) | | a byte 0 |
//! | flag | `D` to delegate, `0` not to | |
//! | after `D` | | a certificate request, DER |
//! | | the certificate that it signed, DER; from some, its own chain after it | |
//!
//! On a control channel each arrow is a token of `ADAT`. On a data connection the bytes go as they
//! are, and who connects is the initiator: where data then goes in the clear the flag is `0`; where
//! it goes within TLS there is neither byte nor flag.

mod acceptor;
mod authorities;
mod credential;
mod data;
mod delegate;
mod host_name;
mod initiator;
mod later;
mod pipe;
mod policy;
mod proxy;
mod revocations;
#[cfg(test)]
mod tests;
mod user_proxy;
mod voms;

pub(crate) use acceptor::{Acceptor, GssContext, Step};
pub(crate) use authorities::Peer;
pub(crate) use data::DataSecurity;
pub(crate) use initiator::{Distrust, Initiator, WantedServer};
pub(crate) use user_proxy::UserProxy;

use super::trust::GridSecurity;
use crate::sys::lock::lock;
use authorities::Authorities;
use credential::Credential;
use farline_core::units::Error;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

/// What a node needs to accept who comes with a proxy.
pub(crate) struct Gsi {
    certificate: PathBuf,
    key: PathBuf,
    authorities: Authorities,
    limited_proxies: bool,
    /// What was read last, and when its files were changed.
    read: Mutex<(Times, Arc<Credential>)>,
    /// What became of files that changed, until somebody asks.
    news: Mutex<Option<String>>,
}

/// When the certificate and the key were changed.
type Times = [Option<SystemTime>; 2];

impl fmt::Debug for Gsi {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gsi({})", self.certificate.display())
    }
}

impl Gsi {
    /// Reads the node's own certificate and key, and looks at the folder of authorities.
    ///
    /// # Errors
    /// When a file cannot be read, or the folder has no authorities.
    pub(crate) fn open(settings: &GridSecurity) -> Result<Gsi, Error> {
        let at = |name: &str| settings.folder.join(name);
        let (certificate, key) = (at("hostcert.pem"), at("hostkey.pem"));
        let authorities = Authorities::open(at("certificates"))?;
        let read = (changed(&certificate, &key), Arc::new(Credential::read(&certificate, &key)?));
        let limited_proxies = settings.limited_proxies;
        let (read, news) = (Mutex::new(read), Mutex::default());
        Ok(Gsi { certificate, key, authorities, limited_proxies, read, news })
    }

    /// The acceptor's end of an exchange, at its beginning. Reads files.
    ///
    /// # Errors
    /// In words, when OpenSSL cannot be set up.
    pub(crate) fn accept(&self) -> Result<Acceptor, String> {
        Acceptor::new(&self.credential(), &self.authorities, self.limited_proxies)
    }

    /// The node's own certificate: a renewed one counts from the next client on. One that cannot be
    /// read, because it is being written or is damaged, leaves the last good one in force.
    fn credential(&self) -> Arc<Credential> {
        let mut read = lock(&self.read);
        let now = changed(&self.certificate, &self.key);
        if now != read.0 {
            *lock(&self.news) = Some(match Credential::read(&self.certificate, &self.key) {
                Ok(credential) => {
                    *read = (now, Arc::new(credential));
                    format!("read again: {}", self.certificate.display())
                }
                Err(error) => format!("what was there before stays in force: {error}"),
            });
        }
        Arc::clone(&read.1)
    }

    /// What became of the node's own certificate since this was asked last, for its operator.
    pub(crate) fn news(&self) -> Option<String> {
        lock(&self.news).take()
    }
}

fn changed(certificate: &PathBuf, key: &PathBuf) -> Times {
    [certificate, key].map(|path| path.metadata().and_then(|found| found.modified()).ok())
}

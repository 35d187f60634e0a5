//! The proxy of whoever runs this program, and whom its grid trusts: in the files where every
//! client of grids looks.

use super::DataSecurity;
use super::authorities::Authorities;
use super::credential::Credential;
use crate::channels::trust::GridProxy;
use crate::sys::clock::since_1970;
use farline_core::units::{Error, ErrorCode, Fault};
use openssl::asn1::Asn1Time;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MAKE_ONE: &str = "make one with grid-proxy-init or voms-proxy-init, or name its file in \
                        X509_USER_PROXY";

/// A proxy that is good now.
#[derive(Clone)]
pub(crate) struct UserProxy {
    pub(super) own: Arc<Credential>,
    pub(super) authorities: Authorities,
    subject: String,
}

impl UserProxy {
    /// That of `settings`, or where every client of grids looks: `X509_USER_PROXY` or
    /// `/tmp/x509up_uUID`, and `X509_CERT_DIR`, `~/.globus/certificates` or
    /// `/etc/grid-security/certificates`.
    ///
    /// # Errors
    /// When there is none, it is not good any more, others may read it, or no authority is known.
    pub(crate) fn find(settings: &GridProxy) -> Result<UserProxy, Error> {
        let set = |name: &str| {
            std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
        };
        let file = settings.file.clone().or_else(|| set("X509_USER_PROXY"));
        let file = file.unwrap_or_else(|| {
            format!("/tmp/x509up_u{}", rustix::process::geteuid().as_raw()).into()
        });
        let own = read(&file)?;
        let subject = own.subject().ok_or_else(|| {
            wrong(&file, "its chain lacks the certificate of the user who signed it")
        })?;
        let folder = settings.authorities.clone().or_else(|| set("X509_CERT_DIR"));
        let folder = folder.unwrap_or_else(|| {
            let own = set("HOME").map(|home| home.join(".globus/certificates"));
            let own = own.filter(|folder| folder.is_dir());
            own.unwrap_or_else(|| "/etc/grid-security/certificates".into())
        });
        let authorities = Authorities::open(folder).map_err(|error| {
            error.hint(
                "install your grid's certificates of authorities, or name their folder in X509_CERT_DIR",
            )
        })?;
        Ok(UserProxy { own: Arc::new(own), authorities, subject })
    }

    /// The user's own name, which is not the proxy's: `/O=Site/CN=alice`.
    pub(crate) fn subject(&self) -> &str {
        &self.subject
    }

    /// Where it looks for authorities.
    pub(crate) fn authorities(&self) -> &Path {
        self.authorities.folder()
    }

    /// How this end authenticates data connections with whoever it delegated to.
    pub(crate) fn data(&self) -> DataSecurity {
        DataSecurity::new(Arc::clone(&self.own), self.authorities.clone(), self.subject.clone())
    }
}

fn wrong(file: &Path, what: &str) -> Error {
    let message = format!("the proxy {}: {what}", file.display());
    Error::new(Fault::You, ErrorCode::NoProxy, message).hint(MAKE_ONE)
}

fn read(file: &Path) -> Result<Credential, Error> {
    let meta = file.metadata().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            let message = format!("there is no proxy of a grid at {}", file.display());
            Error::new(Fault::You, ErrorCode::NoProxy, message).hint(MAKE_ONE)
        }
        _ => wrong(file, &error.to_string()),
    })?;
    // It has no password: whoever reads it is its owner.
    if meta.permissions().mode() & 0o077 != 0 {
        let error = wrong(file, "others may read it");
        return Err(error.hint(format!("chmod 600 {}, or make a new one", file.display())));
    }
    if meta.uid() != rustix::process::geteuid().as_raw() && !rustix::process::geteuid().is_root() {
        return Err(wrong(file, "it belongs to another user"));
    }
    let own = Credential::read(file, file).map_err(|error| {
        Error { code: ErrorCode::NoProxy, ..error.while_doing("the proxy".to_owned()) }
            .hint(MAKE_ONE)
    })?;
    let now = i64::try_from(since_1970().as_secs()).unwrap_or(i64::MAX);
    let is_over = Asn1Time::from_unix(now).is_ok_and(|now| *own.ends() < now);
    if is_over {
        return Err(wrong(file, &format!("it expired at {}", own.ends())));
    }
    Ok(own)
}

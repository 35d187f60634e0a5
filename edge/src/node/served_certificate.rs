//! What a node shows under TLS, and whose certificates it takes: read again when a file of them
//! changes, so that a renewed certificate, and what an authority took back, count without a new
//! start.

use super::accounts::asking;
use super::config::{Config, TlsKey};
use super::notices::Notices;
use crate::channels::trust::NodeCertificate;
use crate::sys::lock::lock;
use farline_core::units::Error;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

/// Between two looks at the files.
const EVERY: Duration = Duration::from_secs(1);

/// The certificate in force.
#[derive(Debug)]
pub(super) struct ServedCertificate {
    /// The key that was made at the start, where there are no files of one.
    fresh: Option<NodeCertificate>,
    files: Vec<PathBuf>,
    read: Mutex<Read>,
}

/// What was read last.
#[derive(Debug)]
struct Read {
    certificate: NodeCertificate,
    changed: Vec<Option<SystemTime>>,
    looked: Instant,
}

impl ServedCertificate {
    /// What `config` says; nothing where it offers no TLS.
    ///
    /// # Errors
    /// When a file cannot be read, or makes no sense.
    pub(super) fn open(config: &Config) -> Result<Option<ServedCertificate>, Error> {
        let Some(tls) = &config.tls else { return Ok(None) };
        let authorities = &config.identities.authorities;
        let mut files: Vec<PathBuf> = [&authorities.certificates, &authorities.revoked]
            .into_iter()
            .flatten()
            .cloned()
            .collect();
        let fresh = match tls {
            TlsKey::Fresh => Some(NodeCertificate::fresh()?),
            TlsKey::Files { certificate, key } => {
                files.extend([certificate.clone(), key.clone()]);
                None
            }
        };
        // Looked at before they are read: what changes meanwhile is read again.
        let changed = times(&files);
        let Some(certificate) = read(config, fresh.as_ref())? else { return Ok(None) };
        let read = Mutex::new(Read { certificate, changed, looked: Instant::now() });
        Ok(Some(ServedCertificate { fresh, files, read }))
    }

    /// A certificate that stays.
    pub(super) fn fixed(certificate: NodeCertificate) -> ServedCertificate {
        let read = Read { certificate, changed: Vec::new(), looked: Instant::now() };
        ServedCertificate { fresh: None, files: Vec::new(), read: Mutex::new(read) }
    }

    /// The certificate for a session that begins now. Files that make no sense, because they are
    /// being written or are damaged, leave what was there in force, and a line in the log.
    pub(super) fn current(&self, config: &Config, notices: &Notices) -> NodeCertificate {
        self.at(Instant::now(), config, notices)
    }

    fn at(&self, now: Instant, config: &Config, notices: &Notices) -> NodeCertificate {
        let mut last = lock(&self.read);
        if self.files.is_empty() || now.saturating_duration_since(last.looked) < EVERY {
            return last.certificate.clone();
        }
        last.looked = now;
        let changed = times(&self.files);
        if changed != last.changed {
            match read(config, self.fresh.as_ref()) {
                Ok(Some(certificate)) => {
                    (last.certificate, last.changed) = (certificate, changed);
                    let print = last.certificate.fingerprint;
                    notices.say("certificate", format_args!("read again: {print}"));
                }
                Ok(None) => {}
                Err(error) => {
                    let what = format_args!("what was there before stays in force: {error}");
                    notices.say("certificate", what);
                }
            }
        }
        last.certificate.clone()
    }
}

fn read(
    config: &Config,
    fresh: Option<&NodeCertificate>,
) -> Result<Option<NodeCertificate>, Error> {
    let own = match (&config.tls, fresh) {
        (Some(TlsKey::Files { certificate, key }), _) => {
            Some(NodeCertificate::read(certificate, key)?)
        }
        (Some(TlsKey::Fresh), fresh) => fresh.cloned(),
        (None, _) => None,
    };
    asking(own, &config.identities)
}

fn times(files: &[PathBuf]) -> Vec<Option<SystemTime>> {
    files.iter().map(|path| path.metadata().and_then(|found| found.modified()).ok()).collect()
}

#[cfg(test)]
#[cfg(feature = "tls")]
mod tests {
    use super::*;
    use crate::node::Node;
    use std::fs;
    use std::path::Path;

    /// Writes a new certificate and its key to `at`, changed in this second.
    fn renew(at: &Path, second: u64) {
        let made = rcgen::generate_simple_self_signed(vec!["node".to_owned()]).expect("a key");
        put(at, "node.pem", &made.cert.pem(), second);
        put(at, "node.key", &made.signing_key.serialize_pem(), second);
    }

    fn put(at: &Path, name: &str, text: &str, second: u64) {
        fs::write(at.join(name), text).expect("written");
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
        let file = fs::File::options().write(true).open(at.join(name)).expect("a file");
        file.set_modified(time).expect("a time");
    }

    #[test]
    fn a_renewed_certificate_counts_and_a_damaged_one_does_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        renew(at, 1);
        let (certificate, key) = (at.join("node.pem"), at.join("node.key"));
        let config = Node::builder(at).tls(TlsKey::Files { certificate, key }).build();
        let config = config.expect("valid");
        let served = ServedCertificate::open(&config).expect("read").expect("TLS");
        let (notices, mut now) = (Notices::default(), Instant::now());
        let mut print = || {
            now += 2 * EVERY;
            served.at(now, &config, &notices).fingerprint
        };
        let first = print();
        assert_eq!(print(), first);
        renew(at, 2);
        let second = print();
        assert_ne!(second, first);
        put(at, "node.pem", "half of it", 3);
        assert_eq!(print(), second, "the last good one stays");
        renew(at, 4);
        assert_ne!(print(), second);
    }
}

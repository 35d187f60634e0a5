//! Passwords, of which a node knows argon2id hashes alone (RFC 9106).

use super::pam_or_none::PamService;
use argon2::password_hash::phc::PasswordHash;
use argon2::{Algorithm, Argon2, PasswordVerifier};
use farline_core::units::Error;
use std::sync::{Arc, OnceLock};

/// A password's hash, in the PHC string format: `$argon2id$v=19$m=19456,t=2,p=1$SALT$HASH`; or
/// `pam:SERVICE`, where this host's PAM knows it.
#[derive(Clone)]
pub struct StoredPassword(Known);

#[derive(Clone)]
enum Known {
    Hash(String),
    ByPam(Arc<PamService>),
}

impl PartialEq for StoredPassword {
    fn eq(&self, other: &StoredPassword) -> bool {
        match (&self.0, &other.0) {
            (Known::Hash(own), Known::Hash(other)) => own == other,
            (Known::ByPam(own), Known::ByPam(other)) => own.name() == other.name(),
            _ => false,
        }
    }
}

impl Eq for StoredPassword {}

impl std::fmt::Debug for StoredPassword {
    /// Without the hash.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StoredPassword")
    }
}

/// Memory that one comparison may take, in KiB: 1 GiB.
const MOST_MEMORY: u32 = 1 << 20;

impl StoredPassword {
    /// # Errors
    /// In words, when it is no argon2id hash, or one whose comparison takes more than 1 GiB; when
    /// it is PAM's and this build has no `pam`.
    pub fn new(text: &str) -> Result<StoredPassword, String> {
        if let Some(service) = text.strip_prefix("pam:") {
            let service = PamService::named(service)?;
            return Ok(StoredPassword(Known::ByPam(Arc::new(service))));
        }
        let wrong = "a password is its argon2id hash, as `argon2 SALT -id -e` prints it of one without a line's end";
        let hash = PasswordHash::new(text).map_err(|_| wrong.to_owned())?;
        let memory: Option<u32> = hash.params.get_decimal("m");
        match (Algorithm::try_from(hash.algorithm.as_str()), memory) {
            (Ok(Algorithm::Argon2id), Some(memory)) if memory <= MOST_MEMORY => {
                Ok(StoredPassword(Known::Hash(text.to_owned())))
            }
            (Ok(Algorithm::Argon2id), Some(_)) => {
                Err("a password's hash takes more than 1 GiB to compare".to_owned())
            }
            _ => Err(wrong.to_owned()),
        }
    }

    /// Begins what has to begin before a node confines itself.
    ///
    /// # Errors
    /// When a process that asks PAM cannot be started.
    pub(super) fn start(&self) -> Result<(), Error> {
        match &self.0 {
            Known::Hash(_) => Ok(()),
            Known::ByPam(service) => service.start(),
        }
    }

    /// Whether it is compared here.
    pub(super) fn is_hash(&self) -> bool {
        matches!(self.0, Known::Hash(_))
    }

    /// Whether `password` is the one of `user`, or of nobody. Takes some hundredths of a second, on
    /// purpose.
    ///
    /// # Errors
    /// In words, when PAM cannot be asked.
    pub(super) fn is(&self, user: Option<&str>, password: &[u8]) -> Result<bool, String> {
        match &self.0 {
            Known::Hash(hash) => Ok(PasswordHash::new(hash)
                .is_ok_and(|hash| Argon2::default().verify_password(password, &hash).is_ok())),
            Known::ByPam(service) => service.is(user, password),
        }
    }
}

/// Takes as long as a comparison with the `stored` password, so that the time tells nobody which
/// names there are: hashes differ in what they cost.
pub(super) fn compare_with_none(password: &[u8], stored: Option<&StoredPassword>) {
    if let Some(stored) = stored {
        let _ = stored.is(None, password);
        return;
    }
    static NONE: OnceLock<Option<StoredPassword>> = OnceLock::new();
    // Of a password that nobody knows: its salt and hash are no hash's.
    let text = "$argon2id$v=19$m=19456,t=2,p=1$ZmFybGluZWZhcmxpbmU$\
                AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    if let Some(none) = NONE.get_or_init(|| StoredPassword::new(text).ok()) {
        let _ = none.is(None, password);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the reference implementation has it of `secret`, by Python's argon2-cffi.
    const SECRET: &str = "$argon2id$v=19$m=1024,t=1,p=1$ZmFybGluZWZhcmxpbmU$baTvdS5PYnW3SPa+Gmzl6l0gJYeWNAgqODnmu6Cpdug";

    #[test]
    fn what_is_no_argon2id_hash_is_refused() {
        for wrong in [
            "secret",
            "$argon2i$v=19$m=1024,t=1,p=1$ZmFybGluZWZhcmxpbmU$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
            "$argon2id$v=19$m=4194304,t=1,p=1$ZmFybGluZWZhcmxpbmU$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        ] {
            assert!(StoredPassword::new(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_password_is_told_from_others() {
        let stored = StoredPassword::new(SECRET).expect("a hash");
        assert!(stored.is(None, b"secret").expect("asked"));
        assert!(
            !stored.is(None, b"Secret").expect("asked") && !stored.is(None, b"").expect("asked")
        );
        compare_with_none(b"secret", None);
    }
}

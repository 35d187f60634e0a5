//! Passwords, of which a node knows argon2id hashes alone (RFC 9106).

use argon2::password_hash::phc::PasswordHash;
use argon2::{Algorithm, Argon2, PasswordVerifier};
use std::sync::OnceLock;

/// A password's hash, in the PHC string format: `$argon2id$v=19$m=19456,t=2,p=1$SALT$HASH`.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredPassword(String);

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
    /// In words, when it is no argon2id hash, or one whose comparison takes more than 1 GiB.
    pub fn new(text: &str) -> Result<StoredPassword, String> {
        let wrong = "a password is its argon2id hash, as `argon2 SALT -id -e` prints it of one without a line's end";
        let hash = PasswordHash::new(text).map_err(|_| wrong.to_owned())?;
        let memory: Option<u32> = hash.params.get_decimal("m");
        match (Algorithm::try_from(hash.algorithm.as_str()), memory) {
            (Ok(Algorithm::Argon2id), Some(memory)) if memory <= MOST_MEMORY => {
                Ok(StoredPassword(text.to_owned()))
            }
            (Ok(Algorithm::Argon2id), Some(_)) => {
                Err("a password's hash takes more than 1 GiB to compare".to_owned())
            }
            _ => Err(wrong.to_owned()),
        }
    }

    /// Whether `password` is the one. Takes some hundredths of a second, on purpose.
    pub(super) fn is(&self, password: &[u8]) -> bool {
        PasswordHash::new(&self.0)
            .is_ok_and(|hash| Argon2::default().verify_password(password, &hash).is_ok())
    }
}

/// Takes as long as a comparison with the `stored` password, so that the time tells nobody which names there
/// are: hashes differ in what they cost.
pub(super) fn compare_with_none(password: &[u8], stored: Option<&StoredPassword>) {
    if let Some(stored) = stored {
        let _ = stored.is(password);
        return;
    }
    static NONE: OnceLock<Option<StoredPassword>> = OnceLock::new();
    // Of a password that nobody knows: its salt and hash are no hash's.
    let text = "$argon2id$v=19$m=19456,t=2,p=1$ZmFybGluZWZhcmxpbmU$\
                AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    if let Some(none) = NONE.get_or_init(|| StoredPassword::new(text).ok()) {
        let _ = none.is(password);
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
        assert!(stored.is(b"secret"));
        assert!(!stored.is(b"Secret") && !stored.is(b""));
        compare_with_none(b"secret", None);
    }
}

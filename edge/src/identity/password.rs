//! Passwords, of which a node knows argon2id hashes alone (RFC 9106).

use super::pam_or_none::PamService;
use crate::sys::lock::lock;
use crate::sys::random;
use argon2::password_hash::phc::PasswordHash;
use argon2::{Algorithm, Argon2, PasswordVerifier};
use farline_core::units::Error;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// A password's hash, in the PHC string format: `$argon2id$v=19$m=19456,t=2,p=1$SALT$HASH`; or
/// `pam:SERVICE`, where this host's PAM knows it.
#[derive(Clone)]
pub struct StoredPassword(PasswordSource);

#[derive(Clone)]
enum PasswordSource {
    Hash(String, Arc<Recent>),
    ByPam(Arc<PamService>),
}

impl PartialEq for StoredPassword {
    fn eq(&self, other: &StoredPassword) -> bool {
        match (&self.0, &other.0) {
            (PasswordSource::Hash(own, _), PasswordSource::Hash(other, _)) => own == other,
            (PasswordSource::ByPam(own), PasswordSource::ByPam(other)) => {
                own.name() == other.name()
            }
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

/// How long a password that was right is known again without its hash's time and memory: a script
/// copies one tree after the other.
const RECENT: Duration = Duration::from_secs(300);

/// What was right last, and when: its hash under a key that never leaves this process's memory.
#[derive(Debug, Default)]
struct Recent(Mutex<Option<(blake3::Hash, Instant)>>);

impl Recent {
    fn is(&self, password: &[u8], now: Instant) -> bool {
        let Some(mark) = mark(password) else { return false };
        let mut last = lock(&self.0);
        if last.is_some_and(|(_, at)| now.saturating_duration_since(at) >= RECENT) {
            *last = None;
        }
        // Compared in constant time.
        last.is_some_and(|(known, _)| known == mark)
    }

    fn remember(&self, password: &[u8], now: Instant) {
        *lock(&self.0) = mark(password).map(|mark| (mark, now));
    }
}

/// The mark of a password, or of a name; none where the system has no random bytes for a key.
fn mark(password: &[u8]) -> Option<blake3::Hash> {
    static KEY: OnceLock<Option<[u8; 32]>> = OnceLock::new();
    let draw = || {
        let mut key = [0; 32];
        random::fill(&mut key).ok().map(|()| key)
    };
    KEY.get_or_init(draw).as_ref().map(|key| blake3::keyed_hash(key, password))
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
            return Ok(StoredPassword(PasswordSource::ByPam(Arc::new(service))));
        }
        let wrong = "a password is its argon2id hash, as `argon2 SALT -id -e` prints it of one without a line's end";
        let hash = PasswordHash::new(text).map_err(|_| wrong.to_owned())?;
        let memory: Option<u32> = hash.params.get_decimal("m");
        match (Algorithm::try_from(hash.algorithm.as_str()), memory) {
            (Ok(Algorithm::Argon2id), Some(memory)) if memory <= MOST_MEMORY => {
                Ok(StoredPassword(PasswordSource::Hash(text.to_owned(), Arc::default())))
            }
            (Ok(Algorithm::Argon2id), Some(_)) => {
                Err("a password's hash takes more than 1 GiB to compare".to_owned())
            }
            _ => Err(wrong.to_owned()),
        }
    }

    /// Begins what has to begin before a node confines itself, whose clients have `login_timeout`
    /// to log in.
    ///
    /// # Errors
    /// When a process that asks PAM cannot be started.
    pub(super) fn start(&self, login_timeout: Duration) -> Result<(), Error> {
        match &self.0 {
            PasswordSource::Hash(..) => Ok(()),
            PasswordSource::ByPam(service) => service.start(login_timeout),
        }
    }

    /// The turns of the processes that ask PAM for it; none where it is compared here.
    pub(super) fn pam_turns(&self) -> Option<Arc<Semaphore>> {
        match &self.0 {
            PasswordSource::Hash(..) => None,
            PasswordSource::ByPam(service) => Some(service.turns()),
        }
    }

    /// Whether `password` is the one of `user`, or of nobody. Takes some hundredths of a second, on
    /// purpose, unless the same one was right shortly before.
    ///
    /// # Errors
    /// In words, when PAM cannot be asked.
    pub(super) fn is(&self, user: Option<&str>, password: &[u8]) -> Result<bool, String> {
        match &self.0 {
            PasswordSource::Hash(hash, recent) => {
                // Of a name that is nobody's the time must not tell whose password was said.
                let recent = user.map(|_| recent);
                if recent.is_some_and(|recent| recent.is(password, Instant::now())) {
                    return Ok(true);
                }
                #[cfg(test)]
                COMPARED.set(COMPARED.get() + 1);
                let is_right = PasswordHash::new(hash)
                    .is_ok_and(|hash| Argon2::default().verify_password(password, &hash).is_ok());
                if is_right && let Some(recent) = recent {
                    recent.remember(password, Instant::now());
                }
                Ok(is_right)
            }
            PasswordSource::ByPam(service) => service.is(user, password),
        }
    }
}

#[cfg(test)]
thread_local! {
    /// Hashes that this thread compared.
    pub(super) static COMPARED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// The one of `stored` that what `user` says is compared with, who has none of them: of one name
/// always the same, so that it costs what somebody's does, and nobody outside can tell whose.
pub(super) fn stand_in<'a>(
    user: &[u8],
    stored: &[&'a StoredPassword],
) -> Option<&'a StoredPassword> {
    let drawn = mark(user).map_or(0, |mark| {
        let [a, b, c, d, ..] = *mark.as_bytes();
        u32::from_le_bytes([a, b, c, d]) as usize
    });
    stored.get(drawn.checked_rem(stored.len())?).copied()
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

    #[test]
    fn a_name_that_is_nobodys_costs_what_some_password_does() {
        let costs = [1024, 2048, 4096].map(|memory| SECRET.replace("1024", &memory.to_string()));
        let stored = costs.map(|text| StoredPassword::new(&text).expect("a hash"));
        let stored: Vec<_> = stored.iter().collect();
        let drawn = |name: u32| {
            let name = format!("nobody{name}");
            let one = stand_in(name.as_bytes(), &stored).expect("one of three");
            assert_eq!(stand_in(name.as_bytes(), &stored), Some(one), "{name}");
            stored.iter().position(|&other| other == one).expect("it is there")
        };
        // That one of three is never drawn of 200 is less likely than that memory errs.
        let all: std::collections::BTreeSet<usize> = (0..200).map(drawn).collect();
        assert_eq!(all.into_iter().collect::<Vec<_>>(), [0, 1, 2], "and not the first alone");
        assert_eq!(stand_in(b"nobody", &[]), None);
    }

    #[test]
    fn a_right_password_is_known_again_for_a_while() {
        let (recent, now) = (Recent::default(), Instant::now());
        assert!(!recent.is(b"secret", now));
        recent.remember(b"secret", now);
        let soon = now + RECENT - Duration::from_secs(1);
        assert!(recent.is(b"secret", soon) && !recent.is(b"Secret", soon) && !recent.is(b"", soon));
        assert!(!recent.is(b"secret", now + RECENT));
        assert!(!recent.is(b"secret", soon), "what was forgotten stays so");
    }

    #[test]
    fn only_a_right_password_of_somebody_is_remembered() {
        let remembers = |user, password: &[u8]| {
            let stored = StoredPassword::new(SECRET).expect("a hash");
            let _ = stored.is(user, password);
            let PasswordSource::Hash(_, recent) = &stored.0 else { return false };
            lock(&recent.0).is_some()
        };
        assert!(remembers(Some("alice"), b"secret"));
        assert!(!remembers(Some("alice"), b"Secret") && !remembers(None, b"secret"));
    }
}

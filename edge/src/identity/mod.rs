//! Who may come in, and what each may do: people by password or certificate, and bearers of tokens.
//!
//! Everybody is refused who is not named. What a person may do is a list of [`Grant`]s, which add
//! up; see `docs/how-to/identities.md`.

mod access;
mod calendar_rights;
#[cfg(feature = "tls")]
mod certificate;
mod file;
#[cfg(feature = "tls")]
mod https;
#[cfg(feature = "tls")]
mod issuer_keys;
#[cfg(feature = "tls")]
mod key_sets;
mod mapfile;
mod names;
#[cfg(not(feature = "tls"))]
mod no_tls;
mod owner;
#[cfg(all(feature = "tls", not(feature = "pam")))]
#[path = "no_pam.rs"]
mod pam_or_none;
#[cfg(feature = "pam")]
#[path = "pam.rs"]
mod pam_or_none;
#[cfg(feature = "tls")]
mod password;
#[cfg(feature = "tls")]
#[doc(hidden)]
pub mod readers;
#[cfg(feature = "tls")]
mod token;

pub(crate) use access::{Authorization, Deed};
pub use access::{Grant, Permissions};
pub use calendar_rights::{CalendarRights, CalendarRightsFile, CalendarRole};
#[cfg(feature = "tls")]
pub(crate) use certificate::{ClientCertificate, ClientVerifier};
pub use file::{IdentityFile, IssuerFile};
#[cfg(feature = "tls")]
pub(crate) use key_sets::KeySets;
pub use names::{CertificateName, ClientAuthorities};
#[cfg(not(feature = "tls"))]
pub use no_tls::StoredPassword;
#[cfg(not(feature = "tls"))]
pub(crate) use no_tls::{ClientCertificate, ClientVerifier, KeySets};
pub use owner::FileOwner;
#[cfg(feature = "pam")]
pub(crate) use pam_or_none::{Role as PamRole, play as ask_pam};
#[cfg(feature = "tls")]
pub use password::StoredPassword;

#[cfg(not(feature = "tls"))]
use no_tls::{self as password, self as token};

use crate::channels::trust::Fingerprint;
use farline_core::gridftp::Pathname;
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Rate};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

pub use farline_core::gridftp::server::BEARER;

/// The user name of Globus' clients, who are to be whoever their certificate says.
const GLOBUS_MAPPING: &[u8] = b":globus-mapping:";

/// What one identity may take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IdentityLimits {
    /// Sessions at once; as many as one address when absent.
    pub sessions: Option<usize>,
    /// What all its sessions move together; no limit when absent.
    pub rate: Option<Rate>,
    /// What all its sessions store together in a day by UTC, from the node's start; no limit when
    /// absent.
    pub bytes_per_day: Option<Bytes>,
    /// Files, links and new folders that they do; no limit when absent.
    pub files_per_day: Option<u64>,
}

/// What of the node's services one identity may use; where nothing is said, what the node lets
/// everybody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IdentityRights {
    /// Whether its data may go to and come from other hosts: third-party transfers.
    pub third_party: Option<bool>,
    /// Whether it may have this host load Farline's congestion controls into its kernel.
    pub allow_congestion: Option<bool>,
    /// Whether it may test the line to here, where the node's operator allows tests.
    pub allow_line: Option<bool>,
}

/// Somebody who may come in.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Person {
    /// The user name.
    pub name: String,
    /// How it logs in by password, if it may.
    pub password: Option<StoredPassword>,
    /// How it logs in by certificate.
    pub certificates: Vec<CertificateName>,
    /// Which members of virtual organisations it is, by VOMS attributes of their proxies, such as
    /// `/vo/group/Role=writer`.
    pub voms: Vec<String>,
    /// What it may do.
    pub grants: Vec<Grant>,
    /// What it may take.
    pub limits: IdentityLimits,
    /// What of the node's services it may use.
    pub rights: IdentityRights,
    /// Whether its data may go in the clear.
    pub clear_data: bool,
    /// Whose its files are on this host, and by whose rights it reaches them; the process's where
    /// absent.
    pub owner: Option<FileOwner>,
    /// What it may do at a calendar; nothing when absent.
    pub calendar: Option<CalendarRights>,
}

/// Where an issuer's public keys come from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeySource {
    /// This file, read at each login.
    File(PathBuf),
    /// The issuer says where, over HTTPS: `URL/.well-known/openid-configuration`.
    Discovered {
        /// Who vouches for its certificate, in PEM; the system's authorities when absent.
        authorities: Option<PathBuf>,
    },
}

/// Who signs tokens, and what they count for here.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Issuer {
    /// The claim `iss`, whole.
    pub url: String,
    /// Its public keys: a JSON web key set (RFC 7517).
    pub keys: KeySource,
    /// What this node is called in the claim `aud`.
    pub audiences: Vec<String>,
    /// Where the paths of its scopes begin.
    pub path: Pathname,
}

/// An issuer of tokens, and what bearers of its tokens may take.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenIssuer {
    /// Who signs.
    pub issuer: Issuer,
    /// What each bearer may take.
    pub limits: IdentityLimits,
    /// Whose their files are, see [`Person::owner`].
    pub owner: Option<FileOwner>,
    /// What each bearer may do at a calendar; nothing when absent.
    pub calendar: Option<CalendarRights>,
}

/// Everybody who may come into a node besides the anonymous.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Identities {
    /// By user name.
    pub people: Vec<Person>,
    /// Whose tokens are taken.
    pub issuers: Vec<TokenIssuer>,
    /// Who signs the certificates of clients.
    pub authorities: ClientAuthorities,
    /// Which certificates' subjects are which identities', as grids have it; read at each login,
    /// and may be absent.
    pub grid_mapfile: Option<PathBuf>,
}

/// What a login waits for its turn at: many at once take neither memory nor threads without bound.
#[derive(Debug)]
pub(crate) enum LoginTurn {
    /// A hash's time and memory: argon2id, some hundredths of a second and 19 MiB.
    Hash,
    /// A process that asks PAM, of as many as these.
    Pam(Arc<Semaphore>),
}

/// Somebody who is let in.
#[derive(Debug)]
pub(crate) struct Admitted {
    /// The person's name, or a token's subject and issuer.
    pub(crate) name: String,
    /// By what, for the log.
    pub(crate) by: &'static str,
    pub(crate) grants: Vec<Grant>,
    pub(crate) limits: IdentityLimits,
    pub(crate) rights: IdentityRights,
    pub(crate) clear_data: bool,
    pub(crate) owner: Option<FileOwner>,
    #[cfg_attr(not(feature = "calendar"), expect(dead_code, reason = "a calendar alone asks"))]
    pub(crate) calendar: Option<CalendarRights>,
}

impl Identities {
    /// Whether nobody is named.
    pub fn is_empty(&self) -> bool {
        self.people.is_empty() && self.issuers.is_empty()
    }

    /// Whether somebody may what this says.
    pub(crate) fn any_may(&self, right: fn(&IdentityRights) -> Option<bool>) -> bool {
        self.people.iter().any(|person| right(&person.rights) == Some(true))
    }

    /// Whether clients are asked for certificates.
    pub(crate) fn wants_certificates(&self) -> bool {
        self.authorities.certificates.is_some()
            || self.people.iter().any(|person| !person.certificates.is_empty())
    }

    /// The certificates that are known by themselves.
    pub(crate) fn fingerprints(&self) -> Vec<Fingerprint> {
        let names = self.people.iter().flat_map(|person| &person.certificates);
        let known = |name: &CertificateName| match name {
            CertificateName::Fingerprint(fingerprint) => Some(*fingerprint),
            CertificateName::Subject(_) => None,
        };
        names.filter_map(known).collect()
    }

    /// What a login of `user` waits for its turn at; nothing where [`Self::log_in`] compares no
    /// password.
    pub(crate) fn turn_of(&self, user: &[u8]) -> Option<LoginTurn> {
        let has_none = farline_core::gridftp::server::is_anonymous(user)
            || user == GLOBUS_MAPPING
            || (user == BEARER.as_bytes() && !self.issuers.is_empty());
        if has_none || self.is_empty() {
            return None;
        }
        let named = self.people.iter().find(|person| person.name.as_bytes() == user);
        let own = named.and_then(|person| person.password.as_ref());
        let asked = own.or_else(|| self.stand_in(user)).and_then(StoredPassword::pam_turns);
        Some(asked.map_or(LoginTurn::Hash, LoginTurn::Pam))
    }

    /// The password that stands in for that of `user`, who has none: one of the others', which
    /// differ in what they cost.
    fn stand_in(&self, user: &[u8]) -> Option<&StoredPassword> {
        let stored: Vec<_> =
            self.people.iter().filter_map(|person| person.password.as_ref()).collect();
        password::stand_in(user, &stored)
    }

    /// Looks at what a client says and shows over TLS; `now` is in seconds since 1970, and `keys`
    /// are those of the issuers. Takes some hundredths of a second, reads files, and may wait for
    /// an issuer for some seconds.
    ///
    /// # Errors
    /// When it is nobody who may come in, in words for the client; of passwords no more than that.
    pub(crate) fn log_in(
        &self,
        user: &[u8],
        secret: &[u8],
        certificate: Option<&ClientCertificate>,
        keys: &KeySets,
        now: u64,
    ) -> Result<Option<Admitted>, Error> {
        let refused = |message: &str| Error::new(Fault::Refused, ErrorCode::LoginRefused, message);
        if user == BEARER.as_bytes() && !self.issuers.is_empty() {
            return self.bearer(secret, keys, now).map(Some).map_err(|why| refused(&why));
        }
        let is_anonymous = farline_core::gridftp::server::is_anonymous(user);
        let is_mapped = user == GLOBUS_MAPPING;
        if let Some(certificate) = certificate {
            let certificate = &self.as_vouched_for(certificate);
            let is_meant =
                |person: &Person| is_anonymous || is_mapped || person.name.as_bytes() == user;
            let owns = |person: &&Person| {
                is_meant(person) && person.certificates.iter().any(|name| certificate.is(name))
            };
            if let Some(person) = self.people.iter().find(owns) {
                return Ok(Some(person.admitted("certificate")));
            }
            // As at Globus' servers the first name counts of those that are one's own.
            let mapped = self.mapped(certificate).map_err(|why| refused(&why))?;
            let named = |name: &String| {
                self.people.iter().find(|person| is_meant(person) && person.name == *name)
            };
            if let Some(person) = mapped.iter().find_map(named) {
                return Ok(Some(person.admitted("certificate")));
            }
            let by_attribute = certificate.attributes().iter().find_map(|attribute| {
                self.people
                    .iter()
                    .find(|person| is_meant(person) && person.voms.contains(attribute))
            });
            if let Some(person) = by_attribute {
                return Ok(Some(person.admitted("VOMS attribute")));
            }
            if is_mapped {
                let subject = certificate.subject().unwrap_or_default();
                return Err(refused(&format!("no identity here has the certificate of {subject}")));
            }
        }
        // Who waits for no turn comes no further: see `turn_of`.
        if is_mapped {
            return Err(refused("you showed no certificate"));
        }
        if is_anonymous {
            return Ok(None);
        }
        if self.is_empty() {
            return Err(refused(WRONG));
        }
        let named = self.people.iter().find(|person| person.name.as_bytes() == user);
        match named.and_then(|person| Some((person, person.password.as_ref()?))) {
            Some((person, password)) => match password.is(Some(&person.name), secret) {
                Ok(true) => Ok(Some(person.admitted("password"))),
                Ok(false) => Err(refused(WRONG)),
                Err(why) => Err(refused(&format!("this node cannot look passwords up: {why}"))),
            },
            None => {
                password::compare_with_none(secret, self.stand_in(user));
                Err(refused(WRONG))
            }
        }
    }

    /// Begins what has to begin before a node confines itself, whose clients have `login_timeout`
    /// to log in.
    ///
    /// # Errors
    /// When a process that asks PAM cannot be started.
    pub(crate) fn start(&self, login_timeout: Duration) -> Result<(), Error> {
        self.people
            .iter()
            .filter_map(|person| person.password.as_ref())
            .try_for_each(|password| password.start(login_timeout))
    }

    /// Whether files of some belong to users of this host.
    pub(crate) fn have_owners(&self) -> bool {
        self.people.iter().any(|person| person.owner.is_some())
            || self.issuers.iter().any(|issuer| issuer.owner.is_some())
    }

    /// What of a certificate somebody vouches for: whoever is known by the fingerprint may have
    /// written any name into it.
    fn as_vouched_for(&self, certificate: &ClientCertificate) -> ClientCertificate {
        let is_own = |print: &Fingerprint| certificate.is(&CertificateName::Fingerprint(*print));
        match self.fingerprints().iter().any(is_own) {
            true => certificate.without_subject(),
            false => certificate.clone(),
        }
    }

    /// The names that the grid-mapfile gives a certificate; none of one whose authority is not
    /// known.
    fn mapped(&self, certificate: &ClientCertificate) -> Result<Vec<String>, String> {
        let (Some(path), Some(subject)) = (&self.grid_mapfile, certificate.subject()) else {
            return Ok(Vec::new());
        };
        match std::fs::read(path) {
            Ok(text) => Ok(mapfile::names(&text, subject)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(format!("this node cannot read its grid-mapfile: {error}")),
        }
    }

    fn bearer(&self, token: &[u8], keys: &KeySets, now: u64) -> Result<Admitted, String> {
        let url = token::issuer_of(token).ok_or("this is no token that anybody signed")?;
        let known = self.issuers.iter().find(|known| known.issuer.url == url);
        let TokenIssuer { issuer, limits, owner, calendar } =
            known.ok_or("tokens of that issuer are not taken here")?;
        let keys = keys.of(&url, token::key_id_of(token).as_deref(), Instant::now())?;
        let allowed = issuer.judge(token, &keys, now)?;
        Ok(Admitted {
            name: format!("{} of {url}", allowed.subject),
            by: "token",
            grants: allowed.grants,
            limits: limits.clone(),
            rights: IdentityRights::default(),
            clear_data: false,
            owner: owner.clone(),
            calendar: calendar.clone().and_then(|rights| rights.within(allowed.calendar)),
        })
    }
}

/// The same whatever was wrong, so that nobody learns which names there are.
const WRONG: &str = "wrong user name or password";

impl Person {
    fn admitted(&self, by: &'static str) -> Admitted {
        Admitted {
            name: self.name.clone(),
            by,
            grants: self.grants.clone(),
            limits: self.limits.clone(),
            rights: self.rights,
            clear_data: self.clear_data,
            owner: self.owner.clone(),
            calendar: self.calendar.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn people() -> Identities {
        let text = r#"
            [[identity]]
            name = "alice"
            password = "$argon2id$v=19$m=1024,t=1,p=1$ZmFybGluZWZhcmxpbmU$baTvdS5PYnW3SPa+Gmzl6l0gJYeWNAgqODnmu6Cpdug"
            paths = { "/home/alice" = "write" }
            [[identity]]
            name = "bob"
            certificates = ["/O=Site/CN=bob"]
            paths = { "/" = "read" }
        "#;
        #[derive(serde::Deserialize)]
        struct File {
            identity: Vec<IdentityFile>,
        }
        let file: File = toml::from_str(text).expect("TOML");
        let people: Result<_, _> =
            file.identity.into_iter().map(|file| file.build(false)).collect();
        Identities { people: people.expect("valid"), ..Identities::default() }
    }

    #[test]
    fn only_who_is_named_comes_in_and_only_by_what_is_his() {
        let people = people();
        let log_in = |user: &str, secret: &str| {
            people.log_in(user.as_bytes(), secret.as_bytes(), None, &KeySets::default(), 0)
        };
        let alice = log_in("alice", "secret").expect("let in").expect("somebody");
        assert_eq!((&*alice.name, alice.by), ("alice", "password"));
        for (user, secret) in
            [("alice", "wrong"), ("bob", ""), ("eve", "secret"), ("bearer", "x"), ("", "")]
        {
            let refused = log_in(user, secret).expect_err(user);
            assert_eq!((refused.code, &*refused.message), (ErrorCode::LoginRefused, WRONG));
        }
        assert!(log_in("anonymous", "x").expect("nobody's name").is_none());
    }

    #[cfg(feature = "tls")]
    #[test]
    fn who_waits_for_no_turn_comes_to_no_password() {
        let refused = |identities: &Identities, user: &str| {
            assert!(identities.turn_of(user.as_bytes()).is_none(), "{user}");
            let keys = KeySets::default();
            let came = identities.log_in(user.as_bytes(), b"secret", None, &keys, 0);
            came.expect_err("no certificate").message
        };
        let (people, nobody) = (people(), Identities::default());
        // Of this thread alone.
        let compared = || password::COMPARED.get();
        let before = compared();
        assert_eq!(refused(&people, ":globus-mapping:"), "you showed no certificate");
        assert_eq!(refused(&nobody, ":globus-mapping:"), "you showed no certificate");
        assert!(matches!(people.turn_of(b"alice"), Some(LoginTurn::Hash)));
        assert!(matches!(people.turn_of(b"eve"), Some(LoginTurn::Hash)));
        for user in ["alice", "bearer", ""] {
            assert_eq!(refused(&nobody, user), WRONG);
        }
        assert_eq!(compared(), before);
        let _ = people.log_in(b"eve", b"secret", None, &KeySets::default(), 0);
        assert_eq!(compared(), before + 1);
    }

    #[cfg(feature = "tls")]
    #[test]
    fn a_certificate_or_a_token_alone_comes_to_no_password() {
        let issuer = Issuer {
            url: "https://issuer.example".to_owned(),
            keys: KeySource::File("/nowhere".into()),
            audiences: Vec::new(),
            path: Pathname::root(),
        };
        let limits = IdentityLimits::default();
        let issuers = vec![TokenIssuer { issuer, limits, owner: None, calendar: None }];
        let people = Identities { issuers, ..people() };
        let before = password::COMPARED.get();
        // As a calendar asks, whose requests have no turns.
        for (user, secret) in [("anonymous", "secret"), (BEARER, "secret"), (BEARER, "a.b.c")] {
            assert!(people.turn_of(user.as_bytes()).is_none(), "{user}");
            let (user, secret) = (user.as_bytes(), secret.as_bytes());
            let came = people.log_in(user, secret, None, &KeySets::default(), 0);
            assert!(!matches!(came, Ok(Some(_))), "{came:?}");
        }
        assert_eq!(password::COMPARED.get(), before);
    }

    #[cfg(feature = "pam")]
    #[test]
    fn what_pam_knows_waits_for_one_of_its_processes() {
        let mut people = people();
        let by_pam = StoredPassword::new("pam:login").expect("a service");
        people.people[0].password = Some(by_pam);
        // Of alice, of nobody's name and of bob, who has a certificate alone: the same processes.
        for user in ["alice", "eve", "bob"] {
            match people.turn_of(user.as_bytes()) {
                Some(LoginTurn::Pam(turns)) => assert_eq!(turns.available_permits(), 4, "{user}"),
                other => panic!("{user}: {other:?}"),
            }
        }
    }
}

//! Who asks: bearers of the calendar's own tokens, and identities as nodes have them; deny by
//! default.

use super::clock::time_of;
use crate::channels::trust::{Fingerprint, ShownCertificate};
use crate::identity::{
    BEARER, CalendarRights, CalendarRole, ClientCertificate, ClientVerifier, Identities, KeySets,
    TokenIssuer,
};
use crate::sys::clock::since_1970;
use aws_lc_rs::digest::{SHA256, digest};
use farline_core::calendar::{BookingRights, TimeWindow, Topology};
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Rate};
use rustls::pki_types::UnixTime;
use rustls::server::danger::ClientCertVerifier;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A token as it is made and stored; the secret itself is not kept, only its digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// Who it is for: the owner of what is booked with it.
    pub name: String,
    /// Whose quotas count.
    pub project: String,
    /// What kind it is.
    pub role: CalendarRole,
    /// Sites at which its circuits may begin and end; `*` is all.
    #[serde(default)]
    pub endpoints: Vec<String>,
    /// The highest rate of one reservation, in bit/s.
    #[serde(default)]
    pub highest_rate_bps: Option<u64>,
    /// The most that one reservation may carry.
    #[serde(default)]
    pub highest_volume_bytes: Option<u64>,
    /// When its circuits may begin at the earliest.
    #[serde(default)]
    pub not_before: Option<String>,
    /// When they have to end.
    #[serde(default)]
    pub not_after: Option<String>,
    /// The fingerprint of a client certificate that is as good as the token: `sha256=HEX`.
    #[serde(default)]
    pub certificate: Option<String>,
}

/// A token in the database.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoredToken {
    /// SHA-256 of the secret, in hexadecimal digits.
    pub digest: String,
    /// What it is for.
    pub token: NewToken,
}

/// Who asks, once known.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) name: String,
    pub(super) project: String,
    pub(super) role: CalendarRole,
    pub(super) rights: BookingRights,
}

impl NewToken {
    /// What it may book in `topology`.
    ///
    /// # Errors
    /// A site or time that is none.
    pub fn rights(&self, topology: &Topology) -> Result<BookingRights, Error> {
        let whose = format!("token `{}`", self.name);
        if let Some(certificate) = &self.certificate {
            certificate.parse::<Fingerprint>().map_err(|error| wrong(&whose, &error))?;
        }
        let rights = CalendarRights {
            project: self.project.clone(),
            role: self.role,
            endpoints: self.endpoints.clone(),
            highest_rate: self.highest_rate_bps.map(Rate::from_bps),
            highest_volume: self.highest_volume_bytes.map(Bytes),
            not_before: self.not_before.clone(),
            not_after: self.not_after.clone(),
        };
        rights.in_network(topology, &whose)
    }
}

impl CalendarRights {
    /// What of that there is in `topology`.
    ///
    /// # Errors
    /// A site or time that is none; it says whose.
    fn in_network(&self, topology: &Topology, whose: &str) -> Result<BookingRights, Error> {
        let mut rights = BookingRights {
            highest_rate: self.highest_rate,
            highest_volume: self.highest_volume,
            ..BookingRights::default()
        };
        for endpoint in &self.endpoints {
            let sites = topology.sites().iter().filter(|site| endpoint == "*" || *site == endpoint);
            let before = rights.endpoints.len();
            rights.endpoints.extend(sites.filter_map(|site| topology.site(site)));
            if before == rights.endpoints.len() && topology.site(endpoint).is_none() {
                return Err(wrong(whose, &format!("there is no site `{endpoint}`")));
            }
        }
        let time = |text: &Option<String>| match text {
            None => Ok(None),
            Some(text) => {
                time_of(text).map(Some).ok_or_else(|| wrong(whose, "a time that is none"))
            }
        };
        let (start, end) = (time(&self.not_before)?, time(&self.not_after)?);
        if start.is_some() || end.is_some() {
            let latest = farline_core::units::Time::from_nanos(u64::MAX);
            rights.window =
                Some(TimeWindow { start: start.unwrap_or_default(), end: end.unwrap_or(latest) });
        }
        Ok(rights)
    }
}

fn wrong(whose: &str, what: &str) -> Error {
    Error::new(Fault::You, ErrorCode::CalendarRequest, format!("{whose}: {what}"))
}

/// A fresh secret, and its digest as it is stored.
///
/// # Errors
/// When the system gives no random numbers.
pub(super) fn fresh_secret() -> Result<(String, String), Error> {
    let mut bytes = [0_u8; 32];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| {
        Error::new(Fault::Here, ErrorCode::NoRandomness, "the system gives no random numbers")
    })?;
    let secret = format!("farline-{}", hex(&bytes));
    let digest = digest_of(&secret);
    Ok((secret, digest))
}

pub(super) fn digest_of(secret: &str) -> String {
    hex(digest(&SHA256, secret.as_bytes()).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Everybody who has a token of the calendar's own.
#[derive(Debug, Default)]
pub(super) struct TokenHolders {
    by_digest: BTreeMap<String, Caller>,
    by_certificate: BTreeMap<String, Caller>,
}

impl TokenHolders {
    /// Those of `tokens`; one that makes no sense in this network lets nobody in.
    pub(super) fn new(tokens: Vec<StoredToken>, topology: &Topology) -> TokenHolders {
        let mut known = TokenHolders::default();
        for StoredToken { digest, token } in tokens {
            let Ok(rights) = token.rights(topology) else { continue };
            let caller =
                Caller { name: token.name, project: token.project, role: token.role, rights };
            let certificate = token.certificate.and_then(|text| text.parse::<Fingerprint>().ok());
            if let Some(certificate) = certificate {
                known.by_certificate.insert(certificate.to_string(), caller.clone());
            }
            known.by_digest.insert(digest, caller);
        }
        known
    }

    /// Whose secret it is. Its digest is looked up, so the time that takes says nothing of others.
    pub(super) fn by_secret(&self, secret: &str) -> Option<Caller> {
        self.by_digest.get(&digest_of(secret)).cloned()
    }

    /// Whose certificate it is.
    pub(super) fn by_certificate(&self, fingerprint: &Fingerprint) -> Option<Caller> {
        self.by_certificate.get(&fingerprint.to_string()).cloned()
    }
}

/// What a client showed in its handshake, and has the key of.
#[derive(Clone, Debug)]
pub(super) struct PeerCertificate {
    pub(super) fingerprint: Fingerprint,
    /// Where the identities' authorities vouch for it, or one of them is known by it.
    certificate: Option<ClientCertificate>,
}

/// Those who come by a certificate's subject or by a token that somebody else signed, as to a node.
#[derive(Debug)]
pub(super) struct NamedCallers {
    identities: Identities,
    keys: KeySets,
    topology: Arc<Topology>,
}

impl NamedCallers {
    /// # Errors
    /// A file that cannot be read, or rights that this network does not have.
    pub(super) fn new(
        identities: Identities,
        topology: &Arc<Topology>,
    ) -> Result<NamedCallers, Error> {
        for person in &identities.people {
            let rights = person.calendar.as_ref();
            let whose = format!("identity {}", person.name);
            rights.map(|rights| rights.in_network(topology, &whose)).transpose()?;
        }
        for TokenIssuer { issuer, calendar, .. } in &identities.issuers {
            let whose = format!("issuer {}", issuer.url);
            calendar.as_ref().map(|rights| rights.in_network(topology, &whose)).transpose()?;
        }
        let keys = KeySets::new(&identities)?;
        let named = NamedCallers { keys, topology: Arc::clone(topology), identities };
        named.verifier()?;
        Ok(named)
    }

    /// As its files are now, so that what an authority took back counts at once.
    fn verifier(&self) -> Result<ClientVerifier, Error> {
        ClientVerifier::new(self.identities.fingerprints(), &self.identities.authorities)
    }

    /// What counts of the certificates that a client showed. Reads files.
    pub(super) fn shown(&self, shown: &[ShownCertificate]) -> Option<PeerCertificate> {
        let (first, between) = shown.split_first()?;
        let now = UnixTime::since_unix_epoch(since_1970());
        let verifier = self.verifier().ok();
        let vouched =
            verifier.and_then(|verifier| verifier.verify_client_cert(first, between, now).ok());
        let certificate = vouched.map(|_| ClientCertificate::of(first));
        Some(PeerCertificate { fingerprint: Fingerprint::of(first), certificate })
    }

    /// Whose certificate it is.
    pub(super) fn by_certificate(&self, shown: &PeerCertificate) -> Option<Caller> {
        let certificate = shown.certificate.as_ref()?;
        self.admitted(b"anonymous", b"", Some(certificate))
    }

    /// Whether `secret` may be a token that somebody signed, and some are taken here.
    pub(super) fn may_be_signed(&self, secret: &str) -> bool {
        !self.identities.issuers.is_empty() && secret.split('.').count() == 3
    }

    /// Whose token it is. May wait for an issuer's keys for some seconds.
    pub(super) fn by_token(&self, token: &str) -> Option<Caller> {
        self.admitted(BEARER.as_bytes(), token.as_bytes(), None)
    }

    /// Why somebody is refused is in no reply: who is not known hears nothing.
    fn admitted(
        &self,
        user: &[u8],
        secret: &[u8],
        certificate: Option<&ClientCertificate>,
    ) -> Option<Caller> {
        // Requests have no turns to have a password compared, and none is taken here.
        if self.identities.turn_of(user).is_some() {
            return None;
        }
        let now = since_1970().as_secs();
        let admitted =
            self.identities.log_in(user, secret, certificate, &self.keys, now).ok()??;
        let given = admitted.calendar?;
        let rights = given.in_network(&self.topology, &admitted.name).ok()?;
        Some(Caller { name: admitted.name, project: given.project, role: given.role, rights })
    }
}

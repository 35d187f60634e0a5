//! Who asks: bearer tokens and client certificates, what each may, and deny by default.

use super::clock::time_of;
use crate::channels::trust::Fingerprint;
use aws_lc_rs::digest::{SHA256, digest};
use farline_core::calendar::{BookingRights, TimeWindow, Topology};
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Rate};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What kind of identity it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CalendarRole {
    /// May do all, and see all.
    Admin,
    /// Books within its rights, and sees its own project.
    User,
    /// Makes circuits: sees what is provisioned, reports of circuits, and nothing else.
    Agent,
    /// Sees its own project, and changes nothing.
    Viewer,
}

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
        let wrong = |what: &str| {
            let message = format!("token `{}`: {what}", self.name);
            Error::new(Fault::You, ErrorCode::CalendarRequest, message)
        };
        let mut rights = BookingRights {
            highest_rate: self.highest_rate_bps.map(Rate::from_bps),
            highest_volume: self.highest_volume_bytes.map(Bytes),
            ..BookingRights::default()
        };
        for endpoint in &self.endpoints {
            let sites = topology.sites().iter().filter(|site| endpoint == "*" || *site == endpoint);
            let before = rights.endpoints.len();
            rights.endpoints.extend(sites.filter_map(|site| topology.site(site)));
            if before == rights.endpoints.len() && topology.site(endpoint).is_none() {
                return Err(wrong(&format!("there is no site `{endpoint}`")));
            }
        }
        let time = |text: &Option<String>| match text {
            None => Ok(None),
            Some(text) => time_of(text).map(Some).ok_or_else(|| wrong("a time that is none")),
        };
        let (start, end) = (time(&self.not_before)?, time(&self.not_after)?);
        if start.is_some() || end.is_some() {
            let latest = farline_core::units::Time::from_nanos(u64::MAX);
            rights.window =
                Some(TimeWindow { start: start.unwrap_or_default(), end: end.unwrap_or(latest) });
        }
        if let Some(certificate) = &self.certificate {
            certificate.parse::<Fingerprint>().map_err(|error| wrong(&error))?;
        }
        Ok(rights)
    }
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

/// Everybody who is known.
#[derive(Debug, Default)]
pub(super) struct Identities {
    by_digest: BTreeMap<String, Caller>,
    by_certificate: BTreeMap<String, Caller>,
}

impl Identities {
    /// Those of `tokens`; one that makes no sense in this network lets nobody in.
    pub(super) fn new(tokens: Vec<StoredToken>, topology: &Topology) -> Identities {
        let mut known = Identities::default();
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

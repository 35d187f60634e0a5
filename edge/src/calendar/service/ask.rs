//! What comes with a request: who asks, the body, the key against doing it twice, the version
//! meant.

use super::super::clock::{now, time_of};
use super::super::identity::{Caller, PeerCertificate};
use super::super::ledger::RecordKind;
use super::super::wire::{ProblemDocument, ProblemKind, RefusalDocument, ReservationDocument};
use super::Shared;
use super::problem::Problem;
use crate::identity::CalendarRole;
use aws_lc_rs::digest::{SHA256, digest};
use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use farline_core::calendar::{
    BookingProblem, BookingRefusal, Leg, Reservation, ReservationId, SiteId, TimeWindow, Topology,
    VolumeShape,
};
use farline_core::units::{self, Rate, Span, Time};
use serde::de::DeserializeOwned;
use std::sync::Arc;

pub(super) type Asked = State<Arc<Shared>>;

/// Sites that are listed for who named none of them, at most.
const SITES: usize = 16;
/// The longest label or reason.
const LABEL: usize = 200;

impl FromRequestParts<Arc<Shared>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(
        parts: &mut Parts,
        shared: &Arc<Shared>,
    ) -> Result<Caller, Problem> {
        let holders = shared.token_holders().await;
        let secret = parts
            .headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.strip_prefix("Bearer "));
        let caller = match secret.map(str::trim) {
            // A token that is not known is not mended by a certificate that is.
            Some(secret) => match holders.by_secret(secret) {
                None if shared.named.may_be_signed(secret) => shared.by_token(secret).await,
                holder => holder,
            },
            None => parts.extensions.get::<PeerCertificate>().and_then(|shown| {
                let holder = holders.by_certificate(&shown.fingerprint);
                holder.or_else(|| shared.named.by_certificate(shown))
            }),
        };
        caller.ok_or_else(Problem::unknown)
    }
}

impl Caller {
    /// Refuses all but these roles.
    pub(super) fn must_be(&self, roles: &[CalendarRole]) -> Result<(), Problem> {
        if roles.contains(&self.role) {
            return Ok(());
        }
        Err(Problem::denied("this token is not for that"))
    }

    /// Whether it may see what belongs to `project`.
    pub(super) fn sees(&self, project: &str) -> bool {
        match self.role {
            CalendarRole::Admin | CalendarRole::Agent => true,
            CalendarRole::User | CalendarRole::Viewer => self.project == project,
        }
    }
}

/// A body of JSON, and the digest of its bytes.
pub(super) struct Body<T>(pub(super) T, pub(super) Vec<u8>);

impl<T: DeserializeOwned> FromRequest<Arc<Shared>> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, shared: &Arc<Shared>) -> Result<Body<T>, Problem> {
        let media = request.headers().get(header::CONTENT_TYPE);
        let media = media.and_then(|media| media.to_str().ok()).unwrap_or_default();
        if !media.starts_with("application/json") {
            let detail = "the body must be application/json";
            return Err(Problem::new(415, ProblemKind::NotJson, "The body is not JSON", detail));
        }
        let bytes = Bytes::from_request(request, shared).await.map_err(|_| {
            Problem::new(
                413,
                ProblemKind::TooLarge,
                "The body is too large",
                "a body of up to 64 KiB is read",
            )
        })?;
        let read = serde_json::from_slice(&bytes);
        let value = read.map_err(|error| Problem::bad(format!("the body: {error}")))?;
        Ok(Body(value, digest(&SHA256, &bytes).as_ref().to_vec()))
    }
}

/// The key under which a request is done once, with the digest of all that it asks.
pub(super) fn idempotency(
    headers: &HeaderMap,
    path: &str,
    body: &[u8],
) -> Result<Option<(String, Vec<u8>)>, Problem> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    let key = value.to_str().unwrap_or_default().trim();
    if key.is_empty() || key.len() > 200 {
        return Err(Problem::bad("an Idempotency-Key is 1 to 200 printable characters"));
    }
    let asked = [path.as_bytes(), b"\0", body].concat();
    Ok(Some((key.to_owned(), digest(&SHA256, &asked).as_ref().to_vec())))
}

/// The version that `If-Match` means.
pub(super) fn if_match(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(value) = headers.get(header::IF_MATCH) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default().trim();
    if text == "*" {
        return Ok(None);
    }
    let version = text.trim_matches('"').parse().map(Some);
    version.map_err(|_| Problem::bad("If-Match holds a version, such as \"3\""))
}

/// The time in `text`, now when it is absent.
pub(super) fn time_or_now(text: Option<&str>) -> Result<Time, Problem> {
    text.map_or_else(|| Ok(now()), time)
}

pub(super) fn time(text: &str) -> Result<Time, Problem> {
    time_of(text).ok_or_else(|| match text.parse::<jiff::Timestamp>() {
        Ok(_) => Problem::bad(format!("`{text}` is not within the years 1970 to 2553")),
        Err(_) => Problem::bad(format!("`{text}` is no time of RFC 3339")),
    })
}

/// The two sites called so.
pub(super) fn ends(topology: &Topology, from: &str, to: &str) -> Result<(SiteId, SiteId), Problem> {
    let site = |name: &str| {
        let missing = || {
            let known = match topology.sites() {
                sites if sites.len() <= SITES => format!(": there are {}", sites.join(", ")),
                _ => String::new(),
            };
            Problem::bad(format!("there is no site `{name}`{known}"))
        };
        topology.site(name).ok_or_else(missing)
    };
    Ok((site(from)?, site(to)?))
}

/// A search for all slots.
#[derive(Debug)]
pub(super) struct AllSlots {
    pub(super) rate: Rate,
    pub(super) duration: Span,
    pub(super) search: TimeWindow,
}

/// The problem that a document describes, up to `horizon`; all slots are another kind.
pub(super) fn problem(
    topology: &Topology,
    document: &ProblemDocument,
    horizon: Time,
) -> Result<Result<BookingProblem, AllSlots>, Problem> {
    let window = |start: &Option<String>, end: &Option<String>| {
        let end = end.as_deref().map_or(Ok(horizon), time)?;
        Ok::<_, Problem>(TimeWindow { start: time_or_now(start.as_deref())?, end })
    };
    let most = || topology.links().map(|(_, link)| link.capacity.as_bps()).sum::<u64>();
    let seconds = |seconds: u64| {
        // More than a century is as much as any.
        Span::from_secs(seconds.min(4_000_000_000))
    };
    Ok(Ok(match document {
        ProblemDocument::Fixed { rate_bps, start, end } => BookingProblem::Fixed {
            rate: Rate::from_bps(*rate_bps),
            window: window(start, &Some(end.clone()))?,
        },
        ProblemDocument::Highest { start, end, at_least_bps, at_most_bps } => {
            BookingProblem::Highest {
                window: window(start, &Some(end.clone()))?,
                at_least: Rate::from_bps(at_least_bps.unwrap_or(1)),
                at_most: Rate::from_bps(at_most_bps.unwrap_or(u64::MAX)),
            }
        }
        ProblemDocument::First { rate_bps, seconds: length, start, end } => BookingProblem::First {
            rate: Rate::from_bps(*rate_bps),
            duration: seconds(*length),
            search: window(start, end)?,
        },
        ProblemDocument::All { rate_bps, seconds: length, start, end } => {
            return Ok(Err(AllSlots {
                rate: Rate::from_bps(*rate_bps),
                duration: seconds(*length),
                search: window(start, end)?,
            }));
        }
        ProblemDocument::Volume { volume_bytes, start, end, at_most_bps, variable, several } => {
            BookingProblem::Volume {
                volume: units::Bytes(*volume_bytes),
                search: window(start, end)?,
                limit: Rate::from_bps(at_most_bps.unwrap_or_else(most)),
                shape: VolumeShape { variable: *variable, several: *several },
            }
        }
        ProblemDocument::Legs { legs } => {
            let missing = || Problem::bad("a leg names a link or time that is none");
            let legs: Option<Vec<Leg>> = legs.iter().map(|leg| leg.to_leg(topology)).collect();
            match legs.filter(|legs| !legs.is_empty() && legs.len() <= 1000) {
                Some(legs) => BookingProblem::Legs(legs),
                None => return Err(missing()),
            }
        }
    }))
}

pub(super) fn refused(shared: &Shared, refusal: &BookingRefusal) -> Problem {
    Problem(Box::new(RefusalDocument::of(&shared.topology, refusal)))
}

pub(super) fn label(text: Option<String>) -> Result<String, Problem> {
    let text = text.unwrap_or_default();
    match text.len() > LABEL || text.chars().any(char::is_control) {
        true => Err(Problem::bad("a label is up to 200 bytes of printable text")),
        false => Ok(text),
    }
}

pub(super) fn id_of(text: &str) -> Result<ReservationId, Problem> {
    let missing = |()| Problem::not_found(format!("there is no reservation {text}"));
    text.parse::<ReservationId>().map_err(missing)
}

/// The reservation called `text`, if the caller may see it: what he may not see is not there.
pub(super) async fn visible(
    shared: &Arc<Shared>,
    caller: &Caller,
    text: &str,
) -> Result<ReservationDocument, Problem> {
    let id = id_of(text)?;
    let document = |known: &Arc<Reservation>| ReservationDocument::of(&shared.topology, known);
    let here = shared.read(|book| book.reservation(id).map(document));
    let found = match here {
        Some(document) => Some(document),
        None => {
            let body =
                shared.stored(move |ledger| ledger.record(RecordKind::Reservation, id.0)).await;
            let body = body.map_err(|_| Problem::unread())?;
            body.and_then(|body| serde_json::from_str(&body).ok())
        }
    };
    found
        .filter(|found: &ReservationDocument| caller.sees(&found.project))
        .ok_or_else(|| Problem::not_found(format!("there is no reservation {id}")))
}

//! The log as it grows: server-sent events that go on where a client left off, and pages of it.

use super::super::identity::Caller;
use super::super::ledger::{Logged, RecordKind};
use super::super::wire::{EventDocument, LastDocument, RefusalDocument};
use super::Shared;
use super::problem::Problem;
use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use hyper::body::Frame;
use serde::Deserialize;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc;

/// Entries that are read at a time.
const PAGE: usize = 200;
/// How often a silent stream says that it lives.
const ALIVE: Duration = Duration::from_secs(15);

/// From where on the log is asked for.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct After {
    /// The number of the last entry that is known; 0 for all, the newest when absent.
    after: Option<u64>,
}

fn event(entry: &Logged) -> EventDocument {
    let kind = entry.record_kind();
    EventDocument {
        seq: entry.seq,
        at: entry.at.clone(),
        actor: entry.actor.clone(),
        verb: entry.verb.clone(),
        reservation: (kind == Some(RecordKind::Reservation))
            .then(|| serde_json::from_str(&entry.body).ok())
            .flatten(),
        closure: (kind == Some(RecordKind::Closure))
            .then(|| serde_json::from_str(&entry.body).ok())
            .flatten(),
    }
}

/// The next entries after `seq` that the caller may see, and the number of the last that was read.
async fn page(
    shared: &Arc<Shared>,
    caller: &Caller,
    seq: u64,
) -> Result<(u64, Vec<EventDocument>), Problem> {
    let entries = shared.stored(move |ledger| ledger.log_after(seq, PAGE)).await;
    let entries = entries.map_err(|_| Problem::unread())?;
    let last = entries.last().map_or(seq, |entry| entry.seq);
    let seen = entries
        .iter()
        .map(event)
        .filter(|event| event.reservation.as_ref().is_none_or(|known| caller.sees(&known.project)));
    Ok((last, seen.collect()))
}

/// Up to 200 entries of the log.
#[utoipa::path(get, path = "/v1/log", params(After), responses(
    (status = 200, body = Vec<EventDocument>), (status = 401, body = RefusalDocument),
    (status = 422, body = RefusalDocument), (status = 503, body = RefusalDocument)))]
pub(super) async fn log(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    after: Result<Query<After>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<Vec<EventDocument>>, Problem> {
    let Query(After { after }) = after.map_err(|error| Problem::bad(error.body_text()))?;
    page(&shared, &caller, after.unwrap_or(0)).await.map(|(_, events)| Json(events))
}

/// The number of the log's last entry: a reply to come has what is there by then.
#[utoipa::path(get, path = "/v1/log/last", responses(
    (status = 200, body = LastDocument), (status = 401, body = RefusalDocument)))]
pub(super) async fn last(State(shared): State<Arc<Shared>>, _: Caller) -> Json<LastDocument> {
    Json(LastDocument { seq: *shared.seq.borrow() })
}

/// Every change from now on, or after the entry that `after` or `Last-Event-ID` names.
#[utoipa::path(get, path = "/v1/events", params(After,
    ("Last-Event-ID" = Option<u64>, Header, description = "As `after`")), responses(
    (status = 200, content_type = "text/event-stream", body = String),
    (status = 401, body = RefusalDocument), (status = 422, body = RefusalDocument)))]
pub(super) async fn stream(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    after: Result<Query<After>, axum::extract::rejection::QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let Query(After { after }) = after.map_err(|error| Problem::bad(error.body_text()))?;
    let header_id = match headers.get("last-event-id") {
        None => None,
        Some(value) => {
            let wrong = || Problem::bad("Last-Event-ID is a number");
            Some(value.to_str().ok().and_then(|text| text.parse().ok()).ok_or_else(wrong)?)
        }
    };
    let mut seq = shared.seq.clone();
    let mut at: u64 = header_id.or(after).unwrap_or(*seq.borrow_and_update());
    let (sender, receiver) = mpsc::channel::<Bytes>(16);
    // The stream holds no hand on what is shared, so that the service can end.
    let shared = Arc::downgrade(&shared);
    tokio::spawn(async move {
        let mut text = ": farline calendar\n\n".to_owned();
        loop {
            if sender.send(Bytes::from(text)).await.is_err() {
                return;
            }
            text = loop {
                let Some(shared) = shared.upgrade() else { return };
                let Ok((last, events)) = page(&shared, &caller, at).await else { return };
                let caught_up = last == at;
                at = last;
                drop(shared);
                let mut text = String::new();
                for event in events {
                    let body = serde_json::to_string(&event).unwrap_or_default();
                    text += &format!("id: {}\nevent: {}\ndata: {body}\n\n", event.seq, event.verb);
                }
                if !text.is_empty() {
                    break text;
                }
                if !caught_up {
                    continue;
                }
                match tokio::time::timeout(ALIVE, seq.wait_for(|newest| *newest > at)).await {
                    Ok(Ok(_)) => {}
                    // The service ends.
                    Ok(Err(_)) => return,
                    Err(_) => break ": alive\n\n".to_owned(),
                }
            };
        }
    });
    let body = Body::new(Frames(receiver));
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// What a task sends, as a body.
struct Frames(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

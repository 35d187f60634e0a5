//! The API: each path, who may ask it, and what it replies.

use super::super::clock::{now, timestamp};
use super::super::identity::Caller;
use super::super::wire::{
    AvailabilityDocument, ChangeDocument, CloseDocument, ClosureDocument, ClosuresDocument,
    FoundDocument, FreeDocument, IntervalDocument, LegDocument, LinkDocument, ProblemKind,
    RefusalDocument, ReservationDocument, ReservationsDocument, ReserveDocument, SearchDocument,
    SiteDocument, StateDocument, TopologyDocument, WindowDocument,
};
use super::super::writer::{Done, WriterJob, verb_named};
use super::Shared;
use super::ask::{
    AllSlots, Asked, Body, ends, id_of, idempotency, if_match, label, problem, refused, time,
    time_or_now, visible,
};
use super::circuits;
use super::events;
use super::page;
use super::problem::Problem;
use crate::identity::CalendarRole;
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use farline_core::calendar::{
    BookOrder, BookingRequest, Reservation, ReservationChange, ReservationId, TimeWindow, search,
};
use farline_core::units::{Rate, Span};
use serde::Deserialize;
use std::sync::Arc;
use tokio::sync::oneshot;

/// The largest body that is read.
const LARGEST: usize = 64 << 10;
/// Reservations of one page at most.
const PAGE: usize = 1000;
/// Windows of starts, and intervals of a link, that are told at most.
const MANY: usize = 10_000;
/// The service's paths.
pub(super) fn routes(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/v1/topology", get(topology))
        .route("/v1/links", get(links))
        .route("/v1/availability", post(availability))
        .route("/v1/reservations", get(list).post(reserve))
        .route("/v1/reservations/{id}", get(show).patch(change))
        .route("/v1/reservations/{id}/{verb}", post(perform))
        .route("/v1/closures", get(closures).post(close))
        .route("/v1/closures/{id}/reopen", post(reopen))
        .route("/v1/circuits", get(circuits::list))
        .route("/v1/circuits/{id}", put(circuits::report))
        .route("/v1/events", get(events::stream))
        .route("/v1/log", get(events::log))
        .route("/v1/log/last", get(events::last))
        .route("/", get(page::page))
        .route("/page.js", get(page::script))
        .route("/page.css", get(page::style))
        .fallback(|| async { Problem::not_found("there is no such path") })
        .method_not_allowed_fallback(|| async {
            Problem::new(405, ProblemKind::Method, "Not that method", "the path has other methods")
        })
        .layer(DefaultBodyLimit::max(LARGEST))
        .with_state(shared)
}

/// The network.
#[utoipa::path(get, path = "/v1/topology", responses(
    (status = 200, body = TopologyDocument), (status = 401, body = RefusalDocument)))]
pub(super) async fn topology(State(shared): Asked, _: Caller) -> Json<TopologyDocument> {
    let topology = &shared.topology;
    let site = |name: &String| SiteDocument {
        name: name.clone(),
        hosts: topology.site(name).map(|site| topology.hosts(site)).unwrap_or_default(),
    };
    let link = |link: &farline_core::calendar::NetworkLink| LinkDocument {
        name: link.name.clone(),
        from: topology.site_name(link.from).to_owned(),
        to: topology.site_name(link.to).to_owned(),
        rate_bps: link.capacity.as_bps(),
        one_way_delay_ns: link.one_way_delay.as_nanos(),
    };
    Json(TopologyDocument {
        schema: "farline/topology/1".to_owned(),
        name: topology.name.clone(),
        sites: topology.sites().iter().map(site).collect(),
        links: topology.links().map(|(_, known)| link(known)).collect(),
        now: timestamp(now()),
    })
}

/// From when to when something is asked about.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct Between {
    /// RFC 3339; now when absent.
    #[param(format = DateTime)]
    start: Option<String>,
    /// RFC 3339; a week later when absent.
    #[param(format = DateTime)]
    end: Option<String>,
}

fn query<T>(
    query: Result<Query<T>, axum::extract::rejection::QueryRejection>,
) -> Result<T, Problem> {
    query.map(|Query(value)| value).map_err(|error| Problem::bad(error.body_text()))
}

type Asks<T> = Result<Query<T>, axum::extract::rejection::QueryRejection>;

/// What is free on every link over time.
#[utoipa::path(get, path = "/v1/links", params(Between), responses(
    (status = 200, body = AvailabilityDocument), (status = 401, body = RefusalDocument),
    (status = 422, body = RefusalDocument)))]
pub(super) async fn links(
    State(shared): Asked,
    _: Caller,
    between: Asks<Between>,
) -> Result<Json<AvailabilityDocument>, Problem> {
    let between = query(between)?;
    let start = time_or_now(between.start.as_deref())?;
    let week = Span::from_secs(7 * 86_400);
    let end = between.end.as_deref().map_or(Ok(start + week), time)?;
    let window = TimeWindow { start, end };
    if window.is_empty() {
        return Err(Problem::bad("the time ends before it starts"));
    }
    let network = shared.read(|book| book.network().clone());
    let link = |(id, link): (_, &farline_core::calendar::NetworkLink)| FreeDocument {
        link: link.name.clone(),
        rate_bps: link.capacity.as_bps(),
        intervals: network
            .timeline(id)
            .intervals(start)
            .take_while(|interval| interval.window.start < end)
            .take(MANY)
            .map(|interval| {
                let window = interval.window.intersection(&window);
                IntervalDocument {
                    start: timestamp(window.start),
                    end: timestamp(window.end),
                    free_bps: interval.free.as_bps(),
                }
            })
            .collect(),
    };
    Ok(Json(AvailabilityDocument {
        schema: "farline/links/1".to_owned(),
        links: shared.topology.links().map(link).collect(),
    }))
}

/// Solves a problem, and books nothing.
#[utoipa::path(post, path = "/v1/availability", request_body = SearchDocument, responses(
    (status = 200, body = FoundDocument), (status = 401, body = RefusalDocument),
    (status = 403, body = RefusalDocument), (status = 409, body = RefusalDocument),
    (status = 413, body = RefusalDocument), (status = 415, body = RefusalDocument),
    (status = 422, body = RefusalDocument)))]
pub(super) async fn availability(
    State(shared): Asked,
    caller: Caller,
    Body(asked, _): Body<SearchDocument>,
) -> Result<Json<FoundDocument>, Problem> {
    let ends = ends(&shared.topology, &asked.from, &asked.to)?;
    let both_ways = asked.both_ways.unwrap_or(true);
    let horizon = now() + shared.read(|book| book.limits().horizon);
    let found = |legs, starts, truncated| {
        let schema = "farline/availability/1".to_owned();
        Json(FoundDocument { schema, legs, starts, truncated })
    };
    match problem(&shared.topology, &asked.wanted, horizon)? {
        Ok(problem) => {
            let request = BookingRequest {
                ends,
                problem,
                both_ways,
                owner: caller.name,
                // What a policy would take from others is not free.
                project: String::new(),
                label: String::new(),
                hold: None,
                provision: false,
                rights: caller.rights,
            };
            let solved = shared.read(|book| book.search(now(), &request));
            let legs = solved.map_err(|refusal| refused(&shared, &refusal))?;
            let legs = legs.iter().map(|leg| LegDocument::of(&shared.topology, leg)).collect();
            Ok(found(legs, Vec::new(), false))
        }
        Err(AllSlots { rate, duration, search }) => {
            if rate == Rate::default() || duration == Span::ZERO || ends.0 == ends.1 {
                return Err(Problem::bad("a slot needs a rate, a length and two sites"));
            }
            if search.is_empty() {
                return Err(Problem::bad("the time ends before it starts"));
            }
            let (network, search) =
                shared.read(|book| (book.network().clone(), book.searchable(now(), search)));
            let view = network.view(both_ways);
            let slots = search::all_slots(view, ends, rate, duration, search);
            let window = |window: &TimeWindow| WindowDocument {
                start: timestamp(window.start),
                end: timestamp(window.end - Span::from_nanos(1)),
            };
            let starts = slots.windows().iter().take(MANY).map(window).collect();
            Ok(found(Vec::new(), starts, slots.windows().len() > MANY))
        }
    }
}

/// Hands an order to the writer, and waits until it is durable.
async fn order(
    shared: &Shared,
    caller: &Caller,
    order: BookOrder,
    key: Option<(String, Vec<u8>)>,
    status: u16,
) -> Result<Response, Problem> {
    let (reply, outcome) = oneshot::channel();
    let job = WriterJob { order, actor: caller.name.clone(), key, status, reply };
    if !shared.writer.send(job) {
        return Err(Problem::busy());
    }
    // A writer that came to its end may have written it before.
    let done = outcome.await.map_err(|_| Problem::in_doubt())??;
    Ok(reply_of(&done))
}

fn reply_of(done: &Done) -> Response {
    let status = StatusCode::from_u16(done.status).unwrap_or(StatusCode::OK);
    let mut response = (status, done.body.clone()).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if done.again {
        let name = HeaderName::from_static("idempotency-replayed");
        headers.insert(name, HeaderValue::from_static("true"));
    }
    let document: Option<ReservationDocument> = serde_json::from_str(&done.body).ok();
    if let Some(document) = document {
        if let Ok(tag) = HeaderValue::from_str(&format!("\"{}\"", document.version)) {
            headers.insert(header::ETAG, tag);
        }
        if status == StatusCode::CREATED
            && let Ok(place) = HeaderValue::from_str(&format!("/v1/reservations/{}", document.id))
        {
            headers.insert(header::LOCATION, place);
        }
    }
    response
}

/// Books, or holds.
#[utoipa::path(post, path = "/v1/reservations", request_body = ReserveDocument,
    params(("Idempotency-Key" = Option<String>, Header,
        description = "The same request with the same key is done once")),
    responses(
    (status = 201, body = ReservationDocument), (status = 401, body = RefusalDocument),
    (status = 403, body = RefusalDocument), (status = 409, body = RefusalDocument),
    (status = 413, body = RefusalDocument), (status = 415, body = RefusalDocument),
    (status = 422, body = RefusalDocument), (status = 503, body = RefusalDocument)))]
pub(super) async fn reserve(
    State(shared): Asked,
    caller: Caller,
    headers: HeaderMap,
    Body(asked, digest): Body<ReserveDocument>,
) -> Result<Response, Problem> {
    caller.must_be(&[CalendarRole::Admin, CalendarRole::User])?;
    let key = idempotency(&headers, "reserve", &digest)?;
    let horizon = now() + shared.read(|book| book.limits().horizon);
    let Ok(problem) = problem(&shared.topology, &asked.wanted, horizon)? else {
        return Err(Problem::bad("all slots can be searched, and not booked"));
    };
    let request = BookingRequest {
        ends: ends(&shared.topology, &asked.from, &asked.to)?,
        problem,
        both_ways: asked.both_ways.unwrap_or(true),
        owner: caller.name.clone(),
        project: caller.project.clone(),
        label: label(asked.label)?,
        hold: asked.hold_seconds.map(|seconds| Span::from_secs(seconds.min(4_000_000_000))),
        provision: asked.provision.unwrap_or(true),
        rights: caller.rights.clone(),
    };
    order(&shared, &caller, BookOrder::Reserve(request), key, 201).await
}

/// A reservation.
#[utoipa::path(get, path = "/v1/reservations/{id}", params(("id" = String, Path)), responses(
    (status = 200, body = ReservationDocument), (status = 401, body = RefusalDocument),
    (status = 404, body = RefusalDocument), (status = 503, body = RefusalDocument)))]
pub(super) async fn show(
    State(shared): Asked,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let document = visible(&shared, &caller, &id).await?;
    let body = serde_json::to_string(&document).map_err(|_| Problem::store())?;
    Ok(reply_of(&Done { status: 200, body, again: false }))
}

/// Which reservations are asked for.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    /// Those in this state; all that are not over when absent.
    state: Option<StateDocument>,
    /// Those after this one.
    after: Option<String>,
    /// At most so many.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Reservations: a user's own project's, or all.
#[utoipa::path(get, path = "/v1/reservations", params(Which), responses(
    (status = 200, body = ReservationsDocument), (status = 401, body = RefusalDocument),
    (status = 422, body = RefusalDocument)))]
pub(super) async fn list(
    State(shared): Asked,
    caller: Caller,
    which: Asks<Which>,
) -> Result<Json<ReservationsDocument>, Problem> {
    let which = query(which)?;
    let wrong = |()| Problem::bad("`after` names no reservation");
    let after =
        which.after.as_deref().map(str::parse::<ReservationId>).transpose().map_err(wrong)?;
    let limit = which.limit.unwrap_or(PAGE);
    if !(1..=PAGE).contains(&limit) {
        return Err(Problem::bad("`limit` is 1 to 1000"));
    }
    let wanted = |reservation: &&Arc<Reservation>| {
        caller.sees(&reservation.project)
            && after.is_none_or(|after| reservation.id > after)
            && match which.state {
                None => reservation.takes_bandwidth(),
                Some(state) => StateDocument::of(reservation.state) == state,
            }
    };
    let document = |known: &Arc<Reservation>| ReservationDocument::of(&shared.topology, known);
    let mut reservations: Vec<ReservationDocument> = shared
        .read(|book| book.reservations().filter(wanted).take(limit + 1).map(document).collect());
    let more = reservations.len() > limit;
    reservations.truncate(limit);
    let next = reservations.last().filter(|_| more).map(|last| last.id.clone());
    Ok(Json(ReservationsDocument {
        schema: "farline/reservations/1".to_owned(),
        reservations,
        next,
    }))
}

/// Refuses who may see a reservation and not change it.
async fn changeable(
    shared: &Arc<Shared>,
    caller: &Caller,
    id: &str,
) -> Result<ReservationId, Problem> {
    let document = visible(shared, caller, id).await?;
    caller.must_be(&[CalendarRole::Admin, CalendarRole::User])?;
    id_of(&document.id)
}

/// Changes a reservation in place, all of it or nothing.
#[utoipa::path(patch, path = "/v1/reservations/{id}", request_body = ChangeDocument,
    params(("id" = String, Path),
        ("If-Match" = Option<String>, Header, description = "The version that is meant"),
        ("Idempotency-Key" = Option<String>, Header)),
    responses(
    (status = 200, body = ReservationDocument), (status = 401, body = RefusalDocument),
    (status = 403, body = RefusalDocument), (status = 404, body = RefusalDocument),
    (status = 409, body = RefusalDocument), (status = 412, body = RefusalDocument),
    (status = 413, body = RefusalDocument), (status = 415, body = RefusalDocument),
    (status = 422, body = RefusalDocument), (status = 503, body = RefusalDocument)))]
pub(super) async fn change(
    State(shared): Asked,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    Body(asked, digest): Body<ChangeDocument>,
) -> Result<Response, Problem> {
    let id = changeable(&shared, &caller, &id).await?;
    let key = idempotency(&headers, &format!("change {id}"), &digest)?;
    let change = ReservationChange {
        rate: asked.rate_bps.map(Rate::from_bps),
        start: asked.start.as_deref().map(time).transpose()?,
        end: asked.end.as_deref().map(time).transpose()?,
    };
    let (version, rights) = (if_match(&headers)?, caller.rights.clone());
    order(&shared, &caller, BookOrder::Change { id, change, version, rights }, key, 200).await
}

/// Commits, aborts, provisions, releases or terminates.
#[utoipa::path(post, path = "/v1/reservations/{id}/{verb}", operation_id = "act",
    params(("id" = String, Path),
        ("verb" = String, Path, description = "commit, abort, provision, release or terminate"),
        ("If-Match" = Option<String>, Header, description = "The version that is meant"),
        ("Idempotency-Key" = Option<String>, Header)),
    responses(
    (status = 200, body = ReservationDocument), (status = 401, body = RefusalDocument),
    (status = 403, body = RefusalDocument), (status = 404, body = RefusalDocument),
    (status = 409, body = RefusalDocument), (status = 412, body = RefusalDocument),
    (status = 422, body = RefusalDocument), (status = 503, body = RefusalDocument)))]
pub(super) async fn perform(
    State(shared): Asked,
    caller: Caller,
    Path((id, verb)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let Some(verb) = verb_named(&verb) else {
        return Err(Problem::not_found(
            "a reservation knows commit, abort, provision, release and terminate",
        ));
    };
    let id = changeable(&shared, &caller, &id).await?;
    let key = idempotency(&headers, &format!("{verb:?} {id}"), &[])?;
    let version = if_match(&headers)?;
    order(&shared, &caller, BookOrder::Perform { id, verb, version }, key, 200).await
}

/// Every closure that stands.
#[utoipa::path(get, path = "/v1/closures", responses(
    (status = 200, body = ClosuresDocument), (status = 401, body = RefusalDocument)))]
pub(super) async fn closures(State(shared): Asked, _: Caller) -> Json<ClosuresDocument> {
    let topology = &shared.topology;
    let closures = shared
        .read(|book| book.closures().map(|known| ClosureDocument::of(topology, known)).collect());
    Json(ClosuresDocument { schema: "farline/closures/1".to_owned(), closures })
}

/// Closes a link for maintenance; moves what can be moved, and says what cannot.
#[utoipa::path(post, path = "/v1/closures", request_body = CloseDocument, responses(
    (status = 201, body = ClosureDocument), (status = 401, body = RefusalDocument),
    (status = 403, body = RefusalDocument), (status = 413, body = RefusalDocument),
    (status = 415, body = RefusalDocument), (status = 422, body = RefusalDocument),
    (status = 503, body = RefusalDocument)))]
pub(super) async fn close(
    State(shared): Asked,
    caller: Caller,
    headers: HeaderMap,
    Body(asked, digest): Body<CloseDocument>,
) -> Result<Response, Problem> {
    caller.must_be(&[CalendarRole::Admin])?;
    let missing = || Problem::bad(format!("there is no link `{}`", asked.link));
    let close = BookOrder::Close {
        link: shared.topology.link_named(&asked.link).ok_or_else(missing)?,
        window: TimeWindow { start: time_or_now(asked.start.as_deref())?, end: time(&asked.end)? },
        reason: label(asked.reason)?,
    };
    let key = idempotency(&headers, "close", &digest)?;
    order(&shared, &caller, close, key, 201).await
}

/// Takes a closure back.
#[utoipa::path(post, path = "/v1/closures/{id}/reopen", params(("id" = u64, Path)), responses(
    (status = 200, body = ClosureDocument), (status = 401, body = RefusalDocument),
    (status = 403, body = RefusalDocument), (status = 404, body = RefusalDocument),
    (status = 503, body = RefusalDocument)))]
pub(super) async fn reopen(
    State(shared): Asked,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    caller.must_be(&[CalendarRole::Admin])?;
    let missing = |_| Problem::not_found(format!("there is no closure {id}"));
    let closure = id.parse().map_err(missing)?;
    order(&shared, &caller, BookOrder::Reopen { closure }, None, 200).await
}

//! What agents say of circuits, against what is booked: an agent that says something else, or nothing
//! more, stands as the circuit's trouble.

use super::super::clock::{now, timestamp};
use super::super::identity::{CalendarRole, Caller};
use super::super::wire::{CircuitDocument, CircuitReport, CircuitsDocument, RefusalDocument};
use super::ask::{Asked, Body, label, refused};
use super::problem::Problem;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use farline_core::calendar::circuit::contradiction;
use farline_core::calendar::{
    BookingRefusal, RefusalCause, Reservation, ReservationId, ReservationState,
};
use farline_core::units::{Rate, Span, Time};
use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// How long an agent may take to do what is booked anew before it is said that it did not.
const GRACE: Duration = Duration::from_secs(3);
/// How long an agent may say nothing: it speaks of each circuit each 2 s.
const SILENT: Duration = Duration::from_secs(6);

/// What an agent said last of a circuit.
#[derive(Clone, Debug)]
pub(in crate::calendar) struct HeardCircuit {
    document: CircuitDocument,
    at: Instant,
    /// Since when what it says is not what is booked.
    odd: Option<Instant>,
}

impl HeardCircuit {
    /// What it said, with what is wrong with that.
    fn told(&self, booked: Option<&Reservation>, time: Time, now: Instant) -> CircuitDocument {
        let mut document = self.document.clone();
        let report = &mut document.report;
        let silent = now.saturating_duration_since(self.at);
        let odd = self.odd.filter(|odd| now.saturating_duration_since(*odd) >= GRACE);
        if silent >= SILENT {
            let seconds = silent.as_secs();
            let said = report.trouble.take().map(|said| format!("; {said}")).unwrap_or_default();
            report.trouble = Some(format!("its agent has said nothing for {seconds} s{said}"));
        } else if report.trouble.is_none() && odd.is_some() {
            report.trouble = booked.and_then(|booked| differs(booked, time, report));
        }
        document
    }
}

fn differs(booked: &Reservation, time: Time, report: &CircuitReport) -> Option<String> {
    contradiction(booked, time, report.up, Rate::from_bps(report.rate_bps))
}

/// What stands for a circuit whose time has come, and of which nobody has said anything.
fn unheard(booked: &Reservation, time: Time) -> Option<CircuitDocument> {
    let due = booked.legs.iter().find(|leg| leg.window.contains(time))?.window.start;
    let is_late = time.since(due) >= Span::from(SILENT);
    (is_late && booked.state == ReservationState::Provisioned).then(|| CircuitDocument {
        report: CircuitReport {
            id: booked.id.to_string(),
            up: false,
            rate_bps: 0,
            carried_bytes: 0,
            addresses: None,
            trouble: Some("no agent has said anything of it".to_owned()),
        },
        agent: String::new(),
        at: timestamp(time),
    })
}

/// What agents said last of each circuit, and what is wrong with that.
#[utoipa::path(get, path = "/v1/circuits", operation_id = "circuits", responses(
    (status = 200, body = CircuitsDocument), (status = 401, body = RefusalDocument)))]
pub(super) async fn list(State(shared): Asked, caller: Caller) -> Json<CircuitsDocument> {
    let heard = shared.circuits.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let time = shared.read(|book| book.now(now()));
    let mut all: BTreeMap<String, CircuitDocument> = shared.read(|book| {
        let standing = book.standing().filter(|known| caller.sees(&known.project));
        let missing = standing.filter_map(|known| unheard(known, time));
        missing.map(|document| (document.report.id.clone(), document)).collect()
    });
    for (id, circuit) in heard {
        let document = shared.read(|book| {
            // What was heard of was booked then, and so it is in the book still.
            let booked = id.parse::<ReservationId>().ok().and_then(|id| book.reservation(id))?;
            let seen = caller.sees(&booked.project);
            seen.then(|| circuit.told(Some(booked.as_ref()), time, Instant::now()))
        });
        all.extend(document.map(|document| (id, document)));
    }
    let schema = "farline/circuits/1".to_owned();
    Json(CircuitsDocument { schema, circuits: all.into_values().collect() })
}

/// An agent's word on a circuit.
#[utoipa::path(put, path = "/v1/circuits/{id}", request_body = CircuitReport,
    params(("id" = String, Path)), responses(
    (status = 204), (status = 401, body = RefusalDocument), (status = 403, body = RefusalDocument),
    (status = 404, body = RefusalDocument), (status = 413, body = RefusalDocument),
    (status = 415, body = RefusalDocument), (status = 422, body = RefusalDocument)))]
pub(super) async fn report(
    State(shared): Asked,
    caller: Caller,
    Path(id): Path<String>,
    Body(report, _): Body<CircuitReport>,
) -> Result<StatusCode, Problem> {
    caller.must_be(&[CalendarRole::Agent, CalendarRole::Admin])?;
    if report.id != id {
        return Err(Problem::bad("the report is of another circuit"));
    }
    let trouble = label(report.trouble.clone())?;
    let booked = report.id.parse::<ReservationId>().ok();
    let standing = booked.and_then(|id| {
        shared.read(|book| book.reservation(id).filter(|known| known.takes_bandwidth()).cloned())
    });
    let mut known = shared.circuits.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(booked) = standing else {
        known.remove(&id);
        drop(known);
        // An agent can speak of what is booked, and of nothing else; of what is over, that it is down.
        if report.up {
            let cause = RefusalCause::NotFound;
            let detail = format!("{id} is no circuit of this calendar's: take it down");
            let refusal =
                BookingRefusal { cause, detail, obstacles: Vec::new(), alternatives: Vec::new() };
            return Err(refused(&shared, &refusal));
        }
        return Ok(StatusCode::NO_CONTENT);
    };
    let trouble = Some(trouble).filter(|trouble| !trouble.is_empty());
    let report = CircuitReport { trouble, ..report };
    let (time, at) = (shared.read(|book| book.now(now())), Instant::now());
    let since = known.get(&id).and_then(|known| known.odd).unwrap_or(at);
    let odd = differs(&booked, time, &report).map(|_| since);
    let document = CircuitDocument { report, agent: caller.name, at: timestamp(now()) };
    known.insert(id, HeardCircuit { document, at, odd });
    Ok(StatusCode::NO_CONTENT)
}

//! What agents say of circuits, held against what is booked: the words come in here, and go out
//! with what is wrong with them.

use super::super::clock::{now, timestamp};
use super::super::identity::Caller;
use super::super::wire::{CircuitDocument, CircuitReport, CircuitsDocument, RefusalDocument};
use super::Shared;
use super::ask::{Asked, Body, label, refused};
use super::problem::Problem;
use crate::identity::CalendarRole;
use crate::sys::lock::lock;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use farline_core::calendar::circuit::CircuitNumber;
use farline_core::calendar::reports::{
    AgentReport, CircuitReporter, CircuitReports, JudgedReport, ReportTime,
};
use farline_core::calendar::{
    BookingRefusal, RefusalCause, Reservation, ReservationId, SiteId, Topology,
};
use farline_core::units::{Bytes, Rate, Time};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// What agents said last of each circuit. It is not kept: they say it again.
pub(in crate::calendar) struct HeardCircuits {
    reports: Mutex<CircuitReports>,
    begun: Instant,
}

impl HeardCircuits {
    pub(super) fn new() -> HeardCircuits {
        HeardCircuits { reports: Mutex::default(), begun: Instant::now() }
    }

    /// Now, by the calendar's clock and by one that nobody sets.
    fn time(&self, shared: &Shared) -> ReportTime {
        let steady = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let calendar = shared.read(|book| book.now(now()));
        ReportTime { calendar, steady: Time::from_nanos(steady) }
    }
}

fn document(word: JudgedReport, topology: &Topology) -> CircuitDocument {
    let AgentReport { up, rate, carried, addresses, trouble } = word.report;
    CircuitDocument {
        report: CircuitReport {
            id: word.number.reservation().to_string(),
            number: Some(word.number.0),
            site: word.reporter.site.map(|site| topology.site_name(site).to_owned()),
            up,
            rate_bps: rate.as_bps(),
            carried_bytes: carried.0,
            addresses,
            trouble,
        },
        agent: word.reporter.agent,
        at: timestamp(word.at),
    }
}

/// What agents said last of each circuit, and what is wrong with that.
#[utoipa::path(get, path = "/v1/circuits", operation_id = "circuits", responses(
    (status = 200, body = CircuitsDocument), (status = 401, body = RefusalDocument)))]
pub(super) async fn list(State(shared): Asked, caller: Caller) -> Json<CircuitsDocument> {
    let time = shared.circuits.time(&shared);
    let known = lock(&shared.circuits.reports).clone();
    let words: Vec<JudgedReport> = shared.read(|book| {
        // What was heard of was booked then, and so it is in the book still.
        let heard = known.reservations().filter_map(|id| book.reservation(id));
        let all: BTreeMap<ReservationId, &Arc<Reservation>> =
            book.standing().chain(heard).map(|booked| (booked.id, booked)).collect();
        let seen = all.into_values().filter(|booked| caller.sees(&booked.project));
        seen.flat_map(|booked| known.judged(time, booked)).collect()
    });
    let circuits = words.into_iter().map(|word| document(word, &shared.topology)).collect();
    Json(CircuitsDocument { schema: "farline/circuits/1".to_owned(), circuits })
}

/// Which circuit of reservation `id` a report is of: that of its first route where it does not say.
fn number_of(report: &CircuitReport, id: ReservationId) -> Result<CircuitNumber, Problem> {
    let number = match report.number {
        Some(number) => Some(CircuitNumber(number)),
        None => CircuitNumber::of(id, 0),
    };
    let own = number.filter(|number| number.reservation() == id);
    own.ok_or_else(|| Problem::bad(format!("no circuit of {id} has that number")))
}

/// Which of a reservation's ends a report is of.
fn end_of(
    report: &CircuitReport,
    booked: &Reservation,
    topology: &Topology,
) -> Result<Option<SiteId>, Problem> {
    let Some(name) = &report.site else { return Ok(None) };
    let site = topology.site(name).filter(|site| [booked.from, booked.to].contains(site));
    let none = || Problem::bad(format!("{} has no end at that site", booked.id));
    site.map(Some).ok_or_else(none)
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
    let known = report.id.parse::<ReservationId>().ok();
    let standing = known.and_then(|id| {
        shared.read(|book| book.reservation(id).filter(|known| known.takes_bandwidth()).cloned())
    });
    let Some(booked) = standing else {
        known.into_iter().for_each(|id| lock(&shared.circuits.reports).forget(id));
        // An agent can speak of what is booked, and of nothing else; of what is over, that it is
        // down.
        if report.up {
            let cause = RefusalCause::NotFound;
            let detail = format!("{id} is no circuit of this calendar's: take it down");
            let refusal =
                BookingRefusal { cause, detail, obstacles: Vec::new(), alternatives: Vec::new() };
            return Err(refused(&shared, &refusal));
        }
        return Ok(StatusCode::NO_CONTENT);
    };
    let number = number_of(&report, booked.id)?;
    let site = end_of(&report, &booked, &shared.topology)?;
    let reporter = CircuitReporter { agent: caller.name, site };
    let word = AgentReport {
        up: report.up,
        rate: Rate::from_bps(report.rate_bps),
        carried: Bytes(report.carried_bytes),
        addresses: report.addresses,
        trouble: Some(trouble).filter(|trouble| !trouble.is_empty()),
    };
    let time = shared.circuits.time(&shared);
    lock(&shared.circuits.reports).hear(time, &booked, number, reporter, word);
    Ok(StatusCode::NO_CONTENT)
}

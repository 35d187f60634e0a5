//! Reservations and refusals as people read them.

use super::when;
use farline::calendar::timestamp;
use farline::calendar::wire::{
    AlternativeDocument, CircuitDocument, LegDocument, RefusalDocument, ReservationDocument,
};
use farline_core::units::{Bytes, Rate};
use jiff::tz::TimeZone;
use std::fmt::Write;

/// When and how fast one leg is, and below it its route.
fn leg(leg: &LegDocument, zone: &TimeZone) -> [String; 2] {
    let rate = Rate::from_bps(leg.rate_bps);
    let when = when::span(&leg.start, &leg.end, zone);
    [format!("{when}, {rate}"), format!("  {}", leg.route.join(" "))]
}

/// What a reservation carries in all.
pub(super) fn volume(legs: &[LegDocument]) -> Bytes {
    let of = |leg: &LegDocument| {
        let duration = leg.window().map(|window| window.duration()).unwrap_or_default();
        Rate::from_bps(leg.rate_bps).bytes_in(duration).0
    };
    Bytes(legs.iter().map(of).sum())
}

/// A reservation in full.
pub(super) fn reservation(document: &ReservationDocument) -> String {
    let zone = TimeZone::system();
    let mut text = format!(
        "{}  {}  {} to {}{}",
        document.id,
        document.ended.clone().unwrap_or_else(|| document.state.to_string()),
        document.from,
        document.to,
        if document.both_ways { "" } else { ", one way" },
    );
    if !document.label.is_empty() {
        let _ = write!(text, "\n  {}", document.label);
    }
    for line in document.legs.iter().flat_map(|known| leg(known, &zone)) {
        let _ = write!(text, "\n  {line}");
    }
    let _ = write!(text, "\n  {} in all, booked by {}", volume(&document.legs), document.owner);
    if let Some(until) = &document.held_until {
        let _ = write!(text, "\n  held until {}", when::shown(until, &zone));
        let _ = write!(text, "; farline reserve commit {} makes it stand", document.id);
    }
    if document.stranded {
        text.push_str("\n  maintenance cuts it, and nothing else is free");
    }
    text
}

/// Each reservation, and below it its time and its label.
pub(super) fn list(reservations: &[ReservationDocument]) -> String {
    if reservations.is_empty() {
        return "no reservations".to_owned();
    }
    let zone = TimeZone::system();
    let line = |document: &ReservationDocument| {
        let rate = document.legs.iter().map(|leg| leg.rate_bps).max().unwrap_or(0);
        let window = document.window();
        let [start, end] = [window.start, window.end].map(timestamp);
        let label = Some(&document.label).filter(|label| !label.is_empty());
        let label = label.map(|label| format!("\n        {label}")).unwrap_or_default();
        format!(
            "{:<7} {:<11} {:>11}  {} to {}\n        {}{label}",
            document.id,
            document.state,
            Rate::from_bps(rate).to_string(),
            document.from,
            document.to,
            when::span(&start, &end, &zone),
        )
    };
    reservations.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// A line for each circuit, or for each end of it that has an agent of its own; its trouble below.
pub(super) fn circuits(circuits: &[CircuitDocument]) -> String {
    if circuits.is_empty() {
        return "no agent has said anything of a circuit".to_owned();
    }
    let line = |known: &CircuitDocument| {
        let report = &known.report;
        let state = match (report.up, &report.trouble) {
            (true, _) => "up",
            (false, None) => "ready",
            (false, Some(_)) => "down",
        };
        let by = Some(&known.agent).filter(|agent| !agent.is_empty());
        let by = by.map(|agent| format!("  by {agent}")).unwrap_or_default();
        let site = report.site.as_ref().map(|site| format!("  at {site}")).unwrap_or_default();
        let trouble = report.trouble.as_ref().map(|why| format!("\n  {why}")).unwrap_or_default();
        format!(
            "{:<7} {:<7} {state:<5} {:>12}  {:>8} carried{site}{by}{trouble}",
            report.id,
            report.number.map(|number| format!("c{number}")).unwrap_or_default(),
            Rate::from_bps(report.rate_bps).to_string(),
            Bytes(report.carried_bytes).to_string(),
        )
    };
    circuits.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// An alternative in a line, or one for each leg.
fn alternative(document: &AlternativeDocument) -> String {
    let zone = TimeZone::system();
    let first = document.legs.iter().take(6);
    let legs: Vec<String> = first.flat_map(|known| leg(known, &zone)).collect();
    let more = match document.legs.len() {
        0..=6 => String::new(),
        many => format!("\n                  and {} more", many - 6),
    };
    format!("  {:<14}  {}{more}", document.kind, legs.join("\n                  "))
}

/// What could be had instead, and how.
pub(super) fn alternatives(refusal: &RefusalDocument) -> String {
    let lines: Vec<String> = refusal.alternatives.iter().map(alternative).collect();
    format!("what can be had:\n{}", lines.join("\n"))
}

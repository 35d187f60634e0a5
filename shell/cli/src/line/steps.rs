//! `farline line --load 10..100` and `--service`: tests at several loads.

use super::report::{LineReport, Shown};
use super::target::LineTarget;
use crate::export::{write_as_named, write_each};
use crate::output::Output;
use crate::provenance::now;
use farline::line::LineRequestOptions;
use farline_core::line::{
    LineDocument, LineSettings, LoadCurve, LoadRow, ServiceLevel, ServiceRow, scientific,
};
use farline_core::report::{ColumnSource, Columns, Section, TableSpec};
use farline_core::units::{Error, Fault};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

/// What came of a service level.
#[derive(Serialize)]
struct ServiceOutcome<'a> {
    /// Nothing where a step said nothing of the line.
    is_held: Option<bool>,
    /// What that step said.
    #[serde(skip_serializing_if = "Option::is_none")]
    undecided: Option<&'a str>,
    level: &'a ServiceLevel,
    rows: &'a [ServiceRow],
}

/// A ratio of any magnitude, or milliseconds.
fn figure(value: f64) -> String {
    match (1e-3..1e4).contains(&value) {
        true => format!("{value:.4}"),
        false => scientific(value, 4),
    }
}

/// A test of `settings`.
pub(super) fn tested(
    target: &LineTarget,
    options: &LineRequestOptions,
    settings: LineSettings,
) -> Result<LineDocument, Error> {
    let mut options = options.clone();
    options.settings = settings;
    Ok(target.run(&options, |_| Ok(()))?.document(env!("CARGO_PKG_VERSION"), &now()))
}

/// Loss and delay at each of `loads`, as one curve.
pub(super) fn curve(
    target: &LineTarget,
    options: &LineRequestOptions,
    loads: &[f64],
    out: &[PathBuf],
    output: &Output,
) -> Result<ExitCode, Error> {
    let (mut rows, mut is_whole) = (Vec::new(), true);
    for &load_percent in loads {
        let settings = LineSettings { load_percent, ..options.settings.clone() };
        let document = tested(target, options, settings)?;
        let why = document.broken_off.as_deref();
        if let Some(why) = why.or(options.stop.load(Ordering::Relaxed).then_some("ended by you")) {
            output.remark(format_args!("{why}: this load, and those above, are left out"));
            is_whole = false;
            break;
        }
        output.remark(format_args!("{load_percent} %: {}", document.verdict));
        rows.push(LoadRow::of(&document));
    }
    let curve = LoadCurve {
        schema: LoadCurve::SCHEMA.to_owned(),
        farline: env!("CARGO_PKG_VERSION").to_owned(),
        date: now(),
        target: options.settings.target.clone(),
        rate: options.settings.rate,
        rows,
    };
    let written = write_each(out, |file| write_as_named(file, &curve));
    output.result(&curve, curve.plain(super::room()))?;
    written?;
    Ok(if is_whole && curve.is_fit() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(Fault::Here.exit_code())
    })
}

/// Holds the line against the service level in `file`, step by step.
pub(super) fn service(
    target: &LineTarget,
    options: &LineRequestOptions,
    file: &Path,
    out: &[PathBuf],
    output: &Output,
) -> Result<ExitCode, Error> {
    let level = ServiceLevel::read(&super::text_of(file)?)
        .map_err(|error| error.while_doing(file.display()))?;
    let rate = level.committed()?;
    let least = ServiceLevel::steps().fold(100.0, f64::min);
    LineSettings { rate, load_percent: least, ..options.settings.clone() }.check_burst()?;
    let mut options = options.clone();
    options.settings.rate = rate;
    let options = &options;
    let (mut rows, mut undecided) = (Vec::new(), None);
    for load_percent in ServiceLevel::steps() {
        let settings = LineSettings { load_percent, ..options.settings.clone() };
        let document = tested(target, options, settings)?;
        let judged = match options.stop.load(Ordering::Relaxed) {
            true => Err("ended by you".to_owned()),
            false => level.judge(&document),
        };
        match judged {
            Ok(judged) => rows.extend(judged),
            Err(why) => {
                undecided = Some(format!("{load_percent} %: {why}"));
                break;
            }
        }
    }
    let is_held = undecided.is_none().then(|| rows.iter().all(|row| row.is_held));
    let table = TableSpec::new()
        .figures("Load, %", |row: &ServiceRow| format!("{:.0}", row.load_percent))
        .words("What", |row| row.what.clone())
        .figures("Found", |row| figure(row.found))
        .figures("Agreed", |row| figure(row.agreed))
        .words("", |row| if row.is_held { "pass" } else { "FAIL" }.to_owned());
    let (title, code) = match (&undecided, is_held) {
        (Some(said), _) => (format!("Undecided at {said}"), Fault::Here.exit_code()),
        (None, Some(true)) => ("The service level is held".to_owned(), 0),
        (None, _) => ("The service level is not held".to_owned(), Fault::Between.exit_code()),
    };
    let checked = format!("Looked at, at each step of {rate}: {}.", level.agreed().join("; "));
    let section = Section::new(&title).text(checked).table(table.of(rows.iter().cloned()));
    let shown = Shown {
        title: "Service level",
        text: super::plain(&section),
        sections: vec![section],
        columns: Columns::of(
            Vec::new(),
            &rows,
            &[
                ("load_percent", ColumnSource::Real(|row| Some(row.load_percent))),
                ("what", ColumnSource::Text(|row| Some(row.what.clone()))),
                ("found", ColumnSource::Real(|row| Some(row.found))),
                ("agreed", ColumnSource::Real(|row| Some(row.agreed))),
                ("is_held", ColumnSource::Flag(|row| Some(row.is_held))),
            ],
        ),
    };
    let undecided = undecided.as_deref();
    let outcome = ServiceOutcome { is_held, undecided, level: &level, rows: &rows };
    LineReport::new("farline/line-service/1", options, outcome, shown).finish(out, output)?;
    Ok(ExitCode::from(code))
}

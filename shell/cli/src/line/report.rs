//! What a search or a service level came to, as pages and tables have it.

use crate::export::{write_as_named, write_each};
use crate::output::Output;
use crate::provenance::now;
use farline::line::LineRequestOptions;
use farline_core::line::{LineSettings, scientific};
use farline_core::report::{Columns, PageSpec, ReportDocument, Section, TableSpec};
use farline_core::units::Error;
use serde::Serialize;
use std::path::PathBuf;

/// A result with what every document of a line test has.
#[derive(Serialize)]
pub(super) struct LineReport<'a, D> {
    schema: &'static str,
    farline: &'static str,
    date: String,
    settings: &'a LineSettings,
    #[serde(flatten)]
    found: D,
    #[serde(skip)]
    shown: Shown,
}

/// How it is shown.
pub(super) struct Shown {
    /// Of the page.
    pub(super) title: &'static str,
    /// What came of it, in words.
    pub(super) text: String,
    /// What a page has more.
    pub(super) sections: Vec<Section>,
    /// A row for each trial, or each thing that was looked at.
    pub(super) columns: Columns,
}

impl<'a, D: Serialize> LineReport<'a, D> {
    /// Of a document `found` of this schema.
    pub(super) fn new(
        schema: &'static str,
        options: &'a LineRequestOptions,
        found: D,
        shown: Shown,
    ) -> LineReport<'a, D> {
        let (farline, settings) = (env!("CARGO_PKG_VERSION"), &options.settings);
        LineReport { schema, farline, date: now(), settings, found, shown }
    }

    /// Writes it to each of `out`, and prints it.
    ///
    /// # Errors
    /// When a file, or the result, cannot be written.
    pub(super) fn finish(&self, out: &[PathBuf], output: &Output) -> Result<(), Error> {
        let written = write_each(out, |file| write_as_named(file, self));
        output.result(self, &self.shown.text)?;
        written
    }
}

impl<D: Serialize> ReportDocument for LineReport<'_, D> {
    fn spec(&self) -> PageSpec {
        PageSpec {
            title: format!("{}: {}", self.shown.title, self.settings.target),
            lead: format!("Farline {}, {}.", self.farline, self.date),
            sections: self.shown.sections.iter().cloned().map(Some).collect(),
            source: (self.schema.to_owned(), String::new()),
        }
    }

    fn columns(&self) -> Columns {
        let about = vec![
            ("schema", self.schema.to_owned()),
            ("farline", self.farline.to_owned()),
            ("date", self.date.clone()),
            ("target", self.settings.target.clone()),
        ];
        Columns { about, ..self.shown.columns.clone() }
    }
}

/// What was tried at which load, and the loss; none where a host did not keep up.
pub(super) fn tried(trials: impl IntoIterator<Item = (f64, Option<f64>)>) -> Section {
    let trials: Vec<(usize, (f64, Option<f64>))> = (1..).zip(trials).collect();
    let table = TableSpec::new()
        .figures("Trial", |row: &(usize, (f64, Option<f64>))| row.0.to_string())
        .figures("Load, %", |row| format!("{:.2}", row.1.0))
        .figures("Loss", |row| {
            row.1.1.map_or("a host did not keep up".to_owned(), |loss| scientific(loss, 2))
        });
    Section::new("What was tried, in order").table(table.of(trials))
}

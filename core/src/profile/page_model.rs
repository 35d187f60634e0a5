//! What a measured profile's page says of the model: predicted against measured, cell by cell.

use super::document::{Job, Profile, ProfileKind};
use super::simulate::repetition;
use crate::experiment::Experiment;
use crate::report::{Section, TableSpec, off_by};
use crate::statistics::Summary;

/// Longer tables are not read.
const ROWS: usize = 60;

impl Profile {
    /// The model's prediction next to each cell that was measured over an emulated path; of a real
    /// one it knows too little. What was scaled is predicted as it was measured, since headers are
    /// a larger part of small packets; `shown` has it at the full rate.
    pub(super) fn against_model(&self, shown: &Profile) -> Option<Section> {
        if self.kind != ProfileKind::Measured || self.environment.node.is_some() {
            return None;
        }
        let mut errors = Vec::new();
        let mut rows = Vec::new();
        let (unit, name) = shown.rate_unit();
        let scale = f64::from(self.grid.scale) / unit;
        for (place, (result, shown)) in self.cells.iter().zip(&shown.cells).enumerate() {
            let Some(measured) = result.summary() else { continue };
            let cell = &result.cell;
            let job = Job {
                place,
                cell: cell.clone(),
                index: 0,
                attempt: 0,
                seed: self.grid.seed_of(cell, 0),
            };
            let predicted =
                repetition(&self.grid.under(cell), &job).whole.receiver_bps.as_bps() as f64;
            let error = predicted / measured.mean.max(1.0) - 1.0;
            errors.push(error.abs());
            rows.push((shown.cell.name(), measured.mean * scale, predicted * scale, error));
        }
        let median = Summary::of(&errors)?.median;
        let more = rows.len().saturating_sub(ROWS);
        rows.truncate(ROWS);
        let spec = TableSpec::new()
            .words("Cell", |row: &(String, f64, f64, f64)| row.0.clone())
            .figures(format!("Measured, {name}"), |row| format!("{:.3}", row.1))
            .figures(format!("Predicted, {name}"), |row| format!("{:.3}", row.2))
            .figures("Off by", |row| off_by(row.3, 0));
        let section = Section::new("Predicted against measured")
            .text(format!(
                "The model, which knows the path and the controls but no processor, next to what \
                 was measured: half of the cells are within {:.0} %.",
                median * 100.0
            ))
            .table(spec.of(rows));
        Some(if more > 0 { section.note(format!("And {more} cells more.")) } else { section })
    }
}

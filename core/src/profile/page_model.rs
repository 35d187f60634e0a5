//! What a measured profile's page says of the model: predicted against measured, cell by cell.

use super::document::{Job, Profile, ProfileKind};
use super::simulate::repetition;
use crate::experiment::Experiment;
use crate::report::{Section, Table};
use crate::statistics::Summary;

/// Longer tables are not read.
const ROWS: usize = 60;

impl Profile {
    /// The model's prediction beside each cell that was measured over an emulated path; of a real
    /// one it knows too little. What was scaled is predicted as it was measured, since headers are
    /// a larger part of small packets; `shown` has it at the full rate.
    pub(super) fn against_model(&self, shown: &Profile) -> Option<Section> {
        if self.kind != ProfileKind::Measured || self.environment.node.is_some() {
            return None;
        }
        let mut errors = Vec::new();
        let mut rows = Vec::new();
        let scale = f64::from(self.grid.scale) / 1e9;
        for (place, (result, shown)) in self.cells.iter().zip(&shown.cells).enumerate() {
            let Some(measured) = result.summary() else { continue };
            let cell = &result.cell;
            let job = Job { place, cell: cell.clone(), index: 0, seed: self.grid.seed_of(cell, 0) };
            let predicted =
                repetition(&self.grid.under(cell), &job).whole.receiver_bps.as_bps() as f64;
            let error = predicted / measured.mean.max(1.0) - 1.0;
            errors.push(error.abs());
            let cells = vec![
                shown.cell.name(),
                format!("{:.3}", measured.mean * scale),
                format!("{:.3}", predicted * scale),
                format!("{:+.0} %", error * 100.0),
            ];
            rows.push((cells, false));
        }
        let median = Summary::of(&errors)?.median;
        let more = rows.len().saturating_sub(ROWS);
        rows.truncate(ROWS);
        let columns = [
            ("Cell", false),
            ("Measured, Gbit/s", true),
            ("Predicted, Gbit/s", true),
            ("Off by", true),
        ];
        let section = Section::new("Predicted against measured")
            .text(format!(
                "The model, which knows the path and the controls but no processor, beside what \
                 was measured: half of the cells \
                 are within {:.0} %.",
                median * 100.0
            ))
            .table(Table {
                columns: columns.map(|(name, right)| (name.to_owned(), right)).to_vec(),
                rows,
            });
        Some(if more > 0 { section.note(format!("And {more} cells more.")) } else { section })
    }
}

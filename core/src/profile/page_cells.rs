//! A profile's page: every cell in a line of its own, with what held it back.

use super::document::Profile;
use super::page::gbit;
use super::repetition::Repetition;
use super::rows::word;
use crate::report::{Section, Table};

/// Longer tables are not read; the document has the rest.
const ROWS: usize = 240;

impl Profile {
    pub(super) fn every_cell(&self) -> Section {
        let columns = [
            ("Cell", false),
            ("n", true),
            ("Gbit/s", true),
            ("95 % interval", true),
            ("CoV", true),
            ("Steady", true),
            ("Ramp", true),
            ("Fairness", true),
            ("Lost", true),
            ("Held back by", false),
        ];
        let rows = self.cells.iter().take(ROWS).map(|result| {
            let Some(summary) = result.summary() else {
                let why = result.repetitions.iter().find_map(|one| one.invalid.clone()).unwrap_or_else(|| "not run".to_owned());
                return (vec![result.cell.name(), "0".to_owned(), why], false);
            };
            let of = |pick: &dyn Fn(&Repetition) -> f64| result.valid().map(pick).sum::<f64>() / summary.n as f64;
            let cells = vec![
                result.cell.name(),
                summary.n.to_string(),
                format!("{:.3}", summary.mean / 1e9),
                summary.ci95.map_or_else(String::new, |(low, high)| format!("{:.3} to {:.3}", low / 1e9, high / 1e9)),
                format!("{:.1} %", summary.variation() * 100.0),
                format!("{:.3}", of(&|one| gbit(one.steady.receiver_bps))),
                format!("{:.1} s", of(&|one| one.ramp_s)),
                format!("{:.3}", of(&|one| one.fairness)),
                format!("{:.0}", of(&|one| one.retransmits as f64)),
                result.valid().next().map_or_else(String::new, |one| word(&one.limited_by).unwrap_or_default().replace('_', " ")),
            ];
            (cells, false)
        });
        let section = Section::new("Every cell")
            .table(Table { columns: columns.map(|(name, right)| (name.to_owned(), right)).to_vec(), rows: rows.collect() });
        if self.cells.len() > ROWS {
            return section.note(format!("The first {ROWS} of {} cells; the document has all.", self.cells.len()));
        }
        section
    }
}

//! What a profile's page says of the emulated link: how exact it was, and which repetitions do not
//! count.

use super::document::Profile;
use super::repetition::Repetition;
use crate::report::{Section, Table};
use crate::statistics::Summary;

/// Longer tables are not read.
const ROWS: usize = 60;

impl Profile {
    /// How late packets were, path by path, and why repetitions were left out; `None` where nothing
    /// was emulated.
    pub(super) fn exactness(&self) -> Option<Section> {
        let every = || {
            self.cells
                .iter()
                .flat_map(|result| result.repetitions.iter().map(move |one| (&result.cell, one)))
        };
        if !every().any(|(_, one)| one.link.is_some()) {
            return None;
        }
        let rows = self.grid.paths.iter().map(|path| {
            let of: Vec<&Repetition> =
                every().filter(|(cell, _)| cell.path == *path).map(|(_, one)| one).collect();
            let late = |pick: fn(&super::Exactness) -> crate::units::Span| {
                let all: Vec<f64> = of
                    .iter()
                    .filter_map(|one| one.link.as_ref())
                    .map(|link| pick(link).as_millis_f64())
                    .collect();
                Summary::of(&all)
                    .map_or_else(String::new, |summary| format!("{:.3}", summary.median))
            };
            let cells = vec![
                path.name.clone(),
                late(|link| link.late_p50_ns),
                late(|link| link.late_p99_ns),
                late(|link| link.limit_ns),
                of.iter()
                    .filter_map(|one| one.link)
                    .map(|link| link.overruns)
                    .sum::<u64>()
                    .to_string(),
                format!("{} of {}", of.iter().filter(|one| one.is_valid()).count(), of.len()),
            ];
            (cells, false)
        });
        let columns = Table::headings([
            "Path",
            "Late, median ms",
            "99 %, ms",
            "Limit, ms",
            "Overruns",
            "Valid",
        ]);
        let mut section = Section::new("How exact the link was")
            .text(
                "Each repetition had a link of its own. Medians over repetitions of how late \
                 packets left it, against its model. A \
                 repetition in which more than 1 % were later than the limit, or a packet was \
                 lost for lack of processor time, \
                 or a thread was the limit, is kept in the document and counts nowhere.",
            )
            .table(Table { columns, rows: rows.collect() });
        let left_out: Vec<(Vec<String>, bool)> = every()
            .filter_map(|(cell, one)| {
                Some((vec![cell.name(), one.index.to_string(), one.invalid.clone()?], false))
            })
            .collect();
        if !left_out.is_empty() {
            let more = left_out.len().saturating_sub(ROWS);
            let columns = [("Left out", false), ("Repetition", true), ("Why", false)];
            section = section.table(Table {
                columns: columns.map(|(name, right)| (name.to_owned(), right)).to_vec(),
                rows: left_out.into_iter().take(ROWS).collect(),
            });
            if more > 0 {
                section = section.note(format!("And {more} more, in the document."));
            }
        }
        Some(section)
    }
}

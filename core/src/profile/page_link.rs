//! What a profile's page says of the emulated link: how exact it was, and which repetitions do not
//! count.

use super::document::Profile;
use super::repetition::Repetition;
use crate::report::{Section, TableSpec};
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
        type Row<'a> = (&'a str, Vec<&'a Repetition>);
        let late = |of: &Row<'_>, pick: fn(&super::Exactness) -> crate::units::Span| {
            let links = of.1.iter().filter_map(|one| one.link.as_ref());
            let all: Vec<f64> = links.map(|link| pick(link).as_millis_f64()).collect();
            Summary::of(&all).map_or_else(String::new, |summary| format!("{:.3}", summary.median))
        };
        let rows = self.grid.paths.iter().map(|path| {
            let here = every().filter(|(cell, _)| cell.path == *path).map(|(_, one)| one);
            (path.name.as_str(), here.collect())
        });
        let spec = TableSpec::new()
            .words("Path", |of: &Row<'_>| of.0.to_owned())
            .figures("Late, median ms", move |of| late(of, |link| link.late_p50_ns))
            .figures("99 %, ms", move |of| late(of, |link| link.late_p99_ns))
            .figures("Limit, ms", move |of| late(of, |link| link.limit_ns))
            .figures("Overruns", |of| {
                let links = of.1.iter().filter_map(|one| one.link);
                links.map(|link| link.overruns).sum::<u64>().to_string()
            })
            .figures("Valid", |of| {
                format!("{} of {}", of.1.iter().filter(|one| one.is_valid()).count(), of.1.len())
            });
        let mut section = Section::new("How exact the link was")
            .text(
                "Each repetition had a link of its own. Medians over repetitions of how late \
                 packets left it, against its model. A repetition in which more than 1 % were \
                 later than the limit, or a packet was lost for lack of processor time, or a \
                 thread was the limit, is kept in the document and counts nowhere.",
            )
            .table(spec.of(rows));
        let left_out: Vec<_> = every()
            .filter_map(|(cell, one)| Some((cell.name(), one.index, one.invalid.clone()?)))
            .collect();
        if !left_out.is_empty() {
            let more = left_out.len().saturating_sub(ROWS);
            let spec = TableSpec::new()
                .words("Left out", |row: &(String, u32, String)| row.0.clone())
                .figures("Repetition", |row| row.1.to_string())
                .words("Why", |row| row.2.clone());
            section = section.table(spec.of(left_out.into_iter().take(ROWS)));
            if more > 0 {
                section = section.note(format!("And {more} more, in the document."));
            }
        }
        Some(section)
    }
}

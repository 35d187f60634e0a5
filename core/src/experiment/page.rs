//! What every experiment's page has: the paths in a card, every cell in a row, and what was not the
//! same all the time.

use crate::plan::PathPoint;
use crate::report::{Card, Section, TableSpec};

/// Longer tables are not read; the document has the rest.
const ROWS: usize = 240;

/// The names of `paths`, or of whatever else an experiment is over.
pub(crate) fn paths_card(paths: &[PathPoint]) -> Card {
    let names: Vec<&str> = paths.iter().map(|path| path.name.as_str()).collect();
    Card::new("Paths", names.join(", "))
}

/// A section with the columns of `spec` for each of `cells`, and `notes` below them.
pub(crate) fn every_cell<R>(
    spec: &TableSpec<'_, R>,
    cells: impl ExactSizeIterator<Item = R>,
    notes: &[&str],
) -> Section {
    let count = cells.len();
    let section = Section::new("Every cell").table(spec.of(cells.take(ROWS)));
    let section = notes.iter().fold(section, |section, note| section.note(*note));
    match count {
        ..=ROWS => section,
        _ => section.note(format!("The first {ROWS} of {count} cells; the document has all.")),
    }
}

/// `section` with `changes`, sentences on where else it ran, if there are any.
pub(crate) fn with_changes(section: Section, changes: &[String]) -> Section {
    match changes {
        [] => section,
        _ => {
            section.warning(format!("Not all of it ran in the same place: {}.", changes.join("; ")))
        }
    }
}

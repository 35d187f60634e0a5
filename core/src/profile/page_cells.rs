//! A profile's page: every cell in a line of its own, with what held it back.

use super::document::{CellResult, Profile};
use super::page::gbit;
use super::repetition::Repetition;
use super::rows::word;
use crate::report::{Section, Table};

/// Longer tables are not read; the document has the rest.
const ROWS: usize = 240;

/// How many repetitions count, and of how many where that is not all.
fn count(valid: usize, result: &CellResult) -> String {
    let all = result.repetitions.len();
    if valid == all { all.to_string() } else { format!("{valid} of {all}") }
}

/// The processor time of sender and receiver over real time, the mean of `repetitions`.
fn processors<'a>(repetitions: impl Iterator<Item = &'a Repetition>) -> String {
    let each: Vec<(f64, f64)> = repetitions.filter_map(|one| one.cpu).collect();
    let mean = |end: fn(&(f64, f64)) -> f64| each.iter().map(end).sum::<f64>() / each.len() as f64;
    if each.is_empty() {
        String::new()
    } else {
        format!("{:.2}, {:.2}", mean(|both| both.0), mean(|both| both.1))
    }
}

/// Jain's index, the mean of those of `repetitions` that have one.
fn fairness<'a>(repetitions: impl Iterator<Item = &'a Repetition>) -> String {
    let each: Vec<f64> = repetitions.filter_map(|one| one.fairness).collect();
    if each.is_empty() {
        String::new()
    } else {
        format!("{:.3}", each.iter().sum::<f64>() / each.len() as f64)
    }
}

/// The row of a cell without a valid repetition: what was seen, in brackets, and why it does not
/// count.
fn doubted(result: &CellResult) -> Vec<String> {
    let all = &result.repetitions;
    let Some(why) = all.iter().find_map(|one| one.invalid.as_ref()) else {
        let blank = std::iter::repeat_n(String::new(), 7);
        return [result.cell.name(), "0".to_owned()]
            .into_iter()
            .chain(blank)
            .chain(["not run".to_owned()])
            .collect();
    };
    let mean =
        |pick: &dyn Fn(&Repetition) -> f64| all.iter().map(pick).sum::<f64>() / all.len() as f64;
    let mut cells = vec![result.cell.name(), count(0, result)];
    cells.push(format!("({:.3})", mean(&|one| gbit(one.whole.receiver_bps))));
    cells.extend(["", ""].map(str::to_owned));
    cells.push(format!("({:.3})", mean(&|one| gbit(one.steady.receiver_bps))));
    cells.push(format!("({:.1} s)", mean(&|one| one.ramp_s)));
    let fairness = fairness(all.iter());
    cells.push(if fairness.is_empty() { fairness } else { format!("({fairness})") });
    cells.push(format!("({:.0})", mean(&|one| one.retransmits as f64)));
    cells.push(format!("invalid: {why}"));
    cells
}

impl Profile {
    pub(super) fn every_cell(&self) -> Section {
        let has_processors =
            self.cells.iter().flat_map(|result| &result.repetitions).any(|one| one.cpu.is_some());
        let mut columns = vec![
            ("Cell", false),
            ("n", true),
            ("Gbit/s", true),
            ("95 % interval", true),
            ("CoV", true),
            ("Steady", true),
            ("Ramp", true),
            ("Fairness", true),
            ("Lost", true),
            ("Processors", true),
            ("Held back by", false),
        ];
        columns.retain(|(name, _)| has_processors || *name != "Processors");
        let put = |mut cells: Vec<String>, processors: String| {
            if has_processors {
                cells.insert(cells.len() - 1, processors);
            }
            (cells, false)
        };
        let rows = self.cells.iter().take(ROWS).map(|result| {
            let Some(summary) = result.summary() else {
                return put(doubted(result), processors(result.repetitions.iter()));
            };
            let of = |pick: &dyn Fn(&Repetition) -> f64| {
                result.valid().map(pick).sum::<f64>() / summary.n as f64
            };
            let cells = vec![
                result.cell.name(),
                count(summary.n, result),
                format!("{:.3}", summary.mean / 1e9),
                summary.ci95.map_or_else(String::new, |(low, high)| {
                    format!("{:.3} to {:.3}", low / 1e9, high / 1e9)
                }),
                // One repetition says nothing of how they vary.
                if summary.n > 1 {
                    format!("{:.1} %", summary.variation() * 100.0)
                } else {
                    String::new()
                },
                format!("{:.3}", of(&|one| gbit(one.steady.receiver_bps))),
                format!("{:.1} s", of(&|one| one.ramp_s)),
                fairness(result.valid()),
                format!("{:.0}", of(&|one| one.retransmits as f64)),
                result.valid().next().map_or_else(String::new, |one| {
                    word(&one.limited_by).unwrap_or_default().replace('_', " ")
                }),
            ];
            put(cells, processors(result.valid()))
        });
        let columns = columns.into_iter().map(|(name, right)| (name.to_owned(), right)).collect();
        let mut section = Section::new("Every cell").table(Table { columns, rows: rows.collect() });
        if has_processors {
            section = section
                .note("Processors: what sender and receiver used, 1 being one all the time.");
        }
        if self.cells.len() > ROWS {
            return section.note(format!(
                "The first {ROWS} of {} cells; the document has all.",
                self.cells.len()
            ));
        }
        section
    }
}

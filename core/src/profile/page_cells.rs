//! A profile's page: every cell in a line of its own, with what held it back.

use super::document::{CellResult, Profile};
use super::repetition::Repetition;
use super::rows::word;
use crate::experiment::every_cell;
use crate::report::{Section, TableSpec};
use crate::statistics::Summary;

/// A cell, and what is shown of it: its valid repetitions, or all where none is.
struct Row<'a> {
    result: &'a CellResult,
    summary: Option<Summary>,
    seen: Vec<&'a Repetition>,
}

impl<'a> Row<'a> {
    fn of(result: &'a CellResult) -> Row<'a> {
        let summary = result.summary();
        let seen = match summary {
            Some(_) => result.valid().collect(),
            None => result.repetitions.iter().collect(),
        };
        Row { result, summary, seen }
    }

    /// What the summary says, if there is one.
    fn say(&self, of: impl Fn(Summary) -> Option<String>) -> String {
        self.summary.and_then(of).unwrap_or_default()
    }

    /// The mean of what was seen, in brackets where it does not count.
    fn mean(
        &self,
        pick: impl Fn(&Repetition) -> Option<f64>,
        show: impl Fn(f64) -> String,
    ) -> String {
        let all: Vec<f64> = self.seen.iter().filter_map(|one| pick(one)).collect();
        if all.is_empty() {
            return String::new();
        }
        let text = show(all.iter().sum::<f64>() / all.len() as f64);
        if self.summary.is_some() { text } else { format!("({text})") }
    }

    /// How many repetitions count, and of how many where that is not all.
    fn count(&self) -> String {
        let (all, valid) = (self.result.repetitions.len(), self.result.valid().count());
        if valid == all { all.to_string() } else { format!("{valid} of {all}") }
    }

    /// The processor time of sender and receiver over real time.
    fn processors(&self) -> String {
        let each: Vec<(f64, f64)> = self.seen.iter().filter_map(|one| one.cpu).collect();
        let mean =
            |end: fn(&(f64, f64)) -> f64| each.iter().map(end).sum::<f64>() / each.len() as f64;
        if each.is_empty() {
            String::new()
        } else {
            format!("{:.2}, {:.2}", mean(|both| both.0), mean(|both| both.1))
        }
    }

    /// What held it back, or why nothing counts.
    fn held_back(&self) -> String {
        match (self.summary, self.seen.iter().find_map(|one| one.invalid.as_ref())) {
            (Some(_), _) => {
                let first = self.seen.first().and_then(|one| word(&one.limited_by));
                first.unwrap_or_default().replace('_', " ")
            }
            (None, Some(why)) => format!("invalid: {why}"),
            (None, None) => "not run".to_owned(),
        }
    }
}

impl Profile {
    pub(super) fn every_cell(&self) -> Section {
        let has_processors =
            self.cells.iter().flat_map(|result| &result.repetitions).any(|one| one.cpu.is_some());
        let (unit, name) = self.rate_unit();
        let rate = move |bps: f64| format!("{:.3}", bps / unit);
        let spec = TableSpec::new()
            .words("Cell", |row: &Row<'_>| row.result.cell.name())
            .figures("n", Row::count)
            .figures(name, move |row| match row.summary {
                Some(summary) => rate(summary.mean),
                None => row.mean(|one| Some(one.whole.receiver_bps.as_bps() as f64), rate),
            })
            .figures("95 % interval", move |row| {
                row.say(|summary| {
                    summary.ci95.map(|(low, high)| format!("{} to {}", rate(low), rate(high)))
                })
            })
            // One repetition says nothing of how they vary.
            .figures("CoV", |row| {
                row.say(|one| (one.n > 1).then(|| format!("{:.1} %", one.variation() * 100.0)))
            })
            .figures("Steady", move |row| {
                row.mean(|one| Some(one.steady.receiver_bps.as_bps() as f64), rate)
            })
            .figures("Ramp", |row| row.mean(|one| Some(one.ramp_s), |s| format!("{s:.1} s")))
            .figures("Fairness", |row| row.mean(|one| one.fairness, |index| format!("{index:.3}")))
            .figures("Lost", |row| {
                row.mean(|one| Some(one.retransmits as f64), |lost| format!("{lost:.0}"))
            })
            .when(has_processors, |spec| spec.figures("Processors", Row::processors))
            .words("Held back by", Row::held_back);
        let note = "Processors: what sender and receiver used, 1 being one all the time.";
        let notes: &[&str] = if has_processors { &[note] } else { &[] };
        every_cell(&spec, self.cells.iter().map(Row::of), notes)
    }
}

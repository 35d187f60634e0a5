//! A profile's page: the streams over time, what happened meanwhile, and how long they took to come
//! back.

use super::document::{CellResult, Profile};
use super::grid::Disturbance;
use super::page::LINES;
use super::repetition::Repetition;
use crate::report::{Axis, LineChart, Mark, Section, Series, TableSpec};
use crate::statistics::Summary;
use crate::units::Span;
use crate::wan::Change;

impl Profile {
    /// Time to come back, where something happened in the middle.
    pub(super) fn recoveries(&self) -> Option<Section> {
        let disturbance = self.grid.disturbance?;
        let back = |result: &CellResult| -> Vec<f64> {
            result.valid().filter_map(|repetition| repetition.recovery_s).collect()
        };
        let spec = TableSpec::new()
            .words("Cell", |result: &&CellResult| result.cell.name())
            .figures("Back after", move |result| {
                Summary::of(&back(result)).map_or_else(
                    || "not within the repetition".to_owned(),
                    |found| format!("{:.1} s", found.mean),
                )
            })
            .figures("Range", move |result| {
                Summary::of(&back(result)).map_or_else(String::new, |found| {
                    format!("{:.1} to {:.1} s", found.min, found.max)
                })
            })
            .figures("Came back", move |result| {
                format!("{} of {}", back(result).len(), result.valid().count())
            });
        Some(
            Section::new("Time to recover")
                .text(format!(
                    "From the disturbance at {} to nine tenths of the rate before it, for three \
                     samples on end; {}.",
                    disturbance.at_ns,
                    self.label()
                ))
                .table(spec.of(self.plain()))
                .note(
                    "The Trans-European paper's figure 10: HighSpeed was back more than nine times \
                     sooner than stock TCP. Its 18.6 s for Reno at 17 ms and 9.2 Gbit/s and 0.97 s \
                     for HighSpeed are what theory says of one loss.",
                ),
        )
    }

    /// The first valid repetition of some cells, over time.
    pub(super) fn over_time(&self) -> Option<Section> {
        let measured: Vec<&CellResult> =
            self.plain().filter(|result| result.valid().next().is_some()).collect();
        if measured.is_empty() {
            return None;
        }
        let (unit, unit_name) = self.rate_unit();
        // Cells from all over the grid, the last among them.
        let step = measured.len().div_ceil(LINES).max(1);
        let chosen: Vec<&&CellResult> = measured.iter().rev().step_by(step).take(LINES).collect();
        let series = chosen.iter().rev().map(|result| {
            let first = result.valid().next();
            let samples =
                first.map(|repetition| repetition.samples_bps.as_slice()).unwrap_or_default();
            let losses = first.map(|repetition| repetition.losses.as_slice()).unwrap_or_default();
            let events = losses.iter().map(|lost| {
                (lost.at_s, format!("{} packets lost, {:.1} s", lost.packets, lost.at_s))
            });
            let points = samples
                .iter()
                .enumerate()
                .map(|(i, bps)| ((i + 1) as f64 * self.grid.sample_s, bps.as_bps() as f64 / unit));
            Series {
                name: self.short_name(&result.cell),
                points: points.collect(),
                events: events.collect(),
                ..Series::default()
            }
        });
        Some(
            Section::new("Over time")
                .text(format!(
                    "The first repetition of cells from all over the grid, {}: ramp, losses, \
                     steady part. Each tick on a line is a sample in which packets were lost or \
                     sent again. A drag zooms; a double click shows all.",
                    self.label()
                ))
                .chart(LineChart {
                    title: "Throughput over time of some cells".to_owned(),
                    x: Axis::new("Time since the streams began", "s"),
                    y: Axis::new(format!("Goodput, {}", self.label()), unit_name),
                    series: series.collect(),
                    marks: self.events(chosen.last().and_then(|result| result.valid().next())),
                }),
        )
    }

    /// The disturbance, and when the last line of the chart, which is `last`'s, was back.
    fn events(&self, last: Option<&Repetition>) -> Vec<Mark> {
        let Some(Disturbance { at_ns, change }) = self.grid.disturbance else { return Vec::new() };
        let at = at_ns.as_secs_f64();
        let (to, name) = match change {
            Change::Cross(rate, during) => {
                (at + during.map_or(0.0, Span::as_secs_f64), format!("other traffic of {rate}"))
            }
            Change::Lose(frames) => (at, format!("{frames} lost")),
            _ => (at, "disturbance".to_owned()),
        };
        let back = last.and_then(|one| one.recovery_s).map(|after| {
            let back = at + after;
            Mark { from: back, to: back, name: format!("back after {after:.1} s") }
        });
        [Mark { from: at, to, name }].into_iter().chain(back).collect()
    }
}

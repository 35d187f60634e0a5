//! A profile's page: lines along each axis of the grid, and what tells one line from another.

use super::axes::{STREAMS, along};
use super::cell::Cell;
use super::document::Profile;
use super::page::{LINES, band};
use crate::experiment::{ChartAxis, Experiment, GridAxis};
use crate::report::{Axis, LineChart, Section, Series};

/// The axis of paths, whose lines are not called after a path.
const DISTANCE: &str = "Round-trip time";

/// An axis of the grid that has more than one value.
type Along = ChartAxis<Cell>;

impl Profile {
    /// The axes of several values with numbers on them, in the order in which a line's name has
    /// them.
    fn axes(&self) -> Vec<Along> {
        let mut axes: Vec<Along> =
            self.grid.axes().into_iter().filter_map(GridAxis::charted).collect();
        axes.sort_by_key(|axis| axis.name != STREAMS);
        axes
    }

    /// The distance, where the chart of it that stands next to the papers' has but a part of the
    /// cells.
    fn distance(&self, axes: &[Along]) -> Option<Along> {
        let others = axes.iter().any(|along| along.name != STREAMS) || self.grid.copies.is_some();
        // A line's name begins with its path.
        let distance =
            along(DISTANCE, "ms", |cell| cell.path.rtt_ns.as_millis_f64(), |_| String::new());
        (self.grid.paths.len() > 1 && others).then_some(distance)
    }

    /// What else of the [basic](Profile::basic) cells has to be said: the first values of the other
    /// axes.
    pub(super) fn rest_in_words(&self) -> String {
        let Some(first) = self.cells.first() else { return String::new() };
        let axes = self.axes();
        let mut words: Vec<String> = axes
            .iter()
            .filter(|one| one.name != STREAMS)
            .map(|one| (one.words)(&first.cell))
            .collect();
        if self.grid.directions.len() > 1 {
            words.push(first.cell.direction.name().to_owned());
        }
        if self.grid.copies.as_ref().is_some_and(|copies| copies.count() > 1) {
            words.extend(first.cell.staged.map(|staged| staged.how()));
        }
        if words.is_empty() {
            String::new()
        } else {
            format!(" Of the other axes the first value: {}.", words.join(", "))
        }
    }

    /// Lines over each of the other axes that has more than one value.
    pub(super) fn along_other_axes(&self) -> Option<Section> {
        let mut axes = self.axes();
        axes.extend(self.distance(&axes));
        let (_, unit) = self.rate_unit();
        let (mut charts, mut is_cut) = (Vec::new(), false);
        for along in &axes {
            let mut chart = |place: String, mut series: Vec<Series>| {
                is_cut |= series.len() > LINES;
                series.truncate(LINES);
                let title = format!("Throughput by {}{place}", spoken(along.name));
                let x = Axis::new(along.name, along.unit);
                let y = Axis::new(format!("Goodput, {}{place}", self.label()), unit);
                charts.push(LineChart::new(
                    title,
                    if along.is_log { x.log() } else { x },
                    y,
                    series,
                ));
            };
            let all = self.lines(&axes, along, |_| true);
            // Of an axis whose other values have no number.
            if all.iter().all(|series| series.points.len() < 2) {
                continue;
            }
            // Too many lines for one chart: one for each path, or over distance for each value of
            // the first axis.
            let first = axes.first().filter(|one| one.name != DISTANCE);
            let part = |cell: &Cell| match (along.name == DISTANCE, first) {
                (false, _) => cell.path.name.clone(),
                (true, Some(first)) => (first.words)(cell),
                (true, None) => cell.staged.map_or_else(String::new, |staged| staged.how()),
            };
            let mut parts: Vec<String> = Vec::new();
            for name in self.plain().map(|result| part(&result.cell)) {
                if !parts.contains(&name) {
                    parts.push(name);
                }
            }
            if all.len() <= LINES || parts.len() < 2 {
                chart(String::new(), all);
                continue;
            }
            for name in parts {
                let mut lines = self.lines(&axes, along, |cell| part(cell) == name);
                // The chart has that part of their names.
                lines.iter_mut().for_each(|line| line.name = without(&line.name, &name));
                chart(format!(", {name}"), lines);
            }
        }
        let is_drawn = !charts.is_empty();
        let section = charts.into_iter().fold(Section::new("Along each axis"), Section::chart);
        let cut = format!("At most {LINES} lines are drawn; the table below has every cell.");
        is_drawn.then(|| if is_cut { section.note(cut) } else { section })
    }

    /// Means of the cells that `of` takes over the axis `along`, a line for each combination of the
    /// others.
    fn lines(&self, axes: &[Along], along: &Along, of: impl Fn(&Cell) -> bool) -> Vec<Series> {
        let (unit, _) = self.rate_unit();
        let found = self.plain().filter(|result| of(&result.cell)).filter_map(|result| {
            let (summary, x) = (result.summary()?, (along.at)(&result.cell));
            let name = self.line_name(axes, &result.cell, along.name);
            x.is_finite().then(|| (name, (x, summary.mean / unit, band(summary.ci95, unit))))
        });
        Series::grouped(found)
    }

    /// What tells a cell from the others of the grid.
    pub(super) fn short_name(&self, cell: &Cell) -> String {
        self.line_name(&self.axes(), cell, "")
    }

    /// What tells a cell's line from the others of a chart over the one of the grid's `axes` that
    /// is called `along`.
    fn line_name(&self, axes: &[Along], cell: &Cell, along: &str) -> String {
        let grid = &self.grid;
        let mut parts = Vec::new();
        if grid.paths.len() > 1 && along != DISTANCE {
            parts.push(cell.path.name.clone());
        }
        if grid.congestion.len() > 1 || parts.is_empty() {
            parts.extend(cell.control().map(|control| control.to_string()));
        }
        parts.extend(
            axes.iter()
                .filter(|one| one.name != along && one.name != DISTANCE)
                .map(|one| (one.words)(cell)),
        );
        if grid.directions.len() > 1 {
            parts.push(cell.direction.name().to_owned());
        }
        parts.extend(cell.staged.map(|staged| staged.how()));
        parts.join(" ")
    }
}

/// A name of several words without `part` of it.
fn without(name: &str, part: &str) -> String {
    name.replacen(part, "", 1).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// An axis's name within a sentence.
fn spoken(name: &str) -> String {
    if name.chars().all(char::is_uppercase) { name.to_owned() } else { name.to_lowercase() }
}

//! A profile's page: lines along each axis of the grid, and what tells one line from another.

use super::cell::Cell;
use super::document::Profile;
use super::grid::Grid;
use super::page::{LINES, gbit};
use crate::report::{Axis, LineChart, Section, Series};
use crate::units::Bytes;

/// The axis of streams.
const STREAMS: &str = "Streams";
/// The axis of a mover's pools.
const STAGING: &str = "Staging";
/// The axis of paths, whose lines are not called after a path.
const DISTANCE: &str = "Round-trip time";
/// Bytes.
const MIB: f64 = 1_048_576.0;

/// An axis of the grid that has more than one value, as a chart sees it.
struct Along {
    name: &'static str,
    unit: &'static str,
    /// Whether its values are spread over powers.
    log: bool,
    /// Where a cell lies on it; NaN for one without a value.
    at: fn(&Cell) -> f64,
    /// What the line of a cell over another axis is called after it.
    words: fn(&Cell) -> String,
}

fn or_none(bytes: Option<Bytes>, what: &str) -> String {
    bytes.map_or_else(|| format!("the kernel's {what}"), |bytes| format!("{what} {bytes}"))
}

fn mib(bytes: Option<Bytes>) -> f64 {
    bytes.map_or(f64::NAN, |bytes| bytes.0 as f64 / MIB)
}

fn message(cell: &Cell) -> Bytes {
    cell.message_bytes.unwrap_or(Grid::USUAL_MESSAGE)
}

impl Profile {
    /// The axes of several values with numbers on them, in the order in which a line's name has
    /// them.
    fn axes(&self) -> Vec<Along> {
        let grid = &self.grid;
        let all = [
            (
                grid.streams.len(),
                Along {
                    name: STREAMS,
                    unit: "",
                    log: false,
                    at: |cell| f64::from(cell.streams),
                    words: |cell| cell.streams_in_words(),
                },
            ),
            (
                grid.mtus.len(),
                Along {
                    name: "MTU",
                    unit: "B",
                    log: false,
                    at: |cell| f64::from(cell.mtu),
                    words: |cell| format!("MTU {}", cell.mtu),
                },
            ),
            (
                grid.windows_bytes.len(),
                Along {
                    name: "Largest window",
                    unit: "MiB",
                    log: false,
                    at: |cell| mib(cell.window_bytes),
                    words: |cell| or_none(cell.window_bytes, "window"),
                },
            ),
            (
                grid.buffers_bytes.len(),
                Along {
                    name: "Send buffer",
                    unit: "MiB",
                    log: false,
                    at: |cell| mib(cell.buffer_bytes),
                    words: |cell| or_none(cell.buffer_bytes, "buffer"),
                },
            ),
            (
                grid.messages_bytes.len(),
                Along {
                    name: "Message size",
                    unit: "KiB",
                    log: true,
                    at: |cell| message(cell).0 as f64 / 1_024.0,
                    words: |cell| format!("messages of {}", message(cell)),
                },
            ),
            (
                grid.cross_bps.len(),
                Along {
                    name: "Other traffic",
                    unit: "Gbit/s",
                    log: false,
                    at: |cell| gbit(cell.cross_bps),
                    words: |cell| format!("cross {}", cell.cross_bps),
                },
            ),
            (
                grid.losses.len(),
                Along {
                    name: "Loss",
                    unit: "",
                    log: false,
                    at: |cell| cell.loss,
                    words: |cell| format!("loss {:e}", cell.loss),
                },
            ),
        ];
        let mut axes: Vec<Along> =
            all.into_iter().filter(|(values, _)| *values > 1).map(|(_, along)| along).collect();
        if grid.copies.as_ref().is_some_and(|copies| copies.staging_bytes.len() > 1) {
            axes.push(Along {
                name: STAGING,
                unit: "MiB",
                log: false,
                at: |cell| mib(cell.staged.map(|one| one.staging_bytes)),
                words: |cell| {
                    cell.staged.map_or_else(String::new, |staged| {
                        format!("staging {}", staged.staging_bytes)
                    })
                },
            });
        }
        axes
    }

    /// The distance, where the chart of it that stands next to the papers' has but a part of the
    /// cells.
    fn distance(&self, axes: &[Along]) -> Option<Along> {
        let others = axes.iter().any(|along| along.name != STREAMS) || self.grid.copies.is_some();
        (self.grid.paths.len() > 1 && others).then_some(Along {
            name: DISTANCE,
            unit: "ms",
            log: false,
            at: |cell| cell.path.rtt_ns.as_millis_f64(),
            // A line's name begins with its path.
            words: |_| String::new(),
        })
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
        let (mut charts, mut is_cut) = (Vec::new(), false);
        for along in &axes {
            let mut chart = |place: String, mut series: Vec<Series>| {
                is_cut |= series.len() > LINES;
                series.truncate(LINES);
                let title = format!("Throughput by {}{place}", spoken(along.name));
                let x = Axis::new(along.name, along.unit);
                let y = Axis::new(format!("Goodput, {}{place}", self.label()), "Gbit/s");
                charts.push(LineChart::new(title, if along.log { x.log() } else { x }, y, series));
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
        type Found = (f64, f64, Option<(f64, f64)>);
        let mut lines: Vec<(String, Vec<Found>)> = Vec::new();
        for result in self.plain().filter(|result| of(&result.cell)) {
            let (Some(summary), x) = (result.summary(), (along.at)(&result.cell)) else { continue };
            if !x.is_finite() {
                continue;
            }
            let band = summary.ci95.map(|(low, high)| (low.max(0.0) / 1e9, high / 1e9));
            let found = (x, summary.mean / 1e9, band);
            let name = self.line_name(axes, &result.cell, along.name);
            match lines.iter_mut().find(|(known, _)| *known == name) {
                Some((_, all)) => all.push(found),
                None => lines.push((name, vec![found])),
            }
        }
        lines.into_iter().map(|(name, found)| Series::through(name, found)).collect()
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
            parts.push(cell.congestion.to_string());
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

//! A profile as one page: heat maps, throughput against rtt, the papers' tables beside ours, time series, every cell.

use super::document::{CellResult, Kind, Profile, Repetition};
use super::grid::Disturbance;
use super::published;
use super::statistics::{Summary, transition, utilisation_concavity};
use crate::congestion::Algorithm;
use crate::report::{Axis, Card, HeatMap, LineChart, Mark, Page, Section, Series, Surface, Table};
use crate::units::{Rate, Span};
use crate::wan::Change;

/// The streams that SC08 averages over (section III.A).
pub(super) const SC08_STREAMS: std::ops::RangeInclusive<u32> = 5..=15;
/// More lines cannot be told apart.
const LINES: usize = 6;
/// Longer tables are not read; the document has the rest.
const ROWS: usize = 240;

/// An axis of the grid as a chart sees it: its name and unit, and where a cell lies on it.
type Along = (&'static str, &'static str, fn(&CellResult) -> f64);

impl Profile {
    /// The profile as one page; `commands` give it again.
    pub fn page(&self, commands: &[String]) -> Page {
        let data = serde_json::to_string(self).unwrap_or_default();
        self.at_full_rate().draw(commands).data(data)
    }

    /// The page of a profile whose rates are those to be shown.
    fn draw(&self, commands: &[String]) -> Page {
        let kind = match (self.kind, self.grid.scale) {
            (Kind::Modelled, _) => {
                "Every curve is modelled: streams as fluids over one queue, in virtual time. Nothing here was measured."
                    .to_owned()
            }
            (Kind::Measured, 1) => "Every curve was measured.".to_owned(),
            (Kind::Measured, k) => format!(
                "Every curve was measured, scaled {k}: on a path of a {k}th of the rate with packets of a {k}th of the size, so that windows \
                 in packets and times are those of the full rate. All rates and sizes on this page are times {k}; the document \
                 has what was measured."
            ),
        };
        let mut page =
            Page::new(format!("Profile: {}", self.grid.name)).lead(format!("{kind} Farline {}, {}.", self.farline, self.date));
        page = page.section(self.overview());
        let sections = [
            self.heat(),
            self.against_rtt(),
            self.per_mile(),
            self.hypotheses(),
            self.along_other_axes(),
            self.stability(),
            self.recoveries(),
            self.over_time(),
            self.against_model(),
            self.exactness(),
        ];
        for section in sections.into_iter().flatten() {
            page = page.section(section);
        }
        page = page.section(self.every_cell());
        let again = Section::new("How to get this page again").commands(commands.join("\n")).note(format!(
            "The document behind this page is in the page itself: the element with the id data, schema {}. Grid {}.",
            self.schema,
            &self.grid_hash[..16.min(self.grid_hash.len())]
        ));
        page.section(again)
    }

    /// `modelled` or `measured`, behind the name of every curve.
    pub(super) fn label(&self) -> &'static str {
        match (self.kind, self.grid.scale) {
            (Kind::Modelled, _) => "modelled",
            (Kind::Measured, 1) => "measured",
            (Kind::Measured, _) => "measured, scaled",
        }
    }

    fn overview(&self) -> Section {
        let grid = &self.grid;
        let valid: usize = self.cells.iter().map(|result| result.valid().count()).sum();
        let all: usize = self.cells.iter().map(|result| result.repetitions.len()).sum();
        let (done, cells) = self.progress();
        let mut cards = vec![
            Card::new("Paths", grid.paths.iter().map(|path| path.name.as_str()).collect::<Vec<_>>().join(", ")),
            Card::new("Congestion controls", grid.congestion.iter().map(|one| one.name()).collect::<Vec<_>>().join(", ")),
            Card::new("Cells finished", format!("{done} of {cells}")),
            Card::new("Repetitions", format!("{valid} valid of {all}")),
            Card::new("Each", format!("{} s, {} s of warm-up at least", grid.seconds, grid.warm_up_s)),
            Card::new("Seed", grid.seed),
        ];
        let environment = &self.environment;
        let machine =
            [environment.host.clone(), environment.kernel.clone(), environment.cpus.map(|cpus| format!("{cpus} processors"))];
        let machine: Vec<String> = machine.into_iter().flatten().collect();
        if !machine.is_empty() {
            cards.push(Card::new("Machine", machine.join(", ")));
        }
        if let Some(host) = grid.host_bps {
            cards.push(Card::new("Host's limit", host));
        }
        let section = Section::new("What was run").cards(cards);
        match self.kind {
            Kind::Modelled => section.note(
                "The model has the controls of Linux in full and one tail-drop queue of one bandwidth-delay product. It has no \
                 lost retransmission, no delayed acknowledgement, no HyStart, and no processor: real hosts are slower.",
            ),
            Kind::Measured if grid.scale > 1 => section.note(
                "What scales exactly: every control that counts packets and time, which is all eight. What does not: 64 KiB that \
                 a host sends at once hold more of the smaller packets, BBR's pacing leaves in such pieces, and headers take a \
                 larger share of a packet.",
            ),
            Kind::Measured => section,
        }
    }

    /// The mean goodput in Gbit/s of the cells that `of` takes; `None` where none was measured.
    fn mean_gbps(&self, of: impl Fn(&CellResult) -> bool) -> Option<f64> {
        let means: Vec<f64> =
            self.one_way().filter(|result| of(result)).filter_map(|result| result.summary()).map(|s| s.mean).collect();
        (!means.is_empty()).then(|| means.iter().sum::<f64>() / means.len() as f64 / 1e9)
    }

    /// Length against streams, a map for each control, all in the same colours.
    fn heat(&self) -> Option<Section> {
        let grid = &self.grid;
        if grid.streams.len() < 2 {
            return None;
        }
        let most = self.one_way().filter_map(CellResult::summary).map(|summary| summary.mean / 1e9).fold(0.0, f64::max);
        let mut section = Section::new("Throughput by length and streams").text(
            "SC08's distance profile, T(d, n): one map for each congestion control, all in the same colours, and the same as a \
                   surface: drag it, or press an arrow key, to turn it.",
        );
        for &congestion in &grid.congestion {
            let rows = grid.paths.iter().map(|path| {
                let values = grid.streams.iter().map(|&streams| {
                    self.mean_gbps(|result| {
                        let cell = &result.cell;
                        (cell.congestion, cell.streams) == (congestion, streams) && cell.path == *path
                    })
                });
                (format!("{} ({})", path.name, path.rtt_ns), values.collect())
            });
            let map = HeatMap {
                title: format!("Throughput of {congestion} by path and streams, {}", self.label()),
                value: format!("{congestion}, {}: goodput (Gbit/s)", self.label()),
                across: "Streams".to_owned(),
                columns: grid.streams.iter().map(ToString::to_string).collect(),
                rows: rows.collect(),
                most,
            };
            let surface = Surface {
                title: format!("The same as a surface: {}", map.title),
                value: map.value.clone(),
                across: map.across.clone(),
                along: "Path".to_owned(),
                columns: map.columns.clone(),
                rows: map.rows.clone(),
                most,
            };
            section = section.chart(map);
            if surface.has_faces() {
                section = section.chart(surface);
            }
        }
        Some(section)
    }

    /// Samples in Gbit/s of every valid repetition of `congestion` over the path called `path`, over SC08's streams where the
    /// grid has them.
    pub(super) fn samples(&self, congestion: Algorithm, path: &str) -> Vec<f64> {
        let sc08 = self.grid.streams.iter().any(|streams| SC08_STREAMS.contains(streams));
        let of = |result: &&CellResult| {
            let cell = &result.cell;
            cell.congestion == congestion && cell.path.name == path && (!sc08 || SC08_STREAMS.contains(&cell.streams))
        };
        self.one_way().filter(of).flat_map(CellResult::goodput_bps).map(|bps| bps / 1e9).collect()
    }

    /// Throughput against rtt with its interval, the papers' beside, and what the fit says.
    fn against_rtt(&self) -> Option<Section> {
        if self.grid.paths.len() < 2 || self.grid.copies.is_some() {
            return None;
        }
        let mut paths: Vec<_> = self.grid.paths.iter().collect();
        paths.sort_by_key(|path| path.rtt_ns);
        let capacity = paths.iter().map(|path| gbit(path.rate_bps)).fold(0.0, f64::max);
        let mut series = Vec::new();
        let mut rows = Vec::new();
        for &congestion in self.grid.congestion.iter().take(LINES) {
            let summaries: Vec<(f64, Summary)> = paths
                .iter()
                .filter_map(|path| Summary::of(&self.samples(congestion, &path.name)).map(|s| (path.rtt_ns.as_millis_f64(), s)))
                .collect();
            let points: Vec<(f64, f64)> = summaries.iter().map(|(ms, summary)| (*ms, summary.mean)).collect();
            let band = summaries.iter().filter_map(|(ms, summary)| summary.ci95.map(|(low, high)| (*ms, low.max(0.0), high)));
            let fit = transition(&points, capacity);
            rows.push((
                vec![
                    congestion.to_string(),
                    fit.map_or_else(String::new, |fit| Span::from_secs_f64(fit.rtt_ms / 1e3).to_string()),
                    fit.map_or_else(String::new, |fit| format!("{:.3}", fit.rmse)),
                    utilisation_concavity(&points, capacity).map_or_else(String::new, |value| format!("{value:.2}")),
                ],
                false,
            ));
            series.push(Series {
                name: format!("{congestion}, {}", self.label()),
                points,
                band: band.collect(),
                ..Series::default()
            });
        }
        for &congestion in &self.grid.congestion {
            let points: Vec<(f64, f64)> = paths
                .iter()
                .filter_map(|path| published::sc08(congestion, &path.name).map(|row| (path.rtt_ns.as_millis_f64(), row.gbps)))
                .collect();
            if points.len() > 1 && series.len() < LINES {
                series.push(Series { name: format!("{congestion}, SC08"), points, ..Series::default() });
            }
        }
        let chart = |x: Axis| LineChart {
            title: "Throughput against round-trip time".to_owned(),
            x,
            y: Axis::new("Goodput", "Gbit/s"),
            series: series.clone(),
            marks: Vec::new(),
        };
        let columns = Table::headings(["Control", "Transition RTT", "Error of the fit", "Utilisation-concavity"]);
        Some(
            Section::new("Throughput against round-trip time")
                .text(
                    "Means of all repetitions and, where the grid has them, of 5 to 15 streams, as SC08 averages; the shade is the \
                     95 % confidence interval of the mean. SC08's own means stand beside.",
                )
                .chart(chart(Axis::new("Round-trip time", "ms")))
                .chart(chart(Axis::new("Round-trip time, logarithmic", "ms").log()))
                .table(Table { columns, rows })
                .note(
                    "Up to the transition RTT a profile is concave: distance costs little. It is the measured rtt at which two \
                     sigmoids fit best (Rao et al., HPDC 2017). Utilisation-concavity is 1 for a profile that falls only at its \
                     end and uses everything, 0 for one that falls at once.",
                ),
        )
    }

    /// Lines over each of the other axes that has more than one value.
    fn along_other_axes(&self) -> Option<Section> {
        let grid = &self.grid;
        let axes: [(bool, Along); 6] = [
            (
                grid.copies.is_some(),
                ("Staging", "MiB", |result| result.cell.staged.map_or(f64::NAN, |one| one.staging_bytes.0 as f64 / 1_048_576.0)),
            ),
            (grid.streams.len() > 1, ("Streams", "", |result| f64::from(result.cell.streams))),
            (
                grid.windows_bytes.len() > 1,
                ("Largest window", "MiB", |result| {
                    result.cell.window_bytes.map_or(f64::NAN, |window| window.0 as f64 / 1_048_576.0)
                }),
            ),
            (grid.mtus.len() > 1, ("MTU", "B", |result| f64::from(result.cell.mtu))),
            (grid.cross_bps.len() > 1, ("Other traffic", "Gbit/s", |result| gbit(result.cell.cross_bps))),
            (grid.losses.len() > 1, ("Loss", "", |result| result.cell.loss)),
        ];
        let mut charts = Vec::new();
        for (_, along) in axes.iter().filter(|(has, _)| *has) {
            let (name, unit, _) = along;
            let mut chart = |place: String, mut series: Vec<Series>| {
                series.truncate(LINES);
                charts.push(LineChart {
                    title: format!("Throughput by {}{place}", name.to_lowercase()),
                    x: Axis::new(*name, *unit),
                    y: Axis::new(format!("Goodput, {}{place}", self.label()), "Gbit/s"),
                    series,
                    marks: Vec::new(),
                });
            };
            let all = self.lines(along, |_| true);
            match grid.paths.len() {
                // Too many lines for one chart: one for each path.
                2.. if all.len() > LINES => {
                    for path in &grid.paths {
                        chart(format!(", {}", path.name), self.lines(along, |result| result.cell.path == *path));
                    }
                }
                _ => chart(String::new(), all),
            }
        }
        let note = format!("At most {LINES} lines are drawn; the table below has every cell.");
        let section =
            |charts: Vec<LineChart>| charts.into_iter().fold(Section::new("Along each axis"), Section::chart).note(note);
        (!charts.is_empty()).then(|| section(charts))
    }

    /// Means of the cells that `of` takes over the axis `along`, a line for each combination of the others.
    fn lines(&self, (along, _, at): &Along, of: impl Fn(&CellResult) -> bool) -> Vec<Series> {
        let mut series: Vec<Series> = Vec::new();
        for result in self.plain().filter(|result| of(result)) {
            let (Some(summary), x) = (result.summary(), at(result)) else { continue };
            if !x.is_finite() {
                continue;
            }
            let name = self.line_name(result, along);
            let place = series.iter().position(|series| series.name == name).unwrap_or(series.len());
            if place == series.len() {
                series.push(Series { name, ..Series::default() });
            }
            series[place].points.push((x, summary.mean / 1e9));
            if let Some((low, high)) = summary.ci95 {
                series[place].band.push((x, low.max(0.0) / 1e9, high / 1e9));
            }
        }
        for line in &mut series {
            line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
            line.band.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        series
    }

    /// What tells a cell's line from the others of a chart over the axis called `along`.
    fn line_name(&self, result: &CellResult, along: &str) -> String {
        let (grid, cell) = (&self.grid, &result.cell);
        let mut parts = Vec::new();
        if grid.paths.len() > 1 {
            parts.push(cell.path.name.clone());
        }
        if grid.congestion.len() > 1 || parts.is_empty() {
            parts.push(cell.congestion.to_string());
        }
        if grid.streams.len() > 1 && along != "Streams" {
            parts.push(format!("{} streams", cell.streams));
        }
        if grid.mtus.len() > 1 && along != "MTU" {
            parts.push(format!("MTU {}", cell.mtu));
        }
        if grid.windows_bytes.len() > 1 && along != "Largest window" {
            parts.push(cell.window_bytes.map_or_else(|| "no window".to_owned(), |window| window.to_string()));
        }
        if grid.cross_bps.len() > 1 && along != "Other traffic" {
            parts.push(format!("cross {}", cell.cross_bps));
        }
        if grid.directions.len() > 1 {
            parts.push(cell.direction.name().to_owned());
        }
        if let Some(staged) = cell.staged {
            parts.push(if along == "Staging" { staged.how() } else { staged.to_string() });
        }
        if grid.losses.len() > 1 && along != "Loss" {
            parts.push(format!("loss {:e}", cell.loss));
        }
        parts.join(" ")
    }

    /// Time to come back, where something happened in the middle.
    fn recoveries(&self) -> Option<Section> {
        let disturbance = self.grid.disturbance?;
        let rows = self.plain().map(|result| {
            let found: Vec<f64> = result.valid().filter_map(|repetition| repetition.recovery_s).collect();
            let (back, all) = (found.len(), result.valid().count());
            let summary = Summary::of(&found);
            let cells = vec![
                result.cell.name(),
                summary.map_or_else(|| "not within the repetition".to_owned(), |s| format!("{:.1} s", s.mean)),
                summary.map_or_else(String::new, |s| format!("{:.1} to {:.1} s", s.min, s.max)),
                format!("{back} of {all}"),
            ];
            (cells, false)
        });
        let columns = [("Cell", false), ("Back after", true), ("Range", true), ("Came back", true)];
        Some(
            Section::new("Time to recover")
                .text(format!(
                    "From the disturbance at {} to nine tenths of the rate before it, for three samples on end; {}.",
                    disturbance.at_ns,
                    self.label()
                ))
                .table(Table { columns: columns.map(|(name, right)| (name.to_owned(), right)).to_vec(), rows: rows.collect() })
                .note(
                    "The Trans-European paper's figure 10: HighSpeed was back more than nine times sooner than stock TCP. Its 18.6 s \
                     for Reno at 17 ms and 9.2 Gbit/s and 0.97 s for HighSpeed are what theory says of one loss.",
                ),
        )
    }

    /// The first valid repetition of some cells, over time.
    fn over_time(&self) -> Option<Section> {
        let measured: Vec<&CellResult> = self.plain().filter(|result| result.valid().next().is_some()).collect();
        if measured.is_empty() {
            return None;
        }
        // Cells from all over the grid, the last among them.
        let step = measured.len().div_ceil(LINES).max(1);
        let chosen: Vec<&&CellResult> = measured.iter().rev().step_by(step).take(LINES).collect();
        let series = chosen.iter().rev().map(|result| {
            let first = result.valid().next();
            let samples = first.map(|repetition| repetition.samples_bps.as_slice()).unwrap_or_default();
            let losses = first.map(|repetition| repetition.losses.as_slice()).unwrap_or_default();
            let events = losses.iter().map(|lost| (lost.at_s, format!("{} packets lost, {:.1} s", lost.packets, lost.at_s)));
            let points = samples.iter().enumerate().map(|(i, bps)| ((i + 1) as f64 * self.grid.sample_s, gbit(*bps)));
            Series { name: self.line_name(result, ""), points: points.collect(), events: events.collect(), ..Series::default() }
        });
        Some(
            Section::new("Over time")
                .text(format!(
                    "The first repetition of cells from all over the grid, {}: ramp, losses, steady part. Each tick on a line is a \
                     sample in which packets were lost or sent again. A drag zooms; a double click shows all.",
                    self.label()
                ))
                .chart(LineChart {
                    title: "Throughput over time of some cells".to_owned(),
                    x: Axis::new("Time since the streams began", "s"),
                    y: Axis::new(format!("Goodput, {}", self.label()), "Gbit/s"),
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
            Change::Cross(rate, during) => (at + during.map_or(0.0, Span::as_secs_f64), format!("other traffic of {rate}")),
            Change::Lose(frames) => (at, format!("{frames} lost")),
            _ => (at, "disturbance".to_owned()),
        };
        let back = last.and_then(|one| one.recovery_s).map(|after| {
            let back = at + after;
            Mark { from: back, to: back, name: format!("back after {after:.1} s") }
        });
        [Mark { from: at, to, name }].into_iter().chain(back).collect()
    }

    fn every_cell(&self) -> Section {
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
            let of = |pick: &dyn Fn(&super::Repetition) -> f64| result.valid().map(pick).sum::<f64>() / summary.n as f64;
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
                result.valid().next().map_or_else(String::new, |one| format!("{:?}", one.limited_by)),
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

fn gbit(rate: Rate) -> f64 {
    rate.as_bps() as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Environment, Form, Simulator, preset};

    #[test]
    fn the_page_has_every_section_and_says_that_it_is_a_model() {
        let mut grid = preset("sc08-distance", Form::Quick).expect("a preset");
        grid.streams = vec![1, 5];
        grid.seconds = 8.0;
        let mut profile = Profile::new(grid, Kind::Modelled, Environment::default(), "today").expect("a grid");
        let empty = profile.page(&[]).html();
        assert!(empty.contains("not run") && !empty.contains("NaN"));
        profile.run(&mut Simulator, |_| true).expect("a model does not fail");
        let html = profile.page(&["farline profile --simulate".to_owned()]).html();
        for words in [
            "Nothing here was measured",
            "Decrease per mile",
            "bic, SC08",
            "htcp, modelled",
            "Transition RTT",
            "0.87",
            "8.20 at 19",
        ] {
            assert!(html.contains(words), "{words}");
        }
        assert!(!html.contains("NaN") && !html.contains("inf"), "a number that is none");
    }
}

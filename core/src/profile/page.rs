//! A profile as one page: heat maps, throughput against rtt, the papers' tables next to ours, time
//! series, every cell.

use super::cell::{Cell, PathPoint};
use super::document::{CellResult, Profile, ProfileKind};
use super::driver::ProfileDriver;
use super::published::{self, THEIRS};
use crate::congestion::{Algorithm, Constants};
use crate::experiment::{Document, paths_card, with_changes};
use crate::report::{Card, Columns, HeatMap, PageSpec, ReportDocument, Section};

/// The streams that SC08 averages over (section III.A).
pub(super) const SC08_STREAMS: std::ops::RangeInclusive<u32> = 5..=15;
/// More lines cannot be told apart.
pub(super) const LINES: usize = 6;

impl ReportDocument for Profile {
    fn spec(&self) -> PageSpec {
        self.at_full_rate().spec_of(self)
    }

    fn columns(&self) -> Columns {
        self.rows()
    }
}

impl Profile {
    /// The page of a profile whose rates are those to be shown; `document` has those that were
    /// measured.
    fn spec_of(&self, document: &Profile) -> PageSpec {
        let has_udt = self.cells.iter().any(|result| result.cell.driver() == ProfileDriver::Udt);
        let kind = match self.kind {
            ProfileKind::Modelled if has_udt => {
                "Every curve is modelled, in virtual time: streams of TCP as fluids over one queue, \
                 UDT packet by packet over the emulator's link."
            }
            ProfileKind::Modelled => {
                "Every curve is modelled: streams as fluids over one queue, in virtual time."
            }
            ProfileKind::Measured => "Every curve was measured.",
        };
        let measured = match (self.kind, self.has_papers_figures()) {
            (ProfileKind::Measured, _) => String::new(),
            (ProfileKind::Modelled, false) => " Nothing here was measured.".to_owned(),
            (ProfileKind::Modelled, true) => format!(" Nothing here was measured but {THEIRS}."),
        };
        let scaled = match self.grid.scale {
            1 => String::new(),
            k if document.grid.time_scaled => format!(
                " Scaled {k} and stretched: on a path of 1/{k} of the rate and {k} times the round \
                 trip, so that windows in packets are those of the full rate, and everything took \
                 {k} times as long. All rates on this page are times {k}, and all times are a \
                 {k}th; the document has what it was before."
            ),
            k => format!(
                " Scaled {k}: on a path of 1/{k} of the rate with packets of 1/{k} of the size, so \
                 that windows in packets and times are those of the full rate. All rates and sizes \
                 on this page are times {k}; the document has what it was before."
            ),
        };
        let sections = vec![
            Some(self.overview()),
            self.heat(),
            self.against_rtt(),
            self.per_mile(),
            self.hypotheses(),
            self.printed(),
            self.channels(),
            self.along_other_axes(),
            self.stability(),
            self.how_often(),
            self.recoveries(),
            self.over_time(),
            document.against_model(self),
            self.exactness(),
            Some(self.every_cell()),
        ];
        let title = format!("Profile: {}", self.grid.name);
        let grid = format!(" Grid {}.", &self.grid_hash[..16.min(self.grid_hash.len())]);
        let source = (self.schema.clone(), grid);
        let lead = format!("{kind}{measured}{scaled} Farline {}, {}.", self.farline, self.date);
        PageSpec { title, lead, sections, source }
    }

    /// `modelled` or `measured`, behind the name of every curve.
    pub(super) fn label(&self) -> &'static str {
        match (self.kind, self.grid.scale) {
            (ProfileKind::Modelled, 1) => "modelled",
            (ProfileKind::Modelled, _) => "modelled, scaled",
            (ProfileKind::Measured, 1) => "measured",
            (ProfileKind::Measured, _) => "measured, scaled",
        }
    }

    fn overview(&self) -> Section {
        let grid = &self.grid;
        let valid: usize = self.cells.iter().map(|result| result.valid().count()).sum();
        let all: usize = self.cells.iter().map(|result| result.repetitions.len()).sum();
        let (done, cells) = self.progress();
        let mut cards = vec![
            paths_card(&grid.paths),
            Card::new(
                "Congestion controls",
                grid.congestion.iter().map(|one| one.name()).collect::<Vec<_>>().join(", "),
            ),
            Card::new("Cells finished", format!("{done} of {cells}")),
            Card::new("Repetitions", format!("{valid} valid of {all}")),
            Card::new(
                "Each",
                format!("{} s, {} s of warm-up at least", grid.seconds, grid.warm_up_s),
            ),
            Card::new("Seed", grid.seed),
        ];
        let environment = &self.environment;
        let machine = [
            environment.host.clone(),
            environment.kernel.clone(),
            environment.cpus.map(|cpus| format!("{cpus} processors")),
        ];
        let machine: Vec<String> = machine.into_iter().flatten().collect();
        if !machine.is_empty() {
            cards.push(Card::new("Machine", machine.join(", ")));
        }
        if grid.congestion.iter().any(|&one| grid.set_of(one) == Constants::Paper) {
            cards.push(Card::new("Controls' constants", "of their papers"));
        }
        if let Some(host) = grid.host_bps {
            cards.push(Card::new("Host's limit", host));
        }
        let section = Section::new("What was run").cards(cards);
        let mut section = with_changes(section, &self.changes());
        let blank = self
            .cells
            .iter()
            .filter(|result| result.valid().next().is_none() && !result.repetitions.is_empty())
            .count();
        if blank > 0 {
            section = section.warning(format!(
                "{blank} of {cells} cells have no valid repetition. What was seen in them is in \
                 brackets in the tables, and in no chart and no mean."
            ));
        }
        if self.kind == ProfileKind::Modelled {
            section = section.note(format!(
                "The model has the controls in full and one tail-drop queue{}. It has no lost \
                 retransmission, no delayed acknowledgement, no HyStart, and no processor: real \
                 hosts are slower.",
                self.queues_in_words()
            ));
        }
        match grid.scale {
            1 => section,
            _ if grid.time_scaled => section.note(
                "What stretches exactly: controls that count round trips, which are Reno, BIC, \
                 HighSpeed, Scalable and Vegas, and whatever a window limits. What does not: \
                 CUBIC, H-TCP and BBR count seconds, and so do a host's least retransmission \
                 timeout and the delay of its acknowledgements.",
            ),
            _ => section.note(
                "What scales exactly: every control that counts packets and time, which is all \
                 eight. What does not: 64 KiB that a host sends at once hold more of the smaller \
                 packets, BBR's pacing leaves in such pieces, and headers take a larger share of a \
                 packet.",
            ),
        }
    }

    /// Whether a paper's figures stand next to these.
    fn has_papers_figures(&self) -> bool {
        let sc08 = |cell: &Cell| published::sc08(cell.congestion, &cell.path.name).is_some();
        self.cells.iter().any(|result| sc08(&result.cell)) || self.printed().is_some()
    }

    /// How large the queue of each path is.
    fn queues_in_words(&self) -> String {
        let paths = &self.grid.paths;
        let one_product = |path: &PathPoint| {
            let product = path.rate_bps.bytes_in(path.rtt_ns).0 as f64;
            (path.queue_bytes.0 as f64 / product.max(1.0) - 1.0).abs() < 0.01
        };
        if paths.iter().all(one_product) {
            return " of one bandwidth-delay product".to_owned();
        }
        match &paths[..] {
            [] => String::new(),
            [path] => format!(" of {}", path.queue_bytes),
            _ => {
                let of = |path: &PathPoint| format!("{} {}", path.name, path.queue_bytes);
                format!(" for each path: {}", paths.iter().map(of).collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// The unit in which rates are shown, one for all that is read together, such that the largest
    /// is not a row of zeros: its bits per second, and its name.
    pub fn rate_unit(&self) -> (f64, &'static str) {
        let seen = self.cells.iter().flat_map(|result| &result.repetitions);
        let seen = seen.flat_map(|one| [one.whole.receiver_bps, one.steady.receiver_bps]);
        let paths = || self.grid.paths.iter().map(|path| path.rate_bps).max();
        let most = seen.max().filter(|most| most.as_bps() > 0).or_else(paths);
        let most = most.map_or(f64::INFINITY, |most| most.as_bps() as f64);
        let units = [(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")];
        units.into_iter().find(|(unit, _)| most >= unit / 10.0).unwrap_or((1.0, "bit/s"))
    }

    /// A map of paths and streams for `congestion`, of the means of what was `found` in each place:
    /// what it is called, and what its colours are.
    pub(super) fn map(
        &self,
        congestion: Algorithm,
        (title, value): (&str, &str),
        found: &[(&Cell, f64)],
    ) -> HeatMap {
        let mean = |path: &PathPoint, streams: u32| {
            let here = |cell: &Cell| {
                (cell.congestion, cell.streams) == (congestion, streams) && cell.path == *path
            };
            let all: Vec<f64> =
                found.iter().filter(|(cell, _)| here(cell)).map(|(_, value)| *value).collect();
            (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
        };
        let (streams, label) = (&self.grid.streams, self.label());
        let row = |path: &PathPoint| {
            (path.label(), streams.iter().map(|&streams| mean(path, streams)).collect())
        };
        HeatMap {
            title: format!("{title} of {congestion} by path and streams, {label}"),
            value: format!("{congestion}, {label}: {value}"),
            across: "Streams".to_owned(),
            columns: streams.iter().map(ToString::to_string).collect(),
            rows: self.grid.paths.iter().map(row).collect(),
            most: found.iter().map(|(_, value)| *value).fold(0.0, f64::max),
        }
    }

    /// Length against streams, a map for each control, all in the same colours.
    fn heat(&self) -> Option<Section> {
        let grid = &self.grid;
        if grid.streams.len() < 2 {
            return None;
        }
        let (unit, unit_name) = self.rate_unit();
        let mean = |result: &'_ CellResult| Some(result.summary()?.mean / unit);
        let means: Vec<(&Cell, f64)> =
            self.basic().filter_map(|one| Some((&one.cell, mean(one)?))).collect();
        let value = format!("goodput ({unit_name})");
        let maps: Vec<HeatMap> = grid
            .congestion
            .iter()
            .map(|&one| self.map(one, ("Throughput", &value), &means))
            .collect();
        let turned = maps.iter().any(|map| map.surface("Path").has_faces());
        let mut section = Section::new("Throughput by length and streams").text(format!(
            "SC08's distance profile, T(d, n): one map for each congestion control, all in the \
             same colours{}.{}",
            if turned {
                ", and the same as a surface: drag it, or press an arrow key, to turn it"
            } else {
                ""
            },
            self.rest_in_words()
        ));
        for map in maps {
            let surface = map.surface("Path");
            section = section.chart(map);
            if surface.has_faces() {
                section = section.chart(surface);
            }
        }
        Some(section)
    }
}

/// An interval in bit/s as a chart in units of `unit` bit/s has it: no throughput is below zero.
pub(super) fn band(interval: Option<(f64, f64)>, unit: f64) -> Option<(f64, f64)> {
    interval.map(|(low, high)| (low.max(0.0) / unit, high / unit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Environment, Form, Grid, Repetitions, Simulator, preset};
    use crate::units::{Bytes, Rate, Span};

    #[test]
    fn the_page_says_at_which_rate_and_pace_its_profile_ran() {
        for (name, k, says) in [
            ("wanphy-streams", 1, None),
            (
                "wanphy-streams",
                4,
                Some("Scaled 4: on a path of 1/4 of the rate with packets of 1/4 of the size"),
            ),
            (
                "wanphy-recovery",
                4,
                Some(
                    "Scaled 4 and stretched: on a path of 1/4 of the rate and 4 times the round \
                     trip",
                ),
            ),
        ] {
            let mut grid = preset(name, Form::Quick).expect("a preset").scaled(k).expect("a scale");
            (grid.repetitions.least, grid.repetitions.most) = (1, 1);
            let html = Profile::modelled(grid).page(&[]).html();
            assert_eq!(
                (html.contains("Scaled"), html.contains("modelled, scaled")),
                (says.is_some(), says.is_some()),
                "{name} {k}"
            );
            assert!(says.is_none_or(|words| html.contains(words)), "{name} {k}");
        }
    }

    #[test]
    fn the_page_has_every_section_and_says_that_it_is_a_model() {
        let mut grid = preset("sc08-distance", Form::Quick).expect("a preset");
        grid.streams = vec![1, 5];
        grid.seconds = 8.0;
        let mut profile =
            Profile::new(grid, ProfileKind::Modelled, Environment::default(), "today")
                .expect("a grid");
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

    fn short(grid: Grid) -> Profile {
        let repetitions = Repetitions { least: 3, most: 3, half_width: 0.0 };
        Profile::modelled(Grid { seconds: 4.0, warm_up_s: 0.0, repetitions, ..grid })
    }

    #[test]
    fn the_page_says_which_queue_each_path_has() {
        let html = |names: &[&str]| {
            let paths = names.iter().map(|name| PathPoint::named(name, None).expect("a path"));
            short(Grid::new("custom", paths.collect(), vec![Algorithm::Reno])).page(&[]).html()
        };
        let mixed = html(&["usn-0.2", "usn-1400"]);
        assert!(mixed.contains("usn-0.2 4 MiB, usn-1400 "), "{mixed}");
        assert!(!mixed.contains("of one bandwidth-delay product"));
        assert!(html(&["usn-1400", "usn-6600"]).contains("of one bandwidth-delay product"));
    }

    #[test]
    fn slow_paths_are_shown_in_units_of_their_size() {
        for (bps, unit) in [(60_000, "kbit/s"), (1_000_000, "Mbit/s"), (900_000_000, "Gbit/s")] {
            let path = PathPoint::custom(Rate::from_bps(bps), Span::from_millis(10));
            let path = PathPoint { queue_bytes: Bytes(20_000), ..path };
            let near = PathPoint::custom(Rate::from_bps(bps), Span::from_millis(20));
            let near = PathPoint { queue_bytes: Bytes(20_000), ..near };
            let grid = Grid::new("custom", vec![path, near], vec![Algorithm::Reno]);
            let html = short(Grid { streams: vec![1, 2], ..grid }).page(&[]).html();
            for other in ["kbit/s", "Mbit/s", "Gbit/s"] {
                // What a path carries is said in its own unit, and a rate in prose may be.
                let shown = html.contains(&format!("goodput ({other})"))
                    || html.contains(&format!("({other})</text>"))
                    || html.contains(&format!(">{other}<"));
                assert_eq!(shown, other == unit, "{bps}: {other}");
            }
            assert!(!html.contains(">0.00</text>") && !html.contains(">0.000<"), "{bps}");
        }
    }

    #[test]
    fn a_page_speaks_of_no_figure_that_it_lacks() {
        let path = || PathPoint::named("usn-1400", None).expect("a path");
        let html = |streams: Vec<u32>, paths: Vec<PathPoint>| {
            let grid = Grid::new("custom", paths, vec![Algorithm::Reno]);
            short(Grid { streams, ..grid }).page(&[]).html()
        };
        let one_path = html(vec![1, 2], vec![path()]);
        assert!(one_path.contains("goodput (Gbit/s)") && !one_path.contains("drag it"));
        let far = PathPoint::named("usn-6600", None).expect("a path");
        assert!(html(vec![1, 2], vec![path(), far]).contains("drag it"));
        let one_number = html(vec![2], vec![path()]);
        assert!(one_number.contains("<h2>Stability"));
        assert!(!one_number.contains("by repetition and streams"), "{one_number}");
        assert!(one_path.contains("by repetition and streams"));
        let sc08 = preset("sc08-distance", Form::Quick).expect("a preset");
        let html =
            short(Grid { streams: vec![5], hypotheses: Vec::new(), ..sc08 }).page(&[]).html();
        assert!(html.contains("Nothing here was measured but the papers&#39; figures"), "{html}");
        assert!(one_path.contains("Nothing here was measured.") || one_path.contains("SC08"));
    }
}

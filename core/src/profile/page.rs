//! A profile as one page: heat maps, throughput against rtt, the papers' tables next to ours, time
//! series, every cell.

use super::cell::{Cell, PathPoint};
use super::document::{CellResult, Profile, ProfileKind};
use super::driver::Driver;
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
        let has_udt = self.cells.iter().any(|result| result.cell.driver() == Driver::Udt);
        let kind = match self.kind {
            ProfileKind::Modelled if has_udt => {
                "Every curve is modelled, in virtual time: streams of TCP as fluids over one queue, \
                 UDT packet by packet over the emulator's link. Nothing here was measured."
            }
            ProfileKind::Modelled => {
                "Every curve is modelled: streams as fluids over one queue, in virtual time. \
                 Nothing here was measured."
            }
            ProfileKind::Measured => "Every curve was measured.",
        };
        let scaled = match self.grid.scale {
            1 => String::new(),
            k if document.grid.stretched => format!(
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
        let lead = format!("{kind}{scaled} Farline {}, {}.", self.farline, self.date);
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
            section = section.note(
                "The model has the controls in full and one tail-drop queue of one bandwidth-delay \
                 product. It has no lost retransmission, no delayed acknowledgement, no HyStart, \
                 and no processor: real hosts are slower.",
            );
        }
        match grid.scale {
            1 => section,
            _ if grid.stretched => section.note(
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
        let mean = |result: &'_ CellResult| Some(result.summary()?.mean / 1e9);
        let means: Vec<(&Cell, f64)> =
            self.basic().filter_map(|one| Some((&one.cell, mean(one)?))).collect();
        let mut section = Section::new("Throughput by length and streams").text(format!(
            "SC08's distance profile, T(d, n): one map for each congestion control, all in the \
             same colours, and the same as a \
             surface: drag it, or press an arrow key, to turn it.{}",
            self.rest_in_words()
        ));
        for &congestion in &grid.congestion {
            let map = self.map(congestion, ("Throughput", "goodput (Gbit/s)"), &means);
            let surface = map.surface("Path");
            section = section.chart(map);
            if surface.has_faces() {
                section = section.chart(surface);
            }
        }
        Some(section)
    }
}

/// An interval in bit/s as a chart in Gbit/s has it: no throughput is below zero.
pub(super) fn band(interval: Option<(f64, f64)>) -> Option<(f64, f64)> {
    interval.map(|(low, high)| (low.max(0.0) / 1e9, high / 1e9))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Environment, Form, Simulator, preset};

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
}

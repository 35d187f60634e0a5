//! A profile as one page: heat maps, throughput against rtt, the papers' tables next to ours, time
//! series, every cell.

use super::document::{CellResult, Profile, ProfileKind};
use crate::congestion::Constants;
use crate::experiment::Document;
use crate::report::{Card, HeatMap, Page, Section, Surface};
use crate::units::Rate;

/// The streams that SC08 averages over (section III.A).
pub(super) const SC08_STREAMS: std::ops::RangeInclusive<u32> = 5..=15;
/// More lines cannot be told apart.
pub(super) const LINES: usize = 6;
impl Profile {
    /// The profile as one page; `commands` give it again.
    pub fn page(&self, commands: &[String]) -> Page {
        self.at_full_rate().draw(self, commands)
    }

    /// The page of a profile whose rates are those to be shown; `document` has those that were
    /// measured.
    fn draw(&self, document: &Profile, commands: &[String]) -> Page {
        let kind = match self.kind {
            ProfileKind::Modelled => {
                "Every curve is modelled: streams as fluids over one queue, in virtual time. \
                 Nothing here was measured."
            }
            ProfileKind::Measured => "Every curve was measured.",
        };
        let scaled = match self.grid.scale {
            1 => String::new(),
            k if document.grid.stretched => format!(
                " Scaled {k} and stretched: on a path of 1/{k} of the rate and {k} times the \
                 round trip, so that windows in packets are those \
                 of the full rate, and everything took {k} times as long. All rates on this page \
                 are times {k}, and all times are a {k}th; \
                 the document has what it was before."
            ),
            k => format!(
                " Scaled {k}: on a path of 1/{k} of the rate with packets of 1/{k} of the size, \
                 so that windows in packets and times are \
                 those of the full rate. All rates and sizes on this page are times {k}; the \
                 document has what it was before."
            ),
        };
        let mut page = Page::new(format!("Profile: {}", self.grid.name))
            .lead(format!("{kind}{scaled} Farline {}, {}.", self.farline, self.date));
        page = page.section(self.overview());
        let sections = [
            self.heat(),
            self.against_rtt(),
            self.per_mile(),
            self.hypotheses(),
            self.printed(),
            self.along_other_axes(),
            self.stability(),
            self.how_often(),
            self.recoveries(),
            self.over_time(),
            document.against_model(self),
            self.exactness(),
        ];
        for section in sections.into_iter().flatten() {
            page = page.section(section);
        }
        let grid = format!(" Grid {}.", &self.grid_hash[..16.min(self.grid_hash.len())]);
        let data = serde_json::to_string(document).unwrap_or_default();
        page.section(self.every_cell()).made_from(data, &self.schema, &grid, commands)
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
            Card::new(
                "Paths",
                grid.paths.iter().map(|path| path.name.as_str()).collect::<Vec<_>>().join(", "),
            ),
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
        let mut section = Section::new("What was run").cards(cards);
        let changes = self.changes();
        if !changes.is_empty() {
            section = section
                .warning(format!("Not all of it ran in the same place: {}.", changes.join("; ")));
        }
        let blank = self
            .cells
            .iter()
            .filter(|result| result.valid().next().is_none() && !result.repetitions.is_empty())
            .count();
        if blank > 0 {
            section = section.warning(format!(
                "{blank} of {cells} cells have no valid repetition. What was seen in them is in \
                 brackets in the tables, and in no \
                 chart and no mean."
            ));
        }
        if self.kind == ProfileKind::Modelled {
            section = section.note(
                "The model has the controls in full and one tail-drop queue of one \
                 bandwidth-delay product. It has no \
                 lost retransmission, no delayed acknowledgement, no HyStart, and no processor: \
                 real hosts are slower.",
            );
        }
        match grid.scale {
            1 => section,
            _ if grid.stretched => section.note(
                "What stretches exactly: controls that count round trips, which are Reno, BIC, \
                 HighSpeed, Scalable and Vegas, and whatever a \
                 window limits. What does not: CUBIC, H-TCP and BBR count seconds, and so do a \
                 host's least retransmission timeout \
                 and the delay of its acknowledgements.",
            ),
            _ => section.note(
                "What scales exactly: every control that counts packets and time, which is all \
                 eight. What does not: 64 KiB that \
                 a host sends at once hold more of the smaller packets, BBR's pacing leaves in \
                 such pieces, and headers take a \
                 larger share of a packet.",
            ),
        }
    }

    /// The mean goodput in Gbit/s of the cells that `of` takes; `None` where none was measured.
    fn mean_gbps(&self, of: impl Fn(&CellResult) -> bool) -> Option<f64> {
        let means: Vec<f64> = self
            .basic()
            .filter(|result| of(result))
            .filter_map(|result| result.summary())
            .map(|s| s.mean)
            .collect();
        (!means.is_empty()).then(|| means.iter().sum::<f64>() / means.len() as f64 / 1e9)
    }

    /// Length against streams, a map for each control, all in the same colours.
    fn heat(&self) -> Option<Section> {
        let grid = &self.grid;
        if grid.streams.len() < 2 {
            return None;
        }
        let most = self
            .basic()
            .filter_map(CellResult::summary)
            .map(|summary| summary.mean / 1e9)
            .fold(0.0, f64::max);
        let mut section = Section::new("Throughput by length and streams").text(format!(
            "SC08's distance profile, T(d, n): one map for each congestion control, all in the \
             same colours, and the same as a \
             surface: drag it, or press an arrow key, to turn it.{}",
            self.rest_in_words()
        ));
        for &congestion in &grid.congestion {
            let rows = grid.paths.iter().map(|path| {
                let values = grid.streams.iter().map(|&streams| {
                    self.mean_gbps(|result| {
                        let cell = &result.cell;
                        (cell.congestion, cell.streams) == (congestion, streams)
                            && cell.path == *path
                    })
                });
                (path.label(), values.collect())
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
}

pub(super) fn gbit(rate: Rate) -> f64 {
    rate.as_bps() as f64 / 1e9
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

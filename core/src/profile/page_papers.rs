//! What a profile's page says beside a paper: SC08's table, and what might explain where ours differs from it.

use super::document::{CellResult, Profile};
use super::page::SC08_STREAMS;
use super::published::{self, Sc08};
use super::statistics::{Summary, decrease_per_mile};
use crate::congestion::Algorithm;
use crate::report::{Section, Table};

/// What SC08 says nothing about stays empty.
fn printed(paper: Option<&Sc08>, of: impl Fn(&Sc08) -> String) -> String {
    paper.map_or_else(String::new, of)
}

impl Profile {
    /// The table that SC08 prints, beside SC08's.
    pub(super) fn per_mile(&self) -> Option<Section> {
        let base = self.grid.paths.iter().find(|path| path.miles.is_some())?;
        let base_miles = base.miles?;
        if self.grid.paths.iter().filter(|path| path.miles.is_some()).count() < 2 {
            return None;
        }
        let mut rows = Vec::new();
        for &congestion in &self.grid.congestion {
            let from = Summary::of(&self.samples(congestion, &base.name));
            for path in &self.grid.paths {
                let (Some(miles), Some(found)) = (path.miles, Summary::of(&self.samples(congestion, &path.name))) else {
                    continue;
                };
                let dpm = from.and_then(|from| decrease_per_mile((base_miles, from.mean * 1e3), (miles, found.mean * 1e3)));
                let paper = published::sc08(congestion, &path.name);
                let means = self.means(congestion, &path.name);
                let single = means.iter().find(|(streams, _)| *streams == 1);
                let peak = means.iter().max_by(|a, b| a.1.total_cmp(&b.1));
                let at = |(streams, gbps): &(u32, f64)| format!("{gbps:.2} at {streams}");
                let cells = vec![
                    congestion.to_string(),
                    format!("{miles}"),
                    format!("{:.2}", found.mean),
                    printed(paper, |row| format!("{:.2}", row.gbps)),
                    format!("{:.1}", found.sd * 1e3),
                    printed(paper, |row| format!("{:.1}", row.sd_mbps)),
                    dpm.map_or_else(String::new, |dpm| format!("{dpm:.2}")),
                    printed(paper, |row| row.dpm_mbps.map_or_else(String::new, |dpm| format!("{dpm:.2}"))),
                    single.map_or_else(String::new, |(_, gbps)| format!("{gbps:.2}")),
                    printed(paper, |row| row.single.to_owned()),
                    peak.map_or_else(String::new, at),
                    printed(paper, |row| row.peak.as_ref().map_or_else(String::new, at)),
                ];
                rows.push((cells, false));
            }
        }
        let columns = Table::headings([
            "Control",
            "Miles",
            "Gbit/s",
            "SC08's Gbit/s",
            "sd, Mbit/s",
            "SC08's sd",
            "DPM, Mbit/s",
            "SC08's DPM",
            "One stream",
            "SC08's stream",
            "Peak at streams",
            "SC08's peak",
        ]);
        Some(
            Section::new("Decrease per mile")
                .text(format!(
                    "What SC08 prints in its figures 2 and 3 and in section III.C, {} here, measured in 2008 there. Mean and sd are \
                     those of 5 to 15 streams, where the grid has them.",
                    self.label()
                ))
                .table(Table { columns, rows })
                .note(
                    "DPM is (T(0.2 miles) - T(d)) / (d - 0.2 miles). SC08's H-TCP over 8600 miles is printed as 0.87; its own \
                     throughputs give 0.86. Its single H-TCP streams of 0.283 Gbit/s, and those of BIC below 0.065, are said of \
                     both long paths together.",
                ),
        )
    }

    /// Numbers of streams with their means in Gbit/s.
    fn means(&self, congestion: Algorithm, path: &str) -> Vec<(u32, f64)> {
        let of = |result: &&CellResult| result.cell.congestion == congestion && result.cell.path.name == path;
        self.one_way().filter(of).filter_map(|result| Some((result.cell.streams, result.summary()?.mean / 1e9))).collect()
    }

    /// What might explain where ours differs from the paper, each with what the runs say that test it.
    pub(super) fn hypotheses(&self) -> Option<Section> {
        let hypotheses = &self.grid.hypotheses;
        if hypotheses.is_empty() {
            return None;
        }
        let mean = |of: &dyn Fn(&CellResult) -> bool| {
            let all: Vec<f64> = self.cells.iter().filter(|one| of(one)).flat_map(CellResult::goodput_bps).collect();
            Summary::of(&all).map(|summary| summary.mean / 1e9)
        };
        let mut section = Section::new("Where ours differs, and why").text(format!(
            "Each row is a run, {}, with one thing changed, beside the run without it, with the same streams, and SC08's mean of {} \
             to {} streams. What it explains is how much of the difference it takes away; more than 100 % is too much of it, below \
             0 % makes it larger.",
            self.label(),
            SC08_STREAMS.start(),
            SC08_STREAMS.end()
        ));
        let mut rows = Vec::new();
        for &congestion in &self.grid.congestion {
            for path in &self.grid.paths {
                let Some(paper) = published::sc08(congestion, &path.name) else { continue };
                let mut nearest: Option<(f64, &str, f64)> = None;
                let mut without = None;
                for hypothesis in hypotheses {
                    let here = |one: &CellResult| {
                        let cell = &one.cell;
                        (cell.congestion, cell.path.name.as_str()) == (congestion, path.name.as_str())
                            && hypothesis.streams.contains(&cell.streams)
                    };
                    let plain = mean(&|one| here(one) && one.cell.hypothesis.is_none());
                    let under = mean(&|one| here(one) && one.cell.hypothesis.as_ref() == Some(&hypothesis.name));
                    let (Some(plain), Some(under)) = (plain, under) else { continue };
                    without = Some(plain);
                    let (left, gap) = (under - paper.gbps, plain - paper.gbps);
                    if nearest.is_none_or(|(least, ..)| left.abs() < least.abs()) {
                        nearest = Some((left, &hypothesis.name, under));
                    }
                    // A difference within the rounding of both is none.
                    let share = if gap.abs() < 0.02 { String::new() } else { format!("{:.0} %", (plain - under) / gap * 100.0) };
                    rows.push((
                        vec![
                            format!("{congestion}, {} miles, {}", paper.miles, hypothesis.name),
                            format!("{:.2}", paper.gbps),
                            format!("{plain:.2}"),
                            format!("{under:.2}"),
                            share,
                        ],
                        false,
                    ));
                }
                if let (Some((left, name, under)), Some(plain)) = (nearest, without) {
                    let (left, name) = if left.abs() < (plain - paper.gbps).abs() {
                        (left, name)
                    } else {
                        (plain - paper.gbps, "nothing changed")
                    };
                    let row = vec![
                        format!("{congestion}, {} miles, left unexplained with {name}", paper.miles),
                        format!("{:.2}", paper.gbps),
                        String::new(),
                        if name == "nothing changed" { format!("{plain:.2}") } else { format!("{under:.2}") },
                        format!("{left:+.2} Gbit/s"),
                    ];
                    rows.push((row, true));
                }
            }
        }
        let reasons = hypotheses.iter().map(|one| (vec![one.name.clone(), one.because.clone()], false)).collect();
        let names = [("What is changed", false), ("Because", false)].map(|(name, right)| (name.to_owned(), right)).to_vec();
        section = section.table(Table { columns: names, rows: reasons });
        if rows.is_empty() {
            return Some(section.note("None of their runs is there yet."));
        }
        let columns = Table::headings(["Run", "SC08, Gbit/s", "Ours without", "Ours with", "Explains"]);
        Some(section.table(Table { columns, rows }))
    }
}

#[cfg(test)]
mod tests {
    use crate::profile::{Environment, Form, Kind, Profile, Simulator, preset};

    #[test]
    fn the_page_has_the_papers_table_and_a_run_for_every_hypothesis() {
        let mut grid = preset("sc08-distance", Form::Quick).expect("a preset");
        grid.paths.retain(|path| path.name == "usn-0.2" || path.name == "usn-1400");
        grid.streams = vec![1, 10];
        let mut profile = Profile::new(grid, Kind::Modelled, Environment::default(), "").expect("a grid");
        assert!(profile.page(&[]).html().contains("None of their runs is there yet"));
        profile.run(&mut Simulator, |_| true).expect("a model does not fail");
        let html = profile.page(&[]).html();
        for hypothesis in &profile.grid.hypotheses {
            for control in ["bic", "htcp"] {
                assert!(html.contains(&format!("{control}, 1400 miles, {}", hypothesis.name)), "{}", hypothesis.name);
            }
        }
        assert_eq!(html.matches("left unexplained").count(), 4, "two controls over two paths");
        for printed in ["6.98", "0.85", "8.50 at 12", "1.79"] {
            assert!(html.contains(&format!(">{printed}<")), "{printed}");
        }
        // What a hypothesis changes is in no figure but its own.
        assert!(profile.plain().all(|result| result.cell.loss == 0.0 && result.cell.window_bytes.is_none()));
        assert_eq!((profile.plain().count(), profile.cells.len()), (8, 8 + 5 * 2 + 2 * 2));
        assert_eq!(profile.grid.under(&profile.cells.last().expect("cells").cell).seconds, 10.0);
    }
}

//! What a profile's page and its text say next to a paper: SC08's table, and what might explain
//! where ours differs from it.

use super::cell::{Cell, PathPoint};
use super::document::{CellResult, Profile};
use super::hypothesis::Hypothesis;
use super::page::SC08_STREAMS;
use super::published::{self, Sc08};
use crate::congestion::Algorithm;
use crate::report::{Section, Table, TableSpec};
use crate::statistics::{Summary, decrease_per_mile};

/// Less than this share of the paper's figure between ours and it is nothing to explain.
const SAME: f64 = 0.02;

/// What was found in some cells, in Gbit/s, each as heavy as the others: by their valid
/// repetitions, or by the others where none of them is valid. The deviation is that between several
/// cells' means, or that of one cell's repetitions.
#[derive(Clone, Copy)]
struct Found {
    summary: Summary,
    is_valid: bool,
}

impl Found {
    fn of<'a>(cells: impl Iterator<Item = &'a CellResult> + Clone) -> Option<Found> {
        let of = |is_valid: bool| {
            let each = cells.clone().filter_map(|result| {
                let those = result.repetitions.iter().filter(|one| one.is_valid() == is_valid);
                Summary::of(&those.map(|one| one.whole.receiver_bps.as_gbps()).collect::<Vec<_>>())
            });
            let each: Vec<Summary> = each.collect();
            let summary = match each[..] {
                [one] => Some(one),
                _ => Summary::of(&each.iter().map(|one| one.mean).collect::<Vec<_>>()),
            };
            summary.map(|summary| Found { summary, is_valid })
        };
        of(true).or_else(|| of(false))
    }

    fn mean(&self) -> f64 {
        self.summary.mean
    }

    /// The deviation in Mbit/s, where there is one.
    fn sd(&self) -> Option<f64> {
        (self.summary.n > 1).then_some(self.summary.sd * 1e3)
    }
}

/// What is not valid is in brackets: it was seen, and does not count.
fn counted(is_valid: bool, text: String) -> String {
    if is_valid { text } else { format!("({text})") }
}

/// What SC08 says nothing about, or we did not find, stays empty.
fn or_empty<T>(value: Option<T>, of: impl Fn(T) -> String) -> String {
    value.map_or_else(String::new, of)
}

impl Profile {
    /// What stands next to a paper, as a terminal shows it, of a profile [at its full
    /// rate](Profile::at_full_rate).
    pub fn beside_papers(&self) -> Vec<String> {
        [self.per_mile(), self.hypotheses(), self.printed()]
            .iter()
            .flatten()
            .map(Section::plain)
            .collect()
    }

    /// [Basic](Profile::basic) cells with `congestion` over the path called `path`.
    fn cells_over<'a>(
        &'a self,
        congestion: Algorithm,
        path: &'a str,
    ) -> impl Iterator<Item = &'a CellResult> + Clone {
        self.basic().filter(move |result| {
            (result.cell.congestion, result.cell.path.name.as_str()) == (congestion, path)
        })
    }

    /// Whether this is over SC08's paths, with streams of those over which SC08 averages.
    pub(super) fn averages_as_sc08(&self) -> bool {
        let over = self
            .grid
            .paths
            .iter()
            .any(|path| published::SC08.iter().any(|row| row.path == path.name));
        over && self.grid.streams.iter().any(|streams| SC08_STREAMS.contains(streams))
    }

    /// The table that SC08 prints, next to SC08's.
    pub(super) fn per_mile(&self) -> Option<Section> {
        let (base, base_miles) = self.shortest()?;
        if self.grid.paths.iter().filter(|path| path.miles.is_some()).count() < 2 {
            return None;
        }
        // From another length SC08's decrease is another quantity.
        let as_sc08 =
            published::SC08.iter().any(|row| row.dpm_mbps.is_none() && row.miles == base_miles);
        let all = !self.averages_as_sc08();
        let averaged = |congestion, path| {
            self.cells_over(congestion, path)
                .filter(move |result| all || SC08_STREAMS.contains(&result.cell.streams))
        };
        let mut rows = Vec::new();
        for &congestion in &self.grid.congestion {
            let from = Found::of(averaged(congestion, base.name.as_str()));
            for path in &self.grid.paths {
                let (Some(miles), Some(found)) =
                    (path.miles, Found::of(averaged(congestion, path.name.as_str())))
                else {
                    continue;
                };
                let dpm = from.and_then(|from| {
                    let dpm = decrease_per_mile(
                        (base_miles, from.mean() * 1e3),
                        (miles, found.mean() * 1e3),
                    )?;
                    Some(counted(from.is_valid && found.is_valid, format!("{dpm:.2}")))
                });
                rows.push((congestion, path, miles, found, dpm.unwrap_or_default()));
            }
        }
        type Row<'a> = (Algorithm, &'a PathPoint, f64, Found, String);
        let paper = |row: &Row<'_>| published::sc08(row.0, &row.1.name);
        let at = |(streams, gbps): (u32, f64)| format!("{gbps:.2} at {streams}");
        let table = TableSpec::new()
            .words("Control", |row: &Row<'_>| row.0.to_string())
            .figures("Miles", |row| row.2.to_string())
            .figures("Gbit/s", |row| counted(row.3.is_valid, format!("{:.2}", row.3.mean())))
            .figures("SC08's Gbit/s", |row| or_empty(paper(row), |row| format!("{:.2}", row.gbps)))
            .figures("sd, Mbit/s", |row| {
                or_empty(row.3.sd(), |sd| counted(row.3.is_valid, format!("{sd:.1}")))
            })
            .figures("SC08's sd", |row| or_empty(paper(row), |row| format!("{:.1}", row.sd_mbps)))
            .figures("DPM, Mbit/s", |row| row.4.clone())
            .figures("SC08's DPM", |row| {
                let printed = paper(row).filter(|_| as_sc08).and_then(|row| row.dpm_mbps);
                or_empty(printed, |dpm| format!("{dpm:.2}"))
            })
            .figures("One stream", |row| {
                let over = self.cells_over(row.0, &row.1.name);
                or_empty(Found::of(over.filter(|one| one.cell.streams == 1)), |one| {
                    counted(one.is_valid, format!("{:.2}", one.mean()))
                })
            })
            .figures("SC08's stream", |row| or_empty(paper(row), |row| row.single.clone()))
            .figures("Peak at streams", |row| {
                or_empty(self.peak(row.0, &row.1.name), |(peak, is_valid)| {
                    counted(is_valid, at(peak))
                })
            })
            .figures("SC08's peak", |row| or_empty(paper(row).and_then(|row| row.peak), at))
            .figures("Valid cells", |row| {
                let all = || averaged(row.0, row.1.name.as_str());
                let valid = all().filter(|result| result.summary().is_some()).count();
                format!("{valid} of {}", all().count())
            })
            .of(rows);
        let is_doubted =
            table.rows.iter().any(|(cells, _)| cells.iter().any(|cell| cell.starts_with('(')));
        let section = Section::new("Decrease per mile").text(format!(
            "What SC08 prints in its figures 2 and 3 and in section III.C, {} here, measured in \
             2008 there. {}{}",
            self.label(),
            self.spread_in_words(),
            self.rest_in_words()
        ));
        let section = if is_doubted { section.warning(Profile::DOUBTED) } else { section };
        let of_sc08 = if as_sc08 {
            "SC08's H-TCP over 8600 miles is printed as 0.87; its own throughputs give 0.86."
        } else {
            "SC08's is from 0.2 miles, a path that is not here, so that its column is empty."
        };
        Some(section.table(table).note(format!(
            "DPM is (T({base_miles} miles) - T(d)) / (d - {base_miles} miles). {of_sc08} Its \
             single H-TCP streams of 0.283 Gbit/s, and those of \
             BIC below 0.065, are said of both long paths together."
        )))
    }

    /// The shortest path of known length, from which decreases are counted, and its miles.
    pub fn shortest(&self) -> Option<(&PathPoint, f64)> {
        let lengths =
            self.grid.paths.iter().filter_map(|path| path.miles.map(|miles| (path, miles)));
        lengths.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// What stands below a table with brackets in it.
    const DOUBTED: &'static str = "In brackets: none of the repetitions is valid. It is what was \
        seen, and counts nowhere: the link or a \
                                   processor was a part of it.";

    /// The numbers of streams over which means over length are.
    pub(super) fn averaged(&self) -> impl Iterator<Item = u32> + '_ {
        let sc08 = self.averages_as_sc08();
        self.grid
            .streams
            .iter()
            .copied()
            .filter(move |streams| !sc08 || SC08_STREAMS.contains(streams))
    }

    /// The same in words.
    pub(super) fn averaged_in_words(&self) -> String {
        let sc08 = self.averages_as_sc08();
        let of = self.averaged().map(|streams| streams.to_string()).collect::<Vec<_>>().join(", ");
        match (of.as_str(), sc08) {
            ("1", _) => "1 stream".to_owned(),
            (_, true) => format!("{of} streams, as SC08 averages over 5 to 15"),
            (_, false) => format!("{of} streams"),
        }
    }

    /// What mean and sd are of, next to SC08's, which does not say whether its sd has the
    /// repetitions in it.
    fn spread_in_words(&self) -> String {
        let averaged = self.averaged_in_words();
        if self.averaged().count() > 1 {
            format!(
                "Mean and sd are those of the means of {averaged}: each number counts alike, and \
                 the sd is not that of repetitions."
            )
        } else {
            format!("Mean and sd are those of the repetitions of {averaged}.")
        }
    }

    /// The best number of streams with its Gbit/s, and whether that counts: of valid cells, where
    /// there is one.
    fn peak(&self, congestion: Algorithm, path: &str) -> Option<((u32, f64), bool)> {
        let each = self
            .cells_over(congestion, path)
            .map(|result| (result.cell.streams, Found::of(std::iter::once(result))));
        let found: Vec<(u32, Found)> =
            each.filter_map(|(streams, found)| Some((streams, found?))).collect();
        let is_valid = found.iter().any(|(_, found)| found.is_valid);
        let counted = found.iter().filter(|(_, found)| found.is_valid == is_valid);
        let peak = counted.max_by(|a, b| a.1.mean().total_cmp(&b.1.mean()))?;
        Some(((peak.0, peak.1.mean()), is_valid))
    }

    /// What might explain where ours differs from the paper, each with what the runs say that test
    /// it.
    pub(super) fn hypotheses(&self) -> Option<Section> {
        let hypotheses = &self.grid.hypotheses;
        if hypotheses.is_empty() {
            return None;
        }
        let mut section = Section::new("Where ours differs, and why").text(format!(
            "Each row is a run, {}, with one thing changed, next to the run without it, with the \
             same streams, and SC08's mean of {} to {} streams. What it explains is how much of \
             the difference it takes away; more than 100 % is too much of it, below 0 % makes it \
             larger.",
            self.label(),
            SC08_STREAMS.start(),
            SC08_STREAMS.end()
        ));
        let mut rows = Vec::new();
        for &congestion in &self.grid.congestion {
            for path in &self.grid.paths {
                let Some(paper) = published::sc08(congestion, &path.name) else { continue };
                rows.extend(self.explained(congestion, &path.name, paper));
            }
        }
        let reasons = TableSpec::new()
            .words("What is changed", |one: &&Hypothesis| one.name.clone())
            .words("Because", |one| one.because.clone());
        section = section.table(reasons.of(hypotheses));
        if rows.is_empty() {
            return Some(section.note("None of their runs is there yet."));
        }
        if rows.iter().any(|(cells, _)| cells.iter().any(|cell| cell.starts_with('('))) {
            section = section.warning(Profile::DOUBTED);
        }
        let columns =
            Table::headings(["Run", "SC08, Gbit/s", "Ours without", "Ours with", "Explains"]);
        Some(section.table(Table { columns, rows }))
    }

    /// A row for each hypothesis that was tested with `congestion` over the path called `path`, and
    /// one for what none explains.
    fn explained(
        &self,
        congestion: Algorithm,
        path: &str,
        paper: &Sc08,
    ) -> Vec<(Vec<String>, bool)> {
        let mut rows = Vec::new();
        // What is left of the difference, under what, and its throughput: at first under nothing.
        let mut nearest: Option<(f64, &str, f64)> = None;
        let mut tested = false;
        for hypothesis in &self.grid.hypotheses {
            let (without, with) = self.with_and_without(hypothesis, congestion, path);
            let Some(plain) = without else { continue };
            let gap = plain.mean() - paper.gbps;
            if plain.is_valid && nearest.is_none() {
                nearest = Some((gap, "nothing changed", plain.mean()));
            }
            let Some(under) = with else { continue };
            tested = true;
            let left = under.mean() - paper.gbps;
            if under.is_valid && nearest.is_none_or(|(least, ..)| left.abs() < least.abs()) {
                nearest = Some((left, &hypothesis.name, under.mean()));
            }
            let both = plain.is_valid && under.is_valid;
            let share = if gap.abs() < SAME * paper.gbps {
                String::new()
            } else {
                format!("{:.0} %", (gap - left) / gap * 100.0)
            };
            let cells = vec![
                format!("{congestion}, {} miles, {}", paper.miles, hypothesis.name),
                format!("{:.2}", paper.gbps),
                counted(plain.is_valid, format!("{:.2}", plain.mean())),
                counted(under.is_valid, format!("{:.2}", under.mean())),
                if share.is_empty() { share } else { counted(both, share) },
            ];
            rows.push((cells, false));
        }
        if !tested {
            return Vec::new();
        }
        let (what, ours, left) = match nearest {
            Some((left, name, ours)) => {
                (format!("with {name}"), format!("{ours:.2}"), format!("{left:+.2} Gbit/s"))
            }
            None => ("none of the runs is valid".to_owned(), String::new(), "not known".to_owned()),
        };
        let run = format!("{congestion}, {} miles, left unexplained: {what}", paper.miles);
        rows.push((vec![run, format!("{:.2}", paper.gbps), String::new(), ours, left], true));
        rows
    }

    /// What was found without and with what `hypothesis` changes.
    fn with_and_without(
        &self,
        hypothesis: &Hypothesis,
        congestion: Algorithm,
        path: &str,
    ) -> (Option<Found>, Option<Found>) {
        let here = |cell: &Cell| {
            (cell.congestion, cell.path.name.as_str()) == (congestion, path)
                && hypothesis.streams.contains(&cell.streams)
        };
        let of = |name: Option<&String>| {
            Found::of(
                self.cells
                    .iter()
                    .filter(|one| here(&one.cell) && one.cell.hypothesis.as_ref() == name),
            )
        };
        (of(None), of(Some(&hypothesis.name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Document, Experiment};
    use crate::profile::{Environment, Form, ProfileKind, Simulator, preset};
    use crate::report::ReportDocument;

    #[test]
    fn the_page_has_the_papers_table_and_a_run_for_every_hypothesis() {
        let mut grid = preset("sc08-distance", Form::Quick).expect("a preset");
        grid.paths.retain(|path| path.name == "usn-0.2" || path.name == "usn-1400");
        grid.streams = vec![1, 10];
        let mut profile =
            Profile::new(grid, ProfileKind::Modelled, Environment::default(), "").expect("a grid");
        assert!(profile.page(&[]).html().contains("None of their runs is there yet"));
        profile.run(&mut Simulator, |_| true).expect("a model does not fail");
        let html = profile.page(&[]).html();
        for hypothesis in &profile.grid.hypotheses {
            for control in ["bic", "htcp"] {
                assert!(
                    html.contains(&format!("{control}, 1400 miles, {}", hypothesis.name)),
                    "{}",
                    hypothesis.name
                );
            }
        }
        assert_eq!(html.matches("left unexplained").count(), 4, "two controls over two paths");
        for printed in ["6.98", "0.85", "8.50 at 12", "1.79"] {
            assert!(html.contains(&format!(">{printed}<")), "{printed}");
        }
        // What a hypothesis changes is in no figure but its own.
        assert!(
            profile
                .plain()
                .all(|result| result.cell.loss == 0.0 && result.cell.window_bytes.is_none())
        );
        assert_eq!((profile.plain().count(), profile.cells.len()), (8, 8 + 5 * 2 + 2 * 2));
        let text = profile.beside_papers().join("\n");
        for words in [
            "SC08's",
            "bic, 1400 miles, windows of 4 MiB",
            "left unexplained: with",
            "6.69",
            "1.79",
        ] {
            assert!(text.contains(words), "{words} in {text}");
        }
        assert_eq!(profile.grid.under(&profile.cells.last().expect("cells").cell).seconds, 10.0);
    }

    #[test]
    fn stream_counts_weigh_alike_and_one_run_has_no_sd() {
        let mut grid = preset("sc08-distance", Form::Quick).expect("a preset");
        grid.paths.retain(|path| path.name == "usn-0.2" || path.name == "usn-8600");
        (grid.streams, grid.hypotheses, grid.congestion) =
            (vec![5, 15], Vec::new(), vec![crate::congestion::Algorithm::Bic]);
        let mut profile = Profile::modelled(grid);
        let row = |profile: &Profile| {
            let html = profile.page(&[]).html();
            html[html.find("data-label=\"Miles\">8600<").expect("a row")..]
                .split("</tr>")
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        let before = row(&profile);
        let place = profile
            .cells
            .iter()
            .position(|one| one.cell.streams == 5 && one.cell.path.name == "usn-8600")
            .expect("a cell");
        let again = profile.cells[place].repetitions[0].clone();
        profile.cells[place].repetitions.extend(vec![again; 9]);
        assert_eq!(row(&profile), before);
        assert!(profile.page(&[]).html().contains("each number counts alike"));
        // With one number of streams there is nothing between the streams, and one repetition has
        // no sd either.
        profile.cells[place].repetitions.clear();
        assert!(row(&profile).contains("data-label=\"sd, Mbit/s\"><"), "{}", row(&profile));
    }

    #[test]
    fn invalid_results_stand_in_brackets_and_do_not_count() {
        let mut grid = preset("sc08-distance", Form::Quick).expect("a preset");
        grid.paths.retain(|path| path.name == "usn-0.2" || path.name == "usn-1400");
        grid.streams = vec![1, 5, 10];
        let mut profile = Profile::modelled(grid);
        let html = profile.page(&[]).html();
        assert!(!html.contains("In brackets") && html.contains(">2 of 2<"), "all are valid");
        // All of BIC over 1400 miles, and one of two cells of H-TCP there.
        for result in &mut profile.cells {
            let cell = &result.cell;
            let bic = cell.congestion.name() == "bic";
            if cell.path.name == "usn-1400" && (bic || cell.streams == 5) {
                result
                    .repetitions
                    .iter_mut()
                    .for_each(|one| one.doubt(&["the link was late".to_owned()]));
            }
        }
        let html = profile.page(&[]).html();
        let row = |control: &str| {
            let start = html
                .find(&format!(">{control}</td><td class=\"right\" data-label=\"Miles\">1400<"))
                .expect("a row");
            html[start..].split("</tr>").next().unwrap_or_default().to_owned()
        };
        let (bic, htcp) = (row("bic"), row("htcp"));
        assert!(
            bic.matches(">(").count() == 5 && bic.contains(">0 of 2<"),
            "mean, sd, DPM, one stream and peak: {bic}"
        );
        assert!(!htcp.contains(">(") && htcp.contains(">1 of 2<"), "{htcp}");
        assert!(
            html.contains("In brackets: none of the repetitions is valid")
                && html.contains("the link was late")
        );
        assert!(
            html.contains("bic, 1400 miles, left unexplained: none of the runs is valid"),
            "nothing to explain"
        );
        assert!(profile.beside_papers()[0].contains("(") && !html.contains("NaN"));
    }

    #[test]
    fn the_decrease_is_from_the_shortest_path_in_any_order() {
        let text = |paths: [&str; 2]| {
            let mut grid = preset("sc08-distance", Form::Quick).expect("a preset");
            grid.paths = paths.map(|name| PathPoint::named(name, None).expect("a path")).to_vec();
            (grid.streams, grid.hypotheses) = (vec![10], Vec::new());
            let profile = Profile::modelled(grid);
            let mean = |path: &str| {
                let of = |one: &&CellResult| {
                    (one.cell.path.name.as_str(), one.cell.congestion) == (path, Algorithm::Bic)
                };
                profile.cells.iter().find(of).and_then(|one| one.summary()).expect("it ran").mean
                    / 1e6
            };
            let miles = |path: &str| {
                profile
                    .grid
                    .paths
                    .iter()
                    .find(|one| one.name == path)
                    .and_then(|one| one.miles)
                    .unwrap_or(0.0)
            };
            let (near, far) =
                (if paths[0] == "usn-8600" { paths[1] } else { paths[0] }, "usn-8600");
            let dpm = (mean(near) - mean(far)) / (miles(far) - miles(near));
            (profile.per_mile().expect("two lengths").plain(), format!("{dpm:.2}"))
        };
        let row = |text: &str, miles: &str| {
            let is_row = |line: &&str| line.split_whitespace().take(2).eq(["bic", miles]);
            text.lines().find(is_row).unwrap_or_else(|| panic!("{miles} in {text}")).to_owned()
        };
        let (backward, dpm) = text(["usn-8600", "usn-0.2"]);
        assert!(
            backward.contains("(T(0.2 miles) - T(d)) / (d - 0.2 miles)")
                && backward.contains("0.86"),
            "{backward}"
        );
        assert!(
            row(&backward, "8600").contains("1.00"),
            "SC08's, in the row of the long path: {backward}"
        );
        assert!(
            row(&backward, "8600").contains(&dpm) && !row(&backward, "0.2").contains(&dpm),
            "{dpm}: {backward}"
        );
        let (far, dpm) = text(["usn-1400", "usn-8600"]);
        assert!(
            far.contains("(T(1400 miles) - T(d)) / (d - 1400 miles)")
                && far.contains("is from 0.2 miles"),
            "{far}"
        );
        // 1.00 is SC08's decrease of BIC over 8600 miles: from 0.2, not from 1400.
        assert!(
            row(&far, "8600").contains(&dpm) && !row(&far, "8600").contains("1.00"),
            "{dpm}: {far}"
        );
    }
}

//! What a profile's page says of how steady a path is: from repetition to repetition, and over time
//! within them.

use super::cell::Cell;
use super::document::{CellResult, Profile};
use crate::report::{Section, Surface};

/// Fewer repetitions show no spread.
const LEAST: usize = 3;
/// More surfaces are not looked at; the heat maps have every cell.
const SURFACES: usize = 6;
/// Columns of a surface over time.
const COLUMNS: usize = 24;

impl Profile {
    /// SC08's stability profile, T(repetition, n), and the coefficient of variation over all cells;
    /// `None` where cells ran less than three times.
    pub(super) fn stability(&self) -> Option<Section> {
        let repeated = || self.basic().filter(|result| result.valid().count() >= LEAST);
        let steady =
            |one: &CellResult| one.summary().map_or(0.0, |summary| summary.variation() * 100.0);
        let all = self.one_way().filter(|result| result.valid().count() >= LEAST);
        let least_steady = all.max_by(|a, b| steady(a).total_cmp(&steady(b)))?;
        let spread: Vec<(&Cell, f64)> = repeated().map(|one| (&one.cell, steady(one))).collect();
        let mut surfaces: Vec<Surface> = Vec::new();
        for &congestion in &self.grid.congestion {
            for path in &self.grid.paths {
                let of =
                    |one: &&CellResult| one.cell.congestion == congestion && one.cell.path == *path;
                let rows: Vec<(String, Vec<f64>)> = repeated()
                    .filter(of)
                    .map(|one| (one.cell.streams.to_string(), one.goodput_bps()))
                    .collect();
                surfaces.push(self.surface(
                    &format!("{congestion} over {}", path.name),
                    ("Repetition", "Streams"),
                    rows,
                    |i| i + 1,
                ));
            }
        }
        let rows = least_steady.valid().enumerate().map(|(i, one)| {
            let group = one.samples_bps.len().div_ceil(COLUMNS).max(1);
            let mean = |part: &[crate::units::Rate]| {
                part.iter().map(|rate| rate.as_bps() as f64).sum::<f64>() / part.len() as f64
            };
            ((i + 1).to_string(), one.samples_bps.chunks_exact(group).map(mean).collect())
        });
        let samples = least_steady.valid().map(|one| one.samples_bps.len()).max().unwrap_or(1);
        let each = samples.div_ceil(COLUMNS).max(1) as f64 * self.grid.sample_s;
        let name = format!("{}, over time", least_steady.cell.name());
        surfaces.retain(Surface::has_faces);
        surfaces.truncate(SURFACES);
        let by_streams = if surfaces.is_empty() {
            ""
        } else {
            " Below, as SC08 draws it, the throughput by repetition and streams."
        };
        let over_time = self.surface(&name, ("Seconds", "Repetition"), rows.collect(), |i| {
            ((i + 1) as f64 * each).round() as usize
        });
        let over_time = Some(over_time).filter(Surface::has_faces);
        let last_in_words = match over_time {
            Some(_) => " At last the least steady cell over time.",
            None => "",
        };
        surfaces.extend(over_time);
        let mut section = Section::new("Stability").text(format!(
            "How much a cell's repetitions differ: their standard deviation over their mean.\
             {by_streams}{last_in_words}{}",
            self.rest_in_words()
        ));
        for &congestion in &self.grid.congestion {
            let words = ("Coefficient of variation", "coefficient of variation (%)");
            section = section.chart(self.map(congestion, words, &spread));
        }
        Some(surfaces.into_iter().fold(section, Section::chart))
    }

    /// `rows` in bit/s over columns that `column` numbers.
    fn surface(
        &self,
        name: &str,
        (across, along): (&str, &str),
        rows: Vec<(String, Vec<f64>)>,
        column: impl Fn(usize) -> usize,
    ) -> Surface {
        let (unit, unit_name) = self.rate_unit();
        let columns = rows.iter().map(|(_, values)| values.len()).min().unwrap_or(0);
        let most = rows
            .iter()
            .flat_map(|(_, values)| values)
            .fold(0.0, |most: f64, bps| most.max(bps / unit));
        Surface {
            title: format!(
                "Throughput by {} and {}: {name}, {}",
                across.to_lowercase(),
                along.to_lowercase(),
                self.label()
            ),
            value: format!("{name}, {}: goodput ({unit_name})", self.label()),
            across: across.to_owned(),
            along: along.to_owned(),
            columns: (0..columns).map(|i| column(i).to_string()).collect(),
            rows: rows
                .into_iter()
                .map(|(name, values)| {
                    (name, values.into_iter().take(columns).map(|bps| Some(bps / unit)).collect())
                })
                .collect(),
            most,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::profile::{Form, Profile, preset};
    use crate::report::ReportDocument;

    #[test]
    fn stability_is_drawn_for_ten_runs_and_not_for_one() {
        let mut grid = preset("sc08-stability", Form::Quick).expect("a preset");
        (grid.seconds, grid.losses) = (8.0, vec![1e-5]);
        let draw = |most| {
            let mut grid = grid.clone();
            (grid.repetitions.least, grid.repetitions.most) = (most, most);
            Profile::modelled(grid).page(&[]).html()
        };
        let html = draw(4);
        for words in [
            "htcp, modelled: coefficient of variation (%)",
            "bic over usn-8600, modelled",
            "over time, modelled",
        ] {
            assert!(html.contains(words), "{words}");
        }
        assert!(!html.contains("NaN"), "a number that is none");
        assert!(!draw(2).contains("<h2>Stability"), "two repetitions show no spread");
    }
}

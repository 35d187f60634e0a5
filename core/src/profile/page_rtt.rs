//! A profile's page: throughput against round-trip time, with its interval, and where it turns from
//! concave to convex.

use super::document::{CellResult, Profile};
use super::page::{LINES, band};
use super::published;
use crate::congestion::Algorithm;
use crate::report::{Axis, LineChart, Section, Series, TableSpec};
use crate::statistics::{
    LEAST_RTTS, Pooled, Transition, TransitionError, TransitionRtt, transition,
    utilisation_concavity,
};
use crate::units::Span;

impl Profile {
    /// What was found with `congestion` over the path called `path`, over SC08's streams where the
    /// grid has them.
    fn averaged_over(&self, congestion: Algorithm, path: &str) -> Option<Pooled> {
        let streams: Vec<u32> = self.averaged().collect();
        let of = |result: &&CellResult| {
            let cell = &result.cell;
            cell.congestion == congestion
                && cell.path.name == path
                && streams.contains(&cell.streams)
        };
        CellResult::pooled(self.basic().filter(of))
    }

    /// Of what the means against rtt are, and what their shade is.
    fn band_in_words(&self) -> String {
        let averaged = self.averaged_in_words();
        let several = self.averaged().count() > 1;
        let means = if several {
            format!("Means of the means of {averaged}")
        } else {
            format!("Means of {averaged}")
        };
        format!(
            "{means}; the shade is the 95 % confidence interval of that mean by how the \
             repetitions differ, and there is none where a number of streams ran once.{}",
            if several {
                " How far apart the streams lie is not in it: the tables have their sd."
            } else {
                ""
            }
        )
    }

    /// Throughput against rtt with its interval, the papers' next to it, and what the fit says.
    pub(super) fn against_rtt(&self) -> Option<Section> {
        if self.grid.paths.len() < 2 || self.grid.copies.is_some() {
            return None;
        }
        let mut paths: Vec<_> = self.grid.paths.iter().collect();
        paths.sort_by_key(|path| path.rtt_ns);
        let capacity = paths.iter().map(|path| path.rate_bps.as_gbps()).fold(0.0, f64::max);
        let (unit, unit_name) = self.rate_unit();
        let mut series = Vec::new();
        let mut rows = Vec::new();
        for &congestion in self.grid.congestion.iter().take(LINES) {
            let found: Vec<(f64, Pooled)> = paths
                .iter()
                .filter_map(|path| {
                    Some((path.rtt_ns.as_millis_f64(), self.averaged_over(congestion, &path.name)?))
                })
                .collect();
            let points: Vec<(f64, f64)> =
                found.iter().map(|(ms, pooled)| (*ms, pooled.mean / 1e9)).collect();
            let fit = transition(&points, capacity);
            let concavity = utilisation_concavity(&points, capacity);
            rows.push((congestion, fit, concavity));
            let found = found
                .into_iter()
                .map(|(ms, pooled)| (ms, pooled.mean / unit, band(pooled.ci95, unit)));
            series.push(Series::through(format!("{congestion}, {}", self.label()), found));
        }
        for &congestion in &self.grid.congestion {
            let points: Vec<(f64, f64)> = paths
                .iter()
                .filter_map(|path| {
                    published::sc08(congestion, &path.name)
                        .map(|row| (path.rtt_ns.as_millis_f64(), row.gbps * 1e9 / unit))
                })
                .collect();
            if points.len() > 1 && series.len() < LINES {
                series.push(Series::new(format!("{congestion}, SC08"), points));
            }
        }
        let chart = |x: Axis| {
            let title = "Throughput against round-trip time";
            LineChart::new(title, x, Axis::new("Goodput", unit_name), series.clone())
        };
        type Row = (Algorithm, Result<Transition, TransitionError>, Option<f64>);
        let spec = TableSpec::new()
            .words("Control", |row: &Row| row.0.to_string())
            .figures("Transition RTT", |row| transition_rtt_in_words(&row.1))
            .figures("Error of the fit", |row| match row.1 {
                Ok(Transition { rmse, .. }) | Err(TransitionError::PoorFit(rmse)) => {
                    format!("{rmse:.3}")
                }
                Err(TransitionError::TooFew(_)) => String::new(),
            })
            .figures("Utilisation-concavity", |row| {
                row.2.map_or_else(String::new, |value| format!("{value:.2}"))
            });
        Some(
            Section::new("Throughput against round-trip time")
                .text(format!("{}{}", self.band_in_words(), self.rest_in_words()))
                .chart(chart(Axis::new("Round-trip time", "ms")))
                .chart(chart(Axis::new("Round-trip time, logarithmic", "ms").log()))
                .table(spec.of(rows))
                .note(
                    "Up to the transition RTT a profile is concave: distance costs little. Two \
                     sigmoids are fitted (Rao et al., HPDC 2017); it lies between the two measured \
                     rtts at which one hands over to the other, and is named from six distances on \
                     and where the fit is within 0.05 of capacity. Utilisation-concavity is 1 for \
                     a profile that falls only at its end and uses everything, 0 for one that \
                     falls at once.",
                ),
        )
    }
}

/// Where a profile turns, as a table has it.
fn transition_rtt_in_words(found: &Result<Transition, TransitionError>) -> String {
    let rtt = |ms: f64| Span::from_secs_f64(ms / 1e3).to_string();
    match *found {
        Ok(Transition { rtt: TransitionRtt::Below(least), .. }) => format!("below {}", rtt(least)),
        Ok(Transition { rtt: TransitionRtt::Between(from, to), .. }) => {
            format!("{} to {}", rtt(from), rtt(to))
        }
        Ok(Transition { rtt: TransitionRtt::Beyond(most), .. }) => {
            format!("none up to {}", rtt(most))
        }
        Err(TransitionError::TooFew(count)) => {
            format!("not named: {count} distances, {LEAST_RTTS} are needed")
        }
        Err(TransitionError::PoorFit(_)) => "not named: no fit".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Grid, PathPoint};
    use crate::report::ReportDocument;
    use crate::units::{Bytes, Rate};

    #[test]
    fn a_transition_is_named_by_two_rtts_or_not_at_all() {
        let page = |rtts: &[f64], window: Option<u64>| {
            let path = |ms: &f64| {
                PathPoint::custom(Rate::from_bps(1_000_000_000), Span::from_secs_f64(ms / 1e3))
            };
            let mut grid =
                Grid::new("custom", rtts.iter().map(path).collect(), vec![Algorithm::Cubic]);
            grid.windows_bytes = vec![window.map(Bytes)];
            (grid.seconds, grid.repetitions.least, grid.repetitions.most) = (8.0, 1, 1);
            Profile::modelled(grid).page(&[]).html()
        };
        let rtts = [1.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0];
        // Windows of a round trip of a few ms: convex from the beginning. Without them it does not
        // turn before slow start takes the time.
        assert!(page(&rtts, Some(1 << 15)).contains(">below 1.00 ms<"), "convex");
        assert!(page(&rtts[..5], None).contains("not named: 5 distances, 6 are needed"));
        let whole = page(&rtts[..6], None);
        assert!(whole.contains(">none up to 80.0 ms<"), "{:?}", whole.find("none up to"));
    }
}

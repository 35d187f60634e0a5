//! Loss and delay by load: from where on a line queues, and from where on it loses (RFC 2544,
//! sections 26.2 and 26.3, as one curve).

use super::delay_summary::DelaySummary;
use super::document::LineDocument;
use super::ratio::Ratio;
use super::read::read;
use super::scientific::scientific;
use crate::report::{
    Axis, ColumnSource, Columns, LineChart, PageSpec, ReportDocument, Section, Series, TableSpec,
    broken,
};
use crate::units::{Error, Rate};
use serde::{Deserialize, Serialize};

/// What came of one load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadRow {
    /// The load, in per cent of the line's rate.
    pub load_percent: f64,
    /// The same in bits a second, on the wire.
    pub offered_bps: f64,
    /// Whether both hosts kept up: a row of which they did not says nothing of the line.
    pub is_fit: bool,
    /// Frames sent in the seconds that count.
    pub sent: u64,
    /// Those that did not come.
    pub loss: Option<Ratio>,
    /// The delay there.
    pub one_way_delay: Option<DelaySummary>,
    /// The round trip, which needs no clock of the other end's.
    pub rtt: Option<DelaySummary>,
}

impl LoadRow {
    /// Of a test at one load that is over.
    pub fn of(document: &LineDocument) -> LoadRow {
        let settings = &document.settings;
        LoadRow {
            load_percent: settings.load_percent,
            offered_bps: settings.rate.as_bps() as f64 * settings.load_percent / 100.0,
            is_fit: document.outcome.is_fit(),
            sent: document.sums.sent,
            loss: document.loss,
            one_way_delay: document.one_way_delay,
            rtt: document.rtt,
        }
    }

    fn is_lossy(&self) -> bool {
        self.loss.is_some_and(|loss| loss.events > 0)
    }
}

/// Tests at several loads, in the order of the loads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadCurve {
    /// `farline/line-loads/1`.
    pub schema: String,
    /// Farline's version.
    pub farline: String,
    /// When it ended, UTC.
    pub date: String,
    /// The other end, as it was given.
    pub target: String,
    /// The line's rate, on the wire.
    pub rate: Rate,
    /// A row for each load.
    pub rows: Vec<LoadRow>,
}

impl LoadCurve {
    /// Its schema.
    pub const SCHEMA: &'static str = "farline/line-loads/1";

    /// Reads a document.
    ///
    /// # Errors
    /// [`Fault::You`](crate::units::Fault::You) when it is none.
    pub fn read(json: &str) -> Result<LoadCurve, Error> {
        read(json, "load curve", LoadCurve::SCHEMA, |document: &LoadCurve| &document.schema)
    }

    fn fit(&self) -> impl Iterator<Item = &LoadRow> {
        self.rows.iter().filter(|row| row.is_fit)
    }

    /// Whether both hosts kept up at every load.
    pub fn is_fit(&self) -> bool {
        self.fit().count() == self.rows.len()
    }

    /// The least load at which a queue stands: half of the round trips are longer than 99 % of
    /// those at the least load of all.
    pub fn queues_from(&self) -> Option<f64> {
        let usual = self.fit().find_map(|row| row.rtt)?.p99_ns;
        let queues = |row: &&LoadRow| row.rtt.is_some_and(|rtt| rtt.median_ns > usual);
        self.fit().find(queues).map(|row| row.load_percent)
    }

    /// The least load at which frames did not come.
    pub fn loses_from(&self) -> Option<f64> {
        self.fit().find(|row| row.is_lossy()).map(|row| row.load_percent)
    }

    /// What the curve says, in a sentence.
    pub fn verdict(&self) -> String {
        let from = |what: &str, load: Option<f64>| match load {
            Some(load) => format!("{what} from {load} % on"),
            None => format!("{what} at no load that was tried"),
        };
        let mut parts = Vec::new();
        let mut measured = self.fit().filter_map(|row| Some((row.load_percent, row.rtt?)));
        if let Some((load, rtt)) = measured.next() {
            let at =
                |load: f64, rtt: DelaySummary| format!("{:.3} ms at {load} %", rtt.median_ns / 1e6);
            let most = measured.last().map(|(load, rtt)| format!(" and {}", at(load, rtt)));
            let most = most.unwrap_or_default();
            parts.push(format!("Half of the round trips are below {}{most}", at(load, rtt)));
            parts.push(from("a queue stands", self.queues_from()));
            parts.push(from("frames are lost", self.loses_from()));
        }
        let unfit: Vec<String> = self
            .rows
            .iter()
            .filter(|row| !row.is_fit)
            .map(|row| format!("{} %", row.load_percent))
            .collect();
        if !unfit.is_empty() {
            parts.push(format!(
                "at {} a host did not keep up, which says nothing of the line",
                unfit.join(", ")
            ));
        }
        parts.join("; ")
    }

    /// The table, and the curves.
    pub fn section(&self) -> Section {
        let delay = |of: fn(&LoadRow) -> Option<DelaySummary>, figure: fn(&DelaySummary) -> f64| {
            move |row: &LoadRow| {
                of(row).map_or("-".to_owned(), |delay| format!("{:.3}", figure(&delay) / 1e6))
            }
        };
        let (there, round) = (|row: &LoadRow| row.one_way_delay, |row: &LoadRow| row.rtt);
        let table = TableSpec::new()
            .figures("Load, %", |row: &LoadRow| row.load_percent.to_string())
            .figures("Mbit/s", |row| format!("{:.1}", row.offered_bps / 1e6))
            .figures("Lost", |row| match (row.is_fit, row.loss) {
                (false, _) => "unfit".to_owned(),
                (true, Some(loss)) => scientific(loss.value(), 2),
                (true, None) => "-".to_owned(),
            })
            .figures("There, ms: median", delay(there, |delay| delay.median_ns))
            .figures("there, 99 %", delay(there, |delay| delay.p99_ns))
            .figures("Round trip, ms: median", delay(round, |delay| delay.median_ns))
            .figures("round trip, 99 %", delay(round, |delay| delay.p99_ns));
        let points = |of: fn(&LoadRow) -> Option<f64>| -> Vec<(f64, f64)> {
            self.fit().filter_map(|row| Some((row.load_percent, of(row)?))).collect()
        };
        let most = self.rows.iter().map(|row| row.load_percent).fold(0.0, f64::max);
        let load = || Axis::new("Load", "% of the rate").covering(0.0, most);
        let delays = LineChart::new(
            "Delay by load",
            load(),
            Axis::new("Delay", "ms"),
            vec![
                Series::new("round trip, 99 %", points(|row| Some(row.rtt?.p99_ns / 1e6))),
                Series::new("round trip, median", points(|row| Some(row.rtt?.median_ns / 1e6))),
                Series::new("there, 99 %", points(|row| Some(row.one_way_delay?.p99_ns / 1e6))),
                Series::new(
                    "there, median",
                    points(|row| Some(row.one_way_delay?.median_ns / 1e6)),
                ),
            ],
        );
        let losses = LineChart::new(
            "Frames lost by load",
            load(),
            Axis::new("Lost", "% of those sent"),
            vec![Series::new("lost", points(|row| Some(row.loss?.value() * 100.0)))],
        );
        let mut section =
            Section::new("Loss and delay by load").table(table.of(self.rows.iter().copied()));
        if self.fit().count() > 1 {
            section = section.chart(delays);
            if self.loses_from().is_some() {
                section = section.chart(losses);
            }
        }
        section.note(
            "A queue stands where half of the round trips are longer than 99 % of those at the least \
             load. Delays are of packets of their own between the frames of the load. Unfit: a host \
             did not keep up, and the row says nothing of the line.",
        )
    }

    /// What a terminal of `width` columns shows.
    pub fn plain(&self, width: usize) -> String {
        let verdict = broken(&self.verdict(), width).join("\n");
        format!("{verdict}\n\n{}", self.section().plain_in(width))
    }
}

impl ReportDocument for LoadCurve {
    fn spec(&self) -> PageSpec {
        PageSpec {
            title: format!("Loss and delay by load: {}", self.target),
            lead: format!("{}. Farline {}, {}.", self.verdict(), self.farline, self.date),
            sections: vec![Some(self.section())],
            source: (LoadCurve::SCHEMA.to_owned(), String::new()),
        }
    }

    /// A row for each load.
    fn columns(&self) -> Columns {
        let about = vec![
            ("schema", self.schema.clone()),
            ("farline", self.farline.clone()),
            ("date", self.date.clone()),
            ("target", self.target.clone()),
            ("rate_bps", self.rate.as_bps().to_string()),
        ];
        Columns::of(
            about,
            &self.rows,
            &[
                ("load_percent", ColumnSource::Real(|row| Some(row.load_percent))),
                ("offered_bps", ColumnSource::Real(|row| Some(row.offered_bps))),
                ("is_fit", ColumnSource::Flag(|row| Some(row.is_fit))),
                ("sent", ColumnSource::Whole(|row| Some(row.sent))),
                ("lost", ColumnSource::Whole(|row| Some(row.loss?.events))),
                ("rtt_median_ns", ColumnSource::Real(|row| Some(row.rtt?.median_ns))),
                ("rtt_p99_ns", ColumnSource::Real(|row| Some(row.rtt?.p99_ns))),
                ("rtt_p999_ns", ColumnSource::Real(|row| Some(row.rtt?.p999_ns))),
                ("one_way_median_ns", ColumnSource::Real(|row| Some(row.one_way_delay?.median_ns))),
                ("one_way_p99_ns", ColumnSource::Real(|row| Some(row.one_way_delay?.p99_ns))),
            ],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A load whose round trips have this median and 99th percentile, in milliseconds.
    fn row(load_percent: f64, lost: u64, (median, p99): (f64, f64)) -> LoadRow {
        let delay = DelaySummary {
            mean_ns: median * 1e6,
            mean_ci95_ns: None,
            sd_ns: 1.0,
            min_ns: 1.0,
            median_ns: median * 1e6,
            p90_ns: p99 * 1e6,
            p99_ns: p99 * 1e6,
            p999_ns: p99 * 1e6,
            max_ns: p99 * 1e6,
        };
        LoadRow {
            load_percent,
            offered_bps: load_percent * 1e6,
            is_fit: true,
            sent: 10_000,
            loss: Ratio::of(lost, 10_000.0, 0.95),
            one_way_delay: None,
            rtt: Some(delay),
        }
    }

    fn curve(rows: Vec<LoadRow>) -> LoadCurve {
        LoadCurve {
            schema: LoadCurve::SCHEMA.to_owned(),
            farline: "0".to_owned(),
            date: "today".to_owned(),
            target: "there".to_owned(),
            rate: Rate::from_bps(100_000_000),
            rows,
        }
    }

    #[test]
    fn where_it_queues_and_where_it_loses_is_found() {
        let bent = curve(vec![
            row(10.0, 0, (4.0, 4.4)),
            row(50.0, 0, (4.2, 9.0)),
            row(90.0, 0, (6.0, 9.0)),
            row(100.0, 70, (30.0, 31.0)),
        ]);
        assert_eq!((bent.queues_from(), bent.loses_from()), (Some(90.0), Some(100.0)));
        assert_eq!(
            bent.verdict(),
            "Half of the round trips are below 4.000 ms at 10 % and 30.000 ms at 100 %; a queue \
             stands from 90 % on; frames are lost from 100 % on"
        );
        let flat = curve(vec![row(10.0, 0, (4.0, 4.4)), row(100.0, 0, (4.1, 4.9))]);
        assert_eq!((flat.queues_from(), flat.loses_from()), (None, None));
    }

    #[test]
    fn a_load_that_a_host_did_not_carry_says_nothing_of_the_line() {
        let tired = LoadRow { is_fit: false, ..row(100.0, 900, (50.0, 60.0)) };
        let curve = curve(vec![row(10.0, 0, (4.0, 4.4)), tired]);
        assert_eq!((curve.queues_from(), curve.loses_from()), (None, None));
        assert!(!curve.is_fit() && curve.verdict().contains("at 100 % a host did not keep up"));
    }

    #[test]
    fn a_document_comes_back_and_shows_both_curves() {
        let curve = curve(vec![row(10.0, 0, (4.0, 4.4)), row(100.0, 70, (30.0, 31.0))]);
        let json = serde_json::to_string(&curve).expect("JSON");
        assert_eq!(LoadCurve::read(&json).as_ref(), Ok(&curve));
        assert!(LoadCurve::read("{}").is_err());
        assert_eq!(curve.columns().csv().lines().count(), 3);
        let html = curve.page(&[]).html();
        assert!(html.contains("Delay by load") && html.contains("Frames lost by load"));
    }
}

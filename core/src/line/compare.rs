//! Tests of several paths next to each other: the table of the UltraScience Net's comparison, what
//! differs by more than chance, and what the segments of a composed path predict.

use super::compared_path::ComparedPath;
use super::delay_summary::DelaySummary;
use super::document::LineDocument;
use super::path_difference::PathDifference;
use super::scientific::scientific;
use crate::report::{
    Axis, ColumnSource, Columns, LineChart, PageSpec, ReportDocument, Section, Series, TableSpec,
};
use crate::statistics::Summary;
use crate::units::{Error, ErrorCode, Fault, Rng};
use serde::Serialize;

/// Of the narrowest distribution, between its first and its 99th hundredth, so many bins; of all at
/// most so many.
const BINS: f64 = 16.0;
const MOST_BINS: f64 = 300.0;
/// The part on either side of a distribution that a histogram leaves out.
const OUTSIDE: f64 = 0.001;
/// Draws from which a prediction is made.
const DRAWS: usize = 20_000;

/// What the segments of a path predict of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PathPrediction {
    /// The composed path.
    pub name: String,
    /// Sum of the segments' means, in nanoseconds.
    pub mean_ns: f64,
    /// Deviation if the segments do not depend on each other.
    pub sd_ns: f64,
    /// The same in per cent of the mean.
    pub sd_percent: f64,
    /// 99 % of sums of one of each are below.
    pub p99_ns: f64,
    #[serde(skip)]
    sums_ns: Vec<f64>,
}

/// Paths next to each other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LineComparison {
    /// `farline/line-compare/1`.
    pub schema: &'static str,
    /// The paths.
    pub paths: Vec<ComparedPath>,
    /// Each two of them.
    pub differences: Vec<PathDifference>,
    /// What all but the last predict of the last, if it is composed of them.
    pub prediction: Option<PathPrediction>,
}

impl LineComparison {
    /// The comparison of named documents; `is_composed` says that the last path is composed of the
    /// others.
    ///
    /// # Errors
    /// [`Fault::You`] with fewer than two, or where one has no delays.
    pub fn of(
        documents: &[(String, LineDocument)],
        is_composed: bool,
    ) -> Result<LineComparison, Error> {
        let wrong = |message: String| Error::new(Fault::You, ErrorCode::LineDocument, message);
        if documents.len() < 2 {
            return Err(wrong("a comparison takes two documents at least".to_owned()));
        }
        let paths = documents
            .iter()
            .map(|(name, document)| {
                ComparedPath::of(name, document).ok_or_else(|| {
                    wrong(format!("{name}: no round trip is in it, so there is nothing to compare"))
                        .hint("take a document of a test whose packets came back")
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        let mut differences: Vec<PathDifference> = (0..paths.len())
            .flat_map(|first| (first + 1..paths.len()).map(move |second| (first, second)))
            .filter_map(|(first, second)| PathDifference::of(&paths[first], &paths[second]))
            .collect();
        PathDifference::decide(&mut differences);
        let prediction = if is_composed { predicted(&paths) } else { None };
        Ok(LineComparison { schema: "farline/line-compare/1", paths, differences, prediction })
    }

    /// The table and what differs, for a page and a terminal.
    pub fn section(&self) -> Section {
        let ms = |of: fn(&DelaySummary) -> f64| {
            move |path: &&ComparedPath| format!("{:.4}", of(&path.rtt) / 1e6)
        };
        let table = TableSpec::new()
            .words("Round trip, ms", |path: &&ComparedPath| path.name.clone())
            .figures("Mean", ms(|rtt| rtt.mean_ns))
            .figures("sd, %", |path| format!("{:.4}", path.sd_percent))
            .figures("Median", ms(|rtt| rtt.median_ns))
            .figures("99 %", ms(|rtt| rtt.p99_ns))
            .figures("99.9 %", ms(|rtt| rtt.p999_ns))
            .figures("Loss", |path| path.loss.map_or("-".to_owned(), |loss| scientific(loss, 1)));
        let tests = TableSpec::new()
            .words("Path", |path: &&ComparedPath| path.name.clone())
            .words("Ended", |path| path.date.clone())
            .words("Verdict", |path| path.verdict.clone());
        let mut section = Section::new("Paths side by side")
            .table(table.of(&self.paths))
            .table(tests.of(&self.paths));
        for difference in &self.differences {
            section = section.text(difference.said());
        }
        if let Some(prediction) = &self.prediction {
            section = section.text(format!(
                "If {} were its segments one after the other, and these independent, its mean would \
                 be {:.4} ms and its deviation {:.4} %, 99 % below {:.4} ms (convolution).",
                prediction.name,
                prediction.mean_ns / 1e6,
                prediction.sd_percent,
                prediction.p99_ns / 1e6
            ));
        }
        section
    }

    fn histograms(&self) -> Section {
        let mut samples: Vec<(String, Vec<f64>)> = self
            .paths
            .iter()
            .map(|path| (path.name.clone(), over(&path.rtts_ns, path.rtt.mean_ns)))
            .collect();
        if let Some(prediction) = &self.prediction {
            let name = format!("{}, predicted", prediction.name);
            samples.push((name, over(&prediction.sums_ns, prediction.mean_ns)));
        }
        let (width, series) = histograms(&samples);
        let chart = LineChart::new(
            "Round trips over their means",
            Axis::new("Round trip over its mean", "").without_zero(),
            Axis::new(format!("Share in {width:.1e}"), "%"),
            series,
        );
        Section::new("Normalised histograms").chart(chart).note(format!(
            "Round trips are divided by their path's mean, so that what is seen is their variation. All \
             bins are {width:.2e} of a mean wide. Of each path, the {} % on either side that are farthest \
             off are left out.",
            OUTSIDE * 100.0
        ))
    }
}

impl ReportDocument for LineComparison {
    fn spec(&self) -> PageSpec {
        let names: Vec<&str> = self.paths.iter().map(|path| &path.name[..]).collect();
        PageSpec {
            title: "Paths side by side".to_owned(),
            lead: format!("{}.", names.join(", ")),
            sections: vec![Some(self.section()), Some(self.histograms())],
            source: (self.schema.to_owned(), String::new()),
        }
    }

    /// A row for each path.
    fn columns(&self) -> Columns {
        Columns::of(
            vec![("schema", self.schema.to_owned())],
            &self.paths,
            &[
                ("path", ColumnSource::Text(|path| Some(path.name.clone()))),
                ("target", ColumnSource::Text(|path| Some(path.target.clone()))),
                ("date", ColumnSource::Text(|path| Some(path.date.clone()))),
                ("verdict", ColumnSource::Text(|path| Some(path.verdict.clone()))),
                ("rtt_mean_ns", ColumnSource::Real(|path| Some(path.rtt.mean_ns))),
                ("rtt_sd_percent", ColumnSource::Real(|path| Some(path.sd_percent))),
                ("rtt_median_ns", ColumnSource::Real(|path| Some(path.rtt.median_ns))),
                ("rtt_p99_ns", ColumnSource::Real(|path| Some(path.rtt.p99_ns))),
                ("rtt_p999_ns", ColumnSource::Real(|path| Some(path.rtt.p999_ns))),
                ("loss", ColumnSource::Real(|path| path.loss)),
            ],
        )
    }
}

/// Sums of one round trip of each segment, drawn at random: the convolution of their distributions.
fn predicted(paths: &[ComparedPath]) -> Option<PathPrediction> {
    let (composed, segments) = paths.split_last()?;
    let mut rng = Rng::new(DRAWS as u64);
    let mut draw = |rtts: &[f64]| rtts[rng.below(rtts.len() as u64) as usize];
    let mut sums_ns: Vec<f64> =
        (0..DRAWS).map(|_| segments.iter().map(|segment| draw(&segment.rtts_ns)).sum()).collect();
    sums_ns.sort_by(f64::total_cmp);
    let summary = Summary::of(&sums_ns)?;
    Some(PathPrediction {
        name: composed.name.clone(),
        mean_ns: summary.mean,
        sd_ns: summary.sd,
        sd_percent: summary.variation() * 100.0,
        p99_ns: sums_ns[sums_ns.len() * 99 / 100],
        sums_ns,
    })
}

/// Values over their mean.
fn over(values: &[f64], mean: f64) -> Vec<f64> {
    values.iter().map(|value| value / mean).collect()
}

/// The shares of each of `samples`, which are in ascending order, in bins of one width, which is
/// returned too.
fn histograms(samples: &[(String, Vec<f64>)]) -> (f64, Vec<Series>) {
    let at =
        |values: &[f64], part: f64| values[((values.len() - 1) as f64 * part).round() as usize];
    let (mut low, mut high, mut narrowest) = (f64::INFINITY, f64::NEG_INFINITY, f64::INFINITY);
    for (_, values) in samples {
        low = low.min(at(values, OUTSIDE));
        high = high.max(at(values, 1.0 - OUTSIDE));
        narrowest = narrowest.min(at(values, 0.99) - at(values, 0.01));
    }
    let width = (narrowest / BINS).max((high - low) / MOST_BINS).max(1e-9);
    let bins = ((high - low) / width).floor() as usize + 1;
    let series = samples.iter().map(|(name, values)| {
        let mut counts = vec![0_u64; bins];
        for value in values {
            let bin = (value - low) / width;
            if bin >= 0.0 && bin < bins as f64 {
                counts[bin as usize] += 1;
            }
        }
        let (first, last) = (at(values, OUTSIDE), at(values, 1.0 - OUTSIDE));
        let middle = |bin: usize| low + width * (bin as f64 + 0.5);
        let share = |count: u64| count as f64 / values.len() as f64 * 100.0;
        // With a bin of nothing on either side.
        let points = counts.into_iter().enumerate().map(|(bin, count)| (middle(bin), share(count)));
        let near = |(at, _): &(f64, f64)| (first - 2.0 * width..=last + 2.0 * width).contains(at);
        Series::new(name, points.filter(near))
    });
    (width, series.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::{DelaySample, FrameMix, LineSettings, LineTest};
    use crate::units::{Rate, Time};

    /// A path whose round trips are normal.
    fn path(mean_ms: f64, sd_percent: f64, seed: u64) -> LineDocument {
        let settings = LineSettings {
            target: "there".to_owned(),
            rate: Rate::from_bps(1_000_000),
            load_percent: 100.0,
            frames: FrameMix::cjpat(),
            ethernet: None,
            burst: 1,
            criterion: None,
            confidence: 0.95,
            loss_burst: 1.0,
            most_seconds: 10,
            most_frames: None,
        };
        let mut test = LineTest::new(settings, true);
        let mut rng = Rng::new(seed);
        for n in 0..4_000_u64 {
            let rtt = mean_ms * 1e6 * (1.0 + sd_percent / 100.0 * rng.normal());
            let sent = n * 10_000_000;
            let received = sent + (rtt / 2.0) as u64;
            let at = Time::from_nanos;
            test.delay.add(&DelaySample {
                sent: at(sent),
                received: at(received),
                returned: at(received + 1_000),
                came: at(received + 1_000 + (rtt / 2.0) as u64),
            });
        }
        test.document("0", "today")
    }

    #[test]
    fn the_three_paths_of_the_ultrascience_net_are_told_apart() {
        let named = |name: &str, document| (name.to_owned(), document);
        let documents = [
            named("sonet", path(26.845_877, 0.187, 1)),
            named("mpls", path(9.384_557, 3.2817, 2)),
            named("composed", path(35.981_812, 0.1515, 3)),
        ];
        let found = LineComparison::of(&documents, true).expect("three paths");
        for (path, (mean, sd)) in
            found.paths.iter().zip([(26.845_877, 0.187), (9.384_557, 3.2817), (35.981_812, 0.1515)])
        {
            assert!((path.rtt.mean_ns / 1e6 / mean - 1.0).abs() < 2e-3, "{path:?}");
            assert!((path.sd_percent / sd - 1.0).abs() < 0.05, "{path:?}");
        }
        assert!(found.differences.iter().all(|difference| difference.p < 1e-6));
        let prediction = found.prediction.as_ref().expect("of the last");
        assert!((prediction.mean_ns / 1e6 - 36.230).abs() < 0.02, "{prediction:?}");
        assert!((prediction.sd_percent - 0.861).abs() < 0.03, "{prediction:?}");
        let page = found.page(&[]).html();
        assert!(page.contains("more than chance") && page.contains("convolution"));
        // The narrowest and the widest distribution have bins of one width, and all of both is
        // there.
        let samples: Vec<(String, Vec<f64>)> = found
            .paths
            .iter()
            .map(|path| (path.name.clone(), over(&path.rtts_ns, path.rtt.mean_ns)))
            .collect();
        let (width, series) = histograms(&samples);
        for series in &series {
            let sum: f64 = series.points.iter().map(|(_, share)| share).sum();
            assert!((99.0..=100.001).contains(&sum), "{}: {sum}", series.name);
            let steps = series.points.windows(2).map(|pair| (pair[1].0 - pair[0].0) / width);
            assert!(series.points.len() >= 12 && steps.into_iter().all(|n| (n - 1.0).abs() < 1e-6));
        }
        assert_eq!(found.columns().csv().lines().count(), 4);
        assert!(page.contains("today") && page.contains("0 s tested"), "date and verdict of each");
    }

    #[test]
    fn deviations_that_differ_are_said_to_and_those_alike_not() {
        let said = |sd: f64, seed: u64| {
            let other = path(10.0, sd, seed);
            let documents = [("a".to_owned(), path(10.0, 1.0, 1)), ("b".to_owned(), other)];
            LineComparison::of(&documents, false).expect("two paths")
        };
        let apart = said(1.3, 2);
        assert!(apart.differences[0].sd_p < Some(1e-3), "{:?}", apart.differences);
        let plain = apart.section().plain();
        assert!(plain.contains("Bartlett and Kendall"), "{plain}");
        let alike = (2..42).filter(|seed| said(1.0, *seed).differences[0].sd_p < Some(0.05));
        assert!(alike.count() <= 7);
        // A document of an earlier version has no deviations of parts.
        let old = LineDocument { rtt_part_sds_ns: Vec::new(), ..path(10.0, 1.0, 1) };
        let documents = [("a".to_owned(), old), ("b".to_owned(), path(10.0, 1.3, 2))];
        let found = LineComparison::of(&documents, false).expect("two paths");
        assert_eq!(found.differences[0].sd_p, None);
    }

    #[test]
    fn two_tests_of_one_path_differ_by_chance_alone() {
        let differs = |seed: u64| {
            let documents = [
                ("a".to_owned(), path(10.0, 1.0, 2 * seed)),
                ("b".to_owned(), path(10.0, 1.0, 2 * seed + 1)),
            ];
            let found = LineComparison::of(&documents, false).expect("two paths");
            found.differences.iter().any(|difference| difference.p < 0.05)
        };
        let chance = (10..70).filter(|seed| differs(*seed)).count();
        assert!(chance <= 8, "{chance} of 60 differ");
        // Of three paths there are six such tests, and of four twelve: of so many one in two or
        // three would say so.
        let four = |seed: u64| {
            let documents: Vec<_> =
                (0..4).map(|n| (n.to_string(), path(10.0, 1.0, 1_000 + 4 * seed + n))).collect();
            LineComparison::of(&documents, false).expect("four paths").differences
        };
        let found: Vec<_> = (0..60).map(four).collect();
        let any = |differs: &dyn Fn(&PathDifference) -> bool| {
            found.iter().filter(|differences| differences.iter().any(differs)).count()
        };
        let together = any(&|it| it.differs || it.sd_differs == Some(true));
        let by_each = any(&|it| it.p < 0.05 || it.sd_p < Some(0.05));
        assert!(together <= 8, "{together} of 60");
        assert!(by_each > 15, "{by_each}: there is no need to heed how many tests there are");
        let words = "not more than chance among so many tests";
        assert!(any(&|it| it.said().contains(words)) > 10);
        assert!(LineComparison::of(&[("a".to_owned(), path(1.0, 1.0, 1))], false).is_err());
        let empty = LineDocument { rtts_ns: Vec::new(), ..path(1.0, 1.0, 1) };
        let documents = [("full".to_owned(), path(1.0, 1.0, 1)), ("empty".to_owned(), empty)];
        let error = LineComparison::of(&documents, true).expect_err("no samples");
        assert!(error.message.contains("empty: no round trip"), "{error}");
    }
}

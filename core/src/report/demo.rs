//! The demo's results and their page: the same files over the same link, with each tool.

use super::{Axis, Bar, BarChart, Card, Histogram, LineChart, Page, Section, Series, Table};
use crate::units::{Bytes, Rate, Span};
use serde::{Deserialize, Serialize};

/// The name and version of the document.
pub const SCHEMA: &str = "farline/demo/1";

/// What the demo found: the document that `demo.json` holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DemoResult {
    /// [`SCHEMA`].
    pub schema: String,
    /// Farline's version.
    pub farline: String,
    /// When it ran, as text: the core has no clock.
    pub date: String,
    /// The link and the machine below it.
    pub link: DemoLink,
    /// How exact the link was.
    pub accuracy: DemoAccuracy,
    /// What was copied.
    pub datasets: Vec<Dataset>,
    /// Each tool on each dataset, in the order in which they ran.
    pub runs: Vec<DemoRun>,
    /// Tools that did not run, with the reason.
    pub skipped: Vec<Skipped>,
    /// What Farline chose by itself.
    pub choices: Vec<DemoChoice>,
    /// The commands that give this page again.
    pub reproduce: Vec<String>,
}

/// The emulated path, and what it ran on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DemoLink {
    /// The path's name, such as `usn-8600`.
    pub path: String,
    /// Round-trip time without load.
    pub rtt_ns: Span,
    /// The rate of the line.
    pub rate_bps: Rate,
    /// The queue at its entrance.
    pub queue_bytes: Bytes,
    /// Largest packet, in bytes.
    pub mtu: u32,
    /// The kernel's release.
    pub kernel: String,
    /// Processors that the machine has.
    pub cpus: u32,
    /// Whether root ran it: an ordinary user has smaller socket buffers.
    pub root: bool,
}

/// How exact the link was while the tools ran.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DemoAccuracy {
    /// Whether the run may be believed.
    pub valid: bool,
    /// Why not, or what was found.
    pub reason: String,
    /// Half of the packets were at most this late, in microseconds.
    pub p50_us: f64,
    /// 99 of 100 packets were at most this late, in microseconds.
    pub p99_us: f64,
    /// The latest packet, in microseconds.
    pub max_us: f64,
    /// Upper edge in microseconds and count of each bucket of lateness, ascending.
    pub histogram: Vec<(f64, u64)>,
    /// Frames dropped, by cause.
    pub drops: Vec<(String, u64)>,
}

/// Files that were copied.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Dataset {
    /// A short name, as runs use it.
    pub name: String,
    /// What it consists of.
    pub about: String,
    /// How many files.
    pub files: u64,
    /// Their size in all.
    pub bytes: Bytes,
}

/// One tool on one dataset.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DemoRun {
    /// The tool's name.
    pub tool: String,
    /// Its version.
    pub version: String,
    /// The dataset's name.
    pub dataset: String,
    /// How it was set, in words or flags.
    pub settings: String,
    /// The congestion control of its connections, as Linux names it.
    pub congestion: String,
    /// Parallel data connections.
    pub streams: u32,
    /// From the start of the command to its end.
    pub seconds: f64,
    /// Bytes of files that arrived.
    pub bytes: Bytes,
    /// Files that arrived.
    pub files: u64,
    /// Bytes of files per time.
    pub rate_bps: Rate,
    /// Whether it ended by itself; if not it was stopped at a time limit, and bytes and files are
    /// what had arrived by then.
    pub finished: bool,
    /// Whether every byte arrived as it was sent.
    pub identical: bool,
    /// How that was found out, or what was wrong.
    pub verified: String,
    /// What held it back, where that is known.
    pub limited_by: Option<String>,
    /// Bytes that came out of the link so far, over time.
    pub samples: Vec<DemoSample>,
}

/// One reading of the counter at the receiving end of the link.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct DemoSample {
    /// Seconds since the run began.
    pub t_s: f64,
    /// Bytes so far, with headers.
    pub bytes: u64,
}

/// A tool that did not run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Skipped {
    /// Its name.
    pub tool: String,
    /// Why it did not run.
    pub reason: String,
}

/// One parameter that Farline chose.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DemoChoice {
    /// What was chosen.
    pub parameter: String,
    /// The value, with its unit.
    pub value: String,
    /// Why.
    pub reason: String,
}

impl DemoResult {
    /// The demo as one page.
    pub fn page(&self) -> Page {
        let link = &self.link;
        let lead = format!(
            "The same files with each tool over {}: {} round trip, {}, emulated on this machine. \
             {}, Farline {}.",
            link.path, link.rtt_ns, link.rate_bps, self.date, self.farline
        );
        let mut page =
            Page::new("Files across an emulated wide-area path").lead(lead).section(self.summary());
        for dataset in &self.datasets {
            page = page.section(self.over_time(dataset));
        }
        page = page.section(self.chosen()).section(self.exactness());
        let commands =
            Section::new("How to get this page again").commands(self.reproduce.join("\n")).note(
                "The numbers behind this page are in demo.json, and in the page itself: the \
                element with the id data.",
            );
        page.section(commands).data(serde_json::to_string(self).unwrap_or_default())
    }

    /// The colour of `tool`: the same in every chart, Farline's always the first.
    fn colour(&self, tool: &str) -> usize {
        let mut others: Vec<&str> = Vec::new();
        for run in self.runs.iter().filter(|run| run.tool != "farline") {
            if !others.contains(&run.tool.as_str()) {
                others.push(&run.tool);
            }
        }
        others.iter().position(|other| *other == tool).map_or(0, |i| i + 1)
    }

    fn summary(&self) -> Section {
        let mut section = Section::new("Who was how fast");
        if !self.accuracy.valid {
            section = section.warning(
                "The link was not exact in this run, so its figures are not to be \
                    believed: see below for how inexact.",
            );
        }
        for run in self.runs.iter().filter(|run| run.finished && !run.identical) {
            section = section.warning(format!(
                "{} on {}: the copy differs: {}.",
                run.tool, run.dataset, run.verified
            ));
        }
        let groups = self.datasets.iter().map(|dataset| {
            let bars = self.runs_on(dataset).map(|run| Bar {
                name: run.tool.clone(),
                value: run.rate_bps.as_gbps(),
                label: if run.finished {
                    format!("{} in {:.1} s", run.rate_bps, run.seconds)
                } else {
                    format!("{}, {}", run.rate_bps, run.verified)
                },
                colour: self.colour(&run.tool),
            });
            (
                format!("{}: {} files, {}", dataset.name, dataset.files, dataset.bytes),
                bars.collect(),
            )
        });
        section = section.chart(BarChart {
            title: "Rate of each tool on each dataset".to_owned(),
            value: Axis::new("File bytes per time", "Gbit/s"),
            groups: groups.collect(),
        });
        let column = |heading: &str, right| (heading.to_owned(), right);
        let columns = vec![
            column("Tool", false),
            column("Files", false),
            column("Rate", true),
            column("Time", true),
            column("Streams", true),
            column("Congestion", false),
            column("Settings", false),
            column("Checked", false),
            column("Held back by", false),
        ];
        let rows = self.runs.iter().map(|run| {
            let cells = vec![
                format!("{} {}", run.tool, run.version),
                run.dataset.clone(),
                run.rate_bps.to_string(),
                format!("{:.1} s", run.seconds),
                run.streams.to_string(),
                run.congestion.clone(),
                run.settings.clone(),
                if run.finished && !run.identical {
                    format!("DIFFERS: {}", run.verified)
                } else {
                    run.verified.clone()
                },
                run.limited_by.clone().unwrap_or_default(),
            ];
            (cells, run.tool == "farline")
        });
        section = section.table(Table { columns, rows: rows.collect() });
        for skipped in &self.skipped {
            section = section.note(format!("{} did not run: {}.", skipped.tool, skipped.reason));
        }
        section
    }

    fn over_time(&self, dataset: &Dataset) -> Section {
        let series =
            self.runs_on(dataset).map(|run| (self.colour(&run.tool), run)).collect::<Vec<_>>();
        // A series' place is its colour, so tools without a run leave their place empty.
        let count = series.iter().map(|(colour, _)| colour + 1).max().unwrap_or(0);
        let mut lines = vec![Series::default(); count];
        for (colour, run) in series {
            lines[colour] =
                Series { name: run.tool.clone(), points: rates(&run.samples), ..Series::default() };
        }
        Section::new(format!("Throughput over time: {}", dataset.name))
            .text(dataset.about.clone())
            .chart(LineChart {
                title: format!("Throughput over time of each tool on {}", dataset.name),
                x: Axis::new("Time since the command began", "s"),
                y: Axis::new("Out of the link", "Gbit/s"),
                series: lines,
                marks: Vec::new(),
            })
            .note(
                "Counted where packets leave the link, with headers and retransmissions, in the \
                same way for every tool.",
            )
    }

    fn chosen(&self) -> Section {
        let columns = vec![
            ("Parameter".to_owned(), false),
            ("Chosen".to_owned(), false),
            ("Why".to_owned(), false),
        ];
        let rows = self.choices.iter().map(|choice| {
            (vec![choice.parameter.clone(), choice.value.clone(), choice.reason.clone()], false)
        });
        let rows: Vec<_> = rows.collect();
        let section = Section::new("What Farline chose, and why");
        if rows.is_empty() {
            section.note("It reported no choices.")
        } else {
            section.table(Table { columns, rows })
        }
    }

    fn exactness(&self) -> Section {
        let (link, accuracy) = (&self.link, &self.accuracy);
        let micros = |us: f64| Span::from_secs_f64(us / 1e6);
        let mut cards = vec![
            Card::new("Path", &link.path),
            Card::new("Round trip", link.rtt_ns),
            Card::new("Rate", link.rate_bps),
            Card::new("Queue", link.queue_bytes),
            Card::new("MTU", format!("{} B", link.mtu)),
            Card::new("Kernel", &link.kernel),
            Card::new("Processors", link.cpus),
            Card::new("Run as", if link.root { "root" } else { "an ordinary user" }),
            Card::new("Lateness p50", micros(accuracy.p50_us)),
            Card::new("Lateness p99", micros(accuracy.p99_us)),
            Card::new("Lateness max", micros(accuracy.max_us)),
        ];
        cards.extend(
            accuracy
                .drops
                .iter()
                .map(|(cause, count)| Card::new(format!("Dropped: {cause}"), count)),
        );
        let section = Section::new("How exact the link was").cards(cards);
        let section = match accuracy.valid {
            true => section.text(format!("The run is valid: {}.", accuracy.reason)),
            false => section.warning(format!("The run is not valid: {}.", accuracy.reason)),
        };
        if accuracy.histogram.is_empty() {
            return section.note("The link reported no histogram.");
        }
        section
            .chart(Histogram {
                title: "How late packets left the link".to_owned(),
                x: Axis::new("Later than the path's delay", "us").log(),
                y: Axis::new("Packets", "").log(),
                buckets: accuracy.histogram.clone(),
                marks: [("p50", accuracy.p50_us), ("p99", accuracy.p99_us)]
                    .map(|(name, us)| (format!("{name} {}", micros(us)), us))
                    .to_vec(),
            })
            .note(
                "Both axes are logarithmic: a single late packet is visible next to a million \
                punctual ones.",
            )
    }

    fn runs_on(&self, dataset: &Dataset) -> impl Iterator<Item = &DemoRun> {
        self.runs.iter().filter(|run| run.dataset == dataset.name)
    }
}

/// The rate between each two readings, in Gbit/s, at the time of the second; a reading that repeats
/// a time adds nothing.
fn rates(samples: &[DemoSample]) -> Vec<(f64, f64)> {
    let between = samples.windows(2).filter(|pair| pair[1].t_s > pair[0].t_s);
    between
        .map(|pair| {
            let bits = pair[1].bytes.saturating_sub(pair[0].bytes) as f64 * 8.0;
            (pair[1].t_s, bits / (pair[1].t_s - pair[0].t_s) / 1e9)
        })
        .collect()
}

#[cfg(test)]
mod tests;

//! A profile of RDMA as one page: by message size and distance, beside other traffic, by way of connecting, and beside the papers.

use super::document::{CellResult, Profile};
use super::grid::{Cell, Model, Setup, Way};
use super::published;
use crate::profile::document::Kind;
use crate::profile::statistics::decrease_per_mile;
use crate::report::{Axis, Card, LineChart, Page, Section, Series, Table};
use crate::units::Rate;

/// The kinds of runs, as they are labelled.
const KINDS: [(Kind, &str); 2] = [(Kind::Modelled, "modelled"), (Kind::Measured, "measured")];
/// Longer tables are not read; the document has the rest.
const ROWS: usize = 240;

impl Profile {
    /// The profile as one page; `commands` give it again.
    pub fn page(&self, commands: &[String]) -> Page {
        let measured = self.cells.iter().any(|result| !result.measured.is_empty());
        let kinds = if measured {
            "Each curve says whether it was modelled, for the papers' hardware, or measured, between the devices named below."
        } else {
            "Every curve is modelled, in virtual time. Nothing here was measured."
        };
        let mut page = Page::new(format!("RDMA profile: {}", self.grid.name))
            .lead(format!("{kinds} Farline {}, {}.", self.farline, self.date))
            .section(self.overview());
        let sections = [
            self.where_measured(),
            self.by_size(),
            self.per_mile(),
            self.by_port(),
            self.beside_cross_traffic(),
            self.by_setup(),
            self.round_trips(),
            self.beside_the_paper(),
            self.counted(),
        ];
        for section in sections.into_iter().flatten() {
            page = page.section(section);
        }
        let again = Section::new("How to get this page again").commands(commands.join("\n")).note(format!(
            "The document behind this page is in the page itself: the element with the id data, schema {}.",
            self.schema
        ));
        page.section(self.every_cell()).section(again).data(serde_json::to_string(self).unwrap_or_default())
    }

    fn overview(&self) -> Section {
        let grid = &self.grid;
        let model = match grid.model {
            Model::ClosedForm => "closed form",
            Model::Packets => "packet by packet",
        };
        let cards = vec![
            Card::new("Paths", grid.paths.iter().map(|path| path.name.as_str()).collect::<Vec<_>>().join(", ")),
            Card::new("Model", model),
            Card::new("Cells", self.cells.len()),
            Card::new("Runs of each", grid.repetitions),
            Card::new("Seed", grid.seed),
        ];
        let host =
            grid.host_bps.map(|host| ("An SDR host's payload", host.to_string(), "SC08: the throughput of its base length"));
        let rows = [
            ("Ports", "4x SDR: 8 Gbit/s after 8b/10b".to_owned(), "SC08, section I; ICPP08, section 2.1"),
            ("Packets", format!("{} of payload, 26 B of headers", grid.mtu_bytes), "perftest, rdma_bw.c; IBA 1.2.1, chapter 5"),
            ("Messages of a run", grid.messages.to_string(), "perftest's default; SC08, section IV.B, speaks of 5000"),
            ("Unacknowledged at most", format!("{} messages", grid.depth), "perftest, rdma_bw.c"),
            ("Round-trip times", "as the paths' names say".to_owned(), "SC08, Table II; ICPP08, section 3.1"),
        ];
        let adapter = grid.messages_per_s.map(|rate| {
            (
                "An adapter's messages",
                format!("{:.2} million a second", rate as f64 / 1e6),
                "InfiniHost III: HOTI 2007, insideHPC 2010",
            )
        });
        let rows = rows
            .into_iter()
            .chain(host)
            .chain(adapter)
            .map(|(name, value, source)| (vec![name.to_owned(), value, source.to_owned()], false));
        let section = Section::new("What was run").cards(cards).table(Table {
            columns: ["Parameter", "Value", "From"].map(|name| (name.to_owned(), false)).to_vec(),
            rows: rows.collect(),
        });
        section.note(
            "Not in the model: a host's own delays. SC08's \
             table follows from perftest's default of 1000 messages; its text's 5000 would give 0.003 Mbit/s per mile.",
        )
    }

    /// A line through the cells that `of` takes, for each kind of run that there is.
    pub(super) fn lines(&self, name: &str, of: impl Fn(&Cell) -> bool, at: impl Fn(&Cell) -> f64) -> Vec<Series> {
        let one = |(kind, label): (Kind, &str)| {
            let found = self.cells.iter().filter(|result| of(&result.cell));
            let mut found: Vec<_> =
                found.filter_map(|result| result.summary(kind).map(|summary| (at(&result.cell), summary))).collect();
            found.sort_by(|a, b| a.0.total_cmp(&b.0));
            let band = found.iter().filter(|(_, summary)| summary.n > 1).map(|(x, summary)| (*x, summary.min, summary.max));
            let points: Vec<(f64, f64)> = found.iter().map(|(x, summary)| (*x, summary.mean)).collect();
            let name = format!("{name}, {label}");
            (!points.is_empty()).then(|| Series { name, points, band: band.collect(), ..Series::default() })
        };
        KINDS.into_iter().filter_map(one).collect()
    }

    /// Whether everything but path, transport, way and size is the first of its axis.
    fn is_plain(&self, cell: &Cell) -> bool {
        let grid = &self.grid;
        grid.signals.first() == Some(&cell.signal)
            && grid.setups.first() == Some(&cell.setup)
            && grid.queue_pairs.first() == Some(&cell.queue_pairs)
            && grid.credits_bytes.first() == Some(&cell.credits_bytes)
            && grid.cross_bps.first() == Some(&cell.cross_bps)
            && grid.queues_bytes.first() == Some(&cell.queue_bytes)
    }

    fn by_size(&self) -> Option<Section> {
        if self.grid.sizes_bytes.len() < 2 {
            return None;
        }
        let mut section = Section::new("Throughput by message size").text(
            "Both axes are logarithmic. A reliable connection has a limited number of messages on their way, so small ones fall with \
             distance; large ones fill the path. Datagrams wait for nobody.",
        );
        for &transport in &self.grid.transports {
            for way in self.grid.ways.iter().filter(|way| **way != Way::RoundTrip) {
                let mut series = Vec::new();
                for path in &self.grid.paths {
                    let of = |cell: &Cell| {
                        self.is_plain(cell) && cell.path == *path && (cell.transport, cell.way) == (transport, *way)
                    };
                    series.extend(self.lines(&path.name, of, |cell| cell.size_bytes.0 as f64));
                }
                let title = format!("{}, {}", transport.name(), way.name());
                section = section.chart(LineChart {
                    title: format!("Throughput by message size: {title}"),
                    x: Axis::new("Message size", "B").log(),
                    y: Axis::new(format!("{title}: payload"), "Gbit/s").log(),
                    series,
                    marks: Vec::new(),
                });
            }
        }
        Some(section)
    }

    /// The table that SC08 prints, beside SC08's.
    fn per_mile(&self) -> Option<Section> {
        let largest = *self.grid.sizes_bytes.iter().max()?;
        let of = |path: &str, kind| {
            self.summary(kind, |cell| self.is_plain(cell) && cell.path.name == path && cell.size_bytes == largest)
        };
        let base = self.grid.paths.iter().find(|path| path.name == published::SC08[0].path)?;
        let mut rows = Vec::new();
        for path in &self.grid.paths {
            let paper = published::sc08(&path.name);
            for (kind, label) in KINDS {
                let (Some(miles), Some(found)) = (path.miles, of(&path.name, kind)) else { continue };
                let from = base.miles.zip(of(&base.name, kind)).map(|(miles, summary)| (miles, summary.mean * 1e3));
                let dpm = from.and_then(|from| decrease_per_mile(from, (miles, found.mean * 1e3)));
                let printed = |pick: fn(&published::Sc08) -> Option<f64>, digits: usize| {
                    paper.and_then(pick).map_or_else(String::new, |value| format!("{value:.digits$}"))
                };
                let cells = vec![
                    miles.to_string(),
                    label.to_owned(),
                    format!("{:.3}", found.mean),
                    printed(|row| Some(row.gbps), 2),
                    if found.n > 1 { format!("{:.3}", found.sd * 1e3) } else { String::new() },
                    printed(|row| Some(row.sd_mbps), 2),
                    dpm.map_or_else(String::new, |dpm| format!("{dpm:.4}")),
                    printed(|row| row.dpm_mbps, 3),
                ];
                rows.push((cells, false));
            }
        }
        if rows.len() < 2 {
            return None;
        }
        let columns = ["Miles", "Figures", "Gbit/s", "SC08", "sd, Mbit/s", "SC08 sd", "DPM, Mbit/s", "SC08 DPM"];
        let columns = columns.iter().enumerate().map(|(i, name)| ((*name).to_owned(), i != 1)).collect();
        Some(
            Section::new("Decrease per mile")
                .text(format!(
                    "Messages of {largest}. Nothing slows down with distance; the last acknowledgement comes a round trip later."
                ))
                .table(Table { columns, rows })
                .note("The deviation of several runs is that of the path's round-trip time: 50 us (USN, SONET channels)."),
        )
    }

    /// Ports against distance, with extenders and with a cable's own credits.
    fn by_port(&self) -> Option<Section> {
        let grid = &self.grid;
        if grid.signals.len() < 2 {
            return None;
        }
        let largest = *grid.sizes_bytes.iter().max()?;
        let mut rows = Vec::new();
        for &signal in &grid.signals {
            for &credits in &grid.credits_bytes {
                let of = |path: &str| {
                    self.summary(Kind::Modelled, |cell| {
                        (cell.path.name.as_str(), cell.signal, cell.credits_bytes, cell.size_bytes)
                            == (path, signal, credits, largest)
                    })
                };
                let promise = credits.map_or_else(|| "extenders'".to_owned(), |credits| credits.to_string());
                let found = grid.paths.iter().map(|path| of(&path.name).map_or_else(String::new, |found| gbit(found.mean)));
                let cells =
                    [format!("4x {}", signal.name().to_uppercase()), gbit(signal.data_rate().as_bps() as f64 / 1e9), promise];
                rows.push((cells.into_iter().chain(found).collect(), false));
            }
        }
        let columns = ["Port", "Data, Gbit/s", "Credits"].map(str::to_owned).into_iter();
        let columns = columns.chain(grid.paths.iter().map(|path| path.name.clone()));
        Some(
            Section::new("Other ports, and without range extenders")
                .text(format!(
                    "Messages of {largest}, modelled. A cable's own credits cover 128 KiB, which a round trip uses up once; extenders end \
                     them on their own side. A faster port with the same queue of messages feels distance more."
                ))
                .table(Table { columns: Table::headings(columns), rows }),
        )
    }

    /// A chart for each path: what is left beside other traffic.
    fn beside_cross_traffic(&self) -> Option<Section> {
        let grid = &self.grid;
        if grid.cross_bps.len() < 2 {
            return None;
        }
        let largest = *grid.sizes_bytes.iter().max()?;
        let mut section = Section::new("Beside other traffic").text(format!(
            "Messages of {largest}. Up to the residual capacity nothing is lost: 8 Gbit/s of ports are 7.7 on the wire at the hosts' rate, \
             and 9.29 - 7.7 are left. Above it the queue before the long haul fills. Where it holds all that the extenders promise each \
             other, they share what is left; where it does not, frames are lost, and a reliable connection sends everything again from \
             the first one, at full rate, into a queue that is full."
        ));
        for path in &grid.paths {
            let mut series = Vec::new();
            for &queue in &grid.queues_bytes {
                let of = |cell: &Cell| cell.path == *path && (cell.size_bytes, cell.queue_bytes) == (largest, queue);
                let name = queue.map_or_else(|| "queue of one BDP".to_owned(), |queue| format!("queue of {queue}"));
                series.extend(self.lines(&name, of, |cell| gbps(cell.cross_bps)));
            }
            let printed = |cross: &Rate| published::sc08_cross(&path.name, *cross).map(|printed| (gbps(*cross), printed));
            let points: Vec<(f64, f64)> = grid.cross_bps.iter().filter_map(printed).collect();
            if !points.is_empty() {
                series.push(Series { name: "USN, measured in 2008".to_owned(), points, ..Series::default() });
            }
            section = section.chart(LineChart {
                title: format!("RDMA over {} beside other traffic", path.name),
                x: Axis::new("Other traffic", "Gbit/s"),
                y: Axis::new(format!("{}: payload", path.name), "Gbit/s"),
                series,
                marks: Vec::new(),
            });
        }
        Some(section.note(
            "USN's slide prints three throughputs for 3 and for 4 Gbit/s without their lengths; they stand here in the order of its other \
             tables, and the last is SC08's for 8600 miles. No paper prints the depth of the switch's queue.",
        ))
    }

    fn by_setup(&self) -> Option<Section> {
        if self.grid.setups.len() < 2 {
            return None;
        }
        let rtt = |cell: &Cell| cell.path.rtt_ns.as_millis_f64();
        let series =
            self.grid.setups.iter().flat_map(|&setup| self.lines(setup.name(), |cell| cell.setup == setup, rtt)).collect();
        let rows = self.cells.iter().flat_map(|result| {
            KINDS.into_iter().filter_map(move |(kind, label)| {
                let found = result.summary(kind)?;
                let timeouts: u64 = result.runs(kind).iter().map(|run| run.timeouts).sum();
                let (path, setup) = (result.cell.path.name.clone(), result.cell.setup.name().to_owned());
                let cells = vec![
                    path,
                    setup,
                    label.to_owned(),
                    format!("{:.3}", found.mean),
                    format!("{:.3} to {:.3}", found.min, found.max),
                    format!("{:.2}", found.sd * 1e3),
                    timeouts.to_string(),
                ];
                Some((cells, false))
            })
        });
        let columns = ["Path", "Connected by", "Figures", "Gbit/s", "Range", "sd, Mbit/s", "Timeouts"];
        let (long, short) = (Setup::Cm.timeout(), Setup::Exchange.timeout());
        Some(
            Section::new("Two ways of connecting")
                .text(format!(
                    "rdma_cm takes the time to wait for an acknowledgement from what the subnet says of the path: at least {long}. The \
                     parameters that ib_rdma_bw exchanges over a socket have {short} compiled in, and a device waits between one and four \
                     times as long. Beyond a round trip of that, everything is sent again before the first acknowledgement can come."
                ))
                .chart(LineChart {
                    title: "Throughput by round-trip time for two ways of connecting".to_owned(),
                    x: Axis::new("Round-trip time", "ms"),
                    y: Axis::new("Payload; the shade is least to most", "Gbit/s"),
                    series,
                    marks: Vec::new(),
                })
                .table(Table {
                    columns: columns.iter().enumerate().map(|(i, name)| ((*name).to_owned(), i > 2)).collect(),
                    rows: rows.collect(),
                })
                .note(
                    "SC08, section IV.B: no difference over 1400 miles, a significant one over longer lengths, and measurements without \
                     rdma_cm varied. It prints no numbers.",
                ),
        )
    }

    fn round_trips(&self) -> Option<Section> {
        if !self.grid.ways.contains(&Way::RoundTrip) {
            return None;
        }
        let size = |cell: &Cell| cell.size_bytes.0 as f64;
        let series = self.grid.paths.iter().flat_map(|path| {
            let of = |cell: &Cell| {
                self.is_plain(cell)
                    && cell.path == *path
                    && cell.way == Way::RoundTrip
                    && cell.transport == self.grid.transports[0]
            };
            self.lines(&path.name, of, size)
        });
        Some(
            Section::new("Round-trip time")
                .text("A message of each size there and one back: distance, and twice its time on the port.")
                .chart(LineChart {
                    title: "Round-trip time by message size".to_owned(),
                    x: Axis::new("Message size", "B").log(),
                    y: Axis::new("Round-trip time", "us").log(),
                    series: series.collect(),
                    marks: Vec::new(),
                }),
        )
    }

    /// Every cell of which a paper prints the throughput; what software carries stands beside no paper's hardware.
    fn beside_the_paper(&self) -> Option<Section> {
        let cards = self.between.as_ref().is_some_and(|between| !between.near.software && !between.far.software);
        let kinds = KINDS.into_iter().filter(|(kind, _)| *kind == Kind::Modelled || cards);
        let mut rows = Vec::new();
        for result in &self.cells {
            let Some(printed) = published::of(&self.grid.name, &result.cell) else { continue };
            for (kind, label) in kinds.clone() {
                let Some(found) = result.summary(kind) else { continue };
                let off = format!("{:+.1} %", (found.mean / printed - 1.0) * 100.0);
                let cells =
                    vec![result.cell.name(), label.to_owned(), format!("{:.3}", found.mean), format!("{printed:.3}"), off];
                rows.push((cells, false));
            }
        }
        rows.truncate(ROWS);
        let columns = [("Cell", false), ("Figures", false), ("Gbit/s", true), ("Printed", true), ("Off by", true)];
        let columns = columns.map(|(name, right)| (name.to_owned(), right)).to_vec();
        (!rows.is_empty()).then(|| Section::new("Beside what the paper prints").table(Table { columns, rows }))
    }

    fn every_cell(&self) -> Section {
        let row = |result: &CellResult| {
            let value = |kind| {
                result.summary(kind).map_or_else(String::new, |found| match result.cell.way {
                    Way::RoundTrip => format!("{:.1} us", found.mean),
                    _ => gbit(found.mean),
                })
            };
            let lost = |kind| result.runs(kind).iter().map(|run| run.lost).sum::<u64>().to_string();
            let cells = vec![
                result.cell.name(),
                value(Kind::Modelled),
                lost(Kind::Modelled),
                value(Kind::Measured),
                if result.measured.is_empty() { String::new() } else { lost(Kind::Measured) },
            ];
            (cells, false)
        };
        let columns = [("Cell", false), ("Modelled, Gbit/s", true), ("lost", true), ("Measured, Gbit/s", true), ("lost", true)];
        // Two columns without a figure would only make the page wider.
        let shown = if self.cells.iter().any(|result| !result.measured.is_empty()) { columns.len() } else { 3 };
        let section = Section::new("Every cell").table(Table {
            columns: columns.iter().take(shown).map(|(name, right)| ((*name).to_owned(), *right)).collect(),
            rows: self.cells.iter().take(ROWS).map(row).collect(),
        });
        if self.cells.len() > ROWS {
            return section.note(format!("The first {ROWS} of {} cells; the document has all.", self.cells.len()));
        }
        section
    }
}

fn gbps(rate: Rate) -> f64 {
    rate.as_bps() as f64 / 1e9
}

/// A throughput in Gbit/s that may be tiny.
fn gbit(value: f64) -> String {
    if value >= 1.0 { format!("{value:.3}") } else { format!("{value:.5}") }
}

#[cfg(test)]
mod tests {
    use super::super::presets::preset;
    use super::*;
    use crate::profile::grid::Form;

    #[test]
    fn every_presets_page_has_its_sections_and_says_that_it_is_a_model() {
        for (name, words) in [
            ("sc08-ib-distance", "Decrease per mile"),
            ("sc08-ib-stability", "45.27"),
            ("sc08-ib-cross-traffic", "USN, measured in 2008"),
            ("sc08-cm", "Two ways of connecting"),
            ("icpp08-verbs", "Round-trip time"),
        ] {
            let mut grid = preset(name, Form::Quick).expect("its paths are known").expect("a preset");
            (grid.messages, grid.most_s) = (if grid.model == Model::Packets { 20 } else { 1_000 }, 0.5);
            let mut profile = Profile::new(grid, "today");
            assert!(!profile.page(&[]).html().contains("NaN"), "{name}, before it has run");
            profile.run();
            let html = profile.page(&["farline profile --simulate".to_owned()]).html();
            assert!(html.contains("Nothing here was measured") && html.contains(words), "{name}");
            assert!(!html.contains("NaN") && !html.contains("inf"), "{name}: a number that is none");
        }
    }

    #[test]
    fn a_measured_run_gets_a_line_of_its_own() {
        let grid = preset("sc08-ib-distance", Form::Quick).expect("its paths are known").expect("a preset");
        let mut profile = Profile::new(grid, "today");
        profile.run();
        for result in &mut profile.cells {
            result.measured = result.modelled.clone();
        }
        let html = profile.page(&[]).html();
        assert!(html.contains("usn-1400, measured") && html.contains("usn-1400, modelled") && !html.contains("Nothing here was"));
    }
}

//! Of the page of a profile of RDMA: throughput by message size, by distance and by port, and
//! round-trip time.

use super::document::VerbsProfile;
use super::grid::{VerbsCell, VerbsMetric};
use super::page::{KINDS, gbit, millions};
use super::published;
use crate::profile::document::ProfileKind;
use crate::report::{Axis, LineChart, Section, Table};
use crate::statistics::decrease_per_mile;

impl VerbsProfile {
    pub(super) fn by_size(&self) -> Option<Section> {
        if self.grid.sizes_bytes.len() < 2 {
            return None;
        }
        let mut section = Section::new("Throughput by message size").text(
            "Both axes are logarithmic. A reliable connection has a limited number of messages on \
             their way, so small ones fall with \
             distance; large ones fill the path. Datagrams wait for nobody.",
        );
        for &transport in &self.grid.transports {
            for way in self.grid.ways.iter().filter(|way| **way != VerbsMetric::RoundTrip) {
                let mut series = Vec::new();
                for path in &self.grid.paths {
                    let of = |cell: &VerbsCell| {
                        self.is_plain(cell)
                            && cell.path == *path
                            && (cell.transport, cell.way) == (transport, *way)
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
    pub(super) fn per_mile(&self) -> Option<Section> {
        let largest = *self.grid.sizes_bytes.iter().max()?;
        let of = |path: &str, kind| {
            self.summary(kind, |cell| {
                self.is_plain(cell) && cell.path.name == path && cell.size_bytes == largest
            })
        };
        let base =
            self.grid.paths.iter().find(|path| path.name == published::FIGURES.sc08[0].path)?;
        let mut rows = Vec::new();
        for path in &self.grid.paths {
            let paper = published::sc08(&path.name);
            for (kind, label) in KINDS {
                let (Some(miles), Some(found)) = (path.miles, of(&path.name, kind)) else {
                    continue;
                };
                let from = base
                    .miles
                    .zip(of(&base.name, kind))
                    .map(|(miles, summary)| (miles, summary.mean * 1e3));
                let dpm = from.and_then(|from| decrease_per_mile(from, (miles, found.mean * 1e3)));
                let printed = |pick: fn(&published::VerbsSc08) -> Option<f64>, digits: usize| {
                    paper
                        .and_then(pick)
                        .map_or_else(String::new, |value| format!("{value:.digits$}"))
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
        let columns = [
            "Miles",
            "Figures",
            "Gbit/s",
            "SC08",
            "sd, Mbit/s",
            "SC08 sd",
            "DPM, Mbit/s",
            "SC08 DPM",
        ];
        let columns =
            columns.iter().enumerate().map(|(i, name)| ((*name).to_owned(), i != 1)).collect();
        Some(
            Section::new("Decrease per mile")
                .text(format!(
                    "Messages of {largest}. Nothing slows down with distance; the last \
                     acknowledgement comes a round trip later."
                ))
                .table(Table { columns, rows })
                .note(
                    "The deviation of several runs is that of the path's round-trip time: 50 us \
                    (USN, SONET channels).",
                ),
        )
    }

    /// Ports against distance, with extenders and with a cable's own credits.
    pub(super) fn by_port(&self) -> Option<Section> {
        let grid = &self.grid;
        if grid.signals.len() < 2 {
            return None;
        }
        let largest = *grid.sizes_bytes.iter().max()?;
        let mut rows = Vec::new();
        for &signal in &grid.signals {
            for &credits in &grid.credits_bytes {
                let of = |path: &str| {
                    self.summary(ProfileKind::Modelled, |cell| {
                        (cell.path.name.as_str(), cell.signal, cell.credits_bytes, cell.size_bytes)
                            == (path, signal, credits, largest)
                    })
                };
                let promise =
                    credits.map_or_else(|| "extenders'".to_owned(), |credits| credits.to_string());
                let found = grid
                    .paths
                    .iter()
                    .map(|path| of(&path.name).map_or_else(String::new, |found| gbit(found.mean)));
                let messages = signal
                    .adapter()
                    .map_or_else(|| "no limit".to_owned(), |adapter| millions(&adapter));
                let port = format!("4x {}", signal.name().to_uppercase());
                let cells =
                    [port, gbit(signal.data_rate().as_bps() as f64 / 1e9), messages, promise];
                rows.push((cells.into_iter().chain(found).collect(), false));
            }
        }
        let columns = ["Port", "Data, Gbit/s", "Messages, million/s", "Credits"]
            .map(str::to_owned)
            .into_iter();
        let columns = columns.chain(grid.paths.iter().map(|path| path.name.clone()));
        Some(
            Section::new("Other ports, and without range extenders")
                .text(format!(
                    "Messages of {largest}, modelled. A cable's own credits cover 128 KiB, which \
                     a round trip uses up once; extenders end \
                     them on their own side. A faster port with the same queue of messages feels \
                     distance more."
                ))
                .table(Table { columns: Table::headings(columns), rows })
                .note(
                    "Rows without a limit of messages are those of ports for whose adapters no \
                    rate was found published.",
                ),
        )
    }

    pub(super) fn round_trips(&self) -> Option<Section> {
        if !self.grid.ways.contains(&VerbsMetric::RoundTrip) {
            return None;
        }
        let size = |cell: &VerbsCell| cell.size_bytes.0 as f64;
        let series = self.grid.paths.iter().flat_map(|path| {
            let of = |cell: &VerbsCell| {
                self.is_plain(cell)
                    && cell.path == *path
                    && cell.way == VerbsMetric::RoundTrip
                    && cell.transport == self.grid.transports[0]
            };
            self.lines(&path.name, of, size)
        });
        Some(
            Section::new("Round-trip time")
                .text(
                    "A message of each size there and one back: distance, and twice its time on \
                    the port.",
                )
                .chart(LineChart {
                    title: "Round-trip time by message size".to_owned(),
                    x: Axis::new("Message size", "B").log(),
                    y: Axis::new("Round-trip time", "us").log(),
                    series: series.collect(),
                    marks: Vec::new(),
                }),
        )
    }
}

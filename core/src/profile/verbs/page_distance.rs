//! Of the page of a profile of RDMA: throughput by message size, by distance and by port, and
//! round-trip time.

use super::document::VerbsProfile;
use super::grid::{VerbsCell, VerbsMetric};
use super::page::{KINDS, gbit, millions};
use super::published::{self, VerbsSc08};
use super::signal::Signal;
use crate::profile::cell::PathPoint;
use crate::profile::document::ProfileKind;
use crate::report::{Axis, LineChart, Section, TableSpec};
use crate::statistics::{Summary, decrease_per_mile};
use crate::units::Bytes;

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
                section = section.chart(LineChart::new(
                    format!("Throughput by message size: {title}"),
                    Axis::new("Message size", "B").log(),
                    Axis::new(format!("{title}: payload"), "Gbit/s").log(),
                    series,
                ));
            }
        }
        Some(section)
    }

    /// The table that SC08 prints, next to SC08's.
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
            for (kind, label) in KINDS {
                let (Some(miles), Some(found)) = (path.miles, of(&path.name, kind)) else {
                    continue;
                };
                let from = base
                    .miles
                    .zip(of(&base.name, kind))
                    .map(|(miles, summary)| (miles, summary.mean * 1e3));
                let dpm = from.and_then(|from| decrease_per_mile(from, (miles, found.mean * 1e3)));
                rows.push((path, miles, label, found, dpm));
            }
        }
        if rows.len() < 2 {
            return None;
        }
        type Row<'a> = (&'a PathPoint, f64, &'static str, Summary, Option<f64>);
        let printed = |row: &Row<'_>, pick: fn(&VerbsSc08) -> Option<f64>, digits: usize| {
            let value = published::sc08(&row.0.name).and_then(pick);
            value.map_or_else(String::new, |value| format!("{value:.digits$}"))
        };
        let spec = TableSpec::new()
            .figures("Miles", |row: &Row<'_>| row.1.to_string())
            .words("Figures", |row| row.2.to_owned())
            .figures("Gbit/s", |row| format!("{:.3}", row.3.mean))
            .figures("SC08", |row| printed(row, |paper| Some(paper.gbps), 2))
            .figures("sd, Mbit/s", |row| match row.3.n {
                1 => String::new(),
                _ => format!("{:.3}", row.3.sd * 1e3),
            })
            .figures("SC08 sd", |row| printed(row, |paper| Some(paper.sd_mbps), 2))
            .figures("DPM, Mbit/s", |row| row.4.map_or_else(String::new, |dpm| format!("{dpm:.4}")))
            .figures("SC08 DPM", |row| printed(row, |paper| paper.dpm_mbps, 3));
        Some(
            Section::new("Decrease per mile")
                .text(format!(
                    "Messages of {largest}. Nothing slows down with distance; the last \
                     acknowledgement comes a round trip later."
                ))
                .table(spec.of(rows))
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
                rows.push((signal, credits));
            }
        }
        type Row = (Signal, Option<Bytes>);
        let spec = TableSpec::new()
            .words("Port", |row: &Row| format!("4x {}", row.0.name().to_uppercase()))
            .figures("Data, Gbit/s", |row| gbit(row.0.data_rate().as_gbps()))
            .figures("Messages, million/s", |row| {
                row.0.adapter().map_or_else(|| "no limit".to_owned(), |adapter| millions(&adapter))
            })
            .figures("Credits", |row| {
                row.1.map_or_else(|| "extenders'".to_owned(), |credits| credits.to_string())
            });
        let spec = grid.paths.iter().fold(spec, |spec, path| {
            spec.figures(&path.name, move |row| {
                let found = self.summary(ProfileKind::Modelled, |cell| {
                    (&cell.path.name, cell.signal, cell.credits_bytes, cell.size_bytes)
                        == (&path.name, row.0, row.1, largest)
                });
                found.map_or_else(String::new, |found| gbit(found.mean))
            })
        });
        Some(
            Section::new("Other ports, and without range extenders")
                .text(format!(
                    "Messages of {largest}, modelled. A cable's own credits cover 128 KiB, which a \
                     round trip uses up once; extenders end them on their own side. A faster port \
                     with the same queue of messages feels distance more."
                ))
                .table(spec.of(rows))
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
                .chart(LineChart::new(
                    "Round-trip time by message size",
                    Axis::new("Message size", "B").log(),
                    Axis::new("Round-trip time", "us").log(),
                    series.collect(),
                )),
        )
    }
}

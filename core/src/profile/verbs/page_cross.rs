//! Of the page of a profile of RDMA: next to other traffic, by way of connecting, and next to what
//! the papers print.

use super::document::{VerbsCellResult, VerbsProfile};
use super::grid::{Setup, VerbsCell};
use super::page::{KINDS, ROWS};
use super::published;
use crate::profile::document::ProfileKind;
use crate::report::{Axis, LineChart, Section, Series, TableSpec, off_by};
use crate::statistics::Summary;
use crate::units::Rate;

impl VerbsProfile {
    /// A chart for each path: what is left next to other traffic.
    pub(super) fn beside_cross_traffic(&self) -> Option<Section> {
        let grid = &self.grid;
        if grid.cross_bps.len() < 2 {
            return None;
        }
        let largest = *grid.sizes_bytes.iter().max()?;
        let mut section = Section::new("Next to other traffic").text(format!(
            "Messages of {largest}. Up to the residual capacity nothing is lost: 8 Gbit/s of ports \
             are 7.7 on the wire at the hosts' rate, and 9.29 - 7.7 are left. Above it the queue \
             before the long haul fills. Where it holds all that the extenders promise each other, \
             they share what is left; where it does not, frames are lost, and a reliable \
             connection sends everything again from the first one, at full rate, into a queue that \
             is full."
        ));
        for path in &grid.paths {
            let mut series = Vec::new();
            for &queue in &grid.queues_bytes {
                let of = |cell: &VerbsCell| {
                    cell.path == *path && (cell.size_bytes, cell.queue_bytes) == (largest, queue)
                };
                let name = queue.map_or_else(
                    || "queue of one BDP".to_owned(),
                    |queue| format!("queue of {queue}"),
                );
                series.extend(self.lines(&name, of, |cell| cell.cross_bps.as_gbps()));
            }
            let printed = |cross: &Rate| {
                published::sc08_cross(&path.name, *cross).map(|printed| (cross.as_gbps(), printed))
            };
            let points: Vec<(f64, f64)> = grid.cross_bps.iter().filter_map(printed).collect();
            if !points.is_empty() {
                series.push(Series::new("USN, measured in 2008", points));
            }
            section = section.chart(LineChart::new(
                format!("RDMA over {} next to other traffic", path.name),
                Axis::new("Other traffic", "Gbit/s"),
                Axis::new(format!("{}: payload", path.name), "Gbit/s"),
                series,
            ));
        }
        Some(section.note(
            "USN's slide prints three throughputs for 3 and for 4 Gbit/s without their lengths; \
             they stand here in the order of its other tables, and the last is SC08's for 8600 \
             miles. No paper prints the depth of the switch's queue.",
        ))
    }

    pub(super) fn by_setup(&self) -> Option<Section> {
        if self.grid.setups.len() < 2 {
            return None;
        }
        let rtt = |cell: &VerbsCell| cell.path.rtt_ns.as_millis_f64();
        let series = self
            .grid
            .setups
            .iter()
            .flat_map(|&setup| self.lines(setup.name(), |cell| cell.setup == setup, rtt))
            .collect();
        let rows = self.cells.iter().flat_map(|result| {
            KINDS
                .into_iter()
                .filter_map(move |(kind, label)| Some((result, kind, label, result.summary(kind)?)))
        });
        type Row<'a> = (&'a VerbsCellResult, ProfileKind, &'static str, Summary);
        let spec = TableSpec::new()
            .words("Path", |row: &Row<'_>| row.0.cell.path.name.clone())
            .words("Connected by", |row| row.0.cell.setup.name().to_owned())
            .words("Figures", |row| row.2.to_owned())
            .figures("Gbit/s", |row| format!("{:.3}", row.3.mean))
            .figures("Range", |row| format!("{:.3} to {:.3}", row.3.min, row.3.max))
            .figures("sd, Mbit/s", |row| format!("{:.2}", row.3.sd * 1e3))
            .figures("Timeouts", |row| {
                row.0.runs(row.1).iter().map(|run| run.timeouts).sum::<u64>().to_string()
            });
        let (long, short) = (Setup::Cm.timeout(), Setup::Exchange.timeout());
        Some(
            Section::new("Two ways of connecting")
                .text(format!(
                    "rdma_cm takes the time to wait for an acknowledgement from what the subnet \
                     says of the path: at least {long}. The parameters that ib_rdma_bw exchanges \
                     over a socket have {short} compiled in, and a device waits between one and \
                     four times as long. Beyond a round trip of that, everything is sent again \
                     before the first acknowledgement can come."
                ))
                .chart(LineChart::new(
                    "Throughput by round-trip time for two ways of connecting",
                    Axis::new("Round-trip time", "ms"),
                    Axis::new("Payload; the shade is least to most", "Gbit/s"),
                    series,
                ))
                .table(spec.of(rows))
                .note(
                    "SC08, section IV.B: no difference over 1400 miles, a significant one over \
                     longer lengths, and measurements without \
                     rdma_cm varied. It prints no numbers.",
                ),
        )
    }

    /// Every cell of which a paper prints the throughput; what software carries stands next to no
    /// paper's hardware.
    pub(super) fn beside_the_paper(&self) -> Option<Section> {
        let cards = self
            .between
            .as_ref()
            .is_some_and(|between| !between.near.software && !between.far.software);
        let kinds = KINDS.into_iter().filter(|(kind, _)| *kind == ProfileKind::Modelled || cards);
        let mut rows = Vec::new();
        for result in &self.cells {
            let Some(printed) = published::of(&self.grid.name, &result.cell) else { continue };
            for (kind, label) in kinds.clone() {
                let Some(found) = result.summary(kind) else { continue };
                rows.push((result.cell.name(), label, found.mean, printed));
            }
        }
        rows.truncate(ROWS);
        let spec = TableSpec::new()
            .words("Cell", |row: &(String, &str, f64, f64)| row.0.clone())
            .words("Figures", |row| row.1.to_owned())
            .figures("Gbit/s", |row| format!("{:.3}", row.2))
            .figures("Printed", |row| format!("{:.3}", row.3))
            .figures("Off by", |row| off_by(row.2 / row.3 - 1.0, 1));
        (!rows.is_empty())
            .then(|| Section::new("Next to what the paper prints").table(spec.of(rows)))
    }
}

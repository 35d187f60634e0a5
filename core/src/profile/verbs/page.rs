//! A profile of RDMA as one page: by message size and distance, next to other traffic, by way of
//! connecting, and next to the papers.

use super::document::{VerbsCellResult, VerbsProfile};
use super::grid::{Model, QpService, VerbsCell, VerbsMetric};
use super::model::{DATAGRAM_HEADER, RELIABLE_HEADERS};
use super::signal::{Adapter, Signal};
use crate::experiment::{every_cell, paths_card};
use crate::profile::document::ProfileKind;
use crate::profile::published::THEIRS;
use crate::report::{Card, Columns, PageSpec, ReportDocument, Section, Series, TableSpec};

/// The kinds of runs, as they are labelled.
pub(super) const KINDS: [(ProfileKind, &str); 2] =
    [(ProfileKind::Modelled, "modelled"), (ProfileKind::Measured, "measured")];
/// Messages of a run of `ib_rdma_bw` (perftest, rdma_bw.c).
const PERFTEST_MESSAGES: u64 = 1_000;
/// Longer tables are not read; the document has the rest.
pub(super) const ROWS: usize = 240;

impl ReportDocument for VerbsProfile {
    fn spec(&self) -> PageSpec {
        let measured = self.cells.iter().any(|result| !result.measured.is_empty());
        let kinds = if measured {
            "Each curve says whether it was modelled, for the papers' hardware, or measured, \
             between the devices named below."
        } else {
            "Every curve is modelled, in virtual time. Nothing here was measured"
        };
        let kinds = match (measured, self.per_mile().or_else(|| self.beside_the_paper())) {
            (true, _) => kinds.to_owned(),
            (false, Some(_)) => format!("{kinds} but {THEIRS}."),
            (false, None) => format!("{kinds}."),
        };
        let sections = vec![
            Some(self.overview()),
            self.where_measured(),
            self.by_size(),
            self.per_mile(),
            self.by_port(),
            self.beside_cross_traffic(),
            self.by_setup(),
            self.round_trips(),
            self.beside_the_paper(),
            self.counted(),
            Some(self.every_cell()),
        ];
        let title = format!("RDMA profile: {}", self.grid.name);
        let lead = format!("{kinds} Farline {}, {}.", self.farline, self.date);
        PageSpec { title, lead, sections, source: (self.schema.clone(), String::new()) }
    }

    fn columns(&self) -> Columns {
        self.rows()
    }
}

impl VerbsProfile {
    fn overview(&self) -> Section {
        let grid = &self.grid;
        let model = match grid.model {
            Model::ClosedForm => "closed form",
            Model::Packets => "packet by packet",
        };
        let cards = vec![
            paths_card(&grid.paths),
            Card::new("Model", model),
            Card::new("Cells", self.cells.len()),
            Card::new("Runs of each", grid.repetitions),
            Card::new("Seed", grid.seed),
        ];
        let host = grid.host_bps.map(|host| {
            ("An SDR host's payload", host.to_string(), "SC08: the throughput of its base length")
        });
        let rows = self.parameters();
        let adapters = grid.signals.iter().map(|signal| {
            let name = match grid.signals.len() {
                1 => "An adapter's messages".to_owned(),
                _ => format!("An adapter's messages, {}", signal.name().to_uppercase()),
            };
            let found = signal.adapter();
            let value = found.map_or_else(
                || "no limit".to_owned(),
                |adapter| format!("{} million a second", millions(&adapter)),
            );
            let source = found.map_or_else(
                || "none was found".to_owned(),
                |adapter| format!("{}: {}", adapter.name, adapter.source),
            );
            (name, value, source)
        });
        let rows = rows
            .into_iter()
            .chain(host)
            .map(|(name, value, source)| (name.to_owned(), value, source.to_owned()))
            .chain(adapters);
        let spec = TableSpec::new()
            .words("Parameter", |row: &(String, String, String)| row.0.clone())
            .words("Value", |row| row.1.clone())
            .words("From", |row| row.2.clone());
        let section = Section::new("What was run").cards(cards).table(spec.of(rows));
        let section = section.note("Not in the model: a host's own delays.");
        match self.per_mile() {
            Some(_) if grid.messages == PERFTEST_MESSAGES => section.note(
                "SC08's table follows from perftest's default of 1000 messages; its text's 5000 \
                 would give 0.003 Mbit/s per mile.",
            ),
            _ => section,
        }
    }

    /// What a run was made with, and where that comes from.
    fn parameters(&self) -> [(&'static str, String, &'static str); 5] {
        let grid = &self.grid;
        let port = |signal: &Signal| {
            let (name, rate) = (signal.name().to_uppercase(), signal.data_rate().as_gbps());
            format!("4x {name}: {rate} Gbit/s after {}", signal.line_code())
        };
        let ports: Vec<String> = grid.signals.iter().map(port).collect();
        let headers = |service: &QpService| match service {
            QpService::Ud => u64::from(RELIABLE_HEADERS) + DATAGRAM_HEADER,
            _ => u64::from(RELIABLE_HEADERS),
        };
        let each: Vec<String> = match grid.transports[..] {
            [one] => vec![format!("{} B", headers(&one))],
            _ => {
                let of = |one: &QpService| format!("{} B ({})", headers(one), one.name());
                grid.transports.iter().map(of).collect()
            }
        };
        let rtts: Vec<String> =
            grid.paths.iter().map(|path| format!("{} {}", path.name, path.rtt_ns)).collect();
        [
            (
                "Ports",
                ports.join("; "),
                match grid.signals[..] {
                    [Signal::Sdr] => "SC08, section I; ICPP08, section 2.1",
                    _ => "SDR: SC08, section I; the others: IBA, volume 2",
                },
            ),
            (
                "Packets",
                format!("{} of payload, {} of headers", grid.mtu_bytes, each.join(", ")),
                "perftest, rdma_bw.c; IBA 1.2.1, chapters 5 and 9",
            ),
            (
                "Messages of a run",
                grid.messages.to_string(),
                match grid.messages {
                    PERFTEST_MESSAGES => "perftest's default; SC08, section IV.B, speaks of 5000",
                    _ => "this grid; perftest has 1000 by default, SC08 speaks of 5000",
                },
            ),
            (
                "Unacknowledged at most",
                format!("{} messages", grid.depth),
                if grid.depth == 100 { "perftest, rdma_bw.c" } else { "this grid" },
            ),
            (
                "Round-trip times",
                rtts.join(", "),
                match grid.paths.first().map(|path| path.name.as_str()) {
                    Some(name) if name.starts_with("usn-") => "SC08, Table II",
                    Some(name) if name.starts_with("longbow:") => {
                        "ICPP08, section 3.1: twice the delay in the name"
                    }
                    _ => "this grid",
                },
            ),
        ]
    }

    /// A line through the cells that `of` takes, for each kind of run that there is.
    pub(super) fn lines(
        &self,
        name: &str,
        of: impl Fn(&VerbsCell) -> bool,
        at: impl Fn(&VerbsCell) -> f64,
    ) -> Vec<Series> {
        let one = |(kind, label): (ProfileKind, &str)| {
            let found = self.cells.iter().filter(|result| of(&result.cell));
            let found = found.filter_map(|result| {
                let summary = result.summary(kind)?;
                let band = (summary.n > 1).then_some((summary.min, summary.max));
                Some((at(&result.cell), summary.mean, band))
            });
            let line = Series::through(format!("{name}, {label}"), found);
            (!line.points.is_empty()).then_some(line)
        };
        KINDS.into_iter().filter_map(one).collect()
    }

    /// Whether everything but path, transport, way and size is the first of its axis.
    pub(super) fn is_plain(&self, cell: &VerbsCell) -> bool {
        let grid = &self.grid;
        grid.signals.first() == Some(&cell.signal)
            && grid.setups.first() == Some(&cell.setup)
            && grid.queue_pairs.first() == Some(&cell.queue_pairs)
            && grid.credits_bytes.first() == Some(&cell.credits_bytes)
            && grid.cross_bps.first() == Some(&cell.cross_bps)
            && grid.queues_bytes.first() == Some(&cell.queue_bytes)
    }

    fn every_cell(&self) -> Section {
        let value = |result: &VerbsCellResult, kind| {
            result.summary(kind).map_or_else(String::new, |found| match result.cell.way {
                VerbsMetric::RoundTrip => format!("{:.1} us", found.mean),
                _ => gbit(found.mean),
            })
        };
        let lost = |result: &VerbsCellResult, kind| {
            result.runs(kind).iter().map(|run| run.lost).sum::<u64>().to_string()
        };
        // Two columns without a figure would only make the page wider.
        let measured = self.cells.iter().any(|result| !result.measured.is_empty());
        let spec = TableSpec::new()
            .words("Cell", |result: &&VerbsCellResult| result.cell.name())
            .figures("Modelled, Gbit/s", |result| value(result, ProfileKind::Modelled))
            .figures("lost", |result| lost(result, ProfileKind::Modelled))
            .when(measured, |spec| {
                spec.figures("Measured, Gbit/s", |result| value(result, ProfileKind::Measured))
                    .figures("lost", |result| match result.measured[..] {
                        [] => String::new(),
                        _ => lost(result, ProfileKind::Measured),
                    })
            });
        every_cell(&spec, self.cells.iter(), &[])
    }
}

/// Millions of messages in a second.
pub(super) fn millions(adapter: &Adapter) -> String {
    let found = format!("{:.2}", adapter.messages_per_s as f64 / 1e6);
    found.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A throughput in Gbit/s that may be tiny.
pub(super) fn gbit(value: f64) -> String {
    if value >= 1.0 { format!("{value:.3}") } else { format!("{value:.5}") }
}

#[cfg(test)]
mod tests {
    use super::super::presets::preset;
    use super::*;
    use crate::experiment::Form;

    #[test]
    fn every_page_has_its_sections_and_says_it_is_a_model() {
        for (name, words) in [
            ("sc08-ib-distance", "Decrease per mile"),
            ("sc08-ib-stability", "45.27"),
            ("sc08-ib-cross-traffic", "USN, measured in 2008"),
            ("sc08-cm", "Two ways of connecting"),
            ("icpp08-verbs", "Round-trip time"),
        ] {
            let mut grid =
                preset(name, Form::Quick).expect("its paths are known").expect("a preset");
            (grid.messages, grid.most_s) =
                (if grid.model == Model::Packets { 20 } else { 1_000 }, 0.5);
            let mut profile = VerbsProfile::new(grid, "today");
            assert!(!profile.page(&[]).html().contains("NaN"), "{name}, before it has run");
            profile.model();
            let html = profile.page(&["farline profile --simulate".to_owned()]).html();
            assert!(html.contains("Nothing here was measured") && html.contains(words), "{name}");
            assert!(
                !html.contains("NaN") && !html.contains("inf"),
                "{name}: a number that is none"
            );
            let of_all = ["0.85", "8.5", "200", "no limit"]
                .iter()
                .all(|rate| html.contains(&format!(">{rate}<")));
            assert_eq!(
                of_all,
                name == "sc08-ib-distance",
                "{name}: what each port's adapter handles"
            );
        }
    }

    #[test]
    fn a_measured_run_gets_a_line_of_its_own() {
        let grid = preset("sc08-ib-distance", Form::Quick)
            .expect("its paths are known")
            .expect("a preset");
        let mut profile = VerbsProfile::new(grid, "today");
        profile.model();
        for result in &mut profile.cells {
            result.measured = result.modelled.clone();
        }
        let html = profile.page(&[]).html();
        assert!(
            html.contains("usn-1400, measured")
                && html.contains("usn-1400, modelled")
                && !html.contains("Nothing here was")
        );
    }

    #[test]
    fn parameters_are_those_of_the_document() {
        let html = |name| {
            let grid = preset(name, Form::Quick).expect("its paths are known").expect("a preset");
            VerbsProfile::new(grid, "today").page(&[]).html()
        };
        let row = |html: &str, name: &str| -> String {
            let rest = html.split(&format!(">{name}</td>")).nth(1).expect("a row");
            rest.split("</tr>").next().expect("its end").to_owned()
        };
        let cm = html("sc08-cm");
        assert!(row(&cm, "Messages of a run").contains(">200<"));
        assert!(!row(&cm, "Messages of a run").contains("perftest&#39;s default;"));
        assert!(row(&cm, "Round-trip times").contains("usn-8600 163 ms"));
        assert!(row(&cm, "Ports").contains("4x SDR") && !row(&cm, "Ports").contains("DDR"));
        let distance = html("sc08-ib-distance");
        assert!(row(&distance, "Messages of a run").contains("perftest&#39;s default"));
        let ports = row(&distance, "Ports");
        for port in ["SDR", "DDR", "QDR", "EDR", "NDR"] {
            assert!(ports.contains(port), "{port}: {ports}");
        }
        assert!(row(&distance, "Packets").contains("26 B") && !distance.contains("34 B"));
        let icpp = html("icpp08-verbs");
        assert!(
            row(&icpp, "Packets").contains("26 B (RC)")
                && row(&icpp, "Packets").contains("34 B (UD)")
        );
        assert!(row(&icpp, "Round-trip times").contains("longbow:10ms 20.0 ms"));
    }
}

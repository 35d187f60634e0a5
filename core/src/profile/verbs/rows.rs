//! Every run of a profile of RDMA as a row of typed columns, modelled and measured ones alike.

use super::document::{VerbsCellResult, VerbsProfile, VerbsRun};
use super::published;
use crate::profile::document::ProfileKind;
use crate::report::ColumnSource::{self, Flag, Real, Text, Whole};
use crate::report::Columns;

/// A run, where it stands, whether it was modelled, and what the paper prints for its cell in
/// Gbit/s.
type Row<'a> = (&'a VerbsCellResult, &'a VerbsRun, &'static str, Option<f64>);

fn columns<'a>() -> Vec<(&'static str, ColumnSource<Row<'a>>)> {
    vec![
        ("path", Text(|(at, ..)| Some(at.cell.path.name.clone()))),
        ("rtt_ns", Whole(|(at, ..)| Some(at.cell.path.rtt_ns.as_nanos()))),
        ("port", Text(|(at, ..)| Some(at.cell.signal.name().to_owned()))),
        ("transport", Text(|(at, ..)| Some(at.cell.transport.name().to_owned()))),
        ("way", Text(|(at, ..)| Some(at.cell.way.name().to_owned()))),
        ("setup", Text(|(at, ..)| Some(at.cell.setup.name().to_owned()))),
        ("size_bytes", Whole(|(at, ..)| Some(at.cell.size_bytes.0))),
        ("queue_pairs", Whole(|(at, ..)| Some(at.cell.queue_pairs))),
        ("credits_bytes", Whole(|(at, ..)| at.cell.credits_bytes.map(|credits| credits.0))),
        ("cross_bps", Whole(|(at, ..)| Some(at.cell.cross_bps.as_bps()))),
        ("queue_bytes", Whole(|(at, ..)| at.cell.queue_bytes.map(|queue| queue.0))),
        ("run", Whole(|(_, run, ..)| Some(run.index.into()))),
        ("seed", Whole(|(_, run, ..)| Some(run.seed))),
        ("throughput_bps", Whole(|(_, run, ..)| Some(run.throughput_bps.as_bps()))),
        ("round_trip_ns", Whole(|(_, run, ..)| run.round_trip_ns.map(|span| span.as_nanos()))),
        ("packets_again", Whole(|(_, run, ..)| Some(run.again))),
        ("packets_lost", Whole(|(_, run, ..)| Some(run.lost))),
        ("timeouts", Whole(|(_, run, ..)| Some(run.timeouts))),
        ("broken", Flag(|(_, run, ..)| Some(run.broken))),
        ("sent_bps", Whole(|(_, run, ..)| run.sent_bps.map(|rate| rate.as_bps()))),
        ("messages", Whole(|(_, run, ..)| run.messages)),
        ("packets_sent", Whole(|(_, run, ..)| run.packets.map(|(sent, _)| sent))),
        ("packets_received", Whole(|(_, run, ..)| run.packets.map(|(_, received)| received))),
        ("connect_ns", Whole(|(_, run, ..)| run.connect_ns.map(|span| span.as_nanos()))),
        ("invalid", Text(|(_, run, ..)| run.invalid.clone())),
        ("kind", Text(|(_, _, kind, _)| Some((*kind).to_owned()))),
        ("published_gbps", Real(|(.., published)| *published)),
    ]
}

impl VerbsProfile {
    /// Every run in a row of its own; `kind` says whether it was modelled or measured,
    /// `published_gbps` what the paper prints for its cell.
    pub(super) fn rows(&self) -> Columns {
        let mut rows: Vec<Row<'_>> = Vec::new();
        for result in &self.cells {
            let printed = published::of(&self.grid.name, &result.cell);
            for (kind, name) in
                [(ProfileKind::Modelled, "modelled"), (ProfileKind::Measured, "measured")]
            {
                rows.extend(result.runs(kind).iter().map(|run| (result, run, name, printed)));
            }
        }
        let about = vec![
            ("schema", self.schema.clone()),
            ("farline", self.farline.clone()),
            ("date", self.date.clone()),
            ("grid", self.grid.name.clone()),
        ];
        Columns::of(about, &rows, &columns())
    }
}

#[cfg(test)]
mod tests {
    use super::super::presets::preset;
    use super::*;
    use crate::experiment::Form;
    use crate::report::ReportDocument;

    #[test]
    fn each_runs_row_has_every_field_and_the_papers_figure() {
        let grid = preset("sc08-ib-distance", Form::Quick)
            .expect("its paths are known")
            .expect("a preset");
        let mut profile = VerbsProfile::new(grid, "");
        profile.model();
        let table = profile.columns();
        let text = table.csv();
        let lines: Vec<&str> = text.split_terminator("\r\n").collect();
        assert_eq!(lines.len(), 1 + profile.cells.len());
        assert!(
            lines.iter().all(|line| line.split(',').count() == table.columns.len()),
            "{}",
            lines[1]
        );
        let far = lines.iter().find(|line| {
            line.starts_with("usn-8600,163000000,sdr,RC,one way,rdma_cm,8388608,1,,0,")
        });
        assert!(far.is_some_and(|line| line.ends_with(",modelled,7.34")), "{far:?}");
    }
}

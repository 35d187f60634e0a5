//! A profile of RDMA as comma-separated values (RFC 4180): a line for each run, modelled and measured ones alike.

use super::document::{CellResult, Profile, Run};
use super::published;
use crate::profile::csv::quoted;
use crate::profile::document::Kind;
use std::fmt::Write;

/// A column: its name, unit included, and what stands in it.
type Column = (&'static str, fn(&CellResult, &Run) -> String);

const COLUMNS: [Column; 25] = [
    ("path", |at, _| at.cell.path.name.clone()),
    ("rtt_ns", |at, _| at.cell.path.rtt_ns.as_nanos().to_string()),
    ("port", |at, _| at.cell.signal.name().to_owned()),
    ("transport", |at, _| at.cell.transport.name().to_owned()),
    ("way", |at, _| at.cell.way.name().to_owned()),
    ("setup", |at, _| at.cell.setup.name().to_owned()),
    ("size_bytes", |at, _| at.cell.size_bytes.0.to_string()),
    ("queue_pairs", |at, _| at.cell.queue_pairs.to_string()),
    ("credits_bytes", |at, _| at.cell.credits_bytes.map_or_else(String::new, |credits| credits.0.to_string())),
    ("cross_bps", |at, _| at.cell.cross_bps.as_bps().to_string()),
    ("queue_bytes", |at, _| at.cell.queue_bytes.map_or_else(String::new, |queue| queue.0.to_string())),
    ("run", |_, run| run.index.to_string()),
    ("seed", |_, run| run.seed.to_string()),
    ("throughput_bps", |_, run| run.throughput_bps.as_bps().to_string()),
    ("round_trip_ns", |_, run| run.round_trip_ns.map_or_else(String::new, |span| span.as_nanos().to_string())),
    ("packets_again", |_, run| run.again.to_string()),
    ("packets_lost", |_, run| run.lost.to_string()),
    ("timeouts", |_, run| run.timeouts.to_string()),
    ("broken", |_, run| run.broken.to_string()),
    ("sent_bps", |_, run| run.sent_bps.map_or_else(String::new, |rate| rate.as_bps().to_string())),
    ("messages", |_, run| run.messages.map_or_else(String::new, |count| count.to_string())),
    ("packets_sent", |_, run| run.packets.map_or_else(String::new, |(sent, _)| sent.to_string())),
    ("packets_received", |_, run| run.packets.map_or_else(String::new, |(_, received)| received.to_string())),
    ("connect_ns", |_, run| run.connect_ns.map_or_else(String::new, |span| span.as_nanos().to_string())),
    ("invalid", |_, run| run.invalid.clone().unwrap_or_default()),
];

impl Profile {
    /// Every run in a line of its own below a line of names; `kind` says whether it was modelled or measured, `published_gbps` what the
    /// paper prints for its cell.
    pub fn csv(&self) -> String {
        let mut text = format!("{},kind,published_gbps\r\n", COLUMNS.map(|(name, _)| name).join(","));
        for result in &self.cells {
            let printed = published::of(&self.grid.name, &result.cell).map_or_else(String::new, |gbps| gbps.to_string());
            for (kind, name) in [(Kind::Modelled, "modelled"), (Kind::Measured, "measured")] {
                for run in result.runs(kind) {
                    let fields = COLUMNS.map(|(_, field)| quoted(field(result, run)));
                    // Writing to a string does not fail.
                    let _ = write!(text, "{},{name},{printed}\r\n", fields.join(","));
                }
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::presets::preset;
    use super::*;
    use crate::profile::grid::Form;

    #[test]
    fn a_line_for_each_run_has_a_field_for_each_name_and_what_the_paper_prints() {
        let grid = preset("sc08-ib-distance", Form::Quick).expect("its paths are known").expect("a preset");
        let mut profile = Profile::new(grid, "");
        profile.run();
        let text = profile.csv();
        let lines: Vec<&str> = text.split_terminator("\r\n").collect();
        assert_eq!(lines.len(), 1 + profile.cells.len());
        assert!(lines.iter().all(|line| line.split(',').count() == COLUMNS.len() + 2), "{}", lines[1]);
        let far = lines.iter().find(|line| line.starts_with("usn-8600,163000000,sdr,RC,one way,rdma_cm,8388608,1,,0,"));
        assert!(far.is_some_and(|line| line.ends_with(",modelled,7.34")), "{far:?}");
    }
}

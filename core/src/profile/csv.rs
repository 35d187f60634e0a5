//! A profile as comma-separated values (RFC 4180): a line for each repetition, for a spreadsheet or a data frame.

use super::document::{CellResult, Profile, Repetition};
use std::fmt::Write;

/// A column: its name, unit included, and what stands in it.
type Column = (&'static str, fn(&CellResult, &Repetition) -> String);

const COLUMNS: [Column; 38] = [
    ("path", |at, _| at.cell.path.name.clone()),
    ("rtt_ns", |at, _| at.cell.path.rtt_ns.as_nanos().to_string()),
    ("rate_bps", |at, _| at.cell.path.rate_bps.as_bps().to_string()),
    ("queue_bytes", |at, _| at.cell.path.queue_bytes.0.to_string()),
    ("congestion", |at, _| at.cell.congestion.to_string()),
    ("set", |at, _| at.cell.set.to_string()),
    ("streams", |at, _| at.cell.streams.to_string()),
    ("window_bytes", |at, _| at.cell.window_bytes.map_or_else(String::new, |window| window.0.to_string())),
    ("mtu_bytes", |at, _| at.cell.mtu.to_string()),
    ("cross_bps", |at, _| at.cell.cross_bps.as_bps().to_string()),
    ("loss", |at, _| at.cell.loss.to_string()),
    ("direction", |at, _| at.cell.direction.name().to_owned()),
    ("store", |at, _| at.cell.staged.map_or_else(String::new, |one| one.store.name().to_owned())),
    ("order", |at, _| at.cell.staged.map_or_else(String::new, |one| one.order.name().to_owned())),
    ("staging_bytes", |at, _| at.cell.staged.map_or_else(String::new, |one| one.staging_bytes.0.to_string())),
    ("hypothesis", |at, _| at.cell.hypothesis.clone().unwrap_or_default()),
    ("repetition", |_, one| one.index.to_string()),
    ("seed", |_, one| one.seed.to_string()),
    ("valid", |_, one| one.is_valid().to_string()),
    ("invalid_because", |_, one| one.invalid.clone().unwrap_or_default()),
    ("seconds", |_, one| one.seconds.to_string()),
    ("ramp_s", |_, one| one.ramp_s.to_string()),
    ("sender_bps", |_, one| one.whole.sender_bps.as_bps().to_string()),
    ("receiver_bps", |_, one| one.whole.receiver_bps.as_bps().to_string()),
    ("ramp_bps", |_, one| one.ramp.receiver_bps.as_bps().to_string()),
    ("steady_bps", |_, one| one.steady.receiver_bps.as_bps().to_string()),
    ("retransmits", |_, one| one.retransmits.to_string()),
    ("reductions", |_, one| one.reductions.to_string()),
    ("timeouts", |_, one| one.timeouts.to_string()),
    ("limited_by", |_, one| word(&one.limited_by)),
    ("fairness", |_, one| one.fairness.to_string()),
    ("recovery_s", |_, one| one.recovery_s.map_or_else(String::new, |seconds| seconds.to_string())),
    ("sender_cpu", |_, one| one.cpu.map_or_else(String::new, |(sender, _)| sender.to_string())),
    ("receiver_cpu", |_, one| one.cpu.map_or_else(String::new, |(_, receiver)| receiver.to_string())),
    ("seen_rtt_ns", |_, one| one.rtt_ns.map_or_else(String::new, |rtt| rtt.as_nanos().to_string())),
    ("link_late_p99_ns", |_, one| one.link.map_or_else(String::new, |link| link.late_p99_ns.as_nanos().to_string())),
    ("streams_bps", |_, one| list(&one.streams_bps)),
    ("samples_bps", |_, one| list(&one.samples_bps)),
];

impl Profile {
    /// Every repetition in a line of its own, invalid ones among them, below a line of names. Rates are what was measured: a scaled
    /// profile's are not multiplied. Lists stand in one field, with blanks between their numbers.
    pub fn csv(&self) -> String {
        let mut text = COLUMNS.map(|(name, _)| name).join(",");
        text.push_str("\r\n");
        for result in &self.cells {
            for one in &result.repetitions {
                let fields = COLUMNS.map(|(_, field)| quoted(field(result, one)));
                // Writing to a string does not fail.
                let _ = write!(text, "{}\r\n", fields.join(","));
            }
        }
        text
    }
}

/// As the document has it: a unit variant is a JSON string.
fn word(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|it| Some(it.as_str()?.to_owned())).unwrap_or_default()
}

fn list(rates: &[crate::units::Rate]) -> String {
    rates.iter().map(|rate| rate.as_bps().to_string()).collect::<Vec<_>>().join(" ")
}

/// RFC 4180, section 2: a field with a comma, a quote or a line end stands in quotes, its own quotes doubled.
pub(super) fn quoted(field: String) -> String {
    if field.contains([',', '"', '\r', '\n']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::Algorithm;
    use crate::profile::{Environment, Grid, Kind, PathPoint, Simulator};

    #[test]
    fn a_line_for_each_repetition_has_a_field_for_each_name_whatever_stands_in_it() {
        let path = PathPoint::named("usn-1400", None).expect("a path");
        let grid = Grid { streams: vec![1, 2], seconds: 4.0, ..Grid::new("custom", vec![path], vec![Algorithm::Cubic]) };
        let mut profile = Profile::new(grid, Kind::Modelled, Environment::default(), "").expect("a grid");
        profile.run(&mut Simulator, |_| true).expect("a model");
        profile.cells[0].repetitions[0].invalid = Some("late, by \"much\"".to_owned());
        let text = profile.csv();
        let lines: Vec<&str> = text.split_terminator("\r\n").collect();
        let repetitions: usize = profile.cells.iter().map(|cell| cell.repetitions.len()).sum();
        assert_eq!(lines.len(), 1 + repetitions);
        assert!(lines[1].starts_with("usn-1400,26800000,9290000000,") && lines[1].contains("false,\"late, by \"\"much\"\"\","));
        for line in &lines[2..] {
            assert_eq!(line.split(',').count(), COLUMNS.len(), "{line}");
        }
    }
}

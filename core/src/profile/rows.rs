//! Every repetition of a profile as a row of typed columns, invalid ones among them, for a
//! spreadsheet or a data frame.

use super::document::{CellResult, Profile};
use super::repetition::Repetition;
use crate::report::ColumnSource::{self, Flag, Real, Text, Whole, Wholes};
use crate::report::{ColumnValues, Columns};
use crate::units::Rate;

/// A repetition, and where it stands.
type Row<'a> = (&'a CellResult, &'a Repetition);

fn columns<'a>() -> Vec<(&'static str, ColumnSource<Row<'a>>)> {
    vec![
        ("path", Text(|(at, _)| Some(at.cell.path.name.clone()))),
        ("rtt_ns", Whole(|(at, _)| Some(at.cell.path.rtt_ns.as_nanos()))),
        ("rate_bps", Whole(|(at, _)| Some(at.cell.path.rate_bps.as_bps()))),
        ("queue_bytes", Whole(|(at, _)| Some(at.cell.path.queue_bytes.0))),
        ("congestion", Text(|(at, _)| Some(at.cell.control()?.to_string()))),
        ("set", Text(|(at, _)| Some(at.cell.set.to_string()))),
        ("streams", Whole(|(at, _)| Some(at.cell.streams.into()))),
        ("window_bytes", Whole(|(at, _)| at.cell.window_bytes.map(|window| window.0))),
        ("buffer_bytes", Whole(|(at, _)| at.cell.buffer_bytes.map(|buffer| buffer.0))),
        ("message_bytes", Whole(|(at, _)| at.cell.message_bytes.map(|message| message.0))),
        ("mtu_bytes", Whole(|(at, _)| Some(at.cell.mtu.into()))),
        ("cross_bps", Whole(|(at, _)| Some(at.cell.cross_bps.as_bps()))),
        ("loss", Real(|(at, _)| Some(at.cell.loss))),
        ("direction", Text(|(at, _)| Some(at.cell.direction.name().to_owned()))),
        ("store", Text(|(at, _)| at.cell.staged.map(|one| one.store.name().to_owned()))),
        ("order", Text(|(at, _)| at.cell.staged.map(|one| one.order.name().to_owned()))),
        ("driver", Text(|(at, _)| at.cell.staged.map(|one| one.driver.name().to_owned()))),
        ("staging_bytes", Whole(|(at, _)| at.cell.staged.map(|one| one.staging_bytes.0))),
        ("hypothesis", Text(|(at, _)| at.cell.hypothesis.clone())),
        ("repetition", Whole(|(_, one)| Some(one.index.into()))),
        ("seed", Whole(|(_, one)| Some(one.seed))),
        ("valid", Flag(|(_, one)| Some(one.is_valid()))),
        ("invalid_because", Text(|(_, one)| one.invalid.clone())),
        ("seconds", Real(|(_, one)| Some(one.seconds))),
        ("ramp_s", Real(|(_, one)| Some(one.ramp_s))),
        ("sender_bps", Whole(|(_, one)| one.whole.sender_bps.map(|rate| rate.as_bps()))),
        ("receiver_bps", Whole(|(_, one)| Some(one.whole.receiver_bps.as_bps()))),
        ("ramp_bps", Whole(|(_, one)| Some(one.ramp.receiver_bps.as_bps()))),
        ("steady_bps", Whole(|(_, one)| Some(one.steady.receiver_bps.as_bps()))),
        ("retransmits", Whole(|(_, one)| Some(one.retransmits))),
        ("reductions", Whole(|(_, one)| one.reductions)),
        ("timeouts", Whole(|(_, one)| one.timeouts)),
        ("limited_by", Text(|(_, one)| word(&one.limited_by))),
        ("fairness", Real(|(_, one)| one.fairness)),
        ("recovery_s", Real(|(_, one)| one.recovery_s)),
        ("sender_cpu", Real(|(_, one)| one.cpu.map(|(sender, _)| sender))),
        ("receiver_cpu", Real(|(_, one)| one.cpu.map(|(_, receiver)| receiver))),
        ("seen_rtt_ns", Whole(|(_, one)| one.rtt_ns.map(|rtt| rtt.as_nanos()))),
        ("link_late_p99_ns", Whole(|(_, one)| one.link.map(|link| link.late_p99_ns.as_nanos()))),
        ("streams_bps", Wholes(|(_, one)| list(&one.streams_bps))),
        ("samples_bps", Wholes(|(_, one)| list(&one.samples_bps))),
    ]
}

impl Profile {
    /// Every repetition in a row of its own, invalid ones among them. Rates and sizes are what was
    /// measured: those of a scaled profile are not multiplied, and its `scale` says by how much
    /// they were divided. `kind` tells the model from a measurement.
    pub(super) fn rows(&self) -> Columns {
        let rows: Vec<Row<'_>> = self
            .cells
            .iter()
            .flat_map(|result| result.repetitions.iter().map(move |one| (result, one)))
            .collect();
        let about = vec![
            ("schema", self.schema.clone()),
            ("kind", word(&self.kind).unwrap_or_default()),
            ("farline", self.farline.clone()),
            ("date", self.date.clone()),
            ("grid", self.grid.name.clone()),
            ("grid_hash", self.grid_hash.clone()),
            ("scale", self.grid.scale.to_string()),
        ];
        let mut table = Columns::of(about, &rows, &columns());
        // In every row: a table is read next to others, without what its file says of it.
        let kind = ColumnValues::Text(vec![word(&self.kind); rows.len()]);
        let scale = ColumnValues::Whole(vec![Some(self.grid.scale.into()); rows.len()]);
        table.columns.splice(0..0, [("kind", kind), ("scale", scale)]);
        table
    }
}

/// As the document has it: a unit variant is a JSON string.
pub(super) fn word(value: &impl serde::Serialize) -> Option<String> {
    serde_json::to_value(value).ok().and_then(|it| Some(it.as_str()?.to_owned()))
}

fn list(rates: &[Rate]) -> Vec<u64> {
    rates.iter().map(|rate| rate.as_bps()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::Algorithm;
    use crate::experiment::Document;
    use crate::profile::{Environment, Grid, PathPoint, ProfileKind, Simulator};
    use crate::report::ReportDocument;

    #[test]
    fn each_repetitions_row_has_a_field_for_every_name() {
        let path = PathPoint::named("usn-1400", None).expect("a path");
        let grid = Grid {
            streams: vec![1, 2],
            seconds: 4.0,
            ..Grid::new("custom", vec![path], vec![Algorithm::Cubic])
        };
        let mut profile = Profile::modelled(grid);
        profile.cells[0].repetitions[0].invalid = Some("late, by \"much\"".to_owned());
        let table = profile.columns();
        let text = table.csv();
        let lines: Vec<&str> = text.split_terminator("\r\n").collect();
        let repetitions: usize = profile.cells.iter().map(|cell| cell.repetitions.len()).sum();
        assert_eq!(lines.len(), 1 + repetitions);
        assert!(table.columns.iter().all(|(_, values)| values.rows() == repetitions));
        assert!(lines[0].starts_with("kind,scale,path,rtt_ns,rate_bps,"), "{}", lines[0]);
        assert!(
            lines[1].starts_with("modelled,1,usn-1400,26800000,9290000000,")
                && lines[1].contains("false,\"late, by \"\"much\"\"\",")
        );
        for line in &lines[2..] {
            assert_eq!(line.split(',').count(), table.columns.len(), "{line}");
        }
    }
    #[test]
    fn a_scaled_profiles_row_says_that_its_rates_are_scaled() {
        let path = PathPoint::named("usn-1400", None).expect("a path");
        let grid = Grid {
            mtus: vec![9_000],
            seconds: 4.0,
            ..Grid::new("custom", vec![path], vec![Algorithm::Cubic])
        };
        let grid = grid.scaled(6).expect("9000 by 6");
        let mut profile =
            Profile::new(grid, ProfileKind::Measured, Environment::default(), "").expect("a grid");
        profile.run(&mut Simulator, |_| true).expect("a model");
        assert!(
            profile
                .columns()
                .csv()
                .lines()
                .skip(1)
                .all(|line| line.starts_with("measured,6,usn-1400,26800000,1548333333,"))
        );
    }
}

//! What leaves a port into which several hosts send at the same time, second by second (the
//! Trans-European 10GbE paper, figure 5).

use super::raw::RawRow;
use super::seconds::TestedSecond;
use crate::report::{Axis, LineChart, Section, Series, TableSpec};
use crate::units::Rate;

/// Hosts that send into one port.
#[derive(Clone, Debug, PartialEq)]
pub struct RawPort {
    /// What the port's line carries, on the wire.
    pub rate: Rate,
    /// What each host's test came to, and its seconds.
    pub senders: Vec<(RawRow, Vec<TestedSecond>)>,
}

impl RawPort {
    /// Messages of all hosts that came, in per cent of the line's rate.
    pub fn percent(&self) -> f64 {
        let sum: f64 = self.senders.iter().map(|(row, _)| row.throughput_bps()).sum();
        sum / self.rate.as_bps().max(1) as f64 * 100.0
    }

    /// Bits of messages that came of what a host sent in each second, in Mbit/s.
    fn came((row, seconds): &(RawRow, Vec<TestedSecond>)) -> Vec<(f64, f64)> {
        let bits = f64::from(row.message_bytes) * 8.0;
        let of = |second: &TestedSecond| {
            let frames = second.sent.saturating_sub(second.lost) as f64;
            (second.second as f64, frames * bits / 1e6)
        };
        seconds.iter().map(of).collect()
    }

    /// The table, and the rate at the port's output over time.
    pub fn section(&self) -> Section {
        let came: Vec<Vec<(f64, f64)>> = self.senders.iter().map(RawPort::came).collect();
        let last = came.iter().flatten().map(|point| point.0).fold(0.0, f64::max);
        let at = |second: f64| -> f64 {
            came.iter().flatten().filter(|point| point.0 == second).map(|point| point.1).sum()
        };
        let together = (0..=last as u64).map(|second| (second as f64, at(second as f64)));
        let line = self.rate.as_bps() as f64 / 1e6;
        let mut series = vec![
            Series::new("the line's rate, with preamble and gap", [(0.0, line), (last, line)]),
            Series::new("all together", together),
        ];
        for (n, points) in came.iter().enumerate() {
            series.push(Series::new(format!("host {}", n + 1), points.iter().copied()));
        }
        let rows = self.senders.iter().enumerate().map(|(n, (row, _))| (n + 1, *row));
        let table = TableSpec::new()
            .figures("Host", |row: &(usize, RawRow)| row.0.to_string())
            .figures("Sent, frames", |row| row.1.sent.to_string())
            .figures("Came", |row| row.1.received.to_string())
            .figures("Lost in the port", |row| row.1.lost.to_string())
            .figures("Mbit/s", |row| format!("{:.1}", row.1.throughput_bps() / 1e6));
        let title = format!("{} hosts into one port", self.senders.len());
        Section::new(title)
            .text(format!(
                "Together they are to send more than the line carries; what came is {:.2} % of {}.",
                self.percent(),
                self.rate
            ))
            .table(table.of(rows))
            .chart(LineChart::new(
                "Rate at the port's output",
                Axis::new("Time", "s"),
                Axis::new("Messages that came", "Mbit/s"),
                series,
            ))
            .note(
                "A point is what came of the frames sent in that second; hosts begin and end within \
                 a second, so that the first and the last have less.",
            )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_of_all_hosts_is_added_up_second_by_second() {
        let row = RawRow {
            frame_bytes: 1_018,
            message_bytes: 1_000,
            seconds: 2.0,
            sent: 2_000,
            sender_drops: 0,
            received: 1_500,
            receiver_drops: 0,
            lost: 500,
            wrong_bits: 0,
            sender_cpu_seconds: 0.1,
            sent_by: None,
            taken_by: None,
        };
        let second = |second, lost| TestedSecond {
            second,
            sent: 1_000,
            lost,
            wrong_frames: 0,
            wrong_bits: 0,
            untested: None,
        };
        let seconds = vec![second(0, 200), second(1, 300)];
        let port = RawPort {
            rate: Rate::from_bps(12_000_000),
            senders: vec![(row, seconds.clone()), (row, seconds)],
        };
        assert_eq!(RawPort::came(&port.senders[0]), [(0.0, 6.4), (1.0, 5.6)]);
        assert_eq!(port.percent(), 100.0);
        let plain = port.section().plain();
        assert!(plain.contains("100.00 % of"), "{plain}");
    }
}

//! Frames as fast as a host can send them, by size: throughput, what it costs, and where frames
//! that did not come were lost (the Trans-European 10GbE paper, figures 4 and 5).

use super::document::LineTest;
use super::read::read;
use super::way::FrameWay;
use crate::report::{
    Axis, ColumnSource, Columns, LineChart, PageSpec, ReportDocument, Section, Series, TableSpec,
};
use crate::units::Error;
use crate::wan::frames::{FCS, HEADER};
use serde::{Deserialize, Serialize};

/// What came of one size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RawRow {
    /// Bytes from Ethernet header to FCS, without VLAN tag.
    pub frame_bytes: u32,
    /// Those that a program writes or reads as one message: without header and FCS.
    pub message_bytes: u32,
    /// How long was sent, or came where that took longer: what a queue on the way still holds at
    /// the end comes no faster than the line carries it.
    pub seconds: f64,
    /// Frames that the sender gave to its kernel.
    pub sent: u64,
    /// Those that the sender's queue or device dropped.
    pub sender_drops: u64,
    /// Those that came.
    pub received: u64,
    /// Those that came and found no room in the receiver's device, ring or socket.
    pub receiver_drops: u64,
    /// Those that neither end dropped, and that did not come: the line's.
    pub lost: u64,
    /// Frames whose payload was not what was sent.
    pub wrong_bits: u64,
    /// Processor time of the thread that sent.
    pub sender_cpu_seconds: f64,
    /// By which way they left the sender's kernel.
    #[serde(default)]
    pub sent_by: Option<FrameWay>,
    /// By which way the receiver took them.
    #[serde(default)]
    pub taken_by: Option<FrameWay>,
}

impl RawRow {
    /// Of a test of frames of one size that is over.
    pub fn of(test: &LineTest) -> RawRow {
        let frame_bytes = test.settings.frames.turn.first().map_or(0, |kind| kind.frame_bytes);
        let (sender, totals) = (&test.sender, &test.totals);
        let receiver_drops = receiver_drops(test);
        let known = totals.received + sender.own_drops + receiver_drops;
        RawRow {
            frame_bytes,
            message_bytes: frame_bytes - ((HEADER + FCS) as u32).min(frame_bytes),
            seconds: sender.took_ns.max(totals.came_ns) as f64 / 1e9,
            sent: sender.frames,
            sender_drops: sender.own_drops,
            received: totals.received,
            receiver_drops,
            lost: sender.frames.saturating_sub(known),
            wrong_bits: totals.wrong_bits,
            sender_cpu_seconds: sender.cpu_ns as f64 / 1e9,
            sent_by: sender.way,
            taken_by: totals.way,
        }
    }

    /// Bits of messages that came in a second.
    pub fn throughput_bps(&self) -> f64 {
        self.frames_a_second() * f64::from(self.message_bytes) * 8.0
    }

    /// Frames that came in a second.
    pub fn frames_a_second(&self) -> f64 {
        self.received as f64 / self.seconds.max(1e-9)
    }

    /// Nanoseconds of processor time that a frame took to send.
    pub fn ns_a_frame(&self) -> f64 {
        self.sender_cpu_seconds * 1e9 / self.sent.max(1) as f64
    }
}

/// What the receiver's ring or socket had no room for, and its device before that.
fn receiver_drops(test: &LineTest) -> u64 {
    let totals = &test.totals;
    totals.own_drops + totals.device_drops.unwrap_or_default().missed
}

/// A run over several sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RawDocument {
    /// `farline/line-raw/1`.
    pub schema: String,
    /// Farline's version.
    pub farline: String,
    /// When it ended, UTC.
    pub date: String,
    /// The other end, as it was given.
    pub target: String,
    /// A row for each size, in the order of the run.
    pub rows: Vec<RawRow>,
}

impl RawDocument {
    /// Its schema.
    pub const SCHEMA: &'static str = "farline/line-raw/1";

    /// Reads a document.
    ///
    /// # Errors
    /// [`Fault::You`](crate::units::Fault::You) when it is none.
    pub fn read(json: &str) -> Result<RawDocument, Error> {
        read(json, "raw test", RawDocument::SCHEMA, |document: &RawDocument| &document.schema)
    }

    /// The row of the largest throughput.
    pub fn best(&self) -> Option<&RawRow> {
        self.rows.iter().max_by(|a, b| a.throughput_bps().total_cmp(&b.throughput_bps()))
    }

    /// By which way frames of which sizes left and came.
    fn ways(&self) -> Vec<String> {
        let mut ways: Vec<(FrameWay, FrameWay, Vec<String>)> = Vec::new();
        for row in &self.rows {
            let (Some(sent), Some(taken)) = (row.sent_by, row.taken_by) else { continue };
            let size = row.frame_bytes.to_string();
            match ways.iter_mut().find(|way| (way.0, way.1) == (sent, taken)) {
                Some((_, _, sizes)) => sizes.push(size),
                None => ways.push((sent, taken, vec![size])),
            }
        }
        let said = |(sent, taken, sizes): (FrameWay, FrameWay, Vec<String>)| {
            format!("Frames of {} B: sent by {sent}, taken by {taken}.", sizes.join(", "))
        };
        ways.into_iter().map(said).collect()
    }

    /// The table, and the curve where there are several sizes.
    pub fn section(&self) -> Section {
        let table = TableSpec::new()
            .figures("Frame, B", |row: &RawRow| row.frame_bytes.to_string())
            .figures("Mbit/s", |row| format!("{:.1}", row.throughput_bps() / 1e6))
            .figures("Frames/s", |row| format!("{:.0}", row.frames_a_second()))
            .figures("CPU ns each", |row| format!("{:.0}", row.ns_a_frame()))
            .figures("Lost by the line", |row| row.lost.to_string())
            .figures("by the sender", |row| row.sender_drops.to_string())
            .figures("by the receiver", |row| row.receiver_drops.to_string());
        let points =
            self.rows.iter().map(|row| (f64::from(row.message_bytes), row.throughput_bps() / 1e9));
        let chart = LineChart::new(
            "Throughput by message size",
            Axis::new("Message", "B"),
            Axis::new("Throughput", "Gbit/s"),
            vec![Series::new("messages that came", points)],
        );
        let section = Section::new("Frames as fast as this host sends them")
            .table(table.of(self.rows.iter().copied()));
        let section = if self.rows.len() > 1 { section.chart(chart) } else { section };
        let section = self.ways().into_iter().fold(section, Section::text);
        section.note(
            "Throughput is of messages: frames without header and FCS. What an end dropped itself \
             is told apart from what the line lost; it is no property of the line.",
        )
    }
}

impl ReportDocument for RawDocument {
    fn spec(&self) -> PageSpec {
        PageSpec {
            title: format!("Raw Ethernet to {}", self.target),
            lead: format!("Farline {}, {}.", self.farline, self.date),
            sections: vec![Some(self.section())],
            source: (RawDocument::SCHEMA.to_owned(), String::new()),
        }
    }

    /// A row for each size.
    fn columns(&self) -> Columns {
        let about = vec![
            ("schema", self.schema.clone()),
            ("farline", self.farline.clone()),
            ("date", self.date.clone()),
            ("target", self.target.clone()),
        ];
        Columns::of(
            about,
            &self.rows,
            &[
                ("frame_bytes", ColumnSource::Whole(|row| Some(row.frame_bytes.into()))),
                ("message_bytes", ColumnSource::Whole(|row| Some(row.message_bytes.into()))),
                ("seconds", ColumnSource::Real(|row| Some(row.seconds))),
                ("sent", ColumnSource::Whole(|row| Some(row.sent))),
                ("sender_drops", ColumnSource::Whole(|row| Some(row.sender_drops))),
                ("received", ColumnSource::Whole(|row| Some(row.received))),
                ("receiver_drops", ColumnSource::Whole(|row| Some(row.receiver_drops))),
                ("lost", ColumnSource::Whole(|row| Some(row.lost))),
                ("wrong_bits", ColumnSource::Whole(|row| Some(row.wrong_bits))),
                ("sender_cpu_seconds", ColumnSource::Real(|row| Some(row.sender_cpu_seconds))),
                ("sent_by", ColumnSource::Text(|row| Some(row.sent_by?.name().to_owned()))),
                ("taken_by", ColumnSource::Text(|row| Some(row.taken_by?.name().to_owned()))),
                ("throughput_bps", ColumnSource::Real(|row| Some(row.throughput_bps()))),
            ],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::seconds::SenderTotals;
    use super::super::settings::LineSettings;
    use super::super::{FrameMix, Pattern, ReceiveDrops, TallyTotals};
    use super::*;
    use crate::units::Rate;

    fn test(frame_bytes: u32) -> LineTest {
        let settings = LineSettings {
            target: "02:00:00:77:00:02".to_owned(),
            rate: Rate::default(),
            load_percent: 100.0,
            frames: FrameMix::fixed(frame_bytes, Pattern::Cjpat),
            ethernet: None,
            burst: 64,
            criterion: None,
            confidence: 0.95,
            loss_burst: 1.0,
            most_seconds: 2,
            most_frames: None,
        };
        let mut test = LineTest::new(settings, true);
        test.sender = SenderTotals {
            frames: 1_000,
            own_drops: 100,
            device_drops: None,
            cpu_ns: 1_500_000_000,
            took_ns: 2_000_000_000,
            way: Some(FrameWay::XdpProgram),
        };
        test.totals = TallyTotals { received: 800, own_drops: 70, ..TallyTotals::default() };
        test.totals.way = Some(FrameWay::PacketRing);
        test
    }

    #[test]
    fn what_neither_end_dropped_is_the_lines() {
        let row = RawRow::of(&test(1_518));
        assert_eq!((row.lost, row.sender_drops, row.receiver_drops), (30, 100, 70));
        assert_eq!((row.message_bytes, row.frames_a_second()), (1_500, 400.0));
        assert_eq!((row.throughput_bps(), row.ns_a_frame()), (4_800_000.0, 1_500_000.0));
    }

    #[test]
    fn what_a_device_missed_is_the_receivers() {
        let mut test = test(1_518);
        let missed = ReceiveDrops { missed: 11, ..ReceiveDrops::default() };
        test.totals.device_drops = Some(missed);
        assert_eq!((RawRow::of(&test).receiver_drops, RawRow::of(&test).lost), (81, 19));
        // The socket counts what it has no room for; a backlog's may be of other devices.
        test.totals.device_drops = Some(ReceiveDrops { dropped: 75, backlog: 1_000, ..missed });
        assert_eq!((RawRow::of(&test).receiver_drops, RawRow::of(&test).lost), (81, 19));
    }

    #[test]
    fn what_a_queue_still_held_comes_no_faster_than_the_line() {
        let mut test = test(1_518);
        test.totals.came_ns = 2_500_000_000;
        assert_eq!(RawRow::of(&test).frames_a_second(), 320.0);
    }

    #[test]
    fn a_document_comes_back_and_names_its_best_size() {
        let rows = [64, 9_018].map(|size| RawRow::of(&test(size))).to_vec();
        let document = RawDocument {
            schema: RawDocument::SCHEMA.to_owned(),
            farline: "0".to_owned(),
            date: "today".to_owned(),
            target: "02:00:00:77:00:02".to_owned(),
            rows,
        };
        let json = serde_json::to_string(&document).expect("JSON");
        assert_eq!(RawDocument::read(&json).as_ref(), Ok(&document));
        assert_eq!(document.best().map(|row| row.frame_bytes), Some(9_018));
        assert!(RawDocument::read("{}").is_err());
        assert_eq!(document.columns().csv().lines().count(), 3);
        let html = document.page(&[]).html();
        assert!(html.contains("Throughput by message size") && html.contains("9018"), "{html}");
        let way =
            "Frames of 64, 9018 B: sent by an XDP program in the kernel, taken by a packet ring.";
        assert!(html.contains(way), "{html}");
        assert!(json.contains("\"taken_by\":\"packet_ring\""), "{json}");
    }
}

//! Load frames: what the sender writes into them, and what the receiver makes of them.

use super::frames::{FrameKind, frame_of_payload};
use super::header::{HEADER_BYTES, LoadHeader, unwrapped};
use super::pattern::{Pattern, wrong_bits};
use super::tally::{Arrived, Tally};

/// Microseconds of a second of the test.
const SECOND_US: u64 = 1_000_000;

/// Writes the frames of one test, in the order of their numbers.
#[derive(Clone, Debug)]
pub struct LoadWriter {
    session: u64,
    next: u64,
    tables: PatternTables,
}

/// What is the same in all frames of a kind and a test, and what their numbers and times add to the
/// check: for a sender that does not call [`LoadWriter::write`] for each.
#[derive(Clone, Debug)]
pub struct LoadTemplate {
    /// A frame's payload with number and time 0.
    pub payload: Vec<u8>,
    /// How byte 4 + `k` of the payload changes the check when it is `b`: by an exclusive or with
    /// `checks[k][b]`, as a CRC is linear. Bytes 4 to 7 are the number and 8 to 11 the time, from
    /// the highest byte on, and 12 to 15 the check.
    pub checks: Box<[[u32; 256]; LoadTemplate::CHANGED]>,
}

impl LoadTemplate {
    /// Bytes that change from frame to frame, before the check.
    pub const CHANGED: usize = 8;
}

/// Reads the frames of one test and counts them.
#[derive(Clone, Debug)]
pub struct LoadReader {
    session: u64,
    tables: PatternTables,
    is_compared: bool,
    last_us: u64,
    /// The account.
    pub tally: Tally,
}

/// The bytes of patterns, made when they are first needed.
#[derive(Clone, Debug, Default)]
struct PatternTables([Option<Box<[u8]>>; Pattern::ALL.len()]);

impl PatternTables {
    /// The payload of `len` bytes of frame `sequence`.
    fn payload(&mut self, pattern: Pattern, sequence: u64, len: usize) -> &[u8] {
        let table = self.0[usize::from(pattern.number())]
            .get_or_insert_with(|| pattern.bytes().into_boxed_slice());
        let place = pattern.place(sequence, table.len());
        &table[place..place + len]
    }
}

impl LoadWriter {
    /// Of the test `session`, whose next frame is `next`.
    pub fn new(session: u64, next: u64) -> LoadWriter {
        LoadWriter { session, next, tables: PatternTables::default() }
    }

    /// How many frames were written, from the test's begin on.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// What frames of `len` bytes of this kind have in common; `None` where each carries another
    /// part of its pattern.
    pub fn template(&mut self, kind: FrameKind, len: usize) -> Option<LoadTemplate> {
        if !kind.pattern.is_constant() {
            return None;
        }
        let mut payload = vec![0; len];
        let (tag, pattern) = (self.session as u16, kind.pattern);
        let head = LoadHeader { pattern, tag, sequence: 0, sent_us: 0 };
        head.write(self.session, &mut payload);
        let rest = len - HEADER_BYTES;
        payload[HEADER_BYTES..].copy_from_slice(self.tables.payload(pattern, 0, rest));
        Some(LoadTemplate { checks: head.check_changes(self.session), payload })
    }

    /// Others wrote the next `frames`, by a [`LoadTemplate`].
    pub fn skip(&mut self, frames: u64) {
        self.next += frames;
    }

    /// The last `frames` were not sent: others have their numbers.
    pub fn take_back(&mut self, frames: u64) {
        self.next = self.next.saturating_sub(frames);
    }

    /// Writes the next frame's payload, sent `sent_us` microseconds after the test began. Where
    /// `is_filled`, a frame of this kind stood there before.
    pub fn write(&mut self, kind: FrameKind, sent_us: u64, is_filled: bool, into: &mut [u8]) {
        let (sequence, pattern) = (self.next, kind.pattern);
        self.next += 1;
        let header = LoadHeader {
            pattern,
            tag: self.session as u16,
            sequence: sequence as u32,
            sent_us: sent_us as u32,
        };
        header.write(self.session, into);
        if !(is_filled && pattern.is_constant()) {
            let len = into.len() - HEADER_BYTES;
            into[HEADER_BYTES..].copy_from_slice(self.tables.payload(pattern, sequence, len));
        }
    }
}

impl LoadReader {
    /// Of the test `session`, `at_us` microseconds after it began; without comparing, only numbers
    /// are looked at.
    pub fn new(session: u64, at_us: u64, is_compared: bool) -> LoadReader {
        let tally = if at_us == 0 { Tally::new() } else { Tally::midway() };
        let tables = PatternTables::default();
        LoadReader { session, tables, is_compared, last_us: at_us, tally }
    }

    /// Counts what came, if it is a frame of this test; returns whether it is.
    pub fn take(&mut self, payload: &[u8], after_own_drops: bool) -> bool {
        let Some((header, wrong_in_header)) = LoadHeader::read(self.session, payload) else {
            return false;
        };
        let sequence = unwrapped(header.sequence, self.tally.next());
        let sent_us = unwrapped(header.sent_us, self.last_us);
        self.last_us = self.last_us.max(sent_us);
        let mut arrived = Arrived {
            sequence,
            second: sent_us / SECOND_US,
            compared_bits: 8 * HEADER_BYTES as u64,
            wrong_bits: u64::from(wrong_in_header),
            after_own_drops,
        };
        if self.is_compared {
            let came = &payload[HEADER_BYTES..];
            let expected = self.tables.payload(header.pattern, sequence, came.len());
            arrived.compared_bits += 8 * came.len() as u64;
            arrived.wrong_bits += wrong_bits(came, expected);
        }
        self.tally.arrive(&arrived);
        true
    }
}

/// Bits from Ethernet header to FCS of the frame that carries `payload` bytes by UDP.
pub fn framed_bits(payload: usize, is_ipv6: bool) -> u64 {
    8 * frame_of_payload(payload, is_ipv6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::FrameMix;
    use crate::units::Rng;

    #[test]
    fn a_patched_template_is_what_the_writer_writes() {
        let mut rng = Rng::new(3);
        for size in [64, 1_518] {
            let kind = FrameMix::fixed(size, Pattern::Cjpat).turn[0];
            let mut writer = LoadWriter::new(rng.next_u64(), rng.next_u64());
            let template = writer.template(kind, size as usize - 20).expect("a constant pattern");
            for _ in 0..100 {
                let (sequence, us) = (writer.next(), rng.next_u64());
                let mut written = vec![0; template.payload.len()];
                writer.write(kind, us, false, &mut written);
                let mut patched = template.payload.clone();
                patched[4..8].copy_from_slice(&(sequence as u32).to_be_bytes());
                patched[8..12].copy_from_slice(&(us as u32).to_be_bytes());
                let changes = template.checks.iter().zip(&patched[4..12]);
                let change = changes.fold(0, |sum, (by, byte)| sum ^ by[usize::from(*byte)]);
                for (byte, change) in patched[12..16].iter_mut().zip(change.to_be_bytes()) {
                    *byte ^= change;
                }
                assert_eq!(patched, written, "frame {sequence} at {us}");
                writer.skip(7);
            }
        }
        let changing = FrameMix::fixed(64, Pattern::Prbs7).turn[0];
        assert!(LoadWriter::new(1, 0).template(changing, 44).is_none());
    }

    #[test]
    fn every_flipped_bit_of_every_pattern_is_found() {
        for pattern in Pattern::ALL {
            let kind = FrameMix::fixed(1_518, pattern).turn[0];
            let (mut writer, mut reader) = (LoadWriter::new(5, 0), LoadReader::new(5, 0, true));
            let mut frame = vec![0; kind.payload_bytes(false)];
            for n in 0..100_u64 {
                writer.write(kind, n * 20_000, n > 0, &mut frame);
                let mut came = frame.clone();
                if n % 10 == 3 {
                    came[(n as usize * 13) % 1_472] ^= 1 << (n % 8);
                }
                assert!(reader.take(&came, false), "{pattern} {n}");
            }
            let totals = reader.tally.totals(Some(100));
            assert_eq!((totals.received, totals.wrong_bits, totals.runs.lost), (100, 10, 0));
            let rows = reader.tally.rows(0, 9);
            assert_eq!(rows.iter().map(|row| row.received).collect::<Vec<_>>(), [50, 50]);
            assert_eq!(rows[0].compared_bits, 50 * 1_472 * 8);
        }
    }

    #[test]
    fn a_reader_that_comes_midway_counts_nothing_before() {
        let kind = FrameMix::fixed(64, Pattern::Crpat).turn[0];
        let (at_us, first) = (9_000_000_000_u64, 5_000_000_000_u64);
        let mut writer = LoadWriter::new(5, first);
        let mut reader = LoadReader::new(5, at_us, true);
        let mut frame = [0; 18];
        for n in 0..5 {
            writer.write(kind, at_us + n, false, &mut frame);
            assert!(reader.take(&frame, false));
        }
        assert_eq!(reader.tally.last_second(), 9_000);
        assert_eq!(reader.tally.totals(None).runs.lost, 0);
    }

    #[test]
    fn another_tests_frames_are_not_counted() {
        let mut frame = [0; 18];
        let kind = FrameMix::fixed(64, Pattern::Crpat).turn[0];
        LoadWriter::new(6, 0).write(kind, 0, false, &mut frame);
        let mut reader = LoadReader::new(5, 0, true);
        assert!(!reader.take(&frame, false) && !reader.take(&[0xf1; 3], false));
        assert_eq!(reader.tally.totals(None).received, 0);
    }
}

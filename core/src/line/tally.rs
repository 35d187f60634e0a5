//! The receiver's account of a test: what came in each of the sender's seconds, in which order,
//! with how many wrong bits, and in which runs frames were lost.

use super::loss_sequence::LossEntry;
use super::open_losses::{OpenLosses, SettledFrames};
use super::receive_drops::ReceiveDrops;
use super::runs::LossRuns;
use super::way::FrameWay;
use super::window::{Place, Window};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Seconds that are kept for a sender that does not ask: an hour.
const ROWS: usize = 3_600;
/// A frame that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Its number, from 0 on.
    pub sequence: u64,
    /// The second of the test in which it was sent.
    pub second: u64,
    /// Bits of its payload that were compared.
    pub compared_bits: u64,
    /// Those that were wrong.
    pub wrong_bits: u64,
    /// Whether this host dropped packets since the one before.
    pub after_own_drops: bool,
}

/// What came of one second's frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecondRow {
    /// Which second of the test, from 0 on.
    pub second: u64,
    /// Frames that came, each counted once.
    pub received: u64,
    /// Those with a wrong bit.
    pub wrong_frames: u64,
    /// Their wrong bits.
    pub wrong_bits: u64,
    /// Bits that were compared.
    pub compared_bits: u64,
    /// Frames that came again.
    pub duplicates: u64,
    /// Frames that came after one that was sent after them (RFC 4737, section 3).
    pub reordered: u64,
    /// Whether the receiver dropped packets itself.
    pub has_own_drops: bool,
}

/// Everything that came so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TallyTotals {
    /// Frames that came, each counted once.
    pub received: u64,
    /// One above the highest number that came.
    pub next: u64,
    /// Frames that came again, and those so late that nobody knows.
    pub duplicates: u64,
    /// Frames that came after one that was sent after them.
    pub reordered: u64,
    /// By how many frames at most.
    pub longest_extent: u64,
    /// Wrong bits.
    pub wrong_bits: u64,
    /// Packets that came to the receiver and found no room in its socket or ring, whosever they
    /// were.
    #[serde(default)]
    pub own_drops: u64,
    /// Packets that came to the receiver's device and not to its socket, whosever they were, since
    /// the test began; absent where the receiver does not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_drops: Option<ReceiveDrops>,
    /// From when the receiver took the first frame to when it took the last, in nanoseconds; 0
    /// where it does not say.
    #[serde(default)]
    pub came_ns: u64,
    /// By which way the frames of a test without a pace came to it, where that can differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way: Option<FrameWay>,
    /// Runs of losses; where the sender says which seconds count, in those alone.
    pub runs: LossRuns,
}

impl TallyTotals {
    /// The same, and what a receiver that began anew counted after that.
    pub(super) fn followed_by(&self, next: &TallyTotals) -> TallyTotals {
        TallyTotals {
            received: self.received.saturating_add(next.received),
            next: self.next.max(next.next),
            duplicates: self.duplicates.saturating_add(next.duplicates),
            reordered: self.reordered.saturating_add(next.reordered),
            longest_extent: self.longest_extent.max(next.longest_extent),
            wrong_bits: self.wrong_bits.saturating_add(next.wrong_bits),
            own_drops: self.own_drops.saturating_add(next.own_drops),
            device_drops: ReceiveDrops::either(self.device_drops, next.device_drops),
            came_ns: self.came_ns.saturating_add(next.came_ns),
            way: next.way.or(self.way),
            runs: self.runs.followed_by(&next.runs),
        }
    }
}

/// The account.
#[derive(Clone, Debug)]
pub struct Tally {
    window: Window,
    losses: OpenLosses,
    rows: BTreeMap<u64, SecondRow>,
    totals: TallyTotals,
    last_second: u64,
    is_midway: bool,
}

impl Tally {
    /// An empty one.
    pub fn new() -> Tally {
        Tally {
            window: Window::new(),
            losses: OpenLosses::default(),
            rows: BTreeMap::new(),
            totals: TallyTotals::default(),
            last_second: 0,
            is_midway: false,
        }
    }

    /// An empty one of a test whose first frames others counted: it begins with the first that
    /// comes.
    pub fn midway() -> Tally {
        Tally { is_midway: true, ..Tally::new() }
    }

    /// The sender was away: what it sent before it came back, it does not know itself.
    pub fn go_on(&mut self) {
        self.is_midway = true;
    }

    /// Near what the number of the next frame is.
    pub fn next(&self) -> u64 {
        self.window.next()
    }

    /// The latest second of which a frame came.
    pub fn last_second(&self) -> u64 {
        self.last_second
    }

    /// Counts a frame.
    pub fn arrive(&mut self, arrived: &Arrived) {
        let Arrived { sequence, second, compared_bits, wrong_bits, after_own_drops } = *arrived;
        if std::mem::take(&mut self.is_midway) {
            self.window.begin_at(sequence, &mut self.losses);
            self.last_second = second;
        }
        if after_own_drops {
            self.window.own(sequence);
            self.note_own_seconds(self.last_second.min(second), self.last_second.max(second));
        }
        let place = self.window.mark(sequence, &mut self.losses);
        let is_again = matches!(place, Place::Again | Place::Forgotten);
        let late = if let Place::Late(extent) = place { Some(extent) } else { None };
        let row = self.row(second);
        if is_again {
            row.duplicates += 1;
            self.totals.duplicates += 1;
            return;
        }
        row.received += 1;
        row.compared_bits += compared_bits;
        row.wrong_bits += wrong_bits;
        row.wrong_frames += u64::from(wrong_bits > 0);
        row.reordered += u64::from(late.is_some());
        self.totals.received += 1;
        self.totals.wrong_bits += wrong_bits;
        if let Some(extent) = late {
            self.totals.reordered += 1;
            self.totals.longest_extent = self.totals.longest_extent.max(extent);
        }
        self.last_second = self.last_second.max(second);
    }

    /// The receiver dropped `packets` itself in the latest second, whosever they were.
    pub fn note_own_drops(&mut self, packets: u64) {
        self.totals.own_drops += packets;
        self.row(self.last_second).has_own_drops = true;
    }

    /// The receiver may have dropped packets in each second from `first` to `last`.
    pub fn note_own_seconds(&mut self, first: u64, last: u64) {
        for second in first..=last {
            self.row(second).has_own_drops = true;
        }
    }

    /// The sender says which frames count: those in whose second an end was not sure of itself are
    /// in no run.
    pub fn settle(&mut self, frames: &SettledFrames) {
        self.losses.settle(frames);
    }

    /// Below which number the sender has settled that.
    pub fn settled(&self) -> u64 {
        self.losses.settled()
    }

    /// The sender sent `sent` frames, and this host may have dropped the last of them itself.
    pub fn note_own_end(&mut self, sent: u64) {
        self.window.own(sent);
    }

    /// Those of the frames from `first` to `end` that have not come may have been dropped by this
    /// host.
    pub fn note_own_range(&mut self, first: u64, end: u64) {
        self.window.own_range(first, end);
    }

    /// Up to `most` rows from `since` on, in order.
    pub fn rows(&self, since: u64, most: usize) -> Vec<SecondRow> {
        self.rows.range(since..).take(most).map(|(_, row)| *row).collect()
    }

    /// Everything so far; losses behind the last that came count where the sender says how many it
    /// sent. Of frames of which it has not said yet whether they count, losses do.
    pub fn totals(&self, sent: Option<u64>) -> TallyTotals {
        let runs = self.window.decided(sent, &self.losses).into_all();
        TallyTotals { next: self.window.next(), runs, ..self.totals.clone() }
    }

    /// The number of the first of the latest losses from number `since` on, `most` of them at most,
    /// and these; once all is sent, those near the end too.
    pub fn losses(&self, since: u64, sent: Option<u64>, most: usize) -> (u64, Vec<LossEntry>) {
        match sent {
            Some(_) => self.totals(sent).runs.sequence.since(since, most),
            None => self.losses.runs().sequence.since(since, most),
        }
    }

    fn row(&mut self, second: u64) -> &mut SecondRow {
        while self.rows.len() >= ROWS && !self.rows.contains_key(&second) {
            self.rows.pop_first();
        }
        self.rows.entry(second).or_insert(SecondRow { second, ..SecondRow::default() })
    }
}

impl Default for Tally {
    fn default() -> Tally {
        Tally::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn came(sequence: u64, second: u64) -> Arrived {
        Arrived { sequence, second, compared_bits: 8, wrong_bits: 0, after_own_drops: false }
    }

    #[test]
    fn losses_runs_order_and_copies_are_counted_as_put_in() {
        let mut tally = Tally::new();
        // 3, 10 to 13 and 99 are lost, 20 comes after 22, 30 comes twice.
        let mut order: Vec<u64> =
            (0..100).filter(|n| ![3, 10, 11, 12, 13, 20, 99].contains(n)).collect();
        order.insert(order.iter().position(|n| *n == 23).expect("it is there"), 20);
        order.push(30);
        order.iter().for_each(|n| tally.arrive(&came(*n, n / 50)));
        let totals = tally.totals(Some(100));
        assert_eq!((totals.received, totals.duplicates, totals.reordered), (94, 1, 1));
        assert_eq!((totals.longest_extent, totals.next), (2, 99));
        let runs = &totals.runs;
        assert_eq!((runs.lost, runs.runs, runs.longest), (6, 3, 4));
        assert_eq!(runs.by_length, [2, 0, 1]);
        // 3 and 10 to 13 are 6 apart: one burst of 5; 99 is another.
        assert_eq!(runs.burst_squares, 26);
        assert_eq!(runs.counts.turned_bad, 3);
        assert_eq!(tally.totals(None).runs.lost, 5, "what is behind the last is not known");
        let rows = tally.rows(0, 10);
        assert_eq!(rows.iter().map(|row| row.received).collect::<Vec<_>>(), [45, 49]);
        assert_eq!(tally.rows(1, 10).len(), 1);
    }

    #[test]
    fn what_this_host_dropped_is_no_loss_of_the_lines() {
        let mut tally = Tally::new();
        (0..10).for_each(|n| tally.arrive(&came(n, 0)));
        tally.arrive(&Arrived { after_own_drops: true, ..came(500_000, 3) });
        tally.arrive(&came(500_002, 3));
        let runs = tally.totals(None).runs;
        assert_eq!((runs.lost, runs.runs), (1, 1));
        let marked: Vec<u64> =
            tally.rows(0, 9).iter().filter(|row| row.has_own_drops).map(|row| row.second).collect();
        assert_eq!(marked, [0, 1, 2, 3]);
    }

    #[test]
    fn accounts_of_two_lives_are_added_up() {
        let life = |from: u64, lost: &[u64]| {
            let mut tally = Tally::midway();
            let frames = (from..from + 100).filter(|n| !lost.contains(n));
            frames.for_each(|n| tally.arrive(&came(n, 0)));
            tally.totals(None)
        };
        let (first, second) = (life(0, &[10, 11, 50]), life(5_000, &[5_020, 5_040]));
        let both = first.followed_by(&second);
        assert_eq!((both.received, both.next), (195, 5_100));
        let runs = &both.runs;
        assert_eq!((runs.lost, runs.runs, runs.longest), (5, 4, 2));
        assert_eq!((&runs.by_length[..], runs.by_distance.iter().sum::<u64>()), (&[3, 1][..], 3));
        let counts = runs.counts;
        assert_eq!((counts.turned_bad, counts.turned_good, counts.stayed_bad), (4, 4, 1));
        let nothing = TallyTotals::default();
        assert_eq!(nothing.followed_by(&first).runs.lost, 3);
    }

    #[test]
    fn what_may_have_been_dropped_here_is_a_range() {
        let mut tally = Tally::new();
        (0..100).filter(|n| ![3, 40, 41, 90].contains(n)).for_each(|n| tally.arrive(&came(n, 0)));
        tally.note_own_range(30, 60);
        assert_eq!(tally.totals(None).runs.lost, 2);
    }

    #[test]
    fn a_range_over_one_that_is_known_is_one_with_it() {
        let mut tally = Tally::new();
        let frames = (0..40).filter(|n| ![7, 25, 35].contains(n) && !(10..20).contains(n));
        for n in frames {
            tally.arrive(&Arrived { after_own_drops: n == 20, ..came(n, 0) });
        }
        tally.note_own_range(5, 30);
        assert_eq!(tally.totals(None).runs.lost, 1, "number 35 alone");
    }

    #[test]
    fn the_end_of_a_test_may_be_lost_here_too() {
        let mut tally = Tally::new();
        (0..10).for_each(|n| tally.arrive(&came(n, 0)));
        tally.note_own_drops(7);
        assert_eq!(tally.totals(Some(12)).runs.lost, 2);
        tally.note_own_end(12);
        let totals = tally.totals(Some(12));
        assert_eq!((totals.runs.lost, totals.own_drops), (0, 7));
    }

    #[test]
    fn a_frame_behind_the_window_is_not_counted_as_new() {
        let mut tally = Tally::new();
        tally.arrive(&came(1, 0));
        tally.arrive(&came(70_000, 0));
        tally.arrive(&came(1, 0));
        tally.arrive(&came(2, 0));
        let totals = tally.totals(None);
        assert_eq!((totals.received, totals.duplicates), (2, 2));
        assert_eq!(totals.runs.lost, 70_001 - 2);
    }
}

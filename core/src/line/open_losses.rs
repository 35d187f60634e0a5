//! Losses among frames whose seconds may still turn out not to count: they are in no run until the
//! sender has settled that they do.

use super::runs::LossRuns;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::ops::Range;

/// Entries that are kept of frames that are not settled: of a line that loses one of a hundred of a
/// million frames a second, three seconds.
const MOST_OPEN: usize = 1 << 16;
/// Ranges that are kept at the receiver, which has 65 536 frames undecided, and in a question.
const MOST_RANGES: usize = 1 << 15;
const RANGES_ASKED: usize = 16;
/// Ranges that are kept for a receiver that does not say that it knows them.
const MOST_UNKNOWN: usize = 256;

/// Frames of whose seconds it is settled whether they count, as the sender tells the receiver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettledFrames {
    /// Those with a number below.
    pub below: u64,
    /// Of these, the ranges that do not count, in ascending order: a first number, and one above
    /// the last.
    pub untested: Vec<(u64, u64)>,
}

impl SettledFrames {
    /// Those from the last that was settled up to `below`.
    pub(super) fn settle(&mut self, below: u64, is_tested: bool) {
        if below <= self.below {
            return;
        }
        let first = std::mem::replace(&mut self.below, below);
        match self.untested.last_mut() {
            _ if is_tested => {}
            Some((_, end)) if *end == first => *end = below,
            _ => self.untested.push((first, below)),
        }
        if self.untested.len() > MOST_UNKNOWN {
            self.untested.remove(0);
        }
    }

    /// The receiver knows of those below `below`.
    pub(super) fn note_known(&mut self, below: u64) {
        self.untested.retain(|(_, end)| *end > below);
    }

    /// As much of it as one question has room for.
    pub(super) fn question(&self) -> SettledFrames {
        let below = self.untested.get(RANGES_ASKED).map_or(self.below, |range| range.0);
        let untested = self.untested.iter().take(RANGES_ASKED).copied().collect();
        SettledFrames { below, untested }
    }
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameStatus {
    Received,
    Lost,
    /// This host lost it, if nobody else did.
    Unknown,
}

/// The receiver's account of losses, of which the latest wait for the sender's word.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenLosses {
    /// Of frames that count.
    runs: LossRuns,
    /// The number of the first frame of `open`.
    from: u64,
    open: VecDeque<(FrameStatus, u64)>,
    /// The sender has settled what is below; 0 where it settles nothing.
    settled: u64,
    /// What of that does not count, from `from` on.
    untested: VecDeque<Range<u64>>,
}

impl OpenLosses {
    /// The first frame that is told of has this number.
    pub(super) fn begin_at(&mut self, sequence: u64) {
        self.from = sequence;
    }

    pub(super) fn received(&mut self, count: u64) {
        self.push(FrameStatus::Received, count);
    }

    pub(super) fn lost(&mut self) {
        self.push(FrameStatus::Lost, 1);
    }

    pub(super) fn unknown(&mut self) {
        self.push(FrameStatus::Unknown, 1);
    }

    /// The sender's word; what it has said before, it may say again.
    pub(super) fn settle(&mut self, frames: &SettledFrames) {
        for (first, end) in &frames.untested {
            let range = (*first).max(self.settled)..*end;
            let is_behind = self.untested.back().is_none_or(|last| last.end <= range.start);
            if !range.is_empty() && is_behind && self.untested.len() < MOST_RANGES {
                self.untested.push_back(range);
            }
        }
        self.settled = self.settled.max(frames.below);
        self.take_settled();
    }

    /// Below which number the sender has settled all; 0 where it settles nothing.
    pub(super) fn settled(&self) -> u64 {
        self.settled
    }

    /// Runs of those that are settled.
    pub(super) fn runs(&self) -> &LossRuns {
        &self.runs
    }

    /// The same, closed: what comes behind is not known.
    pub(super) fn into_settled(mut self) -> LossRuns {
        self.runs.close();
        self.runs
    }

    /// The same with those that are not, as if they counted.
    pub(super) fn into_all(mut self) -> LossRuns {
        while let Some((status, count)) = self.open.pop_front() {
            self.take(status, count);
        }
        self.into_settled()
    }

    fn push(&mut self, status: FrameStatus, count: u64) {
        match self.open.back_mut() {
            Some(last) if last.0 == status => last.1 += count,
            _ => self.open.push_back((status, count)),
        }
        self.take_settled();
        if self.open.len() > MOST_OPEN
            && let Some((status, count)) = self.open.pop_front()
        {
            self.from += count;
            // Where the sender says which count, nobody knows it of these.
            self.take(if self.settled > 0 { FrameStatus::Unknown } else { status }, count);
        }
    }

    fn take_settled(&mut self) {
        while self.from < self.settled {
            let Some((status, count)) = self.open.front_mut() else { return };
            while self.untested.front().is_some_and(|range| range.end <= self.from) {
                self.untested.pop_front();
            }
            let (is_untested, until) = match self.untested.front() {
                Some(range) if range.start <= self.from => (true, range.end),
                Some(range) => (false, range.start),
                None => (false, u64::MAX),
            };
            let taken = (*count).min(until.min(self.settled) - self.from);
            let status = if is_untested { FrameStatus::Unknown } else { *status };
            *count -= taken;
            if *count == 0 {
                self.open.pop_front();
            }
            self.from += taken;
            self.take(status, taken);
        }
    }

    fn take(&mut self, status: FrameStatus, count: u64) {
        match status {
            FrameStatus::Received => self.runs.received(count),
            FrameStatus::Lost => (0..count).for_each(|_| self.runs.lost()),
            FrameStatus::Unknown => self.runs.unknown(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame a letter: received, lost, not known.
    fn open(frames: &str) -> OpenLosses {
        let mut losses = OpenLosses::default();
        push(&mut losses, frames);
        losses
    }

    fn push(losses: &mut OpenLosses, frames: &str) {
        for frame in frames.chars() {
            match frame {
                'r' => losses.received(1),
                'l' => losses.lost(),
                _ => losses.unknown(),
            }
        }
    }

    fn told(below: u64, untested: &[(u64, u64)]) -> SettledFrames {
        SettledFrames { below, untested: untested.to_vec() }
    }

    fn lost(runs: &LossRuns) -> (u64, u64, u64) {
        (runs.lost, runs.runs, runs.longest)
    }

    #[test]
    fn a_run_in_untested_frames_is_nobodys() {
        // Numbers 2 to 4 and 10 and 11 are lost; those from 8 to 14 do not count.
        let mut losses = open("rrlllrrrrrllrrrrlr");
        losses.settle(&told(14, &[(8, 14)]));
        assert_eq!(lost(&losses.clone().into_settled()), (3, 1, 3));
        assert_eq!(losses.settled(), 14);
        // Number 16 is not settled yet.
        assert_eq!(lost(&losses.clone().into_all()), (4, 2, 3));
        losses.settle(&told(18, &[(8, 14)]));
        assert_eq!(lost(&losses.into_settled()), (4, 2, 3));
    }

    #[test]
    fn what_is_settled_before_it_is_known_is_heeded() {
        let mut losses = OpenLosses::default();
        losses.begin_at(64);
        losses.settle(&told(72, &[(3, 5), (66, 70)]));
        losses.settle(&told(80, &[(66, 70), (78, 80)]));
        // 67 and 68 and 78 are lost in frames that do not count, 71 in one that does.
        push(&mut losses, "rrrllrrlrrrrrrlrll");
        assert_eq!(losses.runs().lost, 1);
        assert_eq!(lost(&losses.into_settled()), (1, 1, 1));
    }

    #[test]
    fn a_border_splits_a_run_and_begins_no_distance() {
        let mut losses = open("rrllllrrl");
        losses.settle(&told(9, &[(4, 7)]));
        let runs = losses.into_settled();
        assert_eq!((runs.lost, runs.longest, runs.by_distance.iter().sum::<u64>()), (3, 2, 1));
        assert_eq!((runs.counts.turned_bad, runs.counts.turned_good), (2, 0));
    }

    #[test]
    fn ranges_join_and_are_forgotten_once_they_are_known() {
        let mut frames = SettledFrames::default();
        for (below, is_tested) in [(10, true), (20, false), (30, false), (30, true), (40, true)] {
            frames.settle(below, is_tested);
        }
        assert_eq!(frames, told(40, &[(10, 30)]));
        frames.settle(50, false);
        frames.note_known(40);
        assert_eq!(frames, told(50, &[(40, 50)]));
        (3..60).for_each(|n| frames.settle(n * 20, n % 2 == 0));
        let question = frames.question();
        assert_eq!((question.untested.len(), question.below), (RANGES_ASKED, 680));
        (60..4_000).for_each(|n| frames.settle(n * 20, n % 2 == 0));
        assert_eq!(frames.untested.len(), MOST_UNKNOWN, "nobody says that it knows them");
    }

    #[test]
    fn memory_is_bounded_and_what_had_no_room_is_unknown() {
        let mut losses = OpenLosses::default();
        losses.settle(&told(1, &[]));
        (0..MOST_OPEN).for_each(|_| push(&mut losses, "rl"));
        assert_eq!((losses.open.len(), losses.runs.lost), (MOST_OPEN, 0));
        let mut losses = OpenLosses::default();
        (0..MOST_OPEN).for_each(|_| push(&mut losses, "rl"));
        assert_eq!((losses.open.len(), losses.runs.lost), (MOST_OPEN, MOST_OPEN as u64 / 2));
    }
}

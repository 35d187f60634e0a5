//! The latest losses in their order: what a model with a hidden state is fitted to.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Entries that are kept: of a line with long bursts some hundred of these, and 32 KiB.
const KEPT: usize = 2_048;

/// Frames received one after the other, and the frames lost one after the other behind them; none
/// lost says that what comes behind is not known.
pub type LossEntry = (u64, u64);

/// The latest losses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossSequence {
    /// How many entries were there before those that are kept.
    first: u64,
    kept: VecDeque<LossEntry>,
    /// The entry that is not over.
    #[serde(default)]
    open: LossEntry,
}

impl LossSequence {
    pub(super) fn received(&mut self, count: u64) {
        if self.open.1 > 0 {
            self.push_open();
        }
        self.open.0 += count;
    }

    pub(super) fn lost(&mut self) {
        self.open.1 += 1;
    }

    /// What became of the next frames is not known.
    pub(super) fn unknown(&mut self) {
        if self.open.1 > 0 {
            self.push_open();
        }
        if self.open.0 > 0 || self.kept.back().is_some_and(|entry| entry.1 > 0) {
            self.push_open();
        }
    }

    fn push_open(&mut self) {
        let entry = std::mem::take(&mut self.open);
        self.push(entry);
    }

    fn push(&mut self, entry: LossEntry) {
        if self.kept.len() == KEPT {
            self.kept.pop_front();
            self.first += 1;
        }
        self.kept.push_back(entry);
    }

    /// The entries that are kept from number `since` on, `most` at most, and the number of the
    /// first.
    pub fn since(&self, since: u64, most: usize) -> (u64, Vec<LossEntry>) {
        let from = since.clamp(self.first, self.next());
        let entries = self.kept.iter().skip((from - self.first) as usize).take(most);
        (from, entries.copied().collect())
    }

    /// One above the number of the last entry.
    pub fn next(&self) -> u64 {
        self.first + self.kept.len() as u64
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &LossEntry> {
        self.kept.iter()
    }
}

/// Losses as another end tells them, page by page and life by life.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerLossSequence {
    /// The entries of all lives.
    sequence: LossSequence,
    /// The number of the next entry of this life.
    next: u64,
}

impl PeerLossSequence {
    /// From which entry on the other end is to tell.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The other end told `entries`, of which the first has the number `first`.
    pub(super) fn record(&mut self, first: u64, entries: &[LossEntry]) {
        let known = self.next.saturating_sub(first) as usize;
        if first > self.next {
            self.sequence.unknown();
        }
        for entry in entries.iter().skip(known) {
            self.sequence.push(*entry);
        }
        self.next = self.next.max(first.saturating_add(entries.len() as u64));
    }

    /// The entries.
    pub(super) fn entries(&self) -> impl Iterator<Item = &LossEntry> {
        self.sequence.entries()
    }

    /// The other end begins anew.
    pub(super) fn note_restart(&mut self) {
        self.sequence.unknown();
        self.next = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames by a letter each: received, lost, not known.
    fn sequence(frames: &str) -> LossSequence {
        let mut sequence = LossSequence::default();
        for frame in frames.chars() {
            match frame {
                'r' => sequence.received(1),
                'l' => sequence.lost(),
                _ => sequence.unknown(),
            }
        }
        sequence.unknown();
        sequence
    }

    #[test]
    fn entries_say_what_came_and_what_not() {
        assert_eq!(sequence("rrlrllrr").since(0, 9), (0, vec![(2, 1), (1, 2), (2, 0)]));
        assert_eq!(sequence("lr?rr").since(0, 9), (0, vec![(0, 1), (1, 0), (2, 0)]));
        assert_eq!(sequence("rl?lr").since(0, 9), (0, vec![(1, 1), (0, 0), (0, 1), (1, 0)]));
        assert_eq!(sequence("???").since(0, 9), (0, vec![]));
    }

    #[test]
    fn pages_put_together_are_the_whole() {
        let whole = sequence(&"rrlrll".repeat(1_500));
        let mut told = PeerLossSequence::default();
        loop {
            let (first, entries) = whole.since(told.next(), 100);
            told.record(first, &entries);
            if entries.len() < 100 {
                break;
            }
        }
        let latest = 3_001 - KEPT as u64;
        assert_eq!((told.next(), whole.since(0, 1)), (3_001, (latest, vec![(1, 2)])));
        assert!(told.entries().skip(1).eq(whole.entries().skip(1)));
    }

    #[test]
    fn what_was_not_told_is_a_gap() {
        let mut told = PeerLossSequence::default();
        told.record(0, &[(5, 1), (6, 2)]);
        told.record(1, &[(6, 2), (7, 1)]);
        told.record(5, &[(8, 1)]);
        told.note_restart();
        told.record(0, &[(9, 1)]);
        let entries: Vec<_> = told.entries().copied().collect();
        assert_eq!(entries, [(5, 1), (6, 2), (7, 1), (0, 0), (8, 1), (0, 0), (9, 1)]);
        assert_eq!(told.next(), 1);
    }
}

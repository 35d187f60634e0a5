//! Which of the latest sequence numbers came, and what became, for good, of those before.

use super::open_losses::OpenLosses;
use std::collections::VecDeque;
use std::ops::Range;

/// Words of the window: 65 536 frames, which at the rate of 64-byte frames on 10 Gbit/s are 4 ms,
/// and at that of large ones 80.
const WORDS: u64 = 1_024;
const BITS: u64 = WORDS * 64;

/// What a frame is by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Above all that came.
    Ahead,
    /// It came before.
    Again,
    /// So far below the highest that nobody knows whether it came before.
    Forgotten,
    /// So far below the highest, and it had not come.
    Late(u64),
}

/// The window.
#[derive(Clone, Debug)]
pub(super) struct Window {
    words: Vec<u64>,
    /// Numbers below are decided; a multiple of 64.
    base: u64,
    /// One above the highest that came.
    next: u64,
    /// Numbers lost here, in ascending order, not yet decided.
    own: VecDeque<Range<u64>>,
}

impl Window {
    pub(super) fn new() -> Window {
        Window { words: vec![0; WORDS as usize], base: 0, next: 0, own: VecDeque::new() }
    }

    /// One above the highest number that came.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Nothing is known of what is before `sequence`, as far as it has not come.
    pub(super) fn begin_at(&mut self, sequence: u64, losses: &mut OpenLosses) {
        if self.next > 0 {
            return self.own(sequence);
        }
        self.base = sequence / 64 * 64;
        self.next = sequence;
        losses.begin_at(self.base);
        self.own.push_back(self.base..sequence);
    }

    /// The frames from the highest that came to `sequence` were lost here, as far as they do not
    /// come yet.
    pub(super) fn own(&mut self, sequence: u64) {
        if sequence > self.next {
            self.own.push_back(self.next..sequence);
        }
    }

    /// The frames from `first` to `end` were lost here, as far as they have not come.
    pub(super) fn own_range(&mut self, first: u64, end: u64) {
        let mut joined = first..end;
        // What came in between is no part of any range: they stay in ascending order.
        while let Some(last) = self.own.back().filter(|last| last.end > joined.start) {
            joined = joined.start.min(last.start)..joined.end.max(last.end);
            self.own.pop_back();
        }
        if !joined.is_empty() {
            self.own.push_back(joined);
        }
    }

    /// Notes that `sequence` came; `losses` is told what is decided by that.
    pub(super) fn mark(&mut self, sequence: u64, losses: &mut OpenLosses) -> Place {
        if sequence < self.base {
            return Place::Forgotten;
        }
        while sequence >= self.base + BITS {
            self.decide(64, losses);
        }
        let (word, bit) = ((sequence / 64 % WORDS) as usize, 1_u64 << (sequence % 64));
        if self.words[word] & bit != 0 {
            return Place::Again;
        }
        self.words[word] |= bit;
        if sequence >= self.next {
            self.next = sequence + 1;
            return Place::Ahead;
        }
        Place::Late(self.next - 1 - sequence)
    }

    /// What is not decided yet, as if nothing more came: up to `end`, or to the highest.
    pub(super) fn decided(&self, end: Option<u64>, losses: &OpenLosses) -> OpenLosses {
        let (mut rest, mut losses) = (self.clone(), losses.clone());
        let end = end.unwrap_or(self.next).max(self.next);
        while rest.base < end {
            rest.decide((end - rest.base).min(64), &mut losses);
        }
        losses
    }

    /// Decides the first `count` numbers, and takes a word away.
    fn decide(&mut self, count: u64, losses: &mut OpenLosses) {
        let at = (self.base / 64 % WORDS) as usize;
        let word = std::mem::take(&mut self.words[at]);
        let is_own_near = self.own.front().is_some_and(|range| range.start < self.base + count);
        if word == u64::MAX && count == 64 && !is_own_near {
            losses.received(64);
        } else {
            for sequence in self.base..self.base + count {
                while self.own.front().is_some_and(|range| range.end <= sequence) {
                    self.own.pop_front();
                }
                if word >> (sequence % 64) & 1 == 1 {
                    losses.received(1);
                } else if self.own.front().is_some_and(|range| range.contains(&sequence)) {
                    losses.unknown();
                } else {
                    losses.lost();
                }
            }
        }
        self.base += 64;
    }
}

//! Half-open windows of time, and sets of times as disjoint windows.

use crate::units::{Span, Time};
use serde::{Deserialize, Serialize};

/// From `start` up to, but not including, `end`: two windows that touch share no instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TimeWindow {
    /// The first instant.
    pub start: Time,
    /// The first instant after it.
    pub end: Time,
}

impl TimeWindow {
    /// The window of `duration` from `start` on.
    pub fn lasting(start: Time, duration: Span) -> TimeWindow {
        TimeWindow { start, end: start + duration }
    }

    /// How long it is; zero when it ends before it starts.
    pub fn duration(&self) -> Span {
        self.end.since(self.start)
    }

    /// Whether it holds no instant.
    pub fn is_empty(&self) -> bool {
        self.end <= self.start
    }

    /// Whether `time` lies in it.
    pub fn contains(&self, time: Time) -> bool {
        self.start <= time && time < self.end
    }

    /// Whether both hold some instant.
    pub fn overlaps(&self, other: &TimeWindow) -> bool {
        self.start < other.end && other.start < self.end && !self.is_empty() && !other.is_empty()
    }

    /// What both hold; empty when they share nothing.
    #[must_use]
    pub fn intersection(&self, other: &TimeWindow) -> TimeWindow {
        TimeWindow { start: self.start.max(other.start), end: self.end.min(other.end) }
    }
}

/// A set of instants: disjoint windows in ascending order, of which no two touch.
///
/// Under union and intersection these sets are the algebra of the extended Bellman-Ford search
/// (Sahni, Rao and Ranka, 2006).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeSet(Vec<TimeWindow>);

impl TimeSet {
    /// The set of one window; nothing when the window is empty.
    pub fn of(window: TimeWindow) -> TimeSet {
        TimeSet(if window.is_empty() { Vec::new() } else { vec![window] })
    }

    /// Its windows, earliest first.
    pub fn windows(&self) -> &[TimeWindow] {
        &self.0
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Its earliest instant.
    pub fn first(&self) -> Option<Time> {
        self.0.first().map(|window| window.start)
    }

    /// Whether it holds `time`.
    pub fn contains(&self, time: Time) -> bool {
        let after = self.0.partition_point(|window| window.start <= time);
        after > 0 && self.0[after - 1].contains(time)
    }

    /// Adds a window that starts no earlier than all that is in the set.
    pub(super) fn push(&mut self, window: TimeWindow) {
        if window.is_empty() {
            return;
        }
        match self.0.last_mut() {
            Some(last) if window.start <= last.end => last.end = last.end.max(window.end),
            _ => self.0.push(window),
        }
    }

    /// What either holds.
    #[must_use]
    pub fn union(&self, other: &TimeSet) -> TimeSet {
        let mut union = TimeSet(Vec::with_capacity(self.0.len() + other.0.len()));
        let (mut left, mut right) = (self.0.iter().peekable(), other.0.iter().peekable());
        loop {
            let next = match (left.peek(), right.peek()) {
                (Some(a), Some(b)) if a.start <= b.start => left.next(),
                (_, Some(_)) => right.next(),
                (Some(_), None) => left.next(),
                (None, None) => return union,
            };
            next.into_iter().for_each(|window| union.push(*window));
        }
    }

    /// What both hold.
    #[must_use]
    pub fn intersection(&self, other: &TimeSet) -> TimeSet {
        let mut common = TimeSet::default();
        let (mut left, mut right) = (0, 0);
        while let (Some(a), Some(b)) = (self.0.get(left), other.0.get(right)) {
            common.push(a.intersection(b));
            if a.end <= b.end {
                left += 1;
            } else {
                right += 1;
            }
        }
        common
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Rng;

    fn window(start: u64, end: u64) -> TimeWindow {
        TimeWindow { start: Time::from_nanos(start), end: Time::from_nanos(end) }
    }

    #[test]
    fn windows_that_touch_share_nothing() {
        assert!(!window(0, 5).overlaps(&window(5, 9)));
        assert!(window(0, 6).overlaps(&window(5, 9)));
        assert!(!window(7, 7).overlaps(&window(5, 9)), "an empty window overlaps nothing");
        assert!(
            window(5, 9).contains(Time::from_nanos(5))
                && !window(5, 9).contains(Time::from_nanos(9))
        );
    }

    #[test]
    fn sets_behave_as_sets_of_single_instants() {
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let mut draw = || {
                let mut set = TimeSet::default();
                let mut bits = [false; 40];
                for _ in 0..rng.below(6) {
                    let start = rng.below(40);
                    let end = (start + rng.below(10)).min(40);
                    set = set.union(&TimeSet::of(window(start, end)));
                    bits[start as usize..end as usize].fill(true);
                }
                (set, bits)
            };
            let ((a, in_a), (b, in_b)) = (draw(), draw());
            let (both, either) = (a.intersection(&b), a.union(&b));
            for at in 0..40 {
                let time = Time::from_nanos(at);
                let (in_a, in_b) = (in_a[at as usize], in_b[at as usize]);
                assert_eq!(both.contains(time), in_a && in_b, "seed {seed} at {at}");
                assert_eq!(either.contains(time), in_a || in_b, "seed {seed} at {at}");
            }
            let apart = |set: &TimeSet| set.0.windows(2).all(|pair| pair[0].end < pair[1].start);
            assert!(apart(&both) && apart(&either), "seed {seed}");
        }
    }
}

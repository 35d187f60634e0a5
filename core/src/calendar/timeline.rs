//! The time-bandwidth list of one directed link: what is booked on it, from when to when.

use super::window::{TimeSet, TimeWindow};
use crate::units::{Rate, Span, Time};
use std::collections::BTreeMap;
use std::ops::Bound;

/// What holds from one breakpoint to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Level {
    /// The sum of all bookings, in bit/s.
    booked: u64,
    /// How many maintenance windows are open.
    closed: u32,
}

/// Free bandwidth of one directed link over time, as breakpoints of half-open intervals.
///
/// Equal neighbours are merged, so a list is as long as there are changes, whatever the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    capacity: Rate,
    /// The level from each instant on; nothing is booked before the first.
    levels: BTreeMap<Time, Level>,
}

/// An interval in which the free bandwidth does not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeInterval {
    /// From when to when; the last ends at the end of time.
    pub window: TimeWindow,
    /// What is free in it.
    pub free: Rate,
}

/// How long before a window the change is looked for at first that holds when it begins.
const NEAR: Span = Span::from_secs(3_600);
/// The end of time.
const NEVER: Time = Time::from_nanos(u64::MAX);

impl Timeline {
    /// An empty list for a link of `capacity`.
    pub fn new(capacity: Rate) -> Timeline {
        Timeline { capacity, levels: BTreeMap::new() }
    }

    /// What the link carries when nothing is booked.
    pub fn capacity(&self) -> Rate {
        self.capacity
    }

    /// How many breakpoints it has.
    pub fn breakpoints(&self) -> usize {
        self.levels.len()
    }

    /// Books `rate` in `window`. The caller has seen that it is free.
    pub fn book(&mut self, window: TimeWindow, rate: Rate) {
        self.change(window, |level| level.booked = level.booked.saturating_add(rate.as_bps()));
    }

    /// Gives back what was booked.
    pub fn give_back(&mut self, window: TimeWindow, rate: Rate) {
        self.change(window, |level| {
            debug_assert!(level.booked >= rate.as_bps(), "more is given back than was booked");
            level.booked = level.booked.saturating_sub(rate.as_bps());
        });
    }

    /// Closes the link in `window`, for maintenance; bookings stay.
    pub fn close(&mut self, window: TimeWindow) {
        self.change(window, |level| level.closed += 1);
    }

    /// Takes back one closure of `window`.
    pub fn reopen(&mut self, window: TimeWindow) {
        self.change(window, |level| level.closed = level.closed.saturating_sub(1));
    }

    /// Applies `edit` to every level in `window`.
    fn change(&mut self, window: TimeWindow, edit: impl Fn(&mut Level)) {
        if window.is_empty() {
            return;
        }
        let at = |levels: &BTreeMap<Time, Level>, time| {
            levels.range(..=time).next_back().map_or(Level::default(), |(_, level)| *level)
        };
        let (first, after) = (at(&self.levels, window.start), at(&self.levels, window.end));
        self.levels.insert(window.start, first);
        self.levels.insert(window.end, after);
        for (_, level) in self.levels.range_mut(window.start..window.end) {
            edit(level);
        }
        self.merge(window.start);
        self.merge(window.end);
    }

    /// Removes the breakpoint at `time` when nothing changes there.
    fn merge(&mut self, time: Time) {
        let before =
            self.levels.range(..time).next_back().map_or(Level::default(), |(_, level)| *level);
        if self.levels.get(&time) == Some(&before) {
            self.levels.remove(&time);
        }
    }

    fn free(&self, level: Level) -> Rate {
        match level.closed {
            0 => Rate::from_bps(self.capacity.as_bps().saturating_sub(level.booked)),
            _ => Rate::from_bps(0),
        }
    }

    /// The intervals of constant free bandwidth from the one that holds `from` on.
    pub fn intervals(&self, from: Time) -> impl Iterator<Item = FreeInterval> + '_ {
        let first = self
            .levels
            .range(..=from)
            .next_back()
            .map_or((Time::ZERO, Level::default()), |(time, level)| (*time, *level));
        let after = (Bound::Excluded(from), Bound::Unbounded);
        let starts = std::iter::once(first).chain(self.levels.range(after).map(|(t, l)| (*t, *l)));
        let ends = self.levels.range(after).map(|(t, _)| *t).chain([NEVER]);
        starts.zip(ends).map(|((start, level), end)| FreeInterval {
            window: TimeWindow { start, end },
            free: self.free(level),
        })
    }

    /// What is free in each interval that `window` touches, the last first.
    ///
    /// It is looked for from shortly before the window on, where the level that holds at its
    /// beginning nearly always is: from the beginning of a long list it would be as far again,
    /// through memory that no cache has.
    fn free_in(&self, window: TimeWindow) -> impl Iterator<Item = Rate> + '_ {
        let near = Time::from_nanos(window.start.as_nanos().saturating_sub(NEAR.as_nanos()));
        let first = move |levels: &BTreeMap<Time, Level>| {
            let before = levels.range(..near).next_back();
            before.map_or(Level::default(), |(_, level)| *level)
        };
        let mut at = (!window.is_empty()).then(|| self.levels.range(near..window.end).rev());
        std::iter::from_fn(move || {
            let level = match at.as_mut()?.next() {
                Some((time, level)) => {
                    if *time <= window.start {
                        at = None;
                    }
                    *level
                }
                None => {
                    at = None;
                    first(&self.levels)
                }
            };
            Some(self.free(level))
        })
    }

    /// What is free in every instant of `window`; the whole capacity for an empty one.
    pub fn least_free(&self, window: TimeWindow) -> Rate {
        self.free_in(window).min().unwrap_or(self.capacity)
    }

    /// Whether `rate` is free in every instant of `window`; for an empty one, whether the link has
    /// it.
    pub fn has_free(&self, window: TimeWindow, rate: Rate) -> bool {
        self.free_in(window).all(|free| free >= rate) && self.capacity >= rate
    }

    /// The first interval in `window` in which less than `rate` is free.
    pub fn shortage(&self, window: TimeWindow, rate: Rate) -> Option<FreeInterval> {
        self.intervals(window.start)
            .take_while(|interval| interval.window.start < window.end)
            .find(|interval| interval.free < rate)
    }

    /// The earliest start in `search` from which `rate` is free for `duration`, ending in `search`.
    pub fn first_start(&self, rate: Rate, duration: Span, search: TimeWindow) -> Option<Time> {
        let mut run = search.start;
        for interval in self.intervals(search.start) {
            if run + duration > search.end {
                return None;
            }
            if interval.free < rate {
                run = interval.window.end;
            } else if interval.window.end >= run + duration {
                return Some(run);
            }
        }
        None
    }

    /// Every start in `search` from which `rate` is free for `duration`, ending in `search`: the
    /// start list `ST` of the literature.
    pub fn starts(&self, rate: Rate, duration: Span, search: TimeWindow) -> TimeSet {
        let mut starts = TimeSet::default();
        let mut run = search.start;
        let mut close = |run: Time, end: Time| {
            if run + duration <= end {
                // The last start is the one that ends with the run: it belongs to the set.
                let last = end - duration;
                starts.push(TimeWindow { start: run, end: last + Span::from_nanos(1) });
            }
        };
        for interval in self.intervals(search.start) {
            if interval.window.start >= search.end {
                break;
            }
            if interval.free < rate {
                close(run, interval.window.start.min(search.end));
                run = interval.window.end;
            }
        }
        close(run, search.end);
        starts
    }

    /// Adds the breakpoints inside `search` to `times`.
    pub fn breakpoints_in(&self, search: TimeWindow, times: &mut Vec<Time>) {
        if !search.is_empty() {
            times.extend(self.levels.range(search.start..search.end).map(|(time, _)| *time));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Rng;

    fn window(start: u64, end: u64) -> TimeWindow {
        TimeWindow { start: Time::from_nanos(start), end: Time::from_nanos(end) }
    }

    /// 20 instants, each with what is booked and how often it is closed.
    #[derive(Clone)]
    struct Plain([(u64, u32); 20]);

    impl Plain {
        fn free(&self, at: u64) -> u64 {
            match self.0.get(at as usize) {
                Some((booked, 0)) => 10 - booked,
                Some(_) => 0,
                None => 10,
            }
        }
        fn fits(&self, rate: u64, start: u64, duration: u64) -> bool {
            (start..start + duration).all(|at| self.free(at) >= rate)
        }
    }

    #[test]
    fn a_list_is_the_same_as_an_array_of_instants() {
        for seed in 0..2_000 {
            let mut rng = Rng::new(seed);
            let mut list = Timeline::new(Rate::from_bps(10));
            let mut plain = Plain([(0, 0); 20]);
            let mut booked = Vec::new();
            for _ in 0..12 {
                let start = rng.below(20);
                let end = start + rng.below(21 - start);
                let free = (start..end).map(|at| 10 - plain.0[at as usize].0).min().unwrap_or(0);
                match rng.below(4) {
                    0 if !booked.is_empty() => {
                        let (start, end, rate) =
                            booked.swap_remove(rng.below(booked.len() as u64) as usize);
                        list.give_back(window(start, end), Rate::from_bps(rate));
                        for at in start..end {
                            plain.0[at as usize].0 -= rate;
                        }
                    }
                    1 => {
                        list.close(window(start, end));
                        for at in start..end {
                            plain.0[at as usize].1 += 1;
                        }
                        if rng.below(2) == 0 {
                            list.reopen(window(start, end));
                            for at in start..end {
                                plain.0[at as usize].1 -= 1;
                            }
                        }
                    }
                    _ if free > 0 => {
                        let rate = 1 + rng.below(free);
                        list.book(window(start, end), Rate::from_bps(rate));
                        for at in start..end {
                            plain.0[at as usize].0 += rate;
                        }
                        booked.push((start, end, rate));
                    }
                    _ => {}
                }
                let levels: Vec<Level> = list.levels.values().copied().collect();
                assert!(levels.windows(2).all(|pair| pair[0] != pair[1]), "seed {seed}: merged");
            }
            let (rate, duration) = (rng.below(12), 1 + rng.below(8));
            let (from, to) = (rng.below(10), 10 + rng.below(15));
            let starts =
                list.starts(Rate::from_bps(rate), Span::from_nanos(duration), window(from, to));
            let mut first = None;
            for at in 0..30 {
                let fits = at >= from && at + duration <= to && plain.fits(rate, at, duration);
                assert_eq!(starts.contains(Time::from_nanos(at)), fits, "seed {seed} at {at}");
                first = first.or(fits.then_some(Time::from_nanos(at)));
            }
            let found = list.first_start(
                Rate::from_bps(rate),
                Span::from_nanos(duration),
                window(from, to),
            );
            assert_eq!(found, first, "seed {seed}");
            let least = (from..to).map(|at| plain.free(at)).min().unwrap_or(10);
            assert_eq!(list.least_free(window(from, to)), Rate::from_bps(least), "seed {seed}");
            let has = list.has_free(window(from, to), Rate::from_bps(rate));
            assert_eq!(has, least >= rate, "seed {seed}");
            let empty = window(to, from.min(to));
            assert_eq!(list.least_free(empty), Rate::from_bps(10), "seed {seed}");
            assert_eq!(list.has_free(empty, Rate::from_bps(rate)), rate <= 10, "seed {seed}");
        }
    }

    #[test]
    fn what_began_long_before_a_window_is_seen_in_it() {
        let hours = |hours: u64| Time::from_nanos(NEAR.as_nanos() * hours);
        for (start, end, seen) in [(0, 9, 6), (4, 5, 6), (0, 4, 10), (6, 7, 10), (3, 5, 6)] {
            let mut list = Timeline::new(Rate::from_bps(10));
            list.book(TimeWindow { start: hours(start), end: hours(end) }, Rate::from_bps(4));
            let window = TimeWindow { start: hours(4) + Span::from_nanos(5), end: hours(5) };
            assert_eq!(list.least_free(window), Rate::from_bps(seen), "{start} to {end}");
            assert_eq!(list.has_free(window, Rate::from_bps(7)), seen > 6, "{start} to {end}");
        }
    }

    #[test]
    fn back_to_back_bookings_share_no_instant() {
        let mut list = Timeline::new(Rate::from_bps(10));
        list.book(window(0, 5), Rate::from_bps(10));
        assert_eq!(list.least_free(window(5, 9)), Rate::from_bps(10));
        list.book(window(5, 9), Rate::from_bps(10));
        assert_eq!(list.breakpoints(), 2, "equal neighbours are one interval");
        list.give_back(window(0, 9), Rate::from_bps(10));
        assert_eq!(
            list,
            Timeline::new(Rate::from_bps(10)),
            "nothing is left of what was given back"
        );
    }
}

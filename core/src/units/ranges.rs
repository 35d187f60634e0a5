//! Sets of byte ranges: what has arrived, what is durable, what is left to send.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// A set of bytes as disjoint, non-touching half-open ranges. Prints and reads as GridFTP's
/// `0-29,90-120`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByteRanges {
    /// Start to end of each range; ends are greater than starts and less than the next start.
    ranges: BTreeMap<u64, u64>,
    /// Bytes in the set, kept so that asking is free.
    total: u64,
}

impl ByteRanges {
    /// The empty set.
    pub fn new() -> ByteRanges {
        ByteRanges::default()
    }

    /// Adds `range`; returns how many of its bytes were not in the set before.
    pub fn insert(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let (mut start, mut end) = (range.start, range.end);
        let mut absorbed = 0;
        if let Some((&before, &before_end)) = self.ranges.range(..start).next_back()
            && before_end >= start
        {
            start = before;
        }
        let touching: Vec<u64> = self.ranges.range(start..=end).map(|(&s, _)| s).collect();
        for s in touching {
            if let Some(e) = self.ranges.remove(&s) {
                absorbed += e - s;
                end = end.max(e);
            }
        }
        self.ranges.insert(start, end);
        let added = end - start - absorbed;
        self.total += added;
        added
    }

    /// Removes every byte of `range`.
    pub fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let overlapping: Vec<(u64, u64)> = self
            .ranges
            .range(..range.end)
            .rev()
            .take_while(|&(_, &e)| e > range.start)
            .map(|(&s, &e)| (s, e))
            .collect();
        for (s, e) in overlapping {
            self.ranges.remove(&s);
            self.total -= e - s;
            for (left, right) in [(s, range.start.min(e)), (range.end.max(s), e)] {
                if left < right {
                    self.ranges.insert(left, right);
                    self.total += right - left;
                }
            }
        }
    }

    /// Whether every byte of `range` is in the set; true for an empty range.
    pub fn contains(&self, range: &Range<u64>) -> bool {
        range.is_empty()
            || self.ranges.range(..=range.start).next_back().is_some_and(|(_, &e)| e >= range.end)
    }

    /// Bytes in the set.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Whether nothing is in the set.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many separate ranges there are.
    pub fn count(&self) -> usize {
        self.ranges.len()
    }

    /// The ranges in order.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ranges.iter().map(|(&s, &e)| s..e)
    }

    /// The parts of the set that lie in `within`, in order.
    pub fn overlapping(&self, within: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let Range { start, end } = within;
        let before = self.ranges.range(..start).next_back();
        let inside = self.ranges.range(start..end.max(start));
        let parts = before.into_iter().chain(inside);
        let parts = parts.map(move |(&s, &e)| s.max(start)..e.min(end));
        parts.filter(|part| !part.is_empty())
    }

    /// The ranges of `within` that are not in the set, in order.
    pub fn gaps(&self, within: Range<u64>) -> Vec<Range<u64>> {
        let mut left = ByteRanges::new();
        left.insert(within.clone());
        for range in self.overlapping(within) {
            left.remove(range);
        }
        left.iter().collect()
    }

    /// Reads `0-29,90-120`, end exclusive as GridFTP servers print it; `None` when it is not such a
    /// list.
    pub fn parse(text: &str) -> Option<ByteRanges> {
        let mut set = ByteRanges::new();
        for part in text.split(',').filter(|part| !part.trim().is_empty()) {
            let (start, end) = part.trim().split_once('-')?;
            let (start, end) = (start.parse().ok()?, end.parse().ok()?);
            if start > end {
                return None;
            }
            set.insert(start..end);
        }
        Some(set)
    }
}

impl Extend<Range<u64>> for ByteRanges {
    fn extend<T: IntoIterator<Item = Range<u64>>>(&mut self, ranges: T) {
        for range in ranges {
            self.insert(range);
        }
    }
}

impl FromIterator<Range<u64>> for ByteRanges {
    fn from_iter<T: IntoIterator<Item = Range<u64>>>(ranges: T) -> ByteRanges {
        let mut set = ByteRanges::new();
        set.extend(ranges);
        set
    }
}

impl fmt::Display for ByteRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, range) in self.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{}-{}", range.start, range.end)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn touching_ranges_join_and_print_as_gridftp_markers() {
        let mut set = ByteRanges::new();
        assert_eq!(set.insert(0..10), 10);
        assert_eq!(set.insert(20..30), 10);
        assert_eq!(set.insert(10..20), 10);
        assert_eq!(set.to_string(), "0-30");
        set.insert(90..120);
        assert_eq!(set.to_string(), "0-30,90-120");
        assert_eq!(ByteRanges::parse("0-30,90-120"), Some(set));
        assert_eq!(ByteRanges::parse("30-0"), None);
        assert_eq!(ByteRanges::parse("a-b"), None);
    }

    proptest! {
        #[test]
        fn agrees_with_a_plain_bit_set(ops in prop::collection::vec((any::<bool>(), 0u64..64, 0u64..20), 0..60)) {
            let mut set = ByteRanges::new();
            let mut bits = [false; 100];
            for (add, start, len) in ops {
                let range = start..start + len;
                if add {
                    let new = range.clone().filter(|&i| !bits[i as usize]).count() as u64;
                    prop_assert_eq!(set.insert(range.clone()), new);
                } else {
                    set.remove(range.clone());
                }
                for i in range { bits[i as usize] = add; }
                prop_assert_eq!(set.total(), bits.iter().filter(|&&b| b).count() as u64);
            }
            let listed: Vec<u64> = set.iter().flatten().collect();
            let expected: Vec<u64> = (0..100).filter(|&i| bits[i as usize]).collect();
            prop_assert_eq!(listed, expected);
            let gaps: Vec<u64> = set.gaps(0..100).into_iter().flatten().collect();
            let missing: Vec<u64> = (0..100).filter(|&i| !bits[i as usize]).collect();
            prop_assert_eq!(gaps, missing);
            for (start, end) in [(0, 100), (13, 57), (30, 31), (40, 40), (57, 13)] {
                let parts = set.overlapping(start..end).collect::<Vec<_>>();
                prop_assert!(parts.iter().all(|part| !part.is_empty()), "{parts:?}");
                let listed: Vec<u64> = parts.into_iter().flatten().collect();
                let expected: Vec<u64> = (start..end).filter(|&i| bits[i as usize]).collect();
                prop_assert_eq!(listed, expected);
            }
            prop_assert_eq!(ByteRanges::parse(&set.to_string()), Some(set.clone()));
        }
    }
}

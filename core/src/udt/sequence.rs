//! Sequence numbers of 31 bits that wrap, and the count of packets that they stand for.

/// Sequence numbers, numbers of acknowledgements and indices of losses have 31 bits.
const MASK: u32 = 0x7FFF_FFFF;

/// A sequence number as the wire has it: 31 bits, and 0 follows the largest.
///
/// Within a connection packets are counted from the first with 64 bits, so that nothing but
/// [`index`](SequenceNumber::index) and [`after`](SequenceNumber::after) ever sees a number wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SequenceNumber(u32);

impl SequenceNumber {
    /// The number in the low 31 bits of `raw`.
    pub const fn new(raw: u32) -> SequenceNumber {
        SequenceNumber(raw & MASK)
    }

    /// Its 31 bits.
    pub const fn raw(self) -> u32 {
        self.0
    }

    /// The number of the packet that comes `packets` after this one.
    pub const fn after(self, packets: u64) -> SequenceNumber {
        SequenceNumber(self.0.wrapping_add(packets as u32) & MASK)
    }

    /// Which packet this is, counted from 0 for the one numbered `first`: of all that bear the
    /// number, the one nearest to packet `near`. `None` where that would be before the first.
    pub const fn index(self, first: SequenceNumber, near: u64) -> Option<u64> {
        let ahead = self.0.wrapping_sub(first.after(near).0) & MASK;
        // The upper half of the numbers lies behind.
        if ahead <= MASK / 2 {
            near.checked_add(ahead as u64)
        } else {
            near.checked_sub((MASK - ahead) as u64 + 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_number_near_where_it_is_looked_for_is_found(
            first in 0..=MASK, index in 0_u64..1 << 40, off in -(1_i64 << 29)..1 << 29,
        ) {
            let first = SequenceNumber::new(first);
            let near = index.saturating_add_signed(off);
            prop_assert_eq!(first.after(index).index(first, near), Some(index));
        }
    }

    #[test]
    fn zero_follows_the_largest_number() {
        let last = SequenceNumber::new(MASK);
        assert_eq!(last.after(1), SequenceNumber::new(0));
        assert_eq!(SequenceNumber::new(0).index(last, 0), Some(1));
        assert_eq!(last.index(SequenceNumber::new(0), 0), None, "it is before the first packet");
    }
}

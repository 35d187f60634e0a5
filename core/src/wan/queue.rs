//! The queue before the wire, kept as one number: how many bits are waiting or being sent.
//!
//! No packet is stored here. A first-in first-out queue served at a constant rate is fully
//! described by its backlog: what is accepted now leaves when the backlog, itself included, has
//! drained. Cross-traffic is a fluid that arrives at a constant rate in the same queue, so it takes
//! capacity, builds delay and causes drops as real traffic would.

use crate::units::{Bytes, Rate, Span, Time};

/// The backlog is counted in billionths of a bit, since `bit/s x ns` is exact in them.
const PER_BIT: u128 = 1_000_000_000;

/// A tail-drop queue in front of a wire of a given rate.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    rate: Rate,
    cross: Rate,
    limit: u128,
    backlog: u128,
    updated: Time,
}

impl Queue {
    /// An empty queue at `now`. A `rate` of zero is taken for 1 bit/s.
    pub(super) fn new(now: Time, rate: Rate, limit: Bytes) -> Queue {
        let limit = u128::from(limit.0) * 8 * PER_BIT;
        Queue {
            rate: at_least_one(rate),
            cross: Rate::from_bps(0),
            limit,
            backlog: 0,
            updated: now,
        }
    }

    /// Lets time pass until `now`: the wire drains, cross-traffic arrives.
    pub(super) fn advance(&mut self, now: Time) {
        let span = u128::from(now.since(self.updated).as_nanos());
        self.updated = self.updated.max(now);
        let (rate, cross) = (u128::from(self.rate.as_bps()), u128::from(self.cross.as_bps()));
        if cross <= rate {
            self.backlog = self.backlog.saturating_sub((rate - cross) * span);
        } else if self.backlog < self.limit {
            self.backlog = self.limit.min(self.backlog + (cross - rate) * span);
        }
    }

    /// Bytes waiting or being sent, rounded up.
    pub(super) fn backlog(&self) -> Bytes {
        Bytes(u64::try_from(self.backlog.div_ceil(8 * PER_BIT)).unwrap_or(u64::MAX))
    }

    /// Whether `wire_bytes` more may wait.
    pub(super) fn accepts(&self, wire_bytes: u64) -> bool {
        self.backlog + bits(wire_bytes) <= self.limit
    }

    /// Whether nothing is waiting or being sent.
    pub(super) fn is_idle(&self) -> bool {
        self.backlog == 0
    }

    /// Adds `wire_bytes` and returns when their last bit leaves.
    pub(super) fn push(&mut self, wire_bytes: u64) -> Time {
        self.backlog += bits(wire_bytes);
        self.drained_at()
    }

    /// When the last bit that waits now will have left.
    pub(super) fn drained_at(&self) -> Time {
        let nanos = self.backlog.div_ceil(u128::from(self.rate.as_bps()));
        self.updated + Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// A burst of other traffic arrives at once; what does not fit is dropped.
    pub(super) fn burst(&mut self, burst: Bytes) {
        if self.backlog < self.limit {
            self.backlog = self.limit.min(self.backlog + bits(burst.0));
        }
    }

    /// Cross-traffic arrives at `rate` from now on.
    pub(super) fn set_cross(&mut self, rate: Rate) {
        self.cross = rate;
    }

    /// The wire sends at `rate` from now on; returns the rate before.
    pub(super) fn set_rate(&mut self, rate: Rate) -> Rate {
        std::mem::replace(&mut self.rate, at_least_one(rate))
    }

    /// The wire's rate now.
    pub(super) fn rate(&self) -> Rate {
        self.rate
    }
}

fn bits(bytes: u64) -> u128 {
    u128::from(bytes) * 8 * PER_BIT
}

fn at_least_one(rate: Rate) -> Rate {
    rate.max(Rate::from_bps(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIGABIT: Rate = Rate::from_bps(1_000_000_000);

    #[test]
    fn bits_leave_one_after_the_other_without_rounding_up_each() {
        // 84 bytes at 9.29 Gbit/s are 72.34 ns; a thousand are 72,336 ns, not 73,000.
        let mut queue = Queue::new(Time::ZERO, Rate::from_bps(9_290_000_000), Bytes::mib(4));
        let last = (0..1_000).map(|_| queue.push(84)).last();
        assert_eq!(last, Some(Time::from_nanos(72_336)));
    }

    #[test]
    fn cross_traffic_leaves_the_rest_of_the_rate() {
        let mut queue = Queue::new(Time::ZERO, GIGABIT, Bytes::mib(4));
        queue.set_cross(Rate::from_bps(750_000_000));
        queue.push(125_000);
        queue.advance(Time::ZERO + Span::from_millis(2));
        assert_eq!(
            queue.backlog(),
            Bytes(62_500),
            "1 ms of backlog drains at a quarter of the rate"
        );
    }

    #[test]
    fn cross_traffic_above_the_rate_fills_the_queue_to_its_limit() {
        let mut queue = Queue::new(Time::ZERO, GIGABIT, Bytes(100_000));
        queue.set_cross(Rate::from_bps(2_000_000_000));
        queue.advance(Time::ZERO + Span::from_secs(1));
        assert_eq!(queue.backlog(), Bytes(100_000));
        assert!(!queue.accepts(84));
    }
}

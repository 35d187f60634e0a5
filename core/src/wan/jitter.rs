//! Extra delay that varies with time, without overtaking unless it is asked for.
//!
//! Independent delays per packet would either reorder a dense stream or, forced in order, push
//! every packet to the largest delay drawn so far (the mean then depends on the packet rate). So
//! the extra delay is a function of time: at every multiple of the jitter span a value is drawn
//! uniformly from zero to that span, and in between it runs in a straight line. Its slope is never
//! below -1, so what leaves later never arrives earlier, at any rate; its mean is half the span.

use crate::units::{Rng, Span, Time};

/// Extra one-way delay between zero and `span`.
#[derive(Clone, Debug)]
pub(super) struct Jitter {
    span: Span,
    independent: bool,
    knots: Rng,
    draws: Rng,
}

impl Jitter {
    /// `independent` draws each delay by itself, so that frames overtake each other.
    pub(super) fn new(span: Span, independent: bool, seed: &Rng) -> Jitter {
        Jitter { span, independent, knots: seed.fork(1), draws: seed.fork(2) }
    }

    /// Whether each frame has a delay of its own.
    pub(super) fn reorders(&self) -> bool {
        self.independent && self.span > Span::ZERO
    }

    /// The extra delay of what leaves at `time`.
    pub(super) fn at(&mut self, time: Time) -> Span {
        if self.span == Span::ZERO {
            return Span::ZERO;
        }
        if self.independent {
            return self.span.mul_f64(self.draws.unit());
        }
        let (knot, into) =
            (time.as_nanos() / self.span.as_nanos(), time.as_nanos() % self.span.as_nanos());
        let part = into as f64 / self.span.as_nanos() as f64;
        let (before, after) =
            (self.knots.fork(knot).unit(), self.knots.fork(knot.wrapping_add(1)).unit());
        self.span.mul_f64(before + (after - before) * part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leaves_later_arrives_later() {
        let mut jitter = Jitter::new(Span::from_millis(1), false, &Rng::new(3));
        let mut last = Time::ZERO;
        let mut sum = 0.0;
        for step in 0..200_000u64 {
            let time = Time::from_nanos(step * 997);
            let extra = jitter.at(time);
            assert!(extra <= Span::from_millis(1));
            // Rounding to a nanosecond may take one back; the link holds the order.
            assert!(time + extra + Span::from_nanos(1) >= last);
            last = time + extra;
            sum += extra.as_millis_f64();
        }
        let mean = sum / 200_000.0;
        assert!((0.4..0.6).contains(&mean), "mean {mean} ms");
    }
}

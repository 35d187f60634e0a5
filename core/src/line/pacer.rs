//! When the next burst of frames leaves: on time, and after a pause of the sender's little faster
//! than the load and never faster than the line, as what it makes up for at once is a burst that
//! fills queues which the load would not.

/// What is behind the pace by more is not made up for: the second has less than its load then.
const MOST_BEHIND: u64 = 10_000_000;
/// So much of what is behind may leave at once: a thread that sleeps wakes up some 60 us late.
const AT_ONCE: u64 = 500_000;
/// The rest leaves at 5/4 of the load, or at the line's rate where that is less: what is faster
/// would overfill a queue of less than [`MOST_BEHIND`] that the load leaves empty, and the line
/// would have lost that.
const HASTE: (u64, u64) = (4, 5);

/// The times of bursts, in nanoseconds since any moment.
#[derive(Clone, Copy, Debug)]
pub struct FramePacer {
    /// When the next one is due by the load.
    due: u64,
    /// And by the load in haste.
    hasty: u64,
}

impl FramePacer {
    /// The first burst is due `now`.
    pub fn new(now: u64) -> FramePacer {
        FramePacer { due: now, hasty: now }
    }

    /// When the next burst leaves.
    pub fn due(&self) -> u64 {
        self.due.max(self.hasty)
    }

    /// One left `now`, `gap` before the next by the load; it takes the line `least` to carry it.
    pub fn sent(&mut self, now: u64, gap: u64, least: u64) {
        let hasty = (gap * HASTE.0 / HASTE.1).max(least);
        self.due = (self.due + gap).max(now.saturating_sub(MOST_BEHIND));
        self.hasty = (self.hasty + hasty).max(now.saturating_sub(AT_ONCE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Bytes, Rate, Rng, Span, Time};
    use crate::wan::{Direction, Frames, OneWayLink, Output, Packet};

    /// When each burst left in a second of gaps of `gap`, of a sender that wakes up so much late at
    /// `late`'s word.
    fn sent(gap: u64, mut late: impl FnMut(u64) -> u64) -> Vec<u64> {
        let (mut pacer, mut now, mut times) = (FramePacer::new(0), 0, Vec::new());
        while now < 1_000_000_000 {
            if now < pacer.due() {
                now = pacer.due() + late(pacer.due());
            }
            times.push(now);
            pacer.sent(now, gap, 0);
            now += 1;
        }
        times
    }

    /// Frames lost at 95 % of 1 Gbit/s in a queue of 2 ms, of a sender that pauses for up to 15 ms
    /// now and then and makes up for it no faster than one frame in `least`.
    fn lost_to_pauses(seed: u64, least: u64) -> u64 {
        let rate = Rate::from_bps(1_000_000_000);
        let path = Direction {
            queue: Bytes(250_000),
            ..Direction::new(rate, Span::from_millis(5), Span::from_millis(10))
        };
        let (mut rng, mut link) =
            (Rng::new(seed), OneWayLink::new(Time::ZERO, &path, [], &Rng::new(seed)));
        let gap = rate.time_for(Bytes(1_538)).as_nanos() * 100 / 95;
        let (mut pacer, mut now) = (FramePacer::new(0), 0);
        for token in 0..80_000 {
            if now < pacer.due() {
                let pauses = rng.below(1_000) == 0;
                let pause = if pauses { rng.below(15_000_000) } else { 0 };
                now = pacer.due() + 20_000 + rng.below(60_000) + pause;
            }
            link.handle(Time::from_nanos(now), Packet { token, frames: Frames::one(1_500) });
            while !matches!(link.poll(Time::from_nanos(now)), Output::Wait(_)) {}
            pacer.sent(now, gap, least);
        }
        link.counters().dropped()
    }

    #[test]
    fn pauses_of_the_senders_lose_nothing_in_the_lines_queue() {
        let least = Rate::from_bps(1_000_000_000).time_for(Bytes(1_538)).as_nanos();
        for seed in 0..10 {
            assert_eq!(lost_to_pauses(seed, least), 0, "seed {seed}");
            assert!(
                lost_to_pauses(seed, 0) > 100,
                "five quarters of the load are too much: {seed}"
            );
        }
    }

    #[test]
    fn a_pause_is_made_up_for_at_five_quarters_of_the_load() {
        let gap = 100_000;
        let mut is_over = false;
        let times = sent(gap, |due| {
            let pauses = !is_over && due > 300_000_000;
            is_over |= pauses;
            if pauses { 8_000_000 } else { 0 }
        });
        assert!((9_995..=10_001).contains(&times.len()), "nothing is left out: {}", times.len());
        for from in &times {
            let count = times.iter().filter(|at| (*from..from + 4_000_000).contains(at)).count();
            // Of 4.5 ms at five quarters, and one at either end.
            assert!(count <= 58, "{count} bursts in 4 ms, of 40 by the load");
        }
    }

    #[test]
    fn a_thread_that_always_wakes_up_late_keeps_the_load() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let gap = 20_000 + rng.next_u64() % 100_000;
            let times = sent(gap, |_| 20_000 + rng.next_u64() % 100_000);
            let (count, wanted) = (times.len() as u64, 1_000_000_000 / gap);
            assert!(
                count + 12 >= wanted && count <= wanted + 2,
                "seed {seed}: {count} of {wanted}"
            );
        }
    }

    #[test]
    fn what_is_too_far_behind_is_left_out() {
        let times = sent(100_000, |due| if due % 100_000_000 == 0 { 50_000_000 } else { 0 });
        assert!(times.len() < 6_500, "{}", times.len());
    }

    #[test]
    fn without_a_load_nothing_waits() {
        let mut pacer = FramePacer::new(5);
        pacer.sent(7, 0, 0);
        assert!(pacer.due() <= 7);
    }
}

//! When the next burst of frames leaves: on time, and after a pause of the sender's little faster than the
//! load, as what it makes up for at once is a burst that fills queues which the load would not.

/// What is behind the pace by more is not made up for: the second has less than its load then.
const MOST_BEHIND: u64 = 10_000_000;
/// So much of what is behind may leave at once: a thread that sleeps wakes up some 60 us late.
const AT_ONCE: u64 = 500_000;
/// The rest leaves at 5/4 of the load.
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

    /// One left `now`, `gap` before the next by the load.
    pub fn sent(&mut self, now: u64, gap: u64) {
        self.due = (self.due + gap).max(now.saturating_sub(MOST_BEHIND));
        self.hasty = (self.hasty + gap * HASTE.0 / HASTE.1).max(now.saturating_sub(AT_ONCE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Rng;

    /// When each burst left in a second of gaps of `gap`, of a sender that wakes up so much late at
    /// `late`'s word.
    fn sent(gap: u64, mut late: impl FnMut(u64) -> u64) -> Vec<u64> {
        let (mut pacer, mut now, mut times) = (FramePacer::new(0), 0, Vec::new());
        while now < 1_000_000_000 {
            if now < pacer.due() {
                now = pacer.due() + late(pacer.due());
            }
            times.push(now);
            pacer.sent(now, gap);
            now += 1;
        }
        times
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
        pacer.sent(7, 0);
        assert!(pacer.due() <= 7);
    }
}

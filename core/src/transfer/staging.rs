//! When to read ahead and when to rest: the low- and high-water marks of the staging pool.
//!
//! The marks are those of ADTS (Subramoni et al., "High Performance Data Transfer in Grid
//! Environment Using GridFTP over InfiniBand", section IV.A): reading begins when fewer buffers
//! than the low mark are filled and goes on up to the high mark, so that the disk works in long
//! runs and the network threads keep the processor in between.

/// The marks, in slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    /// Reading begins, and writing rests, below this many filled slots.
    pub low: usize,
    /// Reading rests, and writing begins, at this many filled slots.
    pub high: usize,
    /// Whether filling and emptying take turns, as with synchronous I/O on one buffer; else both go
    /// on at once.
    pub turns: bool,
}

impl Watermarks {
    /// For the writer of a pool of `slots`: it begins at an eighth of the pool and empties it.
    ///
    /// Writing also begins when no slot is free and when the sender has ended, so that nothing
    /// waits for a mark that it cannot reach.
    pub fn of_writer(slots: usize) -> Watermarks {
        Watermarks { low: 1, high: (slots / 8).clamp(1, 8), turns: false }
    }

    /// For the reader of a pool of `slots`: half the pool and the whole pool, the choice of ADTS.
    pub fn of_pool(slots: usize) -> Watermarks {
        Watermarks { low: (slots / 2).max(1), high: slots.max(1), turns: false }
    }

    /// For the reader of a pool of `slots`, of which `window` may be on their way: the same for
    /// what is left next to them. A slot counts as filled until the network is done with it, so
    /// that below half of the pool a wider window would never be full.
    pub fn above_window(window: usize, slots: usize) -> Watermarks {
        let window = window.min(slots);
        Watermarks { low: (window + (slots - window) / 2).max(1), ..Watermarks::of_pool(slots) }
    }

    /// For a reader that fills the whole pool while the network rests, and rests until it is empty:
    /// ADTS's synchronous I/O (figure 8), for measuring what the other way is worth.
    pub fn in_turns(slots: usize) -> Watermarks {
        Watermarks { low: 1, high: slots.max(1), turns: true }
    }
}

/// Whether the disk should work now, by the number of slots filled or being filled.
#[derive(Clone, Debug)]
pub struct Staging {
    watermarks: Watermarks,
    filled: usize,
    filling: bool,
    rests: u64,
}

impl Staging {
    /// An empty pool, to be filled.
    pub fn new(watermarks: Watermarks) -> Staging {
        Staging { watermarks: sensible(watermarks), filled: 0, filling: true, rests: 0 }
    }

    /// The pool has become larger.
    pub fn move_watermarks(&mut self, watermarks: Watermarks) {
        self.watermarks = sensible(watermarks);
        self.filling |= self.filled < self.watermarks.low;
    }

    /// How often filling has rested because the high mark was reached.
    pub fn rests(&self) -> u64 {
        self.rests
    }

    /// Whether one more slot should be filled.
    pub fn wants_fill(&self) -> bool {
        self.filling
    }

    /// Whether what is filled may be emptied now.
    pub fn may_drain(&self) -> bool {
        !(self.watermarks.turns && self.filling)
    }

    /// One more slot is filled or being filled.
    pub fn fill(&mut self) {
        self.filled += 1;
        if self.filled >= self.watermarks.high {
            self.rests += u64::from(self.filling);
            self.filling = false;
        }
    }

    /// One slot was emptied.
    pub fn drain(&mut self) {
        self.filled = self.filled.saturating_sub(1);
        if self.filled < self.watermarks.low {
            self.filling = true;
        }
    }
}

/// Marks with which something moves.
fn sensible(watermarks: Watermarks) -> Watermarks {
    let high = watermarks.high.max(1);
    Watermarks { low: watermarks.low.clamp(1, high), high, ..watermarks }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_to_the_high_mark_then_rests_until_below_the_low_mark() {
        let mut staging = Staging::new(Watermarks { low: 2, high: 4, turns: false });
        for _ in 0..4 {
            assert!(staging.wants_fill());
            staging.fill();
        }
        assert!(!staging.wants_fill());
        staging.drain();
        staging.drain();
        assert!(!staging.wants_fill(), "two filled is not below the low mark");
        staging.drain();
        assert!(staging.wants_fill());
    }

    #[test]
    fn reading_begins_again_before_a_wide_window_empties() {
        assert_eq!(Watermarks::above_window(0, 16), Watermarks::of_pool(16));
        assert_eq!(
            Watermarks::above_window(24, 32),
            Watermarks { low: 28, high: 32, turns: false }
        );
        assert_eq!(Watermarks::above_window(40, 32).low, 32);
    }

    #[test]
    fn marks_that_make_no_sense_still_make_progress() {
        let mut staging = Staging::new(Watermarks { low: 0, high: 0, turns: false });
        assert!(staging.wants_fill());
        staging.fill();
        assert!(!staging.wants_fill());
        staging.drain();
        assert!(staging.wants_fill());
    }
}

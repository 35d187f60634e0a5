//! What the line does to frames: random loss, bit errors and, when asked, flips that no checksum
//! shows.
//!
//! Each impairment keeps the number of trials (frames or bits) until it strikes next, drawn from
//! the geometric distribution, so a train in which nothing strikes costs three comparisons.

use super::counters::Cause;
use super::frames::Frames;
use super::settings::Direction;
use crate::units::Rng;
use std::ops::Range;

/// What becomes of a run of neighbouring frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameOutcome {
    /// They arrive.
    Arrives,
    /// They arrive, with one payload bit flipped in the only frame of the run: which one follows
    /// from the number.
    Flipped(u64),
    /// They are lost.
    Lost(Cause),
}

/// One kind of trouble: trials left until it strikes.
#[derive(Clone, Debug)]
struct Trouble {
    probability: f64,
    left: u64,
    rng: Rng,
}

impl Trouble {
    fn new(probability: f64, mut rng: Rng) -> Trouble {
        Trouble { probability, left: rng.trials_before_success(probability), rng }
    }

    /// Lets `trials` pass when none of them strikes; returns whether that is so.
    fn passes(&mut self, trials: u64) -> bool {
        if self.left < trials {
            return false;
        }
        if self.left != u64::MAX {
            self.left -= trials;
        }
        true
    }

    /// The same for a frame that counts `trials`; after a strike the next gap is drawn.
    fn strikes(&mut self, trials: u64) -> bool {
        if self.passes(trials) {
            return false;
        }
        self.left = self.rng.trials_before_success(self.probability);
        true
    }
}

/// The impairments of one direction.
#[derive(Clone, Debug)]
pub(super) struct Impairments {
    loss: Trouble,
    bit_error: Trouble,
    flip: Trouble,
    where_flipped: Rng,
}

impl Impairments {
    pub(super) fn new(direction: &Direction, seed: &Rng) -> Impairments {
        Impairments {
            loss: Trouble::new(direction.loss, seed.fork(11)),
            bit_error: Trouble::new(direction.ber, seed.fork(12)),
            flip: Trouble::new(direction.flips, seed.fork(13)),
            where_flipped: seed.fork(14),
        }
    }

    /// Calls `emit` with runs of neighbours that share an outcome and together are `range`.
    pub(super) fn pass(
        &mut self,
        frames: &Frames,
        range: Range<u32>,
        mut emit: impl FnMut(Range<u32>, FrameOutcome),
    ) {
        let count = u64::from(range.end - range.start);
        let bits = frames.framed_bytes(&range) * 8;
        if self.loss.left >= count && self.bit_error.left >= bits && self.flip.left >= count {
            self.loss.passes(count);
            self.bit_error.passes(bits);
            self.flip.passes(count);
            return emit(range, FrameOutcome::Arrives);
        }
        let mut run: Option<(Range<u32>, FrameOutcome)> = None;
        for index in range {
            let outcome = self.outcome(frames, index);
            match &mut run {
                Some((run, same))
                    if *same == outcome && !matches!(outcome, FrameOutcome::Flipped(_)) =>
                {
                    run.end = index + 1
                }
                _ => {
                    if let Some((done, outcome)) = run.replace((index..index + 1, outcome)) {
                        emit(done, outcome);
                    }
                }
            }
        }
        if let Some((done, outcome)) = run {
            emit(done, outcome);
        }
    }

    /// The outcome of one frame: loss first, then bit errors; only a frame that arrives can carry a
    /// flip.
    fn outcome(&mut self, frames: &Frames, index: u32) -> FrameOutcome {
        if self.loss.strikes(1) {
            return FrameOutcome::Lost(Cause::Loss);
        }
        if self.bit_error.strikes(frames.framed_bytes(&(index..index + 1)) * 8) {
            return FrameOutcome::Lost(Cause::BitError);
        }
        if self.flip.strikes(1) {
            return FrameOutcome::Flipped(self.where_flipped.next_u64());
        }
        FrameOutcome::Arrives
    }
}

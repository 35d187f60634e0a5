//! The longest burst that a line takes without loss, and the buffer that this speaks of:
//! back-to-back frames (RFC 2544, section 26.4, as RFC 9004 has it).
//!
//! The search is repeated; a repetition begins where the one before ended, since what differs is
//! little. Invariant: a burst that a host could not send as asked, or lost itself, says nothing.

use crate::statistics::Summary;
use crate::units::{Rate, Span};
use serde::{Deserialize, Serialize};

/// How exact a burst is found, of its length.
const PRECISION: f64 = 0.01;
/// A repetition looks first so far from where the one before ended.
const AROUND: f64 = 0.02;
/// A burst that a host could not send is tried so often.
const TRIES: usize = 10;

/// One burst.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BurstTrial {
    /// Its frames.
    pub frames: u64,
    /// Those that did not come; `None` where a host did not keep up.
    pub lost: Option<u64>,
}

/// The machine: it says how long the next burst is, and is told what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BurstSearch {
    /// The longest burst that is sent.
    pub most_frames: u64,
    /// How often the search is repeated.
    pub repeats: usize,
    /// What was tried, in order.
    pub trials: Vec<BurstTrial>,
    /// What each repetition found.
    pub found: Vec<u64>,
    /// Whether a host that did not keep up ended it.
    pub is_host_limited: bool,
    /// The longest burst of this repetition that came, and the shortest that did not.
    carried: Option<u64>,
    refused: Option<u64>,
    unfit: usize,
}

/// What the repetitions say of the line's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BurstBuffer {
    /// Frames of the longest burst without loss: mean, least, most, deviation.
    pub frames: Summary,
    /// How long such a burst is, by the rate at which it came to the line.
    pub implied: Span,
    /// The same less what left the buffer meanwhile: how long the buffer takes to fill at that
    /// rate.
    pub corrected: Span,
    /// Bytes of the wire's time that are in that.
    pub corrected_bytes: f64,
}

impl BurstSearch {
    /// A search up to bursts of `most_frames`.
    pub fn new(most_frames: u64, repeats: usize) -> BurstSearch {
        BurstSearch {
            most_frames: most_frames.max(1),
            repeats,
            trials: Vec::new(),
            found: Vec::new(),
            is_host_limited: false,
            carried: None,
            refused: None,
            unfit: 0,
        }
    }

    /// Frames of the next burst; `None` when the search is over.
    pub fn next(&self) -> Option<u64> {
        if self.is_host_limited || self.found.len() >= self.repeats {
            return None;
        }
        let around = |frames: u64| ((frames as f64 * AROUND) as u64).max(1);
        Some(match (self.carried, self.refused, self.found.last()) {
            (None, None, None) => self.most_frames,
            (None, None, Some(before)) => (*before).max(1),
            (Some(carried), Some(refused), _) => carried.midpoint(refused),
            // Further off each time: what is known is twice as far from where this began.
            (Some(carried), None, before) => {
                let from = before.copied().unwrap_or(carried).min(carried);
                (2 * carried - from + around(carried)).min(self.most_frames)
            }
            (None, Some(refused), Some(before)) => {
                let gone = before.saturating_sub(refused) + around(refused);
                refused.saturating_sub(gone).max(1)
            }
            (None, Some(refused), None) => refused.div_ceil(2),
        })
    }

    /// What came of the burst that was said: frames that did not come, or `None` where a host did
    /// not keep up.
    pub fn record(&mut self, lost: Option<u64>) {
        let Some(frames) = self.next() else { return };
        self.trials.push(BurstTrial { frames, lost });
        match lost {
            None => {
                self.unfit += 1;
                self.is_host_limited = self.unfit >= TRIES;
                return;
            }
            Some(0) => self.carried = Some(frames),
            Some(_) => self.refused = Some(frames),
        }
        self.unfit = 0;
        let (carried, refused) = (self.carried.unwrap_or(0), self.refused);
        let is_close = |refused: u64| {
            let apart = refused.saturating_sub(carried);
            apart <= 1 || apart as f64 <= refused as f64 * PRECISION
        };
        let is_over = refused.map_or(carried >= self.most_frames, is_close);
        if is_over {
            self.found.push(carried);
            (self.carried, self.refused) = (None, None);
        }
    }

    /// Whether even the longest burst came: the line has no less than the rate.
    pub fn is_unlimited(&self) -> bool {
        self.found.last().is_some_and(|found| *found >= self.most_frames)
    }

    /// What the repetitions say, of frames that take `wire_bytes` and come at `rate` to a line that
    /// carries `throughput` of frames that follow each other for long; `None` before the first.
    pub fn buffer(&self, rate: Rate, wire_bytes: f64, throughput: Rate) -> Option<BurstBuffer> {
        let found: Vec<f64> = self.found.iter().map(|frames| *frames as f64).collect();
        let frames = Summary::of(&found)?;
        let implied = frames.mean * wire_bytes * 8.0 / rate.as_bps() as f64;
        let left = throughput.as_bps() as f64 / rate.as_bps() as f64;
        let corrected = implied * (1.0 - left).max(0.0);
        Some(BurstBuffer {
            frames,
            implied: Span::from_secs_f64(implied),
            corrected: Span::from_secs_f64(corrected),
            corrected_bytes: corrected * rate.as_bps() as f64 / 8.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Bytes, Rng, Time};
    use crate::wan::{Direction, Frames, OneWayLink, Output, Packet};

    const RATE: u64 = 1_000_000_000;
    const WIRE: f64 = 1_538.0;

    /// Frames lost of a burst at 1 Gbit/s over a link of `rate` with a queue of `queue` bytes.
    fn lost(rate: u64, queue: u64, frames: u64) -> u64 {
        let direction = Direction {
            queue: Bytes(queue),
            ..Direction::new(Rate::from_bps(rate), Span::ZERO, Span::ZERO)
        };
        let mut link = OneWayLink::new(Time::ZERO, &direction, [], &Rng::new(1));
        let (mut now, gap) = (Time::ZERO, Span::from_secs_f64(WIRE * 8.0 / RATE as f64));
        for token in 0..frames {
            link.handle(now, Packet { token, frames: Frames::one(1_500) });
            while !matches!(link.poll(now), Output::Wait(_)) {}
            now += gap;
        }
        link.counters().dropped()
    }

    #[test]
    fn the_queue_of_a_link_is_found() {
        for seed in 0..40 {
            let mut rng = Rng::new(seed);
            let rate = 100_000_000 + rng.next_u64() % 800_000_000;
            let queue = 30_000 + rng.next_u64() % 1_000_000;
            let mut search = BurstSearch::new(160_000, 5);
            while let Some(frames) = search.next() {
                assert!(search.trials.len() < 60, "{search:?}");
                search.record(Some(lost(rate, queue, frames)));
            }
            assert!(!search.is_unlimited() && !search.is_host_limited);
            let buffer = search.buffer(Rate::from_bps(RATE), WIRE, Rate::from_bps(rate));
            let buffer = buffer.expect("repetitions");
            let off = (buffer.corrected_bytes - queue as f64).abs();
            // A frame, and what the search leaves open.
            assert!(off < 2.0 * WIRE + 0.02 * queue as f64, "{off} of {queue} at {rate}");
            assert!(buffer.frames.sd <= 0.02 * buffer.frames.mean, "{buffer:?}");
        }
    }

    #[test]
    fn repetitions_that_differ_are_all_found() {
        let mut rng = Rng::new(5);
        let mut search = BurstSearch::new(100_000, 200);
        let mut truth = 1_000;
        while let Some(frames) = search.next() {
            assert!(search.trials.len() < 6_000);
            let before = search.found.len();
            search.record(Some(frames.saturating_sub(truth)));
            if search.found.len() > before {
                let found = search.found[before];
                assert!(found <= truth && found as f64 >= truth as f64 * 0.985, "{found} {truth}");
                truth = 100 + rng.next_u64() % 5_000;
            }
        }
        assert_eq!(search.found.len(), 200);
    }

    #[test]
    fn a_line_as_fast_as_the_burst_takes_any() {
        let mut search = BurstSearch::new(1_000, 3);
        while search.next().is_some() {
            search.record(Some(0));
        }
        assert!(search.is_unlimited() && search.trials.len() == 3);
        let mut nothing = BurstSearch::new(1_000, 1);
        while nothing.next().is_some() {
            nothing.record(Some(1));
        }
        assert_eq!(nothing.found, [0]);
    }

    #[test]
    fn a_host_that_cannot_send_bursts_ends_the_search() {
        let mut search = BurstSearch::new(1_000, 3);
        while search.next().is_some() {
            search.record(None);
        }
        assert!(search.is_host_limited && search.trials.len() == TRIES);
        assert_eq!(search.buffer(Rate::from_bps(1), 1.0, Rate::from_bps(1)), None);
        // One that could not now and then does not.
        let (mut search, mut trial) = (BurstSearch::new(1_000, 3), 0);
        while let Some(frames) = search.next() {
            trial += 1;
            search.record((trial % 3 > 0).then(|| frames.saturating_sub(400)));
        }
        assert!(!search.is_host_limited && search.found.iter().all(|n| (394..=400).contains(n)));
    }
}

//! Spaces a transfer's bytes so that no more than a rate passes: a token bucket kept as one point
//! in time.

use crate::units::{Bytes, Rate, Span, Time};
use std::ops::Range;

/// How much unused time may be made up for: a thread that the system woke late catches up, a path
/// that stood still for seconds is not answered with seconds' worth of bytes at once.
const SLACK: Span = Span::from_millis(100);
/// The time that one turn's bytes take: short against [`SLACK`], long against a wake-up.
const TURN: Span = Span::from_millis(5);
/// Fewer bytes than one packet's are not worth a system call; more than a block's are never asked
/// for.
const LEAST_TURN: u64 = 1448;
const MOST_TURN: u64 = 1 << 20;

/// Tells when bytes may go. All channels of a transfer share one.
#[derive(Clone, Debug)]
pub struct Pacer {
    rate: Rate,
    /// When everything that had a turn so far is through at `rate`.
    due: Time,
}

impl Pacer {
    /// A pacer that begins at `now`. A `rate` of zero is taken for 1 bit/s.
    pub fn new(now: Time, rate: Rate) -> Pacer {
        Pacer { rate: Rate::from_bps(rate.as_bps().max(1)), due: now }
    }

    /// The rate.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Goes on at another rate; turns that were given stay as they are.
    pub fn set_rate(&mut self, rate: Rate) {
        self.rate = Rate::from_bps(rate.as_bps().max(1));
    }

    /// How many bytes to ask for at once.
    pub fn turn_len(&self) -> usize {
        self.rate.bytes_in(TURN).0.clamp(LEAST_TURN, MOST_TURN) as usize
    }

    /// Whether what it paces is slower than the rate: turns that are due are not asked for in time.
    pub fn is_behind(&self, now: Time) -> bool {
        self.due + SLACK <= now
    }

    /// Takes a turn for `bytes`; returns when it begins and when it ends at the rate.
    ///
    /// Who sends them at once does so at the end: then `n` bytes never take less than `n` at the
    /// rate, however short the transfer. Who has something below that spreads them (the kernel's
    /// pacing) hands them over at the beginning.
    pub fn turn(&mut self, now: Time, bytes: Bytes) -> Range<Time> {
        let begin = self.due.max(now - SLACK);
        self.due = begin + self.rate.time_for(bytes);
        begin..self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Rng;

    #[test]
    fn another_rate_counts_from_the_next_turn_on() {
        let mut pacer = Pacer::new(Time::ZERO, Rate::from_bps(8_000));
        assert_eq!(pacer.turn(Time::ZERO, Bytes(1000)).end, Time::ZERO + Span::from_secs(1));
        pacer.set_rate(Rate::from_bps(80_000));
        let turn = pacer.turn(Time::ZERO, Bytes(1000));
        assert_eq!(turn.start, Time::ZERO + Span::from_secs(1));
        assert_eq!(turn.end, Time::ZERO + Span::from_millis(1100));
    }

    /// Lets `channels` take turns until `total` bytes went, each waking up to `late` after its
    /// time; returns the time it took.
    fn run(
        seed: u64,
        rate: Rate,
        channels: usize,
        total: u64,
        late: Span,
        stall: Option<(Time, Span)>,
    ) -> Span {
        let mut rng = Rng::new(seed);
        let mut pacer = Pacer::new(Time::ZERO, rate);
        let mut awake = vec![Time::ZERO; channels];
        let mut gone = 0;
        let mut end = Time::ZERO;
        while gone < total {
            let next = (0..channels).min_by_key(|&i| awake[i]).unwrap_or(0);
            let mut now = awake[next];
            if let Some((from, span)) = stall
                && now >= from
                && now < from + span
            {
                now = from + span;
            }
            let len = (pacer.turn_len() as u64).min(total - gone);
            let may = pacer.turn(now, Bytes(len)).end.max(now);
            awake[next] = may + Span::from_nanos(rng.below(late.as_nanos().max(1)));
            end = end.max(may);
            gone += len;
            // What has gone by any time fits the rate, but for the slack.
            let allowed = rate.bytes_in(may.since(Time::ZERO) + SLACK).0 + len;
            assert!(
                gone <= allowed,
                "seed {seed}: {gone} bytes by {may:?}, at most {allowed} may have"
            );
        }
        end.since(Time::ZERO)
    }

    #[test]
    fn keeps_the_rate_within_a_hundredth_over_many_seeds() {
        for seed in 0..100 {
            let mut rng = Rng::new(seed);
            let rate = Rate::from_bps(100_000 + rng.below(20_000_000_000));
            let channels = 1 + rng.below(16) as usize;
            let total = rate.bytes_in(Span::from_secs(5)).0;
            let took = run(seed, rate, channels, total, Span::from_micros(500), None).as_secs_f64();
            assert!((4.999..5.05).contains(&took), "seed {seed}: {took} s instead of 5 at {rate}");
        }
    }

    #[test]
    fn a_short_transfer_is_not_a_burst() {
        let rate = Rate::from_bps(8_000_000);
        let took = run(1, rate, 1, 100_000, Span::from_micros(100), None);
        assert!(took.as_secs_f64() >= 0.0999, "{took}");
    }

    #[test]
    fn a_path_that_stood_still_is_not_answered_with_a_burst() {
        let rate = Rate::from_bps(1_000_000_000);
        let total = rate.bytes_in(Span::from_secs(4)).0;
        let stall = Some((Time::ZERO + Span::from_secs(1), Span::from_secs(2)));
        let took = run(2, rate, 2, total, Span::from_micros(100), stall).as_secs_f64();
        assert!(
            (5.85..6.05).contains(&took),
            "{took} s: four at the rate and two of standing still"
        );
    }
}

//! Tells losses of a full path from the path's own: a queue fills before it overflows.

use super::path_sample::PathSample;
use super::rounds::{BURST_TRIPS, Rounds};
use crate::units::{Bytes, Span, Time};

/// How long before it is noticed a queue may have caused a loss: a sample or two, and the round
/// trips in which the loss becomes known.
const QUEUE_MEMORY: Span = Span::from_millis(300);
const QUEUE_MEMORY_TRIPS: f64 = 3.0;

/// Round trips in which what an overflowing queue dropped is sent again, with next to nothing
/// arriving meanwhile: 12 to 25 of 163 ms were seen where the queue holds as much as the path.
const RECOVERY_TRIPS: f64 = 16.0;

/// Segments sent again since the sample before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NewLosses {
    /// Without a queue shortly before: the path loses them, whatever is sent.
    pub(super) stray: u64,
    /// With one: it overflowed.
    pub(super) overflowed: u64,
}

/// A look at the path, with what it says of queue and losses after all looks before it.
#[derive(Clone, Copy, Debug)]
pub struct JudgedSample {
    /// What was seen.
    pub(super) sample: PathSample,
    /// Segments sent again since the look before.
    pub(super) lost: NewLosses,
    /// Whether there is a queue.
    pub(super) has_queue: bool,
    /// Whether there is one for certain, and not what a busy host looks like.
    pub(super) has_long_queue: bool,
    /// Whether as much arrives as half of the best that did.
    pub(super) fills: bool,
}

impl JudgedSample {
    /// The same where something else than the network may have held the channels back.
    pub fn held_back(self, is_held: bool) -> JudgedSample {
        let network_bound = self.sample.network_bound && !is_held;
        JudgedSample { sample: PathSample { network_bound, ..self.sample }, ..self }
    }
}

/// Who sends less than this part of its best rate cannot have filled the path. A round trip that is
/// a little longer is then of small windows, which a receiver acknowledges late.
const FILLS: f64 = 0.5;

/// From this part of what arrives on, losses hold back whoever sends less than that: what waits for
/// timers takes long, and is no queue. Of a queue that overflows steadily so much is not lost.
const RIDDLED: f64 = 0.02;
/// Bytes of a segment, at least, where they may be longer.
const SEGMENT: f64 = 1448.0;

/// Remembers when there was a queue.
#[derive(Debug)]
pub struct LossJudge {
    retransmits: Option<u64>,
    /// Totals at the end of the last round: sent again, and delivered.
    round: (u64, Bytes),
    /// Whether so much was lost in it.
    is_riddled: bool,
    queued_at: Option<Time>,
    /// When a round trip was last so long that no timer explains it.
    long_at: Option<Time>,
    rounds: Rounds,
    /// Of the last round, in bits a second.
    rate: f64,
}

impl Default for LossJudge {
    fn default() -> LossJudge {
        let rounds = Rounds::of(BURST_TRIPS);
        LossJudge {
            retransmits: None,
            round: (0, Bytes(0)),
            is_riddled: false,
            queued_at: None,
            long_at: None,
            rounds,
            rate: 0.0,
        }
    }
}

impl LossJudge {
    /// Takes in a sample; several a second.
    pub fn handle(&mut self, sample: PathSample) -> JudgedSample {
        if let Some(rate) = self.rounds.rate(&sample) {
            self.rounds.judge(rate);
            self.rate = rate;
            let lost = sample.retransmits.saturating_sub(self.round.0) as f64 * SEGMENT;
            let delivered = sample.delivered.0.saturating_sub(self.round.1.0) as f64;
            self.is_riddled = lost > delivered * RIDDLED;
            self.round = (sample.retransmits, sample.delivered);
        }
        let fills = self.rate >= self.rounds.best * FILLS;
        let is_long = sample.has_long_queue();
        if is_long && (self.may_queue(&sample) || !self.is_riddled) {
            self.long_at = Some(sample.at);
        }
        let recovery = sample.min_rtt.mul_f64(RECOVERY_TRIPS);
        let has_long_queue =
            is_long && self.long_at.is_some_and(|at| sample.at.since(at) <= recovery);
        let has_queue = has_long_queue || (fills && sample.has_queue());
        if has_queue {
            self.queued_at = Some(sample.at);
        }
        let before = self.retransmits.replace(sample.retransmits).unwrap_or(sample.retransmits);
        let lost = sample.retransmits.saturating_sub(before);
        let memory = QUEUE_MEMORY.max(sample.min_rtt.mul_f64(QUEUE_MEMORY_TRIPS));
        let lost = match self.queued_at.is_some_and(|at| sample.at.since(at) <= memory) {
            true => NewLosses { stray: 0, overflowed: lost },
            false => NewLosses { stray: lost, overflowed: 0 },
        };
        JudgedSample { sample, lost, has_queue, has_long_queue, fills }
    }

    /// Whether so much is on its way as half of what the path holds without a queue.
    ///
    /// After one that overflowed, what it dropped is sent again for many round trips at a low rate,
    /// and the round trip is long since the queue is: no timer is waited for.
    fn may_queue(&self, sample: &PathSample) -> bool {
        let on_its_way = self.rate * sample.rtt.as_secs_f64();
        on_its_way >= self.rounds.best * sample.min_rtt.as_secs_f64() * FILLS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is seen at the `step`th tenth of a second of a path whose least round trip is `rtt`
    /// milliseconds, `queue` more now.
    fn sample(step: u64, (rtt, queue): (u64, u64), delivered: u64, retransmits: u64) -> PathSample {
        PathSample {
            at: Time::ZERO + Span::from_millis(100 * step),
            channels: 4,
            delivered: Bytes(delivered),
            retransmits,
            rtt: Span::from_millis(rtt + queue),
            min_rtt: Span::from_millis(rtt),
            rwnd_limited: Span::ZERO,
            filled: 0,
            starved: 0,
            sndbuf_limited: Span::ZERO,
            silence: Span::ZERO,
            network_bound: true,
            is_model_based: false,
        }
    }

    /// Looks at a path of 40 ms: the queue, and all that was lost by then.
    fn judged(seen: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let mut judge = LossJudge::default();
        let samples = seen.iter().zip(0..);
        let judged = samples.map(|(&(queue, lost), step)| {
            let NewLosses { stray, overflowed } =
                judge.handle(sample(step, (40, queue), 0, lost)).lost;
            (stray, overflowed)
        });
        judged.collect()
    }

    #[test]
    fn a_shallow_queue_that_is_empty_again_has_overflowed() {
        // Channels that share a loss halve their windows together.
        assert_eq!(
            judged(&[(0, 0), (4, 0), (1, 90), (0, 90), (0, 95)])[2..],
            [(0, 90), (0, 0), (0, 5)]
        );
    }

    #[test]
    fn without_a_queue_for_a_while_losses_are_the_paths() {
        assert_eq!(judged(&[(4, 3), (0, 3), (0, 3), (0, 3), (1, 3), (0, 7)])[5], (4, 0));
    }

    #[test]
    fn far_below_the_best_rate_a_late_acknowledgement_is_no_queue() {
        let mut judge = LossJudge::default();
        let mut delivered = 0;
        for step in 0..40_u64 {
            // 3 % are lost: 250 Mbit/s at first, then 75, in windows of some packets.
            delivered += if step < 4 { 3_125_000 } else { 937_500 };
            let losses = judge.handle(sample(step, (20, step % 4), delivered, 10 * step)).lost;
            assert!(step < 12 || losses == NewLosses { stray: 10, overflowed: 0 }, "{losses:?}");
        }
    }

    #[test]
    fn what_waits_for_timers_is_no_queue_and_a_slower_path_is_one() {
        for (lost, is_stray) in [(4, true), (0, false)] {
            let (mut judge, mut delivered, mut stray) = (LossJudge::default(), 0, 0);
            for step in 0..40_u64 {
                // 100 Mbit/s for a second, then 5.
                delivered += if step < 10 { 1_250_000 } else { 62_500 };
                let seen =
                    sample(step, (20, if step < 10 { 0 } else { 80 }), delivered, lost * step);
                let judged = judge.handle(seen);
                stray += judged.lost.stray;
                assert!(step < 14 || judged.has_queue != is_stray, "{judged:?}");
            }
            assert_eq!(stray > 80, is_stray, "{stray}");
        }
    }

    #[test]
    fn what_an_overflow_lost_stays_its_own_while_sent_again() {
        // 10 Gbit/s over 163 ms whose queue, of as much again, overflowed after two seconds: 20,000
        // segments are sent again while a third of that arrives, and the queue stays long.
        for (queue, is_stray) in [(142, false), (0, true)] {
            let (mut judge, mut delivered, mut stray) = (LossJudge::default(), 0, 0);
            for step in 0..60_u64 {
                let overflowed = step >= 20;
                delivered += if overflowed { 41_250_000 } else { 123_750_000 };
                let lost = step.saturating_sub(20) * 700;
                let queue = if overflowed { queue } else { 0 };
                stray += judge.handle(sample(step, (163, queue), delivered, lost)).lost.stray;
            }
            // A path that loses as much without a queue does so of itself.
            assert_eq!(stray > 20_000, is_stray, "{stray}");
            assert!(is_stray || stray == 0, "{stray}");
        }
    }

    #[test]
    fn an_overflow_goes_on_while_nothing_arrives_for_a_while() {
        // As above, but what is sent again arrives only after two seconds.
        let (mut judge, mut delivered, mut stray) = (LossJudge::default(), 0, 0);
        for step in 0..40_u64 {
            let queue = [0, 142][usize::from(step >= 18)];
            delivered += if step < 20 { 123_750_000 } else { 1_000_000 };
            let lost = step.saturating_sub(19) * 700;
            stray += judge.handle(sample(step, (163, queue), delivered, lost)).lost.stray;
        }
        assert_eq!(stray, 0);
    }

    #[test]
    fn losses_before_the_first_look_are_nobodys() {
        assert_eq!(judged(&[(0, 7), (0, 8)]), [(0, 0), (1, 0)]);
    }
}

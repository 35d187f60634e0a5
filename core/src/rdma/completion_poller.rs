//! How a channel's thread learns of completions: it looks again for a moment while they come fast,
//! and has the device tell it when they do not.
//!
//! A look at a queue in memory costs a tenth of a microsecond; being woken costs tens, and an
//! interrupt on the way. But who looks in vain takes a processor from those who have work. So a
//! thread looks on only where that has just paid, for a short time, and a limited number of times.

use crate::transfer::CompletionStats;
use crate::units::{Span, Time};

/// The longest time for which a thread looks on before it sleeps: about what being woken costs.
const LONGEST: Span = Span::from_micros(20);
/// The most polls of one wait, where a poll is slow.
const MOST_POLLS: u32 = 200;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// The thread has nothing to do until something is completed.
    Waits,
    /// A poll found so many completions.
    Polled(usize),
    /// A sleep ended, by the device's word or another's, and so many completions were there.
    Slept(usize),
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Poll the queue.
    Poll,
    /// Have the device tell of the next completion, and sleep until then.
    Sleep,
}

/// Decides for one thread and one completion queue.
#[derive(Debug, Default)]
pub struct CompletionPoller {
    /// Whether completions come so fast that looking on is worth it.
    is_loaded: bool,
    waits_since: Time,
    sleeps_since: Time,
    polls: u32,
    stats: CompletionStats,
}

impl CompletionPoller {
    /// Takes in what happened.
    pub fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Waits => (self.waits_since, self.polls) = (now, 0),
            Input::Polled(0) => self.polls += 1,
            Input::Polled(count) => {
                self.stats.polled += count as u64;
                self.is_loaded = true;
            }
            Input::Slept(count) => {
                self.stats.told += count as u64;
                // Looking on would have found the first soon, or the others came while the thread
                // was being woken.
                let was_short = now.since(self.sleeps_since) <= LONGEST + LONGEST;
                self.is_loaded = count > 1 || (count == 1 && was_short);
            }
        }
    }

    /// What a thread that waits does next.
    pub fn poll(&mut self, now: Time) -> Output {
        if self.is_loaded && self.polls < MOST_POLLS && now.since(self.waits_since) < LONGEST {
            return Output::Poll;
        }
        self.is_loaded = false;
        self.sleeps_since = now;
        Output::Sleep
    }

    /// How completions were noticed so far.
    pub fn stats(&self) -> CompletionStats {
        self.stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Rng;
    use std::collections::VecDeque;

    const POLL: Span = Span::from_nanos(200);
    const WAKE: Span = Span::from_micros(15);

    /// What a thread did in a run.
    struct Run {
        stats: CompletionStats,
        /// The part of the time that it looked in vain.
        in_vain: f64,
        longest: Span,
    }

    /// Runs a thread over completions at `times`; each costs it a microsecond of work.
    fn run(times: &[Time]) -> Run {
        let mut due: VecDeque<Time> = times.iter().copied().collect();
        let (mut poller, mut now) = (CompletionPoller::default(), Time::ZERO);
        let (mut in_vain, mut longest) = (Span::ZERO, Span::ZERO);
        let take = |due: &mut VecDeque<Time>, now: Time| {
            let count = due.iter().take_while(|at| **at <= now).count();
            due.drain(..count).count()
        };
        while !due.is_empty() {
            poller.handle(now, Input::Waits);
            let mut polled = Span::ZERO;
            let found = loop {
                match poller.poll(now) {
                    Output::Poll => {
                        now += POLL;
                        let found = take(&mut due, now);
                        poller.handle(now, Input::Polled(found));
                        if found > 0 {
                            break found;
                        }
                        polled = polled + POLL;
                    }
                    Output::Sleep => {
                        now = now.max(due[0]) + WAKE;
                        let found = take(&mut due, now);
                        poller.handle(now, Input::Slept(found));
                        break found;
                    }
                }
            };
            (in_vain, longest) = (in_vain + polled, longest.max(polled));
            now += Span::from_micros(found as u64);
        }
        Run {
            stats: poller.stats(),
            in_vain: in_vain.as_secs_f64() / now.since(Time::ZERO).as_secs_f64(),
            longest,
        }
    }

    /// Moments with `gap` between them, half of it to twice as much.
    fn moments(count: usize, gap: Span, rng: &mut Rng) -> Vec<Time> {
        let mut at = Time::ZERO;
        let mut next = || {
            at += Span::from_secs_f64(gap.as_secs_f64() * (0.5 + 1.5 * rng.unit()));
            at
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn completions_are_polled_under_load_and_signalled_when_idle() {
        for seed in 0..100 {
            let mut rng = Rng::new(seed);
            let busy = run(&moments(5000, Span::from_micros(4), &mut rng));
            assert_eq!(
                busy.stats.polled + busy.stats.told,
                5000,
                "seed {seed}: each is noticed once"
            );
            assert!(busy.stats.polled > 4500, "seed {seed}: {:?}", busy.stats);
            let idle = run(&moments(500, Span::from_millis(2), &mut rng));
            assert!(
                idle.stats.told > 490 && idle.in_vain < 0.001,
                "seed {seed}: {:?}, {} in vain",
                idle.stats,
                idle.in_vain
            );
            assert!(
                busy.longest <= LONGEST + POLL && idle.longest <= LONGEST + POLL,
                "seed {seed}"
            );
        }
    }

    #[test]
    fn a_burst_is_polled_again_and_the_rest_after_it_is_slept() {
        let mut rng = Rng::new(7);
        let mut times = Vec::new();
        for burst in 0..50u64 {
            let start = Span::from_millis(10 * burst);
            times.extend(
                moments(40, Span::from_micros(4), &mut rng).into_iter().map(|at| at + start),
            );
        }
        let run = run(&times);
        assert!(run.stats.polled > 1500 && run.stats.told >= 50, "{:?}", run.stats);
        assert!(run.in_vain < 0.02, "{}", run.in_vain);
    }

    #[test]
    fn slow_polls_are_few_and_end_where_the_clock_stands() {
        let mut poller = CompletionPoller::default();
        poller.handle(Time::ZERO, Input::Polled(1));
        poller.handle(Time::ZERO, Input::Waits);
        let polls = std::iter::from_fn(|| {
            let output = poller.poll(Time::ZERO);
            poller.handle(Time::ZERO, Input::Polled(0));
            (output == Output::Poll).then_some(())
        });
        assert_eq!(polls.count(), MOST_POLLS as usize);
        poller.handle(Time::ZERO, Input::Polled(1));
        poller.handle(Time::ZERO, Input::Waits);
        assert_eq!(poller.poll(Time::ZERO + LONGEST), Output::Sleep);
    }
}

//! Whether a copy that failed is begun again, and when: for as long as `--retry-for` says after the
//! last progress, with exponential back-off and jitter.
//!
//! Waits double from one second to half a minute, and half of each is random, so that the many that
//! one fault has struck do not come back at once ("Exponential Backoff And Jitter", AWS
//! Architecture Blog, 2015: equal jitter).

use crate::units::{Error, ErrorCode, Retry, Rng, Span, Time};

/// How long a copy is tried again without progress, where nobody says otherwise.
pub const RETRY_FOR: Span = Span::from_secs(600);
/// The first wait for what is busy or away.
const FIRST_WAIT: Span = Span::from_secs(1);
/// The first wait after something broke on the way, which may be whole again at once.
const FIRST_WAIT_NOW: Span = Span::from_millis(200);
const LONGEST_WAIT: Span = Span::from_secs(30);

/// How an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedAttempt {
    /// By what.
    pub error: Error,
    /// Whether the copy had begun with its peer: where nobody was ever reached, a wrong name or
    /// port is likelier than an outage.
    pub was_reached: bool,
    /// Bytes that the receiver has or had, as far as this end knows.
    pub arrived: u64,
}

/// Decides over the attempts of one copy.
#[derive(Debug)]
pub struct RetryBackoff {
    retry_for: Span,
    rng: Rng,
    /// Failures in all.
    failures: u32,
    /// Since the last progress: when the first was, and how many there were.
    fruitless: Option<(Time, u32)>,
    best: u64,
    /// Whether a peer that is there said that it had no place.
    was_turned_away: bool,
}

impl RetryBackoff {
    /// Tries again for `retry_for` without progress; not at all when that is nothing.
    pub fn new(retry_for: Span, rng: Rng) -> RetryBackoff {
        let (failures, fruitless, best, was_turned_away) = (0, None, 0, false);
        RetryBackoff { retry_for, rng, failures, fruitless, best, was_turned_away }
    }

    /// Attempts that failed.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Takes in that an attempt failed at `now`; returns how long to wait before the next. `None`
    /// where another is of no use, or the time is up.
    pub fn handle(&mut self, now: Time, failed: &FailedAttempt) -> Option<Span> {
        self.failures += 1;
        self.was_turned_away |= is_turned_away(failed);
        let was_reached = failed.was_reached || self.was_turned_away;
        if !is_transient(failed, was_reached) || self.retry_for == Span::ZERO {
            return None;
        }
        if failed.arrived > self.best {
            (self.best, self.fruitless) = (failed.arrived, None);
        }
        let (since, count) = self.fruitless.unwrap_or((now, 0));
        self.fruitless = Some((since, count + 1));
        let left = self.retry_for.saturating_sub(now.since(since));
        if left == Span::ZERO {
            return None;
        }
        let first = match failed.error.retry() {
            Retry::Now => FIRST_WAIT_NOW,
            _ => FIRST_WAIT,
        };
        let wait = first.mul_f64(f64::from(1_u32 << count.min(16))).min(LONGEST_WAIT);
        Some(wait.mul_f64(0.5 + 0.5 * self.rng.unit()).min(left))
    }
}

/// Whether a peer that is there said that it has no place now: whatever the attempt came to before.
fn is_turned_away(failed: &FailedAttempt) -> bool {
    matches!(failed.error.code, ErrorCode::Busy | ErrorCode::ServerClosing)
}

/// Whether the fault may pass by itself; the peer is there, or was, if it `was_reached`.
fn is_transient(failed: &FailedAttempt, was_reached: bool) -> bool {
    if failed.error.retry() == Retry::Never {
        return false;
    }
    match failed.error.code {
        // Who reads or stores wrong bytes does so again.
        ErrorCode::DigestMismatch => false,
        // At the beginning a name, a port or a limit of this host's is to blame; later an outage.
        ErrorCode::NoDescriptor
        | ErrorCode::NoMemory
        | ErrorCode::SshFailed
        | ErrorCode::RemoteFarlineFailed
        | ErrorCode::TooManyChannels
        | ErrorCode::Unreachable => was_reached,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Fault;

    fn failed(code: ErrorCode, was_reached: bool, arrived: u64) -> FailedAttempt {
        FailedAttempt { error: Error::new(Fault::Between, code, "away"), was_reached, arrived }
    }

    /// Attempts against a peer that is away until then, each of which takes a second; when the copy
    /// went on, or was given up.
    fn outage(retry_for: Span, ends: Span, seed: u64) -> (Result<Span, Span>, u32) {
        let mut backoff = RetryBackoff::new(retry_for, Rng::new(seed));
        let mut now = Time::ZERO + Span::from_secs(1);
        loop {
            let since = now.since(Time::ZERO);
            if since >= ends {
                return (Ok(since), backoff.failures());
            }
            match backoff.handle(now, &failed(ErrorCode::Unreachable, true, 7)) {
                None => return (Err(since), backoff.failures()),
                Some(wait) => now = now + wait + Span::from_secs(1),
            }
        }
    }

    #[test]
    fn outages_shorter_than_the_patience_are_outlasted() {
        for seed in 0..500 {
            for seconds in [2, 5, 60, 300, 590] {
                let (ended, failures) = outage(RETRY_FOR, Span::from_secs(seconds), seed);
                let ended = ended.unwrap_or_else(|at| panic!("seed {seed}: given up at {at}"));
                let late = ended.saturating_sub(Span::from_secs(seconds));
                assert!(late <= LONGEST_WAIT + Span::from_secs(1), "{seed}: {late} late");
                assert!(failures < 50, "seed {seed}: {failures} attempts");
            }
            let (ended, _) = outage(RETRY_FOR, Span::from_secs(3600), seed);
            let gave_up = ended.expect_err("it is too long");
            assert!(
                (600..=604).contains(&(gave_up.as_secs_f64() as u64)),
                "seed {seed}: {gave_up}"
            );
        }
    }

    /// A node with so many places, and what a client that asks for one is told at each instant.
    struct Node {
        places: usize,
        /// When each of those that are in leaves.
        leave: Vec<Time>,
        /// It is down from then until then.
        down: (Time, Time),
        code: ErrorCode,
    }

    impl Node {
        fn ask(&mut self, now: Time, stays: Span) -> Result<(), ErrorCode> {
            self.leave.retain(|&leaves| leaves > now);
            let is_down = self.down.0 <= now && now < self.down.1;
            match (is_down, self.leave.len() < self.places) {
                (true, _) => Err(ErrorCode::Unreachable),
                (false, false) => Err(self.code),
                (false, true) => {
                    self.leave.push(now + stays);
                    Ok(())
                }
            }
        }
    }

    /// How many of `clients`, who come at once and stay for two seconds each, are let in, none of
    /// whom was in before.
    fn let_in(node: &mut Node, clients: u64, seed: u64) -> usize {
        let mut waiting: Vec<(Time, RetryBackoff)> = (0..clients)
            .map(|client| {
                let rng = Rng::new(seed * 1_000 + client);
                (Time::ZERO, RetryBackoff::new(RETRY_FOR, rng))
            })
            .collect();
        let mut came_in = 0;
        while let Some(next) = (0..waiting.len()).min_by_key(|&index| waiting[index].0) {
            let (now, mut backoff) = waiting.swap_remove(next);
            match node.ask(now, Span::from_secs(2)) {
                Ok(()) => came_in += 1,
                Err(code) => {
                    let wait = backoff.handle(now, &failed(code, false, 0));
                    waiting.extend(wait.map(|wait| (now + wait, backoff)));
                }
            }
        }
        came_in
    }

    #[test]
    fn who_is_turned_away_before_it_is_let_in_comes_again() {
        let never = (Time::ZERO, Time::ZERO);
        for (seed, code) in (0..20).zip([ErrorCode::Busy, ErrorCode::ServerClosing].repeat(10)) {
            let mut node = Node { places: 4, leave: Vec::new(), down: never, code };
            assert_eq!(let_in(&mut node, 60, seed), 60, "seed {seed}: {code}");
            // A node that goes away after it said so is waited for as one that was copied to.
            let away = (Time::ZERO + Span::from_millis(100), Time::ZERO + Span::from_secs(90));
            let mut node = Node { places: 4, leave: Vec::new(), down: away, code };
            assert_eq!(let_in(&mut node, 60, seed), 60, "seed {seed}: {code}, and away");
            // Who finds nobody at all does not wait.
            let mut nobody =
                Node { places: 4, leave: Vec::new(), down: (Time::ZERO, away.1), code };
            assert_eq!(let_in(&mut nobody, 60, seed), 0, "seed {seed}: {code}, never there");
        }
        // And a node that has no place for ever is given up when the patience is at its end.
        let mut full = Node { places: 0, leave: Vec::new(), down: never, code: ErrorCode::Busy };
        assert_eq!(let_in(&mut full, 3, 1), 0);
    }

    #[test]
    fn waits_double_and_spread() {
        let waits = |seed| {
            let mut backoff = RetryBackoff::new(RETRY_FOR, Rng::new(seed));
            let busy = failed(ErrorCode::ServerClosing, false, 0);
            (0..7).map(|_| backoff.handle(Time::ZERO, &busy).expect("a wait")).collect::<Vec<_>>()
        };
        let mut firsts: Vec<Span> = Vec::new();
        for seed in 0..200 {
            let waits = waits(seed);
            for (index, wait) in waits.iter().enumerate() {
                let whole = f64::from(1_u32 << index).min(30.0);
                let part = wait.as_secs_f64() / whole;
                assert!((0.5..=1.0).contains(&part), "seed {seed}: wait {index} is {wait}");
            }
            firsts.push(waits[4]);
        }
        firsts.sort_unstable();
        firsts.dedup();
        assert!(firsts.len() > 190, "they do not come back at once");
    }

    #[test]
    fn progress_begins_the_patience_anew() {
        let mut backoff = RetryBackoff::new(Span::from_secs(10), Rng::new(1));
        for round in 1..100 {
            let now = Time::ZERO + Span::from_secs(9 * round);
            assert!(backoff.handle(now, &failed(ErrorCode::ChannelLost, true, round)).is_some());
        }
        let later = Time::ZERO + Span::from_secs(10 * 100);
        assert!(backoff.handle(later, &failed(ErrorCode::ChannelLost, true, 99)).is_none());
    }

    #[test]
    fn what_does_not_pass_is_not_tried_again() {
        let mut backoff = RetryBackoff::new(RETRY_FOR, Rng::new(1));
        let mut tries = |failed: &FailedAttempt| backoff.handle(Time::ZERO, failed).is_some();
        assert!(!tries(&failed(ErrorCode::LoginRefused, true, 0)));
        assert!(!tries(&failed(ErrorCode::NoSpace, true, 0)));
        assert!(!tries(&failed(ErrorCode::DigestMismatch, true, 0)));
        assert!(!tries(&failed(ErrorCode::Unreachable, false, 0)), "a wrong port");
        assert!(tries(&failed(ErrorCode::Unreachable, true, 0)), "an outage");
        assert!(tries(&failed(ErrorCode::ServerClosing, false, 0)), "a full node");
        assert!(tries(&failed(ErrorCode::Busy, false, 0)), "one without a descriptor");
        let yours = Error::new(Fault::You, ErrorCode::ChannelLost, "");
        assert!(!tries(&FailedAttempt { error: yours, was_reached: true, arrived: 0 }));
        let mut never = RetryBackoff::new(Span::ZERO, Rng::new(1));
        assert_eq!(never.handle(Time::ZERO, &failed(ErrorCode::ChannelLost, true, 9)), None);
    }
}

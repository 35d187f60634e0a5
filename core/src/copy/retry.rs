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
    /// Whether the peer was ever reached in this copy: where nobody ever was, a wrong name or port
    /// is likelier than an outage.
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
}

impl RetryBackoff {
    /// Tries again for `retry_for` without progress; not at all when that is nothing.
    pub fn new(retry_for: Span, rng: Rng) -> RetryBackoff {
        RetryBackoff { retry_for, rng, failures: 0, fruitless: None, best: 0 }
    }

    /// Attempts that failed.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Takes in that an attempt failed at `now`; returns how long to wait before the next. `None`
    /// where another is of no use, or the time is up.
    pub fn handle(&mut self, now: Time, failed: &FailedAttempt) -> Option<Span> {
        self.failures += 1;
        if !is_transient(failed) || self.retry_for == Span::ZERO {
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

/// Whether the fault may pass by itself.
fn is_transient(failed: &FailedAttempt) -> bool {
    if failed.error.retry() == Retry::Never {
        return false;
    }
    match failed.error.code {
        // Who reads or stores wrong bytes does so again.
        ErrorCode::DigestMismatch => false,
        // At the beginning a name, a port or another copy is to blame; later an outage, or the
        // session that was lost and still holds the target.
        ErrorCode::Busy
        | ErrorCode::NoDescriptor
        | ErrorCode::NoMemory
        | ErrorCode::SshFailed
        | ErrorCode::RemoteFarlineFailed
        | ErrorCode::TooManyChannels
        | ErrorCode::Unreachable => failed.was_reached,
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
        let yours = Error::new(Fault::You, ErrorCode::ChannelLost, "");
        assert!(!tries(&FailedAttempt { error: yours, was_reached: true, arrived: 0 }));
        let mut never = RetryBackoff::new(Span::ZERO, Rng::new(1));
        assert_eq!(never.handle(Time::ZERO, &failed(ErrorCode::ChannelLost, true, 9)), None);
    }
}

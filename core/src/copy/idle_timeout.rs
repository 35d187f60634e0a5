//! Notices a server that neither moves data nor says a word: one that is stopped, at the end of a
//! path that is dead, or that means to hold its client up by single bytes.

use crate::gridftp::client::LEAST_PROGRESS;
use crate::units::{Bytes, Error, ErrorCode, Fault, Setting, Span, Time};

/// How long the silence has lasted.
#[derive(Debug)]
pub struct IdleTimeout {
    idle_timeout: Option<Span>,
    moved: u64,
    since: Time,
}

impl IdleTimeout {
    /// A silence that begins at `now`; without `idle_timeout` it may last for ever.
    pub fn new(now: Time, idle_timeout: Option<Span>) -> IdleTimeout {
        IdleTimeout { idle_timeout, moved: 0, since: now }
    }

    /// Takes in that `moved` bytes have moved in all at `now` and that `server` was last heard at
    /// `heard`; returns the error when it has been silent for too long. `is_excused` says that it
    /// has nothing to say now.
    pub fn check(
        &mut self,
        now: Time,
        server: &str,
        moved: u64,
        heard: Option<Time>,
        is_excused: bool,
    ) -> Option<Error> {
        if moved.abs_diff(self.moved) >= LEAST_PROGRESS || is_excused {
            (self.moved, self.since) = (moved, now);
        }
        self.since = self.since.max(heard.unwrap_or(self.since));
        let idle_timeout = self.idle_timeout.filter(|&most| now.since(self.since) >= most)?;
        let message = match moved == self.moved {
            true => format!("{server} has neither moved data nor said a word for {idle_timeout}"),
            false => format!(
                "{server} has moved {} in {idle_timeout}, and said no word",
                Bytes(moved.abs_diff(self.moved))
            ),
        };
        Some(Error::new(Fault::Between, ErrorCode::PeerSilent, message).hint(format!(
            "it is stopped or overloaded, or the path is dead; run the same command again, or \
             wait longer with {} SECONDS",
            Setting::Timeout
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_and_words_end_a_silence() {
        let at = |secs| Time::ZERO + Span::from_secs(secs);
        let mut idle = IdleTimeout::new(at(0), Some(Span::from_secs(60)));
        let mut check =
            |now, moved, heard| idle.check(at(now), "old.site:2811", moved, heard, false);
        assert_eq!(check(59, 0, None), None);
        assert_eq!(check(60, 5_000, None), None, "data moved");
        assert_eq!(check(130, 5_000, Some(at(100))), None, "a word was said");
        let error = check(160, 5_000, Some(at(100))).expect("60 s without either");
        assert_eq!((error.code, error.fault), (ErrorCode::PeerSilent, Fault::Between));
    }

    #[test]
    fn single_bytes_end_no_silence() {
        let at = |secs| Time::ZERO + Span::from_secs(secs);
        let mut idle = IdleTimeout::new(at(0), Some(Span::from_secs(60)));
        let mut dripped = (1..).map(|secs| idle.check(at(secs), "old.site", secs, None, false));
        let ended = dripped.position(|error| error.is_some());
        assert_eq!(ended, Some(59), "a byte a second for a minute");
        // As slow as a connection can be that is of use: 140 bit/s.
        let mut idle = IdleTimeout::new(at(0), Some(Span::from_secs(60)));
        let mut slow =
            (1..900).map(|secs| idle.check(at(secs), "old.site", secs * 18, None, false));
        assert!(slow.all(|error| error.is_none()));
    }

    #[test]
    fn without_a_timeout_a_silence_lasts() {
        let mut idle = IdleTimeout::new(Time::ZERO, None);
        let late = Time::ZERO + Span::from_secs(1 << 30);
        assert_eq!(idle.check(late, "old.site:2811", 0, None, false), None);
        let mut idle = IdleTimeout::new(Time::ZERO, Some(Span::from_secs(1)));
        assert_eq!(idle.check(late, "old.site:2811", 0, None, true), None, "it is excused");
    }
}

//! Notices a server that neither moves data nor says a word: one that is stopped, or at the end of
//! a path that is dead.

use farline_core::units::{Error, ErrorCode, Fault, Span};
use std::time::{Duration, Instant};

/// How long a server may be silent when nothing else is said.
pub const DEFAULT_IDLE_TIMEOUT: Span = Span::from_secs(60);

/// How long the silence has lasted.
#[derive(Debug)]
pub(super) struct IdleTimeout {
    idle_timeout: Option<Duration>,
    moved: u64,
    since: Instant,
}

impl IdleTimeout {
    /// A silence that begins now; without `idle_timeout` it may last for ever.
    pub(super) fn new(idle_timeout: Option<Duration>) -> IdleTimeout {
        IdleTimeout { idle_timeout, moved: 0, since: Instant::now() }
    }

    /// Takes in that `moved` bytes have moved in all and that `server` was last heard at `heard`;
    /// answers with the error when it has been silent for too long. `excused` says that it has
    /// nothing to say now.
    pub(super) fn check(
        &mut self,
        server: &str,
        moved: u64,
        heard: Option<Instant>,
        excused: bool,
    ) -> Option<Error> {
        if moved != self.moved || excused {
            (self.moved, self.since) = (moved, Instant::now());
        }
        self.since = self.since.max(heard.unwrap_or(self.since));
        let idle_timeout =
            self.idle_timeout.filter(|idle_timeout| self.since.elapsed() >= *idle_timeout)?;
        let message = format!(
            "{server} has neither moved data nor said a word for {}",
            Span::from(idle_timeout)
        );
        Some(Error::new(Fault::Between, ErrorCode::PeerSilent, message).hint(
            "it is stopped or overloaded, or the path is dead; run the same command again, or \
             wait longer with --timeout SECONDS",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_and_words_end_a_silence_and_without_patience_it_lasts() {
        let now = Instant::now();
        let mut idle = IdleTimeout::new(Some(Duration::ZERO));
        let error = idle
            .check("old.site:2811", 0, Some(now), false)
            .expect("nothing was said for no time at all");
        assert_eq!((error.code, error.fault), (ErrorCode::PeerSilent, Fault::Between));
        assert_eq!(IdleTimeout::new(None).check("old.site:2811", 0, Some(now), false), None);
        let mut idle = IdleTimeout::new(Some(Duration::from_secs(3600)));
        idle.since = now.checked_sub(Duration::from_secs(3600)).unwrap_or(now);
        assert_eq!(idle.check("old.site:2811", 1, None, false), None, "data moved");
    }
}

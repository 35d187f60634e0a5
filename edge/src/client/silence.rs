//! Notices a server that neither moves data nor says a word: one that is stopped, or at the end of
//! a path that is dead.

use farline_core::units::{Error, Fault, Span};
use std::time::{Duration, Instant};

/// How long a server may be silent when nothing else is said.
pub const DEFAULT_PATIENCE: Span = Span::from_secs(60);

/// How long the silence has lasted.
#[derive(Debug)]
pub(super) struct Silence {
    patience: Option<Duration>,
    moved: u64,
    since: Instant,
}

impl Silence {
    /// A silence that begins now; without `patience` it may last for ever.
    pub(super) fn new(patience: Option<Duration>) -> Silence {
        Silence { patience, moved: 0, since: Instant::now() }
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
        let patience = self.patience.filter(|patience| self.since.elapsed() >= *patience)?;
        let message =
            format!("{server} has neither moved data nor said a word for {}", Span::from(patience));
        Some(Error::new(Fault::Between, "peer-silent", message).hint(
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
        let mut silence = Silence::new(Some(Duration::ZERO));
        let error = silence
            .check("old.site:2811", 0, Some(now), false)
            .expect("nothing was said for no time at all");
        assert_eq!((error.code, error.fault), ("peer-silent", Fault::Between));
        assert_eq!(Silence::new(None).check("old.site:2811", 0, Some(now), false), None);
        let mut silence = Silence::new(Some(Duration::from_secs(3600)));
        silence.since = now.checked_sub(Duration::from_secs(3600)).unwrap_or(now);
        assert_eq!(silence.check("old.site:2811", 1, None, false), None, "data moved");
    }
}

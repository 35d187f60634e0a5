//! A source that stalls now and then, as a busy disk does: for measuring what staging is worth.

use super::Source;
use farline_core::units::{Error, Fault, Span};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How a source stalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// For how long it gives nothing.
    pause: Span,
    /// How often: the pause is the end of each such span.
    every: Span,
}

impl FromStr for Stall {
    type Err = Error;

    /// Reads `50ms/1s`.
    fn from_str(text: &str) -> Result<Stall, Error> {
        let wrong = || Error::new(Fault::You, "bad-stall", format!("`{text}` is no stall")).hint("write it as 50ms/1s");
        let (pause, every) = text.split_once('/').ok_or_else(wrong)?;
        let (pause, every): (Span, Span) = (pause.parse().map_err(|_| wrong())?, every.parse().map_err(|_| wrong())?);
        if pause >= every { Err(wrong()) } else { Ok(Stall { pause, every }) }
    }
}

impl Stall {
    /// How much longer nothing is given, `at` after the beginning.
    fn left(self, at: Span) -> Span {
        let phase = Span::from_nanos(at.as_nanos() % self.every.as_nanos());
        let open = self.every.saturating_sub(self.pause);
        if phase < open { Span::ZERO } else { self.every.saturating_sub(phase) }
    }
}

/// Another source's bytes, but for the pauses.
pub struct StallingSource {
    source: Arc<dyn Source>,
    stall: Stall,
    began: Instant,
}

impl StallingSource {
    /// `source`, whose first span begins now.
    pub fn new(source: Arc<dyn Source>, stall: Stall) -> StallingSource {
        StallingSource { source, stall, began: Instant::now() }
    }
}

impl Source for StallingSource {
    fn read(&self, entry: usize, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        let left = self.stall.left(Span::from(self.began.elapsed()));
        if left > Span::ZERO {
            std::thread::sleep(Duration::from(left));
        }
        self.source.read(entry, offset, into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_is_the_end_of_every_span() {
        let stall: Stall = "50ms/1s".parse().expect("it is one");
        let left = |ms| stall.left(Span::from_millis(ms));
        assert_eq!([left(0), left(949), left(1500)], [Span::ZERO; 3]);
        assert_eq!((left(950), left(999), left(3960)), (Span::from_millis(50), Span::from_millis(1), Span::from_millis(40)));
        for text in ["", "50ms", "1s/50ms", "1s/1s", "x/1s"] {
            assert_eq!(text.parse::<Stall>().expect_err(text).code, "bad-stall");
        }
    }
}

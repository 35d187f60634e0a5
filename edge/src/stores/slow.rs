//! A source that stalls now and then, as a busy disk does, or is slow, and a slow sink: for measuring
//! what staging is worth, and whether a copy that waits for its disk says so.

use super::{Sink, Source};
use farline_core::profile::Stall;
use farline_core::transfer::PieceDigest;
use farline_core::units::{ByteRanges, Bytes, Error, Rate, Span};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Another source's bytes, but for the pauses and no faster than a rate.
pub struct SlowSource {
    source: Arc<dyn Source>,
    stall: Option<Stall>,
    rate: Option<Rate>,
    began: Instant,
    /// Since the beginning: when what was asked for last has been given.
    busy_until: Mutex<Span>,
}

impl SlowSource {
    /// `source`, whose first span begins now; all its readers share `rate`.
    pub fn new(source: Arc<dyn Source>, stall: Option<Stall>, rate: Option<Rate>) -> SlowSource {
        SlowSource { source, stall, rate, began: Instant::now(), busy_until: Mutex::default() }
    }

    /// When `len` more bytes have been given, if they are asked for `now`: behind what was asked
    /// for before, and not while it stalls.
    fn given(&self, now: Span, len: u64) -> Span {
        let mut busy_until = self.busy_until.lock().unwrap_or_else(PoisonError::into_inner);
        let from = now.max(*busy_until);
        let open = from + self.stall.map_or(Span::ZERO, |stall| stall.left(from));
        *busy_until = open + self.rate.map_or(Span::ZERO, |rate| rate.time_for(Bytes(len)));
        *busy_until
    }
}

impl Source for SlowSource {
    fn read(&self, entry: usize, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        let given = self.given(Span::from(self.began.elapsed()), into.len() as u64);
        self.source.read(entry, offset, into)?;
        let left = given.saturating_sub(Span::from(self.began.elapsed()));
        if left > Span::ZERO {
            std::thread::sleep(Duration::from(left));
        }
        Ok(())
    }
}

/// Another sink, which takes bytes no faster than a rate.
pub(crate) struct SlowSink<'a> {
    sink: &'a dyn Sink,
    rate: Rate,
    began: Instant,
    /// Since the beginning: when what was written last is through.
    busy_until: Mutex<Span>,
}

impl<'a> SlowSink<'a> {
    /// `sink`, all whose writers share `rate`.
    pub(crate) fn new(sink: &'a dyn Sink, rate: Rate) -> SlowSink<'a> {
        SlowSink { sink, rate, began: Instant::now(), busy_until: Mutex::default() }
    }
}

impl Sink for SlowSink<'_> {
    fn write(&self, entry: usize, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let now = Span::from(self.began.elapsed());
        let until = {
            let mut until = self.busy_until.lock().unwrap_or_else(PoisonError::into_inner);
            *until = now.max(*until) + self.rate.time_for(Bytes(bytes.len() as u64));
            *until
        };
        self.sink.write(entry, offset, bytes)?;
        let left = until.saturating_sub(Span::from(self.began.elapsed()));
        std::thread::sleep(Duration::from(left));
        Ok(())
    }

    fn wants_order(&self) -> bool {
        self.sink.wants_order()
    }

    fn journals(&self) -> bool {
        self.sink.journals()
    }

    fn durable(&self) -> ByteRanges {
        self.sink.durable()
    }

    fn record(&self, piece: &PieceDigest) {
        self.sink.record(piece);
    }

    fn checkpoint(&self) {
        self.sink.checkpoint();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stores::MemorySource;

    #[test]
    fn readers_share_the_rate_and_wait_while_the_source_stalls() {
        let source = |stall| {
            SlowSource::new(Arc::new(MemorySource::new()), stall, Some(Rate::from_bps(8_000_000)))
        };
        let ms = Span::from_millis;
        let slow = source(None);
        assert_eq!(
            (slow.given(ms(0), 1_000), slow.given(ms(0), 2_000)),
            (ms(1), ms(3)),
            "one behind the other"
        );
        assert_eq!(slow.given(ms(10), 1_000), ms(11), "what was not used is gone");
        let stalling = source(Some("50ms/1s".parse().expect("a stall")));
        assert_eq!(stalling.given(ms(940), 20_000), ms(960));
        assert_eq!(
            stalling.given(ms(945), 1_000),
            ms(1_001),
            "asked for when it stalls, behind what came before"
        );
    }
}

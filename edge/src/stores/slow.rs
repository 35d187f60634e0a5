//! A source that stalls now and then, as a busy disk does, or is slow, and a slow sink: for
//! measuring what staging is worth, and whether a copy that waits for its disk says so.

use super::{Sink, Source};
use farline_core::plan::Stall;
use farline_core::transfer::PieceDigest;
use farline_core::units::{ByteRanges, Bytes, Error, Rate, Span};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Gives bytes no faster than a rate, and none while it stalls; all who ask share it.
struct Throttle {
    stall: Option<Stall>,
    rate: Option<Rate>,
    began: Instant,
    /// Since the beginning: when what was asked for last has been given.
    busy_until: Mutex<Span>,
}

impl Throttle {
    /// Begins now.
    fn new(stall: Option<Stall>, rate: Option<Rate>) -> Throttle {
        Throttle { stall, rate, began: Instant::now(), busy_until: Mutex::default() }
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

    /// Does `work` with `len` bytes, which is not over before they have been given.
    fn hold<T, E>(&self, len: usize, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let given = self.given(Span::from(self.began.elapsed()), len as u64);
        let done = work()?;
        let left = given.saturating_sub(Span::from(self.began.elapsed()));
        std::thread::sleep(Duration::from(left));
        Ok(done)
    }
}

/// Another source's bytes, but for the pauses and no faster than a rate.
pub struct SlowSource {
    source: Arc<dyn Source>,
    throttle: Throttle,
}

impl SlowSource {
    /// `source`, whose first span begins now; all its readers share `rate`.
    pub fn new(source: Arc<dyn Source>, stall: Option<Stall>, rate: Option<Rate>) -> SlowSource {
        SlowSource { source, throttle: Throttle::new(stall, rate) }
    }
}

impl Source for SlowSource {
    fn read(&self, entry: usize, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        self.throttle.hold(into.len(), || self.source.read(entry, offset, into))
    }
}

/// Another sink, which takes bytes no faster than a rate, or makes them durable late.
pub(crate) struct SlowSink<'a> {
    sink: &'a dyn Sink,
    throttle: Throttle,
    /// What each checkpoint takes besides.
    sync: Span,
}

impl<'a> SlowSink<'a> {
    /// `sink`, all whose writers share `rate`, and whose checkpoints take `sync` longer.
    pub(crate) fn new(sink: &'a dyn Sink, rate: Option<Rate>, sync: Option<Span>) -> SlowSink<'a> {
        SlowSink { sink, throttle: Throttle::new(None, rate), sync: sync.unwrap_or_default() }
    }
}

impl Sink for SlowSink<'_> {
    fn write(&self, entry: usize, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.throttle.hold(bytes.len(), || self.sink.write(entry, offset, bytes))
    }

    fn write_zeros(&self, entry: usize, offset: u64, len: u64) -> Result<(), Error> {
        self.throttle.hold(len as usize, || self.sink.write_zeros(entry, offset, len))
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

    fn landed(&self) -> Option<u64> {
        self.sink.landed()
    }

    fn record(&self, block: &[PieceDigest]) {
        self.sink.record(block);
    }

    fn checkpoint(&self) {
        std::thread::sleep(Duration::from(self.sync));
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
            let rate = Some(Rate::from_bps(8_000_000));
            SlowSource::new(Arc::new(MemorySource::new()), stall, rate).throttle
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

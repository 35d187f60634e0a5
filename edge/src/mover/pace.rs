//! `--limit`: one pacer for all channels of a transfer, on the monotonic clock.

use super::shared::Cancel;
use super::tally::Tally;
use crate::channels::Handle;
use crate::sys::lock::lock;
use farline_core::transfer::Pacer;
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Rate, Time};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Room for the kernel above a channel's even share, so that a channel may make up for another's
/// pause; the pacer holds the sum.
const ROOM: f64 = 1.05;

/// A rate that may change while a transfer runs that heeds it.
#[derive(Clone, Debug)]
pub struct LiveRate(Arc<SharedRate>);

#[derive(Debug)]
struct SharedRate {
    bps: AtomicU64,
    /// Whether a sender at the other end heeds it too.
    is_heeded_there: AtomicBool,
}

/// What stands for no limit at all.
pub(super) const UNLIMITED: Rate = Rate::from_bps(1_000_000_000_000_000);

impl LiveRate {
    /// One that begins at `rate`.
    pub fn new(rate: Rate) -> LiveRate {
        let bps = AtomicU64::new(rate.as_bps());
        LiveRate(Arc::new(SharedRate { bps, is_heeded_there: AtomicBool::new(false) }))
    }

    /// It is `rate` from now on.
    pub fn set(&self, rate: Rate) {
        self.0.bps.store(rate.as_bps(), Ordering::Relaxed);
    }

    /// What it is now.
    pub fn rate(&self) -> Rate {
        Rate::from_bps(self.0.bps.load(Ordering::Relaxed))
    }

    /// It is what `OPTS FARLINE limit=` says (O-2).
    ///
    /// # Errors
    /// When that is no number.
    pub(crate) fn heed(&self, value: &str) -> Result<(), Error> {
        self.set(Pace::parse(value)?.unwrap_or(UNLIMITED));
        Ok(())
    }

    /// Notes whether a sender at the other end heeds it too.
    pub(crate) fn note_heeded_there(&self, is_heeded: bool) {
        self.0.is_heeded_there.store(is_heeded, Ordering::Relaxed);
    }

    /// Whether a sender at the other end heeds it too.
    pub fn is_heeded_there(&self) -> bool {
        self.0.is_heeded_there.load(Ordering::Relaxed)
    }
}

/// Holds a transfer to a rate.
#[derive(Debug)]
pub(crate) struct Pace {
    pacer: Mutex<Pacer>,
    began: Instant,
    rate: LiveRate,
    /// What holds this and others together to another rate.
    above: Option<Arc<Pace>>,
}

impl Pace {
    /// Not faster than `rate`, from now on.
    pub(crate) fn new(rate: Rate) -> Pace {
        Pace::following(LiveRate::new(rate))
    }

    /// Not faster than `rate` is at each time.
    pub(crate) fn following(rate: LiveRate) -> Pace {
        let pacer = Mutex::new(Pacer::new(Time::ZERO, rate.rate()));
        Pace { pacer, began: Instant::now(), rate, above: None }
    }

    /// The same, which also keeps within `above` together with what else does.
    pub(crate) fn below(self, above: Option<Arc<Pace>>) -> Pace {
        Pace { above, ..self }
    }

    /// Reads the value of `OPTS FARLINE limit=` (O-2): bits a second, 0 for no limit.
    ///
    /// # Errors
    /// When it is no number.
    pub(crate) fn parse(value: &str) -> Result<Option<Rate>, Error> {
        let wrong = |_| {
            Error::new(
                Fault::You,
                ErrorCode::BadRate,
                format!("`{value}` is no number of bits a second"),
            )
        };
        let bits: u64 = value.parse().map_err(wrong)?;
        Ok((bits > 0).then_some(Rate::from_bps(bits)))
    }

    /// The rate that binds now.
    pub(crate) fn rate(&self) -> Rate {
        let own = self.rate.rate();
        self.above.as_ref().map_or(own, |above| own.min(above.rate()))
    }

    /// How many bytes to move at once where nothing below spreads them.
    pub(crate) fn turn_len(&self) -> usize {
        lock(&self.pacer).turn_len()
    }

    /// Has the kernel spread what one of `channels` channels sends; returns whether it does.
    pub(crate) fn spread(&self, handle: &Handle, channels: usize) -> bool {
        let share = self.rate().as_bps() as f64 / channels.max(1) as f64 * ROOM;
        handle.pace(Rate::from_bps(share as u64))
    }

    /// Whether it is the rate, and not something slower, that holds the transfer now.
    pub(crate) fn holds(&self) -> bool {
        !lock(&self.pacer).is_behind(self.now())
            || self.above.as_ref().is_some_and(|above| above.holds())
    }

    /// Waits until `len` bytes would be through, as `tally` counts.
    ///
    /// # Errors
    /// Why it was cancelled meanwhile.
    pub(crate) fn through(&self, len: usize, tally: &Tally, cancel: &Cancel) -> Result<(), Error> {
        await_turn(self.turn(len).end, tally, cancel)
    }

    fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// When the next `len` bytes may be handed to something that spreads them, and when they would
    /// be through.
    pub(crate) fn turn(&self, len: usize) -> Range<Instant> {
        let turn = {
            let mut pacer = lock(&self.pacer);
            pacer.set_rate(self.rate.rate());
            pacer.turn(self.now(), Bytes(len as u64))
        };
        let at = |time: Time| self.began + Duration::from(time.since(Time::ZERO));
        let own = at(turn.start)..at(turn.end);
        match &self.above {
            None => own,
            Some(above) => {
                let all = above.turn(len);
                own.start.max(all.start)..own.end.max(all.end)
            }
        }
    }
}

/// Waits for a turn, as `tally` counts: at a low rate for hours, which who cancels has not to sit
/// through.
///
/// # Errors
/// Why it was cancelled.
pub(crate) fn await_turn(until: Instant, tally: &Tally, cancel: &Cancel) -> Result<(), Error> {
    let waiting = Instant::now();
    let cancelled = cancel.wait(until.saturating_duration_since(waiting));
    tally.add_pace_wait(waiting);
    cancelled.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_cancels_a_slow_transfer_ends_its_wait() {
        let (pace, cancel) = (Pace::new(Rate::from_bps(1)), Cancel::new());
        let other = cancel.clone();
        let waiting =
            std::thread::spawn(move || pace.through(1_000_000, &Tally::default(), &other));
        cancel.cancel(Error::new(Fault::You, ErrorCode::Aborted, "enough"));
        let ended = waiting.join().expect("no panic").expect_err("cancelled");
        assert_eq!(ended.code, ErrorCode::Aborted);
    }
}

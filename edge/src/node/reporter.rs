//! What a running transfer tells its session: that it began, how much has moved, what is durable.

use super::ticker::{Ticker, Ticking};
use super::time_of_day::time_of_day;
use crate::mover::Tally;
use crate::stores::Sink;
use crate::sys::lock::lock;
use farline_core::gridftp::Perf;
use farline_core::gridftp::server::Answer;
use farline_core::units::ByteRanges;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between two words on how many files have landed: for people who watch.
const LANDED_EVERY: Duration = Duration::from_secs(1);

/// Where a transfer's answers go.
type Tell = Arc<dyn Fn(Answer) + Send + Sync>;

/// Tells the session how a transfer goes.
pub(super) struct Reporter {
    tell: Tell,
    ticker: Arc<Ticker>,
}

impl Reporter {
    pub(super) fn new(tell: Tell, ticker: Arc<Ticker>) -> Reporter {
        Reporter { tell, ticker }
    }

    /// The file is open and data may move.
    pub(super) fn started(&self, reused: bool) {
        (self.tell)(Answer::Started { reused });
    }

    /// What only this transfer has to say.
    pub(super) fn say(&self, answer: Answer) {
        (self.tell)(answer);
    }

    /// What the receiver holds.
    pub(super) fn ranges(&self, held: &ByteRanges) {
        if !held.is_empty() {
            (self.tell)(Answer::Ranges(held.clone()));
        }
    }

    /// A word of an extension.
    pub(super) fn remark(&self, text: String) {
        (self.tell)(Answer::Remark(text));
    }

    /// Runs `work` while saying now and then what is durable.
    pub(super) fn watch_durable<T>(
        &self,
        every: Duration,
        sink: &dyn Sink,
        work: impl FnOnce() -> T,
    ) -> T {
        if every.is_zero() || !sink.journals() {
            return work();
        }
        let last = Mutex::new((None, (0, 0)));
        let say = || {
            let durable = sink.durable();
            let (count, what) = (durable.count(), (durable.count(), durable.total()));
            let mut last = lock(&last);
            let (at, told): (Option<Instant>, _) = *last;
            // A long list is told as often as a thousand ranges a second allow.
            let is_soon = at.is_some_and(|at| at.elapsed() < Duration::from_millis(count as u64));
            if !is_soon && told != what {
                *last = (Some(Instant::now()), what);
                self.ranges(&durable);
            }
        };
        self.repeat(every, say, work)
    }

    /// Runs `work` while saying how many files have their final names, where they land one by one
    ///
    pub(super) fn watch_landed<T>(&self, sink: &dyn Sink, work: impl FnOnce() -> T) -> T {
        if sink.landed().is_none() {
            return work();
        }
        let last = AtomicU64::new(0);
        let say = || {
            let landed = sink.landed().unwrap_or(0);
            if last.swap(landed, Ordering::Relaxed) != landed {
                self.remark(format!("FARLINE landed={landed};"));
            }
        };
        self.repeat(LANDED_EVERY, say, work)
    }

    /// Runs `work` while saying how many bytes have moved: at once, every `every`, and at the end,
    /// as GCT does.
    pub(super) fn watch<T>(
        &self,
        every: Duration,
        tally: &Arc<Tally>,
        work: impl FnOnce() -> T,
    ) -> T {
        if every.is_zero() {
            return work();
        }
        mark(&self.tell, tally);
        let result = self.alive(every, tally, work);
        mark(&self.tell, tally);
        result
    }

    /// Runs `work` while saying every `every`, and not before, how many bytes have moved.
    pub(super) fn alive<T>(
        &self,
        every: Duration,
        tally: &Arc<Tally>,
        work: impl FnOnce() -> T,
    ) -> T {
        if every.is_zero() {
            return work();
        }
        let (tell, tally) = (Arc::clone(&self.tell), Arc::clone(tally));
        let _ticking = self.every(every, move || mark(&tell, &tally));
        work()
    }

    /// Has `act` done every `every` until what this returns goes.
    pub(super) fn every(&self, every: Duration, act: impl Fn() + Send + Sync + 'static) -> Ticking {
        self.ticker.every(every, act)
    }

    /// Runs `work` while doing `mark` every `every`, on a thread of its own: it may wait for a
    /// store.
    pub(super) fn repeat<T>(
        &self,
        every: Duration,
        mark: impl Fn() + Sync,
        work: impl FnOnce() -> T,
    ) -> T {
        let over = (Mutex::new(false), Condvar::new());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut done = over.0.lock().unwrap_or_else(PoisonError::into_inner);
                loop {
                    // Looks before it waits: work of a moment may be over before this thread runs.
                    (done, _) = over
                        .1
                        .wait_timeout_while(done, every, |over| !*over)
                        .unwrap_or_else(PoisonError::into_inner);
                    if *done {
                        return;
                    }
                    mark();
                }
            });
            let result = work();
            *over.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
            over.1.notify_all();
            result
        })
    }
}

fn mark(tell: &Tell, tally: &Tally) {
    tell(Answer::Perf(Perf {
        timestamp: time_of_day(),
        stripe: 0,
        bytes: tally.bytes(),
        stripes: 1,
    }));
}

//! The thread that has a sink make durable what it has, and the wait of writers for it.

use crate::stores::Sink;
use crate::sys::lock::lock;
use farline_core::transfer::DurableWindow;
use farline_core::units::{Span, Time};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between two looks where no checkpoint is due.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// What is written and not durable, and who waits for that to change.
#[derive(Debug)]
pub(super) struct Journal {
    began: Instant,
    state: Mutex<(DurableWindow, bool)>,
    changed: Condvar,
}

impl Journal {
    /// Nothing written.
    pub(super) fn new() -> Journal {
        let state = Mutex::new((DurableWindow::new(Time::ZERO), false));
        Journal { began: Instant::now(), state, changed: Condvar::new() }
    }

    fn now(&self) -> Time {
        Time::ZERO + Span::from(self.began.elapsed())
    }

    /// Waits until `bytes` more, of so many `pieces` of files, may be written, or the transfer is
    /// over.
    pub(super) fn admit(&self, bytes: usize, pieces: usize) {
        let mut state = lock(&self.state);
        while !state.1 && !state.0.admit(bytes as u64, pieces as u64) {
            // The journal's thread may rest: what is full is due at once.
            self.changed.notify_all();
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let is_due = state.0.due(self.now()).is_some_and(|due| due <= self.now());
        drop(state);
        if is_due {
            self.changed.notify_all();
        }
    }

    /// Makes checkpoints until the end.
    pub(super) fn keep(&self, sink: &dyn Sink) {
        let mut state = lock(&self.state);
        while !state.1 {
            let now = self.now();
            let rest = state.0.due(now).map(|due| Duration::from(due.since(now)));
            if rest == Some(Duration::ZERO) {
                state.0.begin(now);
                drop(state);
                sink.checkpoint();
                state = lock(&self.state);
                state.0.end(self.now());
                self.changed.notify_all();
                continue;
            }
            let rest = rest.unwrap_or(LOOK_EVERY).min(LOOK_EVERY);
            let waited = self.changed.wait_timeout(state, rest);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The transfer is over: nobody waits any more.
    pub(super) fn end(&self) {
        lock(&self.state).1 = true;
        self.changed.notify_all();
    }
}

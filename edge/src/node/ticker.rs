//! What a node does again and again while transfers run, on one thread for all of them: to say how
//! far one is, to look whether it still moves.

use crate::sys::lock::lock;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// What is done again and again: never something that waits.
type Act = Arc<dyn Fn() + Send + Sync>;

/// Runs acts at their times.
#[derive(Debug, Default)]
pub(super) struct Ticker(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// By when it is due next, and its number.
    acts: BTreeMap<(Instant, u64), (Duration, Act)>,
    /// When each is due.
    due: BTreeMap<u64, Instant>,
    last: u64,
    has_thread: bool,
    /// When the thread looks again by itself; never while absent.
    looks_at: Option<Instant>,
    is_over: bool,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} acts", self.acts.len())
    }
}

/// Ends an act when it goes. The act may be running then, and end a moment later.
#[derive(Debug)]
pub(super) struct Ticking {
    shared: Weak<Shared>,
    id: u64,
}

impl Ticker {
    /// Has `act` done every `every`, until what this returns goes.
    pub(super) fn every(&self, every: Duration, act: impl Fn() + Send + Sync + 'static) -> Ticking {
        let mut state = lock(&self.0.state);
        if !state.has_thread {
            let shared = Arc::clone(&self.0);
            let thread = std::thread::Builder::new().name("ticker".to_owned());
            // Without it nobody says how far a transfer is; the next asks for one again.
            state.has_thread = thread.spawn(move || shared.run()).is_ok();
        }
        state.last += 1;
        let (id, due) = (state.last, Instant::now() + every);
        state.due.insert(id, due);
        state.acts.insert((due, id), (every, Arc::new(act)));
        // One that is due later than the thread looks by itself is found then: transfers by the
        // thousand a second wake nobody.
        if state.looks_at.is_none_or(|looks_at| due < looks_at) {
            state.looks_at = Some(due);
            self.0.changed.notify_one();
        }
        Ticking { shared: Arc::downgrade(&self.0), id }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        lock(&self.0.state).is_over = true;
        self.0.changed.notify_one();
    }
}

impl Drop for Ticking {
    fn drop(&mut self) {
        let Some(shared) = self.shared.upgrade() else { return };
        let mut state = lock(&shared.state);
        if let Some(due) = state.due.remove(&self.id) {
            state.acts.remove(&(due, self.id));
        }
    }
}

impl Shared {
    fn run(&self) {
        let mut state = lock(&self.state);
        while !state.is_over {
            let now = Instant::now();
            if let Some(act) = state.take_due(now) {
                drop(state);
                act();
                state = lock(&self.state);
                continue;
            }
            state.looks_at = state.acts.keys().next().map(|(due, _)| *due);
            state = match state.looks_at {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(due) => {
                    let waited = self.changed.wait_timeout(state, due - now);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

impl State {
    /// An act that is due, which is due next a whole span later.
    fn take_due(&mut self, now: Instant) -> Option<Act> {
        let entry = self.acts.first_entry().filter(|entry| entry.key().0 <= now)?;
        let (_, id) = *entry.key();
        let (every, act) = entry.remove();
        self.due.insert(id, now + every);
        self.acts.insert((now + every, id), (every, Arc::clone(&act)));
        Some(act)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn acts_come_at_their_times_until_they_go() {
        let ticker = Ticker::default();
        let (tell, told) = mpsc::channel();
        let (slow, fast) = (tell.clone(), tell);
        let late = ticker.every(Duration::from_secs(3600), move || {
            let _ = slow.send("late");
        });
        let often = ticker.every(Duration::from_millis(1), move || {
            let _ = fast.send("often");
        });
        for _ in 0..3 {
            assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok("often"));
        }
        drop(often);
        drop(late);
        assert!(lock(&ticker.0.state).acts.is_empty() && lock(&ticker.0.state).due.is_empty());
        // Both have let go of their ends, and the one that ran has come to its end.
        while told.recv().is_ok() {}
    }

    #[test]
    fn what_is_late_is_done_once_and_then_a_span_later() {
        let now = Instant::now();
        let at = |seconds| now + Duration::from_secs(seconds);
        let mut state = State::default();
        for (id, every) in [(1, 5), (2, 3)] {
            let every = Duration::from_secs(every);
            state.due.insert(id, now + every);
            state.acts.insert((now + every, id), (every, Arc::new(|| {})));
        }
        assert!(state.take_due(at(2)).is_none());
        assert!(state.take_due(at(100)).is_some() && state.take_due(at(100)).is_some());
        assert!(state.take_due(at(102)).is_none());
        assert_eq!(state.due, BTreeMap::from([(1, at(105)), (2, at(103))]));
        assert!(state.acts.keys().eq(&[(at(103), 2), (at(105), 1)]));
    }

    #[test]
    fn the_thread_ends_with_the_node() {
        let ticker = Ticker::default();
        let (tell, told) = mpsc::channel::<()>();
        let ticking = ticker.every(Duration::from_secs(3600), move || {
            let _ = tell.send(());
        });
        let shared = Arc::downgrade(&ticker.0);
        drop(ticker);
        while shared.strong_count() > 0 {
            std::thread::yield_now();
        }
        assert!(told.recv().is_err(), "what it held went with it");
        drop(ticking);
    }
}

//! How much of this host's processors goes into blocks that their sender did not send: a header of
//! 57 bytes may have the receiver look at a mebibyte of zeros (clause Z-2), so that whoever sends
//! nothing else costs others more than any network can bring.

use crate::sys::busy::thread_time;
use crate::sys::lock::lock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Of all processors' time while others move files: one part in so many.
const SHARE: u32 = 20;
/// Turns that are due in less time than this need not wait: a shorter rest would take longer than
/// it is.
const BURST: Duration = Duration::from_millis(1);

/// What all sessions of a node do of it together: as many turns at once as half the processors and,
/// while several of them move files, a small part of the processors' time.
#[derive(Debug)]
pub(crate) struct UnsentWork {
    state: Mutex<State>,
    changed: Condvar,
    processors: u32,
    transfers: AtomicUsize,
    /// Of them, those whose last block was not sent: they are in nobody's way but each other's.
    unsent: AtomicUsize,
}

#[derive(Debug)]
struct State {
    free: usize,
    rest: Rest,
}

/// Since when all turns so far would have taken no more than their part.
#[derive(Debug, Default)]
struct Rest(Option<Instant>);

/// What one session does of it: one turn at once.
pub(crate) struct SessionWork<'a> {
    all: &'a UnsentWork,
    own: Mutex<()>,
    /// Whether its last block was not sent.
    is_unsent: AtomicBool,
}

/// One block's turn, until it goes.
pub(crate) struct ProcessorPermit<'a> {
    all: &'a UnsentWork,
    began: Instant,
    /// Whether others' files had it wait.
    has_waited: bool,
    /// Of the thread whose turn it is.
    time: Duration,
    _own: MutexGuard<'a, ()>,
}

/// A transfer of some session, until it goes.
pub(crate) struct CountedTransfer<'a>(&'a UnsentWork);

impl UnsentWork {
    /// For a host of so many processors.
    pub(crate) fn new(processors: usize) -> UnsentWork {
        UnsentWork {
            state: Mutex::new(State { free: (processors / 2).max(1), rest: Rest::default() }),
            changed: Condvar::new(),
            processors: u32::try_from(processors).unwrap_or(u32::MAX).max(1),
            transfers: AtomicUsize::new(0),
            unsent: AtomicUsize::new(0),
        }
    }

    pub(crate) fn session(&self) -> SessionWork<'_> {
        SessionWork { all: self, own: Mutex::new(()), is_unsent: AtomicBool::new(false) }
    }

    /// Counts a transfer that moves files: another's, to all others.
    pub(crate) fn transfer(&self) -> CountedTransfer<'_> {
        self.transfers.fetch_add(1, Ordering::Relaxed);
        CountedTransfer(self)
    }
}

impl Rest {
    /// How long the next turn has to wait.
    fn left(&self, now: Instant) -> Option<Duration> {
        let left = self.0?.checked_duration_since(now)?;
        (left > BURST).then_some(left)
    }

    /// A turn that began at `began` took so much of a processor's time, of which there is
    /// `processors` times as much.
    fn add(&mut self, began: Instant, took: Duration, processors: u32) {
        let due = self.0.map_or(began, |due| due.max(began));
        self.0 = Some(due + took * SHARE / processors);
    }
}

impl SessionWork<'_> {
    /// A block came whose sender sent it.
    pub(crate) fn sent(&self) {
        if self.is_unsent.swap(false, Ordering::Relaxed) {
            self.all.unsent.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Waits for a turn.
    pub(crate) fn permit(&self) -> ProcessorPermit<'_> {
        let own = lock(&self.own);
        if !self.is_unsent.swap(true, Ordering::Relaxed) {
            self.all.unsent.fetch_add(1, Ordering::Relaxed);
        }
        let (mut state, mut has_waited) = (lock(&self.all.state), false);
        loop {
            let changed = &self.all.changed;
            state = match state.rest.left(Instant::now()) {
                _ if state.free == 0 => changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                None => break,
                Some(left) => {
                    has_waited = true;
                    let waited = changed.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        state.free -= 1;
        drop(state);
        let (began, time) = (Instant::now(), thread_time());
        ProcessorPermit { all: self.all, began, has_waited, time, _own: own }
    }
}

impl ProcessorPermit<'_> {
    /// Whether it had to wait for others' files.
    pub(crate) fn has_waited(&self) -> bool {
        self.has_waited
    }
}

impl Drop for ProcessorPermit<'_> {
    fn drop(&mut self) {
        let took = thread_time().saturating_sub(self.time);
        let mut state = lock(&self.all.state);
        state.free += 1;
        // Whose processors nobody else wants may have them.
        if self.all.transfers.load(Ordering::Relaxed) > self.all.unsent.load(Ordering::Relaxed) {
            state.rest.add(self.began, took, self.all.processors);
        }
        drop(state);
        self.all.changed.notify_all();
    }
}

impl Drop for SessionWork<'_> {
    fn drop(&mut self) {
        self.sent();
    }
}

impl Drop for CountedTransfer<'_> {
    fn drop(&mut self) {
        self.0.transfers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_take_a_turn_each_and_half_the_processors_in_all() {
        let (work, in_all, most) = (UnsentWork::new(4), AtomicUsize::new(0), AtomicUsize::new(0));
        let done = AtomicUsize::new(0);
        let sessions = [0; 3].map(|_| (work.session(), AtomicUsize::new(0)));
        std::thread::scope(|scope| {
            for (session, own) in sessions.iter().flat_map(|session| [session; 3]) {
                scope.spawn(|| {
                    for _ in 0..10 {
                        let permit = session.permit();
                        assert_eq!(own.fetch_add(1, Ordering::SeqCst), 0, "one of a session");
                        most.fetch_max(in_all.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        std::thread::sleep(Duration::from_micros(200));
                        in_all.fetch_sub(1, Ordering::SeqCst);
                        own.fetch_sub(1, Ordering::SeqCst);
                        drop(permit);
                        done.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!((done.into_inner(), most.into_inner()), (90, 2));
        assert_eq!(lock(&UnsentWork::new(1).state).free, 1, "somebody has to");
    }

    #[test]
    fn turns_in_a_row_take_their_part_of_the_time() {
        let (began, took) = (Instant::now(), Duration::from_micros(300));
        let (mut now, mut rest) = (began, Rest::default());
        for _ in 0..10_000 {
            now += rest.left(now).unwrap_or_default();
            rest.add(now, took, 2);
            now += took;
        }
        // 3 s of work are a twentieth of what two processors do in 30 s.
        let whole = now.duration_since(began).as_secs_f64();
        assert!((whole - 30.0).abs() < 0.01, "{whole} s");
        // Who did nothing for a while has not saved it up.
        now += Duration::from_secs(60);
        assert_eq!(rest.left(now), None);
        (0..10).for_each(|_| rest.add(now, took, 2));
        assert_eq!(rest.left(now), Some(Duration::from_millis(30)));
    }

    #[test]
    fn only_next_to_other_transfers_turns_are_charged() {
        let work = UnsentWork::new(2);
        let session = work.session();
        let charged = |work: &UnsentWork| {
            drop(session.permit());
            lock(&work.state).rest.0.take().is_some()
        };
        let _own = work.transfer();
        assert!(!charged(&work));
        drop(work.transfer());
        assert!(!charged(&work), "it ended");
        let (_other, other) = (work.transfer(), work.session());
        assert!(charged(&work));
        drop(other.permit());
        lock(&work.state).rest = Rest::default();
        assert!(!charged(&work), "nobody sends anything");
        other.sent();
        assert!(charged(&work));
        assert!(!session.permit().has_waited(), "nothing was due");
        lock(&work.state).rest.0 = Some(Instant::now() + Duration::from_millis(20));
        assert!(session.permit().has_waited());
    }
}

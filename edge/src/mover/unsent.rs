//! How much of this host's processors goes into blocks that their sender did not send: a header of 57 bytes has
//! the receiver look at a mebibyte of zeros (clause Z-2), so that whoever sends nothing else costs others more
//! than any network can bring.

use crate::sys::lock::lock;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// What all sessions of a node do of it together: as many turns at once as half the processors.
#[derive(Debug)]
pub(crate) struct UnsentWork {
    free: Mutex<usize>,
    freed: Condvar,
}

/// What one session does of it: one turn at once.
pub(crate) struct SessionWork<'a> {
    all: &'a UnsentWork,
    own: Mutex<()>,
}

/// One block's turn, until it goes.
pub(crate) struct Turn<'a> {
    all: &'a UnsentWork,
    _own: MutexGuard<'a, ()>,
}

impl UnsentWork {
    /// For a host of so many processors.
    pub(crate) fn new(processors: usize) -> UnsentWork {
        UnsentWork { free: Mutex::new((processors / 2).max(1)), freed: Condvar::new() }
    }

    pub(crate) fn session(&self) -> SessionWork<'_> {
        SessionWork { all: self, own: Mutex::new(()) }
    }
}

impl SessionWork<'_> {
    /// Waits for a turn.
    pub(crate) fn turn(&self) -> Turn<'_> {
        let own = lock(&self.own);
        let free = lock(&self.all.free);
        let free = self.all.freed.wait_while(free, |free| *free == 0);
        *free.unwrap_or_else(PoisonError::into_inner) -= 1;
        Turn { all: self.all, _own: own }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *lock(&self.all.free) += 1;
        self.all.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    #[test]
    fn sessions_take_a_turn_each_and_half_the_processors_in_all() {
        let (work, in_all, most) = (UnsentWork::new(4), AtomicUsize::new(0), AtomicUsize::new(0));
        let done = AtomicUsize::new(0);
        let sessions = [0; 3].map(|_| (work.session(), AtomicUsize::new(0)));
        std::thread::scope(|scope| {
            for (session, own) in sessions.iter().flat_map(|session| [session; 3]) {
                scope.spawn(|| {
                    for _ in 0..10 {
                        let turn = session.turn();
                        assert_eq!(own.fetch_add(1, Ordering::SeqCst), 0, "one of a session");
                        most.fetch_max(in_all.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        std::thread::sleep(Duration::from_micros(200));
                        in_all.fetch_sub(1, Ordering::SeqCst);
                        own.fetch_sub(1, Ordering::SeqCst);
                        drop(turn);
                        done.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!((done.into_inner(), most.into_inner()), (90, 2));
        assert_eq!(*lock(&UnsentWork::new(1).free), 1, "somebody has to");
    }
}

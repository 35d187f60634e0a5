//! Which tests may run next to each other: all, but for those that need the machine's quiet or its
//! one list of congestion controls.
//!
//! A test has its place from its first [`command`](crate::command) to the end of its thread, which
//! the test harness starts for it; one that must be alone waits until the others have left, and
//! keeps them waiting. Where the harness runs one test at a time there is nothing to wait for.

use std::cell::RefCell;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Default)]
struct Places {
    /// Tests that run next to each other.
    shared: usize,
    /// Tests that wait to be alone: new ones let them go first.
    waiting: usize,
    alone: bool,
}

static PLACES: Mutex<Places> = Mutex::new(Places { shared: 0, waiting: 0, alone: false });
static CHANGED: Condvar = Condvar::new();

thread_local! {
    static MINE: RefCell<Option<Place>> = const { RefCell::new(None) };
}

/// A test's place; left when its thread ends.
enum Place {
    Shared,
    Alone,
}

fn places() -> MutexGuard<'static, Places> {
    // A test that failed leaves its place like any other.
    PLACES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn until(condition: impl Fn(&Places) -> bool) -> MutexGuard<'static, Places> {
    let waits = |places: &mut Places| !condition(places);
    CHANGED.wait_while(places(), waits).unwrap_or_else(PoisonError::into_inner)
}

impl Place {
    fn shared() -> Place {
        until(|places| !places.alone && places.waiting == 0).shared += 1;
        Place::Shared
    }

    fn alone() -> Place {
        places().waiting += 1;
        let mut places = until(|places| !places.alone && places.shared == 0);
        places.waiting -= 1;
        places.alone = true;
        Place::Alone
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        match self {
            Place::Shared => places().shared -= 1,
            Place::Alone => places().alone = false,
        }
        CHANGED.notify_all();
    }
}

/// Whether this thread is a test's: the harness names it by the test's path, and runs tests on its
/// own thread when they go one by one.
fn is_a_tests() -> bool {
    std::thread::current().name().is_some_and(|name| name.contains("::"))
}

/// Takes a place next to the others, unless this test has one.
pub(crate) fn enter() {
    if is_a_tests() {
        MINE.with_borrow_mut(|mine| {
            mine.get_or_insert_with(Place::shared);
        });
    }
}

/// Waits until no other test of this program runs, and lets none begin until this one is over.
pub fn alone() {
    if !is_a_tests() {
        return;
    }
    MINE.with_borrow_mut(|mine| {
        if !matches!(mine, Some(Place::Alone)) {
            // Two that waited for each other would wait for good.
            drop(mine.take());
            *mine = Some(Place::alone());
        }
    });
}

//! Congestion controls in tests: the kernel has one list of them for all, so those that change it
//! take turns and leave it as it was.

use crate::{Running, farline, recovery, succeed};
use farline::kernelcc::available;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Every command removes what killed processes left, also what a test left to see it removed.
static TURN: Mutex<()> = Mutex::new(());

/// Until it is dropped no other test of this program has a turn.
pub fn alone() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A turn where this kernel loads BPF for this user; else `None`, and why, loudly.
pub fn turn() -> Option<MutexGuard<'static, ()>> {
    // First: to find out is to load one, beside which another test's list would change, and what it
    // has killed would be cleared away.
    let turn = alone();
    if let Err(why) = recovery::possible() {
        eprintln!("SKIPPED: {why}");
        return None;
    }
    Some(turn)
}

/// Whether the kernel has a control of that name.
pub fn is_there(name: &str) -> bool {
    available().iter().any(|have| have == name)
}

/// Waits until `name` is there, or is not: the kernel takes a name from its list a moment after the
/// program is gone.
///
/// # Panics
/// After half a minute.
pub fn until(name: &str, there: bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while is_there(name) != there {
        assert!(Instant::now() < until, "{name}: there {}, wanted {there}", !there);
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A `farline cc load` with `arguments` that holds what it loaded, and what it said.
///
/// # Panics
/// When it does not start.
pub fn holding(arguments: &[&str]) -> (Running, String) {
    Running::begun(farline().args(["cc", "load"]).args(arguments))
}

/// A control that is pinned, and unloaded when the test ends, however it does.
#[derive(Debug)]
pub struct Pinned<'a>(&'a str);

impl<'a> Pinned<'a> {
    /// Loads `algorithm` as `name`, with `more` flags.
    ///
    /// # Panics
    /// When it cannot be loaded.
    pub fn load(algorithm: &str, name: &'a str, more: &[&str]) -> Pinned<'a> {
        succeed(farline().args(["cc", "load", algorithm, "--as", name, "--pin"]).args(more));
        Pinned(name)
    }
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        // Unloaded already is as good.
        let _ = farline().args(["-q", "cc", "unload", self.0]).output();
    }
}

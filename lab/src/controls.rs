//! Congestion controls in tests: the kernel has one list of them for all, so those that change it
//! take turns and leave it as it was.

use crate::{Running, farline, recovery, succeed};
use farline::kernelcc::available;
use std::fs::File;
use std::time::{Duration, Instant};

/// A test's turn at the kernel's list, also where two runs of the tests share a machine.
#[derive(Debug)]
pub struct ControlListLock(#[expect(dead_code, reason = "held for its lock")] File);

/// Until it is dropped nobody else has a turn, and until the test is over no other test of this
/// program runs: every command removes what killed processes left, also what a test left to see it
/// removed.
///
/// # Panics
/// When the lock cannot be had.
pub fn alone() -> ControlListLock {
    crate::alone();
    let path = std::env::temp_dir().join("farline-test-controls");
    // Another user's, in a folder that all share, can be read and locked, but not created.
    let file = File::open(&path).or_else(|_| File::create(&path)).expect("a lock for all runs");
    file.lock().expect("nobody keeps it for good");
    ControlListLock(file)
}

/// A turn where this kernel loads BPF for this user; else `None`, and why, loudly.
pub fn turn() -> Option<ControlListLock> {
    // First: to find out is to load one, next to which another test's list would change, and what
    // it has killed would be cleared away.
    let turn = alone();
    if let Err(why) = recovery::possible() {
        crate::skip(why);
        return None;
    }
    Some(turn)
}

/// Two controls that Farline brings and nobody has registered now, so that a copy loads them.
pub fn absent() -> Option<[&'static str; 2]> {
    let have = available();
    let mut absent = ["htcp", "vegas", "bic", "scalable", "highspeed"]
        .into_iter()
        .filter(|name| !have.iter().any(|have| have == name));
    Some([absent.next()?, absent.next()?])
}

/// Whether this user may choose the control `name`; else says, loudly, that the test is skipped.
///
/// # Panics
/// When the kernel does not say which controls are for everybody.
pub fn may_choose(name: &str) -> bool {
    const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
    let allowed = std::fs::read_to_string(ALLOWED).expect("Linux says so");
    let may = rustix::process::geteuid().is_root()
        || allowed.split_whitespace().any(|allowed| allowed == name);
    if !may {
        crate::skip(format!("an ordinary user may not choose {name} here: see {ALLOWED}"));
    }
    may
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

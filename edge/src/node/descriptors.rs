//! How many file descriptors a node's files and data connections may take, so that control
//! connections, and who waits for theirs, always find some.

use super::limits::NodeLimits;
use crate::channels::accept_error::is_out_of_descriptors;
use crate::sys::lock::lock;
use farline_core::units::{Error, ErrorCode, Fault};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What a transfer opens besides its connections: files, folders, what wakes its threads.
pub(super) const OF_TRANSFER: usize = 6;
/// What a data port takes.
pub(super) const OF_PORT: usize = 3;
/// What is open while a file is summed or looked at, or a folder listed: it, and what reads it.
pub(super) const OF_LOOK: usize = 3;
/// One part in so many of all descriptors is kept for control connections, at most; half of it for
/// those that are logged in, and half for those that are not.
const PART: usize = 4;
/// And one part in so many of what data may take no file of a tree takes beyond those that its
/// transfer has reserved: others begin.
const PART_WITHOUT_FILES: usize = 4;
/// Between two looks at what is open, where that is much.
const LOOK_AFTER: Duration = Duration::from_millis(20);
/// A look takes one part in so many of the time at most: where much is open it takes long.
const LOOK_PART: u32 = 20;

/// How what is open is counted; nothing where nobody says.
type Look = Box<dyn Fn() -> Option<usize> + Send + Sync>;
type Clock = Box<dyn Fn() -> Instant + Send + Sync>;

/// The descriptors of this process.
pub(super) struct Descriptors {
    /// What may be open in all.
    all: usize,
    /// What may be open once data has taken its own.
    most: usize,
    look: Look,
    clock: Clock,
    counts: Mutex<DescriptorCounts>,
}

#[derive(Debug, Default)]
struct DescriptorCounts {
    /// What was open at the last look, with what was taken since.
    open: usize,
    /// What is reserved counts besides: nobody knows how much of it is open.
    reserved: usize,
    /// What is open for certain, and counted here alone.
    files: usize,
    /// When what is open may be looked at again, once it was.
    next_look: Option<Instant>,
}

/// Descriptors that who has this may open; they are others' when it goes.
pub(super) struct Reservation {
    of: Arc<Descriptors>,
    count: usize,
}

/// A file that is open as long as this is there.
pub(super) struct CountedFile(Arc<Descriptors>);

impl Drop for CountedFile {
    fn drop(&mut self) {
        lock(&self.0.counts).files -= 1;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        lock(&self.of.counts).reserved -= self.count;
    }
}

impl fmt::Debug for Descriptors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Descriptors({})", self.most)
    }
}

/// The descriptors that a node may have open: what it was told, or what the system gives this
/// process.
pub(super) fn descriptors_of(limits: &NodeLimits) -> usize {
    let given = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let given = usize::try_from(given).unwrap_or(usize::MAX);
    limits.descriptors.map_or(given, |most| most.min(given))
}

/// Has the system give this process no more than the node may have: what else goes by the process's
/// limit goes by the same number then.
pub(super) fn limit_process(limits: &NodeLimits) {
    if let Some(lower) = lowered(limits, getrlimit(Resource::Nofile)) {
        // A system that does not do it leaves the node to keep to the number by itself.
        let _ = setrlimit(Resource::Nofile, lower);
    }
}

/// The limit of a process that has the limit `given`, where the node may have less.
fn lowered(limits: &NodeLimits, given: Rlimit) -> Option<Rlimit> {
    let most = u64::try_from(limits.descriptors?).ok()?;
    let is_less = given.current.is_none_or(|current| most < current);
    is_less.then_some(Rlimit { current: Some(most), maximum: given.maximum })
}

/// The limits with no more control connections of each kind than there are descriptors for.
pub(super) fn fitted(limits: &NodeLimits) -> NodeLimits {
    let part = (descriptors_of(limits) / PART / 2).max(1);
    let (sessions, logins) = (limits.sessions.min(part), limits.logins.min(part));
    NodeLimits { sessions, logins, ..limits.clone() }
}

impl Descriptors {
    /// Of a node with these limits, which [`fitted`] has made fit.
    pub(super) fn new(limits: &NodeLimits) -> Descriptors {
        Descriptors::counted_by(limits, Box::new(in_use), Box::new(Instant::now))
    }

    fn counted_by(limits: &NodeLimits, look: Look, clock: Clock) -> Descriptors {
        let all = descriptors_of(limits);
        let kept = (limits.sessions + limits.logins).min(all / PART);
        Descriptors { all, most: all - kept, look, clock, counts: Mutex::default() }
    }

    /// Makes sure that data may open `count` more now. They count until the next look, which sees
    /// them.
    ///
    /// # Errors
    /// When that would leave too few for control connections.
    pub(super) fn take(&self, count: usize) -> Result<(), Error> {
        let mut counts = lock(&self.counts);
        self.admit(&mut counts, count, self.most)?;
        counts.open = counts.open.saturating_add(count);
        Ok(())
    }

    /// Makes sure that data may open `count` more from now on, sooner or later.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub(super) fn reserve(of: &Arc<Descriptors>, count: usize) -> Result<Reservation, Error> {
        Descriptors::reserve_of(of, count, of.most)
    }

    /// The same for what is over in a moment, and has what is kept for control connections too.
    ///
    /// # Errors
    /// When all that there is is taken.
    pub(super) fn reserve_moment(
        of: &Arc<Descriptors>,
        count: usize,
    ) -> Result<Reservation, Error> {
        Descriptors::reserve_of(of, count, of.all)
    }

    fn reserve_of(of: &Arc<Descriptors>, count: usize, most: usize) -> Result<Reservation, Error> {
        let mut counts = lock(&of.counts);
        of.admit(&mut counts, count, most)?;
        counts.reserved += count;
        Ok(Reservation { of: Arc::clone(of), count })
    }

    /// Counts one more file of a tree, if there is one left for it.
    pub(super) fn file(of: &Arc<Descriptors>) -> Option<CountedFile> {
        let mut counts = lock(&of.counts);
        let has_room = of.has_room(&mut counts, 1, of.most - of.most / PART_WITHOUT_FILES);
        has_room.then(|| {
            counts.files += 1;
            CountedFile(Arc::clone(of))
        })
    }

    fn admit(&self, counts: &mut DescriptorCounts, count: usize, most: usize) -> Result<(), Error> {
        if self.has_room(counts, count, most) {
            return Ok(());
        }
        let message = "the node's file descriptors are taken by other transfers";
        let hint = "its operator can give it more: `descriptors`, and LimitNOFILE of its service";
        Err(Error::new(Fault::Refused, ErrorCode::Busy, message).hint(hint))
    }

    /// Whether no more than `most` would be open with `count` more.
    fn has_room(&self, counts: &mut DescriptorCounts, count: usize, most: usize) -> bool {
        let now = (self.clock)();
        let is_much = counts.with(count) > most;
        // What was closed since the last look is seen by the next.
        if counts.next_look.is_none_or(|next_look| is_much && now >= next_look) {
            if let Some(open) = (self.look)() {
                counts.open = open.saturating_sub(counts.files);
            }
            let after = (self.clock)();
            let took = after.saturating_duration_since(now);
            counts.next_look = Some(after + LOOK_AFTER.max(took * LOOK_PART));
        }
        counts.with(count) <= most
    }
}

impl DescriptorCounts {
    /// What would be open with `count` more.
    fn with(&self, count: usize) -> usize {
        self.open.saturating_add(self.reserved + self.files).saturating_add(count)
    }
}

/// What this process has open, and the folder that says so.
fn in_use() -> Option<usize> {
    counted(std::fs::read_dir("/proc/self/fd").map(Iterator::count))
}

/// What a look says: where none is left to look with, all are taken.
fn counted(look: io::Result<usize>) -> Option<usize> {
    match look {
        Ok(open) => Some(open),
        Err(error) => is_out_of_descriptors(&error).then_some(usize::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    /// A process in which only what a test does happens.
    struct Process {
        open: AtomicUsize,
        millis: AtomicU64,
        look_millis: AtomicU64,
        looks: AtomicUsize,
    }

    impl Process {
        /// With the descriptors of a node in it that may have `all`.
        fn of(all: usize, is_seen: bool) -> (Arc<Process>, Arc<Descriptors>) {
            let process = Arc::new(Process {
                open: AtomicUsize::new(0),
                millis: AtomicU64::new(0),
                look_millis: AtomicU64::new(0),
                looks: AtomicUsize::new(0),
            });
            let (seen, timed, began) = (Arc::clone(&process), Arc::clone(&process), Instant::now());
            let look = move || {
                seen.wait(seen.look_millis.load(Ordering::Relaxed));
                seen.looks.fetch_add(1, Ordering::Relaxed);
                is_seen.then(|| seen.open.load(Ordering::Relaxed))
            };
            let clock = move || began + Duration::from_millis(timed.millis.load(Ordering::Relaxed));
            let descriptors =
                Descriptors::counted_by(&limits(all), Box::new(look), Box::new(clock));
            (process, Arc::new(descriptors))
        }

        fn opens(&self, count: usize) {
            self.open.store(count, Ordering::Relaxed);
        }

        fn wait(&self, millis: u64) {
            self.millis.fetch_add(millis, Ordering::Relaxed);
        }

        fn looks(&self) -> usize {
            self.looks.load(Ordering::Relaxed)
        }
    }

    fn limits(descriptors: usize) -> NodeLimits {
        NodeLimits { descriptors: Some(descriptors), ..NodeLimits::default() }
    }

    #[test]
    fn data_leaves_descriptors_for_control_connections() {
        let (process, descriptors) = Process::of(100, true);
        process.opens(20);
        assert_eq!(descriptors.take(50), Ok(()));
        assert_eq!(descriptors.take(5), Ok(()));
        let refused = descriptors.take(1).expect_err("25 are kept");
        assert_eq!((refused.code, refused.fault), (ErrorCode::Busy, Fault::Refused));
        // What was closed meanwhile may be opened by another.
        process.opens(40);
        process.wait(20);
        assert_eq!(descriptors.take(35), Ok(()));
        assert!(descriptors.take(1).is_err());
    }

    #[test]
    fn what_is_reserved_is_anothers_once_it_is_given_back() {
        let (process, descriptors) = Process::of(100, true);
        let one = Descriptors::reserve(&descriptors, 50).expect("there are 75");
        // No look makes it free: what it is for may not be open yet.
        process.wait(1_000);
        assert!(Descriptors::reserve(&descriptors, 30).is_err());
        assert_eq!(descriptors.take(25), Ok(()));
        assert!(descriptors.take(1).is_err());
        drop(one);
        assert_eq!(descriptors.take(50), Ok(()), "and no look is waited for");
        assert_eq!(lock(&descriptors.counts).reserved, 0);
    }

    #[test]
    fn what_is_over_in_a_moment_has_what_is_kept_too() {
        let (process, descriptors) = Process::of(100, true);
        process.opens(74);
        assert!(Descriptors::reserve(&descriptors, 2).is_err(), "25 are kept");
        let looks = [(); 13].map(|()| Descriptors::reserve_moment(&descriptors, 2));
        assert!(looks.iter().all(Result::is_ok), "and are there for these");
        assert!(Descriptors::reserve_moment(&descriptors, 1).is_err(), "until all are taken");
        drop(looks);
        assert!(Descriptors::reserve_moment(&descriptors, 1).is_ok());
    }

    #[test]
    fn files_are_counted_once_and_leave_room_for_who_begins() {
        let (process, descriptors) = Process::of(128, true);
        process.opens(24);
        let file = || Descriptors::file(&descriptors);
        let mut files: Vec<_> = (0..48).map(|_| file().expect("of 72 a third is open")).collect();
        assert!(file().is_none(), "24 of 96 are for others");
        // A look sees the same files again.
        process.opens(24 + 48);
        process.wait(20);
        assert!(file().is_none() && descriptors.take(24).is_ok());
        assert!(descriptors.take(1).is_err());
        files.pop();
        assert_eq!(descriptors.take(1), Ok(()), "and no look is waited for");
        drop(files);
        assert_eq!(lock(&descriptors.counts).files, 0);
    }

    #[test]
    fn a_look_that_takes_long_is_seldom() {
        let (process, descriptors) = Process::of(100, true);
        process.opens(80);
        process.look_millis.store(5, Ordering::Relaxed);
        for (wait, looks) in [(0, 1), (99, 1), (1, 2), (99, 2), (1, 3)] {
            process.wait(wait);
            assert!(descriptors.take(1).is_err());
            assert_eq!(process.looks(), looks);
        }
    }

    #[test]
    fn where_nobody_says_what_is_open_what_is_taken_counts() {
        let (process, descriptors) = Process::of(40, false);
        assert_eq!(descriptors.take(30), Ok(()));
        process.wait(20);
        assert!(descriptors.take(1).is_err(), "a look that says nothing frees nothing");
        assert_eq!(process.looks(), 2);
    }

    #[test]
    fn where_none_is_left_to_look_with_all_are_taken() {
        let failed = |errno| counted(Err(io::Error::from_raw_os_error(errno)));
        assert_eq!(failed(libc::EMFILE), Some(usize::MAX));
        assert_eq!(failed(libc::ENFILE), Some(usize::MAX));
        assert_eq!((failed(libc::ENOENT), counted(Ok(7))), (None, Some(7)));
        let (process, descriptors) = Process::of(100, true);
        process.opens(usize::MAX);
        assert!(descriptors.take(1).is_err());
        process.opens(20);
        process.wait(20);
        assert_eq!(descriptors.take(1), Ok(()));
    }

    #[test]
    fn few_descriptors_have_few_control_connections() {
        let fit = fitted(&limits(64));
        assert_eq!((fit.sessions, fit.logins), (8, 8));
        assert_eq!(Descriptors::new(&fit).most, 48, "a quarter is for both");
        let usual = NodeLimits::default();
        let fit = fitted(&NodeLimits { sessions: 16, logins: 16, ..limits(256) });
        assert_eq!((fit.sessions, fit.logins, fit.drain), (16, 16, usual.drain));
        assert_eq!(Descriptors::new(&fit).most, 224, "no more is kept than there may be");
    }

    #[test]
    fn what_is_open_is_counted() {
        let more: Vec<_> =
            (0..100).map(|_| std::fs::File::open("/dev/null").expect("there")).collect();
        // Other tests open and close theirs meanwhile.
        assert!(in_use().is_some_and(|open| open > more.len()));
    }

    #[test]
    fn a_node_that_may_have_less_lowers_the_limit_of_its_process() {
        let given = |current| Rlimit { current, maximum: Some(4_096) };
        let of = |descriptors, current| lowered(&limits(descriptors), given(current));
        assert_eq!(of(100, Some(1_024)), Some(given(Some(100))));
        assert_eq!(of(100, None), Some(given(Some(100))));
        assert_eq!((of(100, Some(100)), of(100, Some(64))), (None, None));
        assert_eq!(lowered(&NodeLimits::default(), given(Some(1_024))), None);
    }
}

//! How many file descriptors a node's files and data connections may take, so that control connections, and who
//! waits for theirs, always find some.

use super::limits::NodeLimits;
use crate::sys::lock::lock;
use farline_core::units::{Error, ErrorCode, Fault};
use rustix::process::{Resource, getrlimit};
use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// What a transfer opens besides its connections: files, folders, what wakes its threads.
pub(super) const OF_TRANSFER: usize = 6;
/// What a data port takes.
pub(super) const OF_PORT: usize = 3;
/// One part in so many of all descriptors is kept for each kind of control connection, at most.
const PART: usize = 4;
/// Between two looks at what is open, where that is much.
const LOOK_AFTER: Duration = Duration::from_millis(20);

/// How what is open is counted; nothing where nobody says.
type Look = fn() -> Option<usize>;

/// The descriptors of this process.
pub(super) struct Descriptors {
    /// What may be open once data has taken its own.
    most: usize,
    look: Look,
    seen: Mutex<Seen>,
}

/// What was open at the last look, with what was taken since.
#[derive(Debug, Default)]
struct Seen {
    open: usize,
    looked: Option<Instant>,
}

impl fmt::Debug for Descriptors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Descriptors({})", self.most)
    }
}

/// The descriptors that a node may have open: what it was told, or what the system gives this process.
pub(super) fn descriptors_of(limits: &NodeLimits) -> usize {
    let given = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let given = usize::try_from(given).unwrap_or(usize::MAX);
    limits.descriptors.map_or(given, |most| most.min(given))
}

/// The limits with no more control connections of each kind than there are descriptors for.
pub(super) fn fitted(limits: &NodeLimits) -> NodeLimits {
    let part = (descriptors_of(limits) / PART).max(1);
    let (sessions, logins) = (limits.sessions.min(part), limits.logins.min(part));
    NodeLimits { sessions, logins, ..limits.clone() }
}

impl Descriptors {
    /// Of a node with these limits, which [`fitted`] has made fit.
    pub(super) fn new(limits: &NodeLimits) -> Descriptors {
        Descriptors::counted_by(limits, in_use)
    }

    fn counted_by(limits: &NodeLimits, look: Look) -> Descriptors {
        let all = descriptors_of(limits);
        let kept = (limits.sessions + limits.logins).min(all / PART);
        Descriptors { most: all - kept, look, seen: Mutex::default() }
    }

    /// Makes sure that data may open `count` more now.
    ///
    /// # Errors
    /// When that would leave too few for control connections.
    pub(super) fn take(&self, count: usize) -> Result<(), Error> {
        let mut seen = lock(&self.seen);
        let is_old = seen.looked.is_none_or(|looked| looked.elapsed() >= LOOK_AFTER);
        let is_much = seen.open.saturating_add(count) > self.most;
        // What was closed since the last look is seen by the next.
        if (is_much && is_old) || seen.looked.is_none() {
            seen.open = (self.look)().unwrap_or_default();
            seen.looked = Some(Instant::now());
        }
        let open = seen.open.saturating_add(count);
        if open > self.most {
            let message = "the node's file descriptors are taken by other transfers";
            return Err(Error::new(Fault::Refused, ErrorCode::Busy, message).hint(
                "its operator can give it more: `descriptors`, and LimitNOFILE of its service",
            ));
        }
        seen.open = open;
        Ok(())
    }
}

/// What this process has open, and the folder that says so.
fn in_use() -> Option<usize> {
    Some(std::fs::read_dir("/proc/self/fd").ok()?.count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    static OPEN: AtomicUsize = AtomicUsize::new(0);

    fn limits(descriptors: usize) -> NodeLimits {
        NodeLimits { descriptors: Some(descriptors), ..NodeLimits::default() }
    }

    #[test]
    fn data_leaves_descriptors_for_control_connections() {
        let look = || Some(OPEN.load(Ordering::Relaxed));
        let descriptors = Descriptors::counted_by(&limits(100), look);
        OPEN.store(20, Ordering::Relaxed);
        assert_eq!(descriptors.take(50), Ok(()));
        assert_eq!(descriptors.take(5), Ok(()));
        let refused = descriptors.take(1).expect_err("25 are kept");
        assert_eq!((refused.code, refused.fault), (ErrorCode::Busy, Fault::Refused));
        // What was closed meanwhile may be opened by another.
        OPEN.store(40, Ordering::Relaxed);
        std::thread::sleep(LOOK_AFTER);
        assert_eq!(descriptors.take(35), Ok(()));
        assert!(descriptors.take(1).is_err());
    }

    #[test]
    fn where_nobody_says_what_is_open_what_is_taken_counts() {
        let descriptors = Descriptors::counted_by(&limits(40), || None);
        assert_eq!(descriptors.take(30), Ok(()));
        assert!(descriptors.take(1).is_err());
    }

    #[test]
    fn few_descriptors_have_few_control_connections() {
        let fit = fitted(&limits(64));
        assert_eq!((fit.sessions, fit.logins), (16, 16));
        let usual = NodeLimits::default();
        let fit = fitted(&limits(4_096).clone());
        assert_eq!((fit.sessions, fit.logins), (usual.sessions, usual.logins));
        let open = in_use().expect("Linux says");
        let _more = (0..7).map(|_| std::fs::File::open("/dev/null").expect("there"));
        assert!(open > 2, "{open}");
    }
}

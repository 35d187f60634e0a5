//! How many files of a tree are open at once: those of one transfer, and of all together, where
//! somebody counts these.

use crate::sys::pacing_limits::{PacingLimit, PacingLimits};
use rustix::process::{Resource, getrlimit};
use std::fmt;
use std::sync::Arc;

/// How many files of one tree are open at once: a peer that begins all of millions takes no more
/// descriptors. They are fewer where this process may have few.
pub(super) const MOST_OPEN: usize = 128;
/// One in so many of this process's descriptors is for the files of one tree.
const PART: u64 = 8;
/// So many are open where there is no place for more: a transfer needs them to go on.
pub(super) const LEAST_OPEN: usize = 2;

/// [`MOST_OPEN`], or what this process may have.
pub(super) fn most_open() -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let part = usize::try_from(descriptors / PART).unwrap_or(usize::MAX);
    part.clamp(1, MOST_OPEN)
}

/// A file's place among those that are open; another's when it goes.
pub(crate) struct FilePlace(#[expect(dead_code, reason = "kept")] Option<Box<dyn Send + Sync>>);

impl FilePlace {
    /// One that `counted` stands for.
    pub(crate) fn of(counted: impl Send + Sync + 'static) -> FilePlace {
        FilePlace(Some(Box::new(counted)))
    }
}

impl fmt::Debug for FilePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FilePlace")
    }
}

/// Gives out the places of all files that may be open in this process; without end where nobody
/// counts them.
#[derive(Clone, Default)]
pub(crate) struct FileLimit {
    take: Option<Arc<dyn Fn() -> Option<FilePlace> + Send + Sync>>,
    /// What struck a tree for want of a place, or of another's.
    struck: Arc<PacingLimits>,
}

impl FileLimit {
    /// The places that `take` has.
    pub(crate) fn of(take: impl Fn() -> Option<FilePlace> + Send + Sync + 'static) -> FileLimit {
        FileLimit { take: Some(Arc::new(take)), ..FileLimit::default() }
    }

    /// The same, of which `struck` learns.
    #[must_use]
    pub(crate) fn telling(self, struck: &Arc<PacingLimits>) -> FileLimit {
        FileLimit { struck: Arc::clone(struck), ..self }
    }

    /// This one struck a tree.
    pub(super) fn strike(&self, limit: PacingLimit) {
        self.struck.strike(limit);
    }

    /// A place for one more, if there is one.
    pub(super) fn place(&self) -> Option<FilePlace> {
        self.take.as_ref().map_or(Some(FilePlace(None)), |take| take())
    }
}

impl fmt::Debug for FileLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FileLimit")
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// So many places, and how many are taken.
    pub(crate) fn places(count: usize) -> (FileLimit, Arc<AtomicUsize>) {
        struct Taken(Arc<AtomicUsize>);
        impl Drop for Taken {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        let taken = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&taken);
        let limit = FileLimit::of(move || {
            if counted.fetch_add(1, Ordering::Relaxed) >= count {
                counted.fetch_sub(1, Ordering::Relaxed);
                return None;
            }
            Some(FilePlace::of(Taken(Arc::clone(&counted))))
        });
        (limit, taken)
    }
}

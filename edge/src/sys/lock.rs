//! A lock that outlives a thread that panicked with it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Locks even when a thread panicked with the lock held: whatever it was part of is failing anyway,
/// and must still say so.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives the lock up until `condition` is signalled, and takes it again.
pub(crate) fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

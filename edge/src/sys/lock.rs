//! A lock that outlives a thread that panicked with it.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks even when a thread panicked with the lock held: whatever it was part of is failing anyway,
/// and must still say so.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

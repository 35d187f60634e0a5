//! What may be changed of a direction while its thread moves packets: its rate, and whether it is
//! shut.

use farline_core::wan::Change;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// What an order changes of a direction while its thread runs.
#[derive(Debug, Default)]
pub(super) struct Valve {
    /// Whether something is to be taken from `changes`.
    changed: AtomicBool,
    changes: Mutex<Vec<Change>>,
    /// Whether what is read goes nowhere.
    shut: AtomicBool,
}

impl Valve {
    /// Whether what is read goes nowhere.
    pub(super) fn is_shut(&self) -> bool {
        self.shut.load(Ordering::Acquire)
    }

    /// What was ordered since this was asked last.
    pub(super) fn take(&self) -> Vec<Change> {
        if !self.changed.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        std::mem::take(&mut *self.changes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Shuts it or opens it, at once.
    pub(super) fn shut(&self, shut: bool) {
        self.shut.store(shut, Ordering::Release);
    }

    /// Has a change made before the next packet.
    pub(super) fn order(&self, change: Change) {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).push(change);
        self.changed.store(true, Ordering::Release);
    }
}

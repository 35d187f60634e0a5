//! What the readers of a transfer learn of its files: their digests, and which could not be read.

use crate::sys::lock::lock;
use farline_core::transfer::{DigestAlgorithm, DigestVerdict, Digests, Layout};
use farline_core::units::Error;
use std::sync::Mutex;

/// What the readers learn of the files as they read them.
#[derive(Debug)]
pub(crate) struct Audit {
    /// The digests, which the receiver is told.
    pub digests: Mutex<Digests>,
    /// Files that could not be read whole, by entry: zeros went in their place, and their digests
    /// are failed.
    pub unreadable: Mutex<Vec<(usize, Error)>>,
}

impl Audit {
    /// Nothing read yet.
    pub(crate) fn new(layout: &Layout, digests: Option<DigestAlgorithm>) -> Audit {
        Audit::resumed(Digests::new(layout, digests))
    }

    /// What `digests` says was read before.
    pub(crate) fn resumed(digests: Digests) -> Audit {
        Audit { digests: Mutex::new(digests), unreadable: Mutex::new(Vec::new()) }
    }

    /// Notes that `entry` could not be read whole, for the first reason of several.
    pub(crate) fn cannot_read(&self, entry: usize, error: Error) {
        lock(&self.digests).fail(entry);
        let mut unreadable = lock(&self.unreadable);
        if unreadable.iter().all(|(other, _)| *other != entry) {
            unreadable.push((entry, error));
        }
    }

    /// What to tell the receiver of each entry, and what could not be read.
    pub(crate) fn finish(&self) -> (Vec<DigestVerdict>, Vec<(usize, Error)>) {
        (lock(&self.digests).verdicts(), lock(&self.unreadable).clone())
    }
}

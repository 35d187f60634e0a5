//! What a session that sends knows of the path to its client, and keeps for the next.

use crate::kernelcc;
use crate::mover::{LoadedControl, PathStart, Tally};
use crate::plan::paths::{HeldBack, StoredPath};
use crate::sys::fs_user::as_service;
use farline_core::congestion::{ControlName, SavedPath};
use farline_core::units::{Bytes, Error};
use std::net::IpAddr;

/// The kernel's CUBIC that begins from what is given, for as long as the other thing lives.
fn load(part: SavedPath) -> Result<(ControlName, LoadedControl), Error> {
    let control = as_service(|| kernelcc::resuming(part))?;
    Ok((control.name, Box::new(control)))
}

/// A session's.
#[derive(Debug)]
pub(super) struct KnownPath {
    stored: Option<StoredPath>,
    /// The last transfer, how many bytes it moved, and whether the path held it back: some of them
    /// may be on their way yet.
    last: Option<(PathStart, u64, HeldBack)>,
}

impl KnownPath {
    /// What is known of the path from `local` to `peer`.
    pub(super) fn claim(local: IpAddr, peer: IpAddr) -> KnownPath {
        KnownPath { stored: as_service(|| StoredPath::claim(local, peer)), last: None }
    }

    /// How the session's first transfer begins: by what the last one to this client
    /// saw; over TCP where this node has kept the right to load controls.
    pub(super) fn first(&self, may_load: bool) -> Option<PathStart> {
        let start = PathStart::new(self.stored.as_ref()?.saved());
        Some(if may_load { start.loading(load) } else { start })
    }

    /// How a later one begins: its channels know the path.
    pub(super) fn later(&self) -> Option<PathStart> {
        self.stored.as_ref().map(|_| PathStart::new(None))
    }

    /// Keeps what a transfer sees of which `tally` has the totals, when the next one or the session
    /// ends.
    pub(super) fn keep(&mut self, start: PathStart, tally: &Tally) {
        self.store();
        self.last = Some((start, tally.bytes(), HeldBack::by(&tally.waits())));
    }

    fn store(&mut self) {
        if let (Some(stored), Some((start, moved, held))) = (&mut self.stored, self.last.take()) {
            // Without it the next one begins as over any path.
            let _ = as_service(|| stored.store(&start.record(), Bytes(moved), held));
        }
    }
}

impl Drop for KnownPath {
    fn drop(&mut self) {
        self.store();
    }
}

//! What a session that sends knows of the path to its client, and keeps for the next.

use crate::channels::Channel;
use crate::kernelcc::{self, CcGuard};
use crate::mover::PathStart;
use crate::plan::paths::StoredPath;
use farline_core::units::Bytes;
use std::net::IpAddr;

/// A session's.
#[derive(Debug)]
pub(super) struct KnownPath {
    stored: Option<StoredPath>,
    /// The control that was loaded for the first transfer.
    resuming: Option<CcGuard>,
}

impl KnownPath {
    /// What is known of the path from `local` to `peer`.
    pub(super) fn claim(local: IpAddr, peer: IpAddr) -> KnownPath {
        KnownPath { stored: StoredPath::claim(local, peer), resuming: None }
    }

    /// How the session's first transfer over `channels` begins: by what the last one to this client
    /// saw.
    pub(super) fn first(&mut self, channels: &[Box<dyn Channel>]) -> Option<PathStart> {
        let saved = self.stored.as_ref()?.saved();
        let control = match saved {
            Some((saved, _)) if PathStart::takes_control(channels) => kernelcc::resuming(saved)
                .map(|guard| self.resuming.insert(guard).name)
                .map_err(|error| error.message),
            _ => Err("its channels are under a control that does not begin so".to_owned()),
        };
        Some(PathStart::new(saved, control))
    }

    /// How a later one begins: its channels know the path.
    pub(super) fn later(&self) -> Option<PathStart> {
        self.stored.as_ref().map(|_| PathStart::new(None, Err(String::new())))
    }

    /// Keeps what a transfer of `moved` bytes saw.
    pub(super) fn keep(&mut self, start: &PathStart, moved: u64) {
        if let Some(stored) = &mut self.stored {
            // Without it the next one begins as over any path.
            let _ = stored.store(&start.record(), Bytes(moved));
        }
    }
}

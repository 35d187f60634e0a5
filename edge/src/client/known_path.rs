//! What a copy that sends knows of its path from the one before, and keeps for the next.

use super::copy::Copy;
use crate::kernelcc::resuming;
use crate::mover::{LoadedControl, PathStart};
use crate::plan::paths::{HeldBack, StoredPath, address_towards};
use farline_core::congestion::{ControlName, SavedPath};
use farline_core::copy::SeenPath;
use farline_core::plan::Reason;
use farline_core::units::{Bytes, Error};
use std::net::IpAddr;

/// The kernel's CUBIC that begins from what is given, for as long as the other thing lives.
fn load(part: SavedPath) -> Result<(ControlName, LoadedControl), Error> {
    let control = resuming(part)?;
    Ok((control.name, Box::new(control)))
}

impl Copy<'_> {
    /// Has the transfer that begins now to `remote` begin from what the last one saw of the path,
    /// or, where nothing of it is stored here, from what the node was `told` to have seen, by its
    /// name; and note what it sees. An attempt after the first begins as over any path. One that
    /// does so `by_channels`, of which it has more than over any path, does nothing else for it.
    pub(super) fn begin_path(
        &mut self,
        remote: IpAddr,
        told: Option<(SeenPath, String)>,
        by_channels: bool,
    ) {
        if self.options.fresh_start || self.state.pace.is_some() || self.state.rate.is_some() {
            return;
        }
        let mut saved = None;
        if self.path.is_none() {
            let local = address_towards(remote);
            self.path = local.and_then(|local| StoredPath::claim(local, remote));
            saved = self.path.as_ref().and_then(StoredPath::saved);
            if let (Some(_), None, Some((seen, server))) = (&self.path, saved, told) {
                // A word of somebody else's: the round trip is confirmed before anything is sent by
                // it, and it is half of it at most, as of what was seen here.
                saved = Some((seen.saved, seen.age));
                let SeenPath { rate, saved: SavedPath { rtt, .. }, age, .. } = seen;
                self.state.changed(Reason::ReportedByNode { server, rate, rtt, age });
            }
        }
        // A pass begins with a fresh transfer, so that nothing was set before.
        let saved = saved.filter(|_| !by_channels);
        let _ = self.state.start.set(PathStart::new(saved).loading(load));
    }

    /// Keeps what the transfer that ends saw.
    pub(super) fn keep_path(&mut self) {
        if let (Some(path), Some(start)) = (&mut self.path, self.state.start.get()) {
            let tally = &self.state.tally;
            let (moved, held) = (Bytes(tally.bytes()), HeldBack::by(&tally.waits()));
            // Without it the next copy begins as over any path.
            let _ = path.store(&start.record(), moved, held);
        }
    }
}

//! What a copy that sends knows of its path from the one before, and keeps for the next.

use super::copy::Copy;
use crate::channels::Channel;
use crate::kernelcc;
use crate::mover::PathStart;
use crate::plan::paths::{StoredPath, address_towards};
use farline_core::units::Bytes;
use std::net::IpAddr;

impl Copy<'_> {
    /// Has the transfer that begins now over `channels` to `remote` begin from what the last one
    /// saw of the path, and note what it sees. An attempt after the first begins as over any path.
    pub(super) fn begin_path(&mut self, remote: IpAddr, channels: &[Box<dyn Channel>]) {
        if self.options.fresh_start || self.live.pace.is_some() {
            return;
        }
        let mut saved = None;
        if self.path.is_none() {
            let local = address_towards(remote);
            self.path = local.and_then(|local| StoredPath::claim(local, remote));
            saved = self.path.as_ref().and_then(StoredPath::saved);
        }
        let control = match saved {
            Some((saved, _)) if PathStart::takes_control(channels) => kernelcc::resuming(saved)
                .map(|guard| self.resuming.insert(guard).name)
                .map_err(|error| error.message),
            _ => Err("its channels are under a control that does not begin so".to_owned()),
        };
        // A pass begins with a fresh transfer, so that nothing was set before.
        let _ = self.live.start.set(PathStart::new(saved, control));
    }

    /// Keeps what the transfer that ends saw.
    pub(super) fn keep_path(&mut self) {
        if let (Some(path), Some(start)) = (&mut self.path, self.live.start.get()) {
            // Without it the next copy begins as over any path.
            let _ = path.store(&start.record(), Bytes(self.live.tally.bytes()));
        }
    }
}

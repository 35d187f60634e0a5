//! What a node tells each client of the path between them, and what it keeps of uploads for that.

use super::data::DataPlane;
use super::known_path::KnownPath;
use crate::mover::{PathStart, Tally};
use crate::plan::paths::{HeldBack, StoredPath, seen};
use crate::sys::fs_user::as_service;
use farline_core::copy::NodePaths;
use farline_core::transfer::PathRecord;
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Span, Time};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// What FEAT says of it (M-6).
pub(super) const FEATURE: &str = "FARLINE PATHS";

/// How often what arrives is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Looks that are kept: of a long transfer every second one, and so on.
const MOST_LOOKS: usize = 4_096;

impl DataPlane {
    /// How a transfer that sends begins, by what is known of the path to the client.
    pub(super) fn begin_path(&mut self) -> Option<PathStart> {
        if self.shared.config.fresh_start || self.pace().is_some() || self.rate.is_some() {
            return None;
        }
        if let Some(path) = &self.path {
            return path.later();
        }
        let config = &self.shared.config;
        let may_load = config.loads_congestion() || config.allow_held.is_some();
        self.path.insert(KnownPath::claim(self.local.ip(), self.peer.ip())).first(may_load)
    }

    /// What this client is told of the path between it and here (M-6): of its own address and of no
    /// other, whatever it says. One that says `limited` holds what it sends to a rate of its own
    /// choice: that is no word on the path.
    ///
    /// # Errors
    /// When it asks for something else.
    pub(super) fn tell_path(&mut self, value: &str) -> Result<String, Error> {
        if !matches!(value, "ask" | "limited") {
            let message = format!("`{value}` is not offered; ask and limited are");
            return Err(Error::new(Fault::You, ErrorCode::Unsupported, message));
        }
        self.is_client_limited = value == "limited";
        let (local, peer) = (self.local.ip(), self.peer.ip());
        let known = !self.shared.config.fresh_start;
        let of = |from, to| known.then(|| as_service(|| seen(from, to))).flatten();
        Ok(NodePaths { out: of(peer, local), back: of(local, peer) }.value())
    }

    /// Does `work`, which receives, and keeps what it shows of the path from the client.
    ///
    /// # Errors
    /// Those of `work`; what is broken off says nothing.
    pub(super) fn watching_arrivals<T, E>(
        &self,
        tally: &Tally,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let is_free = !self.shared.config.fresh_start
            && self.receive_pace().is_none()
            && self.rate.is_none()
            && !self.is_client_limited;
        let stored = (is_free && self.rtt > Span::ZERO)
            .then(|| as_service(|| StoredPath::claim(self.peer.ip(), self.local.ip())))
            .flatten();
        let Some(mut stored) = stored else { return work() };
        let (rtt, (over, still)) = (self.rtt, mpsc::channel::<()>());
        std::thread::scope(|scope| {
            let watching = scope.spawn(move || {
                let (mut looks, began) = (Vec::new(), Instant::now());
                loop {
                    let over = still.recv_timeout(LOOK_EVERY);
                    let bytes = Bytes(tally.bytes());
                    // Of a time in which nothing came the first look is enough.
                    if looks.last().is_none_or(|&(_, before)| before != bytes) {
                        looks.push((Time::ZERO + Span::from(began.elapsed()), bytes));
                    }
                    if looks.len() > MOST_LOOKS {
                        // The second half alone is asked for.
                        looks = looks.into_iter().skip(1).step_by(2).collect();
                    }
                    if over != Err(mpsc::RecvTimeoutError::Timeout) {
                        return PathRecord::of_arrivals(&looks, rtt);
                    }
                }
            });
            let done = work();
            drop(over);
            if let (Ok(record), Ok(_)) = (watching.join(), &done) {
                // Who receives does not know what held the sender back: less than was seen within a
                // day says nothing of the path. Without the record the next client is told nothing.
                let _ =
                    as_service(|| stored.store(&record, Bytes(tally.bytes()), HeldBack::default()));
            }
            done
        })
    }
}

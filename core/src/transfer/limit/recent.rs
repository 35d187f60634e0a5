//! Where the time of the last seconds went, for who watches a transfer while it runs.

use super::{PathTimes, Waits};
use crate::units::Span;
use std::collections::VecDeque;

/// Long enough to look calm, short enough to show a change.
const WINDOW: Span = Span::from_secs(5);
/// Less tells nothing.
const LEAST: Span = Span::from_millis(800);

/// Keeps what the accounts were over the last seconds.
#[derive(Clone, Debug, Default)]
pub struct RecentWaits(VecDeque<Waits>);

impl RecentWaits {
    /// What was added to the accounts lately, which are `now` by now; `None` while that is too
    /// little to tell by.
    pub fn since(&mut self, now: Waits) -> Option<Waits> {
        if self.0.back().is_some_and(|last| last.network > now.network || last.store > now.store) {
            // Another transfer began.
            self.0.clear();
        }
        self.0.push_back(now);
        let now = self.0.back()?;
        let aged = |waits: &Waits| now.moving.saturating_sub(waits.moving) >= WINDOW;
        let old = self.0.iter().skip(1).take_while(|waits| aged(waits)).count();
        let lately = {
            let first = self.0.get(old)?;
            let moving = now.moving.saturating_sub(first.moving);
            (moving >= LEAST).then(|| Waits {
                moving,
                store: now.store.saturating_sub(first.store),
                pace: now.pace.saturating_sub(first.pace),
                waited: now.waited.saturating_sub(first.waited),
                network: now.network.saturating_sub(first.network),
                path: minus(&now.path, &first.path),
                ..now.clone()
            })
        };
        self.0.drain(..old);
        lately
    }
}

fn minus(now: &PathTimes, first: &PathTimes) -> PathTimes {
    PathTimes {
        growing: now.growing.saturating_sub(first.growing),
        window: now.window.saturating_sub(first.window),
        buffer: now.buffer.saturating_sub(first.buffer),
        lossy: now.lossy.saturating_sub(first.lossy),
        full: now.full.saturating_sub(first.full),
        silent: now.silent.saturating_sub(first.silent),
        ..*now
    }
}

#[cfg(test)]
mod tests {
    use super::super::Limit;
    use super::*;

    #[test]
    fn what_limits_now_is_not_what_limited_before() {
        let mut recent = RecentWaits::default();
        let (mut waits, mut seen) = (Waits { channels: 1, ..Waits::default() }, Vec::new());
        for step in 0..200_u64 {
            let took = Span::from_millis(100);
            waits.moving = waits.moving + took;
            // Ten seconds of a slow source, then of a full path.
            if step < 100 {
                waits.store = waits.store + took;
            } else {
                waits.network = waits.network + took;
                waits.path.full = waits.path.full + took;
                waits.has_path = true;
            }
            seen.push(recent.since(waits.clone()).map(|lately| lately.sender_limit().limit));
        }
        assert_eq!((seen[2], seen[20], seen[99]), (None, Some(Limit::DiskRead), seen[20]));
        assert_eq!((seen[110], seen[140]), (Some(Limit::DiskRead), Some(Limit::PathRate)));
        let anew = Waits { moving: waits.moving, channels: 1, ..Waits::default() };
        assert!(recent.since(anew).is_none(), "another transfer");
    }
}

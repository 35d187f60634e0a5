//! What a host's devices dropped of the packets that came to them.

use serde::{Deserialize, Serialize};

/// Packets that came to the devices on the way to a socket and that the host dropped before it,
/// whosever they were (`struct rtnl_link_stats64`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiveDrops {
    /// For lack of room in the device or its ring: `rx_missed`, `rx_fifo` and `rx_over`.
    pub missed: u64,
    /// For other reasons, and for lack of room in the kernel's backlog: `rx_dropped`.
    pub dropped: u64,
    /// For lack of room in a backlog of this machine, whichever device's (`softnet_stat`); counted
    /// where one on the way in belongs to another namespace, and 0 elsewhere.
    pub backlog: u64,
}

impl ReceiveDrops {
    /// Of all kinds.
    pub fn all(&self) -> u64 {
        self.missed.saturating_add(self.dropped).saturating_add(self.backlog)
    }

    /// Both together.
    pub fn and(&self, more: &ReceiveDrops) -> ReceiveDrops {
        ReceiveDrops {
            missed: self.missed.saturating_add(more.missed),
            dropped: self.dropped.saturating_add(more.dropped),
            backlog: self.backlog.saturating_add(more.backlog),
        }
    }

    /// What came since `before`; nothing of a count that began anew.
    pub fn since(&self, before: &ReceiveDrops) -> ReceiveDrops {
        ReceiveDrops {
            missed: self.missed.saturating_sub(before.missed),
            dropped: self.dropped.saturating_sub(before.dropped),
            backlog: self.backlog.saturating_sub(before.backlog),
        }
    }

    /// What both know, or one of them.
    pub fn either(one: Option<Self>, other: Option<Self>) -> Option<ReceiveDrops> {
        match (one, other) {
            (Some(one), Some(other)) => Some(one.and(&other)),
            (one, other) => one.or(other),
        }
    }

    /// In words, by kind; `None` where there are none.
    pub(super) fn words(&self) -> Option<String> {
        let kinds = [
            (self.missed, "by the device for lack of room (rx_missed, rx_fifo, rx_over)"),
            (self.dropped, "by the device or behind it (rx_dropped)"),
            (self.backlog, "by this machine's receive backlog, of whatever device"),
        ];
        let some: Vec<String> = kinds
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, place)| format!("{count} {place}"))
            .collect();
        (!some.is_empty()).then(|| some.join(", "))
    }
}

/// So many looks one after the other at which more frames of foreign VLANs had come than were
/// dropped: one or two may be on their way from the one count to the other, but some are taken.
const MOST_AHEAD: u32 = 5;

/// A device's drops, less the frames of VLANs that this host has no device for: those of a protocol
/// that nobody takes are in `rx_dropped`, and none of them was anybody's here.
#[derive(Clone, Copy, Debug, Default)]
pub struct VlanDrops {
    /// All others so far.
    own: u64,
    ahead: u32,
    is_taken: bool,
}

impl VlanDrops {
    /// How many of `dropped` in all were none of `foreign` such frames, which are counted before
    /// they are dropped and are read after it. Where somebody takes such frames nobody knows which
    /// of them are dropped: then all drops are others.
    pub fn own(&mut self, dropped: u64, foreign: u64) -> u64 {
        match dropped.checked_sub(foreign) {
            _ if self.is_taken => self.own = dropped,
            Some(own) if own >= self.own => (self.own, self.ahead) = (own, 0),
            _ => {
                self.ahead += 1;
                self.is_taken = self.ahead >= MOST_AHEAD;
            }
        }
        self.own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_foreign_vlans_are_no_drops_unless_some_are_taken() {
        let mut drops = VlanDrops::default();
        let looks = [(0, 0, 0), (5, 5, 0), (5, 6, 0), (7, 6, 1), (7, 7, 1), (8, 7, 1), (9, 7, 2)];
        for (dropped, foreign, own) in looks {
            assert_eq!(drops.own(dropped, foreign), own, "{dropped} {foreign}");
        }
        // From now on a hundred are taken: a drop is hidden for a moment, and no longer.
        for _ in 0..MOST_AHEAD {
            assert_eq!(drops.own(10, 108), 2);
        }
        assert_eq!((drops.own(10, 108), drops.own(12, 300)), (10, 12));
    }

    #[test]
    fn a_count_that_began_anew_says_nothing() {
        let before = ReceiveDrops { missed: 5, dropped: 7, backlog: 0 };
        let now = ReceiveDrops { missed: 9, dropped: 2, backlog: 1 };
        let since = now.since(&before);
        assert_eq!(since, ReceiveDrops { missed: 4, dropped: 0, backlog: 1 });
        assert_eq!((since.all(), since.and(&since).all()), (5, 10));
        assert_eq!(ReceiveDrops::either(None, Some(since)), Some(since));
        assert_eq!(ReceiveDrops::default().words(), None);
    }
}

//! How many slots each channel may have on its way: for ordered bytes one, since the kernel keeps
//! their window; for registered slots as many as are agreed to begin with, and more when
//! [`BufferAutotuner`](super::BufferAutotuner) says so.

use super::ChannelId;
use std::collections::BTreeMap;

/// The windows of a transfer's open channels, in slots.
#[derive(Debug, Default)]
pub(super) struct Windows(BTreeMap<ChannelId, Window>);

#[derive(Clone, Copy, Debug)]
struct Window {
    slots: usize,
    /// What peer and device agreed on.
    most: usize,
}

impl Windows {
    /// A channel opened that may have `slots` on their way, and `most` in the end.
    pub(super) fn open(&mut self, channel: ChannelId, slots: usize, most: usize) {
        let slots = slots.max(1);
        self.0.insert(channel, Window { slots, most: most.max(slots) });
    }

    /// A channel is gone.
    pub(super) fn close(&mut self, channel: ChannelId) {
        self.0.remove(&channel);
    }

    /// Slots that a channel may have on their way.
    pub(super) fn of(&self, channel: ChannelId) -> usize {
        self.0.get(&channel).map_or(0, |window| window.slots)
    }

    /// Slots of all channels whose windows are ours to size.
    pub(super) fn total(&self) -> usize {
        self.deep().map(|window| window.slots).sum()
    }

    /// What that may come to.
    pub(super) fn most(&self) -> usize {
        self.deep().map(|window| window.most).sum()
    }

    /// Gives `count` more slots to the channels, to the narrowest first; returns to which, each as
    /// often as it was given one.
    pub(super) fn widen(&mut self, count: usize) -> Vec<ChannelId> {
        let mut given = Vec::with_capacity(count);
        while given.len() < count {
            let open = self.0.iter_mut().filter(|(_, window)| window.slots < window.most);
            let Some((&channel, window)) = open.min_by_key(|(_, window)| window.slots) else {
                break;
            };
            window.slots += 1;
            given.push(channel);
        }
        given
    }

    fn deep(&self) -> impl Iterator<Item = &Window> {
        self.0.values().filter(|window| window.most > 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_slots_are_shared_within_what_was_agreed() {
        let mut windows = Windows::default();
        windows.open(ChannelId(0), 4, 8);
        windows.open(ChannelId(1), 2, 256);
        windows.open(ChannelId(2), 1, 1);
        assert_eq!(
            (windows.total(), windows.most()),
            (6, 264),
            "a channel of ordered bytes has no window of ours"
        );
        assert_eq!(windows.widen(2), [ChannelId(1); 2]);
        assert_eq!(windows.widen(10).len(), 10);
        assert_eq!([0, 1, 2].map(|channel| windows.of(ChannelId(channel))), [8, 10, 1]);
        windows.close(ChannelId(1));
        assert_eq!((windows.total(), windows.most()), (8, 8));
        assert_eq!(windows.widen(3), []);
    }
}

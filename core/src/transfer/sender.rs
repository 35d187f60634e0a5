//! The sending end of a transfer: which block is read into which slot, and which channel carries
//! it.

use super::layout::Block;
use super::staging::{Staging, Watermarks};
use super::window::Windows;
use super::{ChannelId, SlotId};
use std::collections::{BTreeMap, VecDeque};

/// What happened at the sending end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderInput {
    /// A channel is connected. Every channel opens before the last block is sent; the receiver
    /// learns their number at the end.
    ChannelOpened {
        /// The channel.
        channel: ChannelId,
        /// How many blocks it carries at once to begin with: 1 for ordered bytes.
        depth: usize,
        /// How many it may come to carry: see [`Sender::widen`].
        most: usize,
    },
    /// A slot holds the block that was asked for.
    BlockRead(SlotId),
    /// A channel took the block; its slot is free again.
    BlockSent {
        /// The channel, ready for more.
        channel: ChannelId,
        /// The slot that it carried.
        slot: SlotId,
    },
    /// A channel sent its end-of-data mark.
    EndSent(ChannelId),
    /// A channel broke; what it carried comes back, one input for each slot. The others go on: the
    /// receiver says what it lacks, and a later pass brings it (`docs/protocol.md`, clauses I-6 and
    /// I-7).
    Lost {
        /// The channel.
        channel: ChannelId,
        /// The slot that it carried, if it carried one.
        slot: Option<SlotId>,
    },
}

/// What the sending end should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderOutput {
    /// Read a block into a slot.
    Read {
        /// The slot, which nobody else holds.
        slot: SlotId,
        /// What to read.
        block: Block,
    },
    /// Send a block.
    Send {
        /// The channel.
        channel: ChannelId,
        /// The slot that holds it.
        slot: SlotId,
        /// What it is.
        block: Block,
    },
    /// End the transfer on a channel: `EOD`, with `EOF` and the number of channels on exactly one
    /// of them.
    End {
        /// The channel.
        channel: ChannelId,
        /// On the one channel that says it: how many channels there were.
        channels: Option<u64>,
    },
    /// Every channel has ended or was lost: all bytes are with the network, but for those that lost
    /// channels carried.
    Finished,
}

#[derive(Clone, Copy, Debug)]
struct ChannelState {
    phase: Phase,
    /// Blocks that it carries.
    busy: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    Ending,
    Ended,
    Lost,
}

/// The sending end: reads ahead between two marks, gives each idle channel the next block, ends
/// every channel.
#[derive(Debug)]
pub struct Sender<Blocks> {
    blocks: Blocks,
    exhausted: bool,
    staging: Staging,
    free: Vec<SlotId>,
    slots: usize,
    reading: BTreeMap<SlotId, Block>,
    ready: VecDeque<(SlotId, Block)>,
    channels: BTreeMap<ChannelId, ChannelState>,
    windows: Windows,
    /// Channels that can carry one more block, longest waiting first.
    idle: VecDeque<ChannelId>,
    expected_channels: usize,
    ends_begun: usize,
    finished: bool,
}

impl<Blocks: Iterator<Item = Block>> Sender<Blocks> {
    /// Sends `blocks` in order through `slots` buffers over `channels` channels.
    pub fn new(
        blocks: Blocks,
        slots: usize,
        watermarks: Watermarks,
        channels: usize,
    ) -> Sender<Blocks> {
        Sender {
            blocks,
            exhausted: false,
            staging: Staging::new(watermarks),
            free: (0..slots).rev().map(SlotId).collect(),
            slots,
            reading: BTreeMap::new(),
            ready: VecDeque::new(),
            channels: BTreeMap::new(),
            windows: Windows::default(),
            idle: VecDeque::new(),
            expected_channels: channels,
            ends_begun: 0,
            finished: false,
        }
    }

    /// Adds `count` slots, numbered after those that there are; reading goes on up to `watermarks`.
    pub fn grow(&mut self, count: usize, watermarks: Watermarks) {
        // Those that were used before are in the caches, so they go first.
        self.free.splice(0..0, (self.slots..self.slots + count).rev().map(SlotId));
        self.slots += count;
        self.staging.move_watermarks(watermarks);
    }

    /// Lets the channels carry `count` more blocks at once, as far as they can.
    pub fn widen(&mut self, count: usize) {
        for channel in self.windows.widen(count) {
            let is_open =
                self.channels.get(&channel).is_some_and(|state| state.phase == Phase::Open);
            // It is idle where it was not full.
            if is_open && !self.idle.contains(&channel) {
                self.idle.push_back(channel);
            }
        }
    }

    /// Blocks that channels of registered slots may carry at once, and what that may come to.
    pub fn window(&self) -> (usize, usize) {
        (self.windows.total(), self.windows.most())
    }

    /// How often reading has rested because the pool was full.
    pub fn rests(&self) -> u64 {
        self.staging.rests()
    }

    /// Promises one more channel, which must then open or be [given up](Self::give_up): until then
    /// no channel is ended, as the end says how many there were. False when it is too late for
    /// more.
    pub fn promise(&mut self) -> bool {
        let in_time = self.ends_begun == 0 && !self.exhausted && !self.finished;
        self.expected_channels += usize::from(in_time);
        in_time
    }

    /// A promised channel that will not open.
    pub fn give_up(&mut self) {
        self.expected_channels = self.expected_channels.saturating_sub(1);
    }

    /// Takes in what happened. Inputs that fit no state are a caller's defect and change nothing.
    pub fn handle(&mut self, input: SenderInput) {
        match input {
            SenderInput::ChannelOpened { channel, depth, most } => {
                let state = ChannelState { phase: Phase::Open, busy: 0 };
                self.windows.open(channel, depth, most);
                if self.channels.insert(channel, state).is_none() {
                    self.idle.push_back(channel);
                }
            }
            SenderInput::BlockRead(slot) => {
                if let Some(block) = self.reading.remove(&slot) {
                    self.ready.push_back((slot, block));
                }
            }
            SenderInput::BlockSent { channel, slot } => {
                let carrier = self
                    .channels
                    .get_mut(&channel)
                    .filter(|state| state.phase == Phase::Open && state.busy > 0);
                if let Some(state) = carrier {
                    if state.busy == self.windows.of(channel) {
                        self.idle.push_back(channel);
                    }
                    state.busy -= 1;
                    self.free.push(slot);
                    self.staging.drain();
                }
            }
            SenderInput::EndSent(channel) => {
                if let Some(state) =
                    self.channels.get_mut(&channel).filter(|state| state.phase == Phase::Ending)
                {
                    state.phase = Phase::Ended;
                }
            }
            SenderInput::Lost { channel, slot } => {
                self.idle.retain(|&idle| idle != channel);
                self.windows.close(channel);
                self.channels.insert(channel, ChannelState { phase: Phase::Lost, busy: 0 });
                if let Some(slot) = slot {
                    self.free.push(slot);
                    self.staging.drain();
                }
            }
        }
    }

    /// What to do next; `None` until something happens.
    pub fn poll(&mut self) -> Option<SenderOutput> {
        // Sending again: a reader that finds nothing more to read has no turn to finish.
        self.poll_send()
            .or_else(|| self.poll_read())
            .or_else(|| self.poll_send())
            .or_else(|| self.poll_end())
    }

    fn poll_send(&mut self) -> Option<SenderOutput> {
        let resting = !self.exhausted && !self.staging.may_drain();
        if self.ready.is_empty() || resting {
            return None;
        }
        // The least busy one, so that few blocks are not all behind each other on a deep channel.
        let busy = |channel: &ChannelId| self.channels.get(channel).map_or(0, |state| state.busy);
        let at = (0..self.idle.len()).min_by_key(|&at| busy(&self.idle[at]))?;
        let channel = self.idle.remove(at)?;
        let (slot, block) = self.ready.pop_front()?;
        if let Some(state) = self.channels.get_mut(&channel) {
            state.busy += 1;
            if state.busy < self.windows.of(channel) {
                self.idle.push_back(channel);
            }
        }
        Some(SenderOutput::Send { channel, slot, block })
    }

    fn poll_read(&mut self) -> Option<SenderOutput> {
        if self.exhausted || !self.staging.wants_fill() || self.free.is_empty() {
            return None;
        }
        let Some(block) = self.blocks.next() else {
            self.exhausted = true;
            return None;
        };
        let slot = self.free.pop()?;
        self.staging.fill();
        self.reading.insert(slot, block);
        Some(SenderOutput::Read { slot, block })
    }

    fn poll_end(&mut self) -> Option<SenderOutput> {
        let all_open = self.channels.len() == self.expected_channels;
        if all_open
            && self.channels.values().all(|state| matches!(state.phase, Phase::Lost | Phase::Ended))
        {
            // Also with blocks left: nobody is there to carry them.
            return (!std::mem::replace(&mut self.finished, true))
                .then_some(SenderOutput::Finished);
        }
        if !(self.exhausted && self.reading.is_empty() && self.ready.is_empty() && all_open) {
            return None;
        }
        let at = self
            .idle
            .iter()
            .position(|channel| self.channels.get(channel).is_some_and(|state| state.busy == 0))?;
        let channel = self.idle.remove(at)?;
        self.windows.close(channel);
        self.channels.get_mut(&channel)?.phase = Phase::Ending;
        self.ends_begun += 1;
        let channels = (self.ends_begun == 1).then_some(self.expected_channels as u64);
        Some(SenderOutput::End { channel, channels })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::Layout;
    use crate::units::{ByteRanges, Rng};

    #[test]
    fn a_promised_channel_counts_unless_it_is_given_up() {
        for opens in [true, false] {
            let layout = Layout::of_file(3 * 1024, 1024);
            let mut sender =
                Sender::new((0..3).map(|i| layout.block(i)), 3, Watermarks::of_pool(3), 1);
            assert!(sender.promise(), "nothing was read yet");
            sender.handle(SenderInput::ChannelOpened { channel: ChannelId(0), depth: 1, most: 1 });
            let mut ended = Vec::new();
            let mut run = |sender: &mut Sender<_>| {
                while let Some(output) = sender.poll() {
                    match output {
                        SenderOutput::Read { slot, .. } => {
                            sender.handle(SenderInput::BlockRead(slot))
                        }
                        SenderOutput::Send { channel, slot, .. } => {
                            sender.handle(SenderInput::BlockSent { channel, slot })
                        }
                        SenderOutput::End { channel, channels } => {
                            ended.push(channels);
                            sender.handle(SenderInput::EndSent(channel));
                        }
                        SenderOutput::Finished => {}
                    }
                }
                ended.len()
            };
            assert_eq!(
                run(&mut sender),
                0,
                "all is sent, and no end can say how many channels there were"
            );
            assert!(!sender.promise(), "too late for another");
            if opens {
                sender.handle(SenderInput::ChannelOpened {
                    channel: ChannelId(1),
                    depth: 1,
                    most: 1,
                })
            } else {
                sender.give_up()
            }
            assert_eq!(run(&mut sender), if opens { 2 } else { 1 });
            assert_eq!(ended[0], Some(if opens { 2 } else { 1 }));
        }
    }

    #[test]
    fn in_turns_the_pool_fills_whole_and_then_empties_whole() {
        let layout = Layout::of_file(7 * 1024, 1024);
        let mut sender =
            Sender::new((0..7).map(|i| layout.block(i)), 3, Watermarks::in_turns(3), 1);
        sender.handle(SenderInput::ChannelOpened { channel: ChannelId(0), depth: 1, most: 1 });
        let mut order = String::new();
        while let Some(output) = sender.poll() {
            match output {
                SenderOutput::Read { slot, .. } => {
                    order.push('r');
                    sender.handle(SenderInput::BlockRead(slot));
                }
                SenderOutput::Send { channel, slot, .. } => {
                    order.push('s');
                    sender.handle(SenderInput::BlockSent { channel, slot });
                }
                SenderOutput::End { channel, .. } => sender.handle(SenderInput::EndSent(channel)),
                SenderOutput::Finished => order.push('.'),
            }
        }
        assert_eq!(order, "rrrsssrrrsssrs.");
    }

    #[test]
    fn every_block_is_sent_once_and_every_channel_ends() {
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let (channels, slots) = (1 + rng.below(5) as usize, 1 + rng.below(6) as usize);
            let layout = Layout::of_file(rng.below(40_000), 1024);
            let blocks = (0..layout.block_count()).map(|i| layout.block(i));
            let mut sender = Sender::new(blocks, slots, Watermarks::of_pool(slots), channels);
            let mut due: Vec<SenderInput> = (0..channels)
                .map(|i| SenderInput::ChannelOpened { channel: ChannelId(i), depth: 1, most: 1 })
                .collect();
            let mut sent = ByteRanges::new();
            let (mut announced, mut ends, mut held, mut finished) = (None, 0, 0usize, false);
            loop {
                while let Some(output) = sender.poll() {
                    assert!(!finished, "seed {seed}: nothing follows the finish");
                    match output {
                        SenderOutput::Read { slot, .. } => {
                            held += 1;
                            assert!(held <= slots, "seed {seed}: more slots held than there are");
                            due.push(SenderInput::BlockRead(slot));
                        }
                        SenderOutput::Send { channel, slot, block } => {
                            assert_eq!(
                                sent.insert(block.range()),
                                block.len as u64,
                                "seed {seed}: a block went twice"
                            );
                            due.push(SenderInput::BlockSent { channel, slot });
                        }
                        SenderOutput::End { channel, channels } => {
                            ends += 1;
                            announced = announced.or(channels);
                            due.push(SenderInput::EndSent(channel));
                        }
                        SenderOutput::Finished => finished = true,
                    }
                }
                if due.is_empty() {
                    break;
                }
                let input = due.swap_remove(rng.below(due.len() as u64) as usize);
                held -= usize::from(matches!(input, SenderInput::BlockSent { .. }));
                sender.handle(input);
            }
            assert!(finished, "seed {seed}: stuck");
            assert_eq!(
                (sent.total(), ends, announced),
                (layout.payload(), channels, Some(channels as u64)),
                "seed {seed}"
            );
        }
    }
}

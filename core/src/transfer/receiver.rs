//! The receiving end of a transfer: which slot each channel fills, when it is written, and when everything has come.

use super::layout::Block;
use super::staging::Marks;
use super::{ChannelId, SlotId};
use crate::units::{ByteRanges, Error, Fault};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What happened at the receiving end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiverInput {
    /// A channel was accepted and wants a slot.
    ChannelOpened(ChannelId),
    /// A channel put a block, or part of one, into the slot it had, and wants another.
    Arrived {
        /// The channel.
        channel: ChannelId,
        /// The slot that it filled.
        slot: SlotId,
        /// What is in it.
        block: Block,
    },
    /// A channel reached its end-of-data mark and gave its unused slot back.
    Ended {
        /// The channel.
        channel: ChannelId,
        /// The slot that it did not fill.
        slot: SlotId,
        /// The number of channels of the transfer, on the one channel that said `EOF`.
        channels: Option<u64>,
    },
    /// A slot's content is in the store; the slot is free.
    Written(SlotId),
    /// A channel brought a block that is not what was sent, gave its slot back, and wants another.
    Bad {
        /// The channel.
        channel: ChannelId,
        /// The slot, whose content is worthless.
        slot: SlotId,
    },
    /// A channel broke before its end-of-data mark; the slot that it held, if it held one, comes back.
    Lost {
        /// The channel.
        channel: ChannelId,
        /// The slot that it did not fill.
        slot: Option<SlotId>,
    },
    /// For some while no channel was opened.
    Quiet,
}

/// What the receiving end should do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceiverOutput {
    /// Let a channel fill a slot.
    Offer {
        /// The channel.
        channel: ChannelId,
        /// The slot, which nobody else holds.
        slot: SlotId,
    },
    /// Write a slot's content to the store.
    Write {
        /// The slot.
        slot: SlotId,
        /// What is in it.
        block: Block,
    },
    /// Every channel ended and every byte is written.
    Finished,
    /// The transfer cannot be completed.
    Failed(Error),
}

/// The receiving end: offers slots to channels, hands full ones to the writer, and knows when all has come.
#[derive(Debug)]
pub struct Receiver {
    free: Vec<SlotId>,
    waiting: VecDeque<ChannelId>,
    to_write: VecDeque<(SlotId, Block)>,
    writing: BTreeMap<SlotId, Block>,
    marks: Marks,
    /// Whether the writer is at work, between the marks.
    draining: bool,
    open: BTreeSet<ChannelId>,
    ended: BTreeSet<ChannelId>,
    lost: BTreeSet<ChannelId>,
    /// Whether a lost channel leaves the transfer to the others.
    tolerant: bool,
    /// Whether no channel came since the last was lost.
    quiet: bool,
    expected_channels: Option<u64>,
    arrived: ByteRanges,
    written: ByteRanges,
    failure: Option<Error>,
    over: bool,
}

impl Receiver {
    /// Receives through `slots` buffers, which are written in runs between `marks`. Each open channel holds one slot, so there
    /// should be more slots than channels.
    pub fn new(slots: usize, marks: Marks) -> Receiver {
        Receiver {
            marks,
            draining: false,
            free: (0..slots).rev().map(SlotId).collect(),
            waiting: VecDeque::new(),
            to_write: VecDeque::new(),
            writing: BTreeMap::new(),
            open: BTreeSet::new(),
            ended: BTreeSet::new(),
            lost: BTreeSet::new(),
            tolerant: false,
            quiet: false,
            expected_channels: None,
            arrived: ByteRanges::new(),
            written: ByteRanges::new(),
            failure: None,
            over: false,
        }
    }

    /// The same receiver, which holds `held` already: what comes of it is dropped.
    #[must_use]
    pub fn holding(mut self, held: ByteRanges) -> Receiver {
        self.written = held.clone();
        self.arrived = held;
        self
    }

    /// The same receiver, which outlives lost channels (`docs/protocol.md`, clause I-6): it finishes without what they carried.
    #[must_use]
    pub fn tolerant(mut self) -> Receiver {
        self.tolerant = true;
        self
    }

    /// What has been written, for markers and progress.
    pub fn written(&self) -> &ByteRanges {
        &self.written
    }

    /// Takes in what happened.
    pub fn handle(&mut self, input: ReceiverInput) {
        match input {
            ReceiverInput::ChannelOpened(channel) => {
                self.quiet = false;
                self.open.insert(channel);
                self.waiting.push_back(channel);
            }
            ReceiverInput::Arrived { channel, slot, block } => {
                self.waiting.push_back(channel);
                if block.offset.checked_add(block.len as u64).is_none() {
                    self.free.push(slot);
                    self.fail("block-out-of-range", "the sender named bytes beyond the end of any file");
                } else if self.arrived.insert(block.range()) == 0 {
                    // A sender may repeat what it is unsure of; the first copy stands.
                    self.free.push(slot);
                } else {
                    self.to_write.push_back((slot, block));
                }
            }
            ReceiverInput::Ended { channel, slot, channels } => {
                self.free.push(slot);
                self.open.remove(&channel);
                if !self.ended.insert(channel) {
                    self.fail("end-of-data-twice", "a channel ended twice in one transfer");
                }
                if let Some(count) = channels {
                    if self.expected_channels.is_some_and(|before| before != count) {
                        self.fail("end-of-file-twice", "two channels disagree on how many channels there are");
                    }
                    self.expected_channels = Some(count);
                }
                if self.expected_channels.is_some_and(|count| count < self.ended.len() as u64) {
                    self.fail("too-many-channels", "more channels ended than the sender said it opened");
                }
            }
            ReceiverInput::Written(slot) => {
                if let Some(block) = self.writing.remove(&slot) {
                    self.written.insert(block.range());
                    self.free.push(slot);
                }
            }
            ReceiverInput::Bad { channel, slot } => {
                self.free.push(slot);
                self.waiting.push_back(channel);
            }
            ReceiverInput::Lost { channel, slot } => {
                self.waiting.retain(|&waiting| waiting != channel);
                self.free.extend(slot);
                self.open.remove(&channel);
                if !self.ended.contains(&channel) {
                    self.quiet = false;
                    self.lost.insert(channel);
                    if !self.tolerant {
                        self.failure.get_or_insert_with(|| {
                            Error::new(Fault::Between, "channel-lost", "a data channel closed before its end-of-data mark")
                                .hint("the peer stopped or the path broke; run the same command again")
                        });
                    }
                }
            }
            ReceiverInput::Quiet => self.quiet = !self.lost.is_empty() && self.open.is_empty(),
        }
    }

    /// What to do next; `None` until something happens.
    pub fn poll(&mut self) -> Option<ReceiverOutput> {
        if self.over {
            return None;
        }
        if let Some(error) = self.failure.take() {
            self.over = true;
            return Some(ReceiverOutput::Failed(error));
        }
        if let Some(write) = self.poll_write() {
            return Some(write);
        }
        if !self.free.is_empty()
            && let Some(channel) = self.waiting.pop_front()
        {
            let slot = self.free.pop()?;
            return Some(ReceiverOutput::Offer { channel, slot });
        }
        if self.all_ended() && self.writing.is_empty() {
            self.over = true;
            return Some(ReceiverOutput::Finished);
        }
        None
    }

    fn poll_write(&mut self) -> Option<ReceiverOutput> {
        let filled = self.to_write.len();
        // Without a free slot no channel could bring what is missing to the mark; after the end none will.
        let must = self.free.is_empty() || self.all_ended();
        self.draining = must || filled >= self.marks.high || (self.draining && filled >= self.marks.low);
        let (slot, block) = if self.draining { self.to_write.pop_front()? } else { return None };
        self.writing.insert(slot, block);
        Some(ReceiverOutput::Write { slot, block })
    }

    fn all_ended(&self) -> bool {
        // Where the channel that had the EOF was lost, the number of channels is never learned.
        let gone = (self.ended.len() + self.lost.len()) as u64;
        self.expected_channels == Some(gone) || (self.quiet && self.open.is_empty())
    }

    fn fail(&mut self, code: &'static str, message: &str) {
        self.failure.get_or_insert_with(|| Error::new(Fault::There, code, message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::Layout;
    use crate::units::Rng;

    /// A sender's end as the receiver sees it: each channel has blocks, then an end.
    fn run(seed: u64, lose: Option<usize>) -> (Option<ReceiverOutput>, u64, u64) {
        let mut rng = Rng::new(seed);
        let channels = 1 + rng.below(5) as usize;
        let slots = channels + 1 + rng.below(4) as usize;
        let layout = Layout::of_file(rng.below(60_000), 1024);
        let mut lanes: Vec<VecDeque<Block>> = vec![VecDeque::new(); channels];
        for index in 0..layout.block_count() {
            lanes[rng.below(channels as u64) as usize].push_back(layout.block(index));
        }
        let mut receiver = Receiver::new(slots, Marks::of_writer(slots * (1 + rng.below(8) as usize)));
        let mut due: Vec<ReceiverInput> = (0..channels).map(|i| ReceiverInput::ChannelOpened(ChannelId(i))).collect();
        let mut held = BTreeSet::new();
        loop {
            while let Some(output) = receiver.poll() {
                match output {
                    ReceiverOutput::Offer { channel, slot } => {
                        assert!(held.insert(slot), "seed {seed}: a slot was given twice");
                        due.push(match lanes[channel.0].pop_front() {
                            _ if lose == Some(channel.0) && lanes[channel.0].len() < 2 => {
                                ReceiverInput::Lost { channel, slot: Some(slot) }
                            }
                            Some(block) => ReceiverInput::Arrived { channel, slot, block },
                            None => {
                                let channels = (channel.0 == 0).then_some(channels as u64);
                                ReceiverInput::Ended { channel, slot, channels }
                            }
                        });
                    }
                    ReceiverOutput::Write { slot, .. } => due.push(ReceiverInput::Written(slot)),
                    end => return (Some(end), receiver.written().total(), layout.payload()),
                }
            }
            if due.is_empty() {
                return (None, receiver.written().total(), layout.payload());
            }
            let input = due.swap_remove(rng.below(due.len() as u64) as usize);
            if let ReceiverInput::Written(slot) | ReceiverInput::Ended { slot, .. } = &input {
                held.remove(slot);
            }
            receiver.handle(input);
        }
    }

    #[test]
    fn finishes_when_every_channel_ended_and_every_byte_is_written() {
        for seed in 0..300 {
            let (end, written, payload) = run(seed, None);
            assert_eq!(end, Some(ReceiverOutput::Finished), "seed {seed}");
            assert_eq!(written, payload, "seed {seed}");
        }
    }

    #[test]
    fn writes_in_runs_between_the_marks() {
        let mut receiver = Receiver::new(8, Marks { low: 1, high: 3, turns: false });
        receiver.handle(ReceiverInput::ChannelOpened(ChannelId(0)));
        let mut runs = Vec::new();
        for index in 0..6 {
            let Some(ReceiverOutput::Offer { channel, slot }) = receiver.poll() else { panic!("a slot is free") };
            let block = Block { offset: index * 1024, len: 1024 };
            receiver.handle(ReceiverInput::Arrived { channel, slot, block });
            let mut run = 0;
            while receiver.to_write.len() + receiver.writing.len() > 0 && run < 9 {
                let before = receiver.writing.len();
                let Some(write) = receiver.poll_write() else { break };
                assert!(matches!(write, ReceiverOutput::Write { .. }) && receiver.writing.len() == before + 1);
                run += 1;
            }
            runs.push(run);
            for slot in receiver.writing.keys().copied().collect::<Vec<_>>() {
                receiver.handle(ReceiverInput::Written(slot));
            }
        }
        assert_eq!(runs, [0, 0, 3, 0, 0, 3]);
    }

    #[test]
    fn a_lost_channel_fails_the_transfer_and_never_finishes_it() {
        for seed in 0..300 {
            let (end, ..) = run(seed, Some(0));
            assert!(matches!(&end, Some(ReceiverOutput::Failed(error)) if error.code == "channel-lost"), "seed {seed}: {end:?}");
        }
    }

    #[test]
    fn refuses_more_ends_than_channels_and_ranges_that_overflow() {
        let mut receiver = Receiver::new(4, Marks::of_writer(4));
        for i in 0..2 {
            let channels = Some(1);
            receiver.handle(ReceiverInput::Ended { channel: ChannelId(i), slot: SlotId(i), channels });
        }
        assert!(matches!(receiver.poll(), Some(ReceiverOutput::Failed(error)) if error.code == "too-many-channels"));
        let mut receiver = Receiver::new(4, Marks::of_writer(4));
        let block = Block { offset: u64::MAX, len: 2 };
        receiver.handle(ReceiverInput::Arrived { channel: ChannelId(0), slot: SlotId(0), block });
        assert!(matches!(receiver.poll(), Some(ReceiverOutput::Failed(error)) if error.code == "block-out-of-range"));
    }
}

//! The receiving end of a transfer: which slot each channel fills, when it is written, and when
//! everything has come.

use super::layout::Block;
use super::staging::Watermarks;
use super::window::Windows;
use super::{ChannelId, SlotId};
use crate::units::{ByteRanges, Error, ErrorCode, Fault, Setting};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What happened at the receiving end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiverInput {
    /// A channel was accepted and wants a slot, or as many as it can have filled at once.
    ChannelOpened {
        /// The channel.
        channel: ChannelId,
        /// How many slots it can make use of to begin with: 1 for ordered bytes.
        depth: usize,
        /// How many it may come to have: see [`Receiver::widen`].
        most: usize,
    },
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
    /// A slot that was offered to a channel which has ended since comes back.
    Unused(SlotId),
    /// A slot's content is in the store; the slot is free.
    Written(SlotId),
    /// A channel brought a block that is not what was sent, gave its slot back, and wants another.
    Bad {
        /// The channel.
        channel: ChannelId,
        /// The slot, whose content is worthless.
        slot: SlotId,
    },
    /// A channel broke before its end-of-data mark; what it held comes back, one input for each
    /// slot.
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

/// Pieces of what came that have gaps between them, beyond those that were held before: channels
/// that run apart by all of the largest pool make no more, and an honest sender fills its gaps.
const MOST_RANGES: usize = 1 << 16;

/// The receiving end: offers slots to channels, hands full ones to the writer, and knows when all
/// has come.
#[derive(Debug)]
pub struct Receiver {
    free: Vec<SlotId>,
    slots: usize,
    /// How often the writer had nothing to do.
    rests: u64,
    /// Slots that may be with deep channels beyond each one's first: half of them all, so that the
    /// writer has the other half.
    deep: usize,
    /// Each as often as it wants a slot.
    waiting: VecDeque<ChannelId>,
    to_write: VecDeque<(SlotId, Block)>,
    writing: BTreeMap<SlotId, Block>,
    windows: Windows,
    watermarks: Watermarks,
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
    /// Pieces at most, in the passes before and this one.
    most_ranges: usize,
    /// Channels that brought a block.
    brought: BTreeSet<ChannelId>,
    failure: Option<Error>,
    over: bool,
    in_order: Option<Order>,
}

/// What a receiver knows that writes its blocks in ascending order.
#[derive(Debug)]
struct Order {
    /// Where the next block to write begins.
    next: u64,
    /// Channels that will bring blocks.
    channels: usize,
    /// Slots that each of them may fill with what cannot be written yet: else one that is ahead
    /// would take those that the others need to catch up.
    quota: usize,
    /// Who filled which slot.
    filled: BTreeMap<SlotId, ChannelId>,
}

impl Order {
    fn has_room(&self, channel: ChannelId) -> bool {
        self.filled.values().filter(|&&by| by == channel).count() < self.quota
    }
}

impl Receiver {
    /// Receives through `slots` buffers, which are written in runs between `watermarks`. Each open
    /// channel holds one slot, so there should be more slots than channels.
    pub fn new(slots: usize, watermarks: Watermarks) -> Receiver {
        Receiver {
            watermarks,
            draining: false,
            free: (0..slots).rev().map(SlotId).collect(),
            slots,
            rests: 0,
            deep: slots / 2,
            waiting: VecDeque::new(),
            windows: Windows::default(),
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
            most_ranges: MOST_RANGES,
            brought: BTreeSet::new(),
            failure: None,
            over: false,
            in_order: None,
        }
    }

    /// The same receiver, which hands blocks to the writer one at a time and in ascending order,
    /// from the end of what is held. Each of `channels` channels must bring its own in ascending
    /// order (`docs/protocol.md`, clause O-3); one that does not ends the transfer when every slot
    /// waits for a block before its own, and so does a bad block or a lost channel.
    #[must_use]
    pub fn in_order(mut self, channels: usize) -> Receiver {
        let next = self
            .written
            .iter()
            .next()
            .filter(|range| range.start == 0)
            .map_or(0, |range| range.end);
        let channels = channels.max(1);
        self.in_order = Some(Order {
            next,
            channels,
            quota: (self.free.len() / channels).max(1),
            filled: BTreeMap::new(),
        });
        self
    }

    /// The same receiver, which holds `held` already: what comes of it is dropped.
    #[must_use]
    pub fn holding(mut self, held: ByteRanges) -> Receiver {
        // Many passes make no more than two.
        let held_ranges = held.count();
        self.most_ranges = (held_ranges + MOST_RANGES).min(2 * MOST_RANGES).max(held_ranges);
        self.written = held.clone();
        self.arrived = held;
        self
    }

    /// The same receiver, which outlives lost channels (`docs/protocol.md`, clause I-6): it
    /// finishes without what they carried.
    #[must_use]
    pub fn tolerant(mut self) -> Receiver {
        self.tolerant = true;
        self
    }

    /// Adds `count` slots, numbered after those that there are; they are written in runs between
    /// `watermarks`.
    pub fn grow(&mut self, count: usize, watermarks: Watermarks) {
        // Those that were used before are in the caches, so they go first.
        self.free.splice(0..0, (self.slots..self.slots + count).rev().map(SlotId));
        self.slots += count;
        self.deep += count / 2;
        self.watermarks = watermarks;
        if let Some(order) = &mut self.in_order {
            order.quota = (self.slots / order.channels).max(1);
        }
    }

    /// Gives the channels `count` more slots to have filled at once, as far as they can make use of
    /// them.
    pub fn widen(&mut self, count: usize) {
        self.waiting.extend(self.windows.widen(count));
    }

    /// Slots that channels of registered slots may have filled at once, and what that may come to.
    pub fn window(&self) -> (usize, usize) {
        (self.windows.total(), self.windows.most())
    }

    /// How often the writer has had nothing to do, all that came being written.
    pub fn rests(&self) -> u64 {
        self.rests
    }

    /// What has been written, for markers and progress.
    pub fn written(&self) -> &ByteRanges {
        &self.written
    }

    /// Takes in what happened.
    pub fn handle(&mut self, input: ReceiverInput) {
        match input {
            ReceiverInput::ChannelOpened { channel, depth, most } => {
                self.quiet = false;
                self.open.insert(channel);
                // In order, one that is ahead must wait for the others slot by slot.
                let more = if self.in_order.is_some() {
                    0
                } else {
                    depth.saturating_sub(1).min(self.deep)
                };
                self.deep -= more;
                self.windows.open(
                    channel,
                    1 + more,
                    if self.in_order.is_some() { 1 } else { most },
                );
                self.waiting.extend(std::iter::repeat_n(channel, 1 + more));
            }
            ReceiverInput::Unused(slot) => self.free.push(slot),
            ReceiverInput::Arrived { channel, slot, block } => {
                self.waiting.push_back(channel);
                self.brought.insert(channel);
                if block.offset.checked_add(block.len as u64).is_none() {
                    self.free.push(slot);
                    self.fail(
                        ErrorCode::BlockOutOfRange,
                        "the sender named bytes beyond the end of any file",
                    );
                } else if self.arrived.insert(block.range()) == 0 {
                    // A sender may repeat what it is unsure of; the first copy stands.
                    self.free.push(slot);
                } else if self.arrived.count() > self.most_ranges {
                    self.free.push(slot);
                    let message =
                        format!("more than {MOST_RANGES} pieces came with gaps between them");
                    self.failure.get_or_insert_with(|| {
                        Error::new(Fault::Refused, ErrorCode::TooManyRanges, message)
                            .hint("send the file in order, or in larger blocks")
                    });
                } else if let Some(order) = &mut self.in_order {
                    order.filled.insert(slot, channel);
                    let at =
                        self.to_write.partition_point(|(_, before)| before.offset < block.offset);
                    self.to_write.insert(at, (slot, block));
                } else {
                    self.to_write.push_back((slot, block));
                }
            }
            ReceiverInput::Ended { channel, slot, channels } => {
                self.free.push(slot);
                self.open.remove(&channel);
                self.windows.close(channel);
                self.waiting.retain(|&waiting| waiting != channel);
                if !self.ended.insert(channel) {
                    self.fail(ErrorCode::EndOfDataTwice, "a channel ended twice in one transfer");
                }
                if let Some(count) = channels {
                    if self.expected_channels.is_some_and(|before| before != count) {
                        self.fail(
                            ErrorCode::EndOfFileTwice,
                            "two channels disagree on how many channels there are",
                        );
                    }
                    self.expected_channels = Some(count);
                }
                if self.expected_channels.is_some_and(|count| count < self.ended.len() as u64) {
                    self.fail(
                        ErrorCode::TooManyChannels,
                        "more channels ended than the sender said it opened",
                    );
                }
            }
            ReceiverInput::Written(slot) => {
                if let Some(block) = self.writing.remove(&slot) {
                    self.written.insert(block.range());
                    self.free.push(slot);
                    self.rests += u64::from(self.writing.is_empty() && self.to_write.is_empty());
                    if let Some(order) = &mut self.in_order {
                        order.filled.remove(&slot);
                    }
                }
            }
            ReceiverInput::Bad { channel, slot } => {
                self.free.push(slot);
                self.waiting.push_back(channel);
                if self.in_order.is_some() {
                    // What comes behind it could not be written before it comes again.
                    let message = "a block did not arrive as it was sent";
                    self.failure.get_or_insert_with(|| {
                        Error::new(Fault::Between, ErrorCode::BlocksMissing, message)
                    });
                }
            }
            ReceiverInput::Lost { channel, slot } => {
                self.waiting.retain(|&waiting| waiting != channel);
                self.free.extend(slot);
                self.open.remove(&channel);
                self.windows.close(channel);
                if !self.ended.contains(&channel) {
                    self.quiet = false;
                    self.lost.insert(channel);
                    if !self.tolerant || self.in_order.is_some() {
                        self.failure.get_or_insert_with(|| {
                            Error::new(
                                Fault::Between,
                                ErrorCode::ChannelLost,
                                "a data channel closed before its end-of-data mark",
                            )
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
        let next = match &self.in_order {
            None => (!self.waiting.is_empty()).then_some(0),
            Some(order) => self.waiting.iter().position(|&channel| order.has_room(channel)),
        };
        if let Some(next) = next
            && !self.free.is_empty()
            && let Some(channel) = self.waiting.remove(next)
        {
            let slot = self.free.pop()?;
            return Some(ReceiverOutput::Offer { channel, slot });
        }
        if let Some(order) = &self.in_order
            && self.writing.is_empty()
            && !self.to_write.is_empty()
            && self.waiting.len() == self.open.len()
            && self.open.len() + self.ended.len() >= order.channels
        {
            self.over = true;
            let message =
                "the sender's blocks come in an order that the staging memory cannot set right";
            let error = Error::new(Fault::There, ErrorCode::OutOfOrder, message);
            return Some(ReceiverOutput::Failed(error.hint(format!(
                "use {} 1, or more {}",
                Setting::Streams,
                Setting::Staging
            ))));
        }
        if self.all_ended() && self.writing.is_empty() {
            self.over = true;
            // A channel that brought nothing may be for another transfer; one that did was not
            // counted.
            if self.open.iter().any(|channel| self.brought.contains(channel)) {
                let message = "more channels brought blocks than the sender said it opened";
                let error = Error::new(Fault::There, ErrorCode::TooManyChannels, message);
                return Some(ReceiverOutput::Failed(error));
            }
            return Some(ReceiverOutput::Finished);
        }
        None
    }

    fn poll_write(&mut self) -> Option<ReceiverOutput> {
        if let Some(order) = &mut self.in_order {
            let (_, block) = self
                .to_write
                .front()
                .filter(|(_, block)| self.writing.is_empty() && block.offset == order.next)?;
            order.next = block.range().end;
            let (slot, block) = self.to_write.pop_front()?;
            self.writing.insert(slot, block);
            return Some(ReceiverOutput::Write { slot, block });
        }
        let filled = self.to_write.len();
        // Without a free slot no channel could bring what is missing to the mark; after the end
        // none will.
        let must = self.free.is_empty() || self.all_ended();
        self.draining = must
            || filled >= self.watermarks.high
            || (self.draining && filled >= self.watermarks.low);
        let (slot, block) = if self.draining { self.to_write.pop_front()? } else { return None };
        self.writing.insert(slot, block);
        Some(ReceiverOutput::Write { slot, block })
    }

    fn all_ended(&self) -> bool {
        // Where the channel that had the EOF was lost, the number of channels is never learned.
        let gone = (self.ended.len() + self.lost.len()) as u64;
        self.expected_channels == Some(gone) || (self.quiet && self.open.is_empty())
    }

    fn fail(&mut self, code: ErrorCode, message: &str) {
        self.failure.get_or_insert_with(|| Error::new(Fault::There, code, message));
    }
}

#[cfg(test)]
mod tests;

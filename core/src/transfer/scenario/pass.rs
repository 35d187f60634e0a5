//! One pass of a scenario's transfer: both machines, the channels between them and the receiver's
//! disk, event by event in virtual time.

use super::{Ending, Fault, Scenario};
use crate::transfer::files::BLOCK;
use crate::transfer::*;
use crate::units::{ByteRanges, Bytes, Span, Time};
use std::collections::{BTreeMap, VecDeque};

/// Blocks that a channel carries beyond what the receiver has taken, as a socket's buffers do.
const IN_FLIGHT: usize = 4;
/// A disk is made durable so often.
const SYNC_EVERY: Span = Span::from_millis(20);

/// What a channel carries.
#[derive(Clone, Copy)]
enum Message {
    Block(Block, bool),
    End(Option<u64>),
}

/// A channel between the two machines.
#[derive(Default)]
struct Channel {
    /// Until when it is sending.
    busy: Time,
    /// What was handed to it and waits for room.
    queue: VecDeque<(Option<SlotId>, Message)>,
    /// What left and has not been taken.
    carried: usize,
    /// What has come and waits for a slot.
    come: VecDeque<Message>,
    offers: VecDeque<SlotId>,
    is_broken: bool,
    is_ended: bool,
}

/// What is due at a moment.
#[derive(Clone, Copy)]
enum Due {
    Sent(usize, Option<SlotId>),
    Comes(usize, Message),
    Written(SlotId, Block),
    Sync,
}

/// One pass over what is missing.
pub(super) struct Pass<'s> {
    scenario: &'s mut Scenario,
    sender: Sender<std::vec::IntoIter<Block>>,
    pub(super) receiver: Receiver,
    channels: Vec<Channel>,
    due: BTreeMap<(Time, u64), Due>,
    order: u64,
    /// Until when the disk writes.
    disk: Time,
    pub(super) now: Time,
    is_over: bool,
    is_full: bool,
}

impl<'s> Pass<'s> {
    pub(super) fn new(scenario: &'s mut Scenario, held: &ByteRanges, now: Time) -> Pass<'s> {
        let (layout, slots) = (&scenario.files.layout, scenario.pool);
        let blocks = (0..layout.block_count()).map(|index| layout.block(index));
        let missing: Vec<Block> = blocks.filter(|block| !held.contains(&block.range())).collect();
        let count = scenario.channels;
        let watermarks = Watermarks::of_pool(slots);
        let mut sender = Sender::new(missing.into_iter(), slots, watermarks, count);
        let watermarks = Watermarks::of_writer(slots);
        let mut receiver = Receiver::new(slots, watermarks).holding(held.clone()).tolerant();
        for channel in (0..count).map(ChannelId) {
            sender.handle(SenderInput::ChannelOpened { channel, depth: 1, most: 1 });
            receiver.handle(ReceiverInput::ChannelOpened { channel, depth: 1, most: 1 });
        }
        let channels = (0..count).map(|_| Channel { busy: now, ..Channel::default() }).collect();
        let mut pass = Pass {
            scenario,
            sender,
            receiver,
            channels,
            due: BTreeMap::new(),
            order: 0,
            disk: now,
            now,
            is_over: false,
            is_full: false,
        };
        pass.after(now + SYNC_EVERY, Due::Sync);
        pass
    }

    /// Has `due` happen at `at`.
    fn after(&mut self, at: Time, due: Due) {
        self.order += 1;
        self.due.insert((at, self.order), due);
    }

    pub(super) fn run(&mut self, digests: &mut Digests, account: &mut Durability) -> Ending {
        loop {
            self.drain(digests, account);
            if self.is_over || self.is_full {
                // What is written is made durable at the end, as the landing does.
                self.sync(account);
                return if self.is_full { Ending::Full } else { Ending::Landed };
            }
            let next = self.due.keys().next().map(|(at, _)| *at).expect("a sync is always due");
            let fault = self.scenario.faults.front().filter(|(at, _)| *at <= next).copied();
            if let Some((at, fault)) = fault {
                self.scenario.faults.pop_front();
                self.now = self.now.max(at);
                match fault {
                    Fault::Kill => return Ending::Killed,
                    Fault::PowerCut => return Ending::PowerCut,
                    Fault::Room(bytes) => self.scenario.room = bytes,
                    Fault::Break(channel) => self.break_off(channel),
                }
                continue;
            }
            let Some(((at, _), due)) = self.due.pop_first() else { continue };
            self.now = at;
            match due {
                Due::Sent(channel, slot) => self.sent(channel, slot),
                Due::Comes(channel, message) if !self.channels[channel].is_broken => {
                    self.channels[channel].come.push_back(message);
                }
                Due::Comes(..) => {}
                Due::Written(slot, block) => {
                    self.scenario.files.write(block, account);
                    self.receiver.handle(ReceiverInput::Written(slot));
                }
                Due::Sync => {
                    self.sync(account);
                    if self.due.is_empty() {
                        // Nothing is on its way any more.
                        self.receiver.handle(ReceiverInput::Quiet);
                    }
                    self.after(self.now + SYNC_EVERY, Due::Sync);
                }
            }
        }
    }

    fn sync(&mut self, account: &mut Durability) {
        let Some(batch) = account.batch() else { return };
        let disk = &mut self.scenario.files.disk;
        batch.entries().for_each(|entry| disk.sync(entry));
        disk.journal.extend(account.commit(batch).0);
        disk.journal_durable = disk.journal.len();
    }

    /// Does what both machines want, until they wait.
    fn drain(&mut self, digests: &mut Digests, account: &mut Durability) {
        loop {
            let mut is_idle = true;
            while let Some(output) = self.sender.poll() {
                is_idle = false;
                let (channel, slot, message) = match output {
                    SenderOutput::Read { slot, .. } => {
                        self.sender.handle(SenderInput::BlockRead(slot));
                        continue;
                    }
                    SenderOutput::Send { channel, slot, block } => {
                        let index = block.offset / BLOCK as u64;
                        let is_good = !self.scenario.lost.remove(&index);
                        (channel, Some(slot), Message::Block(block, is_good))
                    }
                    SenderOutput::End { channel, channels } => {
                        (channel, None, Message::End(channels))
                    }
                    SenderOutput::Finished => continue,
                };
                match self.channels[channel.0].is_broken {
                    true => self.sender.handle(SenderInput::Lost { channel, slot }),
                    false => self.channels[channel.0].queue.push_back((slot, message)),
                }
            }
            while let Some(output) = self.receiver.poll() {
                is_idle = false;
                match output {
                    ReceiverOutput::Offer { channel, slot } => {
                        self.channels[channel.0].offers.push_back(slot);
                    }
                    ReceiverOutput::Write { slot, block } => self.write(slot, block),
                    ReceiverOutput::Finished => self.is_over = true,
                    ReceiverOutput::Failed(error) => panic!("{error}"),
                }
            }
            for channel in 0..self.channels.len() {
                is_idle &= !self.carry(channel);
                is_idle &= !self.take(channel, digests, account);
            }
            if is_idle {
                return;
            }
        }
    }

    /// Begins to send what waits for room on a channel; whether there was any.
    fn carry(&mut self, index: usize) -> bool {
        let channel = &mut self.channels[index];
        if channel.is_broken || channel.carried >= IN_FLIGHT {
            return false;
        }
        let Some((slot, message)) = channel.queue.pop_front() else { return false };
        let len = match message {
            Message::Block(block, _) => block.len as u64,
            Message::End(_) => 0,
        };
        self.scenario.run.sent += len;
        channel.carried += 1;
        channel.busy = channel.busy.max(self.now) + self.scenario.rate.time_for(Bytes(len));
        let left = channel.busy;
        self.after(left, Due::Sent(index, slot));
        self.after(left + self.scenario.delay, Due::Comes(index, message));
        true
    }

    fn sent(&mut self, index: usize, slot: Option<SlotId>) {
        let (channel, is_broken) = (ChannelId(index), self.channels[index].is_broken);
        self.sender.handle(match (is_broken, slot) {
            (true, slot) => SenderInput::Lost { channel, slot },
            (false, Some(slot)) => SenderInput::BlockSent { channel, slot },
            (false, None) => SenderInput::EndSent(channel),
        });
    }

    /// Puts what has come on a channel into the slot that was offered; whether there was any.
    fn take(&mut self, index: usize, digests: &mut Digests, account: &mut Durability) -> bool {
        let (channel, id) = (&mut self.channels[index], ChannelId(index));
        let Some(slot) = channel.offers.pop_front() else { return false };
        if channel.is_ended {
            self.receiver.handle(ReceiverInput::Unused(slot));
            return true;
        }
        let input = match channel.come.pop_front() {
            None if channel.is_broken => {
                channel.is_ended = true;
                ReceiverInput::Lost { channel: id, slot: Some(slot) }
            }
            None => {
                channel.offers.push_front(slot);
                return false;
            }
            Some(Message::Block(_, false)) => ReceiverInput::Bad { channel: id, slot },
            Some(Message::Block(block, true)) => {
                self.scenario.files.arrived(block, digests, account);
                ReceiverInput::Arrived { channel: id, slot, block }
            }
            Some(Message::End(channels)) => {
                channel.is_ended = true;
                ReceiverInput::Ended { channel: id, slot, channels }
            }
        };
        channel.carried = channel.carried.saturating_sub(1);
        self.receiver.handle(input);
        true
    }

    /// Writes a block after those that the disk has to write before.
    fn write(&mut self, slot: SlotId, block: Block) {
        let len = block.len as u64;
        let Some(left) = self.scenario.room.checked_sub(len) else {
            self.is_full = true;
            return;
        };
        self.scenario.room = left;
        self.disk = self.disk.max(self.now) + self.scenario.disk.time_for(Bytes(len));
        self.after(self.disk, Due::Written(slot, block));
        let waiting = self.due.values().filter(|due| matches!(due, Due::Written(..))).count();
        self.scenario.run.most_slots = self.scenario.run.most_slots.max(waiting);
    }

    /// Breaks a channel: what it carries is gone.
    fn break_off(&mut self, index: usize) {
        let channel = &mut self.channels[index];
        channel.is_broken = true;
        channel.come.clear();
        let queued: Vec<Option<SlotId>> = channel.queue.drain(..).map(|(slot, _)| slot).collect();
        for slot in queued {
            self.sender.handle(SenderInput::Lost { channel: ChannelId(index), slot });
        }
    }
}

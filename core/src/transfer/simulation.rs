//! Whole transfers in virtual time: sender, receiver and journal with bad blocks, lost channels,
//! pools that grow, kills, power cuts and torn journals.
//!
//! After every crash the same transfer is run again. What is asserted: nothing is held on resume
//! that the disk does not hold, and the copy ends equal to its source, whatever happened on the
//! way.

use super::files::Files;
use super::*;
use crate::units::{ByteRanges, Rng};
use std::collections::VecDeque;
use std::sync::Arc;

struct World {
    rng: Rng,
    files: Files,
    bad_blocks: u32,
    lost_channels: u32,
    joined: u32,
    crashes: u32,
    resumed: u64,
}

/// What travels on a channel.
enum Message {
    Block { block: Block, good: bool },
    End { channels: Option<u64> },
}

#[derive(PartialEq, Eq, Debug)]
enum Ending {
    Killed,
    PowerCut,
    Over,
}

impl World {
    fn new(seed: u64) -> World {
        let mut rng = Rng::new(seed);
        let mut len = || {
            let most = if rng.below(2) == 0 { 600 } else { 20_000 };
            rng.below(most)
        };
        let lens: Vec<u64> = (0..1 + seed % 4).map(|_| len()).collect();
        let digests = match seed % 4 {
            0 => None,
            1 => Some(DigestAlgorithm::Crc64Nvme),
            _ => Some(DigestAlgorithm::Blake3),
        };
        World {
            files: Files::new(&lens, digests, &mut rng),
            rng,
            bad_blocks: 0,
            lost_channels: 0,
            joined: 0,
            crashes: 0,
            resumed: 0,
        }
    }

    /// One run of the command, from recovery to landing or a crash.
    fn run(&mut self, hazard: u64) -> Ending {
        let recovered = self.files.recover();
        let mut held = recovered.blocks(&self.files.layout);
        self.resumed += held.total();
        let mut account = self.files.account(&recovered, held.clone());
        let mut digests = recovered.digests;
        for pass in 0.. {
            assert!(pass < 200, "no end of passes");
            match self.pass(&mut held, &mut digests, &mut account, hazard) {
                Ending::Over => {}
                crash => return crash,
            }
            if held.total() == self.files.layout.payload() {
                break;
            }
        }
        self.files.assert_landed(&digests);
        Ending::Over
    }

    fn checkpoint(&mut self, account: &mut Durability, hazard: u64) -> Option<Ending> {
        let batch = account.batch()?;
        for entry in batch.entries() {
            if self.rng.below(hazard) == 0 {
                return Some(Ending::PowerCut);
            }
            self.files.disk.sync(entry);
        }
        let (records, _) = account.commit(batch);
        self.files.disk.journal.extend(records);
        if self.rng.below(hazard) == 0 {
            return Some(Ending::PowerCut);
        }
        self.files.disk.journal_durable = self.files.disk.journal.len();
        None
    }

    fn pass(
        &mut self,
        held: &mut ByteRanges,
        digests: &mut Digests,
        account: &mut Durability,
        hazard: u64,
    ) -> Ending {
        let layout = Arc::clone(&self.files.layout);
        let (channels, mut slots) =
            (1 + self.rng.below(4) as usize, 6 + self.rng.below(4) as usize);
        let depth = 1 + self.rng.below(3) as usize;
        let missing: Vec<Block> = (0..layout.block_count())
            .map(|i| layout.block(i))
            .filter(|block| !held.contains(&block.range()))
            .collect();
        let mut sender =
            Sender::new(missing.into_iter(), slots, Watermarks::of_pool(slots), channels);
        let mut receiver =
            Receiver::new(slots, Watermarks::of_writer(slots)).holding(held.clone()).tolerant();
        let mut lanes: Vec<Option<VecDeque<Message>>> =
            (0..channels).map(|_| Some(VecDeque::new())).collect();
        let mut offers: Vec<VecDeque<SlotId>> = vec![VecDeque::new(); channels];
        let mut ended = vec![false; channels];
        let mut to_sender: Vec<SenderInput> = (0..channels)
            .map(|i| SenderInput::ChannelOpened { channel: ChannelId(i), depth, most: depth + 4 })
            .collect();
        let mut to_receiver: Vec<ReceiverInput> = (0..channels)
            .map(|i| ReceiverInput::ChannelOpened { channel: ChannelId(i), depth, most: depth + 4 })
            .collect();
        let mut written: Vec<(SlotId, Block)> = Vec::new();
        let mut over = false;
        while !over {
            if self.rng.below(hazard) == 0 {
                return if self.rng.below(2) == 0 { Ending::Killed } else { Ending::PowerCut };
            }
            if self.rng.below(12) == 0
                && let Some(crash) = self.checkpoint(account, hazard * 2)
            {
                return crash;
            }
            if self.rng.below(60) == 0 {
                // A damaged header or a reset: what is on the lane is gone with it.
                let lane = self.rng.below(lanes.len() as u64) as usize;
                self.lost_channels += u32::from(lanes[lane].is_some());
                lanes[lane] = None;
            }
            if self.rng.below(40) == 0 {
                // Both pools grow, and sometimes a channel comes to the others.
                let more = 1 + self.rng.below(2) as usize;
                slots += more;
                sender.grow(more, Watermarks::of_pool(slots));
                receiver.grow(more, Watermarks::of_writer(slots));
                sender.widen(more);
                receiver.widen(more);
                if sender.promise() {
                    let channel = ChannelId(lanes.len());
                    lanes.push(Some(VecDeque::new()));
                    offers.push(VecDeque::new());
                    ended.push(false);
                    to_sender.push(SenderInput::ChannelOpened { channel, depth, most: depth + 4 });
                    to_receiver.push(ReceiverInput::ChannelOpened {
                        channel,
                        depth,
                        most: depth + 4,
                    });
                    self.joined += 1;
                }
            }
            while let Some(output) = sender.poll() {
                let input = match output {
                    SenderOutput::Read { slot, .. } => SenderInput::BlockRead(slot),
                    SenderOutput::Send { channel, slot, block } => match &mut lanes[channel.0] {
                        Some(lane) => {
                            lane.push_back(Message::Block { block, good: self.rng.below(15) > 0 });
                            SenderInput::BlockSent { channel, slot }
                        }
                        None => SenderInput::Lost { channel, slot: Some(slot) },
                    },
                    SenderOutput::End { channel, channels } => match &mut lanes[channel.0] {
                        Some(lane) => {
                            lane.push_back(Message::End { channels });
                            SenderInput::EndSent(channel)
                        }
                        None => SenderInput::Lost { channel, slot: None },
                    },
                    SenderOutput::Finished => continue,
                };
                to_sender.push(input);
            }
            while let Some(output) = receiver.poll() {
                match output {
                    ReceiverOutput::Offer { channel, slot } => offers[channel.0].push_back(slot),
                    ReceiverOutput::Write { slot, block } => written.push((slot, block)),
                    ReceiverOutput::Finished => over = true,
                    ReceiverOutput::Failed(error) => panic!("{error}"),
                }
            }
            for (i, lane) in lanes.iter_mut().enumerate() {
                let channel = ChannelId(i);
                if ended[i] {
                    // Offered before the machine knew.
                    to_receiver.extend(offers[i].drain(..).map(ReceiverInput::Unused));
                    continue;
                }
                let Some(slot) = offers[i].pop_front() else { continue };
                let input = match lane.as_mut().map(VecDeque::pop_front) {
                    None => {
                        ended[i] = true;
                        ReceiverInput::Lost { channel, slot: Some(slot) }
                    }
                    Some(None) => {
                        offers[i].push_front(slot);
                        continue;
                    }
                    Some(Some(Message::Block { good: false, .. })) => {
                        self.bad_blocks += 1;
                        ReceiverInput::Bad { channel, slot }
                    }
                    Some(Some(Message::Block { block, .. })) => {
                        self.files.arrived(block, digests, account);
                        ReceiverInput::Arrived { channel, slot, block }
                    }
                    Some(Some(Message::End { channels })) => {
                        ended[i] = true;
                        ReceiverInput::Ended { channel, slot, channels }
                    }
                };
                to_receiver.push(input);
            }
            let choices = (to_sender.len() + to_receiver.len() + written.len()) as u64;
            if choices == 0 {
                receiver.handle(ReceiverInput::Quiet);
                continue;
            }
            let choice = self.rng.below(choices) as usize;
            if choice < to_sender.len() {
                sender.handle(to_sender.swap_remove(choice));
            } else if choice < to_sender.len() + to_receiver.len() {
                // A channel's thread tells what happened in order.
                let of = channel_of(&to_receiver[choice - to_sender.len()]);
                let first = to_receiver
                    .iter()
                    .position(|input| channel_of(input) == of)
                    .expect("it is there");
                receiver.handle(to_receiver.remove(first));
            } else {
                let (slot, block) =
                    written.swap_remove(choice - to_sender.len() - to_receiver.len());
                self.files.write(block, account);
                receiver.handle(ReceiverInput::Written(slot));
            }
        }
        *held = receiver.written().clone();
        Ending::Over
    }
}

fn channel_of(input: &ReceiverInput) -> Option<ChannelId> {
    match input {
        ReceiverInput::ChannelOpened { channel, .. }
        | ReceiverInput::Arrived { channel, .. }
        | ReceiverInput::Ended { channel, .. }
        | ReceiverInput::Bad { channel, .. }
        | ReceiverInput::Lost { channel, .. } => Some(*channel),
        ReceiverInput::Unused(_) | ReceiverInput::Written(_) | ReceiverInput::Quiet => None,
    }
}

#[test]
fn resumes_after_any_crash_and_ends_equal_to_its_source() {
    let (mut crashes, mut bad, mut lost, mut joined, mut resumed) = (0, 0, 0, 0, 0);
    for seed in 0..3000 {
        let mut world = World::new(seed);
        // Ever safer, so that there is an end.
        for attempt in 0u64.. {
            match world.run(60 << attempt.min(20)) {
                Ending::Over => break,
                Ending::Killed => {}
                Ending::PowerCut => {
                    let mut rng = world.rng.fork(attempt);
                    world.files.disk.power_cut(&mut rng);
                }
            }
            world.crashes += 1;
        }
        crashes += world.crashes;
        bad += world.bad_blocks;
        lost += world.lost_channels;
        joined += world.joined;
        resumed += world.resumed;
    }
    assert!(
        crashes > 3000 && bad > 3000 && lost > 1000 && joined > 1000 && resumed > 1 << 20,
        "{crashes} {bad} {lost} {joined} {resumed}"
    );
}

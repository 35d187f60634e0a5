//! Whole transfers in virtual time: sender, receiver and journal with bad blocks, lost channels,
//! pools that grow, kills, power cuts and torn journals.
//!
//! After every crash the same transfer is run again. What is asserted: nothing is held on resume
//! that the disk does not hold, and the copy ends equal to its source, whatever happened on the
//! way.

use super::journal::{Origin, Recovered, Replay};
use super::*;
use crate::units::{ByteRanges, Rng};
use std::collections::VecDeque;
use std::sync::Arc;

const BLOCK: usize = 1024;

/// A disk that forgets what was not synced.
struct Disk {
    volatile: Vec<Vec<u8>>,
    durable: Vec<Vec<u8>>,
    journal: Vec<u8>,
    journal_durable: usize,
}

impl Disk {
    /// A power cut: of what was not synced each sector is old or new, and the journal's tail is
    /// torn and may be rubbish.
    fn power_cut(&mut self, rng: &mut Rng) {
        for (volatile, durable) in self.volatile.iter_mut().zip(&mut self.durable) {
            for (new, old) in volatile.chunks_mut(512).zip(durable.chunks_mut(512)) {
                if rng.below(2) == 0 { new.copy_from_slice(old) } else { old.copy_from_slice(new) }
            }
        }
        let pending = (self.journal.len() - self.journal_durable) as u64;
        self.journal.truncate(self.journal_durable + rng.below(pending + 1) as usize);
        if rng.below(3) == 0 {
            self.journal.extend((0..rng.below(60)).map(|_| rng.next_u64() as u8));
        }
        self.journal_durable = self.journal.len();
    }
}

struct World {
    rng: Rng,
    layout: Arc<Layout>,
    source: Vec<Vec<u8>>,
    disk: Disk,
    origin: Origin,
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
        let entry = |(i, &len): (usize, &u64)| Entry {
            path: format!("f{i}").into_bytes(),
            kind: EntryKind::File { len },
            mode: 0o644,
            modified_ns: i as i64,
            changed_ns: 1,
            attributes: None,
        };
        let layout = Arc::new(Layout::new(lens.iter().enumerate().map(entry).collect(), BLOCK));
        let source: Vec<Vec<u8>> =
            lens.iter().map(|&len| (0..len).map(|_| rng.next_u64() as u8).collect()).collect();
        let empty: Vec<Vec<u8>> = lens.iter().map(|&len| vec![0; len as usize]).collect();
        let disk = Disk {
            volatile: empty.clone(),
            durable: empty,
            journal: Vec::new(),
            journal_durable: 0,
        };
        let digests = match seed % 4 {
            0 => None,
            1 => Some(DigestAlgorithm::Crc64Nvme),
            _ => Some(DigestAlgorithm::Blake3),
        };
        let origin = Origin { source: [seed as u8; 32], digests };
        World {
            rng,
            layout,
            source,
            disk,
            origin,
            bad_blocks: 0,
            lost_channels: 0,
            joined: 0,
            crashes: 0,
            resumed: 0,
        }
    }

    fn recover(&mut self) -> Recovered {
        let layout = Arc::clone(&self.layout);
        let mut replay = Replay::new(&layout, b"", self.origin);
        replay.all(&self.disk.journal);
        let recovered = replay.finish();
        for (&entry, held) in &recovered.held {
            for range in held.iter() {
                let (from, to) = (range.start as usize, range.end as usize);
                assert!(
                    self.disk.volatile[entry][from..to] == self.source[entry][from..to],
                    "the journal claims {from}-{to} of file {entry}, which the disk does not hold"
                );
            }
        }
        self.disk.journal.truncate(recovered.valid_len as usize);
        self.disk.journal_durable = self.disk.journal.len();
        recovered
    }

    /// One run of the command, from recovery to landing or a crash.
    fn run(&mut self, hazard: u64) -> Ending {
        let layout = Arc::clone(&self.layout);
        let recovered = self.recover();
        let mut held = recovered.blocks(&layout);
        self.resumed += held.total();
        let mut digests = recovered.digests;
        let begun = recovered.valid_len > 0;
        let mut account =
            Durability::new(Arc::clone(&layout), Vec::new(), self.origin, held.clone(), begun);
        for pass in 0.. {
            assert!(pass < 200, "no end of passes");
            match self.pass(&mut held, &mut digests, &mut account, hazard) {
                Ending::Over => {}
                crash => return crash,
            }
            if held.total() == layout.payload() {
                break;
            }
        }
        for (entry, source) in self.source.iter().enumerate() {
            assert!(self.disk.volatile[entry] == *source, "file {entry} differs from its source");
            if let Some(algorithm) = self.origin.digests {
                let expected = match algorithm {
                    DigestAlgorithm::Blake3 => blake3::hash(source).as_bytes().to_vec(),
                    DigestAlgorithm::Crc64Nvme => {
                        crc_fast::crc64_nvme(source).to_be_bytes().to_vec()
                    }
                };
                assert_eq!(
                    digests.digest(entry).map(|digest| digest[..algorithm.digest_len()].to_vec()),
                    Some(expected),
                    "file {entry}"
                );
            }
        }
        Ending::Over
    }

    fn checkpoint(&mut self, account: &mut Durability, hazard: u64) -> Option<Ending> {
        let batch = account.batch()?;
        for entry in batch.entries() {
            if self.rng.below(hazard) == 0 {
                return Some(Ending::PowerCut);
            }
            self.disk.durable[entry].clone_from(&self.disk.volatile[entry]);
        }
        let (records, _) = account.commit(batch);
        self.disk.journal.extend(records);
        if self.rng.below(hazard) == 0 {
            return Some(Ending::PowerCut);
        }
        self.disk.journal_durable = self.disk.journal.len();
        None
    }

    fn pass(
        &mut self,
        held: &mut ByteRanges,
        digests: &mut Digests,
        account: &mut Durability,
        hazard: u64,
    ) -> Ending {
        let layout = Arc::clone(&self.layout);
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
                        for piece in layout.pieces(block.offset, block.len) {
                            let Some(algorithm) = self.origin.digests else { break };
                            let from = piece.file_offset as usize;
                            let digest = PieceDigest::of(
                                &layout,
                                &piece,
                                &self.source[piece.entry][from..from + piece.len],
                                algorithm,
                            );
                            digests.insert(&digest);
                            account.record(&digest);
                        }
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
                for piece in layout.pieces(block.offset, block.len) {
                    let range = piece.file_offset as usize..piece.file_offset as usize + piece.len;
                    self.disk.volatile[piece.entry][range.clone()]
                        .copy_from_slice(&self.source[piece.entry][range.clone()]);
                    account.wrote(piece.entry, range.start as u64..range.end as u64);
                }
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
                    world.disk.power_cut(&mut rng);
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

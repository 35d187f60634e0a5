//! Two ends of a channel in virtual time: queue pairs of different delay, blocks written and read, several transfers, a peer that dies, a
//! peer that lies.

use super::*;
use crate::transfer::SlotId;
use crate::units::{Rng, Span, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const SLOT_LEN: u32 = 1000;

/// What travels on a queue pair, in order.
#[derive(Clone, Debug)]
enum Packet {
    Record(Record),
    Write { to: Credit, len: u32, content: u64, immediate: bool },
}

/// One direction of one queue pair.
#[derive(Default)]
struct Lane {
    delay: Span,
    queue: VecDeque<(Time, Packet, Option<SlotId>)>,
    /// Receives posted at its end.
    receives: usize,
    /// RDMA READs of its sender's: when each finds what it reads, by when it brings that, and what it has found.
    reads: Vec<Fetch>,
}

/// One RDMA READ.
struct Fetch {
    finds: Time,
    brings: Time,
    from: Source,
    into: SlotId,
    content: Option<u64>,
}

/// One end, with the memory that the other may write to.
struct End {
    endpoint: Endpoint,
    /// What lies in each slot, by address.
    memory: BTreeMap<u64, u64>,
    /// Slots that nobody holds.
    free: Vec<usize>,
    held: BTreeSet<SlotId>,
    got: Vec<(u32, u64)>,
    ended: u32,
    /// Marks that it sent, and how many of them went before each slot that the peer may read.
    marked: u32,
    lent: BTreeMap<SlotId, u32>,
    /// How often it was told that nothing of what is over is lent.
    taken: u32,
    /// The numbers of the credits that it gave.
    gave: Vec<u32>,
    broken: Option<Violation>,
}

struct World {
    now: Time,
    rng: Rng,
    settings: Settings,
    ends: [End; 2],
    /// By sender, then queue pair.
    lanes: [Vec<Lane>; 2],
}

impl World {
    fn new(seed: u64, queue_pairs: u8, credits: u16, slots: usize, delay: Option<Span>) -> World {
        let mut rng = Rng::new(seed);
        let placement = [Placement::Immediate, Placement::Behind, Placement::Read][(seed % 3) as usize];
        let settings = Settings { queue_pairs, credits, placement, connected: true };
        let end = |connected| End {
            endpoint: Endpoint::new(Settings { connected, ..settings }),
            memory: BTreeMap::new(),
            free: (0..slots).collect(),
            held: BTreeSet::new(),
            got: Vec::new(),
            ended: 0,
            marked: 0,
            lent: BTreeMap::new(),
            taken: 0,
            gave: Vec::new(),
            broken: None,
        };
        let mut lanes = || {
            let lane = |_| Lane {
                delay: delay.unwrap_or_else(|| Span::from_micros(1 + rng.below(50))),
                queue: VecDeque::new(),
                receives: settings.receives(),
                reads: Vec::new(),
            };
            (0..queue_pairs).map(lane).collect()
        };
        let lanes = [lanes(), lanes()];
        World { now: Time::ZERO, rng, settings, ends: [end(!seed.is_multiple_of(5)), end(seed.is_multiple_of(5))], lanes }
    }

    /// Carries out what both machines ask for.
    fn settle(&mut self) {
        for side in [0, 1] {
            while let Some(output) = self.ends[side].endpoint.poll() {
                self.act(side, output);
            }
        }
    }

    fn act(&mut self, side: usize, output: Output) {
        if let Output::Sent(slot) | Output::Returned(slot) | Output::Arrived { slot, .. } | Output::Ended { slot, .. } = &output {
            let reads = self.lanes[side].iter().flat_map(|lane| &lane.reads);
            assert!(reads.into_iter().all(|read| read.into != *slot), "{slot:?} comes back while it is read into");
        }
        let end = &mut self.ends[side];
        match output {
            Output::Post { on, record } => {
                if let Record::Credits { credits, .. } = &record {
                    end.gave.extend(credits.iter().map(|credit| credit.number));
                }
                match &record {
                    Record::Filled(_, source) => drop(end.lent.insert(SlotId(source.address as usize), end.marked)),
                    Record::Mark { .. } => end.marked += 1,
                    Record::Credits { credits, .. } if self.settings.placement == Placement::Read => {
                        assert!(
                            credits.iter().all(|credit| (credit.key, credit.address) == (0, 0)),
                            "a receiver's memory is told"
                        );
                    }
                    _ => {}
                }
                self.send(side, on, Packet::Record(record), None);
            }
            Output::Write { on, slot, len, to, immediate } => {
                let content = end.memory[&(slot.0 as u64)];
                self.send(side, on, Packet::Write { to, len, content, immediate }, Some(slot));
            }
            Output::Read { on, slot: into, len, from } => {
                assert!(len <= SLOT_LEN && end.held.contains(&into), "a read into memory that was not offered");
                let lane = &mut self.lanes[side][usize::from(on.0)];
                let finds = self.now + lane.delay;
                lane.reads.push(Fetch { finds, brings: finds + lane.delay, from, into, content: None });
                self.assert_room(side, on);
            }
            Output::Taken => {
                assert!(end.lent.values().all(|&before| before == end.marked), "a slot of a transfer that is over is lent still");
                end.taken += 1;
            }
            Output::Sent(slot) | Output::Returned(slot) => {
                assert!(end.held.remove(&slot), "{slot:?} came back twice");
                end.lent.remove(&slot);
                end.free.push(slot.0);
            }
            Output::Arrived { slot, len, header } => {
                assert!(end.held.remove(&slot), "{slot:?} came back twice");
                assert!(len <= SLOT_LEN);
                end.free.push(slot.0);
                let told = u64::from_be_bytes(header.as_bytes().try_into().unwrap_or_default());
                if self.ends.iter().all(|end| end.broken.is_none()) {
                    assert_eq!(self.ends[side].memory[&(slot.0 as u64)], told, "another block than announced");
                }
                let end = &mut self.ends[side];
                end.got.push((end.ended, told));
            }
            Output::Ended { slot, .. } => {
                assert!(end.held.remove(&slot), "{slot:?} came back twice");
                end.free.push(slot.0);
                end.ended += 1;
            }
            Output::Broken(violation) => end.broken = Some(violation),
        }
    }

    fn send(&mut self, side: usize, on: QueuePair, packet: Packet, slot: Option<SlotId>) {
        let lane = &mut self.lanes[side][usize::from(on.0)];
        let least = lane.queue.back().map_or(Time::ZERO, |(at, ..)| *at);
        lane.queue.push_back(((self.now + lane.delay).max(least), packet, slot));
        self.assert_room(side, on);
    }

    fn assert_room(&self, side: usize, on: QueuePair) {
        let lane = &self.lanes[side][usize::from(on.0)];
        let work = lane.queue.len() + lane.reads.len();
        assert!(work <= self.settings.sends(), "{work} work requests in a send queue");
    }

    /// Delivers the next packet; false when nothing is on its way.
    fn step(&mut self) -> bool {
        let next = (0..2)
            .flat_map(|side| (0..self.lanes[side].len()).map(move |number| (side, number)))
            .filter_map(|(side, number)| self.lanes[side][number].queue.front().map(|(at, ..)| (*at, side, number)))
            .min();
        let is_before = |at: Time| next.is_none_or(|(next, ..)| at <= next);
        if let Some((at, side, number, index)) = self.next_fetch().filter(|&(at, ..)| is_before(at)) {
            self.now = at;
            self.fetch(side, number, index);
            return true;
        }
        let Some((at, side, number)) = next else { return false };
        self.now = at;
        let on = QueuePair(number as u8);
        let Some((_, packet, slot)) = self.lanes[side][number].queue.pop_front() else { return false };
        let to = &mut self.ends[1 - side];
        let input = match packet {
            Packet::Record(record) => Some(Input::Received { on, record }),
            Packet::Write { to: credit, len, content, immediate } => {
                to.memory.insert(credit.address, content);
                immediate.then_some(Input::Written { on, credit: credit.number, len })
            }
        };
        if let Some(input) = input {
            let receives = &mut self.lanes[side][number].receives;
            assert!(*receives > 0, "a message found no receive");
            *receives -= 1;
            to.endpoint.handle(input);
            // Posted again by the driver before the machine acts on it; late now and then.
            *receives += 1;
        }
        let work = slot.map_or(Work::Record, Work::Write);
        self.ends[side].endpoint.handle(Input::Completed { on, work });
        true
    }

    /// Delivers all that is on its way, and what comes of it.
    fn run_out(&mut self) {
        self.settle();
        while self.step() {
            self.settle();
        }
    }

    /// The RDMA READ that finds or brings something next.
    fn next_fetch(&self) -> Option<(Time, usize, usize, usize)> {
        let lanes = (0..2).flat_map(|side| self.lanes[side].iter().enumerate().map(move |(number, lane)| (side, number, lane)));
        let at = |fetch: &Fetch| if fetch.content.is_none() { fetch.finds } else { fetch.brings };
        lanes
            .flat_map(|(side, number, lane)| lane.reads.iter().enumerate().map(move |(i, read)| (at(read), side, number, i)))
            .min()
    }

    fn fetch(&mut self, side: usize, number: usize, index: usize) {
        let address = self.lanes[side][number].reads[index].from.address;
        let there = self.ends[1 - side].memory.get(&address).copied().unwrap_or(u64::MAX);
        let read = &mut self.lanes[side][number].reads[index];
        let Some(content) = read.content else {
            read.content = Some(there);
            return;
        };
        let into = self.lanes[side][number].reads.remove(index).into;
        self.ends[side].memory.insert(into.0 as u64, content);
        let work = Work::Read(into);
        self.ends[side].endpoint.handle(Input::Completed { on: QueuePair(number as u8), work });
    }

    /// Offers a free slot of the receiver, number 1.
    fn offer(&mut self) {
        let end = &mut self.ends[1];
        if let Some(slot) = end.free.pop() {
            end.held.insert(SlotId(slot));
            end.endpoint.handle(Input::Offer { slot: SlotId(slot), address: slot as u64, key: 1, len: SLOT_LEN });
        }
    }

    /// Sends `content` from a free slot of the sender, number 0.
    fn give(&mut self, content: u64) -> bool {
        let end = &mut self.ends[0];
        let Some(slot) = end.free.pop() else { return false };
        end.held.insert(SlotId(slot));
        end.memory.insert(slot as u64, content);
        let header = RecordHeader::new(&content.to_be_bytes()).expect("short");
        let source = Source { key: 7, address: slot as u64 };
        end.endpoint.handle(Input::Send { slot: SlotId(slot), source, len: SLOT_LEN, header });
        true
    }

    /// Runs `transfers` of `blocks` each, in random order of what may happen; stops after `most` steps.
    fn run(&mut self, transfers: u32, blocks: u64, most: u64) {
        let (mut given, mut marked, mut steps) = (0, 0, 0);
        while self.ends[1].ended < transfers && steps < most && self.ends.iter().all(|end| end.broken.is_none()) {
            steps += 1;
            match self.rng.below(4) {
                0 if marked < transfers && given < blocks => given += u64::from(self.give(u64::from(marked) * blocks + given)),
                0 if marked < transfers => {
                    self.ends[0].endpoint.handle(Input::Mark(RecordHeader::new(b"end").expect("short")));
                    (given, marked) = (0, marked + 1);
                }
                1 => self.offer(),
                _ => drop(self.step()),
            }
            self.settle();
        }
    }
}

#[test]
fn every_block_of_every_transfer_arrives_once_in_a_slot_that_was_offered_over_many_seeds() {
    for seed in 0..2000 {
        let (queue_pairs, credits) = (1 + (seed % 8) as u8, 1 + (seed % 11) as u16);
        let mut world = World::new(seed, queue_pairs, credits, 3 + (seed % 9) as usize, None);
        world.run(4, seed % 30, 1 << 20);
        assert_eq!(world.ends[1].ended, 4, "seed {seed}");
        let mut got = world.ends[1].got.clone();
        got.sort_unstable();
        let blocks = seed % 30;
        let all: Vec<_> = (0..4).flat_map(|t| (0..blocks).map(move |i| (t, u64::from(t) * blocks + i))).collect();
        assert_eq!(got, all, "seed {seed}");
        world.run_out();
        assert!(world.ends[0].held.is_empty(), "seed {seed}: the sender's slots are all back");
        assert!(world.ends.iter().all(|end| end.endpoint.is_idle()), "seed {seed}: nothing is left to do");
        let is_told = world.settings.placement == Placement::Read;
        assert_eq!(world.ends[0].taken > 0, is_told, "seed {seed}: the sender closes what it told once the last mark is past");
        assert_eq!(world.ends[0].endpoint.withdraw(), None);
    }
}

#[test]
fn after_a_lost_peer_each_end_gives_back_exactly_the_slots_that_it_holds() {
    let mut lost_in_flight = 0;
    for seed in 0..1000 {
        let mut world = World::new(seed, 1 + (seed % 4) as u8, 4, 8, None);
        world.run(3, 12, 20 + seed % 200);
        for end in &mut world.ends {
            let mut back = BTreeSet::new();
            while let Some(slot) = end.endpoint.withdraw() {
                assert!(back.insert(slot), "seed {seed}: {slot:?} twice");
            }
            lost_in_flight += back.len();
            assert_eq!(back, end.held, "seed {seed}");
        }
    }
    assert!(lost_in_flight > 1000, "{lost_in_flight}");
}

#[test]
fn a_lying_peer_breaks_its_own_channel_and_never_moves_a_slot_that_was_not_offered() {
    let mut caught = BTreeMap::new();
    for seed in 0..4000 {
        let mut world = World::new(seed, 2, 4, 6, None);
        world.run(3, 10, 30 + seed % 100);
        // The honest check of contents means nothing now.
        world.ends[0].broken = Some(Violation::NoRecord);
        // From here the sender says what it likes; what was begun goes on meanwhile, reads among it.
        for _ in 0..80 {
            // Of the last credits mostly, since of others nothing is believed.
            let gave = &world.ends[1].gave;
            let back = world.rng.below(5) as usize;
            let credit = gave.len().checked_sub(1 + back).map_or(back as u32, |at| gave[at]);
            let credit = if world.rng.below(8) == 0 { world.rng.below(40) as u32 } else { credit };
            let header = RecordHeader::new(&0u64.to_be_bytes()).expect("short");
            let on = QueuePair(world.rng.below(2) as u8);
            let len = if world.rng.below(4) == 0 { world.rng.below(2000) as u32 } else { SLOT_LEN };
            let reads = world.settings.placement == Placement::Read;
            let announcement = Announcement { credit, len, header };
            let input = match world.rng.below(9) {
                0 if reads => {
                    let record = Record::Filled(announcement, Source { key: 7, address: 1 << 40 });
                    Input::Received { on, record }
                }
                0 => Input::Received { on, record: Record::Block(announcement) },
                1 if world.settings.placement == Placement::Immediate => Input::Written { on, credit, len },
                1 if reads && world.rng.below(8) == 0 => Input::Received { on, record: Record::Done(vec![credit]) },
                1 if world.rng.below(8) == 0 => Input::Written { on, credit, len: 0 },
                2 => {
                    let end = &world.ends[1];
                    let arrived = end.got.iter().filter(|(transfer, _)| *transfer == end.ended).count() as u64;
                    let blocks = arrived + world.rng.below(3);
                    Input::Received { on, record: Record::Mark { credit, blocks, header } }
                }
                3 => {
                    let credits = vec![Credit { number: 0, key: 0, address: 0, len }; world.rng.below(6) as usize];
                    Input::Received { on, record: Record::Credits { transfer: world.rng.below(3) as u32, credits } }
                }
                other => {
                    match other {
                        4..=5 => world.offer(),
                        _ => drop(world.step()),
                    }
                    world.settle();
                    continue;
                }
            };
            if world.ends[1].broken.is_some() {
                break;
            }
            world.ends[1].endpoint.handle(input);
            world.settle();
        }
        if let Some(violation) = world.ends[1].broken {
            *caught.entry(violation.to_string()).or_insert(0) += 1;
        }
        let mut back = BTreeSet::new();
        while let Some(slot) = world.ends[1].endpoint.withdraw() {
            back.insert(slot);
        }
        assert_eq!(back, world.ends[1].held, "seed {seed}");
    }
    assert!(caught.len() >= 5 && caught.values().sum::<u32>() > 3000, "{caught:?}");
}

/// Of three credits of blocks that are read: one for the mark of a single block, two for blocks, of which one says the mark's.
#[test]
fn a_block_may_not_use_the_credit_of_the_mark_before_it() {
    let header = RecordHeader::new(b"any").expect("short");
    let on = QueuePair(0);
    let source = Source { key: 7, address: 1 << 40 };
    let mark = |credit| Input::Received { on, record: Record::Mark { credit, blocks: 1, header } };
    let filled = |credit| {
        let record = Record::Filled(Announcement { credit, len: SLOT_LEN, header }, source);
        Input::Received { on, record }
    };
    for said in [vec![mark(1), filled(2), filled(1)], vec![mark(1), filled(1)], vec![filled(1), mark(1)]] {
        let mut world = World::new(2, 1, 3, 3, None);
        (0..3).for_each(|_| world.offer());
        // The first word of the end that connected has the other give its credits.
        world.run_out();
        assert_eq!(world.ends[1].gave, [0, 1, 2]);
        world.ends[0].broken = Some(Violation::NoRecord);
        said.into_iter().for_each(|input| world.ends[1].endpoint.handle(input));
        world.run_out();
        assert!(matches!(world.ends[1].broken, Some(Violation::UnknownCredit | Violation::WrongMark)));
        assert_eq!((world.ends[1].ended, world.ends[1].held.len()), (0, 3), "no slot comes back before the queue pairs are gone");
    }
}

#[test]
fn as_many_blocks_move_in_a_round_trip_as_there_are_credits_and_in_two_where_they_are_read() {
    let delay = Span::from_millis(40);
    for (credits, seed, trips) in [(1u16, 1, 1.0), (4, 1, 1.0), (16, 1, 1.0), (1, 2, 2.0), (4, 2, 2.0), (16, 2, 2.0)] {
        let mut world = World::new(seed, 1, credits, 64, Some(delay));
        for content in 0..32 {
            world.give(content);
        }
        world.settle();
        while world.ends[1].got.len() < 32 {
            while world.ends[1].held.len() < usize::from(credits) {
                world.offer();
            }
            world.settle();
            assert!(world.step());
            world.settle();
        }
        let round_trips = world.now.since(Time::ZERO).as_millis_f64() / (2.0 * delay.as_millis_f64());
        let least = trips * 32.0 / f64::from(credits);
        assert!((least - 0.5..=least + 1.5).contains(&round_trips), "{credits} credits: {round_trips} round trips, not {least}");
    }
}

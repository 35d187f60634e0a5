//! Two ends of a channel in virtual time: queue pairs of different delay, blocks written and read,
//! several transfers, a peer that dies, a peer that lies.

mod honest;
mod lies;

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
    /// RDMA READs of its sender's: when each finds what it reads, by when it brings that, and what
    /// it has found.
    reads: Vec<Fetch>,
}

/// One RDMA READ.
struct Fetch {
    finds: Time,
    brings: Time,
    from: BlockSource,
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
    exposed: BTreeMap<SlotId, u32>,
    /// How often it was told that nothing of what is over is lent.
    taken: u32,
    /// The numbers of the credits that it gave.
    gave: Vec<u32>,
    broken: Option<Violation>,
}

struct World {
    now: Time,
    rng: Rng,
    settings: EndpointSettings,
    ends: [End; 2],
    /// By sender, then queue pair.
    lanes: [Vec<Lane>; 2],
}

impl World {
    fn new(seed: u64, queue_pairs: u8, credits: u16, slots: usize, delay: Option<Span>) -> World {
        let mut rng = Rng::new(seed);
        let placement =
            [Placement::Immediate, Placement::Behind, Placement::Read][(seed % 3) as usize];
        let settings = EndpointSettings { queue_pairs, credits, placement, connected: true };
        let end = |connected| End {
            endpoint: Endpoint::new(EndpointSettings { connected, ..settings }),
            memory: BTreeMap::new(),
            free: (0..slots).collect(),
            held: BTreeSet::new(),
            got: Vec::new(),
            ended: 0,
            marked: 0,
            exposed: BTreeMap::new(),
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
        World {
            now: Time::ZERO,
            rng,
            settings,
            ends: [end(!seed.is_multiple_of(5)), end(seed.is_multiple_of(5))],
            lanes,
        }
    }

    /// Carries out what both machines ask for.
    fn drain(&mut self) {
        for side in [0, 1] {
            while let Some(output) = self.ends[side].endpoint.poll() {
                self.execute(side, output);
            }
        }
    }

    fn execute(&mut self, side: usize, output: Output) {
        if let Output::Sent(slot)
        | Output::Returned(slot)
        | Output::Arrived { slot, .. }
        | Output::Ended { slot, .. } = &output
        {
            let reads = self.lanes[side].iter().flat_map(|lane| &lane.reads);
            assert!(
                reads.into_iter().all(|read| read.into != *slot),
                "{slot:?} comes back while it is read into"
            );
        }
        let end = &mut self.ends[side];
        match output {
            Output::Post { on, record } => {
                if let Record::Credits { credits, .. } = &record {
                    end.gave.extend(credits.iter().map(|credit| credit.number));
                }
                match &record {
                    Record::Filled(_, source) => {
                        end.exposed.insert(SlotId(source.address as usize), end.marked);
                    }
                    Record::Mark { .. } => end.marked += 1,
                    Record::Credits { credits, .. }
                        if self.settings.placement == Placement::Read =>
                    {
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
                assert!(
                    len <= SLOT_LEN && end.held.contains(&into),
                    "a read into memory that was not offered"
                );
                let lane = &mut self.lanes[side][usize::from(on.0)];
                let finds = self.now + lane.delay;
                lane.reads.push(Fetch {
                    finds,
                    brings: finds + lane.delay,
                    from,
                    into,
                    content: None,
                });
                self.assert_room(side, on);
            }
            Output::Taken => {
                assert!(
                    end.exposed.values().all(|&before| before == end.marked),
                    "a slot of a transfer that is over is lent still"
                );
                end.taken += 1;
            }
            Output::Sent(slot) | Output::Returned(slot) => {
                assert!(end.held.remove(&slot), "{slot:?} came back twice");
                end.exposed.remove(&slot);
                end.free.push(slot.0);
            }
            Output::Arrived { slot, len, header } => {
                assert!(end.held.remove(&slot), "{slot:?} came back twice");
                assert!(len <= SLOT_LEN);
                end.free.push(slot.0);
                let told = u64::from_be_bytes(header.as_bytes().try_into().unwrap_or_default());
                if self.ends.iter().all(|end| end.broken.is_none()) {
                    assert_eq!(
                        self.ends[side].memory[&(slot.0 as u64)],
                        told,
                        "another block than announced"
                    );
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
            .filter_map(|(side, number)| {
                self.lanes[side][number].queue.front().map(|(at, ..)| (*at, side, number))
            })
            .min();
        let is_before = |at: Time| next.is_none_or(|(next, ..)| at <= next);
        if let Some((at, side, number, index)) = self.next_fetch().filter(|&(at, ..)| is_before(at))
        {
            self.now = at;
            self.fetch(side, number, index);
            return true;
        }
        let Some((at, side, number)) = next else { return false };
        self.now = at;
        let on = QueuePair(number as u8);
        let Some((_, packet, slot)) = self.lanes[side][number].queue.pop_front() else {
            return false;
        };
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
        let work = slot.map_or(WorkRequest::Record, WorkRequest::Write);
        self.ends[side].endpoint.handle(Input::Completed { on, work });
        true
    }

    /// Delivers all that is on its way, and what comes of it.
    fn run_out(&mut self) {
        self.drain();
        while self.step() {
            self.drain();
        }
    }

    /// The RDMA READ that finds or brings something next.
    fn next_fetch(&self) -> Option<(Time, usize, usize, usize)> {
        let lanes = (0..2).flat_map(|side| {
            self.lanes[side].iter().enumerate().map(move |(number, lane)| (side, number, lane))
        });
        let at = |fetch: &Fetch| if fetch.content.is_none() { fetch.finds } else { fetch.brings };
        lanes
            .flat_map(|(side, number, lane)| {
                lane.reads.iter().enumerate().map(move |(i, read)| (at(read), side, number, i))
            })
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
        let work = WorkRequest::Read(into);
        self.ends[side].endpoint.handle(Input::Completed { on: QueuePair(number as u8), work });
    }

    /// Offers a free slot of the receiver, number 1.
    fn offer(&mut self) {
        let end = &mut self.ends[1];
        if let Some(slot) = end.free.pop() {
            end.held.insert(SlotId(slot));
            end.endpoint.handle(Input::Offer {
                slot: SlotId(slot),
                address: slot as u64,
                key: 1,
                len: SLOT_LEN,
            });
        }
    }

    /// Sends `content` from a free slot of the sender, number 0.
    fn give(&mut self, content: u64) -> bool {
        let end = &mut self.ends[0];
        let Some(slot) = end.free.pop() else { return false };
        end.held.insert(SlotId(slot));
        end.memory.insert(slot as u64, content);
        let header = RecordHeader::new(&content.to_be_bytes()).expect("short");
        let source = BlockSource { key: 7, address: slot as u64 };
        end.endpoint.handle(Input::Send { slot: SlotId(slot), source, len: SLOT_LEN, header });
        true
    }

    /// Runs `transfers` of `blocks` each, in random order of what may happen; stops after `most`
    /// steps.
    fn run(&mut self, transfers: u32, blocks: u64, most: u64) {
        let (mut given, mut marked, mut steps) = (0, 0, 0);
        while self.ends[1].ended < transfers
            && steps < most
            && self.ends.iter().all(|end| end.broken.is_none())
        {
            steps += 1;
            match self.rng.below(4) {
                0 if marked < transfers && given < blocks => {
                    given += u64::from(self.give(u64::from(marked) * blocks + given))
                }
                0 if marked < transfers => {
                    self.ends[0]
                        .endpoint
                        .handle(Input::Mark(RecordHeader::new(b"end").expect("short")));
                    (given, marked) = (0, marked + 1);
                }
                1 => self.offer(),
                _ => drop(self.step()),
            }
            self.drain();
        }
    }
}

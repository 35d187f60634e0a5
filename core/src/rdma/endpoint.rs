//! One end of an RDMA channel as a machine: credits out, credits in, and what each completion means.
//!
//! `handle(input)`, then `poll()` until [`None`]. No clock: the device keeps the timeouts, and reports them as lost connections. Each
//! direction counts *transfers*, from one end-of-data mark to the next: a mark takes every unused credit back, those on their
//! way too, so that no slot is written to that has gone to another use.
//!
//! No message is ever sent that finds no receive posted. Every message but the first of a queue pair rides on a credit: two for a
//! block, one for a mark, one at most to advertise; [`Settings::receives`] is what that adds up to.

use super::record::{Announcement, Credit, Record, RecordHeader};
use super::{Placement, QueuePair};
use crate::transfer::SlotId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

/// What both ends agreed on when they connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How many queue pairs the channel has.
    pub queue_pairs: u8,
    /// The most slots that either end may advertise.
    pub credits: u16,
    /// How blocks are placed.
    pub placement: Placement,
    /// Whether this end connected. It speaks first on each queue pair, as iWARP demands (RFC 5044, section 7.1.3).
    pub connected: bool,
}

impl Settings {
    /// Receives that must stay posted on each queue pair: two for each block on its way, one for each advertising record. Of these
    /// there may be twice as many as credits, since those of a transfer that is over may still lie unread.
    pub fn receives(&self) -> usize {
        4 * usize::from(self.credits) + 2
    }

    /// Work requests that each send queue must hold.
    pub fn sends(&self) -> usize {
        4 * usize::from(self.credits) + 4
    }
}

/// A work request of this end, once it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A record was sent.
    Record,
    /// A block was written; the device needs its slot no more.
    Write(SlotId),
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The caller has an empty slot to receive into.
    Offer {
        /// The slot.
        slot: SlotId,
        /// Where it lies, and the key by which the peer may write there.
        address: u64,
        /// The key.
        key: u32,
        /// Its length in bytes.
        len: u32,
    },
    /// The caller has a full slot to send.
    Send {
        /// The slot.
        slot: SlotId,
        /// How many bytes of it, from its start.
        len: u32,
        /// The header to go with them.
        header: RecordHeader,
    },
    /// The caller's transfer is over.
    Mark(RecordHeader),
    /// A message came, and its receive was posted again.
    Received {
        /// On which queue pair.
        on: QueuePair,
        /// What it says.
        record: Record,
    },
    /// The device says that a block was written with an immediate, whose receive was posted again.
    Written {
        /// On which queue pair.
        on: QueuePair,
        /// The immediate.
        credit: u32,
        /// How many bytes.
        len: u32,
    },
    /// A work request of this end is done.
    Completed {
        /// On which queue pair.
        on: QueuePair,
        /// Which.
        work: Work,
    },
}

/// What to do, or what is so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send a record.
    Post {
        /// On which queue pair.
        on: QueuePair,
        /// The record.
        record: Record,
    },
    /// Write a block.
    Write {
        /// On which queue pair.
        on: QueuePair,
        /// The slot that holds it.
        slot: SlotId,
        /// Its length in bytes.
        len: u32,
        /// Where to.
        to: Credit,
        /// Whether the credit's number goes with it as the immediate.
        immediate: bool,
    },
    /// The channel needs this sent slot no more.
    Sent(SlotId),
    /// A block lies in an offered slot, which is the caller's again.
    Arrived {
        /// The slot.
        slot: SlotId,
        /// How many bytes, from its start.
        len: u32,
        /// The header that came with them.
        header: RecordHeader,
    },
    /// The peer's transfer is over.
    Ended {
        /// An offered slot, which comes back unused.
        slot: SlotId,
        /// The mark's header.
        header: RecordHeader,
    },
    /// An offered slot comes back unused.
    Returned(SlotId),
    /// The peer broke the protocol: the channel is of no more use, and [`Endpoint::withdraw`] gives its slots back.
    Broken(Violation),
}

/// How a peer broke the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A message that is no record.
    NoRecord,
    /// A credit that was not given, or was used already.
    UnknownCredit,
    /// Another number of bytes than announced, or more than the slot holds.
    WrongLength,
    /// A write that was not announced on its queue pair.
    NotAnnounced,
    /// More credits than agreed, or of a transfer that has not begun.
    WrongCredits,
    /// An end-of-data mark that does not fit what came before it.
    WrongMark,
    /// A slot that is too short for the blocks that were agreed on.
    ShortSlot,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Violation::NoRecord => "the peer sent a message that means nothing",
            Violation::UnknownCredit => "the peer used a slot that it was not given",
            Violation::WrongLength => "the peer wrote another number of bytes than it announced",
            Violation::NotAnnounced => "the peer wrote a block that it had not announced",
            Violation::WrongCredits => "the peer gave more slots than agreed",
            Violation::WrongMark => "the peer's end-of-data mark does not fit what it sent",
            Violation::ShortSlot => "the peer offers slots that are too short for a block",
        })
    }
}

impl std::error::Error for Violation {}

/// What the caller wants sent, and waits for a credit.
#[derive(Clone, Copy, Debug)]
enum Job {
    Block { slot: SlotId, len: u32, header: RecordHeader },
    Mark(RecordHeader),
}

/// An advertised slot.
#[derive(Clone, Copy, Debug)]
struct Advertised {
    slot: SlotId,
    len: u32,
    announced: Option<(QueuePair, Announcement)>,
}

#[derive(Clone, Debug, Default)]
struct Pair {
    /// Whether this end may speak on it: the end that connected speaks first.
    may_speak: bool,
    /// Work requests that are not done.
    under_way: usize,
}

/// The mark of the peer's transfer, which may have come before its last blocks.
#[derive(Clone, Copy, Debug)]
struct PeerMark {
    credit: u32,
    blocks: u64,
    header: RecordHeader,
}

/// One end of a channel.
#[derive(Debug)]
pub struct Endpoint {
    settings: Settings,
    pairs: Vec<Pair>,
    outputs: VecDeque<Output>,
    broken: bool,
    // What this end sends.
    transfer: u32,
    credits: VecDeque<Credit>,
    jobs: VecDeque<Job>,
    writing: BTreeSet<SlotId>,
    blocks: u64,
    // What this end receives.
    peers_transfer: u32,
    next_number: u32,
    offered: VecDeque<(SlotId, Credit)>,
    advertised: BTreeMap<u32, Advertised>,
    arrived: u64,
    mark: Option<PeerMark>,
}

impl Endpoint {
    /// One end of a channel whose queue pairs are all connected.
    pub fn new(settings: Settings) -> Endpoint {
        let mut pairs = vec![Pair { may_speak: settings.connected, under_way: 0 }; usize::from(settings.queue_pairs.max(1))];
        let mut outputs = VecDeque::new();
        if settings.connected {
            for (number, pair) in pairs.iter_mut().enumerate() {
                pair.under_way = 1;
                let record = Record::Credits { transfer: 0, credits: Vec::new() };
                outputs.push_back(Output::Post { on: QueuePair(number as u8), record });
            }
        }
        Endpoint {
            settings,
            pairs,
            outputs,
            broken: false,
            transfer: 0,
            credits: VecDeque::new(),
            jobs: VecDeque::new(),
            writing: BTreeSet::new(),
            blocks: 0,
            peers_transfer: 0,
            next_number: 0,
            offered: VecDeque::new(),
            advertised: BTreeMap::new(),
            arrived: 0,
            mark: None,
        }
    }

    /// Takes in what happened. After a violation nothing counts any more.
    pub fn handle(&mut self, input: Input) {
        if self.broken {
            if let Input::Offer { slot, .. } | Input::Send { slot, .. } = input {
                self.writing.insert(slot);
            }
            return;
        }
        let result = match input {
            Input::Offer { slot, address, key, len } => {
                self.offered.push_back((slot, Credit { number: 0, key, address, len }));
                Ok(())
            }
            Input::Send { slot, len, header } => {
                self.jobs.push_back(Job::Block { slot, len, header });
                Ok(())
            }
            Input::Mark(header) => {
                self.jobs.push_back(Job::Mark(header));
                Ok(())
            }
            Input::Received { on, record } => self.received(on, record),
            Input::Written { on, credit, len } => self.written(on, credit, len),
            Input::Completed { on, work } => {
                if let Some(pair) = self.pairs.get_mut(usize::from(on.0)) {
                    pair.under_way = pair.under_way.saturating_sub(1);
                }
                if let Work::Write(slot) = work
                    && self.writing.remove(&slot)
                {
                    self.outputs.push_back(Output::Sent(slot));
                }
                Ok(())
            }
        };
        if let Err(violation) = result {
            self.broken = true;
            self.outputs.push_back(Output::Broken(violation));
        }
    }

    /// What to do next; `None` until something happens.
    pub fn poll(&mut self) -> Option<Output> {
        if self.outputs.is_empty() && !self.broken {
            self.advertise();
            self.carry();
        }
        self.outputs.pop_front()
    }

    /// Whether something waits for a credit, or for room in a send queue.
    pub fn has_waiting(&self) -> bool {
        !self.broken && !self.jobs.is_empty()
    }

    /// Whether all that was to be sent has arrived at the peer's device.
    pub fn is_idle(&self) -> bool {
        self.broken || (self.jobs.is_empty() && self.outputs.is_empty() && self.pairs.iter().all(|pair| pair.under_way == 0))
    }

    /// Takes back a slot of a channel whose queue pairs are gone.
    pub fn withdraw(&mut self) -> Option<SlotId> {
        self.broken = true;
        self.outputs.clear();
        let job = self.jobs.iter().position(|job| matches!(job, Job::Block { .. })).and_then(|at| self.jobs.remove(at));
        if let Some(Job::Block { slot, .. }) = job {
            return Some(slot);
        }
        let advertised = |endpoint: &mut Endpoint| endpoint.advertised.pop_first().map(|(_, advertised)| advertised.slot);
        let written = self.writing.pop_first().or_else(|| advertised(self));
        written.or_else(|| self.offered.pop_front().map(|(slot, _)| slot))
    }

    fn received(&mut self, on: QueuePair, record: Record) -> Result<(), Violation> {
        if let Some(pair) = self.pairs.get_mut(usize::from(on.0)) {
            pair.may_speak = true;
        }
        match record {
            Record::Credits { transfer, credits } => {
                if transfer < self.transfer {
                    // They crossed the mark that took them back.
                    return Ok(());
                }
                if transfer > self.transfer || self.credits.len() + credits.len() > usize::from(self.settings.credits) {
                    return Err(Violation::WrongCredits);
                }
                self.credits.extend(credits);
                Ok(())
            }
            Record::Block(announcement) => {
                let advertised = self.advertised.get_mut(&announcement.credit).ok_or(Violation::UnknownCredit)?;
                if advertised.announced.is_some() {
                    return Err(Violation::UnknownCredit);
                }
                if announcement.len > advertised.len {
                    return Err(Violation::WrongLength);
                }
                advertised.announced = Some((on, announcement));
                match self.settings.placement {
                    Placement::Immediate => Ok(()),
                    Placement::Behind => self.written(on, announcement.credit, announcement.len),
                }
            }
            Record::Mark { credit, blocks, header } => {
                let free = self.advertised.get(&credit).is_some_and(|advertised| advertised.announced.is_none());
                if self.mark.is_some() || !free {
                    return Err(Violation::WrongMark);
                }
                self.mark = Some(PeerMark { credit, blocks, header });
                self.end_if_whole()
            }
        }
    }

    fn written(&mut self, on: QueuePair, credit: u32, len: u32) -> Result<(), Violation> {
        let advertised = self.advertised.get(&credit).ok_or(Violation::UnknownCredit)?;
        let Some((_, announcement)) = advertised.announced.filter(|(announced, _)| *announced == on) else {
            return Err(Violation::NotAnnounced);
        };
        if announcement.len != len {
            return Err(Violation::WrongLength);
        }
        let slot = advertised.slot;
        self.advertised.remove(&credit);
        self.arrived += 1;
        self.outputs.push_back(Output::Arrived { slot, len, header: announcement.header });
        self.end_if_whole()
    }

    fn end_if_whole(&mut self) -> Result<(), Violation> {
        let Some(mark) = self.mark else { return Ok(()) };
        if self.arrived > mark.blocks {
            return Err(Violation::WrongMark);
        }
        if self.arrived < mark.blocks {
            return Ok(());
        }
        let Some(ended) = self.advertised.remove(&mark.credit) else { return Err(Violation::WrongMark) };
        if self.advertised.values().any(|advertised| advertised.announced.is_some()) {
            self.advertised.insert(mark.credit, ended);
            return Err(Violation::WrongMark);
        }
        self.outputs.push_back(Output::Ended { slot: ended.slot, header: mark.header });
        let unused = std::mem::take(&mut self.advertised).into_values().map(|advertised| advertised.slot);
        let unused = unused.chain(self.offered.drain(..).map(|(slot, _)| slot));
        self.outputs.extend(unused.map(Output::Returned));
        (self.mark, self.arrived) = (None, 0);
        self.peers_transfer = self.peers_transfer.wrapping_add(1);
        Ok(())
    }

    /// Tells the peer of offered slots, many at once where there are many.
    fn advertise(&mut self) {
        let room = usize::from(self.settings.credits).saturating_sub(self.advertised.len());
        let count = self.offered.len().min(room).min(Record::CREDITS_MOST);
        if count == 0 || !self.has_room(0, 1) {
            return;
        }
        let mut credits = Vec::with_capacity(count);
        for (slot, credit) in self.offered.drain(..count) {
            let number = self.next_number;
            self.next_number = number.wrapping_add(1);
            self.advertised.insert(number, Advertised { slot, len: credit.len, announced: None });
            credits.push(Credit { number, ..credit });
        }
        self.post(QueuePair(0), Record::Credits { transfer: self.peers_transfer, credits });
    }

    /// Sends what waits, while there are credits.
    fn carry(&mut self) {
        let Some(&job) = self.jobs.front() else { return };
        let Some(&to) = self.credits.front() else { return };
        match job {
            Job::Block { len, .. } if len > to.len => {
                self.broken = true;
                self.outputs.push_back(Output::Broken(Violation::ShortSlot));
            }
            Job::Block { slot, len, header } => {
                let open = (0..self.pairs.len()).filter(|&number| self.has_room(number, 2));
                let Some(number) = open.min_by_key(|&number| self.pairs[number].under_way) else { return };
                let on = QueuePair(number as u8);
                let record = Record::Block(Announcement { credit: to.number, len, header });
                let immediate = self.settings.placement == Placement::Immediate;
                let write = Output::Write { on, slot, len, to, immediate };
                self.pairs[number].under_way += 1;
                self.writing.insert(slot);
                self.blocks += 1;
                if immediate {
                    self.post(on, record);
                    self.outputs.push_back(write);
                } else {
                    self.outputs.push_back(write);
                    self.post(on, record);
                }
                self.jobs.pop_front();
                self.credits.pop_front();
            }
            Job::Mark(header) => {
                if !self.has_room(0, 1) {
                    return;
                }
                self.post(QueuePair(0), Record::Mark { credit: to.number, blocks: self.blocks, header });
                self.jobs.pop_front();
                self.credits.clear();
                self.blocks = 0;
                self.transfer = self.transfer.wrapping_add(1);
            }
        }
    }

    fn has_room(&self, number: usize, for_work: usize) -> bool {
        self.pairs[number].may_speak && self.pairs[number].under_way + for_work <= self.settings.sends()
    }

    fn post(&mut self, on: QueuePair, record: Record) {
        self.pairs[usize::from(on.0)].under_way += 1;
        self.outputs.push_back(Output::Post { on, record });
    }
}

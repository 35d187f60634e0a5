//! One end of an RDMA channel as a machine: credits out, credits in, and what each completion
//! means.
//!
//! `handle(input)`, then `poll()` until [`None`]. No clock: the device keeps the timeouts, and
//! reports them as lost connections. Each direction counts *transfers*, from one end-of-data mark
//! to the next: a mark takes every unused credit back, those on their way too, so that no slot is
//! written to that has gone to another use.
//!
//! No message is ever sent that finds no receive posted. Every message but the first of a queue
//! pair rides on a credit: two for a block, one for a mark, one at most to advertise;
//! [`EndpointSettings::receives`] is what that adds up to. Where blocks are read one of a block's
//! two is the receiver's word that it has, and a sender lends no more slots than there are credits.

mod receiving;
mod sending;

use super::events::{Input, Output, Violation, WorkRequest};
use super::record::{Announcement, BlockSource, Credit, Record, RecordHeader};
use super::{Placement, QueuePair};
use crate::transfer::SlotId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What both ends agreed on when they connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointSettings {
    /// How many queue pairs the channel has.
    pub queue_pairs: u8,
    /// The most slots that either end may advertise.
    pub credits: u16,
    /// How blocks are placed.
    pub placement: Placement,
    /// Whether this end connected. It speaks first on each queue pair, as iWARP demands (RFC 5044,
    /// section 7.1.3).
    pub connected: bool,
}

impl EndpointSettings {
    /// Receives that must stay posted on each queue pair: two for each block on its way, one for
    /// each advertising record. Of these there may be twice as many as credits, since those of a
    /// transfer that is over may still lie unread.
    pub fn receives(&self) -> usize {
        4 * usize::from(self.credits) + 2
    }

    /// Work requests that each send queue must hold.
    pub fn sends(&self) -> usize {
        4 * usize::from(self.credits) + 4
    }
}

/// What the caller wants sent, and waits for a credit.
#[derive(Clone, Copy, Debug)]
enum Job {
    Block { slot: SlotId, source: BlockSource, len: u32, header: RecordHeader },
    Mark(RecordHeader),
}

/// An advertised slot.
#[derive(Clone, Copy, Debug)]
struct Advertised {
    slot: SlotId,
    len: u32,
    announced: Option<(QueuePair, Announcement)>,
}

/// A slot that the peer may read.
#[derive(Clone, Copy, Debug)]
struct ExposedBuffer {
    slot: SlotId,
    transfer: u32,
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
    settings: EndpointSettings,
    pairs: Vec<Pair>,
    outputs: VecDeque<Output>,
    broken: bool,
    // What this end sends.
    transfer: u32,
    credits: VecDeque<Credit>,
    jobs: VecDeque<Job>,
    writing: BTreeSet<SlotId>,
    /// By the credit that each block uses.
    exposed: BTreeMap<u32, ExposedBuffer>,
    blocks: u64,
    // What this end receives.
    peers_transfer: u32,
    next_number: u32,
    offered: VecDeque<(SlotId, Credit)>,
    advertised: BTreeMap<u32, Advertised>,
    /// Blocks to be read, by the credits that they use.
    to_read: VecDeque<(u32, BlockSource)>,
    /// Blocks that were read, of which the peer does not know yet.
    read: Vec<u32>,
    arrived: u64,
    mark: Option<PeerMark>,
}

impl Endpoint {
    /// One end of a channel whose queue pairs are all connected.
    pub fn new(settings: EndpointSettings) -> Endpoint {
        let mut pairs = vec![
            Pair { may_speak: settings.connected, under_way: 0 };
            usize::from(settings.queue_pairs.max(1))
        ];
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
            exposed: BTreeMap::new(),
            blocks: 0,
            peers_transfer: 0,
            next_number: 0,
            offered: VecDeque::new(),
            advertised: BTreeMap::new(),
            to_read: VecDeque::new(),
            read: Vec::new(),
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
                // Nobody is to write there where blocks are read.
                let (key, address) = if self.reads() { (0, 0) } else { (key, address) };
                self.offered.push_back((slot, Credit { number: 0, key, address, len }));
                Ok(())
            }
            Input::Send { slot, source, len, header } => {
                self.jobs.push_back(Job::Block { slot, source, len, header });
                Ok(())
            }
            Input::Mark(header) => {
                self.jobs.push_back(Job::Mark(header));
                Ok(())
            }
            Input::Received { on, record } => self.received(on, record),
            Input::Written { .. } if self.reads() => Err(Violation::NotAnnounced),
            Input::Written { on, credit, len } => self.written(on, credit, len),
            Input::Completed { on, work } => {
                if let Some(pair) = self.pairs.get_mut(usize::from(on.0)) {
                    pair.under_way = pair.under_way.saturating_sub(1);
                }
                match work {
                    WorkRequest::Record => Ok(()),
                    WorkRequest::Write(slot) => {
                        let was_writing = self.writing.remove(&slot);
                        self.outputs.extend(was_writing.then_some(Output::Sent(slot)));
                        Ok(())
                    }
                    WorkRequest::Read(slot) => self.fetched(slot),
                }
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
            self.acknowledge();
            self.advertise();
            self.fetch();
            self.carry();
        }
        self.outputs.pop_front()
    }

    /// Whether something waits for a credit, or for room in a send queue.
    pub fn has_waiting(&self) -> bool {
        !self.broken && !self.jobs.is_empty()
    }

    /// Whether all that was to be sent has arrived at the peer's device, and the peer knows what
    /// this end has read.
    pub fn is_idle(&self) -> bool {
        let is_quiet = self.jobs.is_empty()
            && self.exposed.is_empty()
            && self.read.is_empty()
            && self.outputs.is_empty();
        self.broken || (is_quiet && self.pairs.iter().all(|pair| pair.under_way == 0))
    }

    /// Takes back a slot of a channel whose queue pairs are gone.
    pub fn withdraw(&mut self) -> Option<SlotId> {
        self.broken = true;
        self.outputs.clear();
        let job = self
            .jobs
            .iter()
            .position(|job| matches!(job, Job::Block { .. }))
            .and_then(|at| self.jobs.remove(at));
        if let Some(Job::Block { slot, .. }) = job {
            return Some(slot);
        }
        let advertised = |endpoint: &mut Endpoint| {
            endpoint.advertised.pop_first().map(|(_, advertised)| advertised.slot)
        };
        let exposed =
            |endpoint: &mut Endpoint| endpoint.exposed.pop_first().map(|(_, exposed)| exposed.slot);
        let sending = self.writing.pop_first().or_else(|| exposed(self));
        sending
            .or_else(|| advertised(self))
            .or_else(|| self.offered.pop_front().map(|(slot, _)| slot))
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
                if transfer > self.transfer
                    || self.credits.len() + credits.len() > usize::from(self.settings.credits)
                {
                    return Err(Violation::WrongCredits);
                }
                self.credits.extend(credits);
                Ok(())
            }
            Record::Block(announcement) if !self.reads() => {
                self.announced(on, announcement)?;
                match self.settings.placement {
                    Placement::Behind => self.written(on, announcement.credit, announcement.len),
                    Placement::Immediate | Placement::Read => Ok(()),
                }
            }
            Record::Filled(announcement, source) if self.reads() => {
                self.announced(on, announcement)?;
                self.to_read.push_back((announcement.credit, source));
                Ok(())
            }
            Record::Done(credits) if self.reads() => {
                credits.into_iter().try_for_each(|credit| self.taken(credit))
            }
            Record::Block(_) | Record::Filled(..) | Record::Done(_) => Err(Violation::NoRecord),
            Record::Mark { credit, blocks, header } => {
                let free = self
                    .advertised
                    .get(&credit)
                    .is_some_and(|advertised| advertised.announced.is_none());
                if self.mark.is_some() || !free {
                    return Err(Violation::WrongMark);
                }
                self.mark = Some(PeerMark { credit, blocks, header });
                self.end_if_whole()
            }
        }
    }

    fn reads(&self) -> bool {
        self.settings.placement == Placement::Read
    }

    /// The queue pair with the fewest work requests of those that have room for so many more.
    fn idlest(&self, for_work: usize) -> Option<usize> {
        let open = (0..self.pairs.len()).filter(|&number| self.has_room(number, for_work));
        open.min_by_key(|&number| self.pairs[number].under_way)
    }

    fn has_room(&self, number: usize, for_work: usize) -> bool {
        self.pairs[number].may_speak
            && self.pairs[number].under_way + for_work <= self.settings.sends()
    }

    fn post(&mut self, on: QueuePair, record: Record) {
        self.pairs[usize::from(on.0)].under_way += 1;
        self.outputs.push_back(Output::Post { on, record });
    }
}

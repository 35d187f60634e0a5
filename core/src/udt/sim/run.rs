//! The clock, the two links, and what is on them.

use super::super::events::{Ended, Input, Output as End};
use super::super::handshake::SocketId;
use super::super::packet::{Content, HEADER_LEN, UdtPacket};
use super::host::{Host, hosts};
use super::scenario::UdtScenario;
use crate::congestion::Yielded;
use crate::units::{Rng, Span, Time};
use crate::wan::{EventSide, Frames, OneWayLink, Output, Packet};
use std::collections::VecDeque;

/// IP and UDP headers of IPv4.
const BELOW: u32 = 28;

/// A packet on a link.
#[derive(Clone, Debug)]
struct OnLink {
    /// The end that it is for.
    to: usize,
    content: Content,
    /// Of a data packet: where its bytes stand in the stream, and how many.
    bytes: (u64, u32),
}

/// One direction: the link, and its packets by token.
#[derive(Debug)]
struct LinkDirection {
    link: OneWayLink,
    packets: VecDeque<Option<OnLink>>,
    first_token: u64,
}

/// A run that is under way.
#[derive(Debug)]
pub struct UdtSimulation {
    now: Time,
    scenario: UdtScenario,
    /// From a to b, and back.
    ways: [LinkDirection; 2],
    /// Ends of flow `i` are `2 * i` and `2 * i + 1`.
    hosts: Vec<Host>,
    rng: Rng,
    mtu: u32,
    next_mtu: usize,
}

impl UdtSimulation {
    /// The beginning of `scenario`.
    pub fn new(scenario: &UdtScenario) -> UdtSimulation {
        let seed = Rng::new(scenario.seed);
        let way = |side: EventSide, number: u64| {
            let direction = if side == EventSide::AToB {
                &scenario.directions.0
            } else {
                &scenario.directions.1
            };
            let changes = scenario.changes.iter().copied();
            let changes = changes.filter(|&(_, on, _)| on == side || on == EventSide::Both);
            let changes = changes.map(|(at, _, change)| (at, change));
            let link = OneWayLink::new(Time::ZERO, direction, changes, &seed.fork(number));
            LinkDirection { link, packets: VecDeque::new(), first_token: 0 }
        };
        let flows = scenario.flows.iter().zip(0..);
        UdtSimulation {
            now: Time::ZERO,
            ways: [way(EventSide::AToB, 1), way(EventSide::BToA, 2)],
            hosts: flows
                .flat_map(|(flow, number)| hosts(number, flow, scenario.packet_len, &seed))
                .collect(),
            rng: seed.fork(3),
            mtu: scenario.packet_len,
            next_mtu: 0,
            scenario: scenario.clone(),
        }
    }

    /// Runs until `end`, until all flows that send have ended, or until nothing can happen any
    /// more.
    pub fn run(&mut self, end: Span) {
        let end = Time::ZERO + end;
        loop {
            for host in 0..self.hosts.len() {
                if self.hosts[host].wakes.is_some_and(|at| at <= self.now) {
                    self.pump(host);
                }
            }
            if self.is_done() {
                return;
            }
            let next = [self.deliver(0), self.deliver(1)].into_iter().flatten();
            let wakes = self.hosts.iter().filter_map(|host| host.wakes);
            let mtu = self.scenario.mtu.get(self.next_mtu).map(|&(at, ..)| Time::ZERO + at);
            let Some(next) = next.chain(wakes).chain(mtu).min().filter(|&next| next <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(next);
            if mtu.is_some_and(|at| at <= self.now) {
                self.change_mtu();
            }
        }
    }

    fn is_done(&self) -> bool {
        self.hosts.iter().all(|host| host.ended.is_some())
    }

    fn change_mtu(&mut self) {
        let (_, mtu, is_told) = self.scenario.mtu[self.next_mtu];
        self.next_mtu += 1;
        self.mtu = mtu;
        if is_told {
            for host in &mut self.hosts {
                host.connection.handle(self.now, Input::LongestDatagram(mtu - BELOW));
            }
        }
    }

    /// Has an end do what it wants to at this time.
    fn pump(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        // What came while it slept it takes in together, and does not know when each came.
        for mut input in std::mem::take(&mut host.inbox) {
            if let Input::Data { arrived, .. } = &mut input {
                *arrived = self.now;
            }
            host.connection.handle(self.now, input);
        }
        host.program(self.now);
        loop {
            match self.hosts[index].connection.poll(self.now) {
                End::Send(control) => self.send(index, Content::Control(control), (0, 0), true),
                End::SendData(data) => {
                    let content = Content::Data { sequence: data.sequence, message: data.message };
                    let bytes = (data.bytes.start, (data.bytes.end - data.bytes.start) as u32);
                    self.send(index, content, bytes, data.may_fragment);
                }
                End::Deliver { token, len } => self.delivered(index, token, len),
                End::Discard(_) | End::Acknowledged(_) => {}
                End::Ended(why) => self.hosts[index].ended = Some((why, self.now)),
                End::Wait(at) => {
                    let host = &mut self.hosts[index];
                    let program = [host.reading.front().copied(), host.writes_at];
                    let at = program.into_iter().chain([at]).flatten().min();
                    host.wakes =
                        at.map(|at| rounded_up(at.max(self.now), self.now, &self.scenario));
                    return;
                }
            }
        }
    }

    fn delivered(&mut self, index: usize, token: u64, len: u32) {
        let flow = &self.scenario.flows[index / 2];
        let (reads, begins) = (flow.reads, Time::ZERO + flow.after + flow.reads_after);
        let host = &mut self.hosts[index];
        host.misplaced += u64::from(token != host.received) * u64::from(len);
        host.received += u64::from(len);
        match reads {
            None if begins <= self.now => host.connection.handle(self.now, Input::Read(1)),
            None => host.reading.push_back(begins),
            Some(rate) => {
                let begins = begins.max(self.now);
                let begins = host.reading.back().map_or(begins, |&at| at.max(begins));
                let takes = rate.time_for(crate::units::Bytes(u64::from(len)));
                host.reading.push_back(begins + takes);
            }
        }
    }

    fn send(&mut self, from: usize, content: Content, bytes: (u64, u32), may_fragment: bool) {
        let len = match &content {
            Content::Data { .. } => HEADER_LEN as u32 + bytes.1,
            Content::Control(_) => encoded(&content).len() as u32,
        };
        // A hop that is too narrow drops what it may not cut.
        if len + BELOW > self.mtu && !may_fragment {
            return;
        }
        let way = &mut self.ways[from % 2];
        let token = way.first_token + way.packets.len() as u64;
        way.packets.push_back(Some(OnLink { to: from ^ 1, content, bytes }));
        way.link.handle(self.now, Packet { token, frames: Frames::one(len + BELOW) });
    }

    /// Takes what has arrived, and returns when to look again.
    fn deliver(&mut self, way: usize) -> Option<Time> {
        loop {
            match self.ways[way].link.poll(self.now) {
                Output::Wait(until) => return until,
                Output::Dropped { token, .. } => drop(self.ways[way].take(token)),
                Output::Deliver { token, flip, .. } => {
                    let Some(mut packet) = self.ways[way].take(token) else { continue };
                    if let Some(which) = flip {
                        match damaged(&packet.content, which) {
                            Some(content) => packet.content = content,
                            None => continue,
                        }
                    }
                    let is_twice = self.scenario.duplicates > 0.0
                        && self.rng.unit() < self.scenario.duplicates;
                    if is_twice {
                        self.arrive(packet.clone());
                    }
                    self.arrive(packet);
                }
            }
        }
    }

    fn arrive(&mut self, packet: OnLink) {
        let input = match packet.content {
            Content::Control(control) => Input::Control(control),
            Content::Data { sequence, .. } => Input::Data {
                sequence,
                len: packet.bytes.1,
                token: packet.bytes.0,
                arrived: self.now,
            },
        };
        let host = &mut self.hosts[packet.to];
        host.inbox.push(input);
        let at = rounded_up(self.now, self.now, &self.scenario);
        host.wakes = Some(host.wakes.map_or(at, |wakes| wakes.min(at)));
    }

    /// The virtual time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Bytes of flow `index` that came in order at b, and at a.
    pub fn received(&self, index: usize) -> (u64, u64) {
        (self.hosts[2 * index + 1].received, self.hosts[2 * index].received)
    }

    /// Bytes of flow `index` that were delivered in a place that was not theirs, at either end.
    pub fn misplaced(&self, index: usize) -> u64 {
        self.hosts[2 * index].misplaced + self.hosts[2 * index + 1].misplaced
    }

    /// How the connection of flow `index` ended at a, and at b, and when.
    pub fn ended(&self, index: usize) -> [Option<(Ended, Time)>; 2] {
        [self.hosts[2 * index].ended, self.hosts[2 * index + 1].ended]
    }

    /// Packets of flow `index` that a sent, each counted once.
    pub fn packets(&self, index: usize) -> u64 {
        self.hosts[2 * index].connection.packets().0
    }

    /// Packets of flow `index` that a sent again, and that came twice to b.
    pub fn repeats(&self, index: usize) -> (u64, u64) {
        let (again, _) = self.hosts[2 * index].connection.repeats();
        (again, self.hosts[2 * index + 1].connection.repeats().1)
    }

    /// Why the control of flow `index` at a gave a held rate up.
    pub fn yielded(&self, index: usize) -> Option<Yielded> {
        self.hosts[2 * index].connection.yielded()
    }
}

impl LinkDirection {
    fn take(&mut self, token: u64) -> Option<OnLink> {
        let at = usize::try_from(token.checked_sub(self.first_token)?).ok()?;
        let packet = self.packets.get_mut(at)?.take();
        while self.packets.front().is_some_and(Option::is_none) {
            self.packets.pop_front();
            self.first_token += 1;
        }
        packet
    }
}

/// When a host that sleeps until `at` wakes.
fn rounded_up(at: Time, now: Time, scenario: &UdtScenario) -> Time {
    let every = scenario.wakes_every.as_nanos();
    if every == 0 {
        return at;
    }
    let wakes = Time::from_nanos(at.as_nanos().div_ceil(every) * every);
    if wakes > now { wakes } else { wakes + scenario.wakes_every }
}

fn encoded(content: &Content) -> Vec<u8> {
    let mut bytes = Vec::new();
    UdtPacket { timestamp: 0, to: SocketId(0), content: content.clone() }.encode(&mut bytes);
    bytes
}

/// What is left of a packet in which bit `which` of what UDT wrote was flipped.
fn damaged(content: &Content, which: u64) -> Option<Content> {
    let mut bytes = encoded(content);
    let bit = which as usize % (bytes.len() * 8);
    bytes[bit / 8] ^= 1 << (bit % 8);
    if matches!(content, Content::Data { .. }) {
        bytes.push(0);
    }
    let packet = UdtPacket::decode(&bytes).ok()?;
    // What is for another end now is nobody's.
    (packet.to == SocketId(0)).then_some(packet.content)
}

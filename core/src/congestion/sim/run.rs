//! A simulation: flows, the link they share, and the clock.

use super::super::algorithm::Algorithm;
use super::super::constants::Constants;
use super::super::control::{Allowed, Start, Yielded};
use super::flow::{Flow, Point, Reduction};
use crate::units::{Rng, Span, Time};
use crate::wan::{Change, Direction, Frames, OneWayLink, Output, Packet};
use std::collections::VecDeque;
use std::ops::Range;

/// Flows over one direction of a link.
#[derive(Clone, Debug)]
pub struct FlowScenario {
    /// The link; acknowledgements take its one-way delay too.
    pub direction: Direction,
    /// What happens to the link, at spans from the beginning.
    pub changes: Vec<(Span, Change)>,
    /// One flow for each: its control, its constants, how it begins.
    pub flows: Vec<(Algorithm, Constants, Start)>,
    /// The least span between two points of a trace.
    pub sample_every: Span,
    /// The most packets that leave and are acknowledged as one train, as segmentation offload has
    /// it; 1 is exact.
    pub train: u64,
    /// Of the link's and the controls' random choices.
    pub seed: u64,
}

/// A run that is under way.
#[derive(Debug)]
pub struct Simulation {
    now: Time,
    link: OneWayLink,
    return_delay: Span,
    flows: Vec<Flow>,
    /// Of what each flow is made.
    seed: Rng,
    sample_every: Span,
    train: u64,
    /// Acknowledgements on their way: when they arrive, of which flow's packets.
    acknowledgements: VecDeque<(Time, usize, Range<u64>)>,
}

/// The flow stands above the first packet's number in a token.
const FLOW_SHIFT: u32 = 48;

impl Simulation {
    /// The beginning of `scenario`.
    pub fn new(scenario: &FlowScenario) -> Simulation {
        let now = Time::ZERO;
        let seed = Rng::new(scenario.seed);
        let link = OneWayLink::new(
            now,
            &scenario.direction,
            scenario.changes.iter().copied(),
            &seed.fork(1),
        );
        let mut simulation = Simulation {
            now,
            link,
            return_delay: scenario.direction.one_way_delay,
            flows: Vec::new(),
            seed,
            sample_every: scenario.sample_every,
            train: scenario.train,
            acknowledgements: VecDeque::new(),
        };
        for &(algorithm, set, start) in &scenario.flows {
            simulation.add(algorithm, set, start);
        }
        simulation
    }

    /// One flow more, which begins as `start` says from now on.
    pub fn add(&mut self, algorithm: Algorithm, set: Constants, start: Start) {
        let seed = self.seed.fork(100 + self.flows.len() as u64);
        let control = algorithm.control(set, start, &seed);
        let (begins, packet) = (self.now + start.after, start.packet);
        self.flows.push(Flow::new(begins, control, packet, self.sample_every, self.train));
    }

    /// Gives flow `index` another control, which goes on with the window and the threshold that
    /// there are, as Linux has it when TCP_CONGESTION is set.
    pub fn replace(&mut self, index: usize, algorithm: Algorithm, set: Constants) {
        let flow = &mut self.flows[index];
        let Allowed { window, threshold, .. } = flow.control.poll();
        let start = Start { window, threshold, packet: flow.packet, ..Start::default() };
        flow.replace(algorithm.control(set, start, &self.seed.fork(1000 + index as u64)));
    }

    /// Runs until `end`, or until `enough` says so after an acknowledgement.
    pub fn run(&mut self, end: Span, mut enough: impl FnMut(&Simulation) -> bool) {
        self.run_on(end, &mut enough);
    }

    /// The same, built once and here: what each caller has of its own is built as that caller is,
    /// of tests without optimisation.
    fn run_on(&mut self, end: Span, enough: &mut dyn FnMut(&Simulation) -> bool) {
        let end = Time::ZERO + end;
        loop {
            for index in 0..self.flows.len() {
                self.flows[index].tick(self.now);
                self.send(index);
            }
            let next = self.deliver();
            let acknowledged = self.acknowledgements.front().map(|&(at, ..)| at);
            let woken = self.flows.iter().filter_map(|flow| flow.wakes(self.now)).min();
            let Some(next) =
                [next, acknowledged, woken].into_iter().flatten().min().filter(|&next| next <= end)
            else {
                self.now = end;
                return;
            };
            self.now = self.now.max(next);
            while self.acknowledgements.front().is_some_and(|&(at, ..)| at <= self.now)
                && let Some((_, flow, numbers)) = self.acknowledgements.pop_front()
            {
                self.flows[flow].acknowledged(self.now, &numbers);
                self.send(flow);
            }
            if enough(self) {
                return;
            }
        }
    }

    fn send(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        while let Some(numbers) = flow.send(self.now) {
            let token = ((index as u64) << FLOW_SHIFT) | numbers.start;
            let packet = u32::try_from(flow.packet.0).unwrap_or(u32::MAX);
            let count = (numbers.end - numbers.start) as u32;
            let frames = Frames::train(0, count * packet, packet);
            self.link.handle(self.now, Packet { token, frames });
        }
    }

    /// Takes what has arrived and returns when to look again.
    fn deliver(&mut self) -> Option<Time> {
        loop {
            match self.link.poll(self.now) {
                Output::Deliver { token, frames, due, .. } => {
                    let first = token & ((1 << FLOW_SHIFT) - 1);
                    let numbers = first + u64::from(frames.start)..first + u64::from(frames.end);
                    self.acknowledgements.push_back((
                        due + self.return_delay,
                        (token >> FLOW_SHIFT) as usize,
                        numbers,
                    ));
                }
                Output::Dropped { .. } => {}
                Output::Wait(until) => return until,
            }
        }
    }

    /// The virtual time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The window of flow `index`, in packets.
    pub fn window(&self, index: usize) -> f64 {
        self.flows[index].control.poll().window
    }

    /// Packets of flow `index` that have arrived.
    pub fn delivered(&self, index: usize) -> u64 {
        self.flows[index].delivered
    }

    /// Packets of flow `index` that were lost.
    pub fn lost(&self, index: usize) -> u64 {
        self.flows[index].lost
    }

    /// Whether the control of flow `index` gave up a part of a rate that it was to hold.
    pub fn yielded(&self, index: usize) -> Option<Yielded> {
        self.flows[index].control.yielded()
    }

    /// The trace of flow `index`.
    pub fn trace(&self, index: usize) -> &[Point] {
        &self.flows[index].trace
    }

    /// The reductions of flow `index`, oldest first.
    pub fn reductions(&self, index: usize) -> &[Reduction] {
        &self.flows[index].reductions
    }
}

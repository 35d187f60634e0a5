//! A test of flows over a link as a list: who sends, what the packets meet on their way, who
//! receives. It runs in virtual time; one that fails prints its seed.
//!
//! ```text
//! scenario![sender(Reno), rate(mbit(15)), delay(ms(20)), tail_drop(1.0), receiver()].run(secs(20))
//! ```

use super::sim::{FlowScenario, Simulation};
use super::{Algorithm, Constants, Start};
use crate::units::{Bytes, Rate, Span};
use crate::wan::{Change, Direction};
use std::ops::Deref;

/// Bytes of Ethernet that a packet of 1500 bytes takes on the wire, preamble and gap included.
const WIRE: f64 = 1538.0;

/// One entry of the list.
pub(super) enum Part {
    /// A flow.
    Sender { algorithm: Algorithm, constants: Constants, start: Start },
    /// The link sends so fast.
    Rate(Rate),
    /// Each way takes so long.
    Delay(Span),
    /// A queue of so many bandwidth-delay products before the link; what does not fit is lost.
    TailDrop(f64),
    /// What happens to the link, so long after the beginning.
    At(Span, Change),
    /// Up to so many packets leave as one train.
    Train(u64),
    /// The least span between two points of a trace.
    Sampled(Span),
    /// Of random choices.
    Seed(u64),
    /// The end of the list: acknowledges what arrives, after the same delay.
    Receiver,
}

/// A flow with `algorithm`, Linux's constants and Linux's first window.
pub(super) fn sender(algorithm: Algorithm) -> Part {
    sender_with(algorithm, Constants::Linux, Start::default())
}

/// A flow with constants and a beginning of its own.
pub(super) fn sender_with(algorithm: Algorithm, constants: Constants, start: Start) -> Part {
    Part::Sender { algorithm, constants, start }
}

pub(super) fn rate(rate: Rate) -> Part {
    Part::Rate(rate)
}

pub(super) fn delay(each_way: Span) -> Part {
    Part::Delay(each_way)
}

/// A queue of `products` bandwidth-delay products.
pub(super) fn tail_drop(products: f64) -> Part {
    Part::TailDrop(products)
}

pub(super) fn at(after: Span, change: Change) -> Part {
    Part::At(after, change)
}

pub(super) fn train(packets: u64) -> Part {
    Part::Train(packets)
}

pub(super) fn sampled(every: Span) -> Part {
    Part::Sampled(every)
}

pub(super) fn seed(seed: u64) -> Part {
    Part::Seed(seed)
}

pub(super) fn receiver() -> Part {
    Part::Receiver
}

pub(super) fn mbit(rate: u64) -> Rate {
    Rate::from_bps(rate * 1_000_000)
}

pub(super) fn ms(span: u64) -> Span {
    Span::from_millis(span)
}

pub(super) fn secs(span: u64) -> Span {
    Span::from_secs(span)
}

/// A scenario of the parts that are listed, each a [`Part`] or several.
macro_rules! scenario {
    [$($part:expr),+ $(,)?] => {{
        let mut parts = Vec::new();
        $(parts.extend($part);)+
        $crate::congestion::scenario::Scenario::of(parts)
    }};
}
pub(super) use scenario;

impl IntoIterator for Part {
    type Item = Part;
    type IntoIter = std::iter::Once<Part>;

    fn into_iter(self) -> Self::IntoIter {
        std::iter::once(self)
    }
}

/// What is to happen.
pub(super) struct Scenario(FlowScenario);

impl Scenario {
    /// Of parts in the order in which a packet meets them.
    pub(super) fn of(parts: Vec<Part>) -> Scenario {
        assert!(matches!(parts.first(), Some(Part::Sender { .. })), "a sender comes first");
        assert!(matches!(parts.last(), Some(Part::Receiver)), "the receiver comes last");
        let mut scenario = FlowScenario {
            direction: Direction::new(mbit(1_000), Span::ZERO, Span::ZERO),
            changes: Vec::new(),
            flows: Vec::new(),
            sample_every: ms(20),
            train: 1,
            seed: 3,
        };
        let (mut speed, mut each_way, mut products) = (mbit(1_000), Span::ZERO, None);
        for part in parts {
            match part {
                Part::Sender { algorithm, constants, start } => {
                    scenario.flows.push((algorithm, constants, start));
                }
                Part::Rate(rate) => speed = rate,
                Part::Delay(delay) => each_way = delay,
                Part::TailDrop(queue) => products = Some(queue),
                Part::At(after, change) => scenario.changes.push((after, change)),
                Part::Train(packets) => scenario.train = packets,
                Part::Sampled(every) => scenario.sample_every = every,
                Part::Seed(seed) => scenario.seed = seed,
                Part::Receiver => {}
            }
        }
        let rtt = each_way + each_way;
        scenario.direction = Direction::new(speed, each_way, rtt);
        if let Some(products) = products {
            scenario.direction.queue = Bytes((speed.bytes_in(rtt).0 as f64 * products) as u64);
        }
        Scenario(scenario)
    }

    /// Runs for `span`.
    pub(super) fn run(self, span: Span) -> Run {
        self.run_until(span, |_| false)
    }

    /// Runs for `longest`, or until `enough` says so.
    pub(super) fn run_until(self, longest: Span, enough: impl FnMut(&Simulation) -> bool) -> Run {
        let mut simulation = Simulation::new(&self.0);
        simulation.run(longest, enough);
        Run { simulation, rate: self.0.direction.rate, seed: self.0.seed }
    }
}

/// What happened.
pub(super) struct Run {
    simulation: Simulation,
    rate: Rate,
    seed: u64,
}

impl Run {
    /// The part of the link that flow `index` used in the second half of its trace.
    pub(super) fn share(&self, index: usize) -> f64 {
        let trace = self.trace(index);
        let (middle, last) = (trace[trace.len() / 2], trace[trace.len() - 1]);
        let packets = (last.delivered - middle.delivered) as f64;
        packets * WIRE * 8.0 / last.at.since(middle.at).as_secs_f64() / self.rate.as_bps() as f64
    }
}

impl Deref for Run {
    type Target = Simulation;

    fn deref(&self) -> &Simulation {
        &self.simulation
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the scenario's seed: {}", self.seed);
        }
    }
}

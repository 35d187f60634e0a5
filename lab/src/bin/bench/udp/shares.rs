//! How the machines of `core` share a path in virtual time, for what is seen between real ends.

use super::flows::Kind;
use farline_core::congestion::sim::{FlowScenario, Simulation};
use farline_core::congestion::{Algorithm, Constants, SavedPath, Start};
use farline_core::statistics::jain;
use farline_core::udt::sim::{UdtFlow, UdtScenario, UdtSimulation};
use farline_core::units::{Bytes, Rate, Span};
use farline_core::wan::Direction;

/// Packets of the link.
const PACKET: u32 = 9_000;
/// More than any flow sends here.
const ENDLESS: Bytes = Bytes(1 << 50);
/// As the end that is measured has it: 128 MiB.
const ROOM: u32 = (128 << 20) / 1_500;
/// A host that has slept wakes at multiples of this: what the link's packets are late by.
const WAKES: Span = Span::from_micros(300);
/// A kernel's packets leave as trains.
const TRAIN: u64 = 4;
/// Milliseconds between the beginnings of two flows: what it takes to start one.
const APART: u64 = 200;
const SEEDS: u64 = 9;

/// The path that flows share.
#[derive(Clone, Copy)]
pub(super) struct Shared {
    pub(super) rate: Rate,
    pub(super) rtt: Span,
}

impl Shared {
    /// What each of these flows brings in so many seconds, in bit/s: of several seeds the one whose
    /// index of fairness is in the middle. `None` for flows of which no simulation has both.
    pub(super) fn flows(self, kinds: &[Kind], seconds: u32) -> Option<Vec<f64>> {
        let udt = |kind: &Kind| match *kind {
            Kind::Udt(control) => Some(control),
            Kind::Quic | Kind::Tcp(_) => None,
        };
        // QUIC's control is the machine itself.
        let by_machine = |kind: &Kind| match *kind {
            Kind::Tcp(control) => Some(control),
            Kind::Quic => Some(Algorithm::Cubic),
            Kind::Udt(_) => None,
        };
        let mut runs: Vec<Vec<f64>> = Vec::new();
        for seed in 1..=SEEDS {
            runs.push(if let Some(controls) = kinds.iter().map(udt).collect::<Option<Vec<_>>>() {
                let flows = (0..).zip(controls).map(|(index, control)| UdtFlow {
                    room: ROOM,
                    after: Span::from_millis(APART * index),
                    ..UdtFlow::of(control, ENDLESS)
                });
                self.udt(flows.collect(), seconds, seed)
            } else {
                let controls = kinds.iter().map(by_machine).collect::<Option<Vec<_>>>()?;
                self.tcp(&controls, seconds, seed)
            });
        }
        runs.sort_by(|a, b| jain(a).unwrap_or(0.0).total_cmp(&jain(b).unwrap_or(0.0)));
        Some(runs.swap_remove(runs.len() / 2))
    }

    fn udt(self, flows: Vec<UdtFlow>, seconds: u32, seed: u64) -> Vec<f64> {
        let count = flows.len();
        let mut scenario = UdtScenario::new(self.rate, self.rtt, flows);
        (scenario.packet_len, scenario.seed, scenario.wakes_every) = (PACKET, seed, WAKES);
        let mut simulation = UdtSimulation::new(&scenario);
        simulation.run(Span::from_secs(seconds.into()));
        let rate = |index| simulation.received(index).0 as f64 * 8.0 / f64::from(seconds);
        (0..count).map(rate).collect()
    }

    fn tcp(self, controls: &[Algorithm], seconds: u32, seed: u64) -> Vec<f64> {
        let begins =
            (0..).map(|index| Start { after: Span::from_millis(APART * index), ..start() });
        let flows = controls.iter().zip(begins).map(|(control, start)| (*control, start));
        let mut simulation = self.simulation(flows, seed);
        simulation.run(Span::from_secs(seconds.into()), |_| false);
        let rate = |index| {
            (simulation.delivered(index) * u64::from(PACKET) * 8) as f64 / f64::from(seconds)
        };
        (0..controls.len()).map(rate).collect()
    }

    /// The part of what it had in the three seconds before 8 s that a flow by the control `present`
    /// has from 8.5 to 11.5 s, where one of CUBIC began at 8 s: as any, or from what an earlier one
    /// saw of the path.
    pub(super) fn kept(self, present: Algorithm, saved: Option<SavedPath>) -> f64 {
        let joins = Start { after: Span::from_secs(8), saved, ..start() };
        let flows = [(present, start()), (Algorithm::Cubic, joins)];
        let mut parts: Vec<f64> = (1..=SEEDS).map(|seed| self.kept_once(flows, seed)).collect();
        parts.sort_by(f64::total_cmp);
        parts[parts.len() / 2]
    }

    fn kept_once(self, flows: [(Algorithm, Start); 2], seed: u64) -> f64 {
        let mut simulation = self.simulation(flows, seed);
        let mut by = |ms| {
            simulation.run(Span::from_millis(ms), |_| false);
            simulation.delivered(0) as f64
        };
        let [from, until, again, end] = [5_000, 8_000, 8_500, 11_500].map(&mut by);
        (end - again) / (until - from)
    }

    fn simulation(
        self,
        flows: impl IntoIterator<Item = (Algorithm, Start)>,
        seed: u64,
    ) -> Simulation {
        let there = Span::from_nanos(self.rtt.as_nanos() / 2);
        let flow = |(control, start)| (control, Constants::Linux, start);
        Simulation::new(&FlowScenario {
            direction: Direction::new(self.rate, there, self.rtt),
            changes: Vec::new(),
            flows: flows.into_iter().map(flow).collect(),
            sample_every: Span::from_secs(1),
            train: TRAIN,
            seed,
        })
    }
}

fn start() -> Start {
    Start { packet: Bytes(PACKET.into()), ..Start::default() }
}

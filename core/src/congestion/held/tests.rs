//! A held rate over a path of its own, and over paths that are not, in virtual time.

use super::*;
use crate::congestion::scenario::{mbit, ms, secs};
use crate::congestion::sim::{FlowScenario, Simulation};
use crate::congestion::{Algorithm, Constants};
use crate::units::Rng;
use crate::wan::{Change, Direction};

/// Bits on the wire of a packet of 1500 bytes.
const WIRE_BITS: f64 = 1538.0 * 8.0;

fn holding(mbits: u64) -> (Algorithm, Constants, Start) {
    let start = Start { held: Some(mbit(mbits)), ..Start::default() };
    (Algorithm::Held, Constants::Linux, start)
}

/// A path of `mbits` and `rtt`, with a queue of as much, that loses the part `loss`.
fn path(mbits: u64, rtt: u64, loss: f64, seed: u64) -> FlowScenario {
    let mut direction = Direction::new(mbit(mbits), ms(rtt).mul_f64(0.5), ms(rtt));
    direction.loss = loss;
    FlowScenario {
        direction,
        changes: Vec::new(),
        flows: Vec::new(),
        sample_every: ms(1),
        train: 1,
        seed,
    }
}

fn run(scenario: FlowScenario, until: Span) -> Simulation {
    let mut simulation = Simulation::new(&scenario);
    simulation.run(until, |_| false);
    simulation
}

/// Mbit/s on the wire that flow `flow` brought to the receiver from `from` to `to`.
fn brought(run: &Simulation, flow: usize, from: Span, to: Span) -> f64 {
    let at = |when: Span| {
        let trace = run.trace(flow);
        let known = trace.partition_point(|point| point.at <= Time::ZERO + when);
        known.checked_sub(1).map_or(0, |last| trace[last].delivered)
    };
    (at(to) - at(from)) as f64 * WIRE_BITS / to.saturating_sub(from).as_secs_f64() / 1e6
}

#[test]
fn the_booked_rate_flows_from_the_first_round_trip_on() {
    let paths = [(1, 0.0), (27, 1e-4), (100, 1e-3), (163, 0.0), (163, 5e-3)];
    for (seed, (rtt, loss)) in (0..1_000).zip(paths.into_iter().cycle()) {
        let booked = 3 + Rng::new(seed).below(6);
        // The path is as wide as what was booked, and no wider.
        let flows = vec![holding(booked)];
        let end = ms(1_000 + rtt);
        let run = run(FlowScenario { flows, ..path(booked, rtt, loss, seed) }, end);
        // The first acknowledgement comes a round trip after the first packet.
        // What was lost was sent all the same, and what is missing is sent again.
        let lost = run.lost(0) as f64 * WIRE_BITS / 1e6;
        let part = (brought(&run, 0, ms(rtt), end) + lost) / booked as f64;
        assert!(part >= 0.97, "seed {seed}: {part:.3} of {booked} Mbit/s, {rtt} ms, {loss}");
        assert_eq!(run.yielded(0), None, "seed {seed}: {rtt} ms, {loss}");
    }
}

#[test]
fn a_path_that_is_half_as_wide_is_given_way_to() {
    for seed in 0..200 {
        let rtt = 5 + Rng::new(seed).below(60);
        let mut scenario = FlowScenario { flows: vec![holding(20)], ..path(10, rtt, 0.0, seed) };
        if seed % 2 == 0 {
            // One product, or the four megabytes that a short path has otherwise.
            scenario.direction.queue = mbit(10).bytes_in(ms(rtt)).max(Bytes(30_000));
        }
        let run = run(scenario, secs(10));
        let yielded = run.yielded(0).unwrap_or_else(|| panic!("seed {seed}: {rtt} ms"));
        assert!(yielded.rate < mbit(10) && yielded.rate > mbit(5), "seed {seed}: {yielded:?}");
        let last = brought(&run, 0, secs(7), secs(10));
        assert!(last > 5.0, "seed {seed}: {last:.1} Mbit/s are left");
    }
}

#[test]
fn others_on_a_path_that_is_not_its_own_find_room() {
    for seed in 0..50 {
        let other = Start { after: ms(10 * Rng::new(seed).below(20)), ..Start::default() };
        let flows = vec![holding(19), (Algorithm::Cubic, Constants::Linux, other)];
        let run = run(FlowScenario { flows, ..path(20, 20, 0.0, seed) }, secs(30));
        let (held, cubic) =
            (brought(&run, 0, secs(20), secs(30)), brought(&run, 1, secs(20), secs(30)));
        assert!(run.yielded(0).is_some(), "seed {seed}: {held:.1} and {cubic:.1} Mbit/s");
        assert!(cubic > 3.0, "seed {seed}: {held:.1} and {cubic:.1} Mbit/s");
    }
}

#[test]
fn an_outage_or_a_burst_of_losses_costs_no_rate() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let change = match seed % 2 {
            0 => Change::Outage(ms(20 + rng.below(400))),
            _ => Change::Lose(1 + rng.below(60)),
        };
        let flows = vec![holding(20)];
        let scenario =
            FlowScenario { flows, changes: vec![(secs(2), change)], ..path(20, 40, 0.0, seed) };
        let run = run(scenario, secs(8));
        assert_eq!(run.yielded(0), None, "seed {seed}: {change:?}");
        let after = brought(&run, 0, secs(5), secs(8));
        assert!(after > 19.0, "seed {seed}: {after:.1} Mbit/s after {change:?}");
    }
}

#[test]
fn without_a_rate_there_is_the_first_window_and_no_more() {
    let none = (Algorithm::Held, Constants::Linux, Start::default());
    let run = run(FlowScenario { flows: vec![none], ..path(20, 100, 0.0, 1) }, secs(2));
    let rate = brought(&run, 0, secs(1), secs(2));
    assert!(rate < 1.5, "ten packets each 100 ms, not {rate:.2} Mbit/s");
}

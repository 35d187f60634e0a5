//! The fluid model against arithmetic and against packets.

use super::*;
use crate::congestion::sim;
use crate::units::Time;
use crate::wan::Direction;

fn scenario(mbps: u64, rtt_ms: u64, algorithm: Algorithm, streams: usize) -> FluidScenario {
    let (rate, rtt) = (Rate::from_bps(mbps * 1_000_000), Span::from_millis(rtt_ms));
    FluidScenario {
        rate,
        rtt,
        queue: rate.bytes_in(rtt),
        mtu: 1_500,
        streams: vec![(algorithm, Constants::Linux); streams],
        window: None,
        train: 1,
        cross: Rate::default(),
        loss: 0.0,
        host: None,
        disturbance: None,
        staged: None,
        seed: 7,
    }
}

/// Payload in bit/s between two moments.
fn goodput(scenario: &FluidScenario, from: f64, to: f64) -> f64 {
    let mut fluid = Fluid::new(scenario);
    fluid.run(from, |_| false);
    let before = fluid.delivered_in_all();
    fluid.run(to, |_| false);
    (fluid.delivered_in_all() - before) * 8.0 / (to - from)
}

#[test]
fn a_window_is_delivered_once_a_round_trip() {
    for (window, rtt) in [(4, 163), (16, 17), (1, 100)] {
        let scenario = FluidScenario {
            window: Some(Bytes::mib(window)),
            ..scenario(10_000, rtt, Algorithm::Reno, 1)
        };
        let expected = (window << 20) as f64 / 1_500.0 * 1_448.0 * 8.0 / (rtt as f64 / 1e3);
        let found = goodput(&scenario, 10.0, 20.0);
        let most = 1e10 * 1_448.0 / 1_538.0;
        assert!(
            (found / expected.min(most) - 1.0).abs() < 0.01,
            "{window} MiB, {rtt} ms: {found:e}, not {expected:e}"
        );
    }
}

#[test]
fn nothing_beats_wire_host_or_what_cross_traffic_leaves() {
    let most = 1_448.0 / 1_538.0;
    for algorithm in Algorithm::ALL {
        let plain = scenario(1_000, 20, algorithm, 4);
        for (scenario, limit) in [
            (plain.clone(), 1e9),
            (FluidScenario { host: Some(Rate::from_bps(300_000_000)), ..plain.clone() }, 3e8),
            (FluidScenario { cross: Rate::from_bps(400_000_000), ..plain.clone() }, 6e8),
        ] {
            let found = goodput(&scenario, 0.0, 20.0);
            assert!(
                found <= limit * most * 1.001 && found > limit * 0.5,
                "{algorithm}: {found:e} of {limit:e}"
            );
        }
    }
}

#[test]
fn no_more_arrives_than_the_line_carries() {
    for (kbps, mtu) in [(100, 1_500), (1_000, 9_000), (20_000, 9_000), (400_000, 1_500)] {
        for (rtt_ms, queue) in [(1, 20_000), (10, 4 << 20), (10, 30_000), (100, 200_000)] {
            for seed in 1..=3 {
                let base = scenario(1, rtt_ms, Algorithm::Cubic, 1 + 3 * (seed as usize % 2));
                let (rate, queue) = (Rate::from_bps(kbps * 1_000), Bytes(queue));
                let mut fluid = Fluid::new(&FluidScenario { rate, queue, mtu, seed, ..base });
                let mut before = 0.0;
                for half in 1..=10 {
                    fluid.run(f64::from(half) / 2.0, |_| false);
                    let packets = fluid.delivered_in_all() / fluid.payload;
                    let carried = fluid.capacity / 2.0;
                    // A batch may come half a step early.
                    assert!(
                        packets - before <= carried * 1.01 + 2.0,
                        "{kbps} kbit/s, {rtt_ms} ms, {mtu} B, queue {queue}, seed {seed}: {} of \
                         {carried}",
                        packets - before
                    );
                    before = packets;
                }
                // What waits is a packet or two of each stream more than has room.
                assert!(fluid.backlog <= fluid.queue * 1.05 + 10.0, "{} waits", fluid.backlog);
            }
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_another() {
    let base = scenario(1_000, 50, Algorithm::Cubic, 5);
    let lossy = FluidScenario { loss: 1e-4, ..base };
    assert_eq!(goodput(&lossy, 0.0, 10.0), goodput(&lossy, 0.0, 10.0));
    assert_ne!(
        goodput(&lossy, 0.0, 10.0),
        goodput(&FluidScenario { seed: 8, ..lossy.clone() }, 0.0, 10.0)
    );
}

#[test]
fn slow_start_doubles_each_round_trip() {
    let mut fluid =
        Fluid::new(&FluidScenario { window: None, ..scenario(100_000, 100, Algorithm::Reno, 1) });
    let begins = fluid.streams[0].begins;
    let mut at = |rounds: f64| {
        fluid.run(begins + rounds * 0.1, |_| false);
        fluid.window(0)
    };
    let (five, nine) = (at(5.1), at(9.1));
    assert!((five / 320.0 - 1.0).abs() < 0.1, "{five} packets after five round trips");
    assert!((nine / five / 16.0 - 1.0).abs() < 0.03, "{five} to {nine} in four round trips");
}

/// Payload in bit/s of the packet simulation.
fn by_packets(scenario: &FluidScenario, from: u64, to: u64) -> f64 {
    let one_way = Span::from_nanos(scenario.rtt.as_nanos() / 2);
    let mut direction = Direction::new(scenario.rate, one_way, scenario.rtt);
    (direction.queue, direction.loss) = (scenario.queue, scenario.loss);
    let flows = scenario
        .streams
        .iter()
        .map(|&(algorithm, set)| (algorithm, set, Start::default()))
        .collect();
    let mut simulation = sim::Simulation::new(&sim::FlowScenario {
        direction,
        changes: Vec::new(),
        flows,
        sample_every: Span::from_millis(50),
        train: scenario.train.into(),
        seed: scenario.seed,
    });
    simulation.run(Span::from_secs(to), |_| false);
    let delivered = |index: usize, second: u64| {
        let until = Time::ZERO + Span::from_secs(second);
        simulation
            .trace(index)
            .iter()
            .take_while(|point| point.at <= until)
            .last()
            .map_or(0, |point| point.delivered)
    };
    let packets: u64 = (0..scenario.streams.len())
        .map(|index| delivered(index, to) - delivered(index, from))
        .sum();
    packets as f64 * 1_448.0 * 8.0 / (to - from) as f64
}

#[test]
fn fluids_and_packets_agree() {
    for algorithm in Algorithm::ALL {
        for loss in [0.0, 1e-3, COMPARED_LOSS] {
            let scenario = FluidScenario { loss, ..scenario(40, 40, algorithm, 4) };
            // Where losses are many two runs differ by a twentieth and more.
            let seeds = if loss < COMPARED_LOSS { 2 } else { 6 };
            let mean = |goodput: &dyn Fn(&FluidScenario) -> f64| {
                (1..=seeds)
                    .map(|seed| goodput(&FluidScenario { seed, ..scenario.clone() }))
                    .sum::<f64>()
                    / seeds as f64
            };
            let fluid = mean(&|scenario| goodput(scenario, 3.0, 23.0));
            let packets = mean(&|scenario| by_packets(scenario, 3, 23));
            let off = fluid / packets - 1.0;
            println!(
                "{algorithm}, loss {loss:e}: {:.1} and {:.1} Mbit/s, {:+.1} %",
                fluid / 1e6,
                packets / 1e6,
                off * 100.0
            );
            assert!(
                off.abs() < 0.1,
                "{algorithm}, loss {loss:e}: {fluid:e}, by packets {packets:e}"
            );
        }
    }
}

#[test]
fn trains_cost_fluids_what_they_cost_packets() {
    let (mut off, mut all) = (0.0, 0);
    for algorithm in [Algorithm::Reno, Algorithm::Cubic] {
        for (mbps, rtt_ms, streams) in [(80, 15, 1), (80, 15, 4), (200, 10, 1), (200, 40, 4)] {
            for part in [0.1, 0.2, 0.5, 1.0] {
                let base = scenario(mbps, rtt_ms, algorithm, streams);
                let queue = Bytes((base.queue.0 as f64 * part) as u64);
                let scenario = FluidScenario { queue, train: 43, ..base };
                let fluid = goodput(&scenario, 1.0, 11.0);
                let packets = by_packets(&scenario, 1, 11);
                println!(
                    "{mbps} Mbit/s, {rtt_ms} ms, {streams} x {algorithm}, queue {part}: {:.1} and \
                     {:.1} Mbit/s, {:+.0} %",
                    fluid / 1e6,
                    packets / 1e6,
                    (fluid / packets - 1.0) * 100.0
                );
                off += (fluid / packets).ln().abs();
                all += 1;
            }
        }
    }
    let off = (off / f64::from(all)).exp() - 1.0;
    println!("off by {:.0} % in the mean", off * 100.0);
    assert!(off < 0.2, "{off}");
}

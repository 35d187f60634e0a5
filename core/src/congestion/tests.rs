//! The controls over a simulated link, held against theory.

use super::sim::{FlowScenario, Reduction, ReductionCause, Simulation};
use super::{Algorithm, Constants, Start, theory};
use crate::units::{Bytes, Rate, Span};
use crate::wan::{Change, Direction};

const PACKET: Bytes = Bytes(1500);

/// A link that is never the limit: the window is, at `window` packets.
fn idle_link(window: f64, rtt: Span) -> Direction {
    let rate = Rate::from_bps((window * 1538.0 * 8.0 / rtt.as_secs_f64() * 1.5) as u64);
    Direction::new(rate, rtt.mul_f64(0.5), rtt)
}

/// A flow that stands at `window`, loses one packet, and runs until it is back: the run, and how
/// long it took from the end of recovery on.
fn one_loss(
    algorithm: Algorithm,
    set: Constants,
    window: f64,
    rtt: Span,
) -> (Simulation, Option<Span>) {
    let start =
        Start { window, threshold: window, clamp: window, packet: PACKET, ..Start::default() };
    let theory = theory::recovery(algorithm, set, window, rtt).unwrap_or(Span::from_secs(10));
    let scenario = FlowScenario {
        direction: idle_link(window, rtt),
        changes: vec![(rtt.mul_f64(5.0), Change::Lose(1))],
        flows: vec![(algorithm, set, start)],
        sample_every: rtt.mul_f64(0.5),
        // Trains of eight of a thousand packets change nothing but the speed; of sixty they are a
        // queue of their own.
        train: if window > 1_000.0 { 8 } else { 1 },
        seed: 1,
    };
    let mut simulation = Simulation::new(&scenario);
    let back = |run: &Simulation| {
        let ended = run.reductions(0).first().and_then(|reduction| reduction.ended)?;
        // A fiftieth of a packet: BIC's search ends at steps of Smin, and CUBIC's plateau is flat.
        (run.window(0) >= window - 0.02).then(|| run.now().since(ended))
    };
    simulation.run(theory.mul_f64(3.0) + rtt.mul_f64(30.0), |run| back(run).is_some());
    let took = back(&simulation);
    (simulation, took)
}

#[test]
fn one_loss_recovers_as_theory_says_at_three_rtts() {
    let loss_based = [
        (Algorithm::Bic, 2_000.0),
        (Algorithm::Cubic, 1_200.0),
        (Algorithm::HighSpeed, 1_200.0),
        (Algorithm::HTcp, 1_200.0),
        (Algorithm::Scalable, 1_200.0),
        (Algorithm::Reno, 60.0),
        (Algorithm::Vegas, 60.0),
    ];
    for (algorithm, window) in loss_based {
        for rtt in [26_800, 80_000, 163_000].map(Span::from_micros) {
            for set in [Constants::Paper, Constants::Linux] {
                let theory =
                    theory::recovery(algorithm, set, window, rtt).expect("it is driven by loss");
                let (run, took) = one_loss(algorithm, set, window, rtt);
                let took = took.unwrap_or_else(|| {
                    panic!("{algorithm} ({set}) at {rtt}: not back in {}", run.now().as_nanos())
                });
                let error = took.as_secs_f64() / theory.as_secs_f64() - 1.0;
                assert!(
                    error.abs() < 0.15,
                    "{algorithm} ({set}) at {rtt}: {took}, theory {theory}"
                );
                let reductions = run.reductions(0);
                assert_eq!(reductions.len(), 1, "{algorithm} ({set}) at {rtt}: {reductions:?}");
                let left = reductions[0].after / window;
                let expected = theory::left(algorithm, set, window).expect("it is driven by loss");
                assert!(
                    (left - expected).abs() < 0.01,
                    "{algorithm} ({set}): {left} left, not {expected}"
                );
            }
        }
    }
}

/// Two seconds in which other traffic takes nine tenths of a link that holds half as much again as
/// the flow's window. The flow runs until `patience` after them: the run, and how long it took from
/// the window that its last reduction left.
fn burst(
    algorithm: Algorithm,
    set: Constants,
    window: f64,
    rtt: Span,
    patience: Span,
) -> (Simulation, Option<(Span, Span)>) {
    let start =
        Start { window, threshold: window, clamp: window, packet: PACKET, ..Start::default() };
    let idle = idle_link(window, rtt);
    let cross =
        Change::Cross(Rate::from_bps(idle.rate.as_bps() / 10 * 9), Some(Span::from_secs(2)));
    let scenario = FlowScenario {
        direction: Direction { queue: idle.rate.bytes_in(rtt), ..idle },
        changes: vec![(rtt.mul_f64(5.0), cross)],
        flows: vec![(algorithm, set, start)],
        sample_every: Span::from_millis(4),
        train: if window >= 1_000.0 { 8 } else { 1 },
        seed: 1,
    };
    let mut simulation = Simulation::new(&scenario);
    simulation.run(rtt.mul_f64(5.0) + Span::from_secs(2) + patience, |_| false);
    let reductions = simulation.reductions(0);
    let took = reductions.last().and_then(|last| {
        let ended = last.ended?;
        let after = simulation.trace(0).iter().filter(|point| point.at >= ended);
        // Vegas gives way to the burst's queue without a loss: where its window was least, its way
        // back begins.
        let slow_start_ended = after.clone().find(|point| point.window >= last.after - 0.5)?;
        let least = after
            .clone()
            .filter(|point| point.at > slow_start_ended.at)
            .map(|point| point.window)
            .fold(f64::INFINITY, f64::min);
        let from = if least < slow_start_ended.window - 1.0 {
            after.clone().rev().find(|point| point.window <= least)?
        } else {
            slow_start_ended
        };
        let back =
            after.clone().find(|point| point.at > from.at && point.window >= window - 0.02)?;
        let way: Vec<Span> = after
            .filter(|point| point.at >= from.at && point.at <= back.at)
            .map(|point| point.rtt)
            .collect();
        let rtt = way.iter().map(|rtt| rtt.as_secs_f64()).sum::<f64>() / way.len() as f64;
        let cut = |cut: &Reduction| theory::Cut {
            before: cut.before,
            after: cut.after,
            timeout: cut.why == ReductionCause::Timeout,
        };
        let mut cuts: Vec<theory::Cut> = reductions.iter().map(cut).collect();
        if let Some(last) = cuts.last_mut() {
            last.after = from.window;
        }
        let theory =
            theory::recovery_after(algorithm, set, &cuts, window, Span::from_secs_f64(rtt))?;
        Some((back.at.since(from.at), theory))
    });
    (simulation, took)
}

#[test]
fn after_a_burst_a_flow_recovers_as_theory_says() {
    let loss_based = [
        (Algorithm::Bic, 1_000.0),
        (Algorithm::Cubic, 1_000.0),
        (Algorithm::HighSpeed, 1_000.0),
        (Algorithm::HTcp, 1_000.0),
        (Algorithm::Scalable, 1_000.0),
        (Algorithm::Reno, 200.0),
        (Algorithm::Vegas, 200.0),
    ];
    for (algorithm, window) in loss_based {
        for rtt in [26_800, 80_000, 163_000].map(Span::from_micros) {
            for set in [Constants::Paper, Constants::Linux] {
                let (run, took) = burst(algorithm, set, window, rtt, Span::from_secs(60));
                let (took, theory) = took.unwrap_or_else(|| {
                    panic!("{algorithm} ({set}) at {rtt}: {:?}", run.reductions(0))
                });
                let error = took.as_secs_f64() / theory.as_secs_f64() - 1.0;
                assert!(
                    error.abs() < 0.25,
                    "{algorithm} ({set}) at {rtt}: {took}, theory {theory}: {:?}",
                    run.reductions(0)
                );
            }
        }
    }
}

/// Packets a second that flow `index` delivered in the second half of its trace.
fn steady_rate(run: &Simulation, index: usize) -> f64 {
    let trace = run.trace(index);
    let (middle, last) = (trace[trace.len() / 2], trace[trace.len() - 1]);
    (last.delivered - middle.delivered) as f64 / last.at.since(middle.at).as_secs_f64()
}

fn run_for(
    span: Span,
    direction: Direction,
    changes: Vec<(Span, Change)>,
    flows: Vec<(Algorithm, Constants, Start)>,
) -> Simulation {
    let scenario = FlowScenario {
        direction,
        changes,
        flows,
        sample_every: Span::from_millis(20),
        train: 1,
        seed: 3,
    };
    let mut run = Simulation::new(&scenario);
    run.run(span, |_| false);
    run
}

#[test]
fn every_control_fills_a_link_with_a_queue_of_one_product() {
    let rtt = Span::from_millis(40);
    let rate = Rate::from_bps(15_000_000);
    let packets = rate.as_bps() as f64 / 8.0 / 1538.0;
    for algorithm in Algorithm::ALL {
        for set in [Constants::Paper, Constants::Linux] {
            let direction = Direction {
                queue: rate.bytes_in(rtt),
                ..Direction::new(rate, rtt.mul_f64(0.5), rtt)
            };
            let run = run_for(
                Span::from_secs(20),
                direction,
                Vec::new(),
                vec![(algorithm, set, Start::default())],
            );
            let share = steady_rate(&run, 0) / packets;
            assert!(
                (0.85..=1.001).contains(&share),
                "{algorithm} ({set}) used {share:.3} of the link"
            );
        }
    }
}

#[test]
fn an_overshooting_slow_start_is_one_loss_event() {
    let rtt = Span::from_micros(26_800);
    let rate = Rate::from_bps(500_000_000);
    let holds = 2.0 * rate.as_bps() as f64 / 8.0 / 1538.0 * rtt.as_secs_f64();
    for (algorithm, left) in [(Algorithm::Reno, 0.5), (Algorithm::Cubic, 0.7)] {
        let direction =
            Direction { queue: rate.bytes_in(rtt), ..Direction::new(rate, rtt.mul_f64(0.5), rtt) };
        let flows = vec![(algorithm, Constants::Linux, Start::default())];
        let sample_every = Span::from_millis(10);
        let mut run = Simulation::new(&FlowScenario {
            direction,
            changes: Vec::new(),
            flows,
            sample_every,
            train: 8,
            seed: 1,
        });
        run.run(Span::from_secs(3), |_| false);
        let found = run.reductions(0);
        // Path and queue hold so many; slow start had twice as many on their way when the first
        // loss was found.
        assert!(
            (found[0].before / holds - 2.0).abs() < 0.1,
            "{algorithm}: {:?} of {holds}",
            found[0]
        );
        assert!(
            (found[1].before / (found[0].before * left) - 1.0).abs() < 0.1,
            "{algorithm}: {found:#?}"
        );
        // Each reduction is of a window that path and queue did not hold, none of one that they
        // did, and each recovery ends.
        assert!(
            found.iter().all(|one| one.before > 0.95 * holds && one.ended.is_some()),
            "{algorithm}: {found:#?}"
        );
        let delivered = run.trace(0).last().expect("points").delivered as f64;
        let share = delivered * 1538.0 * 8.0 / 3.0 / rate.as_bps() as f64;
        assert!(share > 0.8, "{algorithm} got {share:.2} of the link");
    }
}

#[test]
fn vegas_and_bbr_keep_the_queue_short_and_reno_fills_it() {
    let rtt = Span::from_millis(40);
    let rate = Rate::from_bps(20_000_000);
    let queueing = |algorithm| {
        let direction =
            Direction { queue: rate.bytes_in(rtt), ..Direction::new(rate, rtt.mul_f64(0.5), rtt) };
        let run = run_for(
            Span::from_secs(20),
            direction,
            Vec::new(),
            vec![(algorithm, Constants::Linux, Start::default())],
        );
        let late = &run.trace(0)[run.trace(0).len() / 2..];
        let longest = late.iter().map(|point| point.rtt).max().expect("points");
        longest.saturating_sub(rtt).as_millis_f64()
    };
    // Four packets take 2.5 ms of this link; the queue holds 40 ms.
    let vegas = queueing(Algorithm::Vegas);
    assert!(vegas < 4.0, "{vegas} ms");
    let bbr = queueing(Algorithm::Bbr);
    assert!(bbr < 20.0, "{bbr} ms");
    let reno = queueing(Algorithm::Reno);
    assert!(reno > 30.0, "{reno} ms");
}

#[test]
fn bbr_keeps_its_rate_through_a_loss_and_probes_the_rtt() {
    let rtt = Span::from_millis(40);
    let rate = Rate::from_bps(15_000_000);
    let losses = (1..25).map(|second| (Span::from_secs(second), Change::Lose(1))).collect();
    let flow = (Algorithm::Bbr, Constants::Linux, Start::default());
    let run = run_for(
        Span::from_secs(25),
        Direction::new(rate, rtt.mul_f64(0.5), rtt),
        losses,
        vec![flow],
    );
    let share = steady_rate(&run, 0) * 1538.0 * 8.0 / rate.as_bps() as f64;
    assert!(share > 0.9, "{share}");
    let probes: Vec<f64> = run
        .trace(0)
        .windows(2)
        .filter(|pair| pair[0].window > 4.5 && pair[1].window <= 4.0)
        .map(|pair| pair[1].at.as_nanos() as f64 / 1e9)
        .collect();
    assert_eq!(probes.len(), 2, "{probes:?}");
    assert!(
        (9.0..13.0).contains(&probes[0]) && (9.0..12.0).contains(&(probes[1] - probes[0])),
        "{probes:?}"
    );
}

#[test]
fn an_outage_ends_in_a_timeout_and_the_flow_comes_back() {
    let rtt = Span::from_millis(20);
    let rate = Rate::from_bps(15_000_000);
    for algorithm in Algorithm::ALL {
        let outage = vec![(Span::from_secs(5), Change::Outage(Span::from_secs(1)))];
        let direction =
            Direction { queue: rate.bytes_in(rtt), ..Direction::new(rate, rtt.mul_f64(0.5), rtt) };
        let run = run_for(
            Span::from_secs(30),
            direction,
            outage,
            vec![(algorithm, Constants::Linux, Start::default())],
        );
        assert!(
            run.reductions(0).iter().any(|reduction| reduction.why == ReductionCause::Timeout),
            "{algorithm}"
        );
        let share = steady_rate(&run, 0) * 1538.0 * 8.0 / rate.as_bps() as f64;
        assert!(share > 0.85, "{algorithm}: {share}");
    }
}

#[test]
fn like_flows_share_and_aggressive_ones_take_more_than_reno() {
    let rtt = Span::from_millis(40);
    let rate = Rate::from_bps(20_000_000);
    let share = |first, second| {
        let direction =
            Direction { queue: rate.bytes_in(rtt), ..Direction::new(rate, rtt.mul_f64(0.5), rtt) };
        let flows = vec![
            (first, Constants::Linux, Start::default()),
            (second, Constants::Linux, Start::default()),
        ];
        let run = run_for(Span::from_secs(30), direction, Vec::new(), flows);
        let (a, b) = (steady_rate(&run, 0), steady_rate(&run, 1));
        a / (a + b)
    };
    let reno = share(Algorithm::Reno, Algorithm::Reno);
    assert!((0.3..0.7).contains(&reno), "{reno}");
    // On a path this short CUBIC keeps to Reno's share (RFC 9438, section 4.3).
    let cubic = share(Algorithm::Cubic, Algorithm::Reno);
    assert!((0.35..0.65).contains(&cubic), "{cubic}");
    for greedy in [Algorithm::Scalable, Algorithm::Bic, Algorithm::HTcp] {
        let against_reno = share(greedy, Algorithm::Reno);
        assert!(against_reno > 0.55, "{greedy} against Reno: {against_reno}");
    }
    let vegas = share(Algorithm::Vegas, Algorithm::Reno);
    assert!(vegas < 0.4, "Vegas yields: {vegas}");
}

#[test]
fn an_ecn_mark_reduces_as_a_loss_does_and_bbr_does_not_heed_it() {
    use super::Event;
    use crate::units::{Rng, Time};
    let now = Time::ZERO + Span::from_secs(1);
    for algorithm in Algorithm::ALL {
        let start = Start { window: 1000.0, threshold: 1000.0, ..Start::default() };
        let mut control = algorithm.control(Constants::Paper, start, &Rng::new(1));
        control.handle(now, Event::Ecn);
        let left = theory::left(algorithm, Constants::Paper, 1000.0).unwrap_or(1.0);
        assert!(
            (control.poll().window / 1000.0 - left).abs() < 0.001,
            "{algorithm}: {:?}",
            control.poll()
        );
        control.handle(now, Event::Timeout);
        assert!(control.poll().window <= 4.0, "{algorithm}: {:?}", control.poll());
    }
}

#[test]
fn names_are_linuxs() {
    for algorithm in Algorithm::ALL {
        assert_eq!(algorithm.name().parse(), Ok(algorithm));
    }
    let error = "tahoe".parse::<Algorithm>().expect_err("there is none");
    assert!(error.hint.is_some_and(|hint| hint.contains("highspeed")));
}

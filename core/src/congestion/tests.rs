//! The controls over a simulated link, held against theory.

use super::scenario::*;
use super::sim::{Reduction, ReductionCause, Simulation};
use super::{Algorithm, Constants, Start, theory};
use crate::units::{Bytes, Rate, Span};
use crate::wan::Change;

const PACKET: Bytes = Bytes(1500);

/// Half as fast again as `window` packets a round trip need: the window is the limit.
fn idle(window: f64, rtt: Span) -> Rate {
    Rate::from_bps((window * 1538.0 * 8.0 / rtt.as_secs_f64() * 1.5) as u64)
}

/// A flow that stands at `window`.
fn standing(algorithm: Algorithm, set: Constants, window: f64) -> Part {
    let start =
        Start { window, threshold: window, clamp: window, packet: PACKET, ..Start::default() };
    sender_with(algorithm, set, start)
}

/// A flow that stands at `window`, loses one packet, and runs until it is back: the run, and how
/// long it took from the end of recovery on.
fn one_loss(algorithm: Algorithm, set: Constants, window: f64, rtt: Span) -> (Run, Option<Span>) {
    let theory = theory::recovery(algorithm, set, window, rtt).unwrap_or(secs(10));
    let back = |run: &Simulation| {
        let ended = run.reductions(0).first().and_then(|reduction| reduction.ended)?;
        // A fiftieth of a packet: BIC's search ends at steps of Smin, and CUBIC's plateau is flat.
        (run.window(0) >= window - 0.02).then(|| run.now().since(ended))
    };
    let scenario = scenario![
        standing(algorithm, set, window),
        // Trains of eight of a thousand packets change nothing but the speed; of sixty they are a
        // queue of their own.
        train(if window > 1_000.0 { 8 } else { 1 }),
        rate(idle(window, rtt)),
        delay(rtt.mul_f64(0.5)),
        at(rtt.mul_f64(5.0), Change::Lose(1)),
        sampled(rtt.mul_f64(0.5)),
        seed(1),
        receiver(),
    ];
    let longest = theory.mul_f64(3.0) + rtt.mul_f64(30.0);
    let run = scenario.run_until(longest, |run| back(run).is_some());
    let took = back(&run);
    (run, took)
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
/// the flow's window. The flow runs until `timeout` after them: the run, and how long it took from
/// the window that its last reduction left.
fn burst(
    algorithm: Algorithm,
    set: Constants,
    window: f64,
    rtt: Span,
    timeout: Span,
) -> (Run, Option<(Span, Span)>) {
    let link = idle(window, rtt);
    let cross = Change::Cross(Rate::from_bps(link.as_bps() / 10 * 9), Some(secs(2)));
    let simulation = scenario![
        standing(algorithm, set, window),
        train(if window >= 1_000.0 { 8 } else { 1 }),
        rate(link),
        delay(rtt.mul_f64(0.5)),
        tail_drop(1.0),
        at(rtt.mul_f64(5.0), cross),
        sampled(ms(4)),
        seed(1),
        receiver(),
    ]
    .run(rtt.mul_f64(5.0) + secs(2) + timeout);
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

#[test]
fn every_control_fills_a_link_with_a_queue_of_one_product() {
    for algorithm in Algorithm::ALL {
        for set in [Constants::Paper, Constants::Linux] {
            let flow = sender_with(algorithm, set, Start::default());
            let run = scenario![flow, rate(mbit(15)), delay(ms(20)), tail_drop(1.0), receiver()]
                .run(secs(20));
            let share = run.share(0);
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
    let speed = mbit(500);
    let holds = 2.0 * speed.as_bps() as f64 / 8.0 / 1538.0 * rtt.as_secs_f64();
    for (algorithm, left) in [(Algorithm::Reno, 0.5), (Algorithm::Cubic, 0.7)] {
        let run = scenario![
            sender(algorithm),
            train(8),
            rate(speed),
            delay(rtt.mul_f64(0.5)),
            tail_drop(1.0),
            sampled(ms(10)),
            seed(1),
            receiver(),
        ]
        .run(secs(3));
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
        let share = delivered * 1538.0 * 8.0 / 3.0 / speed.as_bps() as f64;
        assert!(share > 0.8, "{algorithm} got {share:.2} of the link");
    }
}

#[test]
fn vegas_and_bbr_keep_the_queue_short_and_reno_fills_it() {
    let queueing = |algorithm| {
        let run =
            scenario![sender(algorithm), rate(mbit(20)), delay(ms(20)), tail_drop(1.0), receiver()]
                .run(secs(20));
        let late = &run.trace(0)[run.trace(0).len() / 2..];
        let longest = late.iter().map(|point| point.rtt).max().expect("points");
        longest.saturating_sub(ms(40)).as_millis_f64()
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
    let losses = (1..25).map(|second| at(secs(second), Change::Lose(1)));
    let run = scenario![sender(Algorithm::Bbr), rate(mbit(15)), delay(ms(20)), losses, receiver()]
        .run(secs(25));
    let share = run.share(0);
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
    for algorithm in Algorithm::ALL {
        let outage = at(secs(5), Change::Outage(secs(1)));
        let run = scenario![
            sender(algorithm),
            rate(mbit(15)),
            delay(ms(10)),
            tail_drop(1.0),
            outage,
            receiver()
        ]
        .run(secs(30));
        assert!(
            run.reductions(0).iter().any(|reduction| reduction.why == ReductionCause::Timeout),
            "{algorithm}"
        );
        let share = run.share(0);
        assert!(share > 0.85, "{algorithm}: {share}");
    }
}

#[test]
fn like_flows_share_and_aggressive_ones_take_more_than_reno() {
    let share = |first, second| {
        let path = [rate(mbit(20)), delay(ms(20)), tail_drop(1.0)];
        let run = scenario![sender(first), sender(second), path, receiver()].run(secs(30));
        let (a, b) = (run.share(0), run.share(1));
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

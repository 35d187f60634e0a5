//! The same run with the pure machine, over the simulated link.

use super::{Recovery, RecoveryRun, Reduction, Trouble};
use farline_core::congestion::Start;
use farline_core::congestion::sim::{FlowScenario, ReductionCause, Simulation};
use farline_core::units::{Bytes, Rate, Span, Time};
use farline_core::wan::{Change, Direction};

/// Runs it with the pure machine, over a path with a round-trip time of `rtt` seconds: the one that
/// the kernel's flow measured.
///
/// # Panics
/// When the trouble made no reduction: the simulated link does as it is told.
pub fn simulated(run: &RecoveryRun, rtt: f64) -> Recovery {
    let window = f64::from(run.window);
    let rtt = Span::from_secs_f64(rtt);
    let packet = Bytes(u64::from(run.mtu));
    let start = Start { window, threshold: window, clamp: window, packet, ..Start::default() };
    let begins = rtt.mul_f64(5.0);
    let rate = run.rate();
    let changes = match &run.trouble {
        Trouble::Losses(spans) => {
            spans.iter().map(|&span| (begins + span, Change::Lose(1))).collect()
        }
        Trouble::Burst(span) => {
            vec![(begins, Change::Cross(Rate::from_bps(rate.as_bps() / 10 * 9), Some(*span)))]
        }
    };
    let scenario = FlowScenario {
        direction: Direction {
            queue: rate.bytes_in(rtt),
            ..Direction::new(rate, rtt.mul_f64(0.5), rtt)
        },
        changes,
        flows: vec![(run.algorithm, run.set, start)],
        sample_every: Span::from_millis(4),
        train: if run.window >= 1_000 { 8 } else { 1 },
        seed: 1,
    };
    let mut simulation = Simulation::new(&scenario);
    simulation.run(run.timeout + rtt.mul_f64(10.0), |_| false);
    let seconds = |at: Time| at.since(Time::ZERO).as_secs_f64();
    let found = simulation.reductions(0);
    let mut reductions = Vec::new();
    for (n, reduction) in found.iter().enumerate() {
        let next = found.get(n + 1).map(|next| next.at);
        // Slow start after a timeout is over where the threshold is.
        let ended = reduction.ended.filter(|&ended| next.is_none_or(|next| ended < next));
        let within =
            |at: Time| ended.is_some_and(|ended| at >= ended) && next.is_none_or(|next| at < next);
        let points = simulation
            .trace(0)
            .iter()
            .filter(|point| within(point.at) && point.window >= reduction.after - 0.5);
        let points: Vec<(Time, f64)> = points.map(|point| (point.at, point.window)).collect();
        let first = points.first().copied();
        reductions.push(Reduction {
            at: seconds(reduction.at) - begins.as_secs_f64(),
            before: reduction.before,
            lasted: first.map(|(at, _)| at.since(reduction.at).as_secs_f64()),
            from: first.map_or(reduction.after, |(_, packets)| packets),
            timeout: reduction.why == ReductionCause::Timeout,
            trace: points
                .iter()
                .map(|&(at, packets)| (at.since(points[0].0).as_secs_f64(), packets))
                .collect(),
        });
    }
    let last = reductions.last().expect("the trouble made a reduction");
    // A kernel's window is a whole number; BIC's search ends at steps of Smin, and CUBIC's plateau
    // is flat.
    let seconds =
        last.trace.iter().find(|(_, packets)| *packets >= window - 0.02).map(|(time, _)| *time);
    let depth = reductions.iter().map(|reduction| reduction.from).fold(f64::INFINITY, f64::min);
    Recovery {
        depth,
        from: last.from,
        seconds,
        reductions,
        rtt: rtt.as_secs_f64(),
        used: 1.0,
        inexact: Vec::new(),
    }
}

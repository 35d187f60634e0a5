//! What to choose for a transfer, how long it will take, and why: from a stored profile, a probe, or the model.

use super::cell::PathPoint;
use super::document::{Kind, Profile, TCP_HEADERS};
use super::fluid::{Fluid, Scenario};
use super::statistics::Summary;
use crate::congestion::{Algorithm, Set};
use crate::units::{Bytes, Error, Fault, Rate, Span};
use serde::{Deserialize, Serialize};

/// The name and version of the document.
pub const PLAN_SCHEMA: &str = "farline/plan/1";

/// Streams that are tried first; the neighbours of the best follow.
const FIRST: [u32; 3] = [1, 4, 16];
/// More streams cost more processor time than they win (SC08: 20 is where its peaks end).
const MOST_STREAMS: u32 = 20;
/// A plan with fewer streams is preferred when it takes at most this much longer.
const TIE: f64 = 0.02;
/// Longer transfers are simulated for this long and the rest goes on at the pace of the second half.
const HORIZON: Span = Span::from_secs(120);
/// What takes so many times as long as the best so far is not chosen, and not simulated to its end.
const HOPELESS: f64 = 3.0;
/// The model's own error: what its throughput was off from packets at most (`fluids_and_packets_agree`).
const MODEL_ERROR: f64 = 0.1;
/// Staging below this makes threads wait for each other; above, it only takes memory (ADTS, section V.B: 32 to 64 MB).
const STAGING: (Bytes, Bytes) = (Bytes::mib(16), Bytes::mib(64));

/// Where a plan's figures come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Nothing was measured: a name, or figures given by hand.
    Model,
    /// A short measurement of rate, rtt and loss.
    Probe,
    /// A stored profile.
    Profile,
}

/// What is known of path and host.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// The path: its rate is the bottleneck's, what other traffic leaves.
    pub path: PathPoint,
    /// Probability that a packet is lost for other reasons than a full queue.
    pub loss: f64,
    /// The largest window that the hosts let one stream have.
    pub window: Option<Bytes>,
    /// The most that the slower host does.
    pub host: Option<Rate>,
    /// Bytes of IP in a packet.
    pub mtu: u32,
    /// Congestion controls to choose from.
    pub available: Vec<Algorithm>,
    /// Where this is from: a probe or nowhere.
    pub source: Source,
}

/// What to do, and what to expect of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// [`PLAN_SCHEMA`].
    pub schema: String,
    /// What is to be moved.
    pub size_bytes: Bytes,
    /// TCP streams, which are data channels.
    pub streams: u32,
    /// The congestion control.
    pub congestion: Algorithm,
    /// What one stream must be allowed to have on its way.
    pub window_bytes: Bytes,
    /// Of the staging pool.
    pub staging_bytes: Bytes,
    /// Expected time.
    pub seconds: f64,
    /// It lies between these in 19 of 20 cases, the model's error included.
    pub interval_s: (f64, f64),
    /// Payload per time that this is.
    pub rate_bps: Rate,
    /// Where the figures are from.
    pub source: Source,
    /// Why, a sentence for each choice.
    pub reasons: Vec<String>,
}

/// A candidate with the times that it took.
#[derive(Clone, Debug)]
struct Candidate {
    congestion: Algorithm,
    streams: u32,
    seconds: Vec<f64>,
}

impl Candidate {
    fn mean(&self) -> f64 {
        self.seconds.iter().sum::<f64>() / self.seconds.len().max(1) as f64
    }
}

impl Known {
    /// The scenario of `streams` streams of `congestion`.
    fn scenario(&self, congestion: Algorithm, streams: u32, seed: u64) -> Scenario {
        Scenario {
            rate: self.path.rate_bps,
            rtt: self.path.rtt_ns,
            queue: self.path.queue_bytes,
            mtu: self.mtu,
            streams: vec![(congestion, Set::default()); streams as usize],
            window: self.window,
            cross: Rate::default(),
            loss: self.loss,
            host: self.host,
            disturbance: None,
            staged: None,
            seed,
        }
    }

    /// Expected seconds for `size`, a number for each seed.
    pub fn seconds(&self, congestion: Algorithm, streams: u32, size: Bytes, seeds: std::ops::Range<u64>) -> Vec<f64> {
        self.seconds_within(HORIZON, congestion, streams, size, seeds)
    }

    /// The same, simulated for at most `horizon`.
    fn seconds_within(
        &self,
        horizon: Span,
        congestion: Algorithm,
        streams: u32,
        size: Bytes,
        seeds: std::ops::Range<u64>,
    ) -> Vec<f64> {
        seeds.map(|seed| seconds(&self.scenario(congestion, streams, seed), size, horizon)).collect()
    }
}

/// How long `size` takes: simulated whole, or for `horizon` and then at the pace of its second half.
fn seconds(scenario: &Scenario, size: Bytes, horizon: Span) -> f64 {
    let (horizon, target) = (horizon.as_secs_f64(), size.0 as f64);
    let mut fluid = Fluid::new(scenario);
    fluid.run(horizon / 2.0, |fluid| fluid.delivered_in_all() >= target);
    let half = fluid.delivered_in_all();
    fluid.run(horizon, |fluid| fluid.delivered_in_all() >= target);
    let all = fluid.delivered_in_all();
    if all >= target {
        return fluid.now();
    }
    let pace = ((all - half) / (horizon / 2.0)).max(1.0);
    horizon + (size.0 as f64 - all).max(0.0) / pace
}

/// Plans a transfer of `size` over what is `known`.
///
/// # Errors
/// [`Fault::You`] when there is nothing to move or no congestion control to choose from.
pub fn plan(known: &Known, size: Bytes) -> Result<Plan, Error> {
    if size.0 == 0 || known.available.is_empty() {
        return Err(Error::new(Fault::You, "plan-nothing", "a plan needs a size above zero and a congestion control"));
    }
    // What the shortest paths deliver in a second tells streams apart as well as a day of it; ramps take a few round trips.
    let enough =
        known.path.rate_bps.bytes_in(known.path.rtt_ns.mul_f64(400.0)).max(known.path.rate_bps.bytes_in(Span::from_secs(2)));
    let tried = size.min(enough);
    let mut candidates: Vec<Candidate> = Vec::new();
    let mut least = f64::INFINITY;
    let within = |least: f64| Span::from_secs_f64((least * HOPELESS).min(HORIZON.as_secs_f64()));
    let mut attempt = |candidates: &mut Vec<Candidate>, congestion: Algorithm, streams: u32| {
        if (1..=MOST_STREAMS).contains(&streams)
            && !candidates.iter().any(|one| (one.congestion, one.streams) == (congestion, streams))
        {
            let seconds = known.seconds_within(within(least), congestion, streams, tried, 1..2);
            least = seconds.iter().copied().fold(least, f64::min);
            candidates.push(Candidate { congestion, streams, seconds });
        }
    };
    for &congestion in &known.available {
        for streams in FIRST {
            attempt(&mut candidates, congestion, streams);
        }
    }
    candidates.sort_by(|a, b| a.mean().total_cmp(&b.mean()));
    let leaders: Vec<(Algorithm, u32)> = candidates.iter().take(3).map(|one| (one.congestion, one.streams)).collect();
    for (congestion, streams) in leaders {
        for next in [streams / 2, streams * 2, MOST_STREAMS] {
            attempt(&mut candidates, congestion, next);
        }
    }
    candidates.sort_by(|a, b| a.mean().total_cmp(&b.mean()));
    candidates.truncate(6);
    // One run is luck: those that lead are run again.
    for one in &mut candidates {
        one.seconds.extend(known.seconds_within(within(least), one.congestion, one.streams, tried, 2..5));
    }
    let least = candidates.iter().map(Candidate::mean).fold(f64::INFINITY, f64::min);
    let good = candidates.iter().filter(|one| one.mean() <= least * (1.0 + TIE));
    let Some(best) = good.min_by(|a, b| a.streams.cmp(&b.streams).then(a.mean().total_cmp(&b.mean()))) else {
        return Err(Error::new(Fault::Bug, "plan-empty", "no candidate was tried"));
    };
    let all = if tried == size { best.seconds.clone() } else { known.seconds(best.congestion, best.streams, size, 1..5) };
    let mut reasons = vec![reason_for_streams(known, best.streams)];
    let others = known.available.len() - 1;
    reasons.push(match others {
        0 => format!("{}, the only congestion control to choose from", best.congestion),
        _ if known.loss > 0.0 => {
            format!("{}: the best of {} controls where {:e} of the packets are lost", best.congestion, others + 1, known.loss)
        }
        _ => format!("{}: the best of {} controls over this path, or as good with fewer streams", best.congestion, others + 1),
    });
    Ok(finished(known, size, best.congestion, best.streams, &all, known.source, reasons))
}

fn reason_for_streams(known: &Known, streams: u32) -> String {
    let product = known.path.rate_bps.bytes_in(known.path.rtt_ns);
    let count = if streams == 1 { "1 stream".to_owned() } else { format!("{streams} streams") };
    match known.window {
        Some(window) if window < product => {
            format!("{count}: one window is at most {window} and the path holds {product}")
        }
        _ if streams == 1 => format!("{count}: more win less than {:.0} %", TIE * 100.0),
        _ => format!("{count}: a loss then costs only one of them a part of its window; the path holds {product}"),
    }
}

fn finished(
    known: &Known,
    size: Bytes,
    congestion: Algorithm,
    streams: u32,
    all: &[f64],
    source: Source,
    mut reasons: Vec<String>,
) -> Plan {
    let seconds = all.iter().sum::<f64>() / all.len().max(1) as f64;
    let spread = Summary::of(all).map_or(0.0, |summary| 2.0 * summary.sd);
    let off = spread.max(seconds * MODEL_ERROR);
    // No transfer is faster than the wire.
    let share = (f64::from(known.mtu) - TCP_HEADERS as f64) / crate::wan::frames::wire_bytes(u64::from(known.mtu)) as f64;
    let least = size.0 as f64 * 8.0 / (known.path.rate_bps.as_bps() as f64 * share);
    // A full pipe and a full queue, shared by the streams.
    let held = known.path.rate_bps.bytes_in(known.path.rtt_ns).0 + known.path.queue_bytes.0;
    let window = Bytes((held / u64::from(streams)).max(64 << 10));
    let window = known.window.map_or(window, |most| window.min(most));
    let staging =
        Bytes(known.path.rate_bps.bytes_in(known.path.rtt_ns).0.clamp(STAGING.0.0, STAGING.1.0)).min(size.max(STAGING.0));
    reasons.push(format!("{window} of window for each stream: its share of what path and queue hold"));
    reasons.push(format!("{staging} of staging for an rtt of {}", known.path.rtt_ns));
    Plan {
        schema: PLAN_SCHEMA.to_owned(),
        size_bytes: size,
        streams,
        congestion,
        window_bytes: window,
        staging_bytes: staging,
        seconds,
        interval_s: ((seconds - off).max(least.min(seconds)), seconds + off),
        rate_bps: Rate::of(size, Span::from_secs_f64(seconds)),
        source,
        reasons,
    }
}

/// Plans a transfer of `size` from a stored profile, over the path of it called `path`, or its only one.
///
/// The cell with the largest mean is taken, or one with fewer streams that is as good; the time is its ramp and the rest at its
/// steady rate, between the ends of its confidence interval.
///
/// # Errors
/// [`Fault::You`] when the profile has no such path, several and none was named, or no valid repetition of it.
pub fn plan_from(profile: &Profile, path: Option<&str>, size: Bytes) -> Result<Plan, Error> {
    let names: Vec<&str> = profile.grid.paths.iter().map(|path| path.name.as_str()).collect();
    let wrong =
        |message: String| Error::new(Fault::You, "plan-profile", message).hint(format!("its paths: {}", names.join(", ")));
    let path = match path {
        Some(path) if names.contains(&path) => path,
        Some(path) => return Err(wrong(format!("the profile has no path called `{path}`"))),
        None if names.len() == 1 => names[0],
        None => return Err(wrong("the profile has several paths".to_owned())),
    };
    if size.0 == 0 {
        return Err(Error::new(Fault::You, "plan-nothing", "a plan needs a size above zero"));
    }
    // Cells of the clean path; cross-traffic and loss are conditions, not choices, and both ways at once are another quantity.
    let least =
        |pick: fn(&super::Cell) -> f64| profile.cells.iter().map(|result| pick(&result.cell)).fold(f64::INFINITY, f64::min);
    let (cross, loss) = (least(|cell| cell.cross_bps.as_bps() as f64), least(|cell| cell.loss));
    let cells: Vec<_> = profile
        .one_way()
        .filter(|result| {
            let cell = &result.cell;
            cell.path.name == path && cell.cross_bps.as_bps() as f64 == cross && cell.loss == loss
        })
        .filter_map(|result| result.summary().map(|summary| (result, summary)))
        .collect();
    let most = cells.iter().map(|(_, summary)| summary.mean).fold(0.0, f64::max);
    let good = cells.iter().filter(|(_, summary)| summary.mean > 0.0 && summary.mean >= most / (1.0 + TIE));
    let Some((result, _)) = good.min_by(|a, b| a.0.cell.streams.cmp(&b.0.cell.streams).then(b.1.mean.total_cmp(&a.1.mean)))
    else {
        return Err(wrong(format!("the profile has no valid repetition over `{path}`")));
    };
    let cell = &result.cell;
    let seconds: Vec<f64> = result
        .valid()
        .map(|repetition| {
            let in_ramp = repetition.ramp.receiver_bps.as_bps() as f64 * repetition.ramp_s / 8.0;
            let rest = (size.0 as f64 - in_ramp).max(0.0);
            let ramp = if rest > 0.0 { repetition.ramp_s } else { repetition.ramp_s * size.0 as f64 / in_ramp.max(1.0) };
            ramp + rest * 8.0 / (repetition.steady.receiver_bps.as_bps() as f64).max(1.0)
        })
        .collect();
    let known = Known {
        path: cell.path.clone(),
        loss: cell.loss,
        window: cell.window_bytes,
        host: profile.grid.host_bps,
        mtu: cell.mtu,
        available: vec![cell.congestion],
        source: Source::Profile,
    };
    let n = seconds.len();
    let reasons = vec![
        format!(
            "{} with {}: the best of {} cells over {path}, or as good with fewer streams",
            cell.streams,
            cell.congestion,
            cells.len()
        ),
        format!(
            "{} {} on {}",
            if profile.kind == Kind::Measured { "measured" } else { "modelled" },
            if n == 1 { "once".to_owned() } else { format!("{n} times") },
            if profile.date.is_empty() { "an unknown date" } else { &profile.date }
        ),
    ];
    Ok(finished(&known, size, cell.congestion, cell.streams, &seconds, Source::Profile, reasons))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(path: &str, loss: f64) -> Known {
        Known {
            path: PathPoint::named(path, None).expect("a path"),
            loss,
            window: None,
            host: None,
            mtu: 9_000,
            available: Algorithm::ALL.to_vec(),
            source: Source::Model,
        }
    }

    /// Holds the advisor against every control with each of `streams`, simulated with seeds that it has not seen.
    fn against_the_grid(sizes: (u64, u64), streams: &[u32], seeds: std::ops::Range<u64>) {
        for path in ["usn-0.2", "usn-1400", "usn-6600", "usn-8600"] {
            for loss in [0.0, 1e-5, 1e-4] {
                let known = known(path, loss);
                // A step over the shortest path is a thousand times shorter, so it gets less to move.
                let size = Bytes(if path == "usn-0.2" { sizes.0 } else { sizes.1 });
                let plan = plan(&known, size).expect("a plan");
                let mean = |congestion, streams| {
                    let found = known.seconds(congestion, streams, size, seeds.clone());
                    found.iter().sum::<f64>() / found.len() as f64
                };
                let mut best = (f64::INFINITY, Algorithm::Reno, 0);
                for congestion in Algorithm::ALL {
                    for &streams in streams {
                        let found = mean(congestion, streams);
                        if found < best.0 {
                            best = (found, congestion, streams);
                        }
                    }
                }
                let planned = mean(plan.congestion, plan.streams);
                println!(
                    "{path:>8} loss {loss:e}: {} x {} {planned:.2} s, expected {:.2} ({:.2} to {:.2}); best {} x {} {:.2} s; {:+.1} %",
                    plan.streams,
                    plan.congestion,
                    plan.seconds,
                    plan.interval_s.0,
                    plan.interval_s.1,
                    best.2,
                    best.1,
                    best.0,
                    (planned / best.0 - 1.0) * 100.0
                );
                assert!(planned <= best.0 * 1.1, "{path} {loss}: {plan:?}, but {best:?}");
                assert!((plan.interval_s.0 * 0.99..=plan.interval_s.1).contains(&planned), "{path} {loss}: {plan:?}: {planned}");
            }
        }
    }

    #[test]
    fn plans_are_within_a_tenth_of_the_best_of_a_grid() {
        against_the_grid((250_000_000, 10_000_000_000), &[1, 6, 20], 100..101);
    }

    #[test]
    #[ignore = "a benchmark of minutes: the whole grid of 8 controls x 20 numbers of streams"]
    fn plans_are_within_a_tenth_of_the_best_of_the_whole_grid() {
        let streams: Vec<u32> = (1..=20).collect();
        against_the_grid((2_000_000_000, 50_000_000_000), &streams, 100..103);
    }

    #[test]
    fn a_small_window_needs_more_streams_and_a_small_file_few() {
        let far = known("usn-8600", 0.0);
        let squeezed = plan(&Known { window: Some(Bytes::mib(16)), ..far.clone() }, Bytes(100_000_000_000)).expect("a plan");
        assert!(squeezed.streams >= 10 && squeezed.reasons[0].contains("one window is at most 16 MiB"), "{squeezed:?}");
        let small = plan(&far, Bytes(100_000)).expect("a plan");
        assert!(small.seconds < 2.0 && small.interval_s.0 <= small.seconds && small.seconds <= small.interval_s.1, "{small:?}");
        assert!(plan(&far, Bytes(0)).is_err());
        assert!(plan(&Known { available: vec![], ..far }, Bytes(1)).is_err());
    }

    #[test]
    fn a_stored_profile_decides_where_there_is_one() {
        use crate::profile::{Environment, Form, Kind, Simulator, preset};
        let mut grid = preset("sc08-distance", Form::Quick).expect("a preset");
        grid.paths.retain(|path| path.name != "usn-0.2");
        let mut profile = Profile::new(grid, Kind::Modelled, Environment::default(), "today").expect("a grid");
        profile.run(&mut Simulator, |_| true).expect("a model does not fail");
        let plan = plan_from(&profile, Some("usn-8600"), Bytes(1_000_000_000_000)).expect("a plan");
        let best = |streams: u32, congestion| {
            let of = |result: &&super::super::CellResult| {
                let cell = &result.cell;
                (cell.path.name.as_str(), cell.streams, cell.congestion) == ("usn-8600", streams, congestion)
            };
            profile.cells.iter().find(of).and_then(|result| result.summary()).expect("measured").mean
        };
        let chosen = best(plan.streams, plan.congestion);
        for streams in [1, 5, 10, 15, 20] {
            for congestion in [Algorithm::Bic, Algorithm::HTcp] {
                assert!(best(streams, congestion) <= chosen * 1.021, "{streams} {congestion}");
            }
        }
        assert_eq!(plan.source, Source::Profile);
        assert!(plan_from(&profile, None, Bytes(1)).is_err(), "three paths and none named");
        assert!(plan_from(&profile, Some("mars"), Bytes(1)).is_err());
    }
}

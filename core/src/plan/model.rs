//! A plan from the model: candidates are simulated, those that lead again, and the best with the
//! fewest streams is taken.

use super::advisor::{Plan, PlanInput, Runs, TIE, finished};
use super::estimate::most_streams;
use super::fluid::{Fluid, FluidScenario};
use super::limits::{ChannelLimits, host_fault, loss_fault, mtu_fault, path_fault, window_fault};
use super::reason::{ControlReason, Margin, Reason, StreamsReason};
use crate::congestion::{Algorithm, Constants};
use crate::units::{Bytes, Error, ErrorCode, Fault, Rate, Span};

/// Streams that are tried first; the neighbours of the best follow.
const FIRST: [u32; 3] = [1, 4, 16];
/// Longer transfers are simulated for this long, or for as many round trips if those are longer,
/// and the rest goes on at the pace of the second half: by then a window has grown from ten packets
/// to what a path holds.
const HORIZON: (Span, f64) = (Span::from_secs(120), 40.0);
/// The largest window of a TCP connection (RFC 7323, 2.3).
pub(crate) const TCP_WINDOW: Bytes = Bytes(65_535 << 14);
/// What a sender hands to its network in one piece: 64 KiB by segmentation offload (Linux's
/// `gso_max_size`), which leave a fast host back to back.
const TRAIN: Bytes = Bytes(64 << 10);
/// Queues in bandwidth-delay products, where nobody knows it: those at the eighths 5, 7, 1 and 3 of
/// a range from 0.1 to 4 in which each power is as likely, a seed's after the other's. The first
/// seed, by which candidates are chosen, has the one nearest to what a path is built with.
const QUEUES: [f64; 4] = [0.4, 1.0, 0.16, 2.5];
/// What takes so many times as long as the best so far is not chosen, and not simulated to its end.
const HOPELESS: f64 = 3.0;

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

/// Of controls that are as good as each other, the earlier is what hosts have, and what an operator
/// knows on a long path; Reno, which a single loss there holds back for minutes, is the last.
fn usual(candidate: &Candidate) -> u32 {
    match candidate.congestion {
        Algorithm::Cubic => 0,
        Algorithm::Bbr => 1,
        Algorithm::Reno => 3,
        _ => 2,
    }
}

impl PlanInput {
    /// The scenario of `streams` streams of `congestion`.
    fn scenario(&self, congestion: Algorithm, streams: u32, seed: u64) -> FluidScenario {
        FluidScenario {
            rate: self.path.rate_bps,
            rtt: self.path.rtt_ns,
            queue: self.queue(seed),
            mtu: self.mtu,
            streams: vec![(congestion, Constants::default()); streams as usize],
            window: self.window,
            train: (TRAIN.0 / u64::from(self.mtu)).max(1) as u32,
            cross: Rate::default(),
            loss: self.loss,
            host: self.host,
            disturbance: None,
            staged: None,
            seed,
        }
    }

    fn queue(&self, seed: u64) -> Bytes {
        if self.is_queue_known {
            return self.path.queue_bytes;
        }
        let product = self.path.rate_bps.bytes_in(self.path.rtt_ns).0 as f64;
        let queue = product * QUEUES[(seed % QUEUES.len() as u64) as usize];
        // Not even what one segment of a sender becomes would pass.
        Bytes(queue as u64).max(Bytes(10 * u64::from(self.mtu)))
    }

    /// Refuses what is no path and no host, by the limits of a profile.
    ///
    /// # Errors
    /// [`Fault::You`] with the quantity and its limits.
    pub fn check(&self) -> Result<(), Error> {
        let packet = u64::from(self.mtu);
        if let Some(message) = loss_fault(self.loss) {
            return Err(Error::new(Fault::You, ErrorCode::PlanLoss, message));
        }
        let found = mtu_fault(self.mtu)
            .or_else(|| path_fault(&self.path, packet))
            .or_else(|| self.window.and_then(|window| window_fault(window, packet)))
            .or_else(|| host_fault(self.host));
        found.map_or(Ok(()), |message| Err(Error::new(Fault::You, ErrorCode::PlanPath, message)))
    }

    fn horizon(&self) -> Span {
        HORIZON.0.max(self.path.rtt_ns.mul_f64(HORIZON.1))
    }

    /// Expected seconds for `size`, a number for each seed; infinite where nothing arrives any
    /// more.
    pub fn seconds(
        &self,
        congestion: Algorithm,
        streams: u32,
        size: Bytes,
        seeds: std::ops::Range<u64>,
    ) -> Vec<f64> {
        self.seconds_within(self.horizon(), congestion, streams, size, seeds)
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
        seeds
            .map(|seed| seconds(&self.scenario(congestion, streams, seed), size, horizon))
            .collect()
    }
}

/// How long `size` takes: simulated whole, or for `horizon` and then at the pace of its second
/// half.
fn seconds(scenario: &FluidScenario, size: Bytes, horizon: Span) -> f64 {
    let (horizon, target) = (horizon.as_secs_f64(), size.0 as f64);
    let mut fluid = Fluid::new(scenario);
    fluid.run(horizon / 2.0, |fluid| fluid.delivered_in_all() >= target);
    let half = fluid.delivered_in_all();
    fluid.run(horizon, |fluid| fluid.delivered_in_all() >= target);
    let all = fluid.delivered_in_all();
    if all >= target {
        return fluid.now();
    }
    // Where nothing arrives there is no pace, and no end.
    horizon + (target - all) / ((all - half) / (horizon / 2.0))
}

/// Plans a transfer of `size` over the path of `input`.
///
/// # Errors
/// [`Fault::You`] when there is nothing to move or no congestion control to choose from, as
/// [`PlanInput::check`], and where nothing would arrive.
pub fn plan(input: &PlanInput, size: Bytes) -> Result<Plan, Error> {
    if size.0 == 0 || input.available.is_empty() {
        return Err(Error::new(
            Fault::You,
            ErrorCode::PlanNothing,
            "a plan needs a size above zero and a congestion control",
        ));
    }
    input.check()?;
    let window = input.window.map_or(TCP_WINDOW, |window| window.min(TCP_WINDOW));
    let input = &PlanInput { window: Some(window), ..input.clone() };
    // What the shortest paths deliver in a second tells streams apart as well as a day of it; ramps
    // take a few round trips.
    let enough = input
        .path
        .rate_bps
        .bytes_in(input.path.rtt_ns.mul_f64(400.0))
        .max(input.path.rate_bps.bytes_in(Span::from_secs(2)));
    let tried = size.min(enough);
    let most = ChannelLimits::MODEL.min(most_streams(Some(size)));
    let mut candidates: Vec<Candidate> = Vec::new();
    let mut least = f64::INFINITY;
    let within =
        |least: f64| Span::from_secs_f64((least * HOPELESS).min(input.horizon().as_secs_f64()));
    let mut attempt = |candidates: &mut Vec<Candidate>, congestion: Algorithm, streams: u32| {
        if (1..=most).contains(&streams)
            && !candidates.iter().any(|one| (one.congestion, one.streams) == (congestion, streams))
        {
            let seconds = input.seconds_within(within(least), congestion, streams, tried, 1..2);
            least = seconds.iter().copied().fold(least, f64::min);
            candidates.push(Candidate { congestion, streams, seconds });
        }
    };
    for &congestion in &input.available {
        for streams in FIRST {
            attempt(&mut candidates, congestion, streams);
        }
    }
    candidates.sort_by(|a, b| a.mean().total_cmp(&b.mean()));
    let leaders: Vec<(Algorithm, u32)> =
        candidates.iter().take(3).map(|one| (one.congestion, one.streams)).collect();
    for (congestion, streams) in leaders {
        for next in [streams / 2, streams * 2, most] {
            attempt(&mut candidates, congestion, next);
        }
        // Where controls are as good as each other, it is by the same number of streams.
        for &other in &input.available {
            attempt(&mut candidates, other, streams);
        }
    }
    let least_of = |candidates: &[Candidate]| {
        candidates.iter().map(Candidate::mean).fold(f64::INFINITY, f64::min)
    };
    let close = least_of(&candidates) * (1.0 + TIE);
    candidates.sort_by(|a, b| {
        let (a_mean, b_mean) = (a.mean().max(close), b.mean().max(close));
        a_mean.total_cmp(&b_mean).then(a.streams.cmp(&b.streams)).then(usual(a).cmp(&usual(b)))
    });
    candidates.truncate(6);
    // One run is luck: those that lead are run again.
    for one in &mut candidates {
        one.seconds.extend(input.seconds_within(
            within(least),
            one.congestion,
            one.streams,
            tried,
            2..5,
        ));
    }
    let least = candidates.iter().map(Candidate::mean).fold(f64::INFINITY, f64::min);
    let good = candidates.iter().filter(|one| one.mean() <= least * (1.0 + TIE));
    let Some(best) = good.min_by(|a, b| a.streams.cmp(&b.streams).then(usual(a).cmp(&usual(b))))
    else {
        return Err(Error::new(Fault::Bug, ErrorCode::PlanEmpty, "no candidate was tried"));
    };
    let all = if tried == size {
        best.seconds.clone()
    } else {
        input.seconds(best.congestion, best.streams, size, 1..5)
    };
    if !all.iter().all(|seconds| seconds.is_finite()) {
        let message = format!(
            "nothing would arrive at a loss of {:e} over an rtt of {}",
            input.loss, input.path.rtt_ns
        );
        return Err(Error::new(Fault::You, ErrorCode::PlanPath, message)
            .hint("in the model no congestion control keeps a window open there"));
    }
    let why = match best.streams == most && most < ChannelLimits::MODEL {
        true => StreamsReason::Size(size),
        false => reason_for_streams(input, best.streams),
    };
    let control = match input.available.len() {
        1 => ControlReason::Only,
        controls => ControlReason::Best(controls, input.loss),
    };
    let reasons =
        vec![Reason::Streams(best.streams, why), Reason::Control(best.congestion.into(), control)];
    let runs = Runs::Modelled(&all);
    Ok(finished(input, size, (best.congestion, best.streams), &runs, reasons))
}

fn reason_for_streams(input: &PlanInput, streams: u32) -> StreamsReason {
    let product = input.path.rate_bps.bytes_in(input.path.rtt_ns);
    match input.window {
        Some(window) if window < product => StreamsReason::Window { window, product, margin: None },
        _ if streams == 1 => StreamsReason::Margin(Margin { part: TIE, model: None }),
        _ => StreamsReason::SharedLoss { product },
    }
}

#[cfg(test)]
mod tests {
    use super::super::advisor::SET_UP_TRIPS;
    use super::*;
    use crate::plan::{Disturbance, PathPoint, PlanSource};
    use crate::wan::Change;

    fn input(path: &str, loss: f64) -> PlanInput {
        PlanInput {
            path: PathPoint::named(path, None).expect("a path"),
            is_queue_known: true,
            loss,
            window: None,
            host: None,
            mtu: 9_000,
            available: Algorithm::ALL.to_vec(),
            source: PlanSource::Model,
        }
    }

    /// Holds the advisor against every control with each of `streams`, simulated with seeds that it
    /// has not seen.
    fn against_the_grid(sizes: (u64, u64), streams: &[u32], seeds: std::ops::Range<u64>) {
        for path in ["usn-0.2", "usn-1400", "usn-6600", "usn-8600"] {
            for loss in [0.0, 1e-5, 1e-4] {
                let input = input(path, loss);
                // A step over the shortest path is a thousand times shorter, so it gets less to
                // move.
                let size = Bytes(if path == "usn-0.2" { sizes.0 } else { sizes.1 });
                let plan = plan(&input, size).expect("a plan");
                let set_up = input.path.rtt_ns.as_secs_f64() * SET_UP_TRIPS;
                let mean = |congestion, streams| {
                    let found = input.seconds(congestion, streams, size, seeds.clone());
                    set_up + found.iter().sum::<f64>() / found.len() as f64
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
                    "{path:>8} loss {loss:e}: {} x {} {planned:.2} s, expected {:.2} ({:.2} to \
                     {:.2}); best {} x {} {:.2} s; {:+.1} %",
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
                assert!(
                    (plan.interval_s.0 * 0.99..=plan.interval_s.1).contains(&planned),
                    "{path} {loss}: {plan:?}: {planned}"
                );
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
        let far = input("usn-8600", 0.0);
        let squeezed = plan(
            &PlanInput { window: Some(Bytes::mib(16)), ..far.clone() },
            Bytes(100_000_000_000),
        )
        .expect("a plan");
        assert!(
            squeezed.streams >= 10
                && matches!(
                    squeezed.reasons[0],
                    Reason::Streams(_, StreamsReason::Window { window, .. })
                        if window == Bytes::mib(16)
                ),
            "{squeezed:?}"
        );
        let small = plan(&far, Bytes(100_000)).expect("a plan");
        assert!(
            small.seconds < 2.0
                && small.interval_s.0 <= small.seconds
                && small.seconds <= small.interval_s.1,
            "{small:?}"
        );
        assert!(plan(&far, Bytes(0)).is_err());
        assert!(plan(&PlanInput { available: vec![], ..far }, Bytes(1)).is_err());
    }

    #[test]
    fn no_path_is_refused_and_no_time_made_up_without_arrivals() {
        let far = input("usn-8600", 0.0);
        let path = |rtt: Span| PathPoint { rtt_ns: rtt, ..far.path.clone() };
        let refused: [(PlanInput, ErrorCode, &str); 7] = [
            (PlanInput { loss: 1.0, ..far.clone() }, ErrorCode::PlanLoss, "probability"),
            (PlanInput { loss: f64::NAN, ..far.clone() }, ErrorCode::PlanLoss, "probability"),
            (
                PlanInput { window: Some(Bytes(1)), ..far.clone() },
                ErrorCode::PlanPath,
                "holds no packet",
            ),
            (
                PlanInput { path: path(Span::from_secs(100)), ..far.clone() },
                ErrorCode::PlanPath,
                "more than a minute",
            ),
            (
                PlanInput { path: path(Span::ZERO), ..far.clone() },
                ErrorCode::PlanPath,
                "above zero",
            ),
            (PlanInput { mtu: 20, ..far.clone() }, ErrorCode::PlanPath, "an MTU of 20"),
            (
                PlanInput { host: Some(Rate::default()), ..far.clone() },
                ErrorCode::PlanPath,
                "at zero",
            ),
        ];
        for (input, code, words) in refused {
            let error = plan(&input, Bytes(10_000_000_000)).expect_err(words);
            assert!(
                (error.code, error.fault) == (code, Fault::You) && error.message.contains(words),
                "{words}: {error}"
            );
        }
        let outage =
            Disturbance { at_ns: Span::ZERO, change: Change::Outage(Span::from_secs(1_000)) };
        let dead =
            FluidScenario { disturbance: Some(outage), ..far.scenario(Algorithm::Cubic, 1, 1) };
        assert!(seconds(&dead, Bytes(10_000_000_000), Span::from_secs(20)).is_infinite());
        // A minute of round trip is the most that is planned for: by the pace at its end, not that
        // of slow start.
        let minute =
            PlanInput { path: path(Span::from_secs(60)), available: vec![Algorithm::Cubic], ..far };
        let plan = plan(&minute, Bytes::mib(1)).expect("a plan");
        assert!(plan.seconds < 1_200.0, "{plan:?}");
    }

    #[test]
    fn more_loss_than_was_compared_opens_the_interval() {
        let path = PathPoint::custom(Rate::from_bps(100_000_000), Span::from_millis(20));
        let at = |loss, size| {
            let available = vec![Algorithm::Reno, Algorithm::Cubic, Algorithm::Bbr];
            let path = path.clone();
            let input = PlanInput { path, mtu: 1_500, available, ..input("usn-1400", loss) };
            plan(&input, Bytes(size)).expect("a plan")
        };
        // Copies over such a link took 27 s and more; of the short ones more than a minute.
        for (loss, size) in [(0.2, 20_000_000), (0.2, 500_000), (0.1, 20_000_000)] {
            let lossy = at(loss, size);
            assert!(lossy.interval_s.1.is_infinite() && lossy.seconds.is_finite(), "{lossy:?}");
            let words = lossy.reasons.iter().map(Reason::to_string).collect::<Vec<_>>().join("\n");
            assert!(words.contains("the time is a lower bound: the model was compared"), "{words}");
            let document = serde_json::to_value(&lossy).expect("JSON");
            assert!(document["interval_s"][1].is_null(), "{document}");
        }
        assert!(at(0.01, 20_000_000).interval_s.1.is_finite());
    }

    #[test]
    fn no_window_is_larger_than_what_is_to_be_moved() {
        let path = PathPoint::custom(Rate::from_bps(10_000_000_000), Span::from_millis(163));
        let available = vec![Algorithm::Reno, Algorithm::Cubic, Algorithm::Bbr];
        let input = PlanInput { path, mtu: 1_500, available, ..input("usn-1400", 0.0) };
        let window = |input: &PlanInput, size: u64| {
            let plan = plan(input, Bytes(size)).expect("a plan");
            let words = plan.reasons.iter().map(Reason::to_string).collect::<Vec<_>>();
            let why = words.into_iter().find(|why| why.contains("of window")).expect("a reason");
            (plan.window_bytes.0, why)
        };
        let (few, why) = window(&input, 40);
        assert_eq!(few, 64 << 10);
        assert_eq!(why, "64 KiB of window, which every system gives: it holds all 40 B");
        let (some, why) = window(&input, 2 << 20);
        assert_eq!(some, 2 << 20);
        assert_eq!(why, "2 MiB of window for each stream: there is no more to move");
        let (share, why) = window(&input, 1_000_000_000_000);
        assert!(share > 50 << 20 && why.contains("its share"), "{share} {why}");
        // What the hosts let a stream have bounds it as before.
        let squeezed = PlanInput { window: Some(Bytes::mib(1)), ..input };
        assert_eq!(window(&squeezed, 2 << 20).0, 1 << 20);
    }

    #[test]
    fn advice_is_what_an_expert_would_give() {
        let available = vec![Algorithm::Reno, Algorithm::Cubic, Algorithm::Bbr];
        let path = PathPoint::custom(Rate::from_bps(100_000_000_000), Span::from_millis(200));
        let input = PlanInput { path, mtu: 1_500, available, ..input("usn-1400", 0.0) };
        let long = plan(&input, Bytes(160_000_000_000_000)).expect("a plan");
        assert_eq!(long.congestion, Algorithm::Cubic, "{long:?}");
        assert!(long.window_bytes <= TCP_WINDOW && long.streams >= 3, "{long:?}");
        let (low, high) = long.interval_s;
        assert!(low < long.seconds && long.seconds < high, "{long:?}");
        let short = plan(&input, Bytes(40)).expect("a plan");
        assert_eq!(short.streams, 1, "{short:?}");
        let lossy = plan(&PlanInput { loss: 1e-3, ..input }, Bytes(1_000_000_000_000));
        assert_eq!(lossy.expect("a plan").congestion, Algorithm::Bbr);
    }
}

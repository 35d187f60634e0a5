//! What a plan is: what to choose for a transfer, how long it will take, and why, whatever its
//! figures come from.

use super::fluid::COMPARED_LOSS;
use super::interval::IntervalReason;
use super::path::{PathPoint, TCP_HEADERS};
use super::reason::Reason;
use crate::congestion::Algorithm;
use crate::statistics::Summary;
use crate::units::{Bytes, Rate, Span};
use serde::{Deserialize, Serialize};

/// The name and version of the document.
pub const PLAN_SCHEMA: &str = "farline/plan/1";

/// A plan with fewer streams is preferred when it takes at most this much longer.
pub(crate) const TIE: f64 = 0.02;
/// The model's own error: what its throughput was off from packets at most
/// (`fluids_and_packets_agree`). How much longer than others one repetition took nobody knows: the
/// same is assumed.
const ASSUMED: f64 = 0.1;
/// How much longer than the model says a copy may take where nobody knows the queue: over 80 paths
/// drawn at random nine of ten copies took no longer (`cargo xtask bench plan drawn`).
const UNKNOWN_QUEUE: f64 = 0.5;
/// How much longer a copy may take than the one repetition of the best of a probe's cells, which is
/// the luckiest of them too: over 40 paths drawn at random it took 20 % longer at most, and
/// once 34 % (`cargo xtask bench plan drawn --from probe`).
const ONE_REPETITION: f64 = 0.25;
/// Round trips that no data fills: login, key, data connections and request, three until the first
/// byte leaves, and one in which the other end says that all has arrived (seen at 100 ms: 4.2 to
/// 4.8 for a file of 1,000 bytes).
pub(crate) const SET_UP_TRIPS: f64 = 4.25;
/// Staging below this makes threads wait for each other; above, it only takes memory (ADTS, section
/// V.B: 32 to 64 MB).
const STAGING: (Bytes, Bytes) = (Bytes::mib(16), Bytes::mib(64));
/// The window that every system gives without being told: what TCP has without scaling (RFC 9293).
const LEAST_WINDOW: Bytes = Bytes(64 << 10);

/// Where a plan's figures come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlanSource {
    /// Nothing was measured: a name, or figures given by hand.
    Model,
    /// A short measurement of rate, rtt and loss.
    Probe,
    /// What the node says that its last transfer saw.
    #[serde(rename = "told")]
    Reported,
    /// A stored profile.
    Profile,
}

/// What is known of path and host.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanInput {
    /// The path: its rate is the bottleneck's, what other traffic leaves.
    pub path: PathPoint,
    /// Whether the path's queue is known; otherwise it may be anything from a tenth of what the
    /// path holds to four times as much.
    pub is_queue_known: bool,
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
    pub source: PlanSource,
}

/// What to do, and what to expect of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// [`PLAN_SCHEMA`].
    pub schema: String,
    /// What is to be moved.
    pub size_bytes: Bytes,
    /// TCP streams, which are data channels.
    pub streams: u32,
    /// The congestion control.
    pub congestion: Algorithm,
    /// The channel driver, where it is not the one that every node takes: `--channel`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<&'static str>,
    /// What one stream must be allowed to have on its way.
    pub window_bytes: Bytes,
    /// Of the staging pool.
    pub staging_bytes: Bytes,
    /// Expected time.
    pub seconds: f64,
    /// It lies between these in 19 of 20 cases: by Student's t where runs differ, of the logarithms
    /// where a queue that nobody knows makes them differ, and then half as far again above it at
    /// least; a tenth to either side at least where they are the model's, which is its own error.
    /// Where one repetition says nothing of the others a tenth below and a quarter above are
    /// assumed. The reasons say which. It has no upper end (infinity; `null` in a document) where
    /// the model knows too little of so many losses.
    pub interval_s: (f64, f64),
    /// Payload per time that this is.
    pub rate_bps: Rate,
    /// The rate at which a node let itself be measured at most, where nothing but that held the
    /// measurement: `rate_bps` is a lower bound, `interval_s` has no lower end but set-up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ceiling_bps: Option<Rate>,
    /// Where the figures are from.
    pub source: PlanSource,
    /// Why, for each choice.
    pub reasons: Vec<Reason>,
}

/// What runs of a cell took.
pub(crate) enum Runs<'a> {
    /// Seconds of each, of the model's.
    Modelled(&'a [f64]),
    /// Seconds of each, over a path; of one alone, by how much they may be off by what it saw.
    #[cfg_attr(not(feature = "profile"), expect(dead_code, reason = "only profiles measure"))]
    Measured(&'a [f64], Option<f64>, Fastest),
}

/// What ends the speed of a measured path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "profile"), expect(dead_code, reason = "only profiles measure"))]
pub(crate) enum Fastest {
    /// A wire whose rate is known.
    Wire,
    /// A wire of which nobody told the rate.
    Unknown,
    /// The rate at which a node lets itself be measured held the measurement, not the path.
    Ceiling(Rate),
}

/// Expected seconds, between which they lie, and why; `least` is what the wire takes.
fn foretold(runs: &Runs<'_>, input: &PlanInput, least: f64) -> (f64, (f64, f64), IntervalReason) {
    let PlanInput { is_queue_known, loss, .. } = *input;
    match *runs {
        Runs::Modelled(all) => {
            // A queue changes a time by factors, not by seconds.
            let logs: Vec<f64> = all.iter().map(|seconds| seconds.ln()).collect();
            let by = if is_queue_known { all } else { &logs };
            let summary = Summary::of(by).map(|all| (all.mean, all.prediction95()));
            let (mean, range) = summary.unwrap_or((f64::INFINITY, None));
            let (mut low, mut high) = range.unwrap_or((mean, mean));
            let mut seconds = mean;
            if !is_queue_known {
                (seconds, low, high) = (mean.exp(), low.exp(), high.exp());
            }
            let seconds = seconds.max(least);
            low = low.min(seconds * (1.0 - ASSUMED)).max(least);
            // Where the model fills the wire a copy can only be slower.
            let at_wire = seconds * (1.0 - ASSUMED) < least;
            let seconds =
                if at_wire { seconds.max(least * (1.0 + ASSUMED / 2.0)) } else { seconds };
            let above = if is_queue_known { ASSUMED } else { UNKNOWN_QUEUE };
            high = high.max(seconds * (1.0 + above));
            if loss > COMPARED_LOSS {
                let why = IntervalReason::Lossy { loss, compared: COMPARED_LOSS };
                return (seconds, (low, f64::INFINITY), why);
            }
            let why = IntervalReason::Model { part: ASSUMED, at_wire, is_queue_known };
            (seconds, (low, high), why)
        }
        Runs::Measured(all, alone, fastest) => {
            let least = if fastest == Fastest::Unknown { 0.0 } else { least };
            let summary = Summary::of(all).map(|all| (all.mean, all.prediction95()));
            let (mean, range) = summary.unwrap_or((f64::INFINITY, None));
            let seconds = mean.max(least);
            let lucky = seconds * ONE_REPETITION;
            let (below, above, why) = match (range, alone) {
                (Some((_, high)), _) => {
                    (high - mean, high - mean, IntervalReason::Repetitions(all.len()))
                }
                (None, Some(off)) if off > seconds * ASSUMED => {
                    (off, off.max(lucky), IntervalReason::Varied)
                }
                _ => {
                    let at_wire = seconds * (1.0 - ASSUMED) < least;
                    let why =
                        IntervalReason::Assumed { below: ASSUMED, above: ONE_REPETITION, at_wire };
                    (seconds * ASSUMED, lucky, why)
                }
            };
            match fastest {
                Fastest::Ceiling(rate) => {
                    (seconds, (0.0, seconds + above), IntervalReason::Ceiling(rate))
                }
                _ => (seconds, ((seconds - below).max(least), seconds + above), why),
            }
        }
    }
}

/// The plan of `streams` streams of `congestion` whose `runs` took so long, each on its own.
pub(crate) fn finished(
    input: &PlanInput,
    size: Bytes,
    (congestion, streams): (Algorithm, u32),
    runs: &Runs<'_>,
    mut reasons: Vec<Reason>,
) -> Plan {
    // No transfer is faster than the wire; what was measured for seconds may be, by what a queue or
    // a pacer had saved up.
    let share = (f64::from(input.mtu) - TCP_HEADERS as f64)
        / crate::wan::frames::wire_bytes(u64::from(input.mtu)) as f64;
    // So may what a ceiling held: what came above it is no bound of what a copy does.
    let ceiling = match *runs {
        Runs::Measured(.., Fastest::Ceiling(rate)) => Some(rate),
        _ => None,
    };
    let fastest = ceiling.unwrap_or(input.path.rate_bps);
    let least = size.0 as f64 * 8.0 / (fastest.as_bps() as f64 * share);
    let (seconds, interval, why) = foretold(runs, input, least);
    reasons.push(Reason::Interval(why));
    let set_up = input.path.rtt_ns.as_secs_f64() * SET_UP_TRIPS;
    let (seconds, interval_s) = (seconds + set_up, (interval.0 + set_up, interval.1 + set_up));
    // A full pipe and a full queue, shared by the streams.
    let held = input.path.rate_bps.bytes_in(input.path.rtt_ns).0 + input.path.queue_bytes.0;
    let share = Bytes((held / u64::from(streams)).max(LEAST_WINDOW.0));
    // No stream ever has more on its way than there is.
    let window = share.min(size.max(LEAST_WINDOW));
    let why = match window < share {
        true => Reason::WindowOfSize { window, size },
        false => Reason::Window(window),
    };
    let (window, why) = match input.window.filter(|most| *most < window) {
        Some(most) => (most, Reason::Window(most)),
        None => (window, why),
    };
    let staging =
        Bytes(input.path.rate_bps.bytes_in(input.path.rtt_ns).0.clamp(STAGING.0.0, STAGING.1.0))
            .min(size.max(STAGING.0));
    reasons.push(why);
    reasons.push(Reason::Staging(staging, input.path.rtt_ns));
    Plan {
        schema: PLAN_SCHEMA.to_owned(),
        size_bytes: size,
        streams,
        congestion,
        channel: None,
        window_bytes: window,
        staging_bytes: staging,
        seconds,
        interval_s,
        rate_bps: Rate::of(size, Span::from_secs_f64(seconds)),
        ceiling_bps: ceiling,
        source: input.source,
        reasons,
    }
}

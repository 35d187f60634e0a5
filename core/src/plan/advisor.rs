//! What a plan is: what to choose for a transfer, how long it will take, and why, whatever its
//! figures come from.

use super::path::{PathPoint, TCP_HEADERS};
use super::reason::{IntervalReason, Reason};
use crate::congestion::Algorithm;
use crate::statistics::Summary;
use crate::units::{Bytes, Rate, Span};
use serde::{Deserialize, Serialize};

/// The name and version of the document.
pub const PLAN_SCHEMA: &str = "farline/plan/1";

/// A plan with fewer streams is preferred when it takes at most this much longer.
pub(crate) const TIE: f64 = 0.02;
/// The model's own error: what its throughput was off from packets at most
/// (`fluids_and_packets_agree`). What one repetition may be off from others nobody knows: the same
/// is assumed.
const ASSUMED: f64 = 0.1;
/// Staging below this makes threads wait for each other; above, it only takes memory (ADTS, section
/// V.B: 32 to 64 MB).
const STAGING: (Bytes, Bytes) = (Bytes::mib(16), Bytes::mib(64));

/// Where a plan's figures come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlanSource {
    /// Nothing was measured: a name, or figures given by hand.
    Model,
    /// A short measurement of rate, rtt and loss.
    Probe,
    /// A stored profile.
    Profile,
}

/// What is known of path and host.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanInput {
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
    /// What one stream must be allowed to have on its way.
    pub window_bytes: Bytes,
    /// Of the staging pool.
    pub staging_bytes: Bytes,
    /// Expected time.
    pub seconds: f64,
    /// It lies between these in 19 of 20 cases: by Student's t where runs differ, and a tenth to
    /// either side at least where they are the model's, which is its own error, or where one
    /// repetition says nothing of the others, which is an assumption. The reasons say which.
    pub interval_s: (f64, f64),
    /// Payload per time that this is.
    pub rate_bps: Rate,
    /// Where the figures are from.
    pub source: PlanSource,
    /// Why, for each choice.
    pub reasons: Vec<Reason>,
}

/// The plan of `streams` streams of `congestion` that took `all` seconds, each in a run of its own;
/// `is_measured` says whether they are those of a path, and not of the model.
pub(crate) fn finished(
    known: &PlanInput,
    size: Bytes,
    (congestion, streams): (Algorithm, u32),
    all: &[f64],
    is_measured: bool,
    mut reasons: Vec<Reason>,
) -> Plan {
    // No transfer is faster than the wire; what was measured for seconds may be, by what a queue or
    // a pacer had saved up.
    let share = (f64::from(known.mtu) - TCP_HEADERS as f64)
        / crate::wan::frames::wire_bytes(u64::from(known.mtu)) as f64;
    let least = size.0 as f64 * 8.0 / (known.path.rate_bps.as_bps() as f64 * share);
    let mean = all.iter().sum::<f64>() / all.len().max(1) as f64;
    let seconds = mean.max(least);
    let foretold = Summary::of(all).and_then(|summary| summary.prediction95());
    let spread = foretold.map_or(0.0, |(_, high)| high - mean);
    let off =
        if is_measured && foretold.is_some() { spread } else { spread.max(seconds * ASSUMED) };
    let (mut low, high) = (seconds - off, seconds + off);
    // Where the model fills the wire a copy can only be slower.
    let at_wire = !is_measured && low < least;
    low = low.max(least);
    let seconds = if at_wire { f64::midpoint(low, high) } else { seconds };
    reasons.push(Reason::Interval(match (is_measured, foretold) {
        (true, Some(_)) => IntervalReason::Repetitions(all.len()),
        (true, None) => IntervalReason::Assumed(ASSUMED),
        (false, _) => IntervalReason::Model { part: ASSUMED, at_wire },
    }));
    // A full pipe and a full queue, shared by the streams.
    let held = known.path.rate_bps.bytes_in(known.path.rtt_ns).0 + known.path.queue_bytes.0;
    let window = Bytes((held / u64::from(streams)).max(64 << 10));
    let window = known.window.map_or(window, |most| window.min(most));
    let staging =
        Bytes(known.path.rate_bps.bytes_in(known.path.rtt_ns).0.clamp(STAGING.0.0, STAGING.1.0))
            .min(size.max(STAGING.0));
    reasons.push(Reason::Window(window));
    reasons.push(Reason::Staging(staging, known.path.rtt_ns));
    Plan {
        schema: PLAN_SCHEMA.to_owned(),
        size_bytes: size,
        streams,
        congestion,
        window_bytes: window,
        staging_bytes: staging,
        seconds,
        interval_s: (low, high),
        rate_bps: Rate::of(size, Span::from_secs_f64(seconds)),
        source: known.source,
        reasons,
    }
}

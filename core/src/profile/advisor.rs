//! What a plan is: what to choose for a transfer, how long it will take, and why, whatever its figures come from.

use super::cell::PathPoint;
use super::document::TCP_HEADERS;
use super::statistics::Summary;
use crate::congestion::Algorithm;
use crate::units::{Bytes, Rate, Span};
use serde::{Deserialize, Serialize};

/// The name and version of the document.
pub const PLAN_SCHEMA: &str = "farline/plan/1";

/// A plan with fewer streams is preferred when it takes at most this much longer.
pub(super) const TIE: f64 = 0.02;
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

pub(super) fn finished(
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

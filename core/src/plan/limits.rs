//! The ceilings of a plan, in one table, and the limits of each quantity of a path.

use super::path::PathPoint;
use crate::units::{Bytes, Rate, Span};

/// The most TCP streams, which are data channels, for each purpose.
#[derive(Clone, Copy, Debug)]
pub struct ChannelLimits;

impl ChannelLimits {
    /// That a transfer opens: more cost more processor time than they win on any path of the papers
    /// (SC08, figures 2 to 4).
    pub const TRANSFER: u32 = 16;
    /// That the model tries: SC08's peaks end there.
    pub const MODEL: u32 = 20;
    /// That a client may ask for: some are left for what a node answers to others.
    pub const ASKED: u32 = 60;
    /// That a node accepts for one transfer, from whatever client.
    pub const NODE: u32 = 64;
    /// That a profile may ask for: no end system of the papers had more than 20.
    pub const MEASURED: u32 = 1_000;
}

/// Ethernet's largest payload in use and IP's smallest (RFC 791; a USN switch took 9216).
const MTU: (u32, u32) = (576, 65_535);

// The limits of each quantity, in words where one is exceeded: a plan's are the same.

pub(crate) fn mtu_fault(mtu: u32) -> Option<String> {
    (!(MTU.0..=MTU.1).contains(&mtu))
        .then(|| format!("an MTU of {mtu}: from {} to {}", MTU.0, MTU.1))
}

pub(crate) fn loss_fault(loss: f64) -> Option<String> {
    (!(0.0..1.0).contains(&loss))
        .then(|| format!("a loss of {loss}: a probability from 0 to below 1"))
}

pub(crate) fn window_fault(window: Bytes, packet: u64) -> Option<String> {
    (window.0 < packet).then(|| format!("a window of {window} holds no packet of {packet} bytes"))
}

pub(crate) fn path_fault(path: &PathPoint, packet: u64) -> Option<String> {
    if path.rate_bps == Rate::default() || path.rtt_ns == Span::ZERO || path.queue_bytes.0 < packet
    {
        return Some(format!(
            "the path {}: rate, rtt and a queue of at least one packet must be above zero",
            path.name
        ));
    }
    (path.rtt_ns > Span::from_secs(60))
        .then(|| format!("the path {}: an rtt of {} is more than a minute", path.name, path.rtt_ns))
}

pub(crate) fn host_fault(host: Option<Rate>) -> Option<String> {
    (host == Some(Rate::default())).then(|| "a host that sends at zero".to_owned())
}

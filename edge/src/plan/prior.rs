//! What the next copy begins with, by the stored profile of its path.

use farline_core::transfer::PriorMeasurement;

/// What the stored profile of the path to the one node of a copy found best: `from` it, or `to` it,
/// as `HOST:PORT`. Of the path between two nodes nothing is known here.
#[cfg(feature = "profile")]
pub fn prior(from: Option<&str>, to: Option<&str>) -> Option<PriorMeasurement> {
    use super::stored;
    use farline_core::profile::{TrafficDirection, plan_from};
    use farline_core::units::Bytes;

    // How much it will be is not known when a copy begins.
    const ADVISED_FOR: Bytes = Bytes(64 << 30);
    let (server, way) = match (from, to) {
        (None, Some(server)) => (server, TrafficDirection::Out),
        (Some(server), None) => (server, TrafficDirection::Back),
        _ => return None,
    };
    let profile = stored(server, way)?;
    let plan = plan_from(&profile, None, Some(way), ADVISED_FOR).ok()?;
    // What reached the node's ceiling tells nothing of what is best without one.
    if plan.ceiling_bps.is_some() {
        return None;
    }
    Some(PriorMeasurement {
        streams: plan.streams,
        congestion: plan.congestion.into(),
        channel: plan.channel,
        date: profile.date,
    })
}

/// Nothing: this build stores no profile.
#[cfg(not(feature = "profile"))]
pub fn prior(_: Option<&str>, _: Option<&str>) -> Option<PriorMeasurement> {
    None
}

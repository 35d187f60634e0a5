//! Profiles of real paths: to a node that lets itself be measured.

use super::print::rate;
use crate::connect;
use crate::duration::duration;
use crate::node::remote;
use crate::output::Output;
use crate::provenance::now;
use farline::client::{Consent, NodeBench, Remote};
use farline::plan::{self, ProbePath};
use farline_core::profile::{Job, PathPoint, Profile, Repetition, TrafficDirection};
use farline_core::units::{Error, Rate, Span};
use std::time::{Duration, Instant};

/// How long a probe takes in all, setting up included, whatever the path.
const PROBE_LONGEST: Duration = Duration::from_secs(20);
/// A node that says nothing for so long is not probed.
const PROBE_IDLE_TIMEOUT: Span = Span::from_secs(10);

/// A node, and what it says to being measured.
pub(super) fn open(node: &str) -> Result<(NodeBench, Remote, Consent), Error> {
    let remote = remote(node)?;
    let (bench, consent) = NodeBench::open(remote.clone(), connect::usual())?;
    Ok((bench, remote, consent))
}

/// The path to `remote` as a grid has it: at most as fast as the node allows.
pub(super) fn path(remote: &Remote, consent: Consent, rate: Option<Rate>) -> PathPoint {
    let rate = rate.map_or(consent.ceiling, |rate| rate.min(consent.ceiling));
    PathPoint { name: remote.server(), ..PathPoint::custom(rate, consent.rtt) }
}

/// Stores `profile` for plans and copies, and says which stored ones stay.
pub(crate) fn store(profile: &Profile, node: &str, output: &Output) -> Result<(), Error> {
    for kept in plan::store(profile, &remote(node)?.server())? {
        if !output.quiet() {
            let (new, before) = (duration(kept.new_seconds), duration(kept.seconds));
            eprintln!(
                "farline: plans go on by the {before} that were measured before, not by these \
                 {new}; remove {} to change that",
                kept.place.display()
            );
        }
    }
    Ok(())
}

/// A short profile of the path to `node` for data that goes `way`, of at most 20 s.
pub(crate) fn probe(
    node: &Remote,
    way: TrafficDirection,
    output: &Output,
) -> Result<Profile, Error> {
    let deadline = Instant::now() + PROBE_LONGEST;
    let mut connect = connect::usual();
    connect.timeout = Some(PROBE_IDLE_TIMEOUT);
    let (mut bench, consent) = NodeBench::open(node.clone(), connect)?;
    bench.end_at(deadline);
    let probed =
        ProbePath { server: node.server(), ceiling: consent.ceiling, rtt: consent.rtt, way };
    let mut watch = |job: &Job, found: &Repetition| {
        if !output.quiet() {
            let doubt =
                found.invalid.as_ref().map_or_else(String::new, |why| format!(", INVALID: {why}"));
            eprintln!(
                "farline: probing {}: {}{doubt}",
                job.cell.name(),
                rate(found.whole.receiver_bps.as_bps() as f64)
            );
        }
    };
    plan::probe(&mut bench, &probed, deadline, now(), &mut watch)
}

//! Profiles of real paths: to a node that lets itself be measured; and those that were stored, for
//! plans.

use super::document::{read, text, write};
use super::measure;
use super::print::{duration, rate};
use crate::node::remote;
use crate::output::Output;
use farline::client::{ConnectOptions, Consent, NodeBench, Remote};
use farline::stores::state_folder;
use farline_core::congestion::Algorithm;
use farline_core::profile::{
    Bench, Grid, PathPoint, Profile, ProfileKind, Repetitions, TrafficDirection, plan_from,
};
use farline_core::units::{Bytes, Error, Rate, Span};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

/// A stored profile is trusted for so long: paths are rebuilt.
const FRESH: Duration = Duration::from_secs(30 * 24 * 3_600);
/// A probe for so long: seconds of a path say little of another day.
const PROBE_FRESH: Duration = Duration::from_secs(24 * 3_600);
/// A probe's grid is called so.
const PROBE: &str = "probe";

/// The streams that a probe tries, those first that are best most often: what does not fit into its
/// time is left out.
const PROBE_STREAMS: [u32; 3] = [4, 16, 1];
/// And the controls, of each number of streams the one after the other.
const PROBE_CONTROLS: [Algorithm; 2] = [Algorithm::Cubic, Algorithm::Bbr];
/// How long it tries each, in seconds, or eight round trips if those are longer.
const PROBE_S: f64 = 2.5;
/// How long it takes in all, setting up included, whatever the path.
const PROBE_LONGEST: Duration = Duration::from_secs(20);
/// Round trips in which a measurement is set up: connecting, logging in, asking, connecting the
/// data, hearing what came.
const AROUND: f64 = 8.0;
/// A node that says nothing for so long is not probed.
const PROBE_SILENCE: Span = Span::from_secs(10);
/// A profile is stored when there is a plan for so much from it.
const SOME: Bytes = Bytes::mib(1_024);

/// A node, and what it says to being measured.
pub(super) fn open(node: &str) -> Result<(NodeBench, Remote, Consent), Error> {
    let remote = remote(node)?;
    let (bench, consent) = NodeBench::open(remote.clone(), ConnectOptions::default())?;
    Ok((bench, remote, consent))
}

/// The path to `remote` as a grid has it: at most as fast as the node allows.
pub(super) fn path(remote: &Remote, consent: Consent, rate: Option<Rate>) -> PathPoint {
    let rate = rate.map_or(consent.ceiling, |rate| rate.min(consent.ceiling));
    PathPoint { name: remote.server(), ..PathPoint::custom(rate, consent.rtt) }
}

/// Where the profile of the path to `remote`, for data that goes `way`, is stored.
fn place(remote: &Remote, way: TrafficDirection) -> Option<PathBuf> {
    let plain = |letter: char| {
        if letter.is_ascii_alphanumeric() || "-_.".contains(letter) { letter } else { '_' }
    };
    let name: String = remote.server().chars().map(plain).collect();
    let way = if way == TrafficDirection::Back { ".back" } else { "" };
    Some(state_folder()?.join("profiles").join(format!("{name}{way}.json")))
}

/// Keeps `profile` for plans of each way of which it says enough for one, unless what is kept for
/// that way says more. A user without a state directory has none.
pub(crate) fn store(profile: &Profile, node: &str, output: &Output) -> Result<(), Error> {
    let remote = remote(node)?;
    for way in [TrafficDirection::Out, TrafficDirection::Back] {
        let Some(place) = place(&remote, way) else { return Ok(()) };
        // What no plan comes from would stand in the way of a probe, and of the model.
        if plan_from(profile, None, Some(way), SOME).is_err() {
            continue;
        }
        let (new, kept) = (
            valid_seconds(profile, way),
            stored(&remote, way).map_or(0.0, |kept| valid_seconds(&kept, way)),
        );
        if new < kept {
            if !output.quiet() {
                let (new, kept, place) = (duration(new), duration(kept), place.display());
                eprintln!(
                    "farline: plans go on by the {kept} that were measured before, not by these \
                     {new}; remove {place} to change that"
                );
            }
            continue;
        }
        if let Some(folder) = place.parent() {
            // What cannot be made is said by the write.
            let _ = std::fs::create_dir_all(folder);
        }
        write(&place, &text(profile)?)?;
    }
    Ok(())
}

/// How long valid repetitions of `profile` had data going `way` and no other.
fn valid_seconds(profile: &Profile, way: TrafficDirection) -> f64 {
    let there = profile.plain().filter(|result| result.cell.direction == way);
    there.flat_map(|result| result.valid().map(|one| one.seconds)).sum()
}

/// The stored profile of the path to `node` for data that goes `way`, unless it is old.
pub(crate) fn stored(node: &Remote, way: TrafficDirection) -> Option<Profile> {
    let place = place(node, way)?;
    let written = place.metadata().ok()?.modified().ok()?;
    let age = SystemTime::now().duration_since(written).ok()?;
    let profile = read(&place).ok()?;
    (age < if profile.grid.name == PROBE { PROBE_FRESH } else { FRESH }).then_some(profile)
}

/// A short profile of the path to `node` for data that goes `way`, of at most 20 s: as many of its
/// cells as fit in, each tried once.
pub(crate) fn probe(
    node: &Remote,
    way: TrafficDirection,
    output: &Output,
) -> Result<Profile, Error> {
    let deadline = Instant::now() + PROBE_LONGEST;
    let (mut bench, consent) = NodeBench::open(
        node.clone(),
        ConnectOptions { timeout: Some(PROBE_SILENCE), ..ConnectOptions::default() },
    )?;
    bench.end_at(deadline);
    let mut grid = Grid {
        streams: PROBE_STREAMS.to_vec(),
        directions: vec![way],
        seconds: PROBE_S.max(consent.rtt.as_secs_f64() * 8.0),
        warm_up_s: 0.0,
        sample_s: 0.1,
        repetitions: Repetitions { least: 1, most: 1, half_width: 0.0 },
        host_bps: Some(consent.ceiling),
        ..Grid::new(PROBE, vec![path(node, consent, None)], PROBE_CONTROLS.to_vec())
    };
    if bench.prepare(&grid).is_err() {
        // A host without BBR is probed with what every kernel has.
        grid.congestion = vec![Algorithm::Cubic];
        bench.prepare(&grid)?;
    }
    let mut profile =
        Profile::new(grid, ProfileKind::Measured, measure::environment(), super::now())?;
    profile.environment.node = Some(node.server());
    let mut jobs = profile.next(usize::MAX);
    let rank = |streams| PROBE_STREAMS.iter().position(|one| *one == streams);
    jobs.sort_by_key(|job| {
        (rank(job.cell.streams), PROBE_CONTROLS.iter().position(|one| *one == job.cell.congestion))
    });
    let mut longest =
        Duration::from_secs_f64(profile.grid.seconds + AROUND * consent.rtt.as_secs_f64());
    let mut failed: Vec<(Algorithm, Error)> = Vec::new();
    for job in jobs {
        let began = Instant::now();
        // What a control cannot do with some streams, it cannot with others; what would be broken
        // off says nothing.
        if failed.iter().any(|(control, _)| *control == job.cell.congestion)
            || began + longest > deadline
        {
            continue;
        }
        match bench.run(&profile.grid, &job) {
            Ok(found) => {
                if !output.quiet() {
                    let doubt = found
                        .invalid
                        .as_ref()
                        .map_or_else(String::new, |why| format!(", INVALID: {why}"));
                    eprintln!(
                        "farline: probing {}: {}{doubt}",
                        job.cell.name(),
                        rate(found.whole.receiver_bps.as_bps() as f64)
                    );
                }
                profile.record(&job, found);
            }
            Err(error) => failed.push((job.cell.congestion, error)),
        }
        longest = longest.max(began.elapsed());
    }
    match failed.into_iter().next() {
        Some((_, error)) if profile.cells.iter().all(|result| result.repetitions.is_empty()) => {
            Err(error)
        }
        _ => Ok(profile),
    }
}

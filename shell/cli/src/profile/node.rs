//! Profiles of real paths: to a node that lets itself be measured; and those that were stored, for plans.

use super::document::{read, text, write};
use super::measure;
use crate::node::remote;
use crate::output::Output;
use farline::client::{Consent, NodeBench, Reach, Remote};
use farline::stores::state_folder;
use farline_core::congestion::Algorithm;
use farline_core::profile::{Grid, Kind, PathPoint, Profile, Repetitions};
use farline_core::units::{Error, Rate};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// A stored profile is trusted for so long: paths are rebuilt.
const FRESH: Duration = Duration::from_secs(30 * 24 * 3_600);
/// A probe for so long: seconds of a path say little of another day.
const PROBE_FRESH: Duration = Duration::from_secs(24 * 3_600);
/// A probe's grid is called so.
const PROBE: &str = "probe";

/// The streams that a probe tries.
const PROBE_STREAMS: [u32; 3] = [1, 4, 16];
/// How long it tries each, in seconds; with both controls and the setting up it stays below 20.
const PROBE_S: f64 = 2.5;

/// A node, and what it says to being measured.
pub(super) fn open(node: &str) -> Result<(NodeBench, Remote, Consent), Error> {
    let remote = remote(node)?;
    let (bench, consent) = NodeBench::open(remote.clone(), Reach::default())?;
    Ok((bench, remote, consent))
}

/// The path to `remote` as a grid has it: at most as fast as the node allows.
pub(super) fn path(remote: &Remote, consent: Consent, rate: Option<Rate>) -> PathPoint {
    let rate = rate.map_or(consent.ceiling, |rate| rate.min(consent.ceiling));
    PathPoint { name: remote.server(), ..PathPoint::custom(rate, consent.rtt) }
}

/// Where the profile of the path to `remote` is stored.
fn place(remote: &Remote) -> Option<PathBuf> {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() || "-_.".contains(letter) { letter } else { '_' };
    let name: String = remote.server().chars().map(plain).collect();
    Some(state_folder()?.join("profiles").join(format!("{name}.json")))
}

/// Keeps `profile` for plans; a user without a state directory has none.
pub(crate) fn store(profile: &Profile, node: &str) -> Result<(), Error> {
    let Some(place) = place(&remote(node)?) else { return Ok(()) };
    if let Some(folder) = place.parent() {
        // What cannot be made is said by the write.
        let _ = std::fs::create_dir_all(folder);
    }
    write(&place, &text(profile)?)
}

/// The stored profile of the path to `node`, unless it is old.
pub(crate) fn stored(node: &Remote) -> Option<Profile> {
    let place = place(node)?;
    let written = place.metadata().ok()?.modified().ok()?;
    let age = SystemTime::now().duration_since(written).ok()?;
    let profile = read(&place).ok()?;
    (age < if profile.grid.name == PROBE { PROBE_FRESH } else { FRESH }).then_some(profile)
}

/// A short profile of the path to `node`, of at most 20 s.
pub(crate) fn probe(node: &Remote, output: &Output) -> Result<Profile, Error> {
    let (mut bench, consent) = NodeBench::open(node.clone(), Reach::default())?;
    let controls = [Algorithm::Cubic, Algorithm::Bbr];
    let mut grid = Grid {
        streams: PROBE_STREAMS.to_vec(),
        seconds: PROBE_S.max(consent.rtt.as_secs_f64() * 8.0),
        warm_up_s: 0.0,
        sample_s: 0.1,
        repetitions: Repetitions { least: 1, most: 1, half_width: 0.0 },
        host_bps: Some(consent.ceiling),
        ..Grid::new(PROBE, vec![path(node, consent, None)], controls.to_vec())
    };
    if bench.prepare(&grid).is_err() {
        // A host without BBR is probed with what every kernel has.
        grid.congestion = vec![Algorithm::Cubic];
        bench.prepare(&grid)?;
    }
    let mut profile = Profile::new(grid, Kind::Measured, measure::environment(), super::now())?;
    profile.environment.node = Some(node.server());
    measure::run(&mut profile, &[], &mut bench, output)?;
    Ok(profile)
}

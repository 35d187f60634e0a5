//! The profiles of real paths that this user's plans and copies go by, a document for each way.

use super::document::{read, text, write};
use super::probe::PROBE;
use crate::stores::state_folder;
use farline_core::profile::{Profile, TrafficDirection, plan_from};
use farline_core::units::{Bytes, Error};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// A stored profile is trusted for so long: paths are rebuilt.
const FRESH: Duration = Duration::from_secs(30 * 24 * 3_600);
/// A probe for so long: seconds of a path say little of another day.
const PROBE_FRESH: Duration = Duration::from_secs(24 * 3_600);
/// A profile is stored when there is a plan for so much from it.
const SOME: Bytes = Bytes::mib(1_024);

/// A profile that stays stored, as it says more than the new one.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ExistingProfile {
    /// Its document.
    pub place: PathBuf,
    /// Seconds of valid repetitions that it has.
    pub seconds: f64,
    /// Seconds that the new one has.
    pub new_seconds: f64,
}

/// Where the profile of the path to `server`, for data that goes `way`, is stored.
fn place(server: &str, way: TrafficDirection) -> Option<PathBuf> {
    let plain = |letter: char| {
        if letter.is_ascii_alphanumeric() || "-_.".contains(letter) { letter } else { '_' }
    };
    let name: String = server.chars().map(plain).collect();
    let way = if way == TrafficDirection::Back { ".back" } else { "" };
    Some(state_folder()?.join("profiles").join(format!("{name}{way}.json")))
}

/// Keeps `profile` of the path to `server`, `HOST:PORT`, for each way of which it says enough for a
/// plan. Returns the stored ones that stay, as they say more. A user without a state directory has
/// none.
///
/// # Errors
/// When a document cannot be written.
pub fn store(profile: &Profile, server: &str) -> Result<Vec<ExistingProfile>, Error> {
    let mut kept = Vec::new();
    for way in [TrafficDirection::Out, TrafficDirection::Back] {
        let Some(place) = place(server, way) else { break };
        // What no plan comes from would stand in the way of a probe, and of the model.
        if plan_from(profile, None, Some(way), SOME).is_err() {
            continue;
        }
        let new_seconds = valid_seconds(profile, way);
        let seconds = stored(server, way).map_or(0.0, |stored| valid_seconds(&stored, way));
        if new_seconds < seconds {
            kept.push(ExistingProfile { place, seconds, new_seconds });
            continue;
        }
        if let Some(folder) = place.parent() {
            // What cannot be made is said by the write.
            let _ = std::fs::create_dir_all(folder);
        }
        write(&place, &text(profile)?)?;
    }
    Ok(kept)
}

/// How long valid repetitions of `profile` had data going `way` and no other.
fn valid_seconds(profile: &Profile, way: TrafficDirection) -> f64 {
    let there = profile.plain().filter(|result| result.cell.direction == way);
    there.flat_map(|result| result.valid().map(|one| one.seconds)).sum()
}

/// The stored profile of the path to `server` for data that goes `way`, unless it is old.
pub fn stored(server: &str, way: TrafficDirection) -> Option<Profile> {
    let place = place(server, way)?;
    let written = place.metadata().ok()?.modified().ok()?;
    let age = SystemTime::now().duration_since(written).ok()?;
    let profile = read(&place).ok()?;
    (age < if profile.grid.name == PROBE { PROBE_FRESH } else { FRESH }).then_some(profile)
}

//! Two profiles beside each other: what was set differently, and which cells differ by more than chance.

use super::document::Profile;
use super::statistics::{Comparison, Summary, permutation, welch};
use crate::units::{Error, Fault};
use serde::Serialize;

/// The name and version of the document.
pub const DIFF_SCHEMA: &str = "farline/profile-diff/1";

/// Random divisions for each cell's permutation test: p is known to about 0.01 at 0.05.
const ROUNDS: u32 = 2_000;

/// One cell that both profiles have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellDifference {
    /// The cell's name.
    pub cell: String,
    /// Of the first profile, in bit/s.
    pub a: Summary,
    /// Of the second, in bit/s.
    pub b: Summary,
    /// Welch's test.
    pub welch: Option<Comparison>,
    /// The permutation test, which assumes no distribution.
    pub permutation: Option<Comparison>,
    /// Whether Welch's p is below the level after Holm's correction for as many cells.
    pub significant: bool,
}

/// What two profiles have in common and what not.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// [`DIFF_SCHEMA`].
    pub schema: &'static str,
    /// The probability at which a difference counts, for all cells together.
    pub level: f64,
    /// What was set differently, a sentence each; empty when the grids are the same.
    pub settings: Vec<String>,
    /// Cells of both, in the first one's order.
    pub cells: Vec<CellDifference>,
    /// Cells of only one of them, or without a valid repetition in one.
    pub only_in_one: usize,
}

/// Compares the goodput of every cell that `a` and `b` have in common at `level`, such as 0.05.
///
/// # Errors
/// [`Fault::You`] when they have no cell in common.
pub fn diff(a: &Profile, b: &Profile, level: f64) -> Result<Difference, Error> {
    let mut cells = Vec::new();
    for first in &a.cells {
        let name = first.cell.name();
        let Some(second) = b.cells.iter().find(|second| second.cell.name() == name) else { continue };
        let (one, other) = (first.goodput_bps(), second.goodput_bps());
        let (Some(sa), Some(sb)) = (Summary::of(&one), Summary::of(&other)) else { continue };
        let seed = a.grid.seed_of(&name, 0);
        cells.push(CellDifference {
            cell: name,
            a: sa,
            b: sb,
            welch: welch(&one, &other),
            permutation: permutation(&one, &other, ROUNDS, seed),
            significant: false,
        });
    }
    if cells.is_empty() {
        return Err(Error::new(Fault::You, "profile-diff", "the two profiles have no measured cell in common")
            .hint("cells are the same when path, control, streams, window, MTU, other traffic and loss are"));
    }
    holm(&mut cells, level);
    let only_in_one = a.cells.len() + b.cells.len() - 2 * cells.len();
    Ok(Difference { schema: DIFF_SCHEMA, level, settings: settings(a, b), cells, only_in_one })
}

/// Holm's step-down correction (Scandinavian Journal of Statistics 6, 1979): among many cells some differ by chance.
fn holm(cells: &mut [CellDifference], level: f64) {
    let mut order: Vec<(usize, f64)> =
        cells.iter().enumerate().filter_map(|(i, cell)| cell.welch.map(|found| (i, found.p))).collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let count = order.len();
    for (rank, (i, p)) in order.into_iter().enumerate() {
        if p >= level / (count - rank) as f64 {
            break;
        }
        cells[i].significant = true;
    }
}

fn settings(a: &Profile, b: &Profile) -> Vec<String> {
    let mut found = Vec::new();
    let mut compare = |what: &str, one: String, other: String| {
        if one != other {
            found.push(format!("{what}: {one} and {other}"));
        }
    };
    compare("kind", format!("{:?}", a.kind), format!("{:?}", b.kind));
    compare("Farline", a.farline.clone(), b.farline.clone());
    compare("seconds", a.grid.seconds.to_string(), b.grid.seconds.to_string());
    compare("warm-up in seconds", a.grid.warm_up_s.to_string(), b.grid.warm_up_s.to_string());
    let host = |profile: &Profile| profile.grid.host_bps.map_or_else(|| "no limit".to_owned(), |rate| rate.to_string());
    compare("host", host(a), host(b));
    compare("disturbance", format!("{:?}", a.grid.disturbance), format!("{:?}", b.grid.disturbance));
    compare("machine", format!("{:?}", a.environment.host), format!("{:?}", b.environment.host));
    compare("kernel", format!("{:?}", a.environment.kernel), format!("{:?}", b.environment.kernel));
    for one in &a.grid.paths {
        let Some(other) = b.grid.paths.iter().find(|other| other.name == one.name) else { continue };
        compare(&format!("rate of {}", one.name), one.rate_bps.to_string(), other.rate_bps.to_string());
        compare(&format!("rtt of {}", one.name), one.rtt_ns.to_string(), other.rtt_ns.to_string());
        compare(&format!("queue of {}", one.name), one.queue_bytes.to_string(), other.queue_bytes.to_string());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::Algorithm;
    use crate::profile::{Environment, Grid, Kind, PathPoint, Repetitions, Simulator};
    use crate::units::Rate;

    fn simulated(seed: u64, host: Option<u64>) -> Profile {
        let path = PathPoint::named("usn-1400", Some(Rate::from_bps(1_000_000_000))).expect("a path");
        let grid = Grid {
            streams: vec![1, 2, 4, 8],
            losses: vec![1e-4],
            seconds: 10.0,
            host_bps: host.map(Rate::from_bps),
            repetitions: Repetitions { least: 6, most: 6, half_width: 0.0 },
            seed,
            ..Grid::new("custom", vec![path], vec![Algorithm::Reno, Algorithm::Scalable])
        };
        let mut profile = Profile::new(grid, Kind::Modelled, Environment::default(), "").expect("a grid");
        profile.run(&mut Simulator, |_| true).expect("a model does not fail");
        profile
    }

    #[test]
    fn chance_is_not_a_difference_and_a_slow_host_is() {
        let base = simulated(1, None);
        let mut found = 0;
        for seed in 2..12 {
            let other = diff(&base, &simulated(seed, None), 0.05).expect("the same cells");
            assert_eq!((other.cells.len(), other.only_in_one, other.settings.len()), (8, 0, 0));
            found += other.cells.iter().filter(|cell| cell.significant).count();
        }
        assert!(found <= 2, "{found} of 80 cells differ by chance");
        let slow = diff(&base, &simulated(2, Some(100_000_000)), 0.05).expect("the same cells");
        let lost = slow.cells.iter().filter(|cell| cell.significant && cell.welch.is_some_and(|w| w.relative < -0.3)).count();
        assert!(lost >= 4 && slow.settings.iter().any(|words| words.starts_with("host: no limit")), "{slow:?}");
    }
}

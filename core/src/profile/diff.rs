//! Two profiles next to each other: what was set differently, and which cells differ by more than
//! chance.

use super::document::Profile;
use super::grid::Grid;
use crate::experiment::seed_of;
use crate::statistics::{Comparison, Summary, holm, permutation, welch};
use crate::units::{Error, ErrorCode, Fault};
use serde::Serialize;
use std::collections::HashMap;

/// The name and version of the document.
pub const DIFF_SCHEMA: &str = "farline/profile-diff/2";

/// Random divisions for each cell's permutation test: p is known to about 0.01 at 0.05.
const ROUNDS: u32 = 2_000;

/// With fewer repetitions on a side no division of them is rare enough to be found at 0.05: of 3
/// and 3 there are 20, of which every one has its mirror image, so that p is 0.1 at least.
const LEAST_PERMUTED: usize = 4;

/// One cell that both profiles have, with a valid repetition in each; its rates are those of the
/// full rate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellDifference {
    /// The cell's name.
    pub cell: String,
    /// Of the first profile, in bit/s.
    pub a: Summary,
    /// Of the second, in bit/s.
    pub b: Summary,
    /// Welch's test; absent where a side has a single repetition, of which nobody knows how far it
    /// is from others.
    pub welch: Option<Comparison>,
    /// The permutation test, which assumes no distribution; absent where a side has fewer than four
    /// repetitions.
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
    /// How many of them could be tested.
    pub tested: usize,
    /// Cells of both that have no valid repetition in one of them, or in both.
    pub without_valid: usize,
    /// Cells of only one of them.
    pub only_in_one: usize,
}

/// Compares the goodput of every cell that `a` and `b` have in common at `level`, such as 0.05;
/// scaled ones at the full rate.
///
/// # Errors
/// [`Fault::You`] when they have no cell in common, and when `level` is no probability between 0
/// and 1.
pub fn diff(a: &Profile, b: &Profile, level: f64) -> Result<Difference, Error> {
    if !(level > 0.0 && level < 1.0) {
        return Err(Error::new(
            Fault::You,
            ErrorCode::ProfileDiff,
            format!("a level of {level}: a probability between 0 and 1"),
        )
        .hint(
            "0.05 is usual: one of twenty pairs of equal profiles then differs somewhere by chance",
        ));
    }
    let (full_a, full_b) = (a.at_full_rate(), b.at_full_rate());
    // What was stretched was divided by nothing.
    let divided = |profile: &Profile| if profile.grid.time_scaled { 1 } else { profile.grid.scale };
    let (a, b) = (
        if a.grid.time_scaled { &full_a } else { a },
        if b.grid.time_scaled { &full_b } else { b },
    );
    // Each as it is called at a rate to which both can be divided.
    let place: HashMap<String, usize> = b
        .cells
        .iter()
        .enumerate()
        .map(|(place, result)| (result.cell.rate_scaled(divided(a)).name(), place))
        .collect();
    let (mut cells, mut common) = (Vec::new(), 0);
    for (result, first) in a.cells.iter().zip(&full_a.cells) {
        let Some(second) = place
            .get(&result.cell.rate_scaled(divided(b)).name())
            .and_then(|place| full_b.cells.get(*place))
        else {
            continue;
        };
        common += 1;
        let (one, other) = (first.goodput_bps(), second.goodput_bps());
        let (Some(sa), Some(sb)) = (Summary::of(&one), Summary::of(&other)) else { continue };
        // What was divided less has lost less of its sizes.
        let name = if divided(a) <= divided(b) { first.cell.name() } else { second.cell.name() };
        let seed = seed_of(a.grid.seed, &name, 0);
        let enough = one.len().min(other.len()) >= LEAST_PERMUTED;
        cells.push(CellDifference {
            cell: name,
            a: sa,
            b: sb,
            welch: welch(&one, &other),
            permutation: if enough { permutation(&one, &other, ROUNDS, seed) } else { None },
            significant: false,
        });
    }
    if cells.is_empty() {
        return Err(Error::new(
            Fault::You,
            ErrorCode::ProfileDiff,
            "the two profiles have no measured cell in common",
        )
        .hint(
            "cells are the same when path, control, streams, window, MTU, other traffic and \
                loss are, all at the full rate: packets of 1500 bytes scaled 6 are of 9000",
        ));
    }
    correct(&mut cells, level);
    Ok(Difference {
        schema: DIFF_SCHEMA,
        level,
        settings: settings(&full_a, &full_b),
        tested: cells.iter().filter(|cell| cell.welch.is_some()).count(),
        without_valid: common - cells.len(),
        only_in_one: a.cells.len() + b.cells.len() - 2 * common,
        cells,
    })
}

/// Among many cells some differ by chance.
fn correct(cells: &mut [CellDifference], level: f64) {
    let tested: Vec<usize> = (0..cells.len()).filter(|at| cells[*at].welch.is_some()).collect();
    let p: Vec<f64> = cells.iter().filter_map(|cell| Some(cell.welch?.p)).collect();
    for (at, says) in tested.into_iter().zip(holm(&p, level)) {
        cells[at].significant = says;
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
    let scale = |grid: &Grid| {
        if grid.time_scaled { format!("{}, stretched", grid.scale) } else { grid.scale.to_string() }
    };
    compare("scale", scale(&a.grid), scale(&b.grid));
    compare("Farline", a.farline.clone(), b.farline.clone());
    compare("seconds", a.grid.seconds.to_string(), b.grid.seconds.to_string());
    compare("warm-up in seconds", a.grid.warm_up_s.to_string(), b.grid.warm_up_s.to_string());
    let host = |profile: &Profile| {
        profile.grid.host_bps.map_or_else(|| "no limit".to_owned(), |rate| rate.to_string())
    };
    compare("host", host(a), host(b));
    compare(
        "disturbance",
        format!("{:?}", a.grid.disturbance),
        format!("{:?}", b.grid.disturbance),
    );
    compare("machine", format!("{:?}", a.environment.host), format!("{:?}", b.environment.host));
    compare("kernel", format!("{:?}", a.environment.kernel), format!("{:?}", b.environment.kernel));
    for one in &a.grid.paths {
        let Some(other) = b.grid.paths.iter().find(|other| other.name == one.name) else {
            continue;
        };
        compare(
            &format!("rate of {}", one.name),
            one.rate_bps.to_string(),
            other.rate_bps.to_string(),
        );
        compare(&format!("rtt of {}", one.name), one.rtt_ns.to_string(), other.rtt_ns.to_string());
        compare(
            &format!("queue of {}", one.name),
            one.queue_bytes.to_string(),
            other.queue_bytes.to_string(),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::Algorithm;
    use crate::profile::{Disturbance, PathPoint, Repetitions};
    use crate::units::{Bytes, Rate, Span};
    use crate::wan::Change;

    fn lossy() -> Grid {
        let path =
            PathPoint::named("usn-1400", Some(Rate::from_bps(1_000_000_000))).expect("a path");
        Grid {
            streams: vec![1, 2, 4, 8],
            losses: vec![1e-4],
            seconds: 10.0,
            repetitions: Repetitions { least: 6, most: 6, half_width: 0.0 },
            ..Grid::new("custom", vec![path], vec![Algorithm::Reno, Algorithm::Scalable])
        }
    }

    fn simulated(seed: u64, host: Option<u64>) -> Profile {
        Profile::modelled(Grid { host_bps: host.map(Rate::from_bps), seed, ..lossy() })
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
        let lost = slow
            .cells
            .iter()
            .filter(|cell| cell.significant && cell.welch.is_some_and(|w| w.relative < -0.3))
            .count();
        assert!(
            lost >= 4 && slow.settings.iter().any(|words| words.starts_with("host: no limit")),
            "{slow:?}"
        );
    }

    /// One stream over jumbo frames with windows of 16 MiB, divided by `k`.
    fn scaled(k: u32) -> Profile {
        let path = PathPoint::named("usn-1400", None).expect("a path");
        let grid = Grid {
            mtus: vec![9_000],
            windows_bytes: vec![Some(Bytes::mib(16))],
            seconds: 10.0,
            ..Grid::new("custom", vec![path], vec![Algorithm::Cubic])
        };
        Profile::modelled(grid.scaled(k).expect("jumbo frames"))
    }

    #[test]
    fn scaled_profiles_compare_at_the_full_rate_and_say_so() {
        // Neither 16 MiB nor 9000 is a multiple of 7.
        for (a, b) in [(6, 1), (1, 7), (6, 7)] {
            let found = diff(&scaled(a), &scaled(b), 0.05).expect("the same cells");
            let cell = &found.cells[0];
            assert!(
                (cell.b.mean / cell.a.mean - 1.0).abs() < 0.06 && cell.a.mean > 4e9,
                "{found:?}"
            );
            assert_eq!((found.cells.len(), found.only_in_one), (1, 0));
            assert!(
                found.settings.contains(&format!("scale: {a} and {b}")),
                "{:?}",
                found.settings
            );
        }
        let exact = diff(&scaled(6), &scaled(1), 0.05).expect("the same cells");
        assert_eq!(exact.cells[0].cell, "usn-1400 cubic 1 stream window 16 MiB mtu 9000");
    }

    #[test]
    fn a_stretched_profile_has_and_equals_the_full_rates_cells() {
        // Where something happens in the middle repetitions are stretched, too, so that slow start
        // is as large a part of them.
        let disturbance = Disturbance { at_ns: Span::from_secs(5), change: Change::Lose(1) };
        let full = Grid { disturbance: Some(disturbance), ..lossy() };
        let time_scaled = Profile::modelled(full.clone().scaled(2).expect("1500 is stretched"));
        let found = diff(&time_scaled, &Profile::modelled(full), 0.05).expect("the same cells");
        assert_eq!((found.tested, found.only_in_one), (8, 0));
        assert_eq!(found.settings, ["scale: 2, stretched and 1"]);
        assert_eq!(found.cells[0].cell, "usn-1400 reno 1 stream loss 1e-4");
        assert!(found.cells.iter().all(|cell| !cell.significant), "{found:#?}");
    }

    #[test]
    fn what_cannot_be_tested_is_not_called_the_same() {
        let base = simulated(1, None);
        let of = |count: usize| {
            let mut few = base.clone();
            few.cells.iter_mut().for_each(|result| result.repetitions.truncate(count));
            few
        };
        let mut slow = of(1);
        for one in slow.cells.iter_mut().flat_map(|result| &mut result.repetitions) {
            one.whole.receiver_bps = Rate::from_bps(one.whole.receiver_bps.as_bps() / 10);
        }
        let found = diff(&of(1), &slow, 0.05).expect("the same cells");
        assert_eq!((found.tested, found.cells.len()), (0, 8));
        assert!(
            found.cells.iter().all(|cell| cell.welch.is_none() && cell.permutation.is_none()),
            "{found:?}"
        );
        // Three against three have Welch's test; p of a permutation could not be small.
        let three = diff(&of(3), &of(3), 0.05).expect("the same cells");
        assert!(
            three.tested == 8
                && three
                    .cells
                    .iter()
                    .all(|cell| cell.welch.is_some() && cell.permutation.is_none())
        );
        assert!(
            diff(&of(4), &of(4), 0.05)
                .is_ok_and(|four| four.cells.iter().all(|cell| cell.permutation.is_some()))
        );
        for level in [0.0, 1.0, 7.0, -0.05, f64::NAN] {
            assert!(
                diff(&base, &base, level).is_err_and(|error| error.code == ErrorCode::ProfileDiff),
                "{level}"
            );
        }
    }

    #[test]
    fn each_cell_counts_once_as_compared_invalid_or_unmatched() {
        let a = simulated(1, None);
        let mut b = a.clone();
        b.cells[0].repetitions.iter_mut().for_each(|one| one.invalid = Some("late".to_owned()));
        b.cells.truncate(7);
        let found = diff(&a, &b, 0.05).expect("the same cells");
        assert_eq!((found.cells.len(), found.without_valid, found.only_in_one), (6, 1, 1));
    }
}

//! A short profile of a real path: what it tries, in which order, and when it stops.

use super::environment;
use farline_core::congestion::Algorithm;
use farline_core::profile::{
    Bench, Document, Grid, Job, PathPoint, Profile, ProfileKind, Repetition, Repetitions,
    TrafficDirection,
};
use farline_core::units::{Error, Rate, Span};
use std::time::{Duration, Instant};

/// A probe's grid is called so.
pub(super) const PROBE: &str = "probe";
/// The streams that a probe tries, those first that are best most often: what does not fit into its
/// time is left out.
const STREAMS: [u32; 3] = [4, 16, 1];
/// And the controls, of each number of streams the one after the other.
const CONTROLS: [Algorithm; 2] = [Algorithm::Cubic, Algorithm::Bbr];
/// How long it tries each, in seconds, or eight round trips if those are longer.
const TRIED_S: f64 = 2.5;
/// Round trips in which a measurement is set up: connecting, logging in, asking, connecting the
/// data, hearing what came.
const AROUND: f64 = 8.0;

/// A bench over a real path that a probe can be made with.
pub trait ProbeBench: Bench<Grid> {
    /// Makes ready for the cells of `grid`.
    ///
    /// # Errors
    /// When a congestion control of the grid cannot be had here.
    fn prepare(&mut self, grid: &Grid) -> Result<(), Error>;
}

/// The path that is probed, as its node lets it be.
#[derive(Clone, Debug)]
pub struct ProbePath {
    /// `HOST:PORT`.
    pub server: String,
    /// No faster than this.
    pub ceiling: Rate,
    /// How far it is, at best.
    pub rtt: Span,
    /// Which way data goes.
    pub way: TrafficDirection,
}

/// A profile of a path: as many of the probe's cells as end before `deadline`, each tried once and
/// told to `watch`. `date` is today's.
///
/// # Errors
/// Those of the bench, when not one cell was measured.
pub fn probe(
    bench: &mut impl ProbeBench,
    probed: &ProbePath,
    deadline: Instant,
    date: String,
    watch: &mut dyn FnMut(&Job, &Repetition),
) -> Result<Profile, Error> {
    let path =
        PathPoint { name: probed.server.clone(), ..PathPoint::custom(probed.ceiling, probed.rtt) };
    let mut grid = Grid {
        streams: STREAMS.to_vec(),
        directions: vec![probed.way],
        seconds: TRIED_S.max(probed.rtt.as_secs_f64() * 8.0),
        warm_up_s: 0.0,
        sample_s: 0.1,
        repetitions: Repetitions { least: 1, most: 1, half_width: 0.0 },
        host_bps: Some(probed.ceiling),
        ..Grid::new(PROBE, vec![path], CONTROLS.to_vec())
    };
    if let Err(both) = bench.prepare(&grid) {
        // A host that lacks one of them, or whose ordinary users may not choose it, probes by the
        // other.
        let alone = |control| Grid { congestion: vec![control], ..grid.clone() };
        let other = CONTROLS.map(alone).into_iter().find(|grid| bench.prepare(grid).is_ok());
        grid = other.ok_or(both)?;
    }
    let mut profile = Profile::new(grid, ProfileKind::Measured, environment(), date)?;
    profile.environment.node = Some(probed.server.clone());
    let mut jobs = profile.next(usize::MAX);
    let rank = |streams| STREAMS.iter().position(|one| *one == streams);
    jobs.sort_by_key(|job| {
        (rank(job.cell.streams), CONTROLS.iter().position(|one| *one == job.cell.congestion))
    });
    let around = AROUND * probed.rtt.as_secs_f64();
    let mut longest = Duration::from_secs_f64(profile.grid.seconds + around);
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
                watch(&job, &found);
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

#[cfg(test)]
mod tests {
    use super::*;
    use farline_core::profile::repetition;
    use farline_core::units::{ErrorCode, Fault};

    /// A host that lacks a control, whose path does not carry some of what is tried.
    struct Scripted {
        lacks: Option<Algorithm>,
        fails: fn(&Job) -> bool,
    }

    impl Bench<Grid> for Scripted {
        fn run(&mut self, grid: &Grid, job: &Job) -> Result<Repetition, Error> {
            if (self.fails)(job) {
                return Err(Error::new(Fault::Between, ErrorCode::ProfileConnect, "scripted"));
            }
            Ok(repetition(grid, job))
        }
    }

    impl ProbeBench for Scripted {
        fn prepare(&mut self, grid: &Grid) -> Result<(), Error> {
            match self.lacks.filter(|lacks| grid.congestion.contains(lacks)) {
                Some(_) => Err(Error::new(Fault::Here, ErrorCode::CongestionNative, "scripted")),
                None => Ok(()),
            }
        }
    }

    fn tried(mut bench: Scripted, left: Duration) -> Result<Vec<(u32, Algorithm)>, Error> {
        let probed = ProbePath {
            server: "there:2811".to_owned(),
            ceiling: Rate::from_bps(1_000_000_000),
            rtt: Span::from_millis(10),
            way: TrafficDirection::Back,
        };
        let mut seen = Vec::new();
        let mut watch =
            |job: &Job, _: &Repetition| seen.push((job.cell.streams, job.cell.congestion));
        let date = "2026-11-23".to_owned();
        probe(&mut bench, &probed, Instant::now() + left, date, &mut watch)?;
        Ok(seen)
    }

    #[test]
    fn the_best_bets_come_first_and_one_control_will_do() {
        use Algorithm::{Bbr, Cubic};
        let all = Scripted { lacks: None, fails: |_| false };
        let expected = [(4, Cubic), (4, Bbr), (16, Cubic), (16, Bbr), (1, Cubic), (1, Bbr)];
        assert_eq!(tried(all, Duration::from_secs(20)).expect("probed"), expected);
        for (lacks, other) in [(Bbr, Cubic), (Cubic, Bbr)] {
            let host = Scripted { lacks: Some(lacks), fails: |_| false };
            let seen = tried(host, Duration::from_secs(20)).expect("probed");
            assert_eq!(seen, [(4, other), (16, other), (1, other)]);
        }
    }

    #[test]
    fn what_fails_or_has_no_time_is_not_tried() {
        let bbr_fails = |job: &Job| job.cell.congestion == Algorithm::Bbr;
        let seen = tried(Scripted { lacks: None, fails: bbr_fails }, Duration::from_secs(20));
        assert_eq!(seen.expect("cubic went").len(), 3);
        let none = tried(Scripted { lacks: None, fails: |_| true }, Duration::from_secs(20));
        assert_eq!(none.expect_err("nothing went").code, ErrorCode::ProfileConnect);
        let short = Scripted { lacks: None, fails: |_| false };
        assert!(tried(short, Duration::from_secs(2)).expect("nothing failed").is_empty());
    }
}

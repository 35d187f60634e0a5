//! At which rate a machine carries a grid exactly: the cells that ask most of it are tried before
//! anything is measured.

use super::cell::{Cell, PathPoint, TrafficDirection};
use super::document::Job;
use super::grid::Grid;
use crate::experiment::Experiment;
use crate::units::{Error, ErrorCode, Fault, Setting, Span};
use crate::wan::frames;

/// By what rates and packets are divided, the least first: some four let a laptop carry 10 Gbit/s.
const SCALES: [u32; 4] = [1, 4, 6, 7];
/// How long a trial runs, in seconds, and in round trips at least.
const TRIAL: (f64, u64) = (8.0, 8);

impl Cell {
    /// Packets in a second at most, of a host that sends at most `host` bit/s: rate, windows and
    /// round trip decide, whatever the control does.
    fn packets_per_second(&self, host: f64) -> f64 {
        let on_wire = frames::wire_bytes(u64::from(self.mtu)) as f64 * 8.0;
        let window = self.window_bytes.into_iter().chain(self.buffer_bytes).min();
        let by_window = window.map_or(f64::INFINITY, |window| {
            let packets =
                (window.0 as f64 / f64::from(self.mtu)).max(1.0) * f64::from(self.streams);
            packets / self.path.rtt_ns.as_secs_f64()
        });
        let left = self.path.rate_bps.as_bps().saturating_sub(self.cross_bps.as_bps()) as f64;
        let one_way = (left.min(host) / on_wire).min(by_window);
        if self.direction == TrafficDirection::Both { 2.0 * one_way } else { one_way }
    }
}

impl Grid {
    /// The cells with the most packets in a second, and of those the most streams, of the shortest
    /// and of the longest path: what a machine carries there it carries everywhere. On a short path
    /// packets come back soonest, on a long one most of them are on their way at once.
    pub fn hardest(&self) -> Vec<Cell> {
        let host = self.host_bps.map_or(f64::INFINITY, |host| host.as_bps() as f64);
        let (cells, load) = (self.cells(), |cell: &Cell| cell.packets_per_second(host));
        let on = |path: &PathPoint| {
            let cells = cells.iter().filter(|cell| cell.path.name == path.name);
            cells
                .max_by(|a, b| load(a).total_cmp(&load(b)).then(a.streams.cmp(&b.streams)))
                .cloned()
        };
        let by_rtt = |path: &&PathPoint| path.rtt_ns;
        let mut found: Vec<Cell> =
            [self.paths.iter().min_by_key(by_rtt), self.paths.iter().max_by_key(by_rtt)]
                .into_iter()
                .flatten()
                .filter_map(on)
                .collect();
        found.dedup();
        found
    }

    /// The scales at which it may be measured: where packets can be divided, that first.
    fn scales(&self) -> Vec<u32> {
        let (divided, most) = (self.largest_division(), self.largest_scale());
        let most = if divided >= SCALES[1] { divided } else { most };
        let few = (divided > 1 && divided < SCALES[1]).then_some(divided);
        let (one, more) = SCALES.split_at(1);
        one.iter().copied().chain(few).chain(more.iter().copied().filter(|k| *k <= most)).collect()
    }

    /// This grid [scaled](Grid::scaled) as little as a machine needs to carry its
    /// [hardest](Grid::hardest) cells. `run` runs a trial and returns why it is invalid, if it is;
    /// `failed` is told the scales that were too fast, with the reason. A machine may be busy for a
    /// moment: the last scale is tried twice.
    ///
    /// # Errors
    /// Those of `run`; [`Fault::Here`] when the machine carries none of the scales: nothing is
    /// measured that could not count.
    pub fn carried(
        self,
        mut run: impl FnMut(&Grid, &Job) -> Result<Option<String>, Error>,
        mut failed: impl FnMut(u32, &str),
    ) -> Result<Grid, Error> {
        let mut tries = self.scales();
        tries.extend(tries.last().copied());
        let mut last = None;
        for (i, &k) in tries.iter().enumerate() {
            let scaled = self.clone().scaled(k)?;
            let mut why = None;
            for cell in scaled.hardest() {
                let seconds = TRIAL
                    .0
                    .max(Span::from_nanos(cell.path.rtt_ns.as_nanos() * TRIAL.1).as_secs_f64());
                let trial = Grid {
                    seconds,
                    sample_s: 0.5,
                    warm_up_s: 0.0,
                    disturbance: None,
                    ..scaled.clone()
                };
                // The first cause is enough to know.
                let words = |why: String| {
                    format!("{}: {}", cell.name(), why.split("; ").next().unwrap_or_default())
                };
                why = run(
                    &trial,
                    &Job { place: 0, cell: cell.clone(), index: 0, attempt: 0, seed: self.seed },
                )?
                .map(words);
                if why.is_some() {
                    break;
                }
            }
            let Some(why) = why else { return Ok(scaled) };
            if i + 1 < tries.len() {
                failed(k, &why);
            }
            last = Some((k, why));
        }
        Err(self.too_fast(last))
    }

    /// What is said of a grid that the machine does not carry, tried last at a scale and invalid
    /// for a reason.
    fn too_fast(&self, last: Option<(u32, String)>) -> Error {
        let (k, why) = last.unwrap_or((1, "nothing was tried".to_owned()));
        let at = if k == 1 { "at its rate".to_owned() } else { format!("even scaled {k}") };
        let hint = format!(
            "give {} 1G, or {}; {} {k} measures it in spite of that, and marks what does not count",
            Setting::Rate,
            Setting::Simulate,
            Setting::Scale
        );
        Error::new(
            Fault::Here,
            ErrorCode::ProfileTooFast,
            format!("this machine does not carry {} exactly, {at}: {why}", self.name),
        )
        .hint(hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Form, preset};
    use crate::units::{Bytes, Rate};

    /// A machine that carries so many packets in a second, and the jobs that it was given.
    fn tried(name: &str, most: f64) -> (Result<Grid, Error>, Vec<String>, Vec<u32>) {
        let (mut seen, mut failed) = (Vec::new(), Vec::new());
        let run = |grid: &Grid, job: &Job| {
            assert!(grid.seconds >= 8.0 && grid.disturbance.is_none());
            seen.push(job.cell.name());
            // A small packet costs it as much as a large one, but a large one is copied, too.
            let host = grid.host_bps.map_or(f64::INFINITY, |host| host.as_bps() as f64);
            let load =
                job.cell.packets_per_second(host) * (1.0 + f64::from(job.cell.mtu) / 3_000.0);
            Ok((load > most).then(|| "late".to_owned()))
        };
        let found = preset(name, Form::Quick).expect("a preset").carried(run, |k, why| {
            assert!(why.ends_with(": late"), "{why}");
            failed.push(k);
        });
        (found, seen, failed)
    }

    #[test]
    fn a_grid_is_scaled_no_more_than_needed_or_refused() {
        let (found, seen, failed) = tried("sc08-distance", 1e9);
        assert!(
            found.is_ok_and(|grid| grid.scale == 1) && seen.len() == 2 && failed.is_empty(),
            "{seen:?}"
        );
        let (found, _, failed) = tried("sc08-distance", 230e3);
        let grid = found.expect("scaled");
        assert_eq!((grid.scale, failed), (6, vec![1, 4]));
        assert!(grid.paths[0].rate_bps < Rate::from_bps(1_600_000_000));
        // Packets that cannot be divided: the path is stretched.
        let grid = tried("wanphy-window", 230e3).0.expect("stretched");
        assert!(
            grid.time_scaled && grid.scale == 4 && grid.mtus.contains(&1_500),
            "{}",
            grid.scale
        );
        // The last scale is tried twice, and then nothing is measured.
        let (found, seen, failed) = tried("wanphy-window", 50e3);
        let error = found.expect_err("too fast at any scale");
        assert_eq!(
            (error.fault, error.code, seen.len(), failed),
            (Fault::Here, ErrorCode::ProfileTooFast, 5, vec![1, 4, 6, 7])
        );
        let hint = error.hint.unwrap_or_default();
        assert!(
            error.message.contains("late")
                && hint.contains("`Setting::Rate` 1G")
                && hint.contains("`Setting::Scale` 7 "),
            "{hint}"
        );
        // Its easiest cell, MTU 65520, would be carried as it is.
        assert!(tried("icpp08-ipoib", 300e3).0.is_ok_and(|grid| grid.time_scaled));
        assert!(tried("icpp08-ipoib", 1e6).0.is_ok_and(|grid| grid.scale == 1));
    }

    #[test]
    fn trials_take_most_packets_on_shortest_and_longest_path() {
        let of = |name: &str| preset(name, Form::Quick).expect("a preset").hardest();
        // MTU 2044 over 20 us and 20 ms, not MTU 65520, whichever stands last.
        let cells = of("icpp08-ipoib");
        let seen: Vec<_> =
            cells.iter().map(|cell| (cell.mtu, cell.streams, cell.path.rtt_ns)).collect();
        assert_eq!(seen, [(2_044, 8, Span::from_micros(20)), (2_044, 8, Span::from_millis(20))]);
        let load = |cell: &Cell| cell.packets_per_second(f64::INFINITY);
        // 8 Gbit/s of packets of 2044 bytes and their frames; 8 windows of 1 MiB in 20 ms.
        assert!(
            cells.iter().all(|cell| (load(cell) / 480e3 - 1.0).abs() < 0.02),
            "{}",
            load(&cells[0])
        );
        let windowed = Cell { window_bytes: Some(Bytes::mib(1)), ..cells[1].clone() };
        assert!((load(&windowed) / 205e3 - 1.0).abs() < 0.02, "{}", load(&windowed));
        let window = of("wanphy-window");
        assert_eq!((window.len(), window[0].mtu), (1, 1_500), "one path: one trial");
        // The most streams, whatever their order; and a stream that has the line for itself.
        let grid = Grid {
            streams: vec![20, 1, 5],
            ..preset("sc08-distance", Form::Quick).expect("a preset")
        };
        assert!(
            grid.hardest().iter().all(|cell| cell.streams == 20 || cell.hypothesis.is_some()),
            "{:?}",
            grid.hardest()
        );
        assert!(of("sc08-cross-traffic").iter().all(|cell| cell.cross_bps.as_bps() == 0));
        let both = Grid {
            directions: vec![TrafficDirection::Both, TrafficDirection::Out],
            ..preset("wanphy-streams", Form::Quick).expect("a preset")
        };
        assert!(both.hardest().iter().all(|cell| cell.direction == TrafficDirection::Both));
    }
}

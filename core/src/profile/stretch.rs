//! An experiment whose packets cannot be made smaller, at a lower rate over a longer path, and back: the window in packets is kept.

use super::cell::{Cell, PathPoint};
use super::document::Profile;
use super::grid::{Disturbance, Grid, Repetitions};
use super::repetition::{Goodput, Repetition};
use crate::units::{Rate, Span};
use crate::wan::Change;

/// What everything of an experiment that is counted in time is multiplied with, or divided by; rates the other way round.
#[derive(Clone, Copy)]
enum Pace {
    Slower(u32),
    Faster(u32),
}

impl Pace {
    fn rate(self, rate: Rate) -> Rate {
        Rate::from_bps(match self {
            Pace::Slower(k) => rate.as_bps() / u64::from(k),
            Pace::Faster(k) => rate.as_bps().saturating_mul(u64::from(k)),
        })
    }

    fn span(self, span: Span) -> Span {
        Span::from_nanos(match self {
            Pace::Slower(k) => span.as_nanos().saturating_mul(u64::from(k)),
            Pace::Faster(k) => span.as_nanos() / u64::from(k),
        })
    }

    fn seconds(self, seconds: f64) -> f64 {
        match self {
            Pace::Slower(k) => seconds * f64::from(k),
            Pace::Faster(k) => seconds / f64::from(k),
        }
    }

    /// The queue in bytes is of as many packets as it was.
    fn path(self, path: &mut PathPoint) {
        (path.rate_bps, path.rtt_ns) = (self.rate(path.rate_bps), self.span(path.rtt_ns));
    }

    fn rates(self, grid: &mut Grid) {
        grid.paths.iter_mut().for_each(|path| self.path(path));
        grid.cross_bps.iter_mut().for_each(|cross| *cross = self.rate(*cross));
        grid.host_bps = grid.host_bps.map(|host| self.rate(host));
        if let Some(copies) = &mut grid.copies {
            copies.read_bps = self.rate(copies.read_bps);
        }
        if let Some(Disturbance { at_ns, change }) = &mut grid.disturbance {
            *at_ns = self.span(*at_ns);
            *change = match *change {
                Change::Cross(cross, span) => Change::Cross(self.rate(cross), span.map(|span| self.span(span))),
                Change::Rate(line) => Change::Rate(self.rate(line)),
                Change::Outage(span) => Change::Outage(self.span(span)),
                other => other,
            };
        }
    }

    fn times(self, grid: &mut Grid) {
        for seconds in [&mut grid.seconds, &mut grid.warm_up_s, &mut grid.sample_s] {
            *seconds = self.seconds(*seconds);
        }
    }

    fn cell(self, cell: &mut Cell) {
        self.path(&mut cell.path);
        cell.cross_bps = self.rate(cell.cross_bps);
    }

    fn repetition(self, one: &mut Repetition) {
        for Goodput { sender_bps, receiver_bps } in [&mut one.whole, &mut one.ramp, &mut one.steady] {
            (*sender_bps, *receiver_bps) = (sender_bps.map(|sent| self.rate(sent)), self.rate(*receiver_bps));
        }
        one.samples_bps.iter_mut().chain(&mut one.streams_bps).for_each(|rate| *rate = self.rate(*rate));
        (one.seconds, one.ramp_s) = (self.seconds(one.seconds), self.seconds(one.ramp_s));
        one.recovery_s = one.recovery_s.map(|seconds| self.seconds(seconds));
        one.rtt_ns = one.rtt_ns.map(|rtt| self.span(rtt));
        one.losses.iter_mut().for_each(|lost| lost.at_s = self.seconds(lost.at_s));
    }
}

impl Grid {
    /// The same experiment at a rate that is `k` times lower over a round trip that is `k` times longer: packets, windows and queues are what
    /// they were, and everything takes `k` times as long. Where something happens in the middle, the repetition is `k` times as long too,
    /// and there are as many fewer of them; else it is as long as it was, and holds a `k`th of the round trips.
    ///
    /// Exact for the controls that count round trips: Reno, BIC, HighSpeed, Scalable, Vegas. CUBIC, H-TCP and BBR count seconds, and so do
    /// the least retransmission timeout of a host and the delay of its acknowledgements.
    pub(super) fn stretched_by(mut self, k: u32) -> Grid {
        let slower = Pace::Slower(k);
        slower.rates(&mut self);
        if self.disturbance.is_some() {
            slower.times(&mut self);
            let Repetitions { least, most, .. } = &mut self.repetitions;
            *most = (*most / k).max(1);
            *least = (*least).min(*most);
        }
        self.scale *= k;
        self.stretched = k > 1;
        self
    }
}

impl Profile {
    /// What a stretched profile says of the full rate and its times, for whoever shows it; another one is as it was.
    pub(super) fn at_full_pace(&self) -> Profile {
        let mut full = self.clone();
        if !self.grid.stretched {
            return full;
        }
        let faster = Pace::Faster(self.grid.scale);
        faster.rates(&mut full.grid);
        faster.times(&mut full.grid);
        for result in &mut full.cells {
            faster.cell(&mut result.cell);
            result.repetitions.iter_mut().for_each(|one| faster.repetition(one));
        }
        full
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::document::{Environment, Kind};
    use crate::profile::{Form, Simulator, preset};

    fn run(grid: &Grid) -> Profile {
        let mut profile = Profile::new(grid.clone(), Kind::Modelled, Environment::default(), "").expect("a grid");
        profile.run(&mut Simulator, |_| true).expect("a model");
        profile
    }

    #[test]
    fn what_cannot_be_divided_is_stretched_and_comes_back_in_rate_and_time() {
        let grid = preset("wanphy-recovery", Form::Quick).expect("a preset");
        let slow = grid.clone().scaled(4).expect("1500 is stretched");
        assert!(slow.stretched && slow.scale == 4 && slow.mtus == grid.mtus && slow.windows_bytes == grid.windows_bytes);
        assert_eq!(slow.paths[0].rtt_ns, Span::from_nanos(grid.paths[0].rtt_ns.as_nanos() * 4));
        assert!(slow.paths[0].rate_bps.as_bps() * 4 <= grid.paths[0].rate_bps.as_bps());
        // Twenty minutes hold each cell once, as long as it needs.
        assert_eq!((slow.seconds, slow.repetitions.most), (560.0, 1));
        let (full, back) = (run(&grid), run(&slow).at_full_rate());
        assert_eq!((back.grid.seconds, back.grid.disturbance), (grid.seconds, grid.disturbance));
        for (a, b) in full.cells.iter().zip(&back.cells) {
            let recovery = |result: &crate::profile::CellResult| result.repetitions[0].recovery_s.expect("it came back");
            assert!((recovery(b) / recovery(a) - 1.0).abs() < 0.1, "{}: {} and {}", a.cell.name(), recovery(a), recovery(b));
            let rate = |result: &crate::profile::CellResult| result.repetitions[0].whole.receiver_bps.as_bps() as f64;
            assert!((rate(b) / rate(a) - 1.0).abs() < 0.05, "{}: {} and {}", a.cell.name(), rate(a), rate(b));
        }
    }

    #[test]
    fn windows_limit_a_stretched_path_as_they_limit_the_full_one() {
        let grid = preset("wanphy-window", Form::Quick).expect("a preset");
        let slow = grid.clone().scaled(6).expect("1500 is stretched");
        assert_eq!((slow.seconds, slow.repetitions), (grid.seconds, grid.repetitions));
        let (full, back) = (run(&grid), run(&slow).at_full_rate());
        for (a, b) in full.cells.iter().zip(&back.cells) {
            assert_eq!(a.cell.name(), b.cell.name());
            // A ramp that takes six times as long, in repetitions that do not.
            let steady = |result: &crate::profile::CellResult| result.repetitions[0].steady.receiver_bps.as_bps() as f64;
            assert!((steady(b) / steady(a) - 1.0).abs() < 0.05, "{}: {} and {}", a.cell.name(), steady(a), steady(b));
        }
    }
}

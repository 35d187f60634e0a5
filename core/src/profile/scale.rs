//! A profile at a rate that a machine can carry exactly, with the window in packets kept, and back.

use super::cell::{Cell, PathPoint};
use super::document::Profile;
use super::grid::{Disturbance, Grid};
use super::repetition::{Goodput, Repetition};
use super::staging::Copies;
use crate::units::{Bytes, Error, Fault, Rate};
use crate::wan::Change;

/// An emulated link's least MTU, as IPv6 asks for it (RFC 8200, section 5).
const LEAST_MTU: u32 = 1_280;

/// By what the papers' jumbo frames can be divided.
const LARGEST: u32 = 7;

/// Divides or multiplies everything of an experiment that is counted in bits or bytes.
#[derive(Clone, Copy)]
enum By {
    Divided(u32),
    Times(u32),
}

impl By {
    fn number(self, value: u64) -> u64 {
        match self {
            By::Divided(k) => value / u64::from(k),
            By::Times(k) => value.saturating_mul(u64::from(k)),
        }
    }

    fn rate(self, rate: Rate) -> Rate {
        Rate::from_bps(self.number(rate.as_bps()))
    }

    fn bytes(self, bytes: Bytes) -> Bytes {
        Bytes(self.number(bytes.0))
    }

    fn mtu(self, mtu: u32) -> u32 {
        u32::try_from(self.number(mtu.into())).unwrap_or(u32::MAX)
    }

    fn path(self, path: &mut PathPoint) {
        (path.rate_bps, path.queue_bytes) = (self.rate(path.rate_bps), self.bytes(path.queue_bytes));
    }

    fn grid(self, grid: &mut Grid) {
        grid.paths.iter_mut().for_each(|path| self.path(path));
        grid.mtus.iter_mut().for_each(|mtu| *mtu = self.mtu(*mtu));
        let buffers = grid.windows_bytes.iter_mut().chain(&mut grid.buffers_bytes).flatten();
        buffers.for_each(|bytes| *bytes = self.bytes(*bytes));
        grid.cross_bps.iter_mut().for_each(|cross| *cross = self.rate(*cross));
        grid.host_bps = grid.host_bps.map(|host| self.rate(host));
        if let Some(copies) = &mut grid.copies {
            copies.staging_bytes.iter_mut().for_each(|bytes| *bytes = self.bytes(*bytes));
            copies.read_bps = self.rate(copies.read_bps);
        }
        for hypothesis in &mut grid.hypotheses {
            for bytes in [&mut hypothesis.window_bytes, &mut hypothesis.queue_bytes] {
                *bytes = bytes.map(|bytes| self.bytes(bytes));
            }
        }
        if let Some(Disturbance { change, .. }) = &mut grid.disturbance {
            *change = match *change {
                Change::Burst(burst) => Change::Burst(self.bytes(burst)),
                Change::Cross(cross, span) => Change::Cross(self.rate(cross), span),
                Change::Rate(line) => Change::Rate(self.rate(line)),
                other => other,
            };
        }
    }

    fn cell(self, cell: &mut Cell) {
        self.path(&mut cell.path);
        cell.mtu = self.mtu(cell.mtu);
        cell.window_bytes = cell.window_bytes.map(|window| self.bytes(window));
        cell.buffer_bytes = cell.buffer_bytes.map(|buffer| self.bytes(buffer));
        cell.cross_bps = self.rate(cell.cross_bps);
        if let Some(staged) = &mut cell.staged {
            staged.staging_bytes = self.bytes(staged.staging_bytes);
        }
    }

    fn repetition(self, one: &mut Repetition) {
        for Goodput { sender_bps, receiver_bps } in [&mut one.whole, &mut one.ramp, &mut one.steady] {
            (*sender_bps, *receiver_bps) = (sender_bps.map(|sent| self.rate(sent)), self.rate(*receiver_bps));
        }
        one.samples_bps.iter_mut().chain(&mut one.streams_bps).for_each(|rate| *rate = self.rate(*rate));
    }
}

impl Grid {
    /// The same experiment at a rate that is `k` times lower, with the window in packets kept. Packets that would become smaller than IPv6
    /// allows (1280 bytes, RFC 8200) stay as they are, and round trips become longer instead; else rates, MTUs, windows, buffers, queues and cross-traffic are all divided by `k`.
    /// Messages are not: what one write costs is a processor's matter, which no scale divides.
    ///
    /// The window in packets, the packets in a second and the round trip stay what they were. So the controls that count packets and
    /// time (all eight) take the same windows through the same times, exactly; what is counted in bytes does not scale: segments
    /// that a host sends at once (64 KiB hold `k` times as many packets), and BBR's pacing, which leaves in such segments.
    ///
    /// # Errors
    /// [`Fault::You`] for a `k` that is none from 1 to [`Grid::largest_scale`].
    pub fn scaled(mut self, k: u32) -> Result<Grid, Error> {
        let most = self.largest_scale();
        if !(1..=most).contains(&k) {
            let words = format!("a scale of {k}: the rates of {} can be divided by 1 to {most}", self.name);
            return Err(Error::new(Fault::You, "profile-scale", words).hint("give a lower --rate for less"));
        }
        if k > self.largest_division() {
            return Ok(self.stretched_by(k));
        }
        By::Divided(k).grid(&mut self);
        self.scale *= k;
        Ok(self)
    }

    /// The largest `k` for [`Grid::scaled`]. A mover's stores keep their own time, so that its paths are not stretched.
    pub fn largest_scale(&self) -> u32 {
        if self.copies.is_some() { self.largest_division() } else { LARGEST }
    }

    /// The largest number by which its packets, and the pools of its movers, can be divided.
    pub(super) fn largest_division(&self) -> u32 {
        let packets = self.mtus.iter().map(|mtu| mtu / LEAST_MTU).min().unwrap_or(1);
        // A mover's blocks are as large at any rate.
        let least = Copies::least(self.streams.iter().max().copied().unwrap_or(1));
        let pools = self.copies.iter().flat_map(|copies| &copies.staging_bytes).map(|bytes| (bytes.0 / least.0) as u32).min();
        packets.min(pools.unwrap_or(packets)).max(1)
    }
}

impl Cell {
    /// The cell at a rate that is `k` times lower. What was divided by 6 and then by 7 is what was divided by 42, to the byte: so cells of
    /// two scales are told to be the same, where multiplying each would have lost what its division left over.
    pub(super) fn divided(&self, k: u32) -> Cell {
        let mut cell = self.clone();
        By::Divided(k.max(1)).cell(&mut cell);
        cell
    }
}

impl Profile {
    /// What a scaled profile says of the full rate, for whoever shows it; another one is as it was. A document holds what was measured.
    pub fn at_full_rate(&self) -> Profile {
        if self.grid.stretched {
            return self.at_full_pace();
        }
        let mut full = self.clone();
        let times = By::Times(self.grid.scale);
        times.grid(&mut full.grid);
        for result in &mut full.cells {
            times.cell(&mut result.cell);
            result.repetitions.iter_mut().for_each(|one| times.repetition(one));
        }
        full
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::document::{Environment, Kind};
    use crate::profile::{Form, Simulator, preset};

    #[test]
    fn a_scaled_experiment_has_the_same_windows_in_packets_and_comes_back_to_the_full_rate() {
        let grid = Grid { streams: vec![4], ..preset("sc08-distance", Form::Quick).expect("a preset") };
        let small = grid.clone().scaled(6).expect("9000 by 6");
        let packets = |grid: &Grid| {
            let path = &grid.paths[3];
            path.rate_bps.bytes_in(path.rtt_ns).0 as f64 / f64::from(grid.mtus[0])
        };
        assert_eq!((small.mtus[0], small.scale), (1_500, 6));
        assert!((packets(&small) / packets(&grid) - 1.0).abs() < 1e-6);
        let run = |grid: &Grid| {
            let mut profile = Profile::new(grid.clone(), Kind::Modelled, Environment::default(), "").expect("a grid");
            profile.run(&mut Simulator, |_| true).expect("a model");
            profile
        };
        // The controls count packets: only the headers' share of a packet differs.
        let (full, scaled) = (run(&grid), run(&small).at_full_rate());
        assert_eq!(scaled.cells[0].cell.mtu, 9_000);
        for (a, b) in full.cells.iter().zip(&scaled.cells) {
            let mean = |result: &crate::profile::CellResult| result.summary().expect("samples").mean;
            assert!((mean(b) / mean(a) - 1.0).abs() < 0.06, "{}: {} and {}", a.cell.name(), mean(a), mean(b));
        }
    }

    #[test]
    fn packets_do_not_become_smaller_than_the_link_carries() {
        let grid = preset("wanphy-window", Form::Quick).expect("a preset");
        assert_eq!(grid.largest_division(), 1);
        let slow = grid.clone().scaled(2).expect("stretched");
        assert!(slow.stretched && slow.mtus == grid.mtus);
        let jumbo = preset("sc08-distance", Form::Quick).expect("a preset");
        assert!(jumbo.clone().scaled(7).is_ok_and(|grid| !grid.stretched && grid.mtus == [1_285]));
        for k in [0, 8] {
            assert_eq!(jumbo.clone().scaled(k).expect_err("no scale").code, "profile-scale");
        }
    }
}

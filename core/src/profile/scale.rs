//! A profile at a rate that a machine can carry exactly, with the window in packets kept, and back.

use super::cell::Cell;
use super::document::Profile;
use super::grid::Grid;
use super::staging::Copies;
use super::transform::Transform;
use crate::experiment::Repetitions;
use crate::units::{Error, ErrorCode, Fault, Setting};

/// An emulated link's least MTU, as IPv6 asks for it (RFC 8200, section 5).
const LEAST_MTU: u32 = 1_280;

/// By what the papers' jumbo frames can be divided.
const LARGEST: u32 = 7;

impl Grid {
    /// The same experiment at a rate that is `k` times lower, with the window in packets kept.
    ///
    /// Where packets can be divided by `k`, rates, MTUs, windows, buffers, queues and cross-traffic
    /// all are. The packets in a second and the round trip stay what they were, too. So the
    /// controls that count packets and time (all eight) take the same windows through the same
    /// times, exactly; what is counted in bytes does not scale: segments that a host sends at once
    /// (64 KiB hold `k` times as many packets), and BBR's pacing, which leaves in such segments.
    /// Messages are not divided: what one write costs is a processor's matter.
    ///
    /// Packets that would become smaller than IPv6 allows (1280 bytes, RFC 8200) stay as they are,
    /// and round trips are multiplied in their place. Everything takes `k` times as long then, slow
    /// start too, so a repetition is as much longer, and there are as many fewer of them: two at
    /// least where there were so many, or there would be no interval; where something happens in
    /// the middle they are long, and one shows it.
    /// Exact for the controls that count round trips: Reno, BIC, HighSpeed, Scalable, Vegas. CUBIC,
    /// H-TCP and BBR count seconds, and so do the least retransmission timeout of a host and the
    /// delay of its acknowledgements.
    ///
    /// # Errors
    /// [`Fault::You`] for a `k` that is none from 1 to [`Grid::largest_scale`].
    pub fn scaled(mut self, k: u32) -> Result<Grid, Error> {
        let most = self.largest_scale();
        if !(1..=most).contains(&k) {
            let words =
                format!("a scale of {k}: the rates of {} can be divided by 1 to {most}", self.name);
            return Err(Error::new(Fault::You, ErrorCode::ProfileScale, words)
                .hint(format!("give a lower {} for less", Setting::Rate)));
        }
        let time_scaled = k > self.largest_division();
        let slower =
            if time_scaled { Transform::time_scaled(k) } else { Transform::rate_scaled(k) };
        slower.grid(&mut self);
        if time_scaled {
            slower.run(&mut self);
            let enough = if self.disturbance.is_some() { 1 } else { 2 };
            let Repetitions { least, most, .. } = &mut self.repetitions;
            *most = (*most / k).max(enough.min(*most));
            *least = (*least).min(*most);
        }
        self.scale *= k;
        self.time_scaled = time_scaled;
        Ok(self)
    }

    /// The largest `k` for [`Grid::scaled`]. A mover's stores keep their own time, so that its
    /// paths are not stretched.
    pub fn largest_scale(&self) -> u32 {
        if self.copies.is_some() { self.largest_division() } else { LARGEST }
    }

    /// The largest number by which its packets, and the pools of its movers, can be divided.
    pub(super) fn largest_division(&self) -> u32 {
        let packets = self.mtus.iter().map(|mtu| mtu / LEAST_MTU).min().unwrap_or(1);
        // A mover's blocks are as large at any rate.
        let least = Copies::least(self.streams.iter().max().copied().unwrap_or(1));
        let pools = self
            .copies
            .iter()
            .flat_map(|copies| &copies.staging_bytes)
            .map(|bytes| (bytes.0 / least.0) as u32)
            .min();
        packets.min(pools.unwrap_or(packets)).max(1)
    }
}

impl Cell {
    /// The cell at a rate that is `k` times lower. What was divided by 6 and then by 7 is what was
    /// divided by 42, to the byte: so cells of two scales are told to be the same, where
    /// multiplying each would have lost what its division left over.
    pub(super) fn rate_scaled(&self, k: u32) -> Cell {
        let mut cell = self.clone();
        Transform::rate_scaled(k.max(1)).cell(&mut cell);
        cell
    }
}

impl Profile {
    /// What a scaled profile says of the full rate and its times, for whoever shows it; another one
    /// is as it was. A document holds what was measured.
    pub fn at_full_rate(&self) -> Profile {
        let mut full = self.clone();
        let k = self.grid.scale;
        let back = if self.grid.time_scaled {
            Transform::time_scaled(k)
        } else {
            Transform::rate_scaled(k)
        }
        .back();
        back.grid(&mut full.grid);
        back.run(&mut full.grid);
        for result in &mut full.cells {
            back.cell(&mut result.cell);
            result.repetitions.iter_mut().for_each(|one| back.repetition(one));
        }
        full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::congestion::Algorithm;
    use crate::profile::{Form, Hypothesis, preset};
    use crate::units::Span;

    fn run(grid: &Grid) -> Profile {
        Profile::modelled(grid.clone())
    }

    #[test]
    fn scaling_keeps_windows_in_packets_and_is_undone() {
        let grid =
            Grid { streams: vec![4], ..preset("sc08-distance", Form::Quick).expect("a preset") };
        let small = grid.clone().scaled(6).expect("9000 by 6");
        let packets = |grid: &Grid| {
            let path = &grid.paths[3];
            path.rate_bps.bytes_in(path.rtt_ns).0 as f64 / f64::from(grid.mtus[0])
        };
        assert_eq!((small.mtus[0], small.scale), (1_500, 6));
        assert!((packets(&small) / packets(&grid) - 1.0).abs() < 1e-6);
        // The controls count packets: only the headers' share of a packet differs.
        let (full, scaled) = (run(&grid), run(&small).at_full_rate());
        assert_eq!(scaled.cells[0].cell.mtu, 9_000);
        for (a, b) in full.cells.iter().zip(&scaled.cells) {
            let mean =
                |result: &crate::profile::CellResult| result.summary().expect("samples").mean;
            assert!(
                (mean(b) / mean(a) - 1.0).abs() < 0.06,
                "{}: {} and {}",
                a.cell.name(),
                mean(a),
                mean(b)
            );
        }
    }

    #[test]
    fn packets_do_not_become_smaller_than_the_link_carries() {
        let grid = preset("wanphy-window", Form::Quick).expect("a preset");
        assert_eq!(grid.largest_division(), 1);
        let slow = grid.clone().scaled(2).expect("stretched");
        assert!(slow.time_scaled && slow.mtus == grid.mtus);
        let jumbo = preset("sc08-distance", Form::Quick).expect("a preset");
        assert!(
            jumbo.clone().scaled(7).is_ok_and(|grid| !grid.time_scaled && grid.mtus == [1_285])
        );
        for k in [0, 8] {
            assert_eq!(
                jumbo.clone().scaled(k).expect_err("no scale").code,
                ErrorCode::ProfileScale
            );
        }
    }

    #[test]
    fn what_cannot_be_divided_is_stretched_and_comes_back() {
        let grid = preset("wanphy-recovery", Form::Quick).expect("a preset");
        let slow = grid.clone().scaled(4).expect("1500 is stretched");
        assert!(
            slow.time_scaled
                && slow.scale == 4
                && slow.mtus == grid.mtus
                && slow.windows_bytes == grid.windows_bytes
        );
        assert_eq!(slow.paths[0].rtt_ns, Span::from_nanos(grid.paths[0].rtt_ns.as_nanos() * 4));
        assert!(slow.paths[0].rate_bps.as_bps() * 4 <= grid.paths[0].rate_bps.as_bps());
        // Twenty minutes hold each cell once, as long as it needs.
        assert_eq!((slow.seconds, slow.repetitions.most), (560.0, 1));
        let (full, back) = (run(&grid), run(&slow).at_full_rate());
        assert_eq!((back.grid.seconds, back.grid.disturbance), (grid.seconds, grid.disturbance));
        for (a, b) in full.cells.iter().zip(&back.cells) {
            let recovery = |result: &crate::profile::CellResult| {
                result.repetitions[0].recovery_s.expect("it came back")
            };
            assert!(
                (recovery(b) / recovery(a) - 1.0).abs() < 0.1,
                "{}: {} and {}",
                a.cell.name(),
                recovery(a),
                recovery(b)
            );
            let rate = |result: &crate::profile::CellResult| {
                result.repetitions[0].whole.receiver_bps.as_bps() as f64
            };
            assert!(
                (rate(b) / rate(a) - 1.0).abs() < 0.05,
                "{}: {} and {}",
                a.cell.name(),
                rate(a),
                rate(b)
            );
        }
    }

    #[test]
    fn windows_limit_a_stretched_path_as_they_limit_the_full_one() {
        let grid = preset("wanphy-window", Form::Quick).expect("a preset");
        let slow = grid.clone().scaled(6).expect("1500 is stretched");
        assert_eq!((slow.seconds, slow.warm_up_s), (grid.seconds * 6.0, grid.warm_up_s * 6.0));
        let (full, back) = (run(&grid), run(&slow).at_full_rate());
        for (a, b) in full.cells.iter().zip(&back.cells) {
            assert_eq!(a.cell.name(), b.cell.name());
            let steady = |result: &crate::profile::CellResult| {
                result.repetitions[0].steady.receiver_bps.as_bps() as f64
            };
            assert!(
                (steady(b) / steady(a) - 1.0).abs() < 0.05,
                "{}: {} and {}",
                a.cell.name(),
                steady(a),
                steady(b)
            );
        }
    }

    #[test]
    fn slow_start_is_the_same_part_of_a_stretched_run() {
        let path = crate::profile::PathPoint::named("usn-8600", None).expect("a path");
        let grid = Grid { seconds: 5.0, ..Grid::new("custom", vec![path], vec![Algorithm::Reno]) };
        let slow = grid.clone().scaled(3).expect("1500 is stretched");
        assert!(slow.time_scaled && slow.repetitions.least > 1);
        let mean = |profile: Profile| profile.cells[0].summary().expect("it ran").mean;
        let (full, back) = (mean(run(&grid)), mean(run(&slow).at_full_rate()));
        assert!((back / full - 1.0).abs() < 0.1, "{full:e}, stretched {back:e}");
        // A hypothesis has its own time.
        let mut long = grid;
        let other = Hypothesis::new("longer", "it may take long", &["usn-8600"], &[1]);
        long.hypotheses = vec![Hypothesis { seconds: Some(60.0), ..other }];
        let slow = long.clone().scaled(3).expect("stretched");
        assert_eq!(slow.hypotheses[0].seconds, Some(180.0));
        assert_eq!(run(&slow).at_full_rate().grid.hypotheses[0].seconds, Some(60.0));
    }
}

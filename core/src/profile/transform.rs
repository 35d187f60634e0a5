//! An experiment at another rate: what becomes of everything in it that is counted in bits, in
//! bytes, or in time.

use super::cell::{Cell, PathPoint};
use super::grid::{Disturbance, Grid};
use super::repetition::{Goodput, Repetition};
use crate::units::{Bytes, Rate, Span};
use crate::wan::Change;

/// What numbers of one kind are multiplied with, or divided by.
#[derive(Clone, Copy)]
enum Factor {
    Times(u32),
    Divided(u32),
}

impl Factor {
    fn number(self, value: u64) -> u64 {
        match self {
            Factor::Times(k) => value.saturating_mul(u64::from(k)),
            Factor::Divided(k) => value / u64::from(k),
        }
    }

    fn real(self, value: f64) -> f64 {
        match self {
            Factor::Times(k) => value * f64::from(k),
            Factor::Divided(k) => value / f64::from(k),
        }
    }

    fn back(self) -> Factor {
        match self {
            Factor::Times(k) => Factor::Divided(k),
            Factor::Divided(k) => Factor::Times(k),
        }
    }
}

/// Another rate, with the window in packets kept: by packets that are smaller, or by round trips
/// that are longer.
#[derive(Clone, Copy)]
pub(super) struct Transform {
    rates: Factor,
    sizes: Factor,
    times: Factor,
}

impl Transform {
    /// Rates and sizes are divided by `k`.
    pub(super) const fn rate_scaled(k: u32) -> Transform {
        Transform { rates: Factor::Divided(k), sizes: Factor::Divided(k), times: Factor::Times(1) }
    }

    /// Rates are divided by `k`, and times multiplied.
    pub(super) const fn time_scaled(k: u32) -> Transform {
        Transform { rates: Factor::Divided(k), sizes: Factor::Times(1), times: Factor::Times(k) }
    }

    /// What undoes it, but for what a division left over.
    pub(super) fn back(self) -> Transform {
        Transform { rates: self.rates.back(), sizes: self.sizes.back(), times: self.times.back() }
    }

    fn rate(self, rate: Rate) -> Rate {
        Rate::from_bps(self.rates.number(rate.as_bps()))
    }

    fn bytes(self, bytes: Bytes) -> Bytes {
        Bytes(self.sizes.number(bytes.0))
    }

    fn mtu(self, mtu: u32) -> u32 {
        u32::try_from(self.sizes.number(mtu.into())).unwrap_or(u32::MAX)
    }

    fn span(self, span: Span) -> Span {
        Span::from_nanos(self.times.number(span.as_nanos()))
    }

    fn path(self, path: &mut PathPoint) {
        (path.rate_bps, path.queue_bytes) =
            (self.rate(path.rate_bps), self.bytes(path.queue_bytes));
        path.rtt_ns = self.span(path.rtt_ns);
    }

    /// All of a grid but [how long it runs](Transform::run).
    pub(super) fn grid(self, grid: &mut Grid) {
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
        if let Some(Disturbance { at_ns, change }) = &mut grid.disturbance {
            *at_ns = self.span(*at_ns);
            *change = match *change {
                Change::Burst(burst) => Change::Burst(self.bytes(burst)),
                Change::Cross(cross, span) => {
                    Change::Cross(self.rate(cross), span.map(|span| self.span(span)))
                }
                Change::Outage(span) => Change::Outage(self.span(span)),
                Change::Rate(line) => Change::Rate(self.rate(line)),
                other @ Change::Lose(_) => other,
            };
        }
    }

    /// How long a repetition, its warm-up and its samples are.
    pub(super) fn run(self, grid: &mut Grid) {
        let own = grid.hypotheses.iter_mut().filter_map(|one| one.seconds.as_mut());
        let all = [&mut grid.seconds, &mut grid.warm_up_s, &mut grid.sample_s];
        all.into_iter().chain(own).for_each(|seconds| *seconds = self.times.real(*seconds));
    }

    pub(super) fn cell(self, cell: &mut Cell) {
        self.path(&mut cell.path);
        cell.mtu = self.mtu(cell.mtu);
        cell.window_bytes = cell.window_bytes.map(|window| self.bytes(window));
        cell.buffer_bytes = cell.buffer_bytes.map(|buffer| self.bytes(buffer));
        cell.cross_bps = self.rate(cell.cross_bps);
        if let Some(staged) = &mut cell.staged {
            staged.staging_bytes = self.bytes(staged.staging_bytes);
        }
    }

    pub(super) fn repetition(self, one: &mut Repetition) {
        for Goodput { sender_bps, receiver_bps } in [&mut one.whole, &mut one.ramp, &mut one.steady]
        {
            (*sender_bps, *receiver_bps) =
                (sender_bps.map(|sent| self.rate(sent)), self.rate(*receiver_bps));
        }
        one.samples_bps
            .iter_mut()
            .chain(&mut one.streams_bps)
            .for_each(|rate| *rate = self.rate(*rate));
        let seconds = [&mut one.seconds, &mut one.ramp_s].into_iter().chain(&mut one.recovery_s);
        seconds
            .chain(one.losses.iter_mut().map(|lost| &mut lost.at_s))
            .for_each(|seconds| *seconds = self.times.real(*seconds));
        one.rtt_ns = one.rtt_ns.map(|rtt| self.span(rtt));
    }
}

//! Linux's module of a control and Farline's program with the same constants, one after the other over the same path: in the guest
//! of `lab/guest`, whose kernel has both.

use crate::netem::Netem;
use crate::recovery::{Sample, evaluate};
use crate::succeed;
use anyhow::{Context, Result, anyhow, ensure};
use farline::kernelcc::{Held, Source, Wish, obtain};
use farline_core::congestion::{Algorithm, Set};
use farline_core::profile::statistics::Summary;
use farline_core::units::Span;
use std::ops::ControlFlow;
use std::process::Command;

/// The controls that are both a module of Debian's kernel and a program of Farline's.
pub const BOTH: [Algorithm; 5] = [Algorithm::Bic, Algorithm::HighSpeed, Algorithm::HTcp, Algorithm::Scalable, Algorithm::Vegas];

/// Of the path.
pub const RTT: Span = Span::from_millis(200);

/// What is measured of either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Seconds from the end of recovery after one loss until the window is whole again.
    Recovery,
    /// Mbit/s at the receiver while one packet in [`OF`] is lost.
    Goodput,
}

/// One packet in so many is lost when goodput is measured, the first in the middle.
pub const OF: u32 = 1_000;
/// And so many are received.
pub const PACKETS: u32 = 6_000;

/// Bytes of a packet's payload, with time stamps.
const PAYLOAD: u64 = 1_448;
/// Nothing measured here takes longer.
const LONGEST: f64 = 90.0;

/// What was measured of a control, one flow of the one after one of the other.
#[derive(Clone, Debug, Default)]
pub struct Pair {
    /// Of Linux's module.
    pub module: Vec<f64>,
    /// Of Farline's program.
    pub bpf: Vec<f64>,
}

impl Pair {
    /// The middle one of the module's and of the program's.
    pub fn middle(&self) -> (f64, f64) {
        let middle = |all: &[f64]| Summary::of(all).map_or(f64::NAN, |summary| summary.median);
        (middle(&self.module), middle(&self.bpf))
    }

    /// By which part the middle of the program's flows differs from the module's.
    pub fn apart(&self) -> f64 {
        let (module, bpf) = self.middle();
        bpf / module - 1.0
    }

    /// By which part of the module's middle all flows of the one lie beyond all of the other: zero where they overlap, since flows of one
    /// and the same control differ by more than a tenth.
    pub fn gap(&self) -> f64 {
        let ends = |all: &[f64]| {
            all.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), &value| (value.min(least), value.max(most)))
        };
        let (module, bpf) = (ends(&self.module), ends(&self.bpf));
        (bpf.0 - module.1).max(module.0 - bpf.1).max(0.0) / self.middle().0
    }
}

/// The window at which a flow stands before its loss, in packets: Vegas adds one packet a round.
pub fn window(algorithm: Algorithm) -> u32 {
    if algorithm == Algorithm::Vegas { 40 } else { 200 }
}

/// Measures the module and the program of `algorithm`, each so many `times`.
///
/// # Errors
/// When this kernel has no such module, or a flow did not what it was to do.
pub fn pair(algorithm: Algorithm, measure: Measure, times: usize) -> Result<Pair> {
    let module = held(&Wish::new(algorithm.name()))?;
    ensure!(module.source != Source::Bpf, "this kernel has no module of {algorithm}: lab/guest has");
    let name = Some(format!("{}_linux", &algorithm.name()[..3]));
    let ours = held(&Wish { set: Some(Set::Linux), name, ..Wish::new(algorithm.name()) })?;
    ensure!(ours.source == Source::Bpf, "{} is the kernel's", ours.name);
    let path = Netem::new("fl-mod", RTT);
    if measure == Measure::Recovery {
        path.hold(window(algorithm))?;
    }
    let of = |name: &str| match measure {
        Measure::Recovery => recovery(&path, window(algorithm), name),
        Measure::Goodput => goodput(&path, name),
    };
    let mut pair = Pair::default();
    for _ in 0..times {
        pair.module.push(of(&module.name)?);
        pair.bpf.push(of(&ours.name)?);
    }
    drop((path, ours));
    // What was loaded for this goes again.
    if module.source == Source::Module {
        succeed(Command::new("modprobe").args(["-r", &format!("tcp_{algorithm}")]));
    }
    Ok(pair)
}

fn held(wish: &Wish) -> Result<Held> {
    obtain(wish).map_err(|error| anyhow!("{error}"))
}

fn recovery(path: &Netem, window: u32, control: &str) -> Result<f64> {
    // Slow start has sent twice the window when it ends, and the flow stands for several rounds.
    path.lose(8 * window, 1_000_000);
    let window = f64::from(window);
    let mut samples: Vec<Sample> = Vec::new();
    let recovery = path.flow(control, |sample, _| {
        samples.push(sample.into());
        match evaluate(&samples, window, 0.0, 0.0) {
            Ok(recovery) if recovery.seconds.is_some() => ControlFlow::Break(Some(recovery)),
            _ if samples[samples.len() - 1].at > samples[0].at + LONGEST => ControlFlow::Break(None),
            _ => ControlFlow::Continue(()),
        }
    })?;
    let recovery = recovery.with_context(|| format!("{control} did not recover: {:?}", samples.last()))?;
    ensure!(samples.iter().all(|sample| sample.window <= window), "{control}: the route did not hold the window");
    ensure!(recovery.reductions.len() == 1, "{control}: one loss made {} reductions", recovery.reductions.len());
    recovery.seconds.context("it is back")
}

fn goodput(path: &Netem, control: &str) -> Result<f64> {
    path.lose(OF / 2, OF);
    let mut began = None;
    path.flow(control, |sample, received| {
        let now = sample.time_us as f64 / 1e6;
        let elapsed = now - *began.get_or_insert(now);
        if received >= u64::from(PACKETS) * PAYLOAD || elapsed > LONGEST {
            ControlFlow::Break(received as f64 * 8.0 / elapsed / 1e6)
        } else {
            ControlFlow::Continue(())
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_that_overlap_have_no_gap_and_others_the_distance_between_them() {
        let pair = |module: [f64; 3], bpf: [f64; 3]| Pair { module: module.to_vec(), bpf: bpf.to_vec() };
        // BIC's recoveries in one run, whose middles are 30 % apart.
        let bistable = pair([3.31, 4.66, 3.55], [4.60, 4.62, 4.62]);
        assert!(bistable.apart() > 0.29 && bistable.gap() == 0.0);
        assert!((pair([10.0, 10.0, 9.0], [12.0, 13.0, 12.5]).gap() - 0.2).abs() < 1e-9);
        assert!((pair([10.0, 11.0, 10.0], [7.0, 8.0, 9.0]).gap() - 0.1).abs() < 1e-9);
        // What measured nothing is no agreement.
        assert!(pair([f64::NAN; 3], [1.0; 3]).gap().is_nan());
    }
}

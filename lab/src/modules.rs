//! Linux's module of a control and Farline's program with the same constants, one after the other
//! over the same path: in the guest of `lab/guest`, whose kernel has both.

use crate::netem::Netem;
use crate::recovery::{WindowSample, evaluate};
use anyhow::{Context, Result, anyhow, ensure};
use farline::kernelcc::{CcGuard, CcOrigin, CcRequest, obtain};
use farline_core::congestion::{Algorithm, Constants, ControlName};
use farline_core::statistics::Summary;
use farline_core::units::Span;
use std::ops::ControlFlow;

/// The controls that are both a module of Debian's kernel and a program of Farline's.
pub const BOTH: [Algorithm; 5] =
    [Algorithm::Bic, Algorithm::HighSpeed, Algorithm::HTcp, Algorithm::Scalable, Algorithm::Vegas];

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

/// The part by which a program may differ from the module, in the mean.
pub const AGREE: f64 = 0.1;

/// How the program's mean compares with the module's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Apart {
    /// By which part the program's mean differs from the module's.
    pub part: f64,
    /// The least and the most that it may be, with 95 % confidence.
    pub within: (f64, f64),
}

impl Apart {
    /// Whether more flows would hardly change the verdict: the whole interval lies on one side of
    /// [`AGREE`].
    pub fn is_settled(&self) -> bool {
        let (least, most) = self.within;
        (least >= -AGREE && most <= AGREE) || least > AGREE || most < -AGREE
    }

    /// Whether the means are close enough.
    pub fn agrees(&self) -> bool {
        // What is no number agrees with nothing.
        self.part.abs() <= AGREE
    }
}

impl Pair {
    /// The mean of the module's flows and of the program's.
    pub fn means(&self) -> (f64, f64) {
        let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
        (mean(&self.module), mean(&self.bpf))
    }

    /// How the program's mean compares with the module's; `None` with fewer than two flows of
    /// either, or one that measured nothing.
    ///
    /// Errors of independent means add by their squares, and for the part that the one is of the
    /// other do so relative to each mean.
    pub fn apart(&self) -> Option<Apart> {
        let relative = |all: &[f64]| {
            let summary = Summary::of(all).filter(|summary| summary.n == all.len())?;
            let (_, most) = summary.ci95?;
            Some((most - summary.mean) / summary.mean)
        };
        let (module, bpf) = self.means();
        let ratio = bpf / module;
        let half = ratio * relative(&self.module)?.hypot(relative(&self.bpf)?);
        Some(Apart { part: ratio - 1.0, within: (ratio - 1.0 - half, ratio - 1.0 + half) })
    }
}

/// The window at which a flow stands before its loss, in packets: Vegas adds one packet a round.
pub fn window(algorithm: Algorithm) -> u32 {
    if algorithm == Algorithm::Vegas { 40 } else { 200 }
}

/// Flows of one and the same control differ by a third: BIC gains its last packets one in two
/// rounds each, and one flow in some loses a packet that it had sent again, and waits for its
/// timer. So many of either are measured at least, and at most.
pub const FLOWS: (usize, usize) = (5, 30);

/// Measures the module and the program of `algorithm`, by turns, until their means can be told from
/// one another or be called the same.
///
/// # Errors
/// When this kernel has no such module, or a flow did not what it was to do.
pub fn pair(algorithm: Algorithm, measure: Measure) -> Result<Pair> {
    let module = guard(&CcRequest::new(algorithm))?;
    ensure!(
        module.source != CcOrigin::Bpf,
        "this kernel has no module of {algorithm}: lab/guest has"
    );
    let name = Some(format!("{}_linux", &algorithm.name()[..3]).parse()?);
    let mut asked = CcRequest::new(algorithm);
    (asked.set, asked.name) = (Some(Constants::Linux), name);
    let ours = guard(&asked)?;
    ensure!(ours.source == CcOrigin::Bpf, "{} is the kernel's", ours.name);
    let path = Netem::new("fl-mod", RTT);
    if measure == Measure::Recovery {
        path.hold(window(algorithm))?;
    }
    let of = |name: ControlName| match measure {
        Measure::Recovery => recovery(&path, window(algorithm), name),
        Measure::Goodput => goodput(&path, name),
    };
    let mut pair = Pair::default();
    let (least, most) = FLOWS;
    while pair.module.len() < least
        || (pair.module.len() < most && !pair.apart().is_some_and(|apart| apart.is_settled()))
    {
        pair.module.push(of(module.name)?);
        pair.bpf.push(of(ours.name)?);
    }
    Ok(pair)
}

fn guard(request: &CcRequest) -> Result<CcGuard> {
    obtain(request).map_err(|error| anyhow!("{error}"))
}

fn recovery(path: &Netem, window: u32, control: ControlName) -> Result<f64> {
    // Slow start has sent twice the window when it ends, and the flow stands for several rounds.
    path.lose(8 * window, 1_000_000);
    let window = f64::from(window);
    let mut samples: Vec<WindowSample> = Vec::new();
    let recovery = path.flow(control, |sample, _| {
        samples.push(sample.into());
        match evaluate(&samples, window, 0.0, 0.0) {
            Ok(recovery) if recovery.seconds.is_some() => ControlFlow::Break(Some(recovery)),
            _ if samples[samples.len() - 1].at > samples[0].at + LONGEST => {
                ControlFlow::Break(None)
            }
            _ => ControlFlow::Continue(()),
        }
    })?;
    let recovery =
        recovery.with_context(|| format!("{control} did not recover: {:?}", samples.last()))?;
    ensure!(
        samples.iter().all(|sample| sample.window <= window),
        "{control}: the route did not hold the window"
    );
    ensure!(
        recovery.reductions.len() == 1,
        "{control}: one loss made {} reductions",
        recovery.reductions.len()
    );
    recovery.seconds.context("it is back")
}

fn goodput(path: &Netem, control: ControlName) -> Result<f64> {
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
    fn spread_flows_do_not_hide_means_that_disagree() {
        let pair =
            |module: &[f64], bpf: &[f64]| Pair { module: module.to_vec(), bpf: bpf.to_vec() };
        // Flows that overlap, whose means are 20 % apart: too few of them to be sure, and enough.
        let (few, other) = ([3.0, 4.6, 3.4], [4.4, 4.6, 4.2]);
        let unsure = pair(&few, &other).apart().expect("it is measured");
        assert!(
            (unsure.part - 0.2).abs() < 1e-9 && !unsure.is_settled() && !unsure.agrees(),
            "{unsure:?}"
        );
        let sure = pair(&few.repeat(10), &other.repeat(10)).apart().expect("it is measured");
        assert!((sure.part - 0.2).abs() < 1e-9 && sure.is_settled() && !sure.agrees(), "{sure:?}");
        assert!(sure.within.0 > AGREE && sure.within.1 > sure.part, "{sure:?}");
        let same = pair(&[2.0, 2.02, 2.01], &[2.01, 2.03, 2.02]).apart().expect("it is measured");
        assert!(same.is_settled() && same.agrees() && same.within.0 < same.part, "{same:?}");
        let one = pair(&[2.0, 2.0, 2.0], &[1.0, 1.0, 1.0]).apart().expect("it is measured");
        assert_eq!((one.part, one.within), (-0.5, (-0.5, -0.5)));
        // What measured nothing is no agreement.
        assert_eq!(pair(&[f64::NAN; 3], &[1.0; 3]).apart(), None);
        assert_eq!(pair(&[1.0], &[1.0]).apart(), None);
    }
}

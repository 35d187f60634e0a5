//! One flow that stands at a known window, meets a scripted trouble, and recovers: in the kernel
//! and simulated.
//!
//! The window is held by the route: its `cwnd lock` is the clamp and its `ssthresh lock` the end of
//! slow start, so that the flow stands at exactly that window, fills no queue, and meets no loss
//! but the scripted ones.

pub mod flow;
pub mod link;
mod machine;
mod samples;

pub use link::{TooBusy, kernel, possible};
pub use machine::simulated;
pub(crate) use samples::began;
pub use samples::{WindowSample, evaluate, pick};

use farline_core::congestion::theory::{self, Cut};
use farline_core::congestion::{Algorithm, Constants};
use farline_core::units::{Rate, Span};

/// What happens to the flow.
#[derive(Clone, Debug)]
pub enum Trouble {
    /// One frame is lost at each of these spans after the flow stands.
    Losses(Vec<Span>),
    /// Other traffic takes nine tenths of the link for so long, as a UDP burst does.
    Burst(Span),
}

impl Trouble {
    /// One frame is lost.
    pub fn one_loss() -> Trouble {
        Trouble::Losses(vec![Span::ZERO])
    }
}

/// What to run.
#[derive(Clone, Debug)]
pub struct RecoveryRun {
    /// The control.
    pub algorithm: Algorithm,
    /// Its constants.
    pub set: Constants,
    /// The window at which the flow stands, in packets.
    pub window: u32,
    /// The path's round-trip time.
    pub rtt: Span,
    /// Bytes of IP in a full packet.
    pub mtu: u32,
    /// How long to watch after the first trouble.
    pub timeout: Span,
    /// What happens.
    pub trouble: Trouble,
}

impl RecoveryRun {
    /// Half as fast again as the window needs, so that nothing queues.
    pub fn rate(&self) -> Rate {
        Rate::from_bps(
            (f64::from(self.window) * f64::from(self.mtu + 38) * 8.0 / self.rtt.as_secs_f64() * 1.5)
                as u64,
        )
    }
}

/// One reduction of the window, and what came until the next.
#[derive(Clone, Debug)]
pub struct Reduction {
    /// Seconds since the trouble began.
    pub at: f64,
    /// The window before, in packets.
    pub before: f64,
    /// Seconds from the reduction to the end of recovery; `None` when the next came first.
    pub lasted: Option<f64>,
    /// The window with which congestion avoidance began again, or the threshold that was set where
    /// it did not, in packets.
    pub from: f64,
    /// Whether the retransmission timer ran out.
    pub timeout: bool,
    /// The window over time, in seconds from the end of recovery on, until the next reduction.
    pub trace: Vec<(f64, f64)>,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Recovery {
    /// Oldest first; at least one.
    pub reductions: Vec<Reduction>,
    /// The smallest window with which the flow went on after a reduction, in packets.
    pub depth: f64,
    /// The window from which the flow came back, in packets: that of the last reduction, or less
    /// where it shrank without a loss.
    pub from: f64,
    /// Seconds from there, at the end of the last recovery, until the window was whole again;
    /// `None` if it was not.
    pub seconds: Option<f64>,
    /// The mean round-trip time while the window grew back, in seconds.
    pub rtt: f64,
    /// Which part of its window the flow used meanwhile: a control counts only what a host that
    /// keeps up acknowledges.
    pub used: f64,
    /// Why the link says that it was not exact enough; empty when it was.
    pub inexact: Vec<String>,
}

/// The least part of its window that a flow must have used for a run to say something of the
/// control.
const USED: f64 = 0.95;

impl Recovery {
    /// The first reduction.
    pub fn first(&self) -> &Reduction {
        &self.reductions[0]
    }

    /// The last one.
    pub fn last(&self) -> &Reduction {
        &self.reductions[self.reductions.len() - 1]
    }

    /// Why this says nothing of the control: the machine was too busy for the link or for the flow.
    pub fn void(&self) -> Option<String> {
        if let Some(reason) = self.inexact.first() {
            return Some(reason.clone());
        }
        (self.used < USED).then(|| {
            format!(
                "the flow used {:.0} % of its window: the host did not keep up",
                self.used * 100.0
            )
        })
    }

    /// What theory says of the time after the last reduction, at the round-trip time that was
    /// measured.
    pub fn theory(&self, run: &RecoveryRun) -> Option<Span> {
        let cut = |reduction: &Reduction| Cut {
            before: reduction.before,
            after: reduction.from,
            timeout: reduction.timeout,
        };
        let mut cuts: Vec<Cut> = self.reductions.iter().map(cut).collect();
        cuts.last_mut()?.after = self.from;
        theory::recovery_after(
            run.algorithm,
            run.set,
            &cuts,
            f64::from(run.window),
            Span::from_secs_f64(self.rtt),
        )
    }
}

/// The largest part by which two windows differ at the same time after a recovery, over the first
/// `seconds` of each; `None` when the one had another number of reductions, or there was nothing to
/// compare after one of them.
pub fn largest_difference(kernel: &Recovery, machine: &Recovery, seconds: f64) -> Option<f64> {
    let at = |trace: &[(f64, f64)], time: f64| {
        let next = trace.partition_point(|(at, _)| *at <= time);
        trace.get(next.saturating_sub(1)).map(|(_, packets)| *packets)
    };
    let apart = |(kernel, machine): (&Reduction, &Reduction)| {
        // The one whose next loss came sooner ends the comparison.
        let end = machine.trace.last()?.0.min(seconds);
        let points = kernel.trace.iter().filter(|(time, _)| *time <= end);
        points
            .filter_map(|(time, packets)| Some((packets / at(&machine.trace, *time)? - 1.0).abs()))
            .reduce(f64::max)
    };
    if kernel.reductions.len() != machine.reductions.len() {
        return None;
    }
    let each: Option<Vec<f64>> =
        kernel.reductions.iter().zip(&machine.reductions).map(apart).collect();
    each?.into_iter().reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recovery(traces: &[&[(f64, f64)]]) -> Recovery {
        let reduction = |trace: &&[(f64, f64)]| Reduction {
            at: 0.0,
            before: 100.0,
            lasted: Some(0.1),
            from: 50.0,
            timeout: false,
            trace: trace.to_vec(),
        };
        let reductions = traces.iter().map(reduction).collect();
        Recovery {
            reductions,
            depth: 50.0,
            from: 50.0,
            seconds: Some(1.0),
            rtt: 0.1,
            used: 1.0,
            inexact: Vec::new(),
        }
    }

    #[test]
    fn windows_differ_by_the_most_seen_or_by_nothing_known() {
        let machine = recovery(&[&[(0.0, 50.0), (1.0, 60.0), (2.0, 70.0)]]);
        let kernel: &[(f64, f64)] = &[(0.0, 50.0), (1.1, 66.0), (1.9, 57.0), (3.0, 700.0)];
        let apart =
            largest_difference(&recovery(&[kernel]), &machine, 10.0).expect("it can be compared");
        assert!((apart - 0.1).abs() < 1e-9, "{apart}");
        assert_eq!(
            largest_difference(&recovery(&[kernel]), &machine, 0.5),
            Some(0.0),
            "only the first is within"
        );
        assert_eq!(
            largest_difference(&recovery(&[&[]]), &machine, 10.0),
            None,
            "no trace is no agreement"
        );
        assert_eq!(largest_difference(&recovery(&[kernel]), &recovery(&[&[]]), 10.0), None);
        assert_eq!(
            largest_difference(&recovery(&[kernel, &[]]), &recovery(&[kernel, kernel]), 10.0),
            None
        );
        assert_eq!(
            largest_difference(&recovery(&[kernel, kernel]), &machine, 10.0),
            None,
            "another number of losses"
        );
        assert_eq!(largest_difference(&recovery(&[]), &recovery(&[]), 10.0), None);
    }
}

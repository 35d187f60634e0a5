//! What both ends of a repetition saw, joined into one; and the congestion controls that a grid needs.

use super::{BUSY, Received, Sent};
use crate::kernelcc::{self, Held, Wish};
use farline_core::congestion::{Algorithm, Set};
use farline_core::profile::{Grid, Job, LimitedBy, Observed, Repetition};
use farline_core::units::Error;

/// A grid's controls, those that this host lacked held for as long as this lives.
#[derive(Debug, Default)]
pub(crate) struct Controls(Vec<(Algorithm, Held)>);

impl Controls {
    /// Obtains every control of `grid`.
    ///
    /// # Errors
    /// As [`kernelcc::obtain`](crate::kernelcc::obtain), for a control that cannot be had here.
    pub(crate) fn obtain(grid: &Grid) -> Result<Controls, Error> {
        let obtain = |&control: &Algorithm| {
            // What the kernel has of its own has one set of constants, whatever the grid says.
            let own = matches!(control, Algorithm::Reno | Algorithm::Cubic | Algorithm::Bbr);
            let set = (grid.set != Set::default() && !own).then_some(grid.set);
            Ok((control, kernelcc::obtain(&Wish { set, ..Wish::new(control.name()) })?))
        };
        grid.congestion.iter().map(obtain).collect::<Result<_, Error>>().map(Controls)
    }

    /// The name that a socket takes for `control`.
    pub(crate) fn name(&self, control: Algorithm) -> String {
        let held = self.0.iter().find(|(held, _)| *held == control);
        held.map_or_else(|| control.name().to_owned(), |(_, held)| held.name.clone())
    }
}

/// The repetition of `job` that `sent` and `received` saw, invalid for any of `doubts`, or where a processor was the limit.
pub(crate) fn joined(grid: &Grid, job: &Job, sent: Sent, received: Received, mut doubts: Vec<String>) -> Repetition {
    let limited_by = sent.limited_by(grid.host_bps);
    let observed = Observed {
        samples: received.samples_bps,
        streams: received.streams_bps,
        sender_bps: sent.acked_bps,
        retransmits: sent.retransmits,
        reductions: sent.reductions,
        timeouts: sent.timeouts,
        limited_by: if received.work.busiest > BUSY { LimitedBy::Cpu } else { limited_by },
    };
    let mut repetition = observed.repetition(grid, job);
    for (end, work) in [("sender", sent.work), ("receiver", received.work)] {
        if work.busiest > BUSY {
            let busy = work.busiest * 100.0;
            doubts.push(format!(
                "a thread of the {end} was busy {busy:.0} % of the time: the processor was measured, not the path"
            ));
        }
    }
    repetition.invalid = (!doubts.is_empty()).then(|| doubts.join("; "));
    repetition.cpu = Some((sent.work.cpu_s / repetition.seconds, received.work.cpu_s / repetition.seconds));
    repetition.rtt_ns = Some(sent.min_rtt);
    repetition
}

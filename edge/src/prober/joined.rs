//! What both ends of a repetition saw, joined into one; and the congestion controls that a grid
//! needs.

use super::{BUSY, ProbeReceived, ProbeSent};
use crate::kernelcc::{self, CcGuard, CcRequest};
use farline_core::congestion::{Algorithm, Constants, ControlName};
use farline_core::profile::{Grid, Job, LimitedBy, Observed, Repetition};
use farline_core::units::Error;

/// The kernel's records take a part of a buffer, and a writer is woken when a third of it is free.
const FULL: f64 = 0.5;

/// A grid's controls, those that this host lacked held for as long as this lives.
#[derive(Debug, Default)]
pub(crate) struct Controls(Vec<(Algorithm, CcGuard)>);

impl Controls {
    /// Obtains every control of `grid`.
    ///
    /// # Errors
    /// As [`kernelcc::obtain`](crate::kernelcc::obtain), for a control that cannot be had here.
    pub(crate) fn obtain(grid: &Grid) -> Result<Controls, Error> {
        let obtain = |&control: &Algorithm| {
            let mut request = CcRequest::new(control);
            if grid.set_of(control) == Constants::Paper {
                // Under a name of its own: the plain one may be that of Linux's module, or of
                // another profile's.
                let name = format!("{:.8}_{:x}", control.name(), std::process::id());
                request.set = Some(Constants::Paper);
                request.name = Some(ControlName::to_register(&name)?);
            }
            Ok((control, kernelcc::obtain(&request)?))
        };
        grid.congestion.iter().map(obtain).collect::<Result<_, Error>>().map(Controls)
    }

    /// The name that a socket takes for `control`.
    pub(crate) fn name(&self, control: Algorithm) -> ControlName {
        let held = self.0.iter().find(|(held, _)| *held == control);
        held.map_or_else(|| control.into(), |(_, held)| held.name)
    }
}

/// Whether each stream had most of its send buffer on its way: what is acknowledged in a round
/// trip. The kernel's own account of that counts only the time in which nothing else waits.
fn fills_buffer(job: &Job, sent: &ProbeSent) -> bool {
    let on_its_way =
        sent.acked_bps / 8.0 * sent.min_rtt.as_secs_f64() / f64::from(job.cell.streams);
    job.cell.buffer_bytes.is_some_and(|buffer| on_its_way > FULL * buffer.0 as f64)
}

/// The repetition of `job` whose ends saw this, each direction in turn; invalid where a processor
/// was the limit, unless that was asked.
pub(crate) fn joined(grid: &Grid, job: &Job, ways: Vec<(ProbeSent, ProbeReceived)>) -> Repetition {
    let mut doubts = Vec::new();
    // At both ends: who sends one way receives the other way.
    let (mut cpu, mut rtt) = ((0.0, 0.0), None);
    let mut whole: Option<Observed> = None;
    for (sent, received) in ways {
        // Of messages the question is what they cost the sender.
        let is_asked = job.cell.message_bytes.is_some();
        let ends = [("sender", sent.work, is_asked), ("receiver", received.work, false)];
        for (end, work, is_asked) in ends {
            if work.busiest > BUSY && !is_asked {
                let busy = work.busiest * 100.0;
                doubts.push(format!(
                    "a thread of the {end} was busy {busy:.0} % of the time: the processor was \
                     measured, not the path"
                ));
            }
        }
        cpu = if whole.is_none() {
            (sent.work.cpu_s, received.work.cpu_s)
        } else {
            (cpu.0 + received.work.cpu_s, cpu.1 + sent.work.cpu_s)
        };
        rtt = rtt.into_iter().chain([sent.min_rtt]).min();
        let limited_by = match sent.limited_by(grid.host_bps) {
            _ if received.work.busiest > BUSY => LimitedBy::Cpu,
            LimitedBy::Congestion if fills_buffer(job, &sent) => LimitedBy::SendBuffer,
            found => found,
        };
        let observed = Observed {
            samples: received.samples_bps,
            streams: received.streams_bps,
            sender_bps: sent.acked_bps,
            sender_samples: sent.samples_bps,
            retransmits: sent.retransmits,
            reductions: Some(sent.reductions),
            timeouts: sent.timeouts,
            limited_by,
            losses: sent.losses,
        };
        whole = Some(match whole {
            Some(before) => before.joined(observed),
            None => observed,
        });
    }
    let mut repetition = whole.unwrap_or_default().repetition(grid, job);
    repetition.doubt(&doubts);
    repetition.cpu = Some((cpu.0 / repetition.seconds, cpu.1 / repetition.seconds));
    repetition.rtt_ns = rtt;
    repetition
}

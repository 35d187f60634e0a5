//! What one measured run of a grid does between two devices, and what both ends' reports make of
//! it.

use super::between::Bottleneck;
use super::document::VerbsRun;
use super::grid::{QpService, Setup, VerbsCell, VerbsGrid, VerbsMetric};
use crate::experiment::CellJob;
use crate::units::{Bytes, Rate, Span};
use serde::{Deserialize, Serialize};

/// One run that is to be measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VerbsJob {
    /// Which of its cell's repetitions.
    pub index: u32,
    /// Of its bytes and sequence numbers.
    pub seed: u64,
    /// How messages travel.
    pub transport: QpService,
    /// Which way.
    pub way: VerbsMetric,
    /// How the connection is made.
    pub setup: Setup,
    /// Payload of a message.
    pub size_bytes: Bytes,
    /// Connections side by side.
    pub queue_pairs: u8,
    /// Messages of each that may be unacknowledged.
    pub depth: u64,
    /// Messages in all; round trips of a [`VerbsMetric::RoundTrip`].
    pub messages: u64,
    /// What the wire takes there and back, beyond what it takes by itself.
    pub rtt_ns: Span,
    /// The longest that it measures.
    pub most_s: f64,
    /// Of a run next to other traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bottleneck: Option<Bottleneck>,
    /// What throughputs are multiplied by: rates and sizes were divided by it.
    pub divided_by: u64,
}

/// What one end saw of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// Messages of its own that were acknowledged, or, of datagrams, that its device sent.
    pub done: u64,
    /// From its first message to the last of those.
    pub seconds: f64,
    /// Datagrams of the other end that arrived.
    pub arrived: u64,
    /// From the first of those to the last.
    pub arrival_s: f64,
    /// The median of its round trips.
    pub round_trip_ns: Option<Span>,
    /// Round trips that did not come back.
    pub unanswered: u64,
    /// Whether what came was what was sent; `None` where it did not look.
    pub intact: Option<bool>,
    /// What broke the connection.
    pub failure: Option<String>,
    /// From the first word about the connection to its being there.
    pub connect_ns: Span,
    /// Packets that its device counted meanwhile, sent and received; `None` where it does not
    /// count.
    pub packets: Option<(u64, u64)>,
    /// Payload of a full packet.
    pub mtu_bytes: u64,
}

impl End {
    /// Its own messages per time.
    fn sent(&self, size: Bytes) -> Rate {
        Rate::of(Bytes(self.done * size.0), Span::from_secs_f64(self.seconds))
    }

    /// The other end's datagrams per time: between the first and the last, so one less than
    /// arrived.
    fn received(&self, size: Bytes) -> Rate {
        Rate::of(
            Bytes(self.arrived.saturating_sub(1) * size.0),
            Span::from_secs_f64(self.arrival_s),
        )
    }
}

impl VerbsJob {
    /// What the ends and the wire are to do for `job` of `grid`; `None` where nothing is measured.
    pub fn of(grid: &VerbsGrid, job: &CellJob<VerbsCell>) -> Option<VerbsJob> {
        let (measured, cell) = (grid.measured.as_ref()?, &job.cell);
        let by = measured.divided_by.unwrap_or(1).max(1);
        let messages = measured.messages_of(Bytes(cell.size_bytes.0 / by));
        Some(VerbsJob {
            index: job.attempt,
            seed: job.seed,
            transport: cell.transport,
            way: cell.way,
            setup: cell.setup,
            size_bytes: Bytes((cell.size_bytes.0 / by).max(1)),
            queue_pairs: u8::try_from(cell.queue_pairs).unwrap_or(u8::MAX).max(1),
            depth: grid.depth.min(messages),
            // A round trip is one message after the other: as many as the others have on their way.
            messages: match cell.way {
                VerbsMetric::RoundTrip => messages.min(grid.depth),
                _ => messages,
            },
            rtt_ns: cell.path.rtt_ns,
            most_s: measured.most_s,
            bottleneck: measured.divided_by.map(|_| bottleneck(grid, cell, by)),
            divided_by: by,
        })
    }

    /// The run that `near` and `far` saw, invalid where it proves nothing.
    pub fn run(&self, near: &End, far: &End) -> VerbsRun {
        let size = self.size_bytes;
        let sent = sum(near.sent(size), far.sent(size));
        let throughput_bps = match (self.transport, self.way) {
            (_, VerbsMetric::RoundTrip) => Rate::default(),
            (QpService::Ud, _) => sum(near.received(size), far.received(size)),
            (QpService::Rc | QpService::Read, _) => sent,
        };
        let full = |rate: Rate| Rate::from_bps(rate.as_bps() * self.divided_by);
        let failure = near.failure.as_ref().or(far.failure.as_ref());
        let datagrams = self.transport == QpService::Ud;
        VerbsRun {
            index: self.index,
            seed: self.seed,
            throughput_bps: full(throughput_bps),
            round_trip_ns: near.round_trip_ns,
            lost: if datagrams && self.way != VerbsMetric::RoundTrip {
                (near.done + far.done).saturating_sub(near.arrived + far.arrived)
            } else {
                near.unanswered
            },
            broken: failure.is_some(),
            again: self.again(near),
            timeouts: 0,
            sent_bps: (datagrams && self.way != VerbsMetric::RoundTrip).then_some(full(sent)),
            messages: Some(near.done + far.done),
            packets: near.packets.zip(far.packets).map(|(near, far)| (near.0, far.1)),
            connect_ns: Some(near.connect_ns),
            invalid: self.doubt(near, far, failure),
        }
    }

    /// Packets of `messages`.
    fn packets_of(&self, messages: u64, mtu: u64) -> u64 {
        messages * self.size_bytes.0.div_ceil(mtu.max(1)).max(1)
    }

    /// What the near end sent beyond its messages' packets, where nothing else leaves it.
    fn again(&self, near: &End) -> u64 {
        match (self.transport, self.way, near.packets) {
            (QpService::Rc, VerbsMetric::OneWay, Some((sent, _))) if near.done == self.messages => {
                sent.saturating_sub(self.packets_of(near.done, near.mtu_bytes))
            }
            _ => 0,
        }
    }

    /// Why the run proves nothing.
    fn doubt(&self, near: &End, far: &End, failure: Option<&String>) -> Option<String> {
        if let Some(failure) = failure {
            return Some(format!("the connection broke: {failure}"));
        }
        if near.intact == Some(false) || far.intact == Some(false) {
            return Some("what is in the memory of the receiver is not what was sent".to_owned());
        }
        let nothing = match (self.transport, self.way) {
            (_, VerbsMetric::RoundTrip) => near.round_trip_ns.is_none(),
            (QpService::Ud, VerbsMetric::OneWay) => far.arrived < 2,
            (QpService::Ud, VerbsMetric::BothWays) => far.arrived.min(near.arrived) < 2,
            (_, VerbsMetric::OneWay) => near.done == 0,
            (_, VerbsMetric::BothWays) => near.done.min(far.done) == 0,
        };
        if nothing {
            return Some(format!("nothing arrived within {} s", self.most_s));
        }
        // What a device counted is the proof that verbs carried the bytes; who reads receives them.
        let (to_far, to_near) = match (self.transport, self.way) {
            (_, VerbsMetric::RoundTrip) => (near.done, near.done),
            (QpService::Rc, _) => (near.done, far.done),
            (QpService::Read, _) => (far.done, near.done),
            (QpService::Ud, _) => (far.arrived, near.arrived),
        };
        for (name, end, messages) in [("far", far, to_far), ("near", near, to_near)] {
            let least = self.packets_of(messages, end.mtu_bytes);
            if let Some((_, counted)) = end.packets.filter(|(_, counted)| *counted < least) {
                return Some(format!(
                    "the {name} device counted {counted} packets, and the messages have {least}"
                ));
            }
        }
        None
    }
}

/// The long haul of `cell` with rates and queues divided by `by`; the round-trip time stays, so a
/// queue holds as long as before.
fn bottleneck(grid: &VerbsGrid, cell: &VerbsCell, by: u64) -> Bottleneck {
    let divided = |rate: Rate| Rate::from_bps(rate.as_bps() / by.max(1));
    Bottleneck {
        rate_bps: divided(cell.path.rate_bps),
        queue_bytes: Bytes(cell.queue_bytes.unwrap_or(cell.path.queue_bytes).0 / by.max(1)),
        cross_bps: divided(cell.cross_bps),
        host_bps: grid.host_bps.map(divided),
    }
}

fn sum(a: Rate, b: Rate) -> Rate {
    Rate::from_bps(a.as_bps() + b.as_bps())
}

#[cfg(test)]
#[path = "measured_tests.rs"]
mod tests;

//! One measurement of one cell: what both ends saw, its parts, and whether it counts.

use crate::experiment::ExperimentRun;
use crate::units::{Rate, Span};
use serde::{Deserialize, Serialize};

/// What held the streams of a repetition back for most of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LimitedBy {
    /// The congestion control's window: the path, its losses, the ramp.
    #[default]
    Congestion,
    /// A processor.
    Cpu,
    /// The rate of the sending host.
    Host,
    /// The receiver's window, or the largest that was allowed.
    ReceiverWindow,
    /// The send buffer.
    SendBuffer,
    /// The store that the bytes came from or went to.
    Store,
}

/// Payload per time at both ends; the receiver's is the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Goodput {
    /// What the sender was told had arrived; absent where it was not asked in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender_bps: Option<Rate>,
    /// What the receiver got.
    pub receiver_bps: Rate,
}

/// How exact the emulated link of a repetition was, in the direction of the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exactness {
    /// How late packets were, the median.
    pub late_p50_ns: Span,
    /// And the 99th percentile.
    pub late_p99_ns: Span,
    /// What the latter may be.
    pub limit_ns: Span,
    /// Frames that the path's queue dropped, as it should.
    pub queue_drops: u64,
    /// Packets lost for lack of processor time, both directions.
    pub overruns: u64,
}

/// Packets lost in one sample interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lost {
    /// The interval's end, in seconds since the streams began.
    pub at_s: f64,
    /// How many.
    pub packets: u64,
}

/// One measurement of one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Repetition {
    /// Which of the cell's repetitions it is, from 0; an invalid one is followed by another of the
    /// same number.
    pub index: u32,
    /// Of its random choices.
    pub seed: u64,
    /// When it began, as text; absent in a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<String>,
    /// How long it ran.
    pub seconds: f64,
    /// How much of that was ramp or warm-up.
    pub ramp_s: f64,
    /// Over the whole time.
    pub whole: Goodput,
    /// During the ramp.
    pub ramp: Goodput,
    /// After it.
    pub steady: Goodput,
    /// Segments lost or sent again.
    pub retransmits: u64,
    /// Reductions of a window; absent where nobody looked at the windows, as in a copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reductions: Option<u64>,
    /// Retransmission timers that ran out; absent where the kernel does not tell, and in a copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<u64>,
    /// What held it back.
    pub limited_by: LimitedBy,
    /// Jain's index of the streams' shares; absent where these are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fairness: Option<f64>,
    /// From the disturbance to the rate before it, where there was one and it came back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery_s: Option<f64>,
    /// Processor time of sender and receiver over real time; absent in a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<(f64, f64)>,
    /// The least round-trip time that the sender saw; absent in a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_ns: Option<Span>,
    /// How exact the link was, where it was emulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Exactness>,
    /// Why it must not be averaged in: the link was not exact, a processor was the limit. Absent
    /// when it is valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
    /// When packets were lost, or sent again as far as a kernel tells: how many in each sample
    /// interval that had some.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<Lost>,
    /// Payload that arrived in each sample interval, all streams together.
    pub samples_bps: Vec<Rate>,
    /// Payload per time of each stream; absent in a copy, whose mover gives the next block to the
    /// stream that is free.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams_bps: Vec<Rate>,
}

impl ExperimentRun for Repetition {
    fn invalid(&self) -> Option<&str> {
        self.invalid.as_deref()
    }

    fn began_at(&mut self, moment: &str) {
        self.began = Some(moment.to_owned());
    }
}

impl Repetition {
    /// Whether it may be averaged in.
    pub fn is_valid(&self) -> bool {
        self.invalid.is_none()
    }

    /// Marks it as not to be averaged in for each of `reasons`, if there are any.
    pub fn doubt(&mut self, reasons: &[String]) {
        if !reasons.is_empty() {
            let all: Vec<&str> = self.invalid.iter().chain(reasons).map(String::as_str).collect();
            self.invalid = Some(all.join("; "));
        }
    }
}

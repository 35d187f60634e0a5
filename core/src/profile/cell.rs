//! One point of a grid: a path, and what is sent over it how.

use super::driver::ProfileDriver;
use super::staging::Staged;
use crate::congestion::{Algorithm, Constants};
use crate::experiment::{CellName, from_word};
pub use crate::plan::PathPoint;
use crate::plan::{USUAL_MTU, payload_rate, streams_in_words};
use crate::units::{Bytes, ErrorCode, Fault, Rate, Span};
use serde::{Deserialize, Serialize};

/// Which way the data of a cell goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrafficDirection {
    /// From here to the far side.
    #[default]
    Out,
    /// From the far side to here.
    Back,
    /// Both at once, as many streams each way; the goodput is that of both together.
    Both,
}

from_word!(
    TrafficDirection,
    Fault::You,
    ErrorCode::ProfileDirection,
    "direction",
    "out, back and both"
);

impl TrafficDirection {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            TrafficDirection::Out => "out",
            TrafficDirection::Back => "back",
            TrafficDirection::Both => "both",
        }
    }

    /// Whether it is the usual one, which documents leave out.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
    pub(super) fn is_out(&self) -> bool {
        *self == TrafficDirection::Out
    }
}

/// One point of the grid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The path.
    pub path: PathPoint,
    /// The congestion control of every stream.
    pub congestion: Algorithm,
    /// With which constants.
    pub set: Constants,
    /// TCP streams.
    pub streams: u32,
    /// The most that one stream may have on its way; without it the path decides.
    pub window_bytes: Option<Bytes>,
    /// The sender's buffer, which holds what one stream has sent until it is acknowledged; the
    /// kernel's own sizing without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_bytes: Option<Bytes>,
    /// What the sender hands to the kernel with one call;
    /// [`Grid::USUAL_MESSAGE`](super::Grid::USUAL_MESSAGE) without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_bytes: Option<Bytes>,
    /// Bytes of IP in a full packet.
    pub mtu: u32,
    /// Other traffic on the path, which does not answer loss.
    pub cross_bps: Rate,
    /// Probability that a frame is lost on the line.
    pub loss: f64,
    /// Which way its data goes.
    #[serde(default, skip_serializing_if = "TrafficDirection::is_out")]
    pub direction: TrafficDirection,
    /// How its bytes come from a store; absent where the ends send what they have in memory,
    /// without a mover.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staged: Option<Staged>,
    /// The name of the [`Hypothesis`](super::Hypothesis) that it tests; absent in a cell of the
    /// axes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypothesis: Option<String>,
}

impl Cell {
    /// `1 stream`, or `4 streams`.
    pub(super) fn streams_in_words(&self) -> String {
        streams_in_words(self.streams)
    }

    /// What it is sent over.
    pub fn driver(&self) -> ProfileDriver {
        self.staged.map_or(ProfileDriver::Tcp, |staged| staged.driver)
    }

    /// Its congestion control, where its driver does not have another in its place.
    pub fn control(&self) -> Option<Algorithm> {
        Some(self.congestion).filter(|&control| !self.driver().own_control(control))
    }

    /// What it moves in `seconds`, if its path is the limit.
    pub fn volume(&self, seconds: f64) -> Bytes {
        payload_rate(self.path.rate_bps, self.mtu).bytes_in(Span::from_secs_f64(seconds))
    }

    /// The cell in one line, the same in every document: `usn-8600 htcp 16 streams`, with what
    /// differs from the usual after it.
    pub fn name(&self) -> String {
        let control = self.control().map_or_else(String::new, |control| format!(" {control}"));
        let all = format!("{}{control} {}", self.path.name, self.streams_in_words());
        let way = match self.direction {
            TrafficDirection::Out => None,
            TrafficDirection::Back => Some("back"),
            TrafficDirection::Both => Some("both ways"),
        };
        CellName::new(all)
            .with(" ", self.control().map(|_| self.set).filter(|set| *set != Constants::default()))
            .with(" window ", self.window_bytes)
            .with(" buffer ", self.buffer_bytes)
            .with(" messages of ", self.message_bytes)
            .with(" mtu ", Some(self.mtu).filter(|mtu| *mtu != USUAL_MTU))
            .with(" cross ", Some(self.cross_bps).filter(|cross| *cross > Rate::default()))
            .with(" loss ", (self.loss > 0.0).then(|| format!("{:e}", self.loss)))
            .with(" ", way)
            .with(" ", self.staged)
            .with(", ", self.hypothesis.as_ref())
            .whole()
    }
}

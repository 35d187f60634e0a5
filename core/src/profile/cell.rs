//! One point of a grid: a path, and what is sent over it how.

use super::staging::Staged;
use crate::congestion::{Algorithm, Constants};
use crate::experiment::word;
pub use crate::plan::PathPoint;
use crate::plan::{USUAL_MTU, payload_rate, streams_in_words};
use crate::units::{Bytes, Error, ErrorCode, Fault, Rate, Span};
use serde::{Deserialize, Serialize};
use std::str::FromStr;

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

impl FromStr for TrafficDirection {
    type Err = Error;

    fn from_str(text: &str) -> Result<TrafficDirection, Error> {
        word(text).ok_or_else(|| {
            Error::new(Fault::You, ErrorCode::ProfileDirection, format!("`{text}` is no direction"))
                .hint("out, back and both are")
        })
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
    /// What the sender hands to the kernel with one call; [`Grid::USUAL_MESSAGE`](super::Grid::USUAL_MESSAGE) without it.
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

    /// What it moves in `seconds`, if its path is the limit.
    pub fn volume(&self, seconds: f64) -> Bytes {
        payload_rate(self.path.rate_bps, self.mtu).bytes_in(Span::from_secs_f64(seconds))
    }

    /// The cell in one line, the same in every document: `usn-8600 htcp 16 streams`, with what
    /// differs from the usual after it.
    pub fn name(&self) -> String {
        let mut name =
            format!("{} {} {}", self.path.name, self.congestion, self.streams_in_words());
        if self.set != Constants::default() {
            name.push_str(&format!(" {}", self.set));
        }
        if let Some(window) = self.window_bytes {
            name.push_str(&format!(" window {window}"));
        }
        if let Some(buffer) = self.buffer_bytes {
            name.push_str(&format!(" buffer {buffer}"));
        }
        if let Some(message) = self.message_bytes {
            name.push_str(&format!(" messages of {message}"));
        }
        if self.mtu != USUAL_MTU {
            name.push_str(&format!(" mtu {}", self.mtu));
        }
        if self.cross_bps > Rate::default() {
            name.push_str(&format!(" cross {}", self.cross_bps));
        }
        if self.loss > 0.0 {
            name.push_str(&format!(" loss {:e}", self.loss));
        }
        match self.direction {
            TrafficDirection::Out => {}
            TrafficDirection::Back => name.push_str(" back"),
            TrafficDirection::Both => name.push_str(" both ways"),
        }
        if let Some(staged) = &self.staged {
            name.push_str(&format!(" {staged}"));
        }
        if let Some(hypothesis) = &self.hypothesis {
            name.push_str(&format!(", {hypothesis}"));
        }
        name
    }
}

//! A source and its staging pool, in the fluid model.

use crate::units::{Bytes, Error, ErrorCode, Fault, Rate, Span};
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// A source that gives nothing for the last `pause` of every span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stall {
    /// For how long.
    pub pause_ns: Span,
    /// How often.
    pub every_ns: Span,
}

impl Stall {
    /// How much longer nothing is given, `at` after the beginning.
    pub fn left(self, at: Span) -> Span {
        let phase = Span::from_nanos(at.as_nanos() % self.every_ns.as_nanos().max(1));
        let open = self.every_ns.saturating_sub(self.pause_ns);
        if phase < open { Span::ZERO } else { self.every_ns.saturating_sub(phase) }
    }
}

impl FromStr for Stall {
    type Err = Error;

    /// Reads `50ms/1s`.
    fn from_str(text: &str) -> Result<Stall, Error> {
        let wrong = || {
            Error::new(Fault::You, ErrorCode::BadStall, format!("`{text}` is no stall"))
                .hint("write it as 50ms/1s")
        };
        let (pause, every) = text.split_once('/').ok_or_else(wrong)?;
        let (pause_ns, every_ns): (Span, Span) =
            (pause.parse().map_err(|_| wrong())?, every.parse().map_err(|_| wrong())?);
        if pause_ns >= every_ns { Err(wrong()) } else { Ok(Stall { pause_ns, every_ns }) }
    }
}

/// From what source the bytes of a simulation come, through which pool.
#[derive(Clone, Copy, Debug)]
pub struct StagedSource {
    /// The pool's size.
    pub pool: Bytes,
    /// How fast the source is read while it does not stall.
    pub read: Rate,
    /// Whether the pool is filled, then emptied, rather than both at once.
    pub in_turns: bool,
    /// How the source stalls.
    pub stall: Option<Stall>,
}

/// A source with its pool, in the model: what may leave in a step.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    /// All in packets, and packets a second.
    size: f64,
    read: f64,
    level: f64,
    in_turns: bool,
    fills: bool,
    stall: Option<Stall>,
}

impl Pool {
    /// The pool of `source`, empty; `packet` is the payload of a packet in bytes.
    pub(super) fn new(source: &StagedSource, packet: f64) -> Pool {
        Pool {
            size: source.pool.0 as f64 / packet,
            read: source.read.as_bps() as f64 / 8.0 / packet,
            level: 0.0,
            in_turns: source.in_turns,
            fills: true,
            stall: source.stall,
        }
    }

    /// A step must not be longer than a part of the pool lasts.
    pub(super) fn longest_step(&self) -> f64 {
        self.size / self.read / 4.0
    }

    /// Reads for `step` seconds from `now` on, and returns the packets that may leave meanwhile.
    pub(super) fn read(&mut self, now: f64, step: f64) -> f64 {
        let open =
            self.stall.is_none_or(|stall| stall.left(Span::from_secs_f64(now)) == Span::ZERO);
        if open && self.fills {
            self.level = (self.level + self.read * step).min(self.size);
        }
        if self.in_turns && self.fills {
            self.fills = self.level < self.size;
            return 0.0;
        }
        self.level
    }

    /// `packets` have left.
    pub(super) fn take(&mut self, packets: f64) {
        self.level = (self.level - packets).max(0.0);
        // Less than a packet is none.
        self.fills |= self.level < 1.0;
    }
}

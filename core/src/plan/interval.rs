//! Why the interval of a plan's time is as wide as it is, put into words.

use crate::units::Rate;
use std::fmt::{self, Display, Formatter};

/// Why an interval is as wide as it is.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum IntervalReason {
    /// Of so many repetitions.
    Repetitions(usize),
    /// One repetition says nothing of others: these parts of the time are assumed.
    Assumed {
        /// The part by which a copy may be faster.
        below: f64,
        /// The part by which it may be slower.
        above: f64,
        /// Whether the wire ends the interval on its one side.
        at_wire: bool,
    },
    /// It has no lower end: a node lets itself be measured at this rate at most, and was.
    Ceiling(Rate),
    /// The model was off by this part at most.
    Model {
        /// The part.
        part: f64,
        /// Whether the wire ends the interval on its one side.
        at_wire: bool,
        /// Whether the path's queue is known; else it is by several.
        is_queue_known: bool,
    },
    /// It has no upper end: so many packets are lost, and the model was compared with packets only
    /// up to fewer.
    Lossy {
        /// The part of the packets that is lost.
        loss: f64,
        /// Up to which the model was compared.
        compared: f64,
    },
    /// One repetition, by what its rate varied in fifths of its time.
    Varied,
}

/// Of an interval that the wire ends on its one side.
const AT_WIRE: &str = ", as far as the wire allows: a copy can only be slower";

impl Display for IntervalReason {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            IntervalReason::Repetitions(count) => write!(
                f,
                "the interval is where Student's t of {count} repetitions has 19 of 20 more"
            ),
            IntervalReason::Assumed { below, above, at_wire } => write!(
                f,
                "the interval is {:.0} % below and {:.0} % above{}, which is assumed: one \
                 repetition says nothing of others, and the best of those that were tried is a \
                 lucky one",
                below * 100.0,
                above * 100.0,
                if *at_wire { AT_WIRE } else { "" }
            ),
            IntervalReason::Ceiling(rate) => write!(
                f,
                "the rate is a lower bound: the node lets itself be measured at {rate} at most, \
                 and was; a copy may be faster"
            ),
            IntervalReason::Model { part, at_wire, is_queue_known } => write!(
                f,
                "the interval has at least {:.0} % to either side, the most that the model was off \
                 from packets{}{}",
                part * 100.0,
                if *at_wire { AT_WIRE } else { "" },
                match is_queue_known {
                    true => "",
                    false => {
                        ", and reaches half as far again above it: a queue that nobody knows may \
                         be as short as a tenth of what the path holds"
                    }
                }
            ),
            IntervalReason::Lossy { loss, compared } => write!(
                f,
                "the time is a lower bound: the model was compared with packets where up to {:.0} \
                 % are lost, and here are {:.1} %, so that most of the time may be timeouts",
                compared * 100.0,
                loss * 100.0
            ),
            IntervalReason::Varied => f.write_str(
                "the interval is by what the rate of one repetition varied, in fifths of its time, \
                 and reaches a quarter above at least",
            ),
        }
    }
}

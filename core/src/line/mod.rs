//! What a line is worth: frames that carry a pattern are sent over a path at a stated load, and
//! what arrives says how often frames are lost and bits are wrong, how long they take, and what
//! that is worth.
//!
//! The sender's plan is a [`FrameMix`] whose payloads come from a [`Pattern`]; each frame begins
//! with a [`LoadHeader`]. The receiver's [`Tally`] counts; the sender joins the receiver's
//! [`SecondRow`]s with what it sent in each second into a [`LineTest`], which decides
//! ([`RatioTest`]) and becomes the document and its page. One-way delay comes from STAMP packets
//! ([`stamp`]) under the same load.
//!
//! Invariants: a second in which an end lost packets of its own, or did not send what it was to
//! send, counts neither as tested time nor for or against the line; every ratio has an interval
//! and says of how many trials.
//!
//! Not here: sockets, clocks, pacing.

mod burst_words;
mod bursts;
mod carried;
mod compare;
mod compared_path;
mod curve;
mod delay;
mod delay_account;
mod delay_summary;
mod document;
mod follow_up;
mod frames;
mod gilbert;
mod gilbert_elliott;
mod header;
mod kernel_times;
mod link_late;
mod load;
mod loss_sequence;
mod message;
mod open_losses;
mod outcome;
mod pacer;
mod page;
mod path_difference;
mod pattern;
mod preset;
mod preset_report;
mod preset_state;
mod ratio;
mod ratio_search;
mod raw;
mod raw_port;
mod read;
mod receive_drops;
mod reflector;
mod refused_answers;
mod runs;
mod scientific;
mod search;
mod seconds;
mod sequential;
mod service;
mod settings;
mod simulate;
pub mod stamp;
mod state;
mod strip;
mod tally;
mod verdict;
mod way;
mod window;

pub use bursts::{BurstBuffer, BurstSearch, BurstTrial};
pub use compare::{LineComparison, PathPrediction};
pub use compared_path::ComparedPath;
pub use curve::{LoadCurve, LoadRow};
pub use delay::{ClockDifference, ClockState, DelaySample, PathDelay};
pub use delay_summary::DelaySummary;
pub use document::{LineDocument, LineTest};
pub use follow_up::{FOLLOW_UP_PACKET, FollowUp, FollowedSamples};
pub use frames::{EthernetFraming, FrameKind, FrameMix};
pub use gilbert::{Gilbert, GilbertCounts};
pub use gilbert_elliott::{GilbertElliott, ProbabilityEstimate};
pub use header::{HEADER_BYTES, LoadHeader};
pub use kernel_times::KernelTimes;
pub use link_late::{DelaySums, LinkAccount};
pub use load::{LoadReader, LoadTemplate, LoadWriter, framed_bits};
pub use loss_sequence::{LossEntry, LossSequence, PeerLossSequence};
pub use message::{LineAnswer, LineRequest, MESSAGE_KIND, read_message, write_message};
pub use open_losses::SettledFrames;
pub use outcome::LineOutcome;
pub use pacer::FramePacer;
pub use path_difference::PathDifference;
pub use pattern::Pattern;
pub use preset::{LinePreset, PresetFigure, PresetTest};
pub use preset_report::{PresetReport, documents_in};
pub use preset_state::{PresetState, SavedTest};
pub use ratio::Ratio;
pub use ratio_search::{GoalOutcome, GoalTrial, RatioSearch, SearchGoal};
pub use raw::{RawDocument, RawRow};
pub use raw_port::RawPort;
pub use receive_drops::{ReceiveDrops, VlanDrops};
pub use reflector::{LineDatagram, LineReflector, ReflectorSettings};
pub use refused_answers::RefusedAnswers;
pub use runs::LossRuns;
pub use scientific::scientific;
pub use search::{LoadSearch, LoadTrial};
pub use seconds::{LineSums, SenderTotals, SentSecond, TestedSecond, Untested};
pub use sequential::{LossCounts, MOST_BURST, RatioDecision, RatioTest};
pub use service::{ServiceLevel, ServiceRow};
pub use settings::{LineCriterion, LineSettings};
pub use simulate::{simulate, simulate_bursts, simulate_decision};
pub use state::LineState;
pub use strip::StripPart;
pub use tally::{Arrived, SecondRow, Tally, TallyTotals};
pub use verdict::words;
pub use way::FrameWay;

#[cfg(test)]
mod truth_tests;

//! Flows over one direction of a link in virtual time, packet by packet.
//!
//! A [`Simulation`] joins senders, each with a [`Control`](super::Control), to one
//! [`Link`](crate::wan::OneWayLink) that they share. Packets that may leave at the same time leave
//! as trains where the scenario allows it. Receivers acknowledge what arrives at once;
//! acknowledgements take the return delay and are never lost. A sender has data at all times, finds
//! a packet lost when three later ones have been acknowledged, and makes good what was lost with
//! packets of their own number, so that every packet on the wire is told apart. The same settings
//! and seed give the same run.

mod flow;
mod run;

pub use flow::{Point, Reduction, ReductionCause};
pub use run::{FlowScenario, Simulation};

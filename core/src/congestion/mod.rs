//! TCP's congestion controls as pure machines, from their papers and RFCs, with what theory says of
//! them.
//!
//! A [`Control`] is told what happened to a flow ([`Event`]: acknowledged, an rtt sample, a loss, a
//! timeout, an ECN mark) and says what the flow may do ([`Allowed`]: window, slow-start threshold,
//! pacing rate). Windows are counted in packets and are not whole numbers. Eight controls exist,
//! those that the papers measured and those that Linux has today:
//!
//! | name | source |
//! |---|---|
//! | `reno` | RFC 5681, RFC 6582 |
//! | `cubic` | RFC 9438 |
//! | `bic` | Xu, Harfoush, Rhee, INFOCOM 2004 |
//! | `htcp` | Leith, Shorten, PFLDnet 2004; draft-leith-tcp-htcp-06 |
//! | `highspeed` | RFC 3649 |
//! | `scalable` | Kelly, CCR 33(2), 2003 |
//! | `vegas` | Brakmo, Peterson, JSAC 13(8), 1995 |
//! | `bbr` | Cardwell et al., ACM Queue 14(5), 2016; draft-cardwell-iccrg-bbr-congestion-control-00, version 1 as in Linux |
//!
//! `held` ([`Algorithm::Held`]) is none of them: it holds a rate that was booked ([`Start::held`])
//! on a path that is reserved, and is never chosen where a path is shared.
//!
//! Any of them may resume with care where an earlier flow measured the path (RFC 9959):
//! [`Start::saved`].
//!
//! Each has two sets of constants ([`Constants`]): what its source says, and what Linux's module of
//! the same name does. [`theory`] says how long a flow needs to win back its window after one loss;
//! [`sim`] runs flows over [`wan::OneWayLink`](crate::wan::OneWayLink) in virtual time. The kernel
//! versions in the edge are held against these machines.

mod algorithm;
mod bbr;
mod bic;
mod careful_resume;
mod constants;
mod control;
mod cubic;
mod held;
pub mod highspeed;
mod htcp;
mod loss_based;
mod name;
mod reno;
mod scalable;
pub mod sim;
pub mod theory;
mod vegas;

pub use algorithm::Algorithm;
pub use constants::Constants;
pub use control::{Acked, Allowed, Control, Event, SavedPath, Start, YieldReason, Yielded};
pub use name::ControlName;

#[cfg(test)]
mod scenario;
#[cfg(test)]
mod tests;

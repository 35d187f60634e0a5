//! UDT flows over a link in virtual time, packet by packet.
//!
//! A [`UdtSimulation`] joins the two ends of each flow by two [`Link`](crate::wan::OneWayLink)s
//! that all flows share. Hosts take no time, but may be slow to wake
//! ([`UdtScenario::wakes_every`]). The same scenario and seed give the same run.

mod host;
mod run;
mod scenario;

pub use run::UdtSimulation;
pub use scenario::{UdtFlow, UdtScenario};

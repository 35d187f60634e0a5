//! Bandwidth by appointment: time-bandwidth lists, routes, the five problems of advance
//! reservation, and the book of reservations.
//!
//! The problems are those of Sahni, Rao and Ranka (2006) and Lin and Wu (2012, 2013): a fixed slot,
//! the highest rate in a slot, the first slot, all slots, and a volume by a deadline. Every refusal
//! says what stood in the way and what could be had instead.
//!
//! How it fits: [`Timeline`] is the list of one directed link, [`NetworkTimelines`] all of them
//! over a [`Topology`]; [`search`] and [`volume`] look for slots and routes in it; [`Book`] is the
//! machine of the one writer, whose [`BookRecord`]s the edge makes durable before they are applied.

mod book;
pub mod circuit;
mod monitor;
mod network;
mod policy;
mod refusal;
pub mod reports;
mod request;
mod reservation;
pub mod routes;
pub mod search;
mod steady;
mod timeline;
mod topology;
pub mod volume;
mod window;

pub use book::{Book, BookLimits, BookOrder, BookRecord, Decision, LinkClosure, ReservationChange};
pub use monitor::{
    BookingMonitor, BookingPrediction, MonitorAction, MonitorEvent, booked_volume, payload_rate,
    set_up_time,
};
pub use network::{NetworkTimelines, NetworkView};
pub use policy::{BookingPolicy, BookingRights, ProjectPolicy, ProjectUse};
pub use refusal::{Alternative, AlternativeKind, BookingRefusal, Obstacle, RefusalCause};
pub use request::{BookingProblem, BookingRequest};
pub use reservation::{EndCause, Reservation, ReservationId, ReservationState, ReservationVerb};
pub use routes::CircuitRoute;
pub use search::SitePair;
pub use steady::SteadyClock;
pub use timeline::{FreeInterval, Timeline};
pub use topology::{
    LinkId, LinkSpec, NetworkLink, SiteId, TOPOLOGIES, Topology, TopologyError, TopologySpec,
};
pub use volume::{Leg, VolumeProblem, VolumeShape};
pub use window::{TimeSet, TimeWindow};

#[cfg(test)]
mod oracle;

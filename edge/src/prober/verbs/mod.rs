//! Measuring verbs: messages between two RDMA devices, by connections and by datagrams, as perftest
//! measures them.
//!
//! [`VerbsEnd`] is one end; [`VerbsBench`] runs two of them, each a process of its own that stays
//! for all runs, gives the wire between them its delay, and makes a run of what both saw. The two
//! ends talk over a socket of their own, by which they also exchange what their queue pairs must
//! know of each other.

mod bench;
mod cross;
mod device;
mod echo;
mod end;
mod flow;
mod peer_protocol;
mod wire;

pub use bench::VerbsBench;
pub use end::VerbsEnd;

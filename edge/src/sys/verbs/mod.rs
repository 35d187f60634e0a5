//! RDMA verbs: devices, registered memory, queue pairs and their connections, through libibverbs
//! and librdmacm.
//!
//! What is safe here is made so by ownership: a [`RdmaConnection`] owns every slot that a device may still
//! touch, and gives none back before the device is done with it or the queue pairs are destroyed.

mod abi;
mod connection;
mod events;
mod exchanged;
mod library;
mod link;
mod memory;
mod own;
mod pairs;
mod pairs_abi;
mod queue;
mod station;
mod work;

pub use connection::{CmListener, Connecting, Request};
pub use events::Rejected;
pub use exchanged::LocalPort;
pub use library::device_count;
pub use link::{Completion, RdmaConnection, Shape};
pub use memory::{Access, Domain};
pub use pairs::{Plan, QpSet};
pub use station::{Address, RdmaEndpoint};
pub use work::{Done, Verb};

#[cfg(test)]
mod layout_tests;

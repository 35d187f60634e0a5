//! RDMA verbs: devices, registered memory, queue pairs and their connections, through libibverbs
//! and librdmacm.
//!
//! What is safe here is made so by ownership: a [`RdmaConnection`] owns every slot that a device
//! may still touch, and gives none back before the device is done with it or the queue pairs are
//! destroyed.

#![cfg_attr(
    not(feature = "profile"),
    allow(dead_code, reason = "measuring verbs takes more of libibverbs than channels do")
)]

mod abi;
mod connection;
mod endpoint;
mod events;
mod exchanged;
mod library;
mod link;
mod memory;
mod owned_qp;
mod qp_abi;
mod qp_set;
mod queue;
mod work;

pub(crate) use connection::{CmListener, Connecting, Request};
#[cfg(feature = "profile")]
pub(crate) use endpoint::{Address, RdmaEndpoint};
pub(crate) use events::Rejected;
pub(crate) use exchanged::LocalPort;
pub(crate) use library::device_count;
pub(crate) use link::{Completion, RdmaConnection, Shape};
pub(crate) use memory::{Access, Domain};
#[cfg(feature = "profile")]
pub(crate) use qp_set::{Plan, QpSet};
#[cfg(feature = "profile")]
pub(crate) use work::{Done, Verb};

#[cfg(test)]
mod layout_tests;

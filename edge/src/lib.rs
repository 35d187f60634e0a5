//! Farline's library: the outside world joined to the pure logic of `farline-core`.
//!
//! Unsafe code lives in `sys` alone; every other module is checked to be free of it.
#![deny(unsafe_code)]

#[cfg(test)]
extern crate self as farline;

pub mod agent;
pub mod calendar;
pub mod channels;
pub mod circuit;
pub mod client;
pub mod drivers;
pub mod host;
pub mod identity;
pub mod kernelcc;
pub mod line;
pub mod link;
mod mover;
pub mod node;
pub mod plan;
pub mod prober;
mod reexec;
pub mod run_dir;
pub mod stores;
mod sys;

pub use client::Client;
pub use farline_core as core;
pub use node::Node;

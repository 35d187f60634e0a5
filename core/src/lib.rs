//! Farline's pure logic: every decision, and no clock, socket, file, thread, process or
//! environment.
//!
//! Time and randomness are arguments. A machine has two verbs, `handle(now, input)` and `poll(now)
//! -> Output`; after each `handle` the caller polls until the machine says `Wait`. Machines move
//! descriptors, never payload.
//!
//! # Features
//!
//! All are on by default. Each is what its module says, and the library's features turn on those
//! that they need: `calendar`, `line` (with `report`), `profile` (with `experiment` and `report`),
//! `rdma`.
#![forbid(unsafe_code)]

#[cfg(feature = "calendar")]
pub mod calendar;
pub mod congestion;
pub mod copy;
#[cfg(feature = "profile")]
pub mod experiment;
pub mod filter;
pub mod gridftp;
pub mod host;
#[cfg(feature = "line")]
pub mod line;
pub mod plan;
#[cfg(feature = "profile")]
pub mod profile;
#[cfg(feature = "rdma")]
pub mod rdma;
#[cfg(feature = "report")]
pub mod report;
pub mod statistics;
pub mod transfer;
pub mod udt;
pub mod units;
pub mod wan;

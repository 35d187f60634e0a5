//! Farline's pure logic: every decision, and no clock, socket, file, thread, process or
//! environment.
//!
//! Time and randomness are arguments. A machine has two verbs, `handle(now, input)` and `poll(now)
//! -> Output`; after each `handle` the caller polls until the machine says `Wait`. Machines move
//! descriptors, never payload.
#![forbid(unsafe_code)]

pub mod calendar;
pub mod congestion;
pub mod copy;
pub mod experiment;
pub mod filter;
pub mod gridftp;
pub mod host;
pub mod line;
pub mod plan;
pub mod profile;
pub mod rdma;
pub mod report;
pub mod statistics;
pub mod transfer;
pub mod udt;
pub mod units;
pub mod wan;

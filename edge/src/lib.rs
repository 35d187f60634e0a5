//! Farline's library: the outside world joined to the pure logic of `farline-core`.
//!
//! Unsafe code lives in `sys` alone; every other module is checked to be free of it.
//!
//! # Features
//!
//! All are on by default. A build without one says so where its part is asked for
//! ([`NotBuilt`](farline_core::units::ErrorCode::NotBuilt)).
//!
//! | feature | brings |
//! |---|---|
//! | `bpf` | congestion controls that the kernel lacks; takes libelf, zlib and a C compiler |
//! | `calendar` | `booking`, `calendar`, `circuit`, `database`; takes a C compiler |
//! | `line` | `line`: tests of lines |
//! | `gsi` | `gsiftp://` and proxies of grids; takes OpenSSL |
//! | `link` | `link`: emulated links and networks |
//! | `pam` | passwords of identities by this host's PAM |
//! | `postgres` | a calendar's database in PostgreSQL |
//! | `profile` | `prober`: measurements of paths, as a client and at a node |
//! | `quic` | channels over QUIC |
//! | `rdma` | channels over RDMA; its libraries are loaded at run time |
//! | `tls` | TLS, and with it identities; SHA checksums; takes a C compiler |
#![deny(unsafe_code)]

#[cfg(test)]
extern crate self as farline;

pub mod agent;
#[cfg(feature = "calendar")]
pub mod booking;
#[cfg(feature = "calendar")]
pub mod calendar;
pub mod channels;
#[cfg(feature = "calendar")]
pub mod circuit;
pub mod client;
#[cfg(feature = "calendar")]
pub mod database;
pub mod drivers;
pub mod host;
pub mod identity;
pub mod kernelcc;
#[cfg(feature = "line")]
pub mod line;
#[cfg(feature = "link")]
pub mod link;
mod mover;
pub mod node;
pub mod plan;
#[cfg(feature = "profile")]
pub mod prober;
#[cfg(feature = "link")]
mod reexec;
pub mod run_dir;
// What a machine does not let run is said at one place, whichever test it is.
#[cfg(test)]
#[path = "../../lab/src/skip.rs"]
#[expect(unreachable_pub, reason = "the lab offers it to its tests")]
mod skip;
pub mod stores;
mod sys;

pub use client::Client;
pub use farline_core as core;
pub use node::Node;

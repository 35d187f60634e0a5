//! The calendar's service: `core::calendar`'s book behind HTTPS, with what must survive in SQL.
//!
//! How it fits: [`Service`] listens; `api` turns requests into orders and replies into JSON;
//! `writer` is the one thread that decides, makes durable and applies; `ledger` is what is kept, in
//! SQLite or PostgreSQL; `identity` says who asks; [`wire`] is what crosses; [`CalendarClient`] is
//! the other end.
//!
//! Invariants: nothing is applied, or told, before it is durable; nothing is said to who is not
//! known; TLS 1.3 or nothing.

mod client;
mod clock;
mod config;
mod identity;
mod ledger;
mod service;
mod tls;
pub mod wire;
mod writer;

pub use crate::identity::CalendarRole;
pub use client::{CalendarAddress, CalendarClient, CalendarEvents, Refused};
pub use clock::{now, time_of, timestamp};
pub use config::{CalendarConfig, CalendarConfigFile, ProjectFile, topology, topology_spec};
pub use identity::{NewToken, StoredToken};
pub use ledger::Ledger;
pub use service::{Service, make_token, open_ledger, openapi};
pub use writer::CalendarTrouble;

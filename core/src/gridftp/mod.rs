//! The GridFTP protocol: commands, replies, MODE E blocks, and the client and server sessions.
//!
//! A GridFTP session is a control channel of text lines (RFC 959, 2228, 2389, 2428, 3659, 4217;
//! GFD.20, GFD.47) and data channels of its own. This module is both ends of the control channel as
//! machines, and the header before each block on the data channels (17 bytes; 57 where blocks are
//! [`checked`]). It moves no payload and opens nothing: the edge does, when a machine asks.
//!
//! # How an edge drives a machine
//!
//! Both machines have two verbs: after each `handle(now, input)`, call `poll(now)` until it returns
//! `Wait`, and do what it says in order. `Wait(Some(at))` wants another poll at that time.
//!
//! # One store, followed through the server
//!
//! [`ServerSession`](server::ServerSession) turns lines into [`Ask`](server::Ask)s, one open at a
//! time; each is answered by its number. While one is open, further commands queue (`wants_input`
//! says when to stop reading), so a client may write a thousand STORs in one segment. ABOR alone
//! overtakes.
//!
//! | the client writes | the session puts out | the edge answers | the session puts out |
//! |---|---|---|---|
//! | (connects) | `Send(220 ...)` | | |
//! | `USER anonymous`, `PASS x` | `Send(331 ...)`, `Ask(Admit)` | `Done` | `Send(230 ...)` |
//! | `TYPE I`, `MODE E` | `Send(200 ...)`, `CloseChannels` | | |
//! | `MKD /run7` | `Ask(MakeDirectory)` | `Done` | `Send(257 "/run7" created.)` |
//! | `PASV` | `Ask(Passive)` | `Passive([127.0.0.1:5000])` | `Send(227 ...)` |
//! | `ALLO 5`, `STOR /run7/a` | `Send(200 ...)`, `Ask(Transfer)` | `Started` | `Send(150 ...)` |
//! | blocks, on data channels | | `Perf`, `Ranges` | `Send(112 ...)`, `Send(111 ...)` |
//! | `ABOR`, if it must | `Abort` | `Failed` | `Send(426 ...)`, `Send(226 ...)` |
//! | EOF and all EODs | | `Finished` | `Send(226 ...)` |
//! | `QUIT` | `Send(221 ...)`, `Close` | | |
//!
//! # The same through the client
//!
//! [`ClientSession`](client::ClientSession) takes numbered [`Request`](client::Request)s, any
//! number at once, and sends what is safe to send without waiting: one command at a time to plain
//! FTP servers, commands together to GridFTP servers, transfers too to Farline. Each request ends
//! with one `Done` or `Failed`.
//!
//! | the edge requests | the session sends | the server replies | the session says |
//! |---|---|---|---|
//! | 1 `Login` | `USER`, `PASS`, `FEAT`, `TYPE I` in turn | 331, 230, 211, 200 | 1 `Ready(features)`, 1 `Done` |
//! | 2 `Exec(MKD)` | `MKD /run7` | 257 | 2 `Done` |
//! | 3 `Passive` | `MODE E` (if not yet), `EPSV` (and `PASV` if that is not known) | 200, 229 | 3 `PassiveAt`: connect; 3 `Done` |
//! | 4 `Transfer` | `ALLO`, `REST`, `STOR` | 200, 350, 150 | 4 `Started`: send blocks |
//! | | | 111, 112, 114 | 4 `Ranges`, 4 `Perf`, 4 `Remark` |
//! | | | 226, or 451 | 4 `Done`, or 4 `Failed` with the server's words |
//!
//! ```
//! use farline_core::gridftp::client::{self, ClientConfig, ClientSession, Event, Request};
//! use farline_core::gridftp::server::{self, Answer, Ask, Logins, Rights, ServerConfig, ServerSession};
//! use farline_core::gridftp::Command;
//! use farline_core::units::Time;
//!
//! let now = Time::ZERO;
//! let config = ServerConfig { logins: Logins::Anonymous(Rights::Write), ..ServerConfig::default() };
//! let (mut server, mut client) = (ServerSession::new(config, now), ClientSession::new(ClientConfig::default(), now));
//! let login = Request::Login { user: "anonymous".into(), password: "me@".into() };
//! client.handle(now, client::Input::Request { id: 1, request: login });
//! client.handle(now, client::Input::Request { id: 2, request: Request::Exec(Command::MakeDirectory("/run7".into())) });
//!
//! let mut said = Vec::new();
//! for _ in 0..100 {
//!     match server.poll(now) {
//!         server::Output::Send(bytes) => client.handle(now, client::Input::Received(&bytes)),
//!         server::Output::Ask { id, ask: Ask::Admit | Ask::MakeDirectory { .. } } => {
//!             server.handle(now, server::Input::Answer { id, answer: Answer::Done });
//!         }
//!         _ => {}
//!     }
//!     match client.poll(now) {
//!         client::Output::Send(bytes) => server.handle(now, server::Input::Received(&bytes)),
//!         client::Output::Event { id, event } => said.push((id, event)),
//!         _ => {}
//!     }
//! }
//! assert!(matches!(said[..], [(1, Event::Ready(_)), (1, Event::Done(_)), (2, Event::Done(_))]));
//! ```
//!
//! # What every part keeps
//!
//! - No byte from the network panics or grows memory without bound: lines end at [`MAX_LINE`],
//!   replies at [`MAX_REPLY`], queues at a limit.
//! - Pathnames are bytes. One that a command line cannot carry is refused, never shortened or split
//!   in two.
//! - What GridFTP calls by three digits becomes a [`units::Error`](crate::units::Error) with a
//!   fault and the server's words, and back.
//! - Not here: GSI (AUTH GSSAPI, ENC lines), record structure, EBCDIC, compressed and block mode,
//!   and line-end conversion.

pub mod address;
mod attribute_certificate;
pub mod checked;
pub mod client;
mod command;
mod der;
mod end_of_data;
mod facts;
mod fault;
pub mod gssapi;
pub mod gssapi_replies;
mod line;
mod listing;
mod long_listing;
pub mod markers;
pub mod mode_e;
pub mod omission;
mod pathname;
mod proxy;
mod reply;
pub mod server;
#[cfg(test)]
mod tests;
mod timestamp;
mod views;

pub use address::{FIRST_DATA_PORT, Family, is_public, may_send_to};
pub use attribute_certificate::{AttributeCertificate, attribute_certificates};
pub use command::*;
pub use end_of_data::EndOfData;
pub use facts::{Fact, FactSet, ListingEntry, ListingKind};
pub use line::MAX_LINE;
pub use listing::{ListFormat, control_listing};
pub use markers::Perf;
pub use pathname::Pathname;
pub use proxy::ProxyKind;
pub use reply::{MAX_REPLY, Reply, ReplyReader};
pub use timestamp::Timestamp;

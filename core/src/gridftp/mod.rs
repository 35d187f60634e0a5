//! The GridFTP protocol: commands, replies, MODE E blocks, and the client and server sessions.

pub mod address;
mod command;
mod end_of_data;
mod facts;
mod fault;
mod line;
mod listing;
pub mod markers;
pub mod mode_e;
mod pathname;
mod reply;
mod timestamp;
mod views;

pub use address::Family;
pub use command::*;
pub use end_of_data::EndOfData;
pub use facts::{Entry, Fact, FactSet, Kind};
pub use line::MAX_LINE;
pub use listing::ListFormat;
pub use markers::Perf;
pub use pathname::Pathname;
pub use reply::{MAX_REPLY, Reply, ReplyReader};
pub use timestamp::Timestamp;

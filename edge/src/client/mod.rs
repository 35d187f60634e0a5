//! The client: copies files and trees between this host and a GridFTP node.

mod checksum;
mod control;
mod copy;
mod dial;
mod download;
mod existing;
mod fabric;
mod from_stock;
mod further;
mod greet;
mod heard;
mod local;
mod location;
mod outcome;
mod passes;
mod reach;
mod remote_partial;
mod silence;
mod ssh;
mod stream;
mod third_party;
mod to_stock;
mod upload;

pub use crate::stores::Diskless;
pub use copy::{Options, RdmaWish, Standing, Stop, Trial, Verify, copy};
pub use dial::DataPath;
pub use existing::Existing;
pub use greet::{Greeting, greet};
pub use location::{Location, Remote, Via};
pub use outcome::{Failure, Outcome, Sample};
pub use reach::Reach;
pub use remote_partial::{remove_elsewhere, stored_elsewhere};
pub use silence::DEFAULT_PATIENCE;

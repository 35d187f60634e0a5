//! The client: copies files and trees between this host and a GridFTP node.

mod control;
mod copy;
mod dial;
mod download;
mod greet;
mod local;
mod location;
mod outcome;
mod passes;
mod reach;
mod ssh;
mod third_party;
mod upload;

pub use crate::stores::Diskless;
pub use copy::{Options, Standing, Trial, Verify, copy};
pub use dial::DataPath;
pub use greet::{Greeting, greet};
pub use location::{Location, Remote, Via};
pub use outcome::{Failure, Outcome, Sample};
pub use reach::Reach;

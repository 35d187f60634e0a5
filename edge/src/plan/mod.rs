//! What is known of real paths before a copy begins: stored profiles, and the probe that makes one.
//!
//! A profile of the path to a node is stored per way ([`store`]); a copy begins as the stored one
//! found best ([`prior`]), and a plan takes its time from it. Where nothing is stored a [`probe`]
//! of twenty seconds may be made.

pub mod document;
mod environment;
pub(crate) mod paths;
mod probe;
mod stored;

pub use environment::environment;
pub use probe::{ProbeBench, ProbePath, probe};
pub use stored::{ExistingProfile, prior, store, stored};

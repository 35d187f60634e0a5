//! What is known of real paths before a copy begins: stored profiles, and the probe that makes one.
//!
//! A profile of the path to a node is stored per way (`store`); a copy begins as the stored one
//! found best ([`prior`]), and a plan takes its time from it. Where nothing is stored a `probe`
//! of twenty seconds may be made. All that is behind the feature `profile`: a build without it
//! stores no profile and knows of none.

#[cfg(any(feature = "line", feature = "profile"))]
pub mod document;
#[cfg(feature = "profile")]
mod environment;
pub(crate) mod paths;
mod prior;
#[cfg(feature = "profile")]
mod probe;
#[cfg(feature = "profile")]
mod stored;

#[cfg(feature = "profile")]
pub use environment::environment;
pub use prior::prior;
#[cfg(feature = "profile")]
pub use probe::{ProbeBench, ProbePath, probe};
#[cfg(feature = "profile")]
pub use stored::{ExistingProfile, store, stored};

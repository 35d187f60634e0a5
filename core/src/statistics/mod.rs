//! What samples say: summaries with confidence, figures of merit of the papers, fits, and tests of
//! significance.
//!
//! Samples are plain numbers in whatever unit the caller measures; each function says what it
//! expects and answers in.

mod compare;
mod merit;
mod moments;
mod series;
mod stages;
mod student;
mod summary;
mod transition;

pub use compare::{Comparison, counts, deviations, holm, permutation, welch};
pub use merit::{decrease_per_mile, jain, utilisation_concavity};
pub use moments::Moments;
pub use series::{Split, recovery, split};
pub use stages::{Pooled, error_of_mean, needed};
pub use summary::Summary;
pub use transition::{LEAST_RTTS, Sigmoid, Transition, TransitionError, TransitionRtt, transition};

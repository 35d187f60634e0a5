//! What to use on a path, how long a transfer takes, and why.
//!
//! [`PathEstimate`] begins where only the round trip is known; [`plan`] simulates candidates as
//! [`fluid`]s over one queue. [`limits`] are the ceilings. A profile's own plans are made of the
//! same [`Plan`].

mod advisor;
mod estimate;
pub mod fluid;
mod fluid_stream;
mod interval;
mod known_path;
pub mod limits;
mod model;
mod path;
mod pool;
mod reason;

#[cfg(feature = "profile")]
pub(crate) use advisor::{Fastest, Runs, TIE, finished};
pub use advisor::{PLAN_SCHEMA, Plan, PlanInput, PlanSource};
pub use estimate::{PathEstimate, for_size, most_streams};
pub use fluid::Disturbance;
pub use interval::IntervalReason;
pub use limits::ChannelLimits;
#[cfg(feature = "profile")]
pub(crate) use model::TCP_WINDOW;
pub use model::plan;
pub use path::{PathPoint, payload_rate};
#[cfg(feature = "profile")]
pub(crate) use path::{USUAL_MTU, streams_in_words};
pub use pool::{StagedSource, Stall};
pub use reason::{ControlReason, HELD_RATE_FELL, Margin, ModelReason, Reason, StreamsReason};

#[cfg(test)]
mod drawn_tests;

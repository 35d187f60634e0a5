//! Profiles: throughput over a grid of cells, what the samples say, what models predict, and what to choose.
//!
//! A [`Grid`] is axes, repetitions and a seed; [`preset`] gives the papers' experiments. A [`Profile`] is the document: the grid
//! and every repetition with its raw samples. It says what to do next and takes the results, so whatever runs them is a
//! [`Bench`]: the [`Simulator`] here, streams over a path in the edge's `prober`. A profile that was broken off goes on where it stood.
//!
//! [`statistics`] are the figures of merit, [`models`] the closed forms, [`fluid`] the streams' controls over one queue in
//! virtual time; [`published`] are the papers' numbers. [`plan`] chooses for a transfer and says how long it will take.
//!
//! RDMA by the model, and TCP beside it, are [`verbs`].

mod advisor;
mod csv;
mod diff;
mod document;
pub mod fluid;
mod grid;
mod hypothesis;
pub mod models;
mod observe;
mod page;
mod page_link;
mod page_model;
mod page_papers;
mod page_stability;
mod presets;
pub mod published;
mod scale;
mod simulate;
mod staging;
pub mod statistics;
pub mod verbs;

pub use advisor::{Known, PLAN_SCHEMA, Plan, Source, plan, plan_from};
pub use diff::{CellDifference, DIFF_SCHEMA, Difference, diff};
pub use document::{Bench, CellResult, Environment, Exactness, Goodput, Job, Kind, LimitedBy, Lost, Profile, Repetition, SCHEMA};
pub use grid::{Cell, Direction, Disturbance, Form, Grid, PathPoint, Repetitions};
pub use hypothesis::Hypothesis;
pub use observe::Observed;
pub use presets::{PRESETS, preset};
pub use simulate::{Simulator, completion, repetition};
pub use staging::{Copies, Order, Staged, Stall, Store};

//! Profiles: throughput over a grid of cells, what the samples say, what models predict, and what
//! to choose.
//!
//! A [`Grid`] is axes, repetitions and a seed; [`preset`] gives the papers' experiments. A
//! [`Profile`] is the document: the grid and every repetition with its raw samples. It says what to
//! do next and takes the results, so whatever runs them is a [`Bench`]: the [`Simulator`] here,
//! streams over a path in the edge's `prober`. A profile that was broken off goes on where it
//! stood.
//!
//! [`statistics`](crate::statistics) are the figures of merit, [`models`] the closed forms,
//! [`fluid`] the streams' controls over one queue in virtual time; [`published`] are the papers'
//! numbers. [`plan`] chooses for a transfer and says how long it will take.
//!
//! RDMA by the model, and TCP next to it, are [`verbs`].

mod axes;
mod cell;
mod diff;
mod document;
mod driver;
mod grid;
mod grid_check;
mod hypothesis;
pub mod models;
mod observe;
mod page;
mod page_axes;
mod page_cells;
mod page_channels;
mod page_link;
mod page_model;
mod page_papers;
mod page_printed;
mod page_rtt;
mod page_samples;
mod page_stability;
mod page_time;
mod planned;
mod presets;
pub mod published;
mod repetition;
mod rows;
mod scale;
mod simulate;
mod simulate_udt;
mod staging;
mod transform;
mod trial;
pub mod verbs;

pub use crate::experiment::{
    Bench, CellJob, Document, Environment, Experiment, Form, Repetitions, Resumption,
};
pub use crate::plan::{
    PLAN_SCHEMA, PathEstimate, Plan, PlanInput, PlanSource, fluid, for_size, plan,
};
pub use cell::{Cell, PathPoint, TrafficDirection};
pub use diff::{CellDifference, DIFF_SCHEMA, Difference, diff};
pub use document::{CellResult, Job, Profile, ProfileKind, SCHEMA};
pub use driver::ProfileDriver;
pub use grid::{Disturbance, Grid};
pub use hypothesis::Hypothesis;
pub use observe::Observed;
pub use planned::plan_from;
pub use presets::{preset, presets};
pub use repetition::{Exactness, Goodput, LimitedBy, Lost, Repetition};
pub use simulate::{Simulator, repetition};
pub use staging::{Copies, Order, Staged, StagingStore, Stall};

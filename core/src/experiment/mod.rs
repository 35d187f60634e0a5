//! Experiments over a grid of cells, whatever runs them: what TCP and RDMA have in common, and what
//! line tests, MPI and NFS will.
//!
//! An [`Experiment`] has [`GridAxis`]es, of which its cells, its [`Outline`] and what is refused
//! are made. A [`Schedule`] says which cell is next, and a [`Bench`] runs it. A [`Document`] holds
//! grid and cells, goes on where it stood, and is [`read`] back only whole. A [`PresetFile`] holds
//! the papers' experiments and figures as data.

mod axis;
mod bench;
mod design;
mod document;
mod environment;
mod outline;
mod page;
mod preset;
mod schedule;
mod word;

pub use axis::{ChartAxis, GridAxis};
pub use bench::{Bench, CellJob};
pub use design::{Experiment, ExperimentRun};
pub use document::{Document, read};
pub use environment::{Environment, Resumption};
pub(crate) use environment::{EnvironmentFacts, changes, facts};
pub use outline::Outline;
pub(crate) use page::{every_cell, paths_card, with_changes};
pub use preset::{Form, PresetFile};
pub(crate) use schedule::seed_of;
pub use schedule::{CellRuns, Repetitions, Schedule};
pub(crate) use word::{CellName, from_word, word};

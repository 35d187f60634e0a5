//! Experiments over a grid of cells, whatever runs them: what TCP and RDMA have in common, and what
//! line tests, MPI and NFS will.
//!
//! A [`PresetFile`] holds the papers' experiments and figures as data.

mod preset;

pub use preset::{Form, PresetFile};

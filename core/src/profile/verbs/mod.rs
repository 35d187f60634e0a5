//! RDMA over distance: what a reliable connection and datagrams carry by message size, delay, other
//! traffic and way of connecting.
//!
//! [`Messages`] is the closed form, [`simulate`] a connection packet by packet over
//! [`wan::Extender`](crate::wan::Extender). A [`Grid`] says what is varied, [`preset`] gives the
//! papers' experiments, and a [`Profile`] holds the runs, modelled and measured side by side;
//! [`published`] are the papers' numbers. [`Beside`] sets TCP beside it and says which to use when.

mod beside;
mod beside_page;
mod between;
mod document;
mod grid;
mod kinds;
mod measured;
mod measured_page;
mod model;
mod outline;
mod page;
mod page_beside;
mod page_distance;
mod presets;
pub mod published;
mod reliable;
mod rows;
mod signal;

pub use beside::{Beside, PRESET as BESIDE, Use, Verdict, grids as beside};
pub use between::{Between, Bottleneck, Device};
pub use document::{CellResult, Profile, Run, SCHEMA, modelled};
pub use grid::{Cell, Grid, Model, Setup, Transport, Way};
pub use measured::{End, Job, Measured};
pub use model::{Line, MOST_PACKETS, Messages, RELIABLE_HEADERS};
pub use presets::{PRESETS, measured, preset};
pub use reliable::{Outcome, Scenario, simulate};
pub use signal::{Adapter, Signal};

//! RDMA over distance: what a reliable connection and datagrams carry by message size, delay, other
//! traffic and way of connecting.
//!
//! [`Messages`] is the closed form, [`simulate`] a connection packet by packet over
//! [`wan::Extender`](crate::wan::Extender). A [`VerbsGrid`] says what is varied, [`preset`] gives
//! the papers' experiments, and a [`VerbsProfile`] holds the runs, modelled and measured side by
//! side; [`published`] are the papers' numbers. [`TcpRdmaComparison`] sets TCP next to it and says
//! which to use when.

mod axes;
mod between;
mod comparison;
mod comparison_page;
mod document;
mod grid;
mod kinds;
mod measured;
mod measured_page;
mod model;
mod page;
mod page_cross;
mod page_distance;
mod presets;
pub mod published;
mod reliable;
mod rows;
mod signal;

pub use between::{Bottleneck, Device, MeasurementHosts};
pub use comparison::{
    ComparisonVerdict, PRESET as COMPARISON, Recommendation, TcpRdmaComparison,
    grids as comparison_grids,
};
pub use document::{SCHEMA, VerbsCellResult, VerbsProfile, VerbsRun, modelled};
pub use grid::{Measured, Model, QpService, Setup, VerbsCell, VerbsGrid, VerbsMetric};
pub use measured::{End, VerbsJob};
pub use model::{MOST_PACKETS, Messages, RELIABLE_HEADERS, VerbsPath};
pub use presets::{measured, preset, presets};
pub use reliable::{VerbsOutcome, VerbsScenario, simulate};
pub use signal::{Adapter, Signal};

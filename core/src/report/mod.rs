//! Results as one self-contained HTML page: no network, no server, legible printed, on a phone, and
//! by day or night.
//!
//! A [`Page`] holds [`Section`]s, a section holds notes, cards, tables and charts. Charts are
//! static SVG, drawn once for a desk and once for a phone (text that shrinks with its picture
//! cannot be read); style sheets choose which is seen. Without JavaScript everything is there; with
//! it, a pointer over a line chart reads the values out, and surfaces can be turned. The data that
//! a page was made from travels inside it as JSON.
//!
//! What a document shows is a [`PageSpec`] and [`Columns`], which a [`ReportDocument`] supplies.
//!
//! Not here: measuring, and deciding what a figure means. `demo` turns the demo's results into
//! their page.

mod axis;
mod bars;
mod columns;
pub mod demo;
mod document;
mod heat;
mod histogram;
mod line;
mod markup;
mod page;
mod plain;
mod spec;
mod surface;

pub use axis::Axis;
pub use bars::{Bar, BarChart};
pub use columns::{ColumnSource, ColumnValues, Columns};
pub use document::{PageSpec, ReportDocument};
pub use heat::HeatMap;
pub use histogram::Histogram;
pub use line::{LineChart, Mark, Series};
pub use page::{Card, Chart, Page, Section, Table};
pub use plain::{broken, wrapped};
pub use spec::{TableSpec, off_by};
pub use surface::Surface;

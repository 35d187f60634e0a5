//! Documents: what an experiment asked for and what was found, read back only whole.

use super::design::Experiment;
use crate::units::{Error, ErrorCode, Fault};
use serde::de::DeserializeOwned;

/// A grid with its cells and what was found in them.
pub trait Document: DeserializeOwned {
    /// What was asked for.
    type Grid: Experiment;
    /// The name and version of the document.
    const SCHEMA: &'static str;
    /// What it is, such as `profile of RDMA`.
    const WHAT: &'static str;

    /// The schema that it says.
    fn schema(&self) -> &str;

    /// What was asked for.
    fn grid(&self) -> &Self::Grid;

    /// Its cells, in their order.
    fn cells(&self) -> impl Iterator<Item = &<Self::Grid as Experiment>::Cell>;

    /// What is wrong with it.
    fn wrong(message: String) -> Error {
        let (what, schema) = (Self::WHAT, Self::SCHEMA);
        Error::new(Fault::You, ErrorCode::ProfileDocument, message)
            .hint(format!("a {what} is a document of schema {schema}"))
    }

    /// That its cells are not those of its grid.
    fn changed() -> Error {
        Self::wrong("its cells are not those of its grid".to_owned())
    }
}

/// Reads a document.
///
/// # Errors
/// [`Fault::You`] when `json` is not one of this version, or was changed by hand: its grid cannot
/// be, or its cells are not its grid's.
pub fn read<D: Document>(json: &str) -> Result<D, Error> {
    let document: D = serde_json::from_str(json)
        .map_err(|error| D::wrong(format!("not a {}: {error}", D::WHAT)))?;
    if document.schema() != D::SCHEMA {
        return Err(D::wrong(format!("its schema is {}", document.schema())));
    }
    document.grid().check()?;
    if document.cells().eq(&document.grid().cells()) { Ok(document) } else { Err(D::changed()) }
}

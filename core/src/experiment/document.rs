//! Documents: what an experiment asked for and what was found, read back only whole.

use super::bench::{Bench, CellJob};
use super::design::Experiment;
use super::schedule::{CellRuns, Schedule};
use crate::units::{Error, ErrorCode, Fault};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A point of the grid of the document `D`.
type CellOf<D> = <<D as Document>::Grid as Experiment>::Cell;
/// What a repetition of it gives.
type RunOf<D> = <<D as Document>::Grid as Experiment>::Run;

/// A grid with its cells and what was found in them. It says what to do next and takes the results,
/// so that one that was broken off and read again goes on where it stood.
pub trait Document: Serialize + DeserializeOwned {
    /// What was asked for.
    type Grid: Experiment;
    /// The name and version of the document.
    const SCHEMA: &'static str;
    /// Whether its JSON is indented.
    const IS_INDENTED: bool = false;
    /// What it is, such as `profile of RDMA`.
    const WHAT: &'static str;

    /// The schema that it says.
    fn schema(&self) -> &str;

    /// What was asked for.
    fn grid(&self) -> &Self::Grid;

    /// Its cells, in their order.
    fn cells(&self) -> impl Iterator<Item = &CellOf<Self>>;

    /// How cells are run.
    fn schedule(&self) -> Schedule;

    /// The places of the cells that are run, and what ran of each.
    fn runs(&self) -> Vec<(usize, CellRuns)>;

    /// Puts in what `job` gave.
    fn record(&mut self, job: &CellJob<CellOf<Self>>, run: RunOf<Self>);

    /// What to do next, at most `count` jobs of different cells, which may run side by side; none
    /// when all is done.
    fn next(&self, count: usize) -> Vec<CellJob<CellOf<Self>>> {
        let (places, runs): (Vec<usize>, Vec<CellRuns>) = self.runs().into_iter().unzip();
        let cells: Vec<&CellOf<Self>> = self.cells().collect();
        let job = |at: usize| {
            let (place, CellRuns { valid, tried, earlier }) = (places[at], &runs[at]);
            let (cell, attempt) = (cells[place], tried + earlier);
            CellJob {
                place,
                cell: cell.clone(),
                index: valid.len() as u32,
                attempt: attempt as u32,
                seed: self.grid().seed_of(cell, attempt),
            }
        };
        self.schedule().next(&runs).into_iter().take(count).map(job).collect()
    }

    /// Cells that are finished, and cells in all that are run.
    fn progress(&self) -> (usize, usize) {
        self.schedule().progress(&only_runs(self))
    }

    /// How many repetitions may still come, at most, if all of them are valid.
    fn most_left(&self) -> u32 {
        self.schedule().most_left(&only_runs(self))
    }

    /// Runs what is missing on `bench`; `watch` sees the document after each repetition and returns
    /// whether to go on.
    ///
    /// # Errors
    /// The bench's; what ran before stays in the document.
    fn run(
        &mut self,
        bench: &mut dyn Bench<Self::Grid>,
        mut watch: impl FnMut(&Self) -> bool,
    ) -> Result<(), Error> {
        while let Some(job) = self.next(1).pop() {
            let run = bench.run(&self.grid().under(&job.cell), &job)?;
            self.record(&job, run);
            if !watch(self) {
                break;
            }
        }
        Ok(())
    }

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

fn only_runs<D: Document>(document: &D) -> Vec<CellRuns> {
    document.runs().into_iter().map(|(_, runs)| runs).collect()
}

/// Reads a document.
///
/// # Errors
/// [`Fault::You`] when `json` is not one of this version, or was changed by hand: its grid cannot
/// be, or its cells are not its grid's.
pub fn read<D: Document>(json: &str) -> Result<D, Error> {
    #[derive(serde::Deserialize)]
    struct Named {
        schema: String,
    }
    // What it calls itself says more than the first field that another kind lacks.
    if let Ok(Named { schema }) = serde_json::from_str(json)
        && schema != D::SCHEMA
    {
        return Err(D::wrong(format!("this is a {schema}, not a {}", D::WHAT)));
    }
    let document: D = serde_json::from_str(json)
        .map_err(|error| D::wrong(format!("not a {}: {error}", D::WHAT)))?;
    document.grid().check()?;
    if document.cells().eq(&document.grid().cells()) { Ok(document) } else { Err(D::changed()) }
}

//! The document of a profile: the grid, where it ran, and every repetition with its raw samples.

use super::cell::Cell;
use super::grid::Grid;
use super::repetition::Repetition;
use super::staging::StagingStore;
use crate::experiment::{
    CellJob, CellRuns, Document, Environment, Experiment, Resumption, Schedule, changes, read,
};
use crate::statistics::{Pooled, Summary, error_of_mean};
use crate::units::{Error, ErrorCode, Fault, Setting, Span};
use serde::{Deserialize, Serialize};

/// The name and version of the document.
pub const SCHEMA: &str = "farline/profile/1";

/// Where the figures come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProfileKind {
    /// Streams of this machine over an emulated or a real path.
    Measured,
    /// Farline's models, in virtual time.
    Modelled,
}

/// A cell with what was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellResult {
    /// Where it stands in the grid.
    pub cell: Cell,
    /// In the order in which they ran, invalid ones among them.
    pub repetitions: Vec<Repetition>,
    /// How many of them ran before the profile [went on](Profile::goes_on).
    #[serde(skip)]
    earlier: usize,
    /// How many valid ones decide how many there are:
    /// [`Repetitions::first_stage`](crate::experiment::Repetitions::first_stage).
    #[serde(skip)]
    first: Option<usize>,
}

impl CellResult {
    /// Repetitions that count.
    pub fn valid(&self) -> impl Iterator<Item = &Repetition> {
        self.repetitions.iter().filter(|repetition| repetition.is_valid())
    }

    /// The receiver's goodput in bit/s over the whole time, a number for each valid repetition.
    pub fn goodput_bps(&self) -> Vec<f64> {
        self.valid().map(|repetition| repetition.whole.receiver_bps.as_bps() as f64).collect()
    }

    /// Their summary in bit/s; `None` while there is no valid repetition.
    pub fn summary(&self) -> Option<Summary> {
        Summary::in_stages(&self.goodput_bps(), self.first)
    }

    /// The mean in bit/s of several cells together, each as heavy as the others.
    pub fn pooled<'a>(cells: impl Iterator<Item = &'a CellResult>) -> Option<Pooled> {
        let of = |one: &CellResult| {
            one.summary()
                .map(|summary| (summary.mean, error_of_mean(&one.goodput_bps(), one.first)))
        };
        Pooled::of(&cells.filter_map(of).collect::<Vec<_>>())
    }

    /// What ran of it, as its schedule sees it.
    fn runs(&self) -> CellRuns {
        let (tried, earlier) = (self.repetitions.len() - self.earlier, self.earlier);
        CellRuns { valid: self.goodput_bps(), tried, earlier }
    }
}

/// The next repetition to run.
pub type Job = CellJob<Cell>;

/// A profile: the document itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// [`SCHEMA`].
    pub schema: String,
    /// Measured or modelled.
    pub kind: ProfileKind,
    /// Farline's version.
    pub farline: String,
    /// When it began, as text: the core has no clock.
    pub date: String,
    /// What ran it.
    pub environment: Environment,
    /// When and where it went on, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resumptions: Vec<Resumption<Environment>>,
    /// What was asked for.
    pub grid: Grid,
    /// [`Grid::hash`] of it.
    pub grid_hash: String,
    /// Every cell, in the order of the grid's axes.
    pub cells: Vec<CellResult>,
}

impl Document for Profile {
    type Grid = Grid;
    const SCHEMA: &'static str = SCHEMA;
    const WHAT: &'static str = "profile";

    fn schema(&self) -> &str {
        &self.schema
    }

    fn grid(&self) -> &Grid {
        &self.grid
    }

    fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.cells.iter().map(|result| &result.cell)
    }

    /// Rounds come one after the other, each in its own random order. Cells whose interval is
    /// narrow are left out.
    fn schedule(&self) -> Schedule {
        Schedule { repetitions: self.grid.repetitions, rounds: Some(self.grid.seed) }
    }

    fn runs(&self) -> Vec<(usize, CellRuns)> {
        self.cells.iter().map(CellResult::runs).enumerate().collect()
    }

    fn record(&mut self, job: &Job, repetition: Repetition) {
        if let Some(result) = self.cells.get_mut(job.place) {
            result.repetitions.push(repetition);
        }
    }
}

impl Profile {
    /// The profile of `grid` before its first repetition.
    ///
    /// # Errors
    /// As [`Grid::check`]; and where the model would have to know what encrypting costs a
    /// processor, or how UDT waits for a store.
    pub fn new(
        grid: Grid,
        kind: ProfileKind,
        environment: Environment,
        date: impl Into<String>,
    ) -> Result<Profile, Error> {
        grid.check()?;
        if let (ProfileKind::Modelled, Some(copies)) = (kind, &grid.copies) {
            let wrong = |message: String| Error::new(Fault::You, ErrorCode::ProfileGrid, message);
            if let Some(driver) = copies.drivers.iter().find(|driver| driver.is_encrypted()) {
                let message =
                    format!("the model has no processor: {} would be TCP in it", driver.title());
                return Err(wrong(message).hint(format!(
                    "measure it over a link, or model TCP with {}, the most that the \
                    host encrypts",
                    Setting::HostRate
                )));
            }
            let has_own = copies.drivers.iter().any(|driver| driver.channel().is_some());
            if has_own && copies.stores != [StagingStore::Memory] {
                let message = "the model of UDT has no store: its bytes are in memory".to_owned();
                return Err(wrong(message)
                    .hint(format!("measure it over a link, or {} memory", Setting::Store)));
            }
        }
        let first = grid.repetitions.first_stage();
        let result = |cell| CellResult { cell, repetitions: Vec::new(), earlier: 0, first };
        let cells = grid.cells().into_iter().map(result).collect();
        Ok(Profile {
            schema: SCHEMA.to_owned(),
            kind,
            farline: env!("CARGO_PKG_VERSION").to_owned(),
            date: date.into(),
            environment,
            resumptions: Vec::new(),
            grid_hash: grid.hash(),
            grid,
            cells,
        })
    }

    /// Reads a profile.
    ///
    /// # Errors
    /// [`Fault::You`] when `json` is not one of this version, or was changed by hand: its cells or
    /// its hash are not its grid's.
    pub fn read(json: &str) -> Result<Profile, Error> {
        let mut profile: Profile = read(json)?;
        if profile.grid_hash != profile.grid.hash() {
            return Err(Profile::changed());
        }
        let first = profile.grid.repetitions.first_stage();
        profile.cells.iter_mut().for_each(|result| result.first = first);
        Ok(profile)
    }

    /// The same profile after a break: what was given up is tried again, as often as at first.
    #[must_use]
    pub fn goes_on(mut self) -> Profile {
        self.cells.iter_mut().for_each(|result| result.earlier = result.repetitions.len());
        self
    }

    /// [Goes on](Profile::goes_on) on `date` in `environment`, which the document keeps.
    #[must_use]
    pub fn goes_on_in(self, environment: Environment, date: impl Into<String>) -> Profile {
        let mut profile = self.goes_on();
        let repetitions = profile.cells.iter().map(|result| result.repetitions.len()).sum();
        profile.resumptions.push(Resumption::new(date.into(), environment, repetitions));
        profile
    }

    /// What was not the same all the time, a sentence for each resumption in which something
    /// changed.
    pub fn changes(&self) -> Vec<String> {
        changes(&self.farline, &self.environment, &self.resumptions, Environment::facts)
    }

    /// The cells of the axes, without those that test a hypothesis.
    pub fn plain(&self) -> impl Iterator<Item = &CellResult> {
        self.cells.iter().filter(|result| result.cell.hypothesis.is_none())
    }

    /// Those whose data goes the grid's first way: next to them, both ways at once are another
    /// quantity.
    pub(super) fn one_way(&self) -> impl Iterator<Item = &CellResult> {
        let first = self.grid.directions.first().copied().unwrap_or_default();
        self.plain().filter(move |result| result.cell.direction == first)
    }

    /// Those at the first value of each axis but path, control and streams: a mean over several
    /// would be of nothing in particular.
    pub(super) fn basic(&self) -> impl Iterator<Item = &CellResult> + Clone {
        fn rest(cell: &Cell) -> impl PartialEq + Clone + use<> {
            let sizes = (cell.window_bytes, cell.buffer_bytes, cell.message_bytes, cell.mtu);
            (sizes, cell.cross_bps, cell.loss, cell.direction, cell.staged)
        }
        let first = self.cells.first().map(|result| rest(&result.cell));
        self.cells.iter().filter(move |result| {
            result.cell.hypothesis.is_none() && first.as_ref() == Some(&rest(&result.cell))
        })
    }

    /// How long all repetitions of the grid take at most, when they really run.
    pub fn longest(&self) -> Span {
        self.grid.longest()
    }
}

#[cfg(test)]
#[path = "document_tests.rs"]
mod tests;

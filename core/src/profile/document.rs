//! The document of a profile: the grid, where it ran, and every repetition with its raw samples.

use super::cell::Cell;
use super::driver::Driver;
use super::grid::Grid;
use super::repetition::Repetition;
use super::resumption::Resumption;
use crate::experiment::{CellRuns, Document, Experiment, Schedule, read};
use crate::statistics::{Pooled, Summary, error_of_mean};
use crate::units::{Error, ErrorCode, Fault, Rate, Span};
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

/// What ran the repetitions; fields that a model does not have are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The machine's name.
    pub host: Option<String>,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// Processors.
    pub cpus: Option<u32>,
    /// The node at the other end of a real path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Settings that matter, such as `net.ipv4.tcp_rmem`, as the system prints them.
    pub settings: Vec<(String, String)>,
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
        CellRuns { valid: self.goodput_bps(), tried: self.repetitions.len() - self.earlier }
    }
}

/// The next thing to measure.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// The cell's place in the grid.
    pub place: usize,
    /// The cell.
    pub cell: Cell,
    /// Which repetition of it.
    pub index: u32,
    /// Of its random choices.
    pub seed: u64,
}

/// Whatever runs repetitions: a model, or streams over a path.
pub trait Bench {
    /// Runs one repetition of `grid`.
    ///
    /// # Errors
    /// When the path or the machine fails; a repetition that ran but must not be believed is not an
    /// error but [`Repetition::invalid`].
    fn run(&mut self, grid: &Grid, job: &Job) -> Result<Repetition, Error>;
}

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
    pub resumptions: Vec<Resumption>,
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
}

impl Profile {
    /// The profile of `grid` before its first repetition.
    ///
    /// # Errors
    /// As [`Grid::check`]; and where the model would have to know what TLS costs a processor.
    pub fn new(
        grid: Grid,
        kind: ProfileKind,
        environment: Environment,
        date: impl Into<String>,
    ) -> Result<Profile, Error> {
        grid.check()?;
        if kind == ProfileKind::Modelled
            && grid.copies.as_ref().is_some_and(|copies| copies.drivers.contains(&Driver::Tls))
        {
            return Err(Error::new(
                Fault::You,
                ErrorCode::ProfileGrid,
                "the model has no processor: TLS \
                would be TCP in it",
            )
            .hint(
                "measure it over a link, or model TCP with --host-rate, the most that the \
                    host encrypts",
            ));
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

    /// What to do next, at most `count` jobs of different cells, which may run side by side; none
    /// when all is done.
    ///
    /// Rounds come one after the other, each in its own random order, so a profile that was broken
    /// off and read again goes on where it stood. Cells whose interval is narrow are left out.
    pub fn next(&self, count: usize) -> Vec<Job> {
        let job = |place: usize| {
            let result = &self.cells[place];
            Job {
                place,
                cell: result.cell.clone(),
                index: result.valid().count() as u32,
                seed: self.grid.seed_of(&result.cell, result.repetitions.len()),
            }
        };
        self.schedule().next(&self.runs()).into_iter().take(count).map(job).collect()
    }

    fn schedule(&self) -> Schedule {
        Schedule { repetitions: self.grid.repetitions, rounds: Some(self.grid.seed) }
    }

    fn runs(&self) -> Vec<CellRuns> {
        self.cells.iter().map(CellResult::runs).collect()
    }

    /// Puts in what `job` gave.
    pub fn record(&mut self, job: &Job, repetition: Repetition) {
        if let Some(result) = self.cells.get_mut(job.place) {
            result.repetitions.push(repetition);
        }
    }

    /// Runs what is missing on `bench`; `watch` sees the profile after each repetition and answers
    /// whether to go on.
    ///
    /// # Errors
    /// The bench's; what ran before stays in the profile.
    pub fn run(
        &mut self,
        bench: &mut dyn Bench,
        mut watch: impl FnMut(&Profile) -> bool,
    ) -> Result<(), Error> {
        while let Some(job) = self.next(1).pop() {
            let repetition = bench.run(&self.grid.under(&job.cell), &job)?;
            self.record(&job, repetition);
            if !watch(self) {
                break;
            }
        }
        Ok(())
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

    /// Cells that are finished, and cells in all.
    pub fn progress(&self) -> (usize, usize) {
        self.schedule().progress(&self.runs())
    }

    /// How many repetitions may still come, at most, if all of them are valid.
    pub fn most_left(&self) -> u32 {
        self.schedule().most_left(&self.runs())
    }

    /// The largest goodput that a frame of `mtu` allows on `rate`: payload of TCP with timestamps
    /// over wire bytes.
    pub fn payload_rate(rate: Rate, mtu: u32) -> Rate {
        let mtu = u64::from(mtu);
        let share = mtu.saturating_sub(crate::plan::TCP_HEADERS) as f64
            / crate::wan::frames::wire_bytes(mtu) as f64;
        Rate::from_bps((rate.as_bps() as f64 * share) as u64)
    }

    /// How long all repetitions of the grid take at most, when they really run.
    pub fn longest(&self) -> Span {
        self.grid.longest()
    }
}

#[cfg(test)]
#[path = "document_tests.rs"]
mod tests;

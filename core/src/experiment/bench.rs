//! What runs an experiment's repetitions, and what it is told of each.

use super::design::Experiment;
use crate::units::Error;

/// The next repetition to run, of a cell of type `C`.
#[derive(Clone, Debug, PartialEq)]
pub struct CellJob<C> {
    /// The cell's place in the grid.
    pub place: usize,
    /// The cell.
    pub cell: C,
    /// Which valid repetition of it.
    pub index: u32,
    /// Which in all, invalid ones among them.
    pub attempt: u32,
    /// Of its random choices.
    pub seed: u64,
}

/// Whatever runs repetitions: a model, streams over a path, messages between two devices.
pub trait Bench<E: Experiment> {
    /// Runs one repetition of `grid`.
    ///
    /// # Errors
    /// When the path or the machine fails; a repetition that ran but must not be believed is not an
    /// error but an [invalid](super::ExperimentRun::invalid) one.
    fn run(&mut self, grid: &E, job: &CellJob<E::Cell>) -> Result<E::Run, Error>;
}

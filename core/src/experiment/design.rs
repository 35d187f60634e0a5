//! What an experiment supplies: its axes and cells, with their names and seeds.

use super::axis::{GridAxis, check, expand};
use super::schedule::seed_of;
use crate::units::Error;
use std::borrow::Cow;

/// More cells than this are refused: at ten seconds each they would take longer than a month.
const MOST_CELLS: usize = 100_000;

/// What one repetition gave.
pub trait ExperimentRun {
    /// Why it does not count; `None` where it does.
    fn invalid(&self) -> Option<&str>;

    /// Notes when it began, as text, where its document says that.
    fn began_at(&mut self, _moment: &str) {}
}

/// A grid of something that is measured or modelled.
pub trait Experiment: Clone {
    /// One point of the grid.
    type Cell: Clone + PartialEq;
    /// What one repetition of a cell gives.
    type Run: ExperimentRun;

    /// The cell in which each axis has its first value; `None` where there is none.
    fn first(&self) -> Option<Self::Cell>;

    /// The axes, the outer ones first.
    fn axes(&self) -> Vec<GridAxis<Self::Cell>>;

    /// The cell in one line, the same in every document.
    fn cell_name(cell: &Self::Cell) -> String;

    /// Of every random choice.
    fn seed(&self) -> u64;

    /// Every combination of the axes' values.
    fn combinations(&self) -> Vec<Self::Cell> {
        self.first().map_or_else(Vec::new, |first| expand(first, &self.axes()))
    }

    /// Every cell, in the order of the axes.
    fn cells(&self) -> Vec<Self::Cell> {
        self.combinations()
    }

    /// Refuses axes of which no cells can be made.
    ///
    /// # Errors
    /// [`Fault::You`](crate::units::Fault::You) with the axis: it is empty, has a value twice, or
    /// there are more than 100 000 cells.
    fn check_axes(&self) -> Result<(), Error> {
        check(&self.axes(), MOST_CELLS)
    }

    /// Refuses what cannot be measured.
    ///
    /// # Errors
    /// [`Fault::You`](crate::units::Fault::You) with what it is; those of
    /// [`check_axes`](Experiment::check_axes) among them.
    fn check(&self) -> Result<(), Error> {
        self.check_axes()
    }

    /// The grid as it is for `cell`.
    fn under(&self, _cell: &Self::Cell) -> Cow<'_, Self> {
        Cow::Borrowed(self)
    }

    /// How long a repetition measures at most, in seconds.
    fn longest_run_s(&self) -> f64;

    /// What `run` found, in a few words.
    fn found(&self, run: &Self::Run) -> String;

    /// The seed of one repetition of `cell`: another order or another grid does not change it.
    fn seed_of(&self, cell: &Self::Cell, repetition: usize) -> u64 {
        seed_of(self.seed(), &Self::cell_name(cell), repetition)
    }
}

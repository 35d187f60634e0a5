//! Which cell is next: in what order cells run, how often each, and when one is given up.

use crate::statistics::needed;
use crate::units::Rng;
use serde::{Deserialize, Serialize};

/// A repetition that is invalid is done again, but a cell that fails more often than this times its
/// repetitions is given up.
const ATTEMPTS: usize = 2;

/// How often a cell is measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Repetitions {
    /// At least.
    pub least: u32,
    /// At most.
    pub most: u32,
    /// As many more as it takes, by what the least number of them says, until half of the 95 %
    /// confidence interval is at most this share of the mean.
    pub half_width: f64,
}

impl Default for Repetitions {
    /// Five to ten, until the interval is within 3 %.
    fn default() -> Repetitions {
        Repetitions::up_to(10)
    }
}

impl Repetitions {
    /// The usual ones, at most `most`: five decide how many there are. Of three the deviation is
    /// hardly known, and ten would be too few for almost every cell.
    pub fn up_to(most: u32) -> Repetitions {
        Repetitions { least: most.min(5), most, half_width: 0.03 }
    }

    /// So many, whatever they say.
    pub fn exactly(count: u32) -> Repetitions {
        Repetitions { least: count, most: count, half_width: 0.0 }
    }

    /// How many of a cell decide how many it has; `None` where nothing is decided.
    pub fn first_stage(&self) -> Option<usize> {
        let Repetitions { least, most, half_width } = *self;
        (least < most && half_width > 0.0).then_some(least as usize)
    }
}

/// What ran of a cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CellRuns {
    /// What its valid repetitions gave, in their order.
    pub valid: Vec<f64>,
    /// Repetitions in all since the experiment last went on: what was given up before a break is
    /// tried again, as often as at first.
    pub tried: usize,
    /// Repetitions before that.
    pub earlier: usize,
}

/// How cells are run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    /// How often each.
    pub repetitions: Repetitions,
    /// The seed of the rounds' order: a round holds each cell once, so that a slow drift of the
    /// machine falls on all cells alike. Without it one cell is finished after the other.
    pub rounds: Option<u64>,
}

impl Schedule {
    /// Whether nothing is left to do: enough repetitions, a narrow interval, or given up.
    pub fn is_done(&self, cell: &CellRuns) -> bool {
        let Repetitions { least, most, half_width } = self.repetitions;
        let (count, least) = (cell.valid.len(), least as usize);
        // The first stage alone decides: who looks again and again stops where chance made the
        // interval narrow.
        let enough = || count as f64 >= needed(&cell.valid[..least], half_width);
        count >= most as usize
            || (count >= least && enough())
            || cell.tried >= ATTEMPTS * most as usize
    }

    /// The places of cells to run next, which may run side by side, in their order: what is left of
    /// the round, each round in a random order of its own, or of all cells. None when all is done.
    pub fn next(&self, cells: &[CellRuns]) -> Vec<usize> {
        // The round of each cell that is not done.
        let round_of = |cell: &CellRuns| (!self.is_done(cell)).then_some(cell.valid.len());
        let rounds: Vec<Option<usize>> = cells.iter().map(round_of).collect();
        let Some(round) = rounds.iter().flatten().min().copied() else { return Vec::new() };
        match self.rounds {
            None => (0..cells.len()).filter(|place| rounds[*place].is_some()).collect(),
            Some(seed) => {
                let order = shuffled(seed, cells.len(), round as u64).into_iter();
                order.filter(|place| rounds[*place] == Some(round)).collect()
            }
        }
    }

    /// Cells that are done, and cells in all.
    pub fn progress(&self, cells: &[CellRuns]) -> (usize, usize) {
        (cells.iter().filter(|cell| self.is_done(cell)).count(), cells.len())
    }

    /// How many repetitions may still come, at most, if all of them are valid.
    pub fn most_left(&self, cells: &[CellRuns]) -> u32 {
        let open = cells.iter().filter(|cell| !self.is_done(cell));
        open.map(|cell| self.repetitions.most.saturating_sub(cell.valid.len() as u32)).sum()
    }
}

/// The order in which round `round` visits `cells` cells: each once.
fn shuffled(seed: u64, cells: usize, round: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..cells).collect();
    let mut rng = Rng::new(seed).fork(0x0d0e + round);
    for i in (1..cells).rev() {
        order.swap(i, rng.below(i as u64 + 1) as usize);
    }
    order
}

/// A seed of its own for each repetition of the cell called `name`.
pub(crate) fn seed_of(seed: u64, name: &str, repetition: usize) -> u64 {
    let hash = blake3::hash(format!("{seed} {repetition} {name}").as_bytes());
    hash.as_bytes()[..8].iter().fold(0, |seed, byte| seed << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn runs(valid: usize, tried: usize) -> CellRuns {
        CellRuns { valid: vec![1.0; valid], tried, earlier: 0 }
    }

    #[test]
    fn cells_without_rounds_are_finished_one_after_the_other() {
        let schedule = Schedule { repetitions: Repetitions::exactly(2), rounds: None };
        // Done, given up, half done, not begun.
        let cells = [runs(2, 2), runs(1, 4), runs(1, 1), runs(0, 0)];
        assert_eq!(schedule.next(&cells), [2, 3]);
        assert_eq!((schedule.progress(&cells), schedule.most_left(&cells)), ((2, 4), 3));
    }

    #[test]
    fn a_round_holds_the_cells_that_are_behind() {
        let schedule = Schedule { repetitions: Repetitions::exactly(3), rounds: Some(1) };
        let mut behind = schedule.next(&[runs(1, 1), runs(2, 2), runs(1, 3), runs(3, 3)]);
        behind.sort_unstable();
        assert_eq!(behind, [0, 2]);
        assert!(schedule.next(&[runs(3, 3)]).is_empty());
    }

    proptest! {
        #[test]
        fn every_round_visits_every_cell_once_in_another_order(seed: u64, cells in 1usize..200) {
            let order = shuffled(seed, cells, 0);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            prop_assert_eq!(&sorted, &(0..cells).collect::<Vec<_>>());
            prop_assert_eq!(&order, &shuffled(seed, cells, 0));
            if cells > 20 {
                prop_assert_ne!(&order, &shuffled(seed, cells, 1));
            }
        }
    }
}

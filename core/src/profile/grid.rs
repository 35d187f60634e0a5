//! What is measured: a grid of cells over axes, with its repetitions, its order and its limits.

use super::cell::{Cell, PathPoint, TrafficDirection};
use super::hypothesis::Hypothesis;
use super::staging::Copies;
use crate::congestion::{Algorithm, Constants};
pub use crate::experiment::Form;
pub use crate::plan::Disturbance;
use crate::units::{Bytes, Rate, Rng, Span};
use serde::{Deserialize, Serialize};

/// What a repetition takes beside its own time, in seconds: a link up and down, two ends,
/// connecting. A second and a quarter here.
const SET_UP_S: f64 = 1.5;
/// What it waits before its streams begin, where something is scripted.
const LEAD_S: f64 = 3.0;

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_one(scale: &u32) -> bool {
    *scale == 1
}

pub(super) fn is_out_alone(directions: &[TrafficDirection]) -> bool {
    directions == [TrafficDirection::Out]
}

fn out_alone() -> Vec<TrafficDirection> {
    vec![TrafficDirection::Out]
}

fn none_alone() -> Vec<Option<Bytes>> {
    vec![None]
}

fn is_none_alone(sizes: &[Option<Bytes>]) -> bool {
    sizes == [None]
}

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
}

/// The axes of a profile, and how it is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Grid {
    /// The preset's name, or `custom`.
    pub name: String,
    /// Which form of it.
    pub form: Form,
    /// Paths.
    pub paths: Vec<PathPoint>,
    /// Congestion controls.
    pub congestion: Vec<Algorithm>,
    /// Their constants; see [`Grid::set_of`].
    pub set: Constants,
    /// Numbers of streams.
    pub streams: Vec<u32>,
    /// Largest windows; `None` for none.
    pub windows_bytes: Vec<Option<Bytes>>,
    /// Send buffers; `None` for the kernel's own sizing.
    #[serde(default = "none_alone", skip_serializing_if = "is_none_alone")]
    pub buffers_bytes: Vec<Option<Bytes>>,
    /// Sizes of what the sender hands to the kernel at once; `None` for [`Grid::USUAL_MESSAGE`].
    #[serde(default = "none_alone", skip_serializing_if = "is_none_alone")]
    pub messages_bytes: Vec<Option<Bytes>>,
    /// MTUs.
    pub mtus: Vec<u32>,
    /// Rates of cross-traffic.
    pub cross_bps: Vec<Rate>,
    /// Loss probabilities.
    pub losses: Vec<f64>,
    /// Directions.
    #[serde(default = "out_alone", skip_serializing_if = "is_out_alone")]
    pub directions: Vec<TrafficDirection>,
    /// The most that the sending host can do, all streams together; without it the path decides.
    pub host_bps: Option<Rate>,
    /// How often each cell is measured.
    pub repetitions: Repetitions,
    /// How long one repetition runs, its ramp included.
    pub seconds: f64,
    /// What of it is left out at the beginning, at least.
    pub warm_up_s: f64,
    /// How far apart the samples of a repetition are.
    pub sample_s: f64,
    /// By what rates, MTUs, windows and queues were divided so that a machine can carry them
    /// exactly: see [`Grid::scaled`]; 1 for an experiment at its full rate.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub scale: u32,
    /// Whether packets could not be divided, so that time was multiplied: round trips, and what
    /// happens in the middle.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stretched: bool,
    /// What happens in the middle.
    pub disturbance: Option<Disturbance>,
    /// Staging and stores, where the mover is measured and not the path alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<Copies>,
    /// What might explain where the results differ from a paper's, each with cells of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hypotheses: Vec<Hypothesis>,
    /// Of the order and of every random choice.
    pub seed: u64,
}

impl Grid {
    /// Ethernet's MTU, which a cell's name leaves out.
    pub const USUAL_MTU: u32 = crate::plan::USUAL_MTU;
    /// What a sender writes at once unless a cell says otherwise: as a mover's blocks are.
    pub const USUAL_MESSAGE: Bytes = Bytes::mib(1);

    /// A grid of one cell for each path and congestion control: one stream, no limits, 20 s, the
    /// usual repetitions.
    pub fn new(name: impl Into<String>, paths: Vec<PathPoint>, congestion: Vec<Algorithm>) -> Grid {
        Grid {
            name: name.into(),
            form: Form::default(),
            paths,
            congestion,
            set: Constants::default(),
            streams: vec![1],
            windows_bytes: vec![None],
            buffers_bytes: none_alone(),
            messages_bytes: none_alone(),
            mtus: vec![Grid::USUAL_MTU],
            cross_bps: vec![Rate::default()],
            losses: vec![0.0],
            directions: out_alone(),
            host_bps: None,
            repetitions: Repetitions::default(),
            seconds: 20.0,
            warm_up_s: 0.0,
            sample_s: 0.5,
            scale: 1,
            stretched: false,
            disturbance: None,
            copies: None,
            hypotheses: Vec::new(),
            seed: 1,
        }
    }

    /// The constants with which `congestion` runs: what every kernel has of its own has one set,
    /// whatever the grid says.
    pub fn set_of(&self, congestion: Algorithm) -> Constants {
        if congestion.is_native() { Constants::Linux } else { self.set }
    }

    /// How many repetitions of a cell decide how many it has; `None` where nothing is decided.
    pub fn first_stage(&self) -> Option<usize> {
        let Repetitions { least, most, half_width } = self.repetitions;
        (least < most && half_width > 0.0).then_some(least as usize)
    }

    /// How long all repetitions take at most, each with its link and its connecting, when they
    /// really run and none is invalid.
    pub fn longest(&self) -> Span {
        let before = SET_UP_S + self.disturbance.map_or(0.0, |_| LEAD_S);
        let once: f64 = self.cells().iter().map(|cell| self.under(cell).seconds + before).sum();
        Span::from_secs_f64(once * f64::from(self.repetitions.most))
    }

    /// How many samples a repetition has.
    pub fn samples(&self) -> usize {
        (self.seconds / self.sample_s).floor().max(1.0) as usize
    }

    /// Every cell, in the order of the axes; those of hypotheses after them.
    pub fn cells(&self) -> Vec<Cell> {
        let usual = |path: &PathPoint, congestion| Cell {
            path: path.clone(),
            congestion,
            set: self.set_of(congestion),
            streams: 1,
            window_bytes: None,
            buffer_bytes: None,
            message_bytes: None,
            mtu: Grid::USUAL_MTU,
            cross_bps: Rate::default(),
            loss: 0.0,
            direction: TrafficDirection::Out,
            staged: None,
            hypothesis: None,
        };
        let with_control =
            |path| self.congestion.iter().map(move |&congestion| usual(path, congestion));
        let cells = self.paths.iter().flat_map(with_control).collect();
        let cells = along(cells, &self.mtus, |cell, mtu| cell.mtu = *mtu);
        let cells = along(cells, &self.windows_bytes, |cell, window| cell.window_bytes = *window);
        let cells = along(cells, &self.buffers_bytes, |cell, buffer| cell.buffer_bytes = *buffer);
        let cells =
            along(cells, &self.messages_bytes, |cell, message| cell.message_bytes = *message);
        let cells = along(cells, &self.cross_bps, |cell, cross| cell.cross_bps = *cross);
        let cells = along(cells, &self.losses, |cell, loss| cell.loss = *loss);
        let cells = along(cells, &self.streams, |cell, streams| cell.streams = *streams);
        let mut cells =
            along(cells, &self.directions, |cell, direction| cell.direction = *direction);
        if let Some(copies) = &self.copies {
            cells = along(cells, &copies.each(), |cell, staged| cell.staged = Some(*staged));
        }
        let tested: Vec<Cell> = self.hypotheses.iter().flat_map(|one| one.cells(&cells)).collect();
        cells.extend(tested);
        cells
    }

    /// The order in which round `repetition` visits `cells` cells: each once, shuffled by the seed.
    ///
    /// A round holds each cell once, so that a slow drift of the machine falls on all cells alike.
    pub fn order(&self, cells: usize, repetition: u32) -> Vec<usize> {
        let mut order: Vec<usize> = (0..cells).collect();
        let mut rng = Rng::new(self.seed).fork(0x0d0e + u64::from(repetition));
        for i in (1..cells).rev() {
            order.swap(i, rng.below(i as u64 + 1) as usize);
        }
        order
    }

    /// The seed of one repetition of the cell called `name`: another order or another grid does not
    /// change it.
    pub fn seed_of(&self, name: &str, repetition: u32) -> u64 {
        seed_of(self.seed, name, repetition)
    }

    /// What tells this grid from every other, in hexadecimal: the BLAKE3 digest of its JSON.
    pub fn hash(&self) -> String {
        // Plain numbers and strings: serialising them cannot fail.
        let json = serde_json::to_vec(self).unwrap_or_default();
        blake3::hash(&json).to_hex().to_string()
    }
}

/// Each of `cells` with each of `values` put in: one axis more.
pub(super) fn along<C: Clone, V>(cells: Vec<C>, values: &[V], put: impl Fn(&mut C, &V)) -> Vec<C> {
    let mut all = Vec::with_capacity(cells.len() * values.len());
    for cell in &cells {
        for value in values {
            let mut cell = cell.clone();
            put(&mut cell, value);
            all.push(cell);
        }
    }
    all
}

/// A seed of its own for each repetition of each cell.
pub(super) fn seed_of(seed: u64, name: &str, repetition: u32) -> u64 {
    let hash = blake3::hash(format!("{seed} {repetition} {name}").as_bytes());
    hash.as_bytes()[..8].iter().fold(0, |seed, byte| seed << 8 | u64::from(*byte))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Two paths, two controls, three numbers of streams.
    pub(in crate::profile) fn grid() -> Grid {
        let paths = ["usn-0.2", "usn-8600"]
            .map(|name| PathPoint::named(name, None).expect("a path"))
            .to_vec();
        Grid {
            streams: vec![1, 4, 16],
            ..Grid::new("custom", paths, vec![Algorithm::Bic, Algorithm::HTcp])
        }
    }

    #[test]
    fn a_grid_has_each_combination_once_and_names_it() {
        let cells = grid().cells();
        let mut names: Vec<String> = cells.iter().map(Cell::name).collect();
        assert_eq!((cells.len(), names[0].as_str()), (12, "usn-0.2 bic 1 stream"));
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 12);
        let special = Cell {
            window_bytes: Some(Bytes::mib(16)),
            mtu: 9_000,
            cross_bps: Rate::from_bps(1_000_000_000),
            loss: 1e-5,
            set: Constants::Paper,
            buffer_bytes: Some(Bytes::mib(2)),
            message_bytes: Some(Bytes(512)),
            ..cells[11].clone()
        };
        assert_eq!(
            special.name(),
            "usn-8600 htcp 16 streams paper window 16 MiB buffer 2 MiB messages of 512 B mtu 9000 \
             cross 1.00 Gbit/s loss 1e-5"
        );
        assert!(grid().check().is_ok());
    }

    #[test]
    fn kernel_controls_run_with_linuxs_constants() {
        let grid = Grid {
            set: Constants::Paper,
            congestion: vec![Algorithm::Cubic, Algorithm::Bic],
            ..grid()
        };
        let of = |control| {
            grid.cells().into_iter().find(|cell| cell.congestion == control).map(|cell| cell.set)
        };
        assert_eq!(
            (of(Algorithm::Cubic), of(Algorithm::Bic)),
            (Some(Constants::Linux), Some(Constants::Paper))
        );
    }

    proptest! {
        #[test]
        fn every_round_visits_every_cell_once_in_another_order(seed: u64, cells in 1usize..200) {
            let grid = Grid { seed, ..grid() };
            let order = grid.order(cells, 0);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            prop_assert_eq!(&sorted, &(0..cells).collect::<Vec<_>>());
            prop_assert_eq!(&order, &grid.order(cells, 0));
            if cells > 20 {
                prop_assert_ne!(&order, &grid.order(cells, 1));
            }
        }
    }
}

//! What is measured: a grid of cells over axes, with its repetitions, its order and its limits.

use super::cell::{PathPoint, TrafficDirection};
use super::hypothesis::Hypothesis;
use super::staging::Copies;
use crate::congestion::{Algorithm, Constants};
use crate::experiment::{Experiment, Form, Repetitions};
pub use crate::plan::Disturbance;
use crate::units::{Bytes, Rate, Span};
use serde::{Deserialize, Serialize};

/// What a repetition takes besides its own time, in seconds: a link up and down, two ends,
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
    /// Whether packets could not be divided, so that time was multiplied: round trips, repetitions,
    /// and what happens in the middle.
    #[serde(rename = "stretched", default, skip_serializing_if = "std::ops::Not::not")]
    pub time_scaled: bool,
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
            time_scaled: false,
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

    /// What tells this grid from every other, in hexadecimal: the BLAKE3 digest of its JSON.
    pub fn hash(&self) -> String {
        // Plain numbers and strings: serialising them cannot fail.
        let json = serde_json::to_vec(self).unwrap_or_default();
        blake3::hash(&json).to_hex().to_string()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::profile::Cell;

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

    #[test]
    fn no_loss_among_others_is_called_0() {
        let grid = Grid { losses: vec![0.0, 1e-5], ..grid() };
        let axes: Vec<_> =
            grid.axes().into_iter().filter_map(crate::experiment::GridAxis::charted).collect();
        let loss = axes.iter().find(|axis| axis.name == "Loss").expect("losses");
        let words: Vec<String> = [0.0, 1e-5]
            .map(|loss_of| (loss.words)(&Cell { loss: loss_of, ..grid.cells()[0].clone() }))
            .to_vec();
        assert_eq!(words, ["loss 0", "loss 1e-5"]);
    }
}

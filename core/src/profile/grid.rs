//! What is measured: a grid of cells over axes, with its repetitions, its order and its limits.

use super::hypothesis::Hypothesis;
use super::staging::{Copies, Staged};
use crate::congestion::{Algorithm, Set};
use crate::units::{Bytes, Error, Fault, Rate, Rng, Span};
use crate::wan::{Change, Path, Settings};
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// More cells than this are refused: at ten seconds each they would take longer than a month.
const MOST_CELLS: usize = 100_000;
/// More streams than this are refused: no end system of the papers had more than 20, and a node accepts 60 channels.
const MOST_STREAMS: u32 = 1_000;
/// Ethernet's largest payload in use and IP's smallest (RFC 791; a USN switch took 9216).
const MTU: (u32, u32) = (576, 65_535);

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_one(scale: &u32) -> bool {
    *scale == 1
}

fn is_out_alone(directions: &[Direction]) -> bool {
    directions == [Direction::Out]
}

fn out_alone() -> Vec<Direction> {
    vec![Direction::Out]
}

/// Which way the data of a cell goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From here to the far side.
    #[default]
    Out,
    /// From the far side to here.
    Back,
    /// Both at once, as many streams each way; the goodput is that of both together.
    Both,
}

impl Direction {
    /// Every one, by its name.
    const ALL: [(&str, Direction); 3] = [("out", Direction::Out), ("back", Direction::Back), ("both", Direction::Both)];

    /// Its name.
    pub fn name(self) -> &'static str {
        Direction::ALL.iter().find(|(_, one)| *one == self).map_or("out", |(name, _)| name)
    }

    /// Whether it is the usual one, which documents leave out.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
    fn is_out(&self) -> bool {
        *self == Direction::Out
    }
}

impl FromStr for Direction {
    type Err = Error;

    fn from_str(text: &str) -> Result<Direction, Error> {
        let found = Direction::ALL.iter().find(|(name, _)| *name == text);
        found.map(|(_, one)| *one).ok_or_else(|| {
            Error::new(Fault::You, "profile-direction", format!("`{text}` is no direction")).hint("out, back and both are")
        })
    }
}

/// The path of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathPoint {
    /// Its name: one of [`wan::Path`](crate::wan::Path)'s, or one made from its rtt.
    pub name: String,
    /// Bits per second on the wire.
    pub rate_bps: Rate,
    /// Round-trip time without load.
    pub rtt_ns: Span,
    /// Length of fibre, where it is known.
    pub miles: Option<f64>,
    /// The queue before the wire.
    pub queue_bytes: Bytes,
}

impl PathPoint {
    /// A named path, at its own rate or at `rate`, with its default queue.
    ///
    /// # Errors
    /// As [`Path::named`].
    pub fn named(name: &str, rate: Option<Rate>) -> Result<PathPoint, Error> {
        let path = Path::named(name)?;
        let settings = path.settings(rate, None)?;
        Ok(PathPoint { name: name.to_owned(), miles: path.miles, ..PathPoint::of(&settings) })
    }

    /// A path of `rate` and `rtt` with its default queue, named after its rtt.
    pub fn custom(rate: Rate, rtt: Span) -> PathPoint {
        PathPoint::of(&Settings::new(rate, rtt))
    }

    fn of(settings: &Settings) -> PathPoint {
        let (rate_bps, rtt_ns) = (settings.a_to_b.rate, settings.rtt());
        let name = rtt_ns.to_string().replace(' ', "");
        PathPoint { name, rate_bps, rtt_ns, miles: None, queue_bytes: settings.a_to_b.queue }
    }
}

/// One point of the grid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The path.
    pub path: PathPoint,
    /// The congestion control of every stream.
    pub congestion: Algorithm,
    /// With which constants.
    pub set: Set,
    /// TCP streams.
    pub streams: u32,
    /// The most that one stream may have on its way; without it the path decides.
    pub window_bytes: Option<Bytes>,
    /// Bytes of IP in a full packet.
    pub mtu: u32,
    /// Other traffic on the path, which does not answer loss.
    pub cross_bps: Rate,
    /// Probability that a frame is lost on the line.
    pub loss: f64,
    /// Which way its data goes.
    #[serde(default, skip_serializing_if = "Direction::is_out")]
    pub direction: Direction,
    /// How its bytes come from a store; absent where the ends send what they have in memory, without a mover.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staged: Option<Staged>,
    /// The name of the [`Hypothesis`] that it tests; absent in a cell of the axes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypothesis: Option<String>,
}

impl Cell {
    /// The cell in one line, the same in every document: `usn-8600 htcp 16 streams`, with what differs from the usual after it.
    pub fn name(&self) -> String {
        let streams = if self.streams == 1 { "1 stream".to_owned() } else { format!("{} streams", self.streams) };
        let mut name = format!("{} {} {streams}", self.path.name, self.congestion);
        if self.set != Set::default() {
            name.push_str(&format!(" {}", self.set));
        }
        if let Some(window) = self.window_bytes {
            name.push_str(&format!(" window {window}"));
        }
        if self.mtu != Grid::USUAL_MTU {
            name.push_str(&format!(" mtu {}", self.mtu));
        }
        if self.cross_bps > Rate::default() {
            name.push_str(&format!(" cross {}", self.cross_bps));
        }
        if self.loss > 0.0 {
            name.push_str(&format!(" loss {:e}", self.loss));
        }
        match self.direction {
            Direction::Out => {}
            Direction::Back => name.push_str(" back"),
            Direction::Both => name.push_str(" both ways"),
        }
        if let Some(staged) = &self.staged {
            name.push_str(&format!(" {staged}"));
        }
        if let Some(hypothesis) = &self.hypothesis {
            name.push_str(&format!(", {hypothesis}"));
        }
        name
    }
}

/// Something that happens to the path in the middle of every repetition, to see how long the streams need to come back.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Disturbance {
    /// Since the repetition began.
    pub at_ns: Span,
    /// What.
    pub change: Change,
}

/// How often a cell is measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Repetitions {
    /// At least.
    pub least: u32,
    /// At most.
    pub most: u32,
    /// No more once half of the 95 % confidence interval is at most this share of the mean.
    pub half_width: f64,
}

impl Default for Repetitions {
    /// Three to ten, until the interval is within 3 %.
    fn default() -> Repetitions {
        Repetitions { least: 3, most: 10, half_width: 0.03 }
    }
}

/// How much of a preset is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// A choice of cells, in at most twenty minutes of measuring.
    #[default]
    Quick,
    /// All of them.
    Full,
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
    /// Their constants.
    pub set: Set,
    /// Numbers of streams.
    pub streams: Vec<u32>,
    /// Largest windows; `None` for none.
    pub windows_bytes: Vec<Option<Bytes>>,
    /// MTUs.
    pub mtus: Vec<u32>,
    /// Rates of cross-traffic.
    pub cross_bps: Vec<Rate>,
    /// Loss probabilities.
    pub losses: Vec<f64>,
    /// Directions.
    #[serde(default = "out_alone", skip_serializing_if = "is_out_alone")]
    pub directions: Vec<Direction>,
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
    /// By what rates, MTUs, windows and queues were divided so that a machine can carry them exactly: see [`Grid::scaled`]; 1 for an experiment at its full rate.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub scale: u32,
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
    pub const USUAL_MTU: u32 = 1_500;

    /// A grid of one cell for each path and congestion control: one stream, no limits, 20 s, the usual repetitions.
    pub fn new(name: impl Into<String>, paths: Vec<PathPoint>, congestion: Vec<Algorithm>) -> Grid {
        Grid {
            name: name.into(),
            form: Form::default(),
            paths,
            congestion,
            set: Set::default(),
            streams: vec![1],
            windows_bytes: vec![None],
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
            disturbance: None,
            copies: None,
            hypotheses: Vec::new(),
            seed: 1,
        }
    }

    /// Refuses what cannot be measured.
    ///
    /// # Errors
    /// [`Fault::You`] with the axis and the value: an empty axis, a value twice on one, a probability that is none, a window
    /// below one packet, cross-traffic that leaves nothing, repetitions that never end, more than 100 000 cells.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |message: String| Err(Error::new(Fault::You, "profile-grid", message));
        fn twice<T: PartialEq>(values: &[T]) -> bool {
            values.iter().enumerate().any(|(i, value)| values[..i].contains(value))
        }
        let axes = [
            ("paths", self.paths.len(), twice(&self.paths)),
            ("congestion controls", self.congestion.len(), twice(&self.congestion)),
            ("streams", self.streams.len(), twice(&self.streams)),
            ("windows", self.windows_bytes.len(), twice(&self.windows_bytes)),
            ("MTUs", self.mtus.len(), twice(&self.mtus)),
            ("cross-traffic", self.cross_bps.len(), twice(&self.cross_bps)),
            ("losses", self.losses.len(), twice(&self.losses)),
            ("directions", self.directions.len(), twice(&self.directions)),
        ];
        for (axis, count, twice) in axes {
            if count == 0 {
                return wrong(format!("the axis of {axis} is empty: the grid has no cell"));
            }
            if twice {
                return wrong(format!("the axis of {axis} has a value twice: its cells could not be told apart"));
            }
        }
        let staged = self.copies.as_ref().map_or(1, |copies| copies.each().len());
        let cells = axes.iter().try_fold(staged, |cells, (_, count, _)| cells.checked_mul(*count));
        if cells.is_none_or(|cells| cells > MOST_CELLS) {
            return wrong(format!("the grid has more than {MOST_CELLS} cells"));
        }
        if let Some(streams) = self.streams.iter().find(|streams| !(1..=MOST_STREAMS).contains(*streams)) {
            return wrong(format!("{streams} streams: from 1 to {MOST_STREAMS}"));
        }
        if let Some(mtu) = self.mtus.iter().find(|mtu| !(MTU.0..=MTU.1).contains(*mtu)) {
            return wrong(format!("an MTU of {mtu}: from {} to {}", MTU.0, MTU.1));
        }
        if let Some(loss) = self.losses.iter().find(|loss| !(0.0..1.0).contains(*loss)) {
            return wrong(format!("a loss of {loss}: a probability from 0 to below 1"));
        }
        let packet = self.mtus.iter().max().map_or(0, |mtu| u64::from(*mtu));
        if let Some(window) = self.windows_bytes.iter().flatten().find(|window| window.0 < packet) {
            return wrong(format!("a window of {window} holds no packet of {packet} bytes"));
        }
        for path in &self.paths {
            if path.rate_bps == Rate::default() || path.rtt_ns == Span::ZERO || path.queue_bytes.0 < packet {
                return wrong(format!("the path {}: rate, rtt and a queue of at least one packet must be above zero", path.name));
            }
            if path.rtt_ns > Span::from_secs(60) {
                return wrong(format!("the path {}: an rtt of {} is more than a minute", path.name, path.rtt_ns));
            }
            if let Some(cross) = self.cross_bps.iter().find(|cross| **cross >= path.rate_bps) {
                return wrong(format!("cross-traffic of {cross} leaves nothing of the {} of {}", path.rate_bps, path.name));
            }
        }
        if self.host_bps == Some(Rate::default()) {
            return wrong("a host that sends at zero".to_owned());
        }
        let Repetitions { least, most, half_width } = self.repetitions;
        if least == 0 || most < least || half_width.is_nan() || half_width < 0.0 {
            return wrong(format!(
                "{least} to {most} repetitions within {half_width}: at least one, and not more at least than at most"
            ));
        }
        if let Some(copies) = &self.copies {
            if !is_out_alone(&self.directions) {
                return wrong("staging is measured one way: out".to_owned());
            }
            copies.check(self.streams.iter().max().copied().unwrap_or(1))?;
        }
        for (i, one) in self.hypotheses.iter().enumerate() {
            if self.hypotheses[..i].iter().any(|other| other.name == one.name) {
                return wrong(format!("two hypotheses are called `{}`", one.name));
            }
            if one.queue_bytes.is_some_and(|queue| queue.0 < packet) {
                return wrong(format!("`{}`: a queue that holds no packet of {packet} bytes", one.name));
            }
            if one.line.is_some_and(|line| !(0.01..=100.0).contains(&line)) {
                return wrong(format!("`{}`: a line of {:?} times its rate", one.name, one.line));
            }
            let under = Grid {
                windows_bytes: one.window_bytes.map_or_else(|| self.windows_bytes.clone(), |window| vec![Some(window)]),
                losses: one.loss.map_or_else(|| self.losses.clone(), |loss| vec![loss]),
                seconds: one.seconds.unwrap_or(self.seconds),
                warm_up_s: 0.0,
                hypotheses: Vec::new(),
                ..self.clone()
            };
            under.check().map_err(|error| error.while_doing(format!("`{}`", one.name)))?;
        }
        self.check_times()
    }

    fn check_times(&self) -> Result<(), Error> {
        let (seconds, warm_up, sample) = (self.seconds, self.warm_up_s, self.sample_s);
        let wrong = |message: String| Err(Error::new(Fault::You, "profile-grid", message));
        if !(seconds.is_finite() && seconds > 0.0 && warm_up >= 0.0 && warm_up < seconds) {
            return wrong(format!("{seconds} s with {warm_up} s of warm-up: nothing is left to measure"));
        }
        if !(sample > 0.0 && sample <= seconds / 4.0) {
            return wrong(format!("samples {sample} s apart in {seconds} s: at least four are needed"));
        }
        if let Some(path) = self.paths.iter().find(|path| path.rtt_ns.as_secs_f64() * 4.0 > seconds) {
            return wrong(format!("{seconds} s are not four round trips of {}", path.rtt_ns))
                .map_err(|error: Error| error.hint("a repetition must be long beside the round-trip time: give --seconds"));
        }
        if self.disturbance.is_some_and(|disturbance| disturbance.at_ns.as_secs_f64() >= seconds) {
            return wrong(format!("the disturbance comes after the end at {seconds} s"));
        }
        Ok(())
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
            set: self.set,
            streams: 1,
            window_bytes: None,
            mtu: Grid::USUAL_MTU,
            cross_bps: Rate::default(),
            loss: 0.0,
            direction: Direction::Out,
            staged: None,
            hypothesis: None,
        };
        let with_control = |path| self.congestion.iter().map(move |&congestion| usual(path, congestion));
        let cells = self.paths.iter().flat_map(with_control).collect();
        let cells = along(cells, &self.mtus, |cell, mtu| cell.mtu = *mtu);
        let cells = along(cells, &self.windows_bytes, |cell, window| cell.window_bytes = *window);
        let cells = along(cells, &self.cross_bps, |cell, cross| cell.cross_bps = *cross);
        let cells = along(cells, &self.losses, |cell, loss| cell.loss = *loss);
        let cells = along(cells, &self.streams, |cell, streams| cell.streams = *streams);
        let mut cells = along(cells, &self.directions, |cell, direction| cell.direction = *direction);
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

    /// The seed of one repetition of the cell called `name`: another order or another grid does not change it.
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn grid() -> Grid {
        let paths = ["usn-0.2", "usn-8600"].map(|name| PathPoint::named(name, None).expect("a path")).to_vec();
        Grid { streams: vec![1, 4, 16], ..Grid::new("custom", paths, vec![Algorithm::Bic, Algorithm::HTcp]) }
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
            set: Set::Paper,
            ..cells[11].clone()
        };
        assert_eq!(special.name(), "usn-8600 htcp 16 streams paper window 16 MiB mtu 9000 cross 1.00 Gbit/s loss 1e-5");
        assert!(grid().check().is_ok());
    }

    #[test]
    fn impossible_grids_are_refused_in_words() {
        let ten = Rate::from_bps(10_000_000_000);
        let cases: [(Grid, &str); 13] = [
            (Grid { paths: vec![], ..grid() }, "paths is empty"),
            (Grid { streams: vec![4, 4], ..grid() }, "streams has a value twice"),
            (Grid { streams: vec![0], ..grid() }, "0 streams"),
            (Grid { streams: (1..=1000).collect(), mtus: (1000..1100).collect(), ..grid() }, "more than 100000 cells"),
            (Grid { mtus: vec![20], ..grid() }, "an MTU of 20"),
            (Grid { losses: vec![1.0], ..grid() }, "a loss of 1"),
            (Grid { windows_bytes: vec![Some(Bytes(1_000))], ..grid() }, "holds no packet"),
            (Grid { cross_bps: vec![ten], ..grid() }, "leaves nothing"),
            (Grid { repetitions: Repetitions { least: 5, most: 3, half_width: 0.1 }, ..grid() }, "5 to 3 repetitions"),
            (Grid { warm_up_s: 30.0, ..grid() }, "nothing is left to measure"),
            (Grid { sample_s: 15.0, ..grid() }, "at least four"),
            (Grid { seconds: 0.5, sample_s: 0.1, ..grid() }, "not four round trips"),
            (
                Grid { disturbance: Some(Disturbance { at_ns: Span::from_secs(30), change: Change::Lose(1) }), ..grid() },
                "comes after the end",
            ),
        ];
        for (grid, words) in cases {
            let error = grid.check().expect_err(words);
            assert!(error.fault == Fault::You && error.message.contains(words), "{words}: {error}");
        }
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

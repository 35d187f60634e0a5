//! The document of a profile: the grid, where it ran, and every repetition with its raw samples.

use super::grid::{Cell, Grid};
use super::statistics::Summary;
use crate::units::{Error, Fault, Rate, Span};
use serde::{Deserialize, Serialize};

/// The name and version of the document.
pub const SCHEMA: &str = "farline/profile/1";

/// A repetition that is invalid is done again, but a cell that fails more often than this times its repetitions is given up.
const ATTEMPTS: usize = 2;

/// Where the figures come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
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

/// What held the streams of a repetition back for most of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LimitedBy {
    /// The congestion control's window: the path, its losses, the ramp.
    #[default]
    Congestion,
    /// A processor.
    Cpu,
    /// The rate of the sending host.
    Host,
    /// The receiver's window, or the largest that was allowed.
    ReceiverWindow,
    /// The send buffer.
    SendBuffer,
    /// The store that the bytes came from or went to.
    Store,
}

/// Payload per time at both ends; the receiver's is the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Goodput {
    /// What the sender was told had arrived.
    pub sender_bps: Rate,
    /// What the receiver got.
    pub receiver_bps: Rate,
}

/// How exact the emulated link of a repetition was, in the direction of the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exactness {
    /// How late packets were, the median.
    pub late_p50_ns: Span,
    /// And the 99th percentile.
    pub late_p99_ns: Span,
    /// What the latter may be.
    pub limit_ns: Span,
    /// Frames that the path's queue dropped, as it should.
    pub queue_drops: u64,
    /// Packets lost for lack of processor time, both directions.
    pub overruns: u64,
}

/// Packets lost in one sample interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lost {
    /// The interval's end, in seconds since the streams began.
    pub at_s: f64,
    /// How many.
    pub packets: u64,
}

/// One measurement of one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Repetition {
    /// Which of the cell's repetitions it is, from 0; an invalid one is followed by another of the same number.
    pub index: u32,
    /// Of its random choices.
    pub seed: u64,
    /// When it began, as text; absent in a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<String>,
    /// How long it ran.
    pub seconds: f64,
    /// How much of that was ramp or warm-up.
    pub ramp_s: f64,
    /// Over the whole time.
    pub whole: Goodput,
    /// During the ramp.
    pub ramp: Goodput,
    /// After it.
    pub steady: Goodput,
    /// Segments lost or sent again.
    pub retransmits: u64,
    /// Reductions of a window.
    pub reductions: u64,
    /// Retransmission timers that ran out.
    pub timeouts: u64,
    /// What held it back.
    pub limited_by: LimitedBy,
    /// Jain's index of the streams' shares.
    pub fairness: f64,
    /// From the disturbance to the rate before it, where there was one and it came back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery_s: Option<f64>,
    /// Processor time of sender and receiver over real time; absent in a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<(f64, f64)>,
    /// The least round-trip time that the sender saw; absent in a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_ns: Option<Span>,
    /// How exact the link was, where it was emulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Exactness>,
    /// Why it must not be averaged in: the link was not exact, a processor was the limit. Absent when it is valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
    /// When packets were lost, or sent again as far as a kernel tells: how many in each sample interval that had some.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<Lost>,
    /// Payload that arrived in each sample interval, all streams together.
    pub samples_bps: Vec<Rate>,
    /// Payload per time of each stream.
    pub streams_bps: Vec<Rate>,
}

impl Repetition {
    /// Whether it may be averaged in.
    pub fn is_valid(&self) -> bool {
        self.invalid.is_none()
    }

    /// Marks it as not to be averaged in for each of `reasons`, if there are any.
    pub fn doubt(&mut self, reasons: &[String]) {
        if !reasons.is_empty() {
            let all: Vec<&str> = self.invalid.iter().chain(reasons).map(String::as_str).collect();
            self.invalid = Some(all.join("; "));
        }
    }
}

/// A cell with what was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellResult {
    /// Where it stands in the grid.
    pub cell: Cell,
    /// In the order in which they ran, invalid ones among them.
    pub repetitions: Vec<Repetition>,
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
        Summary::of(&self.goodput_bps())
    }

    /// Whether nothing is left to do: enough repetitions, a narrow interval, or given up.
    fn done(&self, grid: &Grid) -> bool {
        let valid = self.valid().count();
        let limits = grid.repetitions;
        let narrow = || self.summary().is_some_and(|summary| summary.relative_half_width() <= limits.half_width);
        valid >= limits.most as usize
            || (valid >= limits.least as usize && narrow())
            || self.repetitions.len() >= ATTEMPTS * limits.most as usize
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
    /// When the path or the machine fails; a repetition that ran but must not be believed is not an error but
    /// [`Repetition::invalid`].
    fn run(&mut self, grid: &Grid, job: &Job) -> Result<Repetition, Error>;
}

/// A profile: the document itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// [`SCHEMA`].
    pub schema: String,
    /// Measured or modelled.
    pub kind: Kind,
    /// Farline's version.
    pub farline: String,
    /// When it began, as text: the core has no clock.
    pub date: String,
    /// What ran it.
    pub environment: Environment,
    /// What was asked for.
    pub grid: Grid,
    /// [`Grid::hash`] of it.
    pub grid_hash: String,
    /// Every cell, in the order of the grid's axes.
    pub cells: Vec<CellResult>,
}

impl Profile {
    /// The profile of `grid` before its first repetition.
    ///
    /// # Errors
    /// As [`Grid::check`].
    pub fn new(grid: Grid, kind: Kind, environment: Environment, date: impl Into<String>) -> Result<Profile, Error> {
        grid.check()?;
        let cells = grid.cells().into_iter().map(|cell| CellResult { cell, repetitions: Vec::new() }).collect();
        Ok(Profile {
            schema: SCHEMA.to_owned(),
            kind,
            farline: env!("CARGO_PKG_VERSION").to_owned(),
            date: date.into(),
            environment,
            grid_hash: grid.hash(),
            grid,
            cells,
        })
    }

    /// Reads a profile.
    ///
    /// # Errors
    /// [`Fault::You`] when `json` is not one of this version, or was changed by hand: its cells or its hash are not its grid's.
    pub fn read(json: &str) -> Result<Profile, Error> {
        let wrong = |message: String| {
            Error::new(Fault::You, "profile-document", message).hint(format!("a profile is a document of schema {SCHEMA}"))
        };
        let profile: Profile = serde_json::from_str(json).map_err(|error| wrong(format!("not a profile: {error}")))?;
        if profile.schema != SCHEMA {
            return Err(wrong(format!("its schema is {}", profile.schema)));
        }
        profile.grid.check()?;
        let cells = profile.grid.cells();
        if profile.grid_hash != profile.grid.hash() || !profile.cells.iter().map(|result| &result.cell).eq(&cells) {
            return Err(wrong("its cells are not those of its grid".to_owned()));
        }
        Ok(profile)
    }

    /// What to do next, at most `count` jobs of different cells, which may run side by side; none when all is done.
    ///
    /// Rounds come one after the other, each in its own random order, so a profile that was broken off and read again goes on
    /// where it stood. Cells whose interval is narrow are left out.
    pub fn next(&self, count: usize) -> Vec<Job> {
        let round_of = |result: &CellResult| result.valid().count() as u32;
        let open = || self.cells.iter().filter(|result| !result.done(&self.grid));
        let Some(round) = open().map(round_of).min() else { return Vec::new() };
        let order = self.grid.order(self.cells.len(), round).into_iter();
        let jobs = order.filter_map(|place| {
            let result = &self.cells[place];
            (round_of(result) == round && !result.done(&self.grid)).then(|| Job {
                place,
                cell: result.cell.clone(),
                index: round,
                seed: self.grid.seed_of(&result.cell.name(), result.repetitions.len() as u32),
            })
        });
        jobs.take(count).collect()
    }

    /// Puts in what `job` gave.
    pub fn record(&mut self, job: &Job, repetition: Repetition) {
        if let Some(result) = self.cells.get_mut(job.place) {
            result.repetitions.push(repetition);
        }
    }

    /// Runs what is missing on `bench`; `watch` sees the profile after each repetition and answers whether to go on.
    ///
    /// # Errors
    /// The bench's; what ran before stays in the profile.
    pub fn run(&mut self, bench: &mut dyn Bench, mut watch: impl FnMut(&Profile) -> bool) -> Result<(), Error> {
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

    /// Those whose data goes the grid's first way: beside them, both ways at once are another quantity.
    pub(super) fn one_way(&self) -> impl Iterator<Item = &CellResult> {
        let first = self.grid.directions.first().copied().unwrap_or_default();
        self.plain().filter(move |result| result.cell.direction == first)
    }

    /// Cells that are finished, and cells in all.
    pub fn progress(&self) -> (usize, usize) {
        (self.cells.iter().filter(|result| result.done(&self.grid)).count(), self.cells.len())
    }

    /// How many repetitions may still come, at most, if all of them are valid.
    pub fn most_left(&self) -> u32 {
        let most = self.grid.repetitions.most;
        let left =
            |result: &CellResult| if result.done(&self.grid) { 0 } else { most.saturating_sub(result.valid().count() as u32) };
        self.cells.iter().map(left).sum()
    }

    /// The largest goodput that a frame of `mtu` allows on `rate`: payload of TCP with timestamps over wire bytes.
    pub fn payload_rate(rate: Rate, mtu: u32) -> Rate {
        let mtu = u64::from(mtu);
        let share = mtu.saturating_sub(TCP_HEADERS) as f64 / crate::wan::frames::wire_bytes(mtu) as f64;
        Rate::from_bps((rate.as_bps() as f64 * share) as u64)
    }

    /// How long all repetitions of the grid take at most, when they really run.
    pub fn longest(&self) -> Span {
        let once: f64 = self.cells.iter().map(|result| self.grid.under(&result.cell).seconds).sum();
        Span::from_secs_f64(once * f64::from(self.grid.repetitions.most))
    }
}

/// IP version 4, TCP, and its timestamps (RFC 791, RFC 9293, RFC 7323): 20 + 20 + 12 bytes.
pub(super) const TCP_HEADERS: u64 = 52;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::Algorithm;
    use crate::profile::grid::{PathPoint, Repetitions};
    use crate::units::Rng;

    /// A bench whose throughput is drawn, and of whose repetitions one in seven is invalid.
    struct Drawn {
        spread: f64,
    }

    impl Bench for Drawn {
        fn run(&mut self, grid: &Grid, job: &Job) -> Result<Repetition, Error> {
            let rate = Rate::from_bps((1e9 * (5.0 + self.spread * Rng::new(job.seed).normal())) as u64);
            let goodput = Goodput { sender_bps: rate, receiver_bps: rate };
            Ok(Repetition {
                index: job.index,
                seed: job.seed,
                began: None,
                seconds: grid.seconds,
                ramp_s: 0.0,
                whole: goodput,
                ramp: Goodput::default(),
                steady: goodput,
                retransmits: 0,
                reductions: 0,
                timeouts: 0,
                limited_by: LimitedBy::Congestion,
                fairness: 1.0,
                recovery_s: None,
                cpu: None,
                rtt_ns: None,
                link: None,
                losses: Vec::new(),
                invalid: job.seed.is_multiple_of(7).then(|| "the link was late".to_owned()),
                samples_bps: vec![rate; 4],
                streams_bps: vec![rate],
            })
        }
    }

    fn profile(half_width: f64) -> Profile {
        let path = PathPoint::named("usn-1400", None).expect("a path");
        let grid = Grid {
            streams: (1..=10).collect(),
            repetitions: Repetitions { least: 3, most: 8, half_width },
            ..Grid::new("custom", vec![path], vec![Algorithm::Cubic])
        };
        Profile::new(grid, Kind::Measured, Environment::default(), "today").expect("a grid")
    }

    #[test]
    fn narrow_cells_stop_early_and_wide_ones_go_on() {
        let run = |spread, half_width| {
            let mut profile = profile(half_width);
            profile.run(&mut Drawn { spread }, |_| true).expect("a bench that works");
            profile.cells.iter().map(|result| result.valid().count()).collect::<Vec<_>>()
        };
        assert_eq!(run(0.001, 0.03), vec![3; 10]);
        assert_eq!(run(2.0, 0.0), vec![8; 10]);
        let mixed = run(0.15, 0.03);
        assert!(mixed.iter().any(|n| *n > 3) && mixed.iter().any(|n| *n < 8), "{mixed:?}");
    }

    #[test]
    fn invalid_repetitions_are_kept_and_never_averaged() {
        let mut profile = profile(0.0);
        profile.run(&mut Drawn { spread: 0.1 }, |_| true).expect("a bench that works");
        let invalid: usize = profile.cells.iter().map(|result| result.repetitions.len() - result.valid().count()).sum();
        assert!((5..30).contains(&invalid), "one of seven of 80 and more: {invalid}");
        assert!(profile.cells.iter().all(|result| result.summary().is_some_and(|summary| summary.n == 8)));
        assert_eq!(profile.progress(), (10, 10));
    }

    #[test]
    fn a_bench_that_is_never_valid_is_given_up() {
        struct Broken;
        impl Bench for Broken {
            fn run(&mut self, grid: &Grid, job: &Job) -> Result<Repetition, Error> {
                let repetition = Drawn { spread: 0.0 }.run(grid, job)?;
                Ok(Repetition { invalid: Some("never".to_owned()), ..repetition })
            }
        }
        let mut profile = profile(0.03);
        profile.run(&mut Broken, |_| true).expect("a bench that works");
        assert!(profile.cells.iter().all(|result| result.repetitions.len() == 16 && result.summary().is_none()));
    }

    #[test]
    fn a_profile_that_was_broken_off_and_read_again_ends_like_one_that_was_not() {
        let mut whole = profile(0.03);
        whole.run(&mut Drawn { spread: 0.15 }, |_| true).expect("a bench that works");
        let mut broken = profile(0.03);
        let mut bench = Drawn { spread: 0.15 };
        let mut left = 17;
        broken
            .run(&mut bench, |_| {
                left -= 1;
                left > 0
            })
            .expect("a bench that works");
        let mut resumed = Profile::read(&serde_json::to_string(&broken).expect("JSON")).expect("a profile");
        assert_eq!(resumed, broken);
        resumed.run(&mut bench, |_| true).expect("a bench that works");
        assert_eq!(resumed, whole);
        // Several at a time give the same document as one at a time: no job depends on another cell's.
        let mut side_by_side = profile(0.03);
        loop {
            let jobs = side_by_side.next(3);
            if jobs.is_empty() {
                break;
            }
            for job in jobs {
                let repetition = bench.run(&side_by_side.grid, &job).expect("a bench that works");
                side_by_side.record(&job, repetition);
            }
        }
        assert_eq!(side_by_side, whole);
    }

    #[test]
    fn what_is_not_a_profile_is_refused() {
        let json = serde_json::to_string(&profile(0.03)).expect("JSON");
        for (text, words) in [
            ("{}".to_owned(), "not a profile"),
            (json.replace("farline/profile/1", "farline/profile/9"), "farline/profile/9"),
            (json.replace("\"streams\":10", "\"streams\":11"), "not those of its grid"),
        ] {
            let error = Profile::read(&text).expect_err(words);
            assert!(error.fault == Fault::You && error.message.contains(words), "{error}");
        }
    }

    #[test]
    fn the_largest_goodput_leaves_headers_and_gaps_out() {
        let rate = Rate::from_bps(9_290_000_000);
        assert_eq!(Profile::payload_rate(rate, 1_500).as_bps() / 1_000_000, 8_746);
        assert_eq!(Profile::payload_rate(rate, 9_000).as_bps() / 1_000_000, 9_197);
    }
}

//! The axes of a grid as flags: lists and ranges of numbers, paths, controls.

use crate::channel::{self, Measured};
use farline_core::congestion::{Algorithm, Constants};
use farline_core::profile::{
    Copies, Grid, Order, PathEstimate, PathPoint, ProfileDriver, Repetitions, StagingStore,
    TrafficDirection,
};
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Probability, Rate, Span};
use std::str::FromStr;

/// Of a path whose rate nobody said: the papers' 10GE.
pub(crate) const USUAL_RATE: Rate = PathEstimate::RATE;

#[derive(clap::Args)]
pub(super) struct Axes {
    /// tcp,tls,udt,quic; `--channel rdma -h` [default: tcp]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = channel::measured)]
    channel: Vec<Measured>,
    /// Paths by name, such as usn-8600 [default: rtts]
    #[arg(long, alias = "path", value_name = "LIST", value_delimiter = ',')]
    link: Vec<String>,
    /// Round-trip times, such as 10ms,100ms [default: none]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    rtt: Vec<Span>,
    /// The paths' rate [default: their own, 10G for rtts]
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,
    /// Congestion controls [default: cubic]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    congestion: Vec<Algorithm>,
    /// Their constants: linux, paper [default: linux; in presets paper]
    #[arg(long, hide = true, value_name = "SET")]
    set: Option<Constants>,
    /// Streams, such as 1,4,8-12 [default: 1]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    streams: Vec<Range>,
    /// Largest windows, such as 4MiB,64MiB [default: none]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    window: Vec<Bytes>,
    /// Send buffers, such as 4MiB [default: kernel's]
    #[arg(long, hide = true, value_name = "LIST", value_delimiter = ',')]
    buffer: Vec<Bytes>,
    /// What one write hands over [default: 1MiB]
    #[arg(long, hide = true, value_name = "LIST", value_delimiter = ',')]
    message: Vec<Bytes>,
    /// MTUs in bytes [default: 9000; with --simulate 1500]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    mtu: Vec<u32>,
    /// Rates of other traffic, such as 1G,4G [default: none]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    cross: Vec<Rate>,
    /// Loss probabilities, such as 0,1e-5 [default: 0]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    loss: Vec<Probability>,
    /// Which way: out, back, both [default: out]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    direction: Vec<TrafficDirection>,
    /// A mover's staging, such as 16MiB [default: no mover]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    staging: Vec<Bytes>,
    /// With --staging, where its bytes come from and go to: memory, file [default: memory]
    #[arg(long, hide = true, value_name = "LIST", value_delimiter = ',')]
    store: Vec<StagingStore>,
    /// With --staging, whether reading waits for sending: synchronous, asynchronous [default:
    /// asynchronous]
    #[arg(long, hide = true, value_name = "LIST", value_delimiter = ',')]
    order: Vec<Order>,
    /// The most that the host does [default: no limit]
    #[arg(long, hide = true, value_name = "RATE")]
    host_rate: Option<Rate>,
    /// Seconds of a repetition [default: 20]
    #[arg(long, value_name = "N")]
    seconds: Option<f64>,
    /// Most repetitions of a cell [default: 10]
    #[arg(long, value_name = "N")]
    repetitions: Option<u32>,
    /// Seed of order and chance [default: 1]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

/// What was given of the runs of a cell.
pub(super) struct Runs {
    pub(super) seed: Option<u64>,
    pub(super) repetitions: Option<u32>,
    pub(super) seconds: Option<f64>,
}

/// `8`, or `1-20`.
#[derive(Clone, Debug)]
struct Range(u32, u32);

impl FromStr for Range {
    type Err = String;
    fn from_str(text: &str) -> Result<Range, String> {
        let number = |text: &str| {
            text.parse::<u32>().map_err(|_| format!("`{text}` is not a number of streams"))
        };
        let (from, to) = text.split_once('-').unwrap_or((text, text));
        let range = Range(number(from)?, number(to)?);
        if range.0 > range.1 || range.1 > 1_000 {
            Err(format!("`{text}`: from 1 to 1000, ascending"))
        } else {
            Ok(range)
        }
    }
}

impl Axes {
    /// Whether verbs are to be measured.
    ///
    /// # Errors
    /// When others are to be next to them.
    pub(super) fn measures_verbs(&self) -> Result<bool, Error> {
        match self.channel[..] {
            [Measured::Messages] => Ok(true),
            _ if self.channel.contains(&Measured::Messages) => Err(Error::new(
                Fault::You,
                ErrorCode::ProfileChannel,
                "RDMA is measured by itself: its axes are those of messages",
            )
            .hint(
                "give --channel rdma alone, between two devices of this host, and \
                        --channel tcp,udt over a link",
            )),
            _ => Ok(false),
        }
    }

    /// The first axis that was given, if one was: a profile that goes on has its own.
    pub(super) fn first(&self) -> Option<&'static str> {
        let of_runs = [
            ("--seconds", self.seconds.is_some()),
            ("--repetitions", self.repetitions.is_some()),
            ("--seed", self.seed.is_some()),
            ("--store", !self.store.is_empty()),
            ("--order", !self.order.is_empty()),
        ];
        let flag = of_runs.iter().find(|(_, given)| *given).map(|(flag, _)| *flag);
        self.of_verbs().err().or(flag)
    }

    /// The drivers over which a mover sends; bare streams are TCP without one.
    fn drivers(&self) -> Vec<ProfileDriver> {
        let driver = |channel: &Measured| match channel {
            Measured::Streams(driver) => Some(*driver),
            Measured::Messages => None,
        };
        self.channel.iter().filter_map(driver).collect()
    }

    /// What was given of what a modelled profile of RDMA takes, seed and most runs, or the name of
    /// an axis that it does not.
    pub(super) fn of_verbs(&self) -> Result<(Option<u64>, Option<u32>), &'static str> {
        let given = [
            ("--link", !self.link.is_empty()),
            ("--rtt", !self.rtt.is_empty()),
            ("--seconds", self.seconds.is_some()),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some((flag, _)) => Err(flag),
            None => self.of_measured_verbs().map(|runs| (runs.seed, runs.repetitions)),
        }
    }

    /// The same of a measured one, which takes the seconds of a run besides, and
    /// [paths](Self::paths).
    pub(super) fn of_measured_verbs(&self) -> Result<Runs, &'static str> {
        let given = [
            (
                "--channel",
                self.channel.iter().any(
                    |one| matches!(one, Measured::Streams(driver) if *driver != ProfileDriver::Tcp),
                ),
            ),
            ("--rate", self.rate.is_some()),
            ("--congestion", !self.congestion.is_empty()),
            ("--set", self.set.is_some()),
            ("--streams", !self.streams.is_empty()),
            ("--window", !self.window.is_empty()),
            ("--buffer", !self.buffer.is_empty()),
            ("--message", !self.message.is_empty()),
            ("--mtu", !self.mtu.is_empty()),
            ("--cross", !self.cross.is_empty()),
            ("--loss", !self.loss.is_empty()),
            ("--direction", !self.direction.is_empty()),
            ("--staging", !self.staging.is_empty()),
            ("--host-rate", self.host_rate.is_some()),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some((flag, _)) => Err(flag),
            None => {
                Ok(Runs { seed: self.seed, repetitions: self.repetitions, seconds: self.seconds })
            }
        }
    }

    /// The paths that were given.
    pub(super) fn paths(&self) -> Result<Vec<PathPoint>, Error> {
        let mut paths = Vec::new();
        for name in &self.link {
            paths.push(PathPoint::named(name, self.rate)?);
        }
        paths.extend(
            self.rtt.iter().map(|&rtt| PathPoint::custom(self.rate.unwrap_or(USUAL_RATE), rtt)),
        );
        Ok(paths)
    }

    /// The rate that was asked for.
    pub(super) fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// The grid of the axes alone, with packets of `mtu` unless the user says otherwise.
    pub(super) fn grid(&self, mtu: u32) -> Result<Grid, Error> {
        if self.link.is_empty() && self.rtt.is_empty() {
            return Err(Error::new(Fault::You, ErrorCode::ProfileNoPath, "a profile needs a path")
                .hint("give --preset NAME, --link usn-8600, or --rtt 50ms"));
        }
        self.over(Grid {
            mtus: vec![mtu],
            ..Grid::new("custom", Vec::new(), vec![Algorithm::Cubic])
        })
    }

    /// `grid` with the axes that were given in place of its own.
    pub(super) fn over(&self, mut grid: Grid) -> Result<Grid, Error> {
        let paths = self.paths()?;
        if paths.is_empty() {
            // The preset's paths at another rate.
            for path in grid
                .paths
                .iter_mut()
                .filter(|path| self.rate.is_some_and(|rate| rate != path.rate_bps))
            {
                let rate = self.rate.unwrap_or(path.rate_bps);
                *path = PathPoint {
                    name: path.name.clone(),
                    miles: path.miles,
                    ..PathPoint::custom(rate, path.rtt_ns)
                };
            }
        } else {
            grid.paths = paths;
        }
        fn put<T: Clone>(axis: &mut Vec<T>, given: Vec<T>) {
            if !given.is_empty() {
                *axis = given;
            }
        }
        put(&mut grid.congestion, self.congestion.clone());
        put(&mut grid.streams, self.streams.iter().flat_map(|range| range.0..=range.1).collect());
        put(&mut grid.windows_bytes, self.window.iter().copied().map(Some).collect());
        put(&mut grid.buffers_bytes, self.buffer.iter().copied().map(Some).collect());
        put(&mut grid.messages_bytes, self.message.iter().copied().map(Some).collect());
        put(&mut grid.mtus, self.mtu.clone());
        put(&mut grid.cross_bps, self.cross.clone());
        put(&mut grid.losses, self.loss.iter().map(|loss| loss.0).collect());
        put(&mut grid.directions, self.direction.clone());
        let drivers = self.drivers();
        if !self.staging.is_empty()
            || drivers.iter().any(|driver| *driver != ProfileDriver::Tcp)
            || grid.copies.is_some()
        {
            let mut copies = grid.copies.take().unwrap_or_else(Copies::usual);
            put(&mut copies.drivers, drivers);
            put(&mut copies.staging_bytes, self.staging.clone());
            put(&mut copies.stores, self.store.clone());
            put(&mut copies.orders, self.order.clone());
            grid.copies = Some(copies);
        } else if !self.store.is_empty() || !self.order.is_empty() {
            return Err(Error::new(
                Fault::You,
                ErrorCode::ProfileGrid,
                "bare streams have no store: --store and --order are of a mover",
            )
            .hint("give --staging 64MiB, or --channel tcp,tls"));
        }
        grid.set = self.set.unwrap_or(grid.set);
        grid.host_bps = self.host_rate.or(grid.host_bps);
        grid.seconds = self.seconds.unwrap_or(grid.seconds);
        if let Some(most) = self.repetitions {
            grid.repetitions =
                Repetitions { least: most.min(grid.repetitions.least), most, ..grid.repetitions };
        }
        grid.seed = self.seed.unwrap_or(grid.seed);
        Ok(grid)
    }
}

//! The document of a profile of RDMA: the grid, and every run of every cell, the modelled ones and
//! the measured ones each by themselves.

use super::between::MeasurementHosts;
use super::grid::{Measured, Model, VerbsCell, VerbsGrid, VerbsMetric};
use super::model::{MOST_PACKETS, MOST_READS, Messages, VerbsPath};
use super::reliable::{VerbsScenario, simulate};
use super::signal::Signal;
use crate::experiment::{
    CellJob, CellRuns, Document, Experiment, ExperimentRun, Repetitions, Resumption, Schedule,
    changes, read,
};
use crate::profile::document::ProfileKind;
use crate::statistics::Summary;
use crate::units::{Bytes, Error, Rate, Rng, Span};
use crate::wan::{Extension, LinkSettings};
use serde::{Deserialize, Serialize};

/// The name and version of the document.
pub const SCHEMA: &str = "farline/verbs/1";

/// Room at an extender beyond what its path holds; a Longbow's is not printed.
const LEAST_BUFFER: Bytes = Bytes::mib(4);

/// One run of one cell. Of a round trip only `round_trip_ns` says something, of a throughput
/// everything else.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VerbsRun {
    /// Which of the cell's runs it is, from 0.
    pub index: u32,
    /// Of its random choices.
    pub seed: u64,
    /// Payload per time.
    pub throughput_bps: Rate,
    /// From sending a message to having one back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_ns: Option<Span>,
    /// Packets sent more than once.
    pub again: u64,
    /// Packets lost on the way.
    pub lost: u64,
    /// How often nothing was acknowledged in time.
    pub timeouts: u64,
    /// Whether the connection was given up.
    pub broken: bool,
    /// Measured: what the senders of datagrams sent, as `throughput_bps` is what arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_bps: Option<Rate>,
    /// Measured: messages that count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<u64>,
    /// Measured: packets that the near device sent and the far one received, as they counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<(u64, u64)>,
    /// Measured: how long connecting took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect_ns: Option<Span>,
    /// Measured: why the run proves nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
}

impl ExperimentRun for VerbsRun {
    fn invalid(&self) -> Option<&str> {
        self.invalid.as_deref()
    }
}

/// A cell with its runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VerbsCellResult {
    /// Where it stands in the grid.
    pub cell: VerbsCell,
    /// By the model.
    pub modelled: Vec<VerbsRun>,
    /// Between two devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measured: Vec<VerbsRun>,
    /// How many of them ran before the profile [went on](VerbsProfile::goes_on_in).
    #[serde(skip)]
    earlier: usize,
}

impl VerbsCellResult {
    /// Runs of `kind`.
    pub fn runs(&self, kind: ProfileKind) -> &[VerbsRun] {
        match kind {
            ProfileKind::Modelled => &self.modelled,
            ProfileKind::Measured => &self.measured,
        }
    }

    /// What was measured of it, as its schedule sees it.
    fn ran(&self) -> CellRuns {
        let valid = self.measured.iter().filter(|run| run.invalid.is_none());
        CellRuns {
            valid: valid.map(|run| run.throughput_bps.as_bps() as f64).collect(),
            tried: self.measured.len() - self.earlier,
            earlier: self.earlier,
        }
    }

    /// The throughput of the valid runs of `kind` in Gbit/s, or their round-trip time in
    /// microseconds; `None` without one.
    pub fn summary(&self, kind: ProfileKind) -> Option<Summary> {
        let value = |run: &VerbsRun| match (self.cell.way, run.round_trip_ns) {
            (VerbsMetric::RoundTrip, span) => {
                span.map_or(f64::NAN, |span| span.as_nanos() as f64 / 1e3)
            }
            _ => run.throughput_bps.as_gbps(),
        };
        let valid = self.runs(kind).iter().filter(|run| run.invalid.is_none());
        Summary::of(&valid.map(value).collect::<Vec<_>>())
    }
}

/// A profile of RDMA: the document itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VerbsProfile {
    /// [`SCHEMA`].
    pub schema: String,
    /// Farline's version.
    pub farline: String,
    /// When it was made, as text: the core has no clock.
    pub date: String,
    /// What was asked for.
    pub grid: VerbsGrid,
    /// Where the measured runs were made, from the first on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between: Option<MeasurementHosts>,
    /// When and where it went on, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resumptions: Vec<Resumption<MeasurementHosts>>,
    /// Every cell, in the order of the grid's axes.
    pub cells: Vec<VerbsCellResult>,
}

impl Document for VerbsProfile {
    type Grid = VerbsGrid;
    const SCHEMA: &'static str = SCHEMA;
    const IS_INDENTED: bool = true;
    const WHAT: &'static str = "profile of RDMA";

    fn schema(&self) -> &str {
        &self.schema
    }

    fn grid(&self) -> &VerbsGrid {
        &self.grid
    }

    fn cells(&self) -> impl Iterator<Item = &VerbsCell> {
        self.cells.iter().map(|result| &result.cell)
    }

    fn schedule(&self) -> Schedule {
        let none = Schedule { repetitions: Repetitions::exactly(1), rounds: None };
        self.grid.measured.as_ref().map_or(none, Measured::schedule)
    }

    /// Of the cells that are measured, in the order of the axes: that of the paths, so that the
    /// wire is changed seldom.
    fn runs(&self) -> Vec<(usize, CellRuns)> {
        let measured = |(_, result): &(usize, &VerbsCellResult)| self.grid.measures(&result.cell);
        let all = self.cells.iter().enumerate().filter(measured);
        all.map(|(place, result)| (place, result.ran())).collect()
    }

    fn record(&mut self, job: &CellJob<VerbsCell>, run: VerbsRun) {
        if let Some(result) = self.cells.get_mut(job.place) {
            result.measured.push(run);
        }
    }
}

impl VerbsProfile {
    /// The profile of `grid` before its first run.
    pub fn new(grid: VerbsGrid, date: impl Into<String>) -> VerbsProfile {
        let empty =
            |cell| VerbsCellResult { cell, modelled: Vec::new(), measured: Vec::new(), earlier: 0 };
        VerbsProfile {
            schema: SCHEMA.to_owned(),
            farline: env!("CARGO_PKG_VERSION").to_owned(),
            date: date.into(),
            cells: grid.cells().into_iter().map(empty).collect(),
            between: None,
            resumptions: Vec::new(),
            grid,
        }
    }

    /// Reads a profile.
    ///
    /// # Errors
    /// As [`experiment::read`](crate::experiment::read).
    pub fn read(json: &str) -> Result<VerbsProfile, Error> {
        read(json)
    }

    /// The same profile, which goes on being measured on `date` between `hosts`, and keeps that:
    /// what was given up is tried again, as often as at first.
    #[must_use]
    pub fn goes_on_in(mut self, hosts: MeasurementHosts, date: impl Into<String>) -> VerbsProfile {
        self.cells.iter_mut().for_each(|result| result.earlier = result.measured.len());
        let runs = self.cells.iter().map(|result| result.measured.len()).sum();
        // Of what was modelled until now the first measured run is still to come.
        self.between.get_or_insert_with(|| hosts.clone());
        self.resumptions.push(Resumption::new(date.into(), hosts, runs));
        self
    }

    /// What was not the same in all measured runs, a sentence for each resumption in which
    /// something changed.
    pub fn changes(&self) -> Vec<String> {
        let began = self.between.as_ref();
        began.map_or_else(Vec::new, |began| {
            changes(&self.farline, began, &self.resumptions, MeasurementHosts::facts)
        })
    }

    /// Runs the model, one cell after the other.
    pub fn model(&mut self) {
        for result in &mut self.cells {
            result.modelled = modelled(&self.grid, &result.cell);
        }
    }

    /// The mean of the runs of `kind` of the first cell that `of` takes, as
    /// [`VerbsCellResult::summary`] has it.
    pub fn summary(&self, kind: ProfileKind, of: impl Fn(&VerbsCell) -> bool) -> Option<Summary> {
        self.cells.iter().find(|result| of(&result.cell))?.summary(kind)
    }
}

/// Every run of `cell` by the grid's model.
pub fn modelled(grid: &VerbsGrid, cell: &VerbsCell) -> Vec<VerbsRun> {
    let run = |index| one(grid, cell, index, grid.seed_of(cell, index as usize));
    (0..grid.repetitions).map(run).collect()
}

fn one(grid: &VerbsGrid, cell: &VerbsCell, index: u32, seed: u64) -> VerbsRun {
    let mut rng = Rng::new(seed);
    let jitter = grid.jitter_ns.as_secs_f64() * rng.normal();
    let rtt = Span::from_secs_f64((cell.path.rtt_ns.as_secs_f64() + jitter).max(0.0));
    let messages = Messages {
        size: cell.size_bytes,
        count: grid.messages,
        depth: grid.depth,
        queue_pairs: cell.queue_pairs,
        packets: MOST_PACKETS,
    };
    let run = VerbsRun { index, seed, ..VerbsRun::default() };
    // Only SC08's hosts are known to be slower than their ports, which were SDR.
    let host = grid.host_bps.filter(|_| cell.signal == Signal::Sdr);
    // Of a measured cell too the model is that of a card with such a port.
    let messages_per_s = cell.signal.adapter().map(|adapter| adapter.messages_per_s);
    if grid.model == Model::Packets {
        let outcome = simulate(&VerbsScenario {
            messages,
            mtu: grid.mtu_bytes,
            host: host.unwrap_or(cell.signal.data_rate()),
            way: way(cell, rtt),
            cross: cell.cross_bps,
            messages_per_s,
            // A device takes between one and four times what it was told.
            timeout: cell.setup.timeout().mul_f64(1.0 + 3.0 * rng.unit()),
            most: Span::from_secs_f64(grid.most_s),
            seed,
        });
        return VerbsRun {
            throughput_bps: outcome.throughput,
            again: outcome.again,
            lost: outcome.lost,
            timeouts: outcome.timeouts,
            broken: outcome.broken,
            ..run
        };
    }
    let line = VerbsPath {
        signal: cell.signal,
        host,
        mtu: grid.mtu_bytes,
        rtt,
        credits: cell.credits_bytes,
        messages_per_s,
    };
    use super::grid::QpService::{Rc, Read, Ud};
    let reads = Messages { depth: messages.depth.min(MOST_READS), ..messages };
    let throughput_bps = match (cell.transport, cell.way) {
        (_, VerbsMetric::RoundTrip) => {
            return VerbsRun { round_trip_ns: Some(messages.round_trip(&line)), ..run };
        }
        (Rc, VerbsMetric::OneWay) => messages.reliable(&line),
        (Rc, VerbsMetric::BothWays) => messages.reliable_both_ways(&line),
        (Read, VerbsMetric::OneWay) => reads.reliable(&line),
        (Read, VerbsMetric::BothWays) => reads.reliable_both_ways(&line),
        (Ud, VerbsMetric::OneWay) => messages.unreliable(&line).unwrap_or_default(),
        (Ud, VerbsMetric::BothWays) => {
            Rate::from_bps(2 * messages.unreliable(&line).unwrap_or_default().as_bps())
        }
    };
    VerbsRun { throughput_bps, ..run }
}

/// The extenders and the long haul of `cell`, on which a round trip takes `rtt`.
fn way(cell: &VerbsCell, rtt: Span) -> Extension {
    let mut way = Extension::over(
        &LinkSettings::new(cell.path.rate_bps, rtt),
        cell.signal.data_rate(),
        LEAST_BUFFER,
    );
    way.haul.queue = cell.queue_bytes.unwrap_or(cell.path.queue_bytes);
    way.buffer = cell.credits_bytes.unwrap_or(way.buffer);
    way
}

#[cfg(test)]
#[path = "document_tests.rs"]
mod tests;

//! What a profile of RDMA varies: path, ports, transport, direction, way of connecting, message
//! size, queue pairs, credits, other traffic.

pub use super::kinds::{QpService, Setup, VerbsMetric};
use super::signal::Signal;
use crate::experiment::{CellName, Form, Repetitions, Schedule};
use crate::profile::cell::PathPoint;
use crate::units::{Bytes, Rate, Span};
use serde::{Deserialize, Serialize};

/// Messages that a run of the largest ones has at least: with one alone nothing is ever on its way
/// behind another.
const LEAST_MESSAGES: u64 = 4;

/// Which model makes a grid's figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// [`Messages`](super::Messages): what can be said without looking at single packets.
    #[default]
    ClosedForm,
    /// [`simulate`](super::simulate): each packet, where packets are lost or waited for in vain.
    Packets,
}

/// One point of the grid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VerbsCell {
    /// The path.
    pub path: PathPoint,
    /// The ports at its ends.
    pub signal: Signal,
    /// How messages travel.
    pub transport: QpService,
    /// Which way.
    pub way: VerbsMetric,
    /// How the connection was made.
    pub setup: Setup,
    /// Payload of a message.
    pub size_bytes: Bytes,
    /// Connections side by side.
    pub queue_pairs: u64,
    /// What the link is promised room for; `None` with range extenders, which promise more than it
    /// holds.
    pub credits_bytes: Option<Bytes>,
    /// Other traffic on the long haul.
    pub cross_bps: Rate,
    /// The queue that both share before it; `None` for the path's own, which holds what extenders
    /// promise.
    pub queue_bytes: Option<Bytes>,
}

impl VerbsCell {
    /// The cell in one line, the same in every document: `usn-8600 RC one way 8 MiB`, with what
    /// differs from the usual after it.
    pub fn name(&self) -> String {
        let (transport, way) = (self.transport.name(), self.way.name());
        let pairs = (self.queue_pairs != 1).then(|| format!("{} queue pairs", self.queue_pairs));
        CellName::new(format!("{} {transport} {way} {}", self.path.name, self.size_bytes))
            .with(" ", (self.signal != Signal::default()).then(|| self.signal.name()))
            .with(" ", (self.setup != Setup::default()).then(|| self.setup.name()))
            .with(" ", pairs)
            .with(" credits ", self.credits_bytes)
            .with(" cross ", Some(self.cross_bps).filter(|cross| *cross > Rate::default()))
            .with(" queue ", self.queue_bytes)
            .whole()
    }
}

/// How much of a grid is measured, and how large a run is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Message sizes; of others there is the model alone.
    pub sizes_bytes: Vec<Bytes>,
    /// The most messages of a run...
    pub messages: u64,
    /// ...and the most payload: of large messages there are fewer.
    pub most_bytes: Bytes,
    /// What is not acknowledged after so long counts no more.
    pub most_s: f64,
    /// How often each cell is measured.
    pub repetitions: u32,
    /// By what SC08's rates, queues and message sizes are divided, so that software carries them,
    /// and what was measured multiplied again; `None` where the devices' own rates are asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub divided_by: Option<u64>,
}

impl Measured {
    /// Messages of a run of this size.
    pub(super) fn messages_of(&self, size: Bytes) -> u64 {
        (self.most_bytes.0 / size.0.max(1)).max(LEAST_MESSAGES).min(self.messages.max(1))
    }

    /// One cell after the other, so that the wire is changed seldom.
    pub(super) fn schedule(&self) -> Schedule {
        Schedule { repetitions: Repetitions::exactly(self.repetitions.max(1)), rounds: None }
    }
}

/// The axes of a profile of RDMA, and how a cell is run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VerbsGrid {
    /// The preset's name.
    pub name: String,
    /// Which form of it.
    pub form: Form,
    /// What makes modelled figures.
    pub model: Model,
    /// Paths.
    pub paths: Vec<PathPoint>,
    /// Ports.
    pub signals: Vec<Signal>,
    /// How messages travel.
    pub transports: Vec<QpService>,
    /// Which way.
    pub ways: Vec<VerbsMetric>,
    /// How connections are made.
    pub setups: Vec<Setup>,
    /// Payloads of a message.
    pub sizes_bytes: Vec<Bytes>,
    /// Connections side by side.
    pub queue_pairs: Vec<u64>,
    /// Promises of room; `None` for those of range extenders.
    pub credits_bytes: Vec<Option<Bytes>>,
    /// Other traffic.
    pub cross_bps: Vec<Rate>,
    /// Queues before the long haul; `None` for the paths' own.
    pub queues_bytes: Vec<Option<Bytes>>,
    /// Messages of a run.
    pub messages: u64,
    /// Messages of one connection that may be unacknowledged.
    pub depth: u64,
    /// Payload of a full packet.
    pub mtu_bytes: Bytes,
    /// The most of payload that an SDR host carries each way; `None` where its port is the limit.
    pub host_bps: Option<Rate>,
    /// The standard deviation of the round-trip time from run to run.
    pub jitter_ns: Span,
    /// How often each cell is run.
    pub repetitions: u32,
    /// The longest run in virtual time; what was acknowledged until then counts.
    pub most_s: f64,
    /// Of every random choice.
    pub seed: u64,
    /// What of it is measured, and how; `None` where there is the model alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
}

impl VerbsGrid {
    /// A grid of one cell for each path and size: SDR ports with extenders, `ib_rdma_bw`'s queue
    /// and count, one run.
    pub fn new(
        name: &str,
        form: Form,
        paths: Vec<PathPoint>,
        sizes_bytes: Vec<Bytes>,
    ) -> VerbsGrid {
        VerbsGrid {
            name: name.to_owned(),
            form,
            model: Model::default(),
            paths,
            signals: vec![Signal::Sdr],
            transports: vec![QpService::Rc],
            ways: vec![VerbsMetric::OneWay],
            setups: vec![Setup::Cm],
            sizes_bytes,
            queue_pairs: vec![1],
            credits_bytes: vec![None],
            cross_bps: vec![Rate::default()],
            queues_bytes: vec![None],
            messages: 1_000,
            depth: 100,
            mtu_bytes: Bytes(2_048),
            host_bps: None,
            jitter_ns: Span::ZERO,
            repetitions: 1,
            most_s: 120.0,
            seed: 1,
            measured: None,
        }
    }

    /// Whether runs of `cell` are measured: sizes as said, and of ports and credits the devices'
    /// own, which stand for the first of the axes. A device in software hands a message over in one
    /// burst, which a queue must hold: a port's own pace would not fill it.
    pub(super) fn measures(&self, cell: &VerbsCell) -> bool {
        self.measured.as_ref().is_some_and(|measured| {
            measured.sizes_bytes.contains(&cell.size_bytes)
                && self.signals.first() == Some(&cell.signal)
                && self.credits_bytes.first() == Some(&cell.credits_bytes)
                && match measured.divided_by {
                    Some(_) => cell.size_bytes <= cell.queue_bytes.unwrap_or(cell.path.queue_bytes),
                    None => cell.cross_bps == Rate::default() && cell.queue_bytes.is_none(),
                }
        })
    }
}

//! Copies that are held back on purpose, each by one thing, to see whether `farline cp` names it.

mod copies;
mod foreign;
mod table;

pub use copies::run;
pub use foreign::{ForeignLoad, MachineUse};
pub use table::causes;

/// Which way a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataDirection {
    /// From here to the node.
    Out,
    /// From the node to here.
    Back,
    /// From a node next to whoever asks to the other, straight.
    Between,
}

/// How a copy is held back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Means {
    /// By options of `farline cp`.
    Options(&'static [&'static str]),
    /// By options of `farline serve`; of the node that receives where there are two.
    NodeOptions(&'static [&'static str]),
    /// By options of the node that sends to another.
    SenderOptions(&'static [&'static str]),
    /// By the end of the node for so many seconds, one after the copy began.
    NodeAway(u64),
    /// By the receiver's largest buffer, in bytes, in the namespace that receives.
    Buffer(u64),
    /// By nothing but the path and the size.
    Path,
    /// By a program before standard input that gives so many bytes a second.
    Feeder(u64),
    /// By a program behind standard output that takes so many.
    Taker(u64),
    /// By other work of so many threads on the one processor that `farline cp` may use, at this
    /// niceness of its own.
    Neighbours(usize),
    /// The same for the node's processor.
    NodesNeighbours(usize),
}

/// A copy, what holds it back, and what should be said of it.
#[derive(Clone, Debug)]
pub struct Cause {
    /// The name that `limited_by` should have.
    pub limit: &'static str,
    /// The name that `limited_party` should have.
    pub party: &'static str,
    /// How strong, from 0, the weakest.
    pub strength: usize,
    /// The link's arguments; loopback when empty.
    pub link: Vec<String>,
    /// Which way.
    pub way: DataDirection,
    /// Bytes.
    pub size: u64,
    /// What holds it back.
    pub means: Means,
}

impl Cause {
    /// Where it is brought about, as the matrix has it.
    pub fn place(&self) -> &'static str {
        match self.way {
            DataDirection::Between => "link, two nodes",
            _ if self.link.is_empty() => "loopback",
            _ => "link",
        }
    }

    /// Whether it needs a processor for the client alone, and one for the node.
    pub fn is_pinned(&self) -> bool {
        matches!(self.means, Means::Neighbours(_) | Means::NodesNeighbours(_))
    }
}

/// What was said of one copy.
#[derive(Clone, Debug)]
pub struct Said {
    /// `limited_by`.
    pub limit: String,
    /// `limited_party`.
    pub party: String,
    /// `limited_evidence`.
    pub evidence: String,
    /// How long it took.
    pub seconds: f64,
    /// What others took of this machine meanwhile.
    pub others: ForeignLoad,
}

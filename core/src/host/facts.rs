//! What can be read of a host, and the path that it is to be fit for.

use crate::congestion::ControlName;
use crate::units::{Bytes, Rate, Span};
use serde::Serialize;

/// What was read. `None` and empty mean that it could not be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HostFacts {
    /// Processors that this process may use.
    pub processors: usize,
    /// The frequency governors in use, each once; empty where the processor's speed is not this
    /// system's to choose.
    pub governors: Vec<String>,
    /// `net.ipv4.tcp_rmem`: least, initial and largest receive buffer.
    pub tcp_rmem: Option<[Bytes; 3]>,
    /// `net.ipv4.tcp_wmem`: the same for sending.
    pub tcp_wmem: Option<[Bytes; 3]>,
    /// `net.core.rmem_max`: the largest receive buffer that a program may fix.
    pub rmem_max: Option<Bytes>,
    /// `net.core.wmem_max`: the same for sending.
    pub wmem_max: Option<Bytes>,
    /// `net.ipv4.tcp_mem`, its third number, in bytes: what all TCP buffers of the host may take.
    pub tcp_mem: Option<Bytes>,
    /// `net.ipv4.tcp_window_scaling`.
    pub window_scaling: Option<bool>,
    /// `net.ipv4.tcp_sack`.
    pub sack: Option<bool>,
    /// `net.ipv4.tcp_slow_start_after_idle`.
    pub slow_start_after_idle: Option<bool>,
    /// `net.ipv4.tcp_mtu_probing`: 0 never, 1 after a black hole, 2 always.
    pub mtu_probing: Option<u8>,
    /// `net.core.default_qdisc`.
    pub default_qdisc: Option<String>,
    /// `net.ipv4.tcp_congestion_control`.
    pub congestion: Option<ControlName>,
    /// `net.ipv4.tcp_available_congestion_control`.
    pub congestion_available: Vec<ControlName>,
    /// The network interfaces that are up, without the loopback; only the one towards the other
    /// host when there is one.
    pub interfaces: Vec<Interface>,
    /// How much memory this process may lock; absent when unlimited or unknown.
    pub memlock: Option<Bytes>,
    /// The clock.
    pub clock: Option<Clock>,
    /// How fast a directory is.
    pub disk: Option<Disk>,
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// The largest packet, in bytes.
    pub mtu: Option<u32>,
    /// What the hardware says of its rate; virtual ones say nothing.
    pub rate: Option<Rate>,
    /// Names of offloads that are off.
    pub offloads_off: Vec<String>,
    /// Its receive and its send ring.
    pub rings: Option<[Ring; 2]>,
    /// How many interrupts of it each processor took since boot; empty when they bear other names.
    pub interrupts: Vec<u64>,
    /// Its interrupt lines: one a queue, most often.
    pub interrupt_lines: usize,
}

/// A ring of packet descriptors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ring {
    /// Entries now.
    pub now: u32,
    /// Entries at most.
    pub most: u32,
}

/// What the kernel says of its clock (`adjtimex(2)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Clock {
    /// Whether something disciplines it.
    pub synchronised: bool,
    /// How far off it may be.
    pub error: Span,
}

/// A short test of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Disk {
    /// The directory.
    pub path: String,
    /// Whether the page cache was out of the way.
    pub direct: bool,
    /// Writing, the fsync at the end included.
    pub write: Speed,
    /// Reading back.
    pub read: Speed,
}

/// Bytes over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Speed {
    /// How much was moved.
    pub bytes: Bytes,
    /// The rate.
    pub rate: Rate,
}

/// The path that the host is judged for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PathFacts {
    /// Its round-trip time.
    pub rtt: Span,
    /// Its rate, as far as this host's interface tells.
    pub rate: Rate,
    /// Whether the rtt was measured; assumed otherwise.
    pub measured: bool,
    /// Whether the rate was read from an interface; assumed otherwise.
    pub rate_known: bool,
}

impl PathFacts {
    /// The bytes that it holds.
    pub fn product(&self) -> Bytes {
        self.rate.bytes_in(self.rtt)
    }
}

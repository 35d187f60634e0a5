//! Between what a profile of RDMA was measured: two devices, and what the wire between them is made
//! to do.

use super::grid::{VerbsCell, VerbsGrid};
use crate::units::{Bytes, Rate};
use serde::{Deserialize, Serialize};

/// A device at one end of what was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// Its name, such as `mlx5_0`.
    pub name: String,
    /// The address by which it was found.
    pub address: String,
    /// Whether it is software over an Ethernet device (rxe, siw), whose rates say nothing of a
    /// card.
    pub software: bool,
}

/// Where the measured runs were made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasurementHosts {
    /// Who sends.
    pub near: Device,
    /// Who receives.
    pub far: Device,
    /// The machine's name.
    pub host: Option<String>,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// Processors.
    pub cpus: Option<u32>,
}

/// What the wire is made to do for a run: by a queue and a rate before the distance, which other
/// traffic shares.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bottleneck {
    /// Of the wire, headers included.
    pub rate_bps: Rate,
    /// Room before it.
    pub queue_bytes: Bytes,
    /// Other traffic that wants in.
    pub cross_bps: Rate,
    /// The most that the sender offers, as the host that it stands for.
    pub host_bps: Option<Rate>,
}

/// The long haul of `cell` with rates and queues divided by `by`; the round-trip time stays, so a
/// queue holds as long as before.
pub(super) fn bottleneck(grid: &VerbsGrid, cell: &VerbsCell, by: u64) -> Bottleneck {
    let divided = |rate: Rate| Rate::from_bps(rate.as_bps() / by.max(1));
    Bottleneck {
        rate_bps: divided(cell.path.rate_bps),
        queue_bytes: Bytes(cell.queue_bytes.unwrap_or(cell.path.queue_bytes).0 / by.max(1)),
        cross_bps: divided(cell.cross_bps),
        host_bps: grid.host_bps.map(divided),
    }
}

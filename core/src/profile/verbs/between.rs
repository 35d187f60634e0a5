//! Between what a profile of RDMA was measured: two devices, and what the wire between them is made
//! to do.

use crate::experiment::{EnvironmentFacts, facts};
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

impl MeasurementHosts {
    /// What may change while it stays the same profile.
    pub(super) fn facts(&self) -> EnvironmentFacts {
        let device = |device: &Device| Some(format!("{} at {}", device.name, device.address));
        facts([
            ("near device", device(&self.near)),
            ("far device", device(&self.far)),
            ("host", self.host.clone()),
            ("kernel", self.kernel.clone()),
            ("processors", self.cpus.map(|cpus| cpus.to_string())),
        ])
    }
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

//! What the papers print of RDMA over distance, to stand next to the model: what
//! `presets/rdma.toml` has under `printed`.

use super::grid::{QpService, Setup, VerbsCell, VerbsMetric};
use super::presets::FILE;
use super::signal::Signal;
use crate::units::{Bytes, Rate};
use serde::Deserialize;
use std::sync::LazyLock;

/// SC08's InfiniBand over one length: 8 MiB messages (USN slides; SC08, section IV.C and figure 7).
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct VerbsSc08 {
    /// The path, by its name here.
    pub path: String,
    /// Miles of fibre.
    pub miles: f64,
    /// Mean of ten repetitions over SONET, in Gbit/s.
    pub gbps: f64,
    /// Their standard deviation in Mbit/s.
    pub sd_mbps: f64,
    /// Decrease per mile in Mbit/s; none for the base length.
    pub dpm_mbps: Option<f64>,
    /// The mean over 10GigE WAN-PHY, in Gbit/s.
    pub wan_phy_gbps: f64,
}

/// USN's throughput over one length next to other traffic (USN slides; SC08, section IV.D).
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct VerbsCross {
    /// UDP.
    pub cross_bps: Rate,
    /// The path, by its name here.
    pub path: String,
    /// 8 MiB messages, in Gbit/s.
    pub gbps: f64,
}

/// All that the papers print.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct VerbsFigures {
    /// SC08's table, the base length first.
    pub sc08: Vec<VerbsSc08>,
    /// USN's rows of cross-traffic.
    pub sc08_cross: Vec<VerbsCross>,
    /// ICPP08, section 3.2: the peak of datagrams, in 10^6 bytes a second, for messages of 2 KiB at
    /// every delay.
    pub icpp08_datagrams: f64,
    /// And of reliable connections, for large messages at every delay.
    pub icpp08_reliable: f64,
}

/// The papers' figures.
pub static FIGURES: LazyLock<VerbsFigures> =
    LazyLock::new(|| FILE.section("printed").unwrap_or_default());

/// What SC08's hosts and extenders carried of payload over the base length, where distance plays no
/// part.
pub fn sc08_base() -> Rate {
    let gbps = FIGURES.sc08.first().map_or(0.0, |row| row.gbps);
    Rate::from_bps((gbps * 1e9).round() as u64)
}

/// SC08's row for the path called `path`.
pub fn sc08(path: &str) -> Option<&'static VerbsSc08> {
    FIGURES.sc08.iter().find(|row| row.path == path)
}

/// USN's throughput over `path` next to `cross` of other traffic, in Gbit/s; up to 1 Gbit/s it is
/// that of the WAN-PHY table, "unaffected".
pub fn sc08_cross(path: &str, cross: Rate) -> Option<f64> {
    if cross <= Rate::from_bps(1_000_000_000) {
        return sc08(path).map(|row| row.wan_phy_gbps);
    }
    let here = |row: &&VerbsCross| row.cross_bps == cross && row.path == path;
    FIGURES.sc08_cross.iter().find(here).map(|row| row.gbps)
}

/// What the preset's paper prints for `cell`, in Gbit/s of payload; `None` where it prints nothing.
pub fn of(preset: &str, cell: &VerbsCell) -> Option<f64> {
    let plain = (cell.signal, cell.setup, cell.credits_bytes) == (Signal::Sdr, Setup::Cm, None)
        && cell.way == VerbsMetric::OneWay;
    let sc08s = plain && cell.size_bytes == Bytes::mib(8) && cell.queue_pairs == 1;
    match preset {
        "sc08-ib-distance" | "sc08-ib-stability" | "sc08-cm" if sc08s => {
            sc08(&cell.path.name).map(|row| row.gbps)
        }
        "sc08-ib-cross-traffic" if sc08s => sc08_cross(&cell.path.name, cell.cross_bps),
        "icpp08-verbs" if plain => match (cell.transport, cell.size_bytes) {
            (QpService::Ud, Bytes(2_048)) => Some(FIGURES.icpp08_datagrams * 8e-3),
            (QpService::Rc, size) if size >= Bytes::mib(4) => Some(FIGURES.icpp08_reliable * 8e-3),
            _ => None,
        },
        _ => None,
    }
}

//! What the papers print of RDMA over distance, to stand beside the model.

use super::grid::{QpService, Setup, VerbsCell, VerbsMetric};
use super::signal::Signal;
use crate::units::{Bytes, Rate};

/// SC08's InfiniBand over one length: 8 MiB messages (USN slides; SC08, section IV.C and figure 7).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VerbsSc08 {
    /// The path, by its name here.
    pub path: &'static str,
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

const fn row(
    path: &'static str,
    miles: f64,
    gbps: f64,
    sd_mbps: f64,
    dpm_mbps: Option<f64>,
    wan_phy_gbps: f64,
) -> VerbsSc08 {
    VerbsSc08 { path, miles, gbps, sd_mbps, dpm_mbps, wan_phy_gbps }
}

/// SC08's table, the base length first.
pub const SC08: [VerbsSc08; 4] = [
    row("usn-0.2", 0.2, 7.48, 45.27, None, 7.5),
    row("usn-1400", 1_400.0, 7.47, 0.07, Some(0.012), 7.49),
    row("usn-6600", 6_600.0, 7.37, 0.09, Some(0.017), 7.39),
    row("usn-8600", 8_600.0, 7.34, 0.07, Some(0.016), 7.36),
];

/// What SC08's hosts and extenders carried of payload over the base length, where distance plays no
/// part. Their tool prints "MB" of 2^20 bytes (perftest, rdma_bw.c); if the paper's Gbit/s are
/// 8/1000 of those, they are 7.84 of 10^9, within 0.5 % of ICPP08's 984 MB/s over the same
/// extenders.
pub const SC08_BASE: Rate = Rate::from_bps(7_480_000_000);

/// USN's rows of cross-traffic: Gbit/s of UDP, and Gbit/s of 8 MiB messages over 1400, 6600 and
/// 8600 miles. The slide prints three values without their lengths; that the last is 8600 miles is
/// in SC08, section IV.D, the others are in the order of its other tables.
pub const SC08_CROSS: [(u64, [(&str, f64); 3]); 2] = [
    (3, [("usn-1400", 3.25), ("usn-6600", 1.97), ("usn-8600", 1.02)]),
    (4, [("usn-1400", 2.91), ("usn-6600", 1.82), ("usn-8600", 0.96)]),
];

/// ICPP08, section 3.2: the peak of datagrams, in 10^6 bytes a second, for messages of 2 KiB at
/// every delay.
pub const ICPP08_DATAGRAMS: f64 = 967.0;
/// And of reliable connections, for large messages at every delay.
pub const ICPP08_RELIABLE: f64 = 984.0;

/// SC08's row for the path called `path`.
pub fn sc08(path: &str) -> Option<&'static VerbsSc08> {
    SC08.iter().find(|row| row.path == path)
}

/// USN's throughput over `path` beside `cross` of other traffic, in Gbit/s; up to 1 Gbit/s it is
/// that of the WAN-PHY table, "unaffected".
pub fn sc08_cross(path: &str, cross: Rate) -> Option<f64> {
    if cross <= Rate::from_bps(1_000_000_000) {
        return sc08(path).map(|row| row.wan_phy_gbps);
    }
    let (_, row) = SC08_CROSS.iter().find(|(gbit, _)| gbit * 1_000_000_000 == cross.as_bps())?;
    row.iter().find(|(name, _)| *name == path).map(|(_, gbps)| *gbps)
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
            (QpService::Ud, Bytes(2_048)) => Some(ICPP08_DATAGRAMS * 8e-3),
            (QpService::Rc, size) if size >= Bytes::mib(4) => Some(ICPP08_RELIABLE * 8e-3),
            _ => None,
        },
        _ => None,
    }
}

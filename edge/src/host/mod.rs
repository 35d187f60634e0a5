//! Reads what [`farline_core::host`] judges: this host's kernel, interfaces and clock, and how fast
//! a directory is.

mod disk;
mod interfaces;

pub use disk::measure;

use crate::sys::clock::discipline;
use farline_core::host::{Clock, HostFacts};
use farline_core::units::Bytes;
use std::net::IpAddr;
use std::str::FromStr;

/// Reads everything but the disk. With `local` only the interface of that address is looked at: the
/// one towards a peer.
pub fn facts(local: Option<IpAddr>) -> HostFacts {
    let memlock = rustix::process::getrlimit(rustix::process::Resource::Memlock);
    HostFacts {
        processors: std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
        governors: governors(),
        tcp_rmem: three("ipv4/tcp_rmem"),
        tcp_wmem: three("ipv4/tcp_wmem"),
        rmem_max: number("core/rmem_max").map(Bytes),
        wmem_max: number("core/wmem_max").map(Bytes),
        tcp_mem: numbers("ipv4/tcp_mem")
            .get(2)
            .map(|pages| Bytes(pages.saturating_mul(rustix::param::page_size() as u64))),
        window_scaling: number("ipv4/tcp_window_scaling").map(|on: u64| on != 0),
        sack: number("ipv4/tcp_sack").map(|on: u64| on != 0),
        slow_start_after_idle: number("ipv4/tcp_slow_start_after_idle").map(|on: u64| on != 0),
        mtu_probing: number("ipv4/tcp_mtu_probing"),
        default_qdisc: sysctl("core/default_qdisc"),
        congestion: sysctl("ipv4/tcp_congestion_control").and_then(|name| name.parse().ok()),
        congestion_available: sysctl("ipv4/tcp_available_congestion_control")
            .map(|names| names.split_whitespace().filter_map(|name| name.parse().ok()).collect())
            .unwrap_or_default(),
        interfaces: interfaces::read(local),
        memlock: memlock.current.map(Bytes),
        clock: discipline().ok().map(|(synchronised, error)| Clock { synchronised, error }),
        disk: None,
    }
}

fn sysctl(name: &str) -> Option<String> {
    text(&format!("/proc/sys/net/{name}"))
}

/// A file's content without the blanks around it.
fn text(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn number<T: FromStr>(name: &str) -> Option<T> {
    sysctl(name)?.parse().ok()
}

fn numbers(name: &str) -> Vec<u64> {
    sysctl(name)
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|text| text.parse().ok())
        .collect()
}

fn three(name: &str) -> Option<[Bytes; 3]> {
    <[u64; 3]>::try_from(numbers(name)).ok().map(|three| three.map(Bytes))
}

fn governors() -> Vec<String> {
    let Ok(folder) = std::fs::read_dir("/sys/devices/system/cpu") else { return Vec::new() };
    let paths = folder.flatten().map(|item| item.path().join("cpufreq/scaling_governor"));
    let mut found: Vec<String> = paths.filter_map(|path| text(path.to_str()?)).collect();
    found.sort();
    found.dedup();
    found
}

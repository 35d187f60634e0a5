//! What of this machine a measurement's document says.

use farline_core::profile::Environment;
use std::fs;

/// What of this machine matters to a measurement.
pub fn environment() -> Environment {
    let read = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let names = [
        "net/ipv4/tcp_rmem",
        "net/ipv4/tcp_wmem",
        "net/core/rmem_max",
        "net/core/wmem_max",
        "net/ipv4/tcp_no_metrics_save",
    ];
    let setting = |name: &&str| Some((name.replace('/', "."), read(&format!("/proc/sys/{name}"))?));
    Environment {
        node: None,
        host: read("/proc/sys/kernel/hostname"),
        kernel: read("/proc/sys/kernel/osrelease"),
        cpus: std::thread::available_parallelism()
            .ok()
            .and_then(|count| u32::try_from(count.get()).ok()),
        settings: names.iter().filter_map(setting).collect(),
    }
}

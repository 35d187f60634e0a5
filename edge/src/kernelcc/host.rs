//! What this host's kernel offers and what it lets this process do.

use farline_core::congestion::ControlName;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const SETTINGS: &str = "/proc/sys/net/ipv4";

/// include/uapi/linux/capability.h
const CAP_SYS_MODULE: u32 = 16;

/// The congestion controls that are registered with this kernel, however they came there.
pub fn available() -> Vec<ControlName> {
    words("tcp_available_congestion_control")
}

/// Those that a process without privilege may choose.
pub(super) fn allowed() -> Vec<ControlName> {
    words("tcp_allowed_congestion_control")
}

/// The congestion control that new sockets of this network namespace get.
pub fn default_control() -> Option<ControlName> {
    words("tcp_congestion_control").pop()
}

fn words(setting: &str) -> Vec<ControlName> {
    let text = fs::read_to_string(Path::new(SETTINGS).join(setting)).unwrap_or_default();
    text.split_whitespace().filter_map(|name| name.parse().ok()).collect()
}

/// Whether `name` comes from a loaded kernel module.
pub(super) fn is_module(name: ControlName) -> bool {
    // Built-in code that has parameters has a folder too, but no state.
    Path::new("/sys/module").join(format!("tcp_{name}")).join("initstate").exists()
}

/// Asks for the kernel module of `name`; returns whether the control is there now.
pub(super) fn probe_module(name: ControlName) -> bool {
    if !capable(CAP_SYS_MODULE) {
        return false;
    }
    modprobe(&["-q", &format!("tcp_{name}")]);
    available().contains(&name)
}

/// Gives a module back to the kernel, which keeps it while a socket uses it.
pub(super) fn remove_module(name: ControlName) {
    modprobe(&["-q", "-r", &format!("tcp_{name}")]);
}

fn modprobe(arguments: &[&str]) {
    // Not on every user's PATH in Debian, also not on root's under sudo.
    for program in ["/usr/sbin/modprobe", "/sbin/modprobe", "modprobe"] {
        let mut command = Command::new(program);
        let command = command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if command.status().is_ok() {
            return;
        }
    }
}

/// Whether this process has a capability, by its number.
pub(super) fn capable(capability: u32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or(0);
    bits & (1 << capability) != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use farline_core::congestion::Algorithm;

    #[test]
    fn reno_is_everywhere_and_the_default_is_available() {
        let available = available();
        assert!(available.contains(&Algorithm::Reno.into()), "{available:?}");
        assert!(default_control().is_some());
        assert!(!is_module(Algorithm::Reno.into()), "Reno is never a module");
    }
}

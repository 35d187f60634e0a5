//! What this host's kernel offers and what it lets this process do.

use farline_core::units::{Error, ErrorCode, Fault};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const SETTINGS: &str = "/proc/sys/net/ipv4";

/// The kernel's TCP_CA_NAME_MAX, less the final zero.
pub(super) const LONGEST_NAME: usize = 15;

/// include/uapi/linux/capability.h
const CAP_SYS_MODULE: u32 = 16;

/// The congestion controls that are registered with this kernel, however they came there.
pub fn available() -> Vec<String> {
    words("tcp_available_congestion_control")
}

/// Those that a process without privilege may choose.
pub(super) fn allowed() -> Vec<String> {
    words("tcp_allowed_congestion_control")
}

/// The congestion control that new sockets of this network namespace get.
pub fn default_control() -> String {
    words("tcp_congestion_control").pop().unwrap_or_default()
}

fn words(setting: &str) -> Vec<String> {
    let text = fs::read_to_string(Path::new(SETTINGS).join(setting)).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// Whether `name` comes from a loaded kernel module.
pub(super) fn is_module(name: &str) -> bool {
    // Built-in code that has parameters has a folder too, but no state.
    Path::new("/sys/module").join(format!("tcp_{name}")).join("initstate").exists()
}

/// Asks for the kernel module of `name`; returns whether the control is there now.
pub(super) fn probe_module(name: &str) -> bool {
    if !capable(CAP_SYS_MODULE) {
        return false;
    }
    modprobe(&["-q", &format!("tcp_{name}")]);
    available().iter().any(|have| have == name)
}

/// Gives a module back to the kernel, which keeps it while a socket uses it.
pub(super) fn remove_module(name: &str) {
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

/// Refuses a name that the kernel would refuse, in words that say why.
pub(super) fn check_name(name: &str) -> Result<(), Error> {
    let wrong = |why: String| {
        Err(Error::new(Fault::You, ErrorCode::CongestionName, why)
            .hint("up to 15 letters, digits, `_` and `.`, for example --as my_htcp"))
    };
    if name.len() > LONGEST_NAME {
        return wrong(format!(
            "`{name}` has {} characters: a congestion control's name has at most {LONGEST_NAME}",
            name.len()
        ));
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    if name.is_empty() || !name.chars().all(fits) {
        return wrong(format!("`{name}` cannot be the name of a congestion control"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_16_characters_is_refused_before_the_kernel_does() {
        assert!(check_name("fifteen_letters").is_ok());
        let error = check_name("sixteen_letters_").expect_err("one too many");
        assert!(error.message.contains("has 16 characters"), "{error}");
        for wrong in ["", "h-tcp", "h tcp", "ä"] {
            assert_eq!(check_name(wrong).expect_err(wrong).code, ErrorCode::CongestionName);
        }
    }

    #[test]
    fn reno_is_everywhere_and_the_default_is_available() {
        let available = available();
        assert!(available.iter().any(|name| name == "reno"), "{available:?}");
        assert!(!default_control().is_empty());
        assert!(!is_module("reno"), "Reno is never a module");
    }
}

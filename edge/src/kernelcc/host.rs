//! What this host's kernel offers and what it lets this process do.

use farline_core::units::{Error, ErrorCode, Fault};
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Func;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const SETTINGS: &str = "/proc/sys/net/ipv4";
const KERNEL_TYPES: &str = "/sys/kernel/btf/vmlinux";

/// Capabilities by number (include/uapi/linux/capability.h).
const CAP_SYS_MODULE: u32 = 16;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

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

/// Asks for the kernel module of `name`; answers whether the control is there now.
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

fn capable(capability: u32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or(0);
    bits & (1 << capability) != 0
}

/// Whether root of this process's user namespace is root of the machine.
fn in_first_user_namespace() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().collect::<Vec<_>>() == ["0", "0", "4294967295"]
}

/// Refuses a name that the kernel would refuse, in words that say why.
pub(super) fn check_name(name: &str) -> Result<(), Error> {
    use super::object::LONGEST_NAME;
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

/// What the kernel can do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kernel {
    /// Whether a registration can be a link that ends with its process: from 6.4 on.
    pub(super) links: bool,
}

/// Checks that BPF controls can be loaded here, by this process.
pub(super) fn check() -> Result<Kernel, Error> {
    let here = |code, message: &str| Error::new(Fault::Here, code, message);
    check_capabilities()?;
    if !Path::new(KERNEL_TYPES).exists() {
        return Err(here(
            ErrorCode::KernelBtf,
            "this kernel does not describe its types: /sys/kernel/btf/vmlinux is missing",
        )
        .hint("a kernel with CONFIG_DEBUG_INFO_BTF=y, as distributions build them since 2021"));
    }
    let types = Btf::from_vmlinux().map_err(|error| {
        here(
            ErrorCode::KernelBtf,
            &format!("reading the kernel's types from {KERNEL_TYPES}: {error}"),
        )
    })?;
    let has = |function: &str| types.type_by_name::<Func<'_>>(function).is_some();
    // The three that every program here calls; all are there from 5.13 on.
    for function in ["tcp_slow_start", "tcp_cong_avoid_ai", "tcp_reno_undo_cwnd"] {
        if !has(function) {
            let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
            let message = format!(
                "Linux {} is too old for a congestion control in BPF: it has no {function} to call",
                release.trim()
            );
            return Err(here(ErrorCode::KernelTooOld, &message)
                .hint("Linux 6.1 or newer; or one of the controls in `farline cc ls`"));
        }
    }
    Ok(Kernel { links: has("bpf_struct_ops_link_create") })
}

fn check_capabilities() -> Result<(), Error> {
    let refused = |message: String| {
        Err(Error::new(Fault::Refused, ErrorCode::CongestionCapability, message).hint(
            "run it as root, or give the binary: setcap \
                cap_bpf,cap_perfmon,cap_net_admin+ep farline",
        ))
    };
    if !in_first_user_namespace() && (capable(CAP_BPF) || capable(CAP_SYS_ADMIN)) {
        return refused(
            "root of a user namespace may not load a congestion control: the kernel asks the \
             machine's root"
                .to_owned(),
        );
    }
    if capable(CAP_SYS_ADMIN) {
        return Ok(());
    }
    let missing: Vec<&str> = [(CAP_BPF, "CAP_BPF"), (CAP_PERFMON, "CAP_PERFMON")]
        .into_iter()
        .filter(|&(capability, _)| !capable(capability))
        .map(|(_, name)| name)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    refused(format!(
        "loading a congestion control needs {}, which this process lacks",
        missing.join(" and ")
    ))
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

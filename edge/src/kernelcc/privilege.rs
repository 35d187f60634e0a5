//! What loading a control in BPF takes: capabilities in the machine's first user namespace.

use super::host::capable;
use farline_core::units::{Error, ErrorCode, Fault};
use std::fs;

/// Capabilities by number (include/uapi/linux/capability.h).
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// Checks that this process may load a control in BPF.
pub(super) fn check() -> Result<(), Error> {
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

/// Whether root of this process's user namespace is root of the machine.
fn in_first_user_namespace() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().collect::<Vec<_>>() == ["0", "0", "4294967295"]
}

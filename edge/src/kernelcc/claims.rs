//! Whose a registered name is: a living process's, pinned, the kernel's.

use super::host;
use super::record::{self, Claim, Entry};
use farline_core::congestion::ControlName;
use farline_core::units::{Error, ErrorCode, Fault, Setting};
use std::path::Path;

/// Where the link and the trace of a pinned control stand.
pub(super) fn pin_paths(name: ControlName) -> (String, String) {
    // The BPF file system takes no dots, and registered names have no dashes.
    let name = name.as_str().replace('.', "-");
    (format!("/sys/fs/bpf/farline/{name}"), format!("/sys/fs/bpf/farline/{name}-events"))
}

/// Whether a control outlives its process under this name.
pub(super) fn is_pinned(name: ControlName) -> bool {
    let (link, events) = pin_paths(name);
    Path::new(&link).exists() || Path::new(&events).exists()
}

/// Somebody has the name already.
pub(super) fn taken(name: ControlName) -> Error {
    let by = match record::claim(&record::holders(), name) {
        Claim::Living(Entry { process: Some(process), .. }) => {
            format!("by Farline's process {process}")
        }
        Claim::Living(_) => "by a process of Farline's".to_owned(),
        Claim::Unknown => {
            format!("by somebody: {} may not be read here", record::holders().display())
        }
        _ if is_pinned(name) => "by Farline, pinned".to_owned(),
        _ if host::is_module(name) => format!("by the kernel module tcp_{name}"),
        _ => "by the kernel or by somebody's BPF program".to_owned(),
    };
    Error::new(Fault::You, ErrorCode::CongestionTaken, format!("the name `{name}` is taken {by}"))
        .hint(format!("register it by another name, for example {} fl_htcp", Setting::As))
}

//! Which controls there are on this host, who registered them, and how to be rid of Farline's.

use super::claims::{is_pinned, pin_paths};
use super::record::{self, Claim, Entry, Record};
use super::{bpf, diag, host, is_brought};
use farline_core::congestion::{Algorithm, ControlName};
use farline_core::units::{Error, ErrorCode, Fault};
use serde::Serialize;
use std::fs;

/// Who registered a control.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Origin {
    /// Nobody: Farline can load it.
    Brought,
    /// Built into the kernel, or a BPF program of somebody else's.
    Kernel,
    /// A kernel module.
    Module,
    /// Farline, until `farline cc unload`.
    Pinned,
    /// Farline, as long as this process lives.
    Process(u32),
    /// Farline, as long as a process lives of which this one may not know more.
    Held,
    /// The kernel, or Farline: this process may not look at the records of who holds what.
    Unknown,
}

/// A control by its name.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Listed {
    /// The name to give a socket.
    pub name: ControlName,
    /// Who registered it.
    pub origin: Origin,
    /// Whether new sockets of this network namespace get it.
    pub default: bool,
    /// Whether a process without privilege may choose it.
    pub allowed: bool,
    /// TCP connections of this network namespace that use it; `None` where the kernel does not
    /// tell.
    pub flows: Option<usize>,
}

/// Every control that is registered, and those that Farline brings.
///
/// What a killed process left behind on a kernel without `struct_ops` links is removed first.
pub fn list() -> Vec<Listed> {
    clean_up();
    let (available, allowed, default) =
        (host::available(), host::allowed(), host::default_control());
    let flows = diag::flows().ok();
    // Of a process that could make no record there is what it registered.
    let ours: Vec<ControlName> =
        bpf::registered().into_iter().map(|registered| registered.name).collect();
    let origin = |name: ControlName| match record::claim(&record::holders(), name) {
        Claim::Living(Entry { process: Some(process), .. }) => Origin::Process(process),
        Claim::Living(_) => Origin::Held,
        _ if is_pinned(name) => Origin::Pinned,
        _ if ours.contains(&name) => Origin::Held,
        _ if host::is_module(name) => Origin::Module,
        Claim::Unknown if !is_kernels_alone(name) => Origin::Unknown,
        _ => Origin::Kernel,
    };
    let listed = |name: ControlName, origin| Listed {
        default: Some(name) == default,
        allowed: allowed.contains(&name),
        flows: flows.as_ref().map(|flows| flows.iter().filter(|flow| flow.control == name).count()),
        name,
        origin,
    };
    let mut all: Vec<Listed> = available.iter().map(|&name| listed(name, origin(name))).collect();
    let brought = Algorithm::ALL.into_iter().filter(|&one| bpf::IS_BUILT_IN && is_brought(one));
    let brought = brought.map(ControlName::from).filter(|name| !available.contains(name));
    all.extend(brought.map(|name| listed(name, Origin::Brought)));
    all.sort_by_key(|listed| listed.name);
    all
}

/// Whether `name` is a control of which Farline brings none: nobody registers it but the kernel.
fn is_kernels_alone(name: ControlName) -> bool {
    name.algorithm().is_some_and(|algorithm| !is_brought(algorithm))
}

/// Takes back what killed processes left: their records, and before 6.4, without links, what they
/// registered. Only what has a record that nobody has locked was left; a control without one is
/// somebody's whom this process does not see.
pub(super) fn clean_up() {
    let names = record::names(&record::holders());
    let left: Vec<ControlName> = names
        .into_iter()
        .filter(|&name| record::claim(&record::holders(), name) == Claim::Left)
        .collect();
    if left.is_empty() {
        return;
    }
    let mut registered = bpf::registered();
    registered.retain(|one| one.legacy && !is_pinned(one.name));
    for name in left {
        // While we have it nobody else registers by this name; somebody else may be doing the same.
        let Some(record) = Record::left(&record::holders(), name) else { continue };
        let gone = match registered.iter().find(|one| one.name == name) {
            Some(one) => one.unregister().is_ok(),
            None => false,
        };
        if !gone && host::available().contains(&name) {
            // Not ours to remove. Of what is the kernel's or a module's by now the record tells
            // nothing either.
            record.keep();
        }
    }
}

/// Unregisters a control that was pinned; returns how many connections of this network namespace
/// keep it to their end.
///
/// # Errors
/// [`Fault::You`] for a control that is not Farline's, that a living process holds, or that is the
/// default of this network namespace: there new sockets would go on getting it.
pub fn unload(name: ControlName) -> Result<usize, Error> {
    clean_up();
    let wrong =
        |code, message: String, hint: String| Err(Error::new(Fault::You, code, message).hint(hint));
    if !host::available().contains(&name) {
        return wrong(
            ErrorCode::UnknownCongestion,
            format!("no congestion control called `{name}` is registered"),
            "see `farline cc ls`".to_owned(),
        );
    }
    if let Claim::Living(entry) = record::claim(&record::holders(), name) {
        let process = entry.process.map_or_else(
            || "a process of Farline's".to_owned(),
            |pid| format!("Farline's process {pid}"),
        );
        let hint = entry.process.map_or_else(
            || "end that process".to_owned(),
            |pid| format!("end that process: kill {pid}"),
        );
        return wrong(
            ErrorCode::CongestionHeld,
            format!("`{name}` is held by {process} and goes with it"),
            hint,
        );
    }
    if !is_pinned(name) {
        let whose = if host::is_module(name) {
            "a kernel module"
        } else {
            "the kernel's, or of somebody else's BPF program"
        };
        let hint = if host::is_module(name) {
            format!("modprobe -r tcp_{name}")
        } else {
            "it stays".to_owned()
        };
        return wrong(
            ErrorCode::CongestionForeign,
            format!("`{name}` is not Farline's to unload: it is {whose}"),
            hint,
        );
    }
    if host::default_control() == Some(name) {
        return wrong(
            ErrorCode::CongestionDefault,
            format!(
                "`{name}` is the default of this network namespace: new sockets would go on \
                 getting it"
            ),
            "set another first: sysctl -w net.ipv4.tcp_congestion_control=cubic".to_owned(),
        );
    }
    for left in bpf::registered().into_iter().filter(|left| left.legacy && left.name == name) {
        left.unregister().map_err(|error| {
            Error::new(
                Fault::Here,
                ErrorCode::CongestionUnload,
                format!("unregistering {name}: {error}"),
            )
        })?;
    }
    let (link, events) = pin_paths(name);
    for path in [link, events] {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::new(
                    Fault::Here,
                    ErrorCode::CongestionUnload,
                    format!("removing {path}: {error}"),
                ));
            }
            _ => {}
        }
    }
    Ok(diag::flows().map_or(0, |flows| flows.iter().filter(|flow| flow.control == name).count()))
}

#[cfg(all(test, feature = "bpf"))]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_own_are_listed_and_the_five_are_brought_or_there() {
        let all = list();
        let of = |name: &str| {
            all.iter()
                .find(|listed| listed.name.as_str() == name)
                .unwrap_or_else(|| panic!("{name}: {all:?}"))
        };
        assert_eq!(of("reno").origin, Origin::Kernel);
        for name in ["bic", "htcp", "highspeed", "scalable", "vegas"] {
            of(name);
        }
        assert_eq!(all.iter().filter(|listed| listed.default).count(), 1);
        assert_eq!(
            unload(Algorithm::Reno.into()).expect_err("it is the kernel's").code,
            ErrorCode::CongestionForeign
        );
        assert_eq!(
            unload("no_such".parse().expect("a name")).expect_err("there is none").code,
            ErrorCode::UnknownCongestion
        );
    }
}

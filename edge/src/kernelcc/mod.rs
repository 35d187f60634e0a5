//! Congestion controls that this host's kernel lacks, brought along as BPF programs.
//!
//! [`obtain`] makes a control available by its name: one that the kernel has, else a kernel module,
//! else one of the BPF programs (`struct_ops`) that Farline carries, compiled and loaded here
//! without a compiler; `resuming` is the kernel's CUBIC that begins from what an earlier flow saw.
//! What they return, [`CcGuard`], keeps a BPF control registered; when it is
//! dropped, or the process dies, the name is gone again. Flows that use the control keep it to
//! their end.
//!
//! A process that confines itself has one that began before load for it (`start_loader`).
//!
//! Without the feature `bpf` there are the kernel's own and its modules.
//!
//! A registered name is seen by the whole machine, in every network namespace. Kernels before 6.4
//! know no links for `struct_ops`: there a killed process leaves its control behind, and the next
//! [`obtain`] or [`list`] removes it, told by its record.

#[cfg(feature = "bpf")]
mod bpf;
#[cfg(not(feature = "bpf"))]
#[path = "no_bpf.rs"]
mod bpf;
mod claims;
mod diag;
mod host;
mod list;
mod load;
mod loaded;
#[cfg(feature = "link")]
mod loader;
#[cfg(not(feature = "link"))]
#[path = "no_loader.rs"]
mod loader;
#[cfg(feature = "bpf")]
mod object;
#[cfg(feature = "bpf")]
mod privilege;
mod record;
mod request;
mod trace;

use farline_core::congestion::{Algorithm, SavedPath};
use farline_core::units::Error;

pub use host::{available, default_control};
pub use list::{Listed, Origin, list, unload};
pub use load::{CcGuard, CcOrigin};
pub(crate) use loader::start_loader;
#[cfg(feature = "link")]
pub(crate) use loader::{Role, play};
pub use request::CcRequest;
pub use trace::{FlowSample, SampleSource, Trace};

/// Whether Farline brings `algorithm` in BPF, in a build with the feature `bpf`; of the others
/// every kernel of today has its own.
fn is_brought(algorithm: Algorithm) -> bool {
    !matches!(algorithm, Algorithm::Bbr | Algorithm::Cubic | Algorithm::Reno)
}

/// Makes the control of `request` available.
///
/// # Errors
/// [`Fault::You`] for a name that is unknown, too long or taken; [`Fault::Refused`] when a
/// capability is missing, naming it; [`Fault::Here`] for a kernel without BTF or too old, and for
/// one without links where no record can be made of what is held.
///
/// [`Fault::You`]: farline_core::units::Fault::You
/// [`Fault::Refused`]: farline_core::units::Fault::Refused
/// [`Fault::Here`]: farline_core::units::Fault::Here
pub fn obtain(request: &CcRequest) -> Result<CcGuard, Error> {
    loader::obtain(request).unwrap_or_else(|| load::obtain(request))
}

/// Loads a control for flows over a path of which each has `saved` for its part: CUBIC, which after
/// a first round trip that confirms the path goes to half of that (RFC 9959).
///
/// # Errors
/// As [`obtain`]; a kernel whose CUBIC no program may call is too old.
pub(crate) fn resuming(saved: SavedPath) -> Result<CcGuard, Error> {
    loader::resuming(saved).unwrap_or_else(|| load::resuming(saved))
}

/// Whether this process has the right to load a control in BPF. Whether this kernel takes one is
/// seen when it is loaded.
pub(crate) fn may_load() -> bool {
    bpf::may_load()
}

/// Gives back all that this process has loaded, and has the one end that loads for it: for a signal
/// that ends this, after which nothing is dropped.
pub fn give_back() {
    loaded::give_back();
    loader::end_loader();
}

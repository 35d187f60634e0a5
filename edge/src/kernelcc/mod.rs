//! Congestion controls that this host's kernel lacks, brought along as BPF programs.
//!
//! [`obtain`] makes a control available by its name: one that the kernel has, else a kernel module,
//! else one of the BPF programs (`struct_ops`) that Farline carries, compiled and loaded here
//! without a compiler; `resuming` is the kernel's CUBIC that begins from what an earlier flow saw.
//! What they return, [`CcGuard`], keeps a BPF control registered; when it is
//! dropped, or the process dies, the name is gone again. Flows that use the control keep it to
//! their end.
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
#[cfg(feature = "bpf")]
mod object;
#[cfg(feature = "bpf")]
mod privilege;
mod record;
mod request;
mod trace;

use farline_core::congestion::Algorithm;

pub use host::{available, default_control};
pub use list::{Listed, Origin, list, unload};
pub(crate) use load::resuming;
pub use load::{CcGuard, CcOrigin, obtain};
pub use loaded::give_back;
pub use request::CcRequest;
pub use trace::{FlowSample, SampleSource, Trace};

/// Whether Farline brings `algorithm` in BPF, in a build with the feature `bpf`; of the others
/// every kernel of today has its own.
fn is_brought(algorithm: Algorithm) -> bool {
    !matches!(algorithm, Algorithm::Bbr | Algorithm::Cubic | Algorithm::Reno)
}

//! A control that somebody wants, and how.

use farline_core::congestion::{Constants, ControlName, SavedPath};
use farline_core::units::Span;

/// A control that somebody wants.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CcRequest {
    /// The algorithm, or a name of the kernel's own that Farline knows nothing of.
    pub control: ControlName,
    /// Which constants. Without a wish what the kernel has serves, and BPF runs with Linux's.
    pub set: Option<Constants>,
    /// The name to register a BPF control by; the algorithm's when absent.
    pub name: Option<ControlName>,
    /// How often the trace has a line for each flow; zero for no trace.
    pub sample_every: Span,
    /// Whether the control outlives this process.
    pub pin: bool,
    /// Registers as kernels before 6.4 do, for tests.
    pub without_link: bool,
    /// Whether the control is there for others to use by its name too, not for this process's own
    /// flows alone.
    pub offered: bool,
    /// What its flows begin from, each by itself: the kernel's CUBIC alone does.
    #[cfg_attr(not(feature = "bpf"), expect(dead_code, reason = "nothing is loaded"))]
    pub(super) saved: Option<SavedPath>,
}

impl CcRequest {
    /// `control` as this host has it, else from Farline with Linux's constants, for as long as it
    /// is held.
    pub fn new(control: impl Into<ControlName>) -> CcRequest {
        let sample_every = Span::from_millis(10);
        CcRequest {
            control: control.into(),
            set: None,
            name: None,
            sample_every,
            pin: false,
            without_link: false,
            offered: false,
            saved: None,
        }
    }

    /// Whether any control of that name serves.
    pub(super) fn is_plain(&self) -> bool {
        self.set.is_none() && self.name.is_none()
    }
}

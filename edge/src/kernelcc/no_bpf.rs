//! What stands in for controls in BPF where this build has none: nothing is loaded, nothing found.

use super::request::CcRequest;
use farline_core::congestion::{Algorithm, Constants, ControlName};
use farline_core::units::{Error, ErrorCode, Fault};
use std::convert::Infallible;
use std::time::Duration;

/// Whether this build of Farline has the programs in it.
pub(super) const IS_BUILT_IN: bool = false;

/// What the kernel can do: here nobody knows.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kernel {}

/// # Errors
/// Always: [`Fault::Here`].
pub(super) fn kernel() -> Result<Kernel, Error> {
    let message = "this build of Farline has no congestion controls in BPF";
    Err(Error::new(Fault::Here, ErrorCode::CongestionNotBuilt, message)
        .hint("build it with the feature `bpf`, or take a control that this kernel has"))
}

/// Nobody may load what there is not.
pub(super) fn may_load() -> bool {
    false
}

/// Nothing is ever registered.
pub(super) struct Registration(Infallible);

impl Registration {
    pub(super) fn events(&self) -> Option<Events> {
        match self.0 {}
    }
}

/// # Errors
/// Never: there is no kernel to call it with.
pub(super) fn register(
    _: Algorithm,
    _: Constants,
    _: ControlName,
    _: &CcRequest,
    kernel: Kernel,
) -> Result<Registration, Error> {
    match kernel {}
}

/// A control of Farline's that is registered: there is none.
pub(super) struct Registered {
    pub(super) name: ControlName,
    pub(super) legacy: bool,
    never: Infallible,
}

impl Registered {
    /// # Errors
    /// Never.
    pub(super) fn unregister(&self) -> Result<(), Infallible> {
        match self.never {}
    }
}

/// What another Farline registered cannot be found.
pub(super) fn registered() -> Vec<Registered> {
    Vec::new()
}

/// A trace: there is none.
#[derive(Debug)]
pub(super) struct Events(Infallible);

impl Events {
    pub(super) fn pinned(_: &str) -> Option<Events> {
        None
    }

    pub(super) fn numbered(_: u32) -> Option<Events> {
        None
    }

    /// # Errors
    /// Never.
    pub(super) fn read(&self, _: impl FnMut(&[u8]) + 'static) -> Result<Ring, String> {
        match self.0 {}
    }
}

/// A trace that is read: there is none.
pub(super) struct Ring(Infallible);

impl Ring {
    pub(super) fn poll(&self, _: Duration) {
        match self.0 {}
    }
}

#[cfg(test)]
mod tests {
    use crate::kernelcc::{CcOrigin, CcRequest, obtain};
    use farline_core::congestion::{Algorithm, ControlName};
    use farline_core::units::ErrorCode;

    #[test]
    fn what_the_kernel_has_serves_and_the_rest_is_not_built() {
        let reno = obtain(&CcRequest::new(Algorithm::Reno)).expect("every kernel has it");
        assert_eq!(reno.source, CcOrigin::Native);
        // By a name that no kernel has: another Farline may have registered a plain one.
        let name = ControlName::to_register("fl_unbuilt").ok();
        let asked = CcRequest { name, ..CcRequest::new(Algorithm::Scalable) };
        assert_eq!(obtain(&asked).expect_err("no BPF").code, ErrorCode::CongestionNotBuilt);
    }
}

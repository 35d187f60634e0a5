//! What stands in for PAM where this build has none: no password is its.

use farline_core::units::Error;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// A service of PAM's: there is none.
#[derive(Debug)]
pub(super) struct PamService(Infallible);

impl PamService {
    /// # Errors
    /// Always.
    pub(super) fn named(_: &str) -> Result<PamService, String> {
        Err(Error::not_built("PAM", "pam").message)
    }

    pub(super) fn name(&self) -> &str {
        match self.0 {}
    }

    pub(super) fn turns(&self) -> Arc<Semaphore> {
        match self.0 {}
    }

    pub(super) fn start(&self, _: Duration) -> Result<(), Error> {
        match self.0 {}
    }

    pub(super) fn is(&self, _: Option<&str>, _: &[u8]) -> Result<bool, String> {
        match self.0 {}
    }
}

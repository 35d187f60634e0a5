//! What stands in for measurements where this build has none: no client can ask for one.

use super::data::DataPlane;
use super::running::RunningTransfer;
use farline_core::units::{Error, Rate};

/// The modules of ERET by which a client measures.
pub(super) const MODULES: &[&str] = &[];

/// What FEAT says of it.
pub(super) fn feature(_ceiling: Rate) -> Option<String> {
    None
}

/// # Errors
/// Always: this build measures nothing.
pub(super) fn measure(_: &mut DataPlane, _: &str, _: &RunningTransfer<'_>) -> Result<u64, Error> {
    Err(Error::not_built("measurements of paths", "profile"))
}

//! What stands in for the process that loads for a confined one in a build that starts no processes
//! of its own.

use super::load::CcGuard;
use super::request::CcRequest;
use farline_core::congestion::SavedPath;
use farline_core::units::Error;

/// # Errors
/// Always: this build starts no such process.
pub(crate) fn start_loader() -> Result<(), Error> {
    Err(Error::not_built("a process that loads congestion controls", "link"))
}

pub(super) fn end_loader() {}

pub(super) fn obtain(_: &CcRequest) -> Option<Result<CcGuard, Error>> {
    None
}

pub(super) fn resuming(_: SavedPath) -> Option<Result<CcGuard, Error>> {
    None
}

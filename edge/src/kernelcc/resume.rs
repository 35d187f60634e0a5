//! The kernel's own CUBIC, in BPF, that begins from what an earlier flow saw of a path.

use super::load::{CcGuard, load_resuming, private_name};
use super::request::CcRequest;
use crate::sys::tcp::RESUMING;
use farline_core::congestion::{Algorithm, SavedPath};
use farline_core::units::Error;

/// Loads a control for one flow over a path of which `saved` is known: CUBIC, which after a first
/// round trip that confirms the path goes to half of what was on its way (RFC 9959).
///
/// # Errors
/// As [`obtain`](super::obtain); a kernel that is too old has no CUBIC to be called.
pub fn resuming(saved: SavedPath) -> Result<CcGuard, Error> {
    let name = private_name(RESUMING)?;
    let wish = CcRequest::new(Algorithm::Cubic);
    load_resuming(&CcRequest { name: Some(name), saved: Some(saved), ..wish }, name)
}

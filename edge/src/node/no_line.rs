//! What stands in for the far end of line tests where this build has none.

use super::data::DataPlane;
use farline_core::units::{Error, Rate};

/// What FEAT says of it.
pub(super) fn feature(_ceiling: Rate) -> Option<String> {
    None
}

impl DataPlane {
    /// # Errors
    /// Always: this build tests no line.
    pub(super) fn grant_line(&self, _session: &str) -> Result<String, Error> {
        Err(Error::not_built("line tests", "line"))
    }
}

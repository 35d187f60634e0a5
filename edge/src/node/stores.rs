//! `OPTS FARLINE store=`: a store that a session uses instead of the node's files, where the
//! operator allows it (`docs/protocol.md`, S-1 to S-4).

use super::Shared;
use crate::stores::{Store, StoreRegistry, not_allowed};
use farline_core::transfer::StoreMedium;
use farline_core::units::{Error, ErrorCode, Fault};
use std::sync::Arc;

/// The lines of FEAT that tell which stores there are.
pub(super) fn features(stores: &StoreRegistry) -> Vec<String> {
    stores.drivers().map(|driver| format!("FARLINE {}", driver.feature())).collect()
}

/// Reads the value of the option `store`, and says what it is; `None` is the node's files.
pub(super) fn choose(
    shared: &Shared,
    value: &str,
) -> Result<(Option<Arc<dyn Store>>, StoreMedium), Error> {
    if value == "files" {
        return Ok((None, StoreMedium::Disk));
    }
    let name = value.split(':').next().unwrap_or_default();
    match shared.stores.open_option(value) {
        Some(opened) => opened.map(|(store, medium)| (Some(store), medium)),
        None if StoreRegistry::builtin().find(name).is_some() => {
            Err(not_allowed(format!("this node does not allow ?{name}")))
        }
        None => {
            let message = format!("there is no store `{value}`");
            Err(Error::new(Fault::You, ErrorCode::Unsupported, message))
        }
    }
}

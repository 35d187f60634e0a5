//! `OPTS FARLINE store=`: a session's store without a disk, where the operator allows it
//! (`docs/protocol.md`, S-1 to S-3).

use super::Shared;
use crate::stores::{Diskless, DisklessSink};
use farline_core::transfer::Layout;
use farline_core::units::{Bytes, Error, ErrorCode, Fault};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The lines of FEAT that tell which stores there are.
pub(super) fn features(allow_null: bool, allow_memory: Option<Bytes>) -> Vec<String> {
    let null = allow_null.then(|| "FARLINE NULL".to_owned());
    null.into_iter().chain(allow_memory.map(|_| "FARLINE MEMORY".to_owned())).collect()
}

/// Reads the value of the option `store`; `None` is the node's files.
pub(super) fn choose(shared: &Shared, value: &str) -> Result<Option<Diskless>, Error> {
    if value == "files" {
        return Ok(None);
    }
    let known = Diskless::parse(value, ':');
    let store = known.ok_or_else(|| {
        Error::new(Fault::You, ErrorCode::Unsupported, format!("there is no store `{value}`"))
    })??;
    let refused = |message: String| {
        Err(Error::new(Fault::Refused, ErrorCode::StoreNotAllowed, message).hint(
            "the node's operator can allow it: farline serve --allow-null --allow-memory SIZE",
        ))
    };
    match (store, shared.config.allow_memory) {
        (Diskless::Null, _) if !shared.config.allow_null => {
            refused("this node does not allow ?null".to_owned())
        }
        (Diskless::Memory(_), None) => refused("this node does not allow ?memory".to_owned()),
        (Diskless::Memory(size), Some(limit)) if size > limit => {
            refused(format!("this node allows at most {limit} of memory, not {size}"))
        }
        _ => Ok(Some(store)),
    }
}

/// A memory store's share of what the operator allows all sessions together; given back when
/// dropped.
#[derive(Debug)]
pub(super) struct Share {
    shared: Arc<Shared>,
    bytes: u64,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shared.memory_used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Makes the store that `layout` lands in.
pub(super) fn sink(
    shared: &Arc<Shared>,
    store: Diskless,
    layout: &Arc<Layout>,
) -> Result<(DisklessSink, Option<Share>), Error> {
    let share = match store {
        Diskless::Null => None,
        Diskless::Memory(size) => Some(reserve(shared, size)?),
    };
    Ok((store.sink(layout)?, share))
}

fn reserve(shared: &Arc<Shared>, size: Bytes) -> Result<Share, Error> {
    let limit = shared.config.allow_memory.unwrap_or_default();
    let used: &AtomicU64 = &shared.memory_used;
    let taken = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
        used.checked_add(size.0).filter(|&total| total <= limit.0)
    });
    match taken {
        Ok(_) => Ok(Share { shared: Arc::clone(shared), bytes: size.0 }),
        Err(used) => {
            let message = format!(
                "{} of this node's {limit} of memory are in use, and {size} were asked for",
                Bytes(used)
            );
            Err(Error::new(Fault::Refused, ErrorCode::StoreNotAllowed, message)
                .hint("try again when the other transfers are over"))
        }
    }
}

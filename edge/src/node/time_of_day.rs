//! The time of day, as markers and listings tell it.

use farline_core::gridftp::Timestamp;
use std::time::SystemTime;

/// Now.
pub(super) fn time_of_day() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanos: since.subsec_nanos(),
    }
}

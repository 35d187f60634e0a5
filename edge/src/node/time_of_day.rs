//! The time of day, as markers and listings tell it.

use crate::sys::clock::since_1970;
use farline_core::gridftp::Timestamp;

/// Now.
pub(super) fn time_of_day() -> Timestamp {
    let since = since_1970();
    Timestamp {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanos: since.subsec_nanos(),
    }
}

//! Whether a process may lock the memory that an RDMA device is to use.

use crate::units::{Bytes, Error, Fault};

/// Checks that `wanted` bytes may be locked by a process whose limit is `limit`; `None` is without one.
///
/// # Errors
/// When they may not: with what to do.
pub fn may_lock(wanted: Bytes, limit: Option<Bytes>) -> Result<(), Error> {
    match limit {
        Some(limit) if limit < wanted => Err(refused(wanted, Some(limit))),
        _ => Ok(()),
    }
}

/// The error of a registration of `wanted` bytes that was refused.
pub fn refused(wanted: Bytes, limit: Option<Bytes>) -> Error {
    let limit = limit.map_or("without limit".to_owned(), |limit| format!("{limit} at most"));
    let message = format!("RDMA needs {wanted} of memory locked for its device; this process may lock {limit}");
    Error::new(Fault::Here, "locked-memory", message).hint(
        "raise the limit (`ulimit -l unlimited`, or memlock in /etc/security/limits.d), lower --staging, or use --channel tcp",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_low_a_limit_is_told_with_both_numbers_and_what_to_do() {
        let error = may_lock(Bytes::mib(8), Some(Bytes(64 << 10))).expect_err("too little");
        assert_eq!((error.code, error.fault), ("locked-memory", Fault::Here));
        assert!(
            error.message.contains(&Bytes::mib(8).to_string()) && error.message.contains(&Bytes(64 << 10).to_string()),
            "{error}"
        );
        assert!(error.hint.is_some_and(|hint| hint.contains("ulimit -l")));
        assert_eq!(may_lock(Bytes::mib(8), Some(Bytes::mib(8))), Ok(()));
        assert_eq!(may_lock(Bytes::mib(8), None), Ok(()));
    }
}

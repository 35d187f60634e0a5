//! How much memory this process may still give to RDMA devices, and what a refused registration
//! means.

use farline_core::rdma::Lockable;
use farline_core::units::Bytes;
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};
use std::io;

/// What this process may lock of memory, and what its devices have of it: the kernel counts
/// registered pages, of all sessions and channels.
pub(crate) fn lockable() -> Lockable {
    let privileged =
        capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK));
    let limit = getrlimit(Resource::Memlock).current.filter(|_| !privileged).map(Bytes);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    Lockable { limit, pinned: pinned(&status) }
}

/// `VmPin` of `/proc/PID/status`.
fn pinned(status: &str) -> Bytes {
    let line = status.lines().find_map(|line| line.strip_prefix("VmPin:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    Bytes(kib.unwrap_or(0).saturating_mul(1024))
}

/// What a refused registration of `len` bytes means. That memory is short is mostly the limit of
/// locked memory.
pub(super) fn pinning(error: io::Error, len: Bytes) -> io::Error {
    match error.kind() {
        io::ErrorKind::OutOfMemory => io::Error::new(error.kind(), lockable().refuses(len)),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinned_memory_is_read_as_the_kernel_writes_it() {
        let status = "Name:\tfarline\nVmLck:\t       4 kB\nVmPin:\t    8192 kB\nVmHWM:\t   12 kB\n";
        assert_eq!(pinned(status), Bytes::mib(8));
        assert_eq!(pinned("Name:\tkthreadd\n"), Bytes(0));
    }

    #[test]
    fn a_process_without_registrations_has_its_whole_limit() {
        let lockable = lockable();
        assert_eq!(lockable.room(), lockable.limit.map(|limit| Bytes(limit.0 - lockable.pinned.0)));
    }
}

//! Namespaces of a process. rustix marks `unshare` unsafe because of one flag, which is not offered
//! here.

use rustix::io;
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// What the calling thread gets a new one of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unshare {
    /// The mount namespace.
    Mount,
    /// A user namespace, and in it a mount and a network namespace. The process must have one
    /// thread.
    UserMountAndNetwork,
}

/// Gives the calling thread new namespaces.
///
/// # Errors
/// `EPERM` where it is not allowed, `EINVAL` when a process with several threads asks for a user
/// namespace, `ENOSPC` when there are too many.
pub(crate) fn unshare(what: Unshare) -> io::Result<()> {
    let flags = match what {
        Unshare::Mount => UnshareFlags::NEWNS,
        Unshare::UserMountAndNetwork => {
            UnshareFlags::NEWUSER | UnshareFlags::NEWNS | UnshareFlags::NEWNET
        }
    };
    // SAFETY: the file descriptor table, the one thing that other threads could lose, stays shared.
    unsafe { unshare_unsafe(flags) }
}

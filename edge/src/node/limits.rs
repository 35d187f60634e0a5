//! What one client, one address and all together may take of a node: each limit with its name,
//! which is its key in the configuration, its flag and the first word of its line in the log.

use farline_core::units::Bytes;
use std::time::Duration;

/// The limits of a node. docs/security.md lists them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeLimits {
    /// Clients that are logged in, at once. When there is no room the one goes that has been idle
    /// longest, if it was for half a minute.
    pub sessions: usize,
    /// Of them, from one address (IPv6: one /64).
    pub sessions_per_address: usize,
    /// Connections of which nobody knows yet who it is: clients that log in, data connections
    /// before their key. When there is no room the oldest goes, silent ones first.
    pub logins: usize,
    /// Of them, from one address.
    pub logins_per_address: usize,
    /// How long a client may take to be let in, a TLS handshake with it, and how long it may wait
    /// for a turn to have its password compared.
    pub login_timeout: Duration,
    /// Memory for the lists of files of trees, all sessions together; one takes at most half.
    pub list_memory: Bytes,
    /// File descriptors that the process may have open, of which a part is kept for control
    /// connections; what the system gives it when absent. A node that is told of fewer lowers the
    /// process's own limit (RLIMIT_NOFILE) to them.
    pub descriptors: Option<usize>,
    /// How long transfers may go on once the node is asked to end.
    pub drain: Duration,
}

impl Default for NodeLimits {
    fn default() -> NodeLimits {
        NodeLimits {
            sessions: 128,
            sessions_per_address: 64,
            logins: 512,
            logins_per_address: 256,
            login_timeout: Duration::from_secs(10),
            list_memory: Bytes(2 << 30),
            descriptors: None,
            drain: Duration::from_secs(30),
        }
    }
}

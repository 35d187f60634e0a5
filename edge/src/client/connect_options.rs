//! How a node is to be reached, and what is trusted on the way.

use super::credentials::Credentials;
use crate::channels::trust::Trust;
use farline_core::units::Span;
use std::net::IpAddr;
use std::time::Duration;

/// How long a server may be silent when nothing else is said.
pub const DEFAULT_IDLE_TIMEOUT: Span = Span::from_secs(60);

/// How long a data connection to a node may take on a path of this round trip, before another way
/// is tried: H-2.
pub(super) fn connect_timeout(rtt: Span) -> Duration {
    Duration::from_secs(2) + 3 * Duration::from(rtt)
}

/// What the user said about the way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectOptions {
    /// Whom to take for the node under TLS.
    pub trust: Trust,
    /// Who logs in.
    pub credentials: Credentials,
    /// Let data go in the clear although the control channel is protected.
    pub no_encrypt: bool,
    /// Have data of `gsiftp://` encrypted with any server; without it, with Farline nodes alone.
    pub encrypt: bool,
    /// The ssh to run, with options of it, in words; `ssh` when absent.
    pub ssh: Vec<String>,
    /// Where farline is on the other host; searched in its PATH and the usual places when absent.
    pub remote_farline: Option<String>,
    /// What starts a grid's server on the other host (`sshftp://`), in the words of its shell; what
    /// a user or a site has set up there when absent.
    pub remote_sshftp: Option<String>,
    /// Where the node is reached in place of what its name means: the far end of a circuit.
    /// Certificates and host keys are still those of the name.
    pub address: Option<IpAddr>,
    /// How long a server may be silent, zero for ever; [`DEFAULT_IDLE_TIMEOUT`] when absent.
    pub timeout: Option<Span>,
}

impl ConnectOptions {
    /// How long a server may neither move data nor say a word; for ever when `None`.
    pub(super) fn idle_timeout(&self) -> Option<Duration> {
        Some(self.timeout.unwrap_or(DEFAULT_IDLE_TIMEOUT))
            .filter(|span| *span > Span::ZERO)
            .map(Duration::from)
    }

    /// How long a step of setting a connection up may take, of which `usual` is the most.
    pub(super) fn at_most(&self, usual: Duration) -> Duration {
        self.idle_timeout().map_or(usual, |idle_timeout| idle_timeout.min(usual))
    }
}

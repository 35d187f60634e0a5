//! What a socket of a test received.

use farline_core::units::Time;
use std::net::SocketAddr;

/// What came.
pub(super) struct LineArrival<'a> {
    pub(super) from: SocketAddr,
    pub(super) bytes: &'a [u8],
    /// When the kernel had it, since 1970.
    pub(super) received: Option<Time>,
    pub(super) ttl: u8,
    /// Packets that this host dropped since what came before, where that is known now.
    pub(super) dropped: u32,
    /// Whether it dropped some just before this one, or may have.
    pub(super) is_after_drops: bool,
}

//! How a client came to a node.

use farline_core::units::Span;
use std::net::SocketAddr;

/// How a client came, and where its data connections meet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    /// This end's address, where data ports are opened.
    pub(super) local: SocketAddr,
    pub(super) peer: SocketAddr,
    /// Whether ssh brought it, and knows who it is.
    pub(super) over_ssh: bool,
    /// The path's round trip when it came; zero where nobody knows.
    pub(super) rtt: Span,
}

//! How a client came to a node.

use crate::channels::one_port::PortSessions;
use crate::channels::trust::NodeCertificate;
use farline_core::units::Span;
use std::net::SocketAddr;
use std::sync::Arc;

/// How a client came, and where its data connections meet.
#[derive(Clone, Debug)]
pub(super) struct Arrival {
    /// This end's address, where data ports are opened.
    pub(super) local: SocketAddr,
    pub(super) peer: SocketAddr,
    /// Whether ssh brought it, and knows who it is.
    pub(super) over_ssh: bool,
    /// The path's round trip when it came; zero where nobody knows.
    pub(super) rtt: Span,
    /// Where its data comes in, if it came to the node's one UDP port.
    pub(super) one_port: Option<Arc<PortSessions>>,
    /// What the node shows it under TLS, from the session's beginning to its end.
    pub(super) certificate: Option<NodeCertificate>,
}

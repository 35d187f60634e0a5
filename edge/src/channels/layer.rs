//! What stands over a channel of ordered bytes, such as TLS.

use super::key::Key;
use super::ordered::ByteStream;
use rustls::{ClientConfig, ServerConfig};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// What stands over a channel of ordered bytes.
pub trait Layer: Send + Sync {
    /// The client's end over `below`, of the session that `key` is of.
    ///
    /// # Errors
    /// When the peer is not whom `trust` wants, or breaks the layer's protocol.
    fn connect(
        &self,
        below: Box<dyn ByteStream>,
        trust: &TlsPeer,
        key: &Key,
    ) -> io::Result<Box<dyn ByteStream>>;

    /// The node's end over `below`, which has to prove that it is of the session that `key` is of.
    ///
    /// # Errors
    /// When it does not.
    fn accept(
        &self,
        below: Box<dyn ByteStream>,
        identity: &Arc<ServerConfig>,
        key: &Key,
    ) -> io::Result<Box<dyn ByteStream>>;
}

/// Whom a client takes for the node.
#[derive(Clone)]
pub struct TlsPeer {
    /// What the certificate has to be.
    pub config: Arc<ClientConfig>,
    /// Where the node is.
    pub address: SocketAddr,
}

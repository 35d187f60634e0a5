//! What stands over a channel of ordered bytes, such as TLS.

use super::handshake::{Handshake, shake_hands};
use super::key::Key;
use super::ordered::ByteStream;
use super::trust::{ClientConfig, ServerConfig};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// What stands over a channel of ordered bytes.
pub trait Layer: Send + Sync {
    /// The client's end over `below`, which then has to [prove](Key::proof) of which session it is.
    ///
    /// # Errors
    /// When the peer is not whom `trust` wants, or breaks the layer's protocol.
    fn connect(
        &self,
        below: Box<dyn ByteStream>,
        trust: &TlsPeer,
    ) -> io::Result<Box<dyn ByteStream>>;

    /// The node's end of the handshake, at its beginning, with a peer that has to prove that it is
    /// of the session that `key` is of.
    ///
    /// # Errors
    /// When the layer cannot be set up.
    fn handshake(&self, identity: &Arc<ServerConfig>, key: &Key) -> io::Result<Box<dyn Handshake>>;

    /// The node's end over `below`, where a thread may wait for the handshake: `within` so long.
    ///
    /// # Errors
    /// When the peer does not prove itself, or not in time.
    fn accept(
        &self,
        mut below: Box<dyn ByteStream>,
        identity: &Arc<ServerConfig>,
        key: &Key,
        within: Duration,
    ) -> io::Result<Box<dyn ByteStream>> {
        let mut handshake = self.handshake(identity, key)?;
        shake_hands(&mut below, &mut *handshake, within)?;
        handshake.over(below)
    }
}

/// Whom a client takes for the node.
#[derive(Clone)]
#[non_exhaustive]
pub struct TlsPeer {
    /// What the certificate has to be.
    pub config: Arc<ClientConfig>,
    /// Where the node is.
    pub address: SocketAddr,
}

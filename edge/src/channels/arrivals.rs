//! Connections that come in for one session, each of which shows the session's key first.
//!
//! Preambles are read side by side on the node's runtime, so that who connects and says nothing, or
//! says it slowly, holds nobody up (docs/protocol.md, K-3).

use super::Channel;
use super::key::{Key, PREAMBLE_LEN, Token};
use super::layer::Layer;
use super::ordered::{ByteStream, OrderedChannel};
use rustls::ServerConfig;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;

/// How long a preamble may take: K-3.
pub const PREAMBLE_TIMEOUT: Duration = Duration::from_secs(5);

/// Where a session's channels go to; says false when nobody waits for them any more.
pub type Deliver = Box<dyn Fn(Box<dyn Channel>) -> bool + Send + Sync>;

/// Makes channels of a session of the connections that show its key.
pub struct Arrivals {
    key: Key,
    /// The layer that stands over connections, with what the node shows, if they are encrypted.
    layer: Option<(Arc<dyn Layer>, Arc<ServerConfig>)>,
    deliver: Deliver,
}

impl Arrivals {
    /// Of the session that `key` is of.
    pub fn new(
        key: Key,
        layer: Option<(Arc<dyn Layer>, Arc<ServerConfig>)>,
        deliver: Deliver,
    ) -> Arrivals {
        Arrivals { key, layer, deliver }
    }

    /// The session's key.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// What the node shows, if the session's connections are encrypted.
    pub fn identity(&self) -> Option<&Arc<ServerConfig>> {
        self.layer.as_ref().map(|(_, identity)| identity)
    }

    /// Hands a channel on; says false when the session wants no more.
    pub fn deliver(&self, channel: Box<dyn Channel>) -> bool {
        (self.deliver)(channel)
    }

    /// Makes a channel of a connection whose preamble was right.
    pub async fn enter(self: &Arc<Arrivals>, stream: TcpStream) {
        // A connection that died meanwhile, or one more than a session can use, is dropped; its
        // client sees that.
        let prepared = stream.into_std().and_then(|stream| {
            super::socket::prepare(&stream)?;
            Ok(Box::new(stream))
        });
        let Ok(stream) = prepared else { return };
        let inside = Arc::clone(self);
        let made = match self.layer {
            None => inside.over(stream),
            // A handshake waits for the peer.
            Some(_) => tokio::task::spawn_blocking(move || inside.over(stream))
                .await
                .unwrap_or_else(|_| Err(io::Error::other("a thread panicked"))),
        };
        if let Ok(channel) = made {
            self.deliver(channel);
        }
    }

    /// Makes a channel of a connection that has yet to show the key; waits for it.
    ///
    /// # Errors
    /// When it shows another, or none in time.
    pub fn meet(&self, mut stream: Box<dyn ByteStream>) -> io::Result<()> {
        let handle = stream.handle()?;
        handle.set_read_timeout(Some(PREAMBLE_TIMEOUT))?;
        let mut preamble = [0; PREAMBLE_LEN];
        stream.read_exact(&mut preamble)?;
        handle.set_read_timeout(None)?;
        if Token::of(&preamble) != Some(self.key.token()) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.deliver(self.over(stream)?);
        Ok(())
    }

    fn over(&self, mut stream: Box<dyn ByteStream>) -> io::Result<Box<dyn Channel>> {
        if let Some((layer, identity)) = &self.layer {
            stream = layer.accept(stream, identity, &self.key)?;
        }
        Ok(Box::new(OrderedChannel::over(stream)))
    }
}

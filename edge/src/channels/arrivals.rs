//! Connections that come in for one session, each of which shows the session's key first.
//!
//! Preambles are read side by side on the node's runtime, so that who connects and says nothing, or
//! says it slowly, holds nobody up (docs/protocol.md, K-3).

use super::Channel;
use super::accept_error::{AfterError, BackOff};
use super::driver::{Driver, Handshake, Listener, Role};
use super::key::{Key, PREAMBLE_LEN, Token};
use super::ordered::{ByteStream, OrderedChannel};
use rustls::ServerConfig;
use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

/// How long a preamble may take: K-3.
pub const PREAMBLE_TIMEOUT: Duration = Duration::from_secs(5);
/// Preambles read at once for one session: K-3.
const MOST_PENDING: usize = 256;
/// Handshakes under way for one session: as many as it may have channels.
const MOST_HANDSHAKES: usize = 64;
/// How long the handshake of a data connection may take the node, whatever comes of it meanwhile:
/// P-2.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Where a session's channels go to; says false when nobody waits for them any more.
pub type Deliver = Box<dyn Fn(Box<dyn Channel>) -> bool + Send + Sync>;

/// Makes channels of a session of the connections that show its key.
pub struct Arrivals {
    key: Key,
    /// The layer that stands over connections, with what the node shows, if they are encrypted.
    layer: Option<(Arc<Driver>, Arc<ServerConfig>)>,
    deliver: Deliver,
    handshakes: Semaphore,
}

impl Arrivals {
    /// Of the session that `key` is of.
    pub fn new(
        key: Key,
        layer: Option<(Arc<Driver>, Arc<ServerConfig>)>,
        deliver: Deliver,
    ) -> Arrivals {
        Arrivals { key, layer, deliver, handshakes: Semaphore::new(MOST_HANDSHAKES) }
    }

    /// The session's key.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Hands a channel on; says false when the session wants no more.
    pub fn deliver(&self, channel: Box<dyn Channel>) -> bool {
        (self.deliver)(channel)
    }

    /// Makes a channel of a connection whose preamble was right. A handshake costs a task and no
    /// thread, however long its peer takes.
    pub async fn enter(self: &Arc<Arrivals>, mut stream: TcpStream) {
        let handshake = match &self.layer {
            None => None,
            Some(_) => {
                // More than the session may have channels: none of a client that keeps the rules.
                let Ok(_place) = self.handshakes.try_acquire() else { return };
                match tokio::time::timeout(HANDSHAKE_TIMEOUT, self.shake_hands(&mut stream)).await {
                    Ok(Ok(handshake)) => Some(handshake),
                    _ => return,
                }
            }
        };
        // A connection that died meanwhile, or one more than a session can use, is dropped; its
        // client sees that.
        let made = stream.into_std().and_then(|stream| {
            super::tcp::prepare(&stream)?;
            let stream: Box<dyn ByteStream> = Box::new(stream);
            match handshake {
                Some(handshake) => handshake.over(stream),
                None => Ok(stream),
            }
        });
        if let Ok(stream) = made {
            self.deliver(Box::new(OrderedChannel::over(stream)));
        }
    }

    async fn shake_hands(&self, stream: &mut TcpStream) -> io::Result<Box<dyn Handshake>> {
        let mut handshake = self.handshake()?;
        let mut buffer = [0; 4096];
        while !handshake.is_done() {
            let read = stream.read(&mut buffer).await?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let reply = handshake.take(&buffer[..read])?;
            stream.write_all(&reply).await?;
        }
        Ok(handshake)
    }

    fn handshake(&self) -> io::Result<Box<dyn Handshake>> {
        if let Some((driver, identity)) = &self.layer
            && let Role::Layer(layer) = &driver.role
        {
            return layer.handshake(identity, &self.key);
        }
        Err(io::ErrorKind::Unsupported.into())
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
        if let Some((driver, identity)) = &self.layer
            && let Role::Layer(layer) = &driver.role
        {
            stream = layer.accept(stream, identity, &self.key, HANDSHAKE_TIMEOUT)?;
        }
        Ok(Box::new(OrderedChannel::over(stream)))
    }
}

/// A listening TCP port; the task that accepts, and those that read preambles, end with this.
#[derive(Debug)]
pub(super) struct TcpPort {
    address: SocketAddr,
    task: AbortHandle,
}

impl TcpPort {
    /// Takes connections on `listener` for a session. Needs a tokio runtime around it.
    ///
    /// # Errors
    /// When the listener cannot be used.
    pub(super) fn open(listener: TcpListener, arrivals: &Arc<Arrivals>) -> io::Result<TcpPort> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let task = tokio::spawn(accept(listener, Arc::downgrade(arrivals))).abort_handle();
        Ok(TcpPort { address, task })
    }
}

impl Listener for TcpPort {
    fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for TcpPort {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Accepts connections and reads their preambles, until the session is gone.
async fn accept(listener: tokio::net::TcpListener, arrivals: Weak<Arrivals>) {
    let (mut pending, mut back_off) = (VecDeque::<Pending>::new(), BackOff::default());
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => match AfterError::of(&error) {
                AfterError::GoOn => continue,
                AfterError::BackOff => {
                    tokio::time::sleep(back_off.next()).await;
                    continue;
                }
                AfterError::End => return,
            },
        };
        back_off.reset();
        let Some(arrivals) = arrivals.upgrade() else { return };
        pending.retain(|pending| !pending.0.is_finished());
        if pending.len() >= MOST_PENDING {
            // A client's preamble comes with its connection: whoever has waited longest is no
            // client.
            pending.pop_front();
        }
        pending.push_back(Pending(tokio::spawn(greet(arrivals, stream)).abort_handle()));
    }
}

/// A connection whose preamble is being read; closed when this goes.
struct Pending(AbortHandle);

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn greet(arrivals: Arc<Arrivals>, mut stream: TcpStream) {
    let mut preamble = [0; PREAMBLE_LEN];
    let read = tokio::time::timeout(PREAMBLE_TIMEOUT, stream.read_exact(&mut preamble)).await;
    if matches!(read, Ok(Ok(_))) && Token::of(&preamble) == Some(arrivals.key.token()) {
        arrivals.enter(stream).await;
    }
}

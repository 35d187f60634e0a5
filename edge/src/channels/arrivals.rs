//! Connections that come in for one session, each of which shows the session's key first.
//!
//! Preambles are read side by side on the node's runtime, so that who connects and says nothing, or
//! says it slowly, holds nobody up (docs/protocol.md, K-3).

use super::Channel;
use super::handshake::{Handshake, shake_hands_in_task};
use super::handshake_places::HandshakePlaces;
use super::key::{Key, PREAMBLE_LEN, Token};
use super::layer::Layer;
use super::ordered::{ByteStream, OrderedChannel};
use super::pending::{NO_PLACE, Steps};
use super::session_buffers::SessionBuffers;
use super::trust::ServerConfig;
use crate::sys::lock::lock;
use farline_core::units::Bytes;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;

/// How long a preamble may take: K-3.
pub const PREAMBLE_TIMEOUT: Duration = Duration::from_secs(5);
/// Handshakes under way for one session: as many as it may have channels. A session's preamble is
/// no secret where somebody else sees it, and so none that lingers in one keeps the next out.
const MOST_HANDSHAKES: usize = 64;
/// How long the handshake of a data connection may take the node, whatever comes of it meanwhile:
/// P-2.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Where a session's channels go to; says false when nobody waits for them any more.
pub type Deliver = Box<dyn Fn(Box<dyn Channel>) -> bool + Send + Sync>;

/// Hears of connections that are closed since they are not the session's: from where, and why.
pub type RefusedConnection = Box<dyn Fn(Option<SocketAddr>, &str) + Send + Sync>;

/// Whether this host has room for one connection more; who has none is closed.
pub(crate) type Room = Box<dyn Fn() -> bool + Send + Sync>;

/// What who shows no key in time is told of.
pub const NO_KEY: &str = "shows no key of the session's";

/// A connection that a task reads until it is known whose it is, and threads from then on.
pub(crate) trait Unproven: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Its peer has said which session it is of: one that this port has.
    fn shown(&mut self) {}

    /// The connection, once its peer has shown whose it is.
    ///
    /// # Errors
    /// When it died meanwhile.
    fn proven(self) -> io::Result<Box<dyn ByteStream>>;
}

impl Unproven for TcpStream {
    fn proven(self) -> io::Result<Box<dyn ByteStream>> {
        let stream = self.into_std()?;
        super::socket::prepare(&stream)?;
        Ok(Box::new(stream))
    }
}

/// Makes channels of a session of the connections that show its key.
pub struct Arrivals {
    key: Key,
    /// The layer that stands over connections, with what the node shows, if they are encrypted.
    layer: Option<(Arc<dyn Layer>, Arc<ServerConfig>)>,
    deliver: Deliver,
    refused: RefusedConnection,
    room: Room,
    /// The client's address, where it is known.
    client: Option<IpAddr>,
    handshakes: HandshakePlaces,
    /// The buffers that each connection has, where it is to hold a rate.
    buffer: Mutex<Option<Bytes>>,
    /// What the session's connections over UDT and QUIC keep, shared out among them.
    buffers: Arc<SessionBuffers>,
    /// Says nothing, and is gone with the session.
    lives: watch::Sender<()>,
}

impl Arrivals {
    /// Of the session that `key` is of.
    pub fn new(
        key: Key,
        layer: Option<(Arc<dyn Layer>, Arc<ServerConfig>)>,
        deliver: Deliver,
        refused: RefusedConnection,
    ) -> Arrivals {
        let handshakes = HandshakePlaces::new(MOST_HANDSHAKES);
        let (room, buffer): (Room, _) = (Box::new(|| true), Mutex::default());
        let (client, buffers, lives) = (None, Arc::default(), watch::Sender::new(()));
        Arrivals { key, layer, deliver, refused, room, client, handshakes, buffer, buffers, lives }
    }

    /// The same where there may be no room for a connection.
    #[must_use]
    pub(crate) fn within(self, room: Room) -> Arrivals {
        Arrivals { room, ..self }
    }

    /// The same of the client at this address: its own handshakes stay as long as there is a
    /// stranger's.
    #[must_use]
    pub(crate) fn of_client(self, client: IpAddr) -> Arrivals {
        Arrivals { client: Some(client.to_canonical()), ..self }
    }

    /// What the session's connections over UDT and QUIC keep, shared out among them.
    pub(crate) fn buffers(&self) -> &Arc<SessionBuffers> {
        &self.buffers
    }

    /// Whether there is room for one connection more.
    pub fn has_room(&self) -> bool {
        (self.room)()
    }

    /// From here on connections have such buffers, or those of every connection.
    pub fn set_buffer(&self, buffer: Option<Bytes>) {
        *lock(&self.buffer) = buffer;
    }

    /// The buffers that each connection has, where it is to hold a rate.
    pub fn buffer(&self) -> Option<Bytes> {
        *lock(&self.buffer)
    }

    /// What never changes, and says so no more once the session wants no connections.
    pub fn lives(&self) -> watch::Receiver<()> {
        self.lives.subscribe()
    }

    /// The session's key.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// What the node shows, if the session's connections are encrypted.
    pub fn identity(&self) -> Option<&Arc<ServerConfig>> {
        self.layer.as_ref().map(|(_, identity)| identity)
    }

    /// Tells that a connection is closed.
    pub fn refuse(&self, from: Option<SocketAddr>, why: &str) {
        (self.refused)(from, why);
    }

    /// Hands a channel on; says false when the session wants no more.
    pub fn deliver(&self, channel: Box<dyn Channel>) -> bool {
        (self.deliver)(channel)
    }

    /// Makes a channel of a connection that shows the key in time.
    ///
    /// # Errors
    /// When it shows another, or none in time.
    pub(crate) async fn greet(
        &self,
        mut stream: impl Unproven,
        from: Option<SocketAddr>,
        steps: &Steps,
    ) -> io::Result<()> {
        let mut preamble = [0; PREAMBLE_LEN];
        tokio::time::timeout(PREAMBLE_TIMEOUT, stream.read_exact(&mut preamble)).await??;
        if Token::of(&preamble) != Some(self.key.token()) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        stream.shown();
        steps.step();
        self.enter(stream, from, steps).await;
        Ok(())
    }

    /// Makes a channel of a connection whose preamble was right. A handshake costs a task and no
    /// thread, however long its peer takes.
    pub(crate) async fn enter(
        &self,
        mut stream: impl Unproven,
        from: Option<SocketAddr>,
        steps: &Steps,
    ) {
        let handshake = match &self.layer {
            None => None,
            Some(_) => {
                let Some(mut place) = self.handshakes.take(from, self.client, steps) else {
                    return self.refuse(from, NO_PLACE);
                };
                let shakes = self.shake_hands(&mut stream, steps);
                let shaken = tokio::select! {
                    shaken = tokio::time::timeout(HANDSHAKE_TIMEOUT, shakes) => shaken,
                    () = place.lost() => return self.refuse(from, NO_PLACE),
                };
                match shaken {
                    Ok(Ok(handshake)) => Some(handshake),
                    Ok(Err(error)) if self.is_given_up(from, &error) => return,
                    Ok(Err(error)) => {
                        return self.refuse(from, &format!("broke its handshake: {error}"));
                    }
                    Err(_) => return self.refuse(from, "did no handshake in time"),
                }
            }
        };
        // A connection that died meanwhile, or one more than a session can use, is dropped; its
        // client sees that.
        let made = stream.proven().and_then(|stream| match handshake {
            Some(handshake) => handshake.over(stream),
            None => Ok(stream),
        });
        if let Ok(stream) = made {
            self.deliver(Box::new(OrderedChannel::over(stream)));
        }
    }

    /// Whether it was the session's own client that closed a connection, before this had shown
    /// anything wrong: one more than it needs ends so (K-7).
    pub(crate) fn is_given_up(&self, from: Option<SocketAddr>, error: &io::Error) -> bool {
        let is_closed =
            matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset);
        is_closed && self.is_clients(from)
    }

    /// Whether `from` is an address of the session's own client, if that is known.
    pub(crate) fn is_clients(&self, from: Option<SocketAddr>) -> bool {
        from.is_some_and(|from| self.client == Some(from.ip().to_canonical()))
    }

    async fn shake_hands(
        &self,
        stream: &mut impl Unproven,
        steps: &Steps,
    ) -> io::Result<Box<dyn Handshake>> {
        let mut handshake = self.handshake()?;
        shake_hands_in_task(stream, &mut *handshake, steps).await?;
        Ok(handshake)
    }

    fn handshake(&self) -> io::Result<Box<dyn Handshake>> {
        if let Some((layer, identity)) = &self.layer {
            return layer.handshake(identity, &self.key);
        }
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Makes a channel of a connection that has yet to show the key; waits for it.
    ///
    /// # Errors
    /// When it shows another, or none in time.
    pub fn meet(&self, stream: Box<dyn ByteStream>, from: Option<SocketAddr>) -> io::Result<()> {
        self.met(stream).inspect_err(|error| {
            // A client that has all it wanted may be gone before its last connection has shown
            // anything.
            if error.kind() != io::ErrorKind::UnexpectedEof {
                self.refuse(from, NO_KEY);
            }
        })
    }

    fn met(&self, mut stream: Box<dyn ByteStream>) -> io::Result<()> {
        let (handle, deadline) = (stream.handle()?, Instant::now() + PREAMBLE_TIMEOUT);
        let (mut preamble, mut read) = ([0; PREAMBLE_LEN], 0);
        // Who says it byte by byte has no longer than who says it at once.
        while read < PREAMBLE_LEN {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            handle.set_read_timeout(Some(left))?;
            match stream.read(&mut preamble[read..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(len) => read += len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        handle.set_read_timeout(None)?;
        if Token::of(&preamble) != Some(self.key.token()) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.deliver(self.over(stream)?);
        Ok(())
    }

    fn over(&self, mut stream: Box<dyn ByteStream>) -> io::Result<Box<dyn Channel>> {
        if let Some((layer, identity)) = &self.layer {
            stream = layer.accept(stream, identity, &self.key, HANDSHAKE_TIMEOUT)?;
        }
        Ok(Box::new(OrderedChannel::over(stream)))
    }
}

#[cfg(test)]
#[cfg(feature = "tls")]
mod tests {
    use super::*;
    use crate::channels::driver::Role;
    use crate::channels::layer::TlsPeer;
    use crate::channels::tls;
    use crate::channels::trust::{NodeCertificate, pinned};
    use std::sync::mpsc;
    use tokio::net::TcpListener;

    /// Connects, and has `arrivals` take the connection in a task of its own.
    async fn connection(listener: &TcpListener, arrivals: &Arc<Arrivals>) -> std::net::TcpStream {
        let address: SocketAddr = listener.local_addr().expect("an address");
        let near = std::net::TcpStream::connect(address).expect("it listens");
        let (far, _) = listener.accept().await.expect("a connection");
        let arrivals = Arc::clone(arrivals);
        let from = far.peer_addr().ok();
        tokio::spawn(async move { arrivals.enter(far, from, &Steps::default()).await });
        near
    }

    #[test]
    fn stalled_handshakes_take_no_thread_and_have_their_number() {
        let identity = NodeCertificate::fresh().expect("a key");
        let Role::Layer(layer) = tls::driver().role else { panic!("TLS is a layer") };
        let layer: Arc<dyn Layer> = layer;
        let key = Key::random().expect("random bytes");
        let (sender, arrived) = mpsc::channel();
        let deliver: Deliver = Box::new(move |channel| sender.send(channel).is_ok());
        let over = Some((Arc::clone(&layer), Arc::clone(&identity.config)));
        let (tell, told) = mpsc::channel();
        let refused: RefusedConnection = Box::new(move |from, why| {
            let _ = tell.send((from, why.to_owned()));
        });
        let arrivals = Arc::new(Arrivals::new(key.clone(), over, deliver, refused));
        // One thread for what waits, which a single handshake by a thread would take.
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).max_blocking_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let mut stalled = Vec::new();
            for _ in 0..MOST_HANDSHAKES {
                stalled.push(connection(&listener, &arrivals).await);
            }
            let address = listener.local_addr().expect("an address");
            let near = connection(&listener, &arrivals).await;
            let config = pinned(identity.fingerprint).expect("TLS");
            let client = std::thread::spawn(move || {
                let mut stream = layer.connect(Box::new(near), &TlsPeer { config, address })?;
                stream.write_all(&key.proof())
            });
            let channel = tokio::task::block_in_place(|| {
                arrived
                    .recv_timeout(Duration::from_secs(8))
                    .expect("it is let in past those that stall")
            });
            client.join().expect("no panic").expect("a channel");
            drop(channel);
            // It had the place of the one that stalled longest.
            let first = &mut stalled[0];
            first.set_read_timeout(Some(Duration::from_secs(8))).expect("a timeout");
            let read = tokio::task::block_in_place(|| std::io::Read::read(first, &mut [0; 1]));
            assert!(matches!(read, Ok(0)), "{read:?}");
            let (from, why) = told.try_recv().expect("the node's operator hears of it");
            assert_eq!(from, first.local_addr().ok());
            assert!(why.contains("lost its place"), "{why}");
            // One of those that stall breaks it off.
            stalled.pop();
            let (_, why) =
                tokio::task::block_in_place(|| told.recv_timeout(Duration::from_secs(8)))
                    .expect("and of that");
            assert!(why.contains("broke its handshake"), "{why}");
        });
        runtime.shutdown_background();
    }
}

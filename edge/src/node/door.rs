//! Where a session's data connections come in when the client opens them all: each shows the
//! session's key first.
//!
//! Preambles are read side by side on the node's runtime, so that who connects and says nothing, or
//! says it slowly, holds nobody up (docs/protocol.md, K-3). Connections come from the session's own
//! data port, or from the control port, where [`DataListeners`] finds the session by the preamble (K-5).

use super::wire::{HANDSHAKE_TIMEOUT, PREAMBLE_TIMEOUT};
use crate::channels::key::{Key, PREAMBLE_LEN, PROOF_LEN, Token};
use crate::channels::ordered::OrderedChannel;
use crate::channels::rdma::{Exchange, RdmaListener, Terms};
use crate::channels::tcp::TcpChannel;
use crate::channels::{Channel, Handle, tls};
use crate::mover::Incoming;
use crate::sys::lock::lock;
use farline_core::units::{Error, Fault};
use rustls::ServerConfig;
use std::collections::{HashMap, VecDeque};
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, Weak, mpsc};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

/// Preambles read at once for one session: K-3.
const MOST_PENDING: usize = 256;
/// Channels that wait for a transfer to take them; more than any session uses.
const MOST_WAITING: usize = 128;

/// The doors of all sessions of a node.
#[derive(Default)]
pub(super) struct DataListeners(Mutex<HashMap<Token, Weak<Inside>>>);

/// One session's door.
pub(super) struct DataListener {
    inside: Arc<Inside>,
    arrived: Mutex<mpsc::Receiver<Option<Box<dyn Channel>>>>,
    listening: Option<Listening>,
    rdma: Option<RdmaListener>,
    exchange: Exchange,
    doors: Arc<DataListeners>,
}

struct Inside {
    key: Key,
    /// What connections are encrypted with, if they are.
    tls: Option<Arc<ServerConfig>>,
    arrivals: mpsc::SyncSender<Option<Box<dyn Channel>>>,
}

/// The task that accepts; it and those that read preambles end with this.
#[derive(Debug)]
struct Listening {
    address: SocketAddr,
    task: AbortHandle,
}

impl std::fmt::Debug for DataListeners {
    /// Without keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Doors")
    }
}

impl DataListeners {
    /// The door of a session whose key is `key`, for connections under `tls` if there is one.
    pub(super) fn open(
        self: &Arc<DataListeners>,
        key: Key,
        tls: Option<Arc<ServerConfig>>,
    ) -> DataListener {
        let (arrivals, arrived) = mpsc::sync_channel(MOST_WAITING);
        let inside = Arc::new(Inside { key, tls, arrivals });
        lock(&self.0).insert(inside.key.token(), Arc::downgrade(&inside));
        let exchange = Exchange::new(inside.key.clone());
        DataListener {
            inside,
            arrived: Mutex::new(arrived),
            listening: None,
            rdma: None,
            exchange,
            doors: Arc::clone(self),
        }
    }

    /// Gives a connection that came with `preamble` to the session it is of. Answers whether there
    /// is one.
    pub(super) async fn admit(&self, preamble: &[u8; PREAMBLE_LEN], stream: TcpStream) -> bool {
        let Some(token) = Token::of(preamble) else { return false };
        let Some(inside) = lock(&self.0).get(&token).and_then(Weak::upgrade) else { return false };
        inside.enter(stream).await;
        true
    }
}

impl DataListener {
    /// Where it listens.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.listening.as_ref().map(|listening| listening.address)
    }

    /// Opens on `listener` too. Needs a tokio runtime around it.
    ///
    /// # Errors
    /// When the listener cannot be used.
    pub(super) fn listen(&mut self, listener: TcpListener) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let task = tokio::spawn(supervise(listener, Arc::downgrade(&self.inside))).abort_handle();
        self.listening = Some(Listening { address, task });
        Ok(())
    }

    /// Opens for RDMA channels too, at `ip`; answers with the address.
    ///
    /// # Errors
    /// When no RDMA device of this host serves that address.
    pub(super) fn listen_for_rdma(
        &mut self,
        ip: IpAddr,
        terms: Terms,
    ) -> Result<SocketAddr, Error> {
        // A weak one: a session that is gone must not be kept by those who knock.
        let inside = Arc::downgrade(&self.inside);
        let deliver = move |channel| {
            inside.upgrade().is_some_and(|inside| inside.arrivals.try_send(Some(channel)).is_ok())
        };
        let rdma = RdmaListener::open(ip, self.inside.key.clone(), terms, deliver)?;
        let address = rdma.address();
        self.rdma = Some(rdma);
        Ok(address)
    }

    /// Takes an RDMA channel that the client offers over the control connection, to this host's
    /// `ip`; answers with what to tell it.
    ///
    /// # Errors
    /// When the two ends cannot be connected.
    pub(super) fn take_rdma(
        &mut self,
        ip: IpAddr,
        terms: Terms,
        offer: &str,
    ) -> Result<String, Error> {
        let (channel, told) = self.exchange.accept(ip, terms, offer)?;
        let full = |_| {
            Error::new(
                Fault::Refused,
                "too-many-channels",
                "more RDMA channels than any session uses",
            )
        };
        self.inside.arrivals.try_send(Some(channel)).map_err(full)?;
        Ok(told)
    }

    /// Lets go of what came and was not taken.
    pub(super) fn clear(&self) {
        let arrived = lock(&self.arrived);
        while arrived.try_recv().is_ok() {}
    }
}

impl Drop for DataListener {
    fn drop(&mut self) {
        lock(&self.doors.0).remove(&self.inside.key.token());
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Incoming for DataListener {
    fn accept(&self, timeout: Duration) -> Result<Option<Box<dyn Channel>>, Error> {
        match lock(&self.arrived).recv_timeout(timeout) {
            Ok(arrival) => Ok(arrival),
            Err(mpsc::RecvTimeoutError::Timeout) => Ok(None),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                Err(Error::new(Fault::Bug, "door-closed", "the data port closed itself"))
            }
        }
    }

    fn wake(&self) {
        // When the queue is full, there is something to wake up for already.
        let _ = self.inside.arrivals.try_send(None);
    }
}

impl Inside {
    /// Makes a channel of a connection whose preamble was right.
    async fn enter(&self, stream: TcpStream) {
        // A connection that died meanwhile, or one more than a session can use, is dropped; its
        // client sees that.
        let Ok(stream) = stream.into_std() else { return };
        let channel: io::Result<Box<dyn Channel>> = match &self.tls {
            None => TcpChannel::new(stream).map(|channel| Box::new(channel) as Box<dyn Channel>),
            Some(config) => {
                let (key, config) = (self.key.clone(), Arc::clone(config));
                let secured =
                    tokio::task::spawn_blocking(move || secure(stream, config, &key)).await;
                secured.unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
            }
        };
        if let Ok(channel) = channel {
            let _ = self.arrivals.try_send(Some(channel));
        }
    }
}

/// The TLS handshake, and the proof that must follow it (P-2).
fn secure(
    stream: std::net::TcpStream,
    config: Arc<ServerConfig>,
    key: &Key,
) -> io::Result<Box<dyn Channel>> {
    stream.set_nonblocking(false)?;
    let handle = Handle::of(&stream)?;
    let mut stream = tls::accept(stream, config, HANDSHAKE_TIMEOUT)?;
    let mut proof = [0; PROOF_LEN];
    handle.set_read_timeout(Some(HANDSHAKE_TIMEOUT))?;
    stream.read_exact(&mut proof)?;
    handle.set_read_timeout(None)?;
    match key.proves(proof) {
        true => Ok(Box::new(OrderedChannel::over(stream))),
        false => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

/// Accepts connections and reads their preambles, until the session is gone.
async fn supervise(listener: tokio::net::TcpListener, inside: Weak<Inside>) {
    let mut pending = VecDeque::<Pending>::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            // Out of descriptors: those in use will come back; spinning would not help them.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
            Err(_) => continue,
        };
        let Some(inside) = inside.upgrade() else { return };
        pending.retain(|pending| !pending.0.is_finished());
        if pending.len() >= MOST_PENDING {
            // A client's preamble comes with its connection: whoever has waited longest is no
            // client.
            pending.pop_front();
        }
        pending.push_back(Pending(tokio::spawn(greet(inside, stream)).abort_handle()));
    }
}

/// A connection whose preamble is being read; closed when this goes.
struct Pending(AbortHandle);

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn greet(inside: Arc<Inside>, mut stream: TcpStream) {
    let mut preamble = [0; PREAMBLE_LEN];
    let read = tokio::time::timeout(PREAMBLE_TIMEOUT, stream.read_exact(&mut preamble)).await;
    if matches!(read, Ok(Ok(_))) && Token::of(&preamble) == Some(inside.key.token()) {
        inside.enter(stream).await;
    }
}

//! Where a session's data connections come in when the client opens them all: each shows the session's key first.
//!
//! Preambles are read side by side on the node's runtime, so that who connects and says nothing, or says it slowly, holds
//! nobody up (docs/protocol.md, K-3). Connections come from the session's own data port, or from the control port, where
//! [`Doors`] finds the session by the preamble (K-5).

use crate::channels::Channel;
use crate::channels::key::{Key, PREAMBLE_LEN, Token};
use crate::channels::tcp::TcpChannel;
use crate::mover::Incoming;
use farline_core::units::{Error, Fault};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, mpsc};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

/// How long a preamble may take: K-3.
const PREAMBLE_TIMEOUT: Duration = Duration::from_secs(5);
/// Preambles read at once for one session: K-3.
const MOST_PENDING: usize = 256;
/// Channels that wait for a transfer to take them; more than any session uses.
const MOST_WAITING: usize = 128;

/// The doors of all sessions of a node.
#[derive(Debug, Default)]
pub(super) struct Doors(Mutex<HashMap<Token, Weak<Inside>>>);

/// One session's door.
#[derive(Debug)]
pub(super) struct Door {
    inside: Arc<Inside>,
    arrived: Mutex<mpsc::Receiver<Option<Box<dyn Channel>>>>,
    listening: Option<Listening>,
    doors: Arc<Doors>,
}

#[derive(Debug)]
struct Inside {
    key: Key,
    arrivals: mpsc::SyncSender<Option<Box<dyn Channel>>>,
}

/// The task that accepts; it and those that read preambles end with this.
#[derive(Debug)]
struct Listening {
    address: SocketAddr,
    task: AbortHandle,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Doors {
    /// The door of a session whose key is `key`.
    pub(super) fn open(self: &Arc<Doors>, key: Key) -> Door {
        let (arrivals, arrived) = mpsc::sync_channel(MOST_WAITING);
        let inside = Arc::new(Inside { key, arrivals });
        lock(&self.0).insert(inside.key.token(), Arc::downgrade(&inside));
        Door { inside, arrived: Mutex::new(arrived), listening: None, doors: Arc::clone(self) }
    }

    /// Gives a connection that came with `preamble` to the session it is of. Answers whether there is one.
    pub(super) async fn admit(&self, preamble: &[u8; PREAMBLE_LEN], stream: TcpStream) -> bool {
        let Some(token) = Token::of(preamble) else { return false };
        let Some(inside) = lock(&self.0).get(&token).and_then(Weak::upgrade) else { return false };
        inside.enter(stream).await;
        true
    }
}

impl Door {
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
        let task = tokio::spawn(attend(listener, Arc::downgrade(&self.inside))).abort_handle();
        self.listening = Some(Listening { address, task });
        Ok(())
    }

    /// Lets go of what came and was not taken.
    pub(super) fn clear(&self) {
        let arrived = lock(&self.arrived);
        while arrived.try_recv().is_ok() {}
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        lock(&self.doors.0).remove(&self.inside.key.token());
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Incoming for Door {
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
        // A connection that died meanwhile, or one more than a session can use, is dropped; its client sees that.
        let Ok(channel) = stream.into_std().and_then(TcpChannel::new) else { return };
        let _ = self.arrivals.try_send(Some(Box::new(channel)));
    }
}

/// Accepts connections and reads their preambles, until the session is gone.
async fn attend(listener: tokio::net::TcpListener, inside: Weak<Inside>) {
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
            // A client's preamble comes with its connection: whoever has waited longest is no client.
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

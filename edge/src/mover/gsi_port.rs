//! Where the data connections of a session by GSI come in: each shows whose it is before it is one.

use super::{DataPeers, Incoming};
use crate::channels::Channel;
use crate::channels::accept_error::{BackOff, accept_next};
use crate::channels::gsi::DataSecurity;
use crate::channels::ordered::{ByteStream, OrderedChannel};
use crate::channels::socket::{TcpOptions, bind, no_port};
use crate::sys::lock::lock;
use farline_core::units::{Error, ErrorCode, Fault};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

/// How long the handshake of a data connection may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Handshakes under way for one session: as many as it may have channels.
const MOST_HANDSHAKES: usize = 64;
/// Connections that wait for a transfer to take them.
const MOST_WAITING: usize = 128;

/// Hears of a connection that is nobody's who is meant, and why.
type Stranger = Arc<dyn Fn(IpAddr, &io::Error) + Send + Sync>;

/// A connection, or that somebody wants to be woken.
type Arrival = Option<Box<dyn ByteStream>>;

/// A listening data port whose connections have to prove whose they are.
pub(crate) struct GsiPort {
    address: SocketAddr,
    incoming: mpsc::SyncSender<Arrival>,
    arrived: Mutex<mpsc::Receiver<Arrival>>,
    accepting: AbortHandle,
}

impl GsiPort {
    /// Listens on `address` for `peers`; `stranger` hears who did not show whose
    /// it is. Needs a tokio runtime around it.
    ///
    /// # Errors
    /// When no port can be had.
    pub(crate) fn open(
        address: SocketAddr,
        ports: Option<(u16, u16)>,
        peers: DataPeers,
        options: &TcpOptions,
        security: DataSecurity,
        stranger: impl Fn(IpAddr, &io::Error) + Send + Sync + 'static,
    ) -> Result<GsiPort, Error> {
        let listener = bind(address, ports, options)?;
        let opened = (|| {
            listener.set_nonblocking(true)?;
            Ok((listener.local_addr()?, TcpListener::from_std(listener)?))
        })();
        let (address, listener) = opened.map_err(|error: io::Error| no_port(address, &error))?;
        let (incoming, arrived) = mpsc::sync_channel(MOST_WAITING);
        let to = incoming.clone();
        let accepting = tokio::spawn(accept_all(listener, peers, security, to, Arc::new(stranger)));
        let arrived = Mutex::new(arrived);
        Ok(GsiPort { address, incoming, arrived, accepting: accepting.abort_handle() })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next connection, without MODE E; `None` after `timeout` or a wake.
    ///
    /// # Errors
    /// When the port is gone.
    pub(crate) fn accept_stream(&self, timeout: Duration) -> Result<Arrival, Error> {
        match lock(&self.arrived).recv_timeout(timeout) {
            Ok(arrival) => Ok(arrival),
            Err(mpsc::RecvTimeoutError::Timeout) => Ok(None),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                Err(Error::new(Fault::Bug, ErrorCode::DoorClosed, "the data port closed itself"))
            }
        }
    }
}

impl Drop for GsiPort {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Incoming for GsiPort {
    fn accept(&self, timeout: Duration) -> Result<Option<Box<dyn Channel>>, Error> {
        let stream = self.accept_stream(timeout)?;
        Ok(stream.map(|stream| Box::new(OrderedChannel::over(stream)) as Box<dyn Channel>))
    }

    fn wake(&self) {
        // When the queue is full, there is something to wake up for already.
        let _ = self.incoming.try_send(None);
    }
}

/// Takes connections until the port is dropped. A handshake costs a task and no thread.
async fn accept_all(
    listener: TcpListener,
    peers: DataPeers,
    security: DataSecurity,
    incoming: mpsc::SyncSender<Arrival>,
    stranger: Stranger,
) {
    let handshakes = Arc::new(Semaphore::new(MOST_HANDSHAKES));
    let mut back_off = BackOff::default();
    while let Some((stream, from)) = accept_next(&listener, &mut back_off).await {
        if !peers.admit(from) {
            continue;
        }
        // More than the session may have channels: none of a client that keeps the rules.
        let Ok(place) = Arc::clone(&handshakes).try_acquire_owned() else { continue };
        let (security, incoming, stranger) =
            (security.clone(), incoming.clone(), Arc::clone(&stranger));
        tokio::spawn(async move {
            let _place = place;
            let made = tokio::time::timeout(HANDSHAKE_TIMEOUT, secured(stream, &security)).await;
            let made = made.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
            match made {
                // Full, or nobody waits any more: the client sees that it is closed.
                Ok(stream) => drop(incoming.try_send(Some(stream))),
                Err(error) => stranger(from.ip(), &error),
            }
        });
    }
}

async fn secured(
    mut stream: TcpStream,
    security: &DataSecurity,
) -> io::Result<Box<dyn ByteStream>> {
    let mut handshake = security.accept()?;
    handshake.run(&mut stream).await?;
    handshake.over(stream.into_std()?)
}

//! Where data connections come in that have to show whose they are before they are any: by GSI, or
//! by TLS where there is no key.

use super::acceptor::cannot_accept;
use super::{DataPeers, Incoming};
use crate::channels::Channel;
use crate::channels::accept_error::{BackOff, accept_next};
use crate::channels::gsi::DataSecurity;
use crate::channels::ordered::{ByteStream, OrderedChannel};
use crate::channels::pending::{NO_PLACE, Pending, Steps};
use crate::channels::secured::{Bound, secured_in_task};
use crate::channels::socket::{TcpOptions, bind, no_port};
use crate::channels::trust::ServerConfig;
use crate::sys::lock::lock;
use farline_core::units::Error;
use std::fmt::Display;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

/// How long the handshake of a data connection may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Handshakes under way for one session: as many as it may have channels.
const MOST_HANDSHAKES: usize = 64;
/// Connections that wait for a transfer to take them.
const MOST_WAITING: usize = 128;

/// A connection, or that somebody wants to be woken.
type Arrival = Option<Box<dyn ByteStream>>;

/// Hears of who is not whom a port is for: from where, and why.
type Stranger = Box<dyn Fn(IpAddr, &dyn Display) + Send + Sync>;

/// How a connection shows whose it is.
#[derive(Clone)]
pub(crate) enum PortSecurity {
    /// By DCAU.
    Gsi(DataSecurity),
    /// By TLS; as the client's own, where that is known.
    Tls(Arc<ServerConfig>, Option<Bound>),
}

impl PortSecurity {
    async fn shown(self, mut stream: TcpStream, steps: &Steps) -> io::Result<Box<dyn ByteStream>> {
        match self {
            PortSecurity::Gsi(security) => {
                let mut handshake = security.accept()?;
                handshake.run(&mut stream, steps).await?;
                handshake.over(stream.into_std()?)
            }
            PortSecurity::Tls(config, bound) => secured_in_task(stream, config, bound, steps).await,
        }
    }
}

/// A listening data port whose connections have to show whose they are. A handshake costs a task
/// and no thread, and those of who says nothing are in nobody's way.
pub(crate) struct SecuredPort {
    address: SocketAddr,
    incoming: mpsc::SyncSender<Arrival>,
    arrived: Mutex<mpsc::Receiver<Arrival>>,
    context: Arc<HandshakeContext>,
    accepting: AbortHandle,
}

/// What each handshake needs.
struct HandshakeContext {
    security: PortSecurity,
    incoming: mpsc::SyncSender<Arrival>,
    stranger: Stranger,
    /// Whose port it is, if that is known.
    client: Option<IpAddr>,
    /// Handshakes under way.
    under_way: AtomicUsize,
    /// The first that failed.
    failure: Mutex<Option<String>>,
    /// Why no connection can be taken now: no file descriptor left.
    full: Mutex<Option<Error>>,
}

impl SecuredPort {
    /// Listens on `address` for `peers`, of which `client` is the one that it is for, if that is
    /// known. `stranger` hears who did not show whose it is, unless the client itself went before
    /// it had shown anything. Needs a tokio runtime around it.
    ///
    /// # Errors
    /// When no port can be had.
    pub(crate) fn open(
        address: SocketAddr,
        ports: Option<(u16, u16)>,
        (peers, client): (DataPeers, Option<IpAddr>),
        options: &TcpOptions,
        security: PortSecurity,
        stranger: impl Fn(IpAddr, &dyn Display) + Send + Sync + 'static,
    ) -> Result<SecuredPort, Error> {
        let listener = bind(address, ports, options)?;
        SecuredPort::over(listener, (peers, client), security, stranger)
            .map_err(|error| no_port(address, &error))
    }

    /// The same at a listener that there is.
    ///
    /// # Errors
    /// When it cannot be used.
    pub(crate) fn over(
        listener: std::net::TcpListener,
        (peers, client): (DataPeers, Option<IpAddr>),
        security: PortSecurity,
        stranger: impl Fn(IpAddr, &dyn Display) + Send + Sync + 'static,
    ) -> io::Result<SecuredPort> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = Handle::try_current().map_err(io::Error::other)?;
        let listener = TcpListener::from_std(listener)?;
        let (incoming, arrived) = mpsc::sync_channel(MOST_WAITING);
        let context = Arc::new(HandshakeContext {
            security,
            incoming: incoming.clone(),
            stranger: Box::new(stranger),
            client,
            under_way: AtomicUsize::new(0),
            failure: Mutex::default(),
            full: Mutex::default(),
        });
        let pending = Pending::new(runtime.clone(), MOST_HANDSHAKES, client);
        let accepting = runtime.spawn(accept_all(listener, peers, pending, Arc::clone(&context)));
        let (arrived, accepting) = (Mutex::new(arrived), accepting.abort_handle());
        Ok(SecuredPort { address, incoming, arrived, context, accepting })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether somebody's handshake is under way.
    pub(crate) fn is_heard(&self) -> bool {
        self.context.under_way.load(Ordering::Relaxed) > 0
    }

    /// Why the first failed that did not show whose it is.
    pub(crate) fn failure(&self) -> Option<String> {
        lock(&self.context.failure).clone()
    }

    /// The next connection, without MODE E; `None` after `timeout` or a wake.
    ///
    /// # Errors
    /// When this host cannot accept: no file descriptor left.
    pub(crate) fn accept_stream(&self, timeout: Duration) -> Result<Arrival, Error> {
        // This has a sender of its own: it is never without one.
        match lock(&self.arrived).recv_timeout(timeout).ok().flatten() {
            Some(stream) => Ok(Some(stream)),
            None => lock(&self.context.full).take().map_or(Ok(None), Err),
        }
    }
}

impl Drop for SecuredPort {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Incoming for SecuredPort {
    fn accept(&self, timeout: Duration) -> Result<Option<Box<dyn Channel>>, Error> {
        let stream = self.accept_stream(timeout)?;
        Ok(stream.map(|stream| Box::new(OrderedChannel::over(stream)) as Box<dyn Channel>))
    }

    fn wake(&self) {
        // When the queue is full, there is something to wake up for already.
        let _ = self.incoming.try_send(None);
    }
}

/// Takes connections until the port is dropped.
async fn accept_all(
    listener: TcpListener,
    peers: DataPeers,
    mut pending: Pending,
    context: Arc<HandshakeContext>,
) {
    let mut back_off = BackOff::default();
    let full = |error: &io::Error| *lock(&context.full) = Some(cannot_accept(error));
    while let Some((stream, from)) = accept_next(&listener, &mut back_off, &full).await {
        *lock(&context.full) = None;
        if !peers.admit(from) {
            continue;
        }
        let at = Arc::clone(&context);
        let gone = pending.begin(from, |steps| at.enter(stream, from, steps));
        if let Some(gone) = gone {
            (context.stranger)(gone.ip(), &NO_PLACE);
        }
        // What came is read before another's place is taken for it.
        tokio::task::yield_now().await;
    }
}

/// Counts a handshake for as long as it is under way.
struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl HandshakeContext {
    async fn enter(self: Arc<HandshakeContext>, stream: TcpStream, from: SocketAddr, steps: Steps) {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        let _counted = Counted(&self.under_way);
        let shown = self.security.clone().shown(stream, &steps);
        let shown = tokio::time::timeout(HANDSHAKE_TIMEOUT, shown).await;
        match shown.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            // Full, or nobody waits any more: the client sees that it is closed.
            Ok(stream) => drop(self.incoming.try_send(Some(stream))),
            Err(error) => {
                lock(&self.failure).get_or_insert_with(|| error.to_string());
                // One more connection of the client's than it needs ends so.
                let is_given_up = error.kind() == io::ErrorKind::UnexpectedEof
                    && self.client == Some(from.ip().to_canonical());
                if !is_given_up {
                    (self.stranger)(from.ip(), &error);
                }
            }
        }
    }
}

#[cfg(all(test, feature = "tls"))]
mod tests {
    use super::*;
    use crate::channels::trust::NodeCertificate;
    use farline_core::units::ErrorCode;
    use tokio::io::AsyncWriteExt;

    #[tokio::test]
    async fn a_client_that_goes_before_it_shows_anything_is_no_stranger() {
        let identity = NodeCertificate::fresh().expect("a key");
        let [near, elsewhere] = [1, 2].map(|last| IpAddr::from([127, 0, 0, last]));
        for (client, said, is_stranger) in [
            (near, &b""[..], false),
            (near, &b"this is no TLS"[..], true),
            (elsewhere, &b""[..], true),
        ] {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
            let security = PortSecurity::Tls(Arc::clone(&identity.config), None);
            let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
            let stranger = move |_: IpAddr, _: &dyn Display| {
                let _ = tell.send(());
            };
            let peers = (DataPeers::any(), Some(client));
            let port = SecuredPort::over(listener, peers, security, stranger).expect("it listens");
            let mut gone = TcpStream::connect(port.address()).await.expect("a way");
            gone.write_all(said).await.expect("sent");
            drop(gone);
            while port.failure().is_none() || port.is_heard() {
                tokio::task::yield_now().await;
            }
            assert_eq!(told.try_recv().is_ok(), is_stranger, "{client} says {said:?}");
        }
    }

    #[tokio::test]
    async fn who_waits_hears_that_no_descriptor_is_left() {
        let identity = NodeCertificate::fresh().expect("a key");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let security = PortSecurity::Tls(identity.config, None);
        let peers = (DataPeers::any(), None);
        let port = SecuredPort::over(listener, peers, security, |_, _| {}).expect("it listens");
        assert!(matches!(port.accept_stream(Duration::ZERO), Ok(None)), "nobody came");
        let full = io::Error::from_raw_os_error(libc::EMFILE);
        *lock(&port.context.full) = Some(cannot_accept(&full));
        let refused = port.accept_stream(Duration::ZERO).err().expect("it is told");
        assert_eq!(refused.code, ErrorCode::AcceptFailed);
        *lock(&port.context.full) = Some(cannot_accept(&full));
        let _client = TcpStream::connect(port.address()).await.expect("a way");
        // Once one is taken, there is a descriptor again.
        while !port.is_heard() {
            tokio::task::yield_now().await;
        }
        assert!(matches!(port.accept_stream(Duration::ZERO), Ok(None)));
    }
}

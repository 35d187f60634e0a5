//! Where a session's data connections come in when the client opens them all: each shows the
//! session's key first.
//!
//! Connections come from the session's own data port, or from the control port, where
//! [`DataListeners`] finds the session by the preamble (K-5); or they are offered over the control
//! connection (V-9).

use crate::channels::Channel;
use crate::channels::arrivals::{Arrivals, PREAMBLE_TIMEOUT, RefusedConnection, Room};
use crate::channels::driver::{Driver, Listen, Listener, Role, Slots, Taker};
use crate::channels::key::{Key, PREAMBLE_LEN, Token};
use crate::channels::layer::Layer;
use crate::channels::pending::Steps;
use crate::channels::socket::widen;
use crate::channels::trust::ServerConfig;
use crate::mover::Incoming;
use crate::sys::lock::lock;
use farline_core::units::{Error, ErrorCode, Fault};
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak, mpsc};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// A node that lists it waits for a connection's session (K-7).
pub(super) const FEATURE: &str = "FARLINE EARLY";
/// What a node lists that gives such connections the window of a held rate, with its bytes.
pub(super) const HELD_FEATURE: &str = "FARLINE EARLYHELD";

/// Channels that wait for a transfer to take them; more than any session uses.
const MOST_WAITING: usize = 128;

/// The listeners of all sessions of a node, once they take connections.
#[derive(Default)]
pub(super) struct DataListeners {
    /// Of each session by its key, and whether it takes connections yet.
    known: Mutex<HashMap<Token, (Weak<Arrivals>, bool)>>,
    /// One was added, or takes connections.
    added: Notify,
    /// Whether connections of the control port begin with the window of a held rate.
    begin_wide: AtomicBool,
}

/// One session's listener.
pub(super) struct DataListener {
    arrivals: Arc<Arrivals>,
    incoming: mpsc::SyncSender<Option<Box<dyn Channel>>>,
    arrived: Mutex<mpsc::Receiver<Option<Box<dyn Channel>>>>,
    /// The session's port, by whichever driver.
    port: Option<Box<dyn Listener>>,
    /// Whether it is the session's alone, and none that sessions share.
    is_own_port: bool,
    /// What takes channels that are offered, by the driver's name.
    takers: BTreeMap<&'static str, Box<dyn Taker>>,
    listeners: Arc<DataListeners>,
}

impl std::fmt::Debug for DataListeners {
    /// Without keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DataListeners")
    }
}

impl DataListeners {
    /// The listener of the session of `client` whose key is `key`, for connections under `layer` if
    /// there is one, as long as there is `room`.
    pub(super) fn open(
        self: &Arc<DataListeners>,
        (key, client): (Key, IpAddr),
        layer: Option<(Arc<dyn Layer>, Arc<ServerConfig>)>,
        refused: RefusedConnection,
        room: Room,
    ) -> DataListener {
        let (incoming, arrived) = mpsc::sync_channel(MOST_WAITING);
        let came = incoming.clone();
        let deliver = Box::new(move |channel| came.try_send(Some(channel)).is_ok());
        let arrivals = Arrivals::new(key, layer, deliver, refused).within(room).of_client(client);
        let arrivals = Arc::new(arrivals);
        self.know(&arrivals, false);
        DataListener {
            arrivals,
            incoming,
            arrived: Mutex::new(arrived),
            port: None,
            is_own_port: false,
            takers: BTreeMap::new(),
            listeners: Arc::clone(self),
        }
    }

    /// From here on `arrivals` is its session's, which `takes` connections or will.
    fn know(&self, arrivals: &Arc<Arrivals>, takes: bool) {
        lock(&self.known).insert(arrivals.key().token(), (Arc::downgrade(arrivals), takes));
        self.added.notify_waiters();
    }

    /// Connections of the control port begin with the window of a held rate.
    pub(super) fn begin_wide(&self) {
        self.begin_wide.store(true, Ordering::Relaxed);
    }

    /// Gives a connection that came with `preamble` to the session it is of, which may be a while
    /// behind it (K-7); it is closed, and this false, when there is none. One that its session has
    /// no room for is closed too; and one that its session's client opened early and no transfer
    /// wanted, which is nobody else's.
    pub(super) async fn admit(&self, preamble: &[u8; PREAMBLE_LEN], stream: TcpStream) -> bool {
        self.admit_within(preamble, stream, PREAMBLE_TIMEOUT).await
    }

    async fn admit_within(
        &self,
        preamble: &[u8; PREAMBLE_LEN],
        stream: TcpStream,
        within: Duration,
    ) -> bool {
        let Some(token) = Token::of(preamble) else { return false };
        let from = stream.peer_addr().ok();
        let mut is_clients = false;
        let found = async {
            loop {
                // Before the look, so that none is missed that comes after it.
                let added = self.added.notified();
                tokio::pin!(added);
                added.as_mut().enable();
                let known = lock(&self.known).get(&token).cloned();
                let known = known.and_then(|(arrivals, takes)| Some((arrivals.upgrade()?, takes)));
                match known {
                    Some((arrivals, true)) => return arrivals,
                    // The session may be over before the wait is.
                    Some((arrivals, false)) => is_clients |= arrivals.is_clients(from),
                    None => {}
                }
                added.await;
            }
        };
        let Ok(arrivals) = tokio::time::timeout(within, found).await else {
            return is_clients;
        };
        if !arrivals.has_room() {
            return true;
        }
        if !self.begin_wide.load(Ordering::Relaxed) || widen(&stream, arrivals.buffer()).is_ok() {
            arrivals.enter(stream, from, &Steps::default()).await;
        }
        true
    }
}

impl DataListener {
    /// What makes channels of the session's connections.
    pub(super) fn arrivals(&self) -> &Arc<Arrivals> {
        &self.arrivals
    }

    /// Opens a port by `driver`; returns its address. Needs a tokio runtime around it.
    ///
    /// # Errors
    /// When no port can be had.
    pub(super) fn listen(&mut self, driver: &Driver, listen: Listen) -> Result<SocketAddr, Error> {
        let Role::Channel(transport) = &driver.role else { return Err(no_channel(driver)) };
        self.arrivals.set_buffer(listen.sockets.held.and(listen.sockets.buffer));
        let port = transport.listen(listen)?;
        let address = self.share(port);
        self.is_own_port = true;
        Ok(address)
    }

    /// Closes a port of the session's own; returns whether there was one. What has come stays, and
    /// the control port still knows the session's key (K-5).
    pub(super) fn close_port(&mut self) -> bool {
        self.is_own_port && self.port.take().is_some()
    }

    /// Takes channels from a place at a port that sessions share; returns its address.
    pub(super) fn share(&mut self, place: Box<dyn Listener>) -> SocketAddr {
        self.clear();
        let address = place.address();
        (self.port, self.is_own_port) = (Some(place), false);
        // What came for a port before this one is gone: from here on it is for this one.
        self.listeners.know(&self.arrivals, true);
        address
    }

    /// Takes a channel of `driver` that the client offers over the control connection, to this
    /// host's `ip`; returns what to tell it.
    ///
    /// # Errors
    /// When the two ends cannot be connected.
    pub(super) fn take(
        &mut self,
        driver: &Driver,
        ip: IpAddr,
        slots: Slots,
        offer: &str,
    ) -> Result<String, Error> {
        let Role::Channel(transport) = &driver.role else { return Err(no_channel(driver)) };
        if !self.takers.contains_key(driver.name) {
            let taker = transport.taker(self.arrivals.key()).ok_or_else(|| no_channel(driver))?;
            self.takers.insert(driver.name, taker);
        }
        let taker = self.takers.get_mut(driver.name).ok_or_else(|| no_channel(driver))?;
        let (channel, told) = taker.take(ip, slots, offer)?;
        let full = |_| {
            let message = format!("more {} channels than any session uses", driver.title);
            Error::new(Fault::Refused, ErrorCode::TooManyChannels, message)
        };
        self.incoming.try_send(Some(channel)).map_err(full)?;
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
        lock(&self.listeners.known).remove(&self.arrivals.key().token());
    }
}

impl Incoming for DataListener {
    fn accept(&self, timeout: Duration) -> Result<Option<Box<dyn Channel>>, Error> {
        // This has a sender of its own: it is never without one.
        Ok(lock(&self.arrived).recv_timeout(timeout).ok().flatten())
    }

    fn wake(&self) {
        // When the queue is full, there is something to wake up for already.
        let _ = self.incoming.try_send(None);
    }
}

fn no_channel(driver: &Driver) -> Error {
    let message = format!("no channel of {} can be offered to this node", driver.title);
    Error::new(Fault::You, ErrorCode::Unsupported, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels::key::Key;
    use tokio::net::TcpListener as AsyncListener;

    /// A place that never delivers by itself.
    struct NoPort;

    impl Listener for NoPort {
        fn address(&self) -> SocketAddr {
            ([127, 0, 0, 1], 9).into()
        }
    }

    /// The listener of the session with this key.
    fn opened(listeners: &Arc<DataListeners>, key: Key) -> DataListener {
        let client = IpAddr::from([127, 0, 0, 1]);
        listeners.open((key, client), None, Box::new(|_, _| {}), Box::new(|| true))
    }

    /// A connection from a client, and its end here.
    async fn connection() -> (std::net::TcpStream, TcpStream) {
        let listener = AsyncListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let near = std::net::TcpStream::connect(address).expect("it listens");
        (near, listener.accept().await.expect("a connection").0)
    }

    #[tokio::test]
    async fn a_connection_ahead_of_its_session_waits_for_it() {
        let listeners = Arc::new(DataListeners::default());
        let key = Key::random().expect("random bytes");
        let (near, far) = connection().await;
        let (preamble, shared) = (key.preamble(), Arc::clone(&listeners));
        let waits = tokio::spawn(async move { shared.admit(&preamble, far).await });
        let mut session = opened(&listeners, key);
        tokio::task::yield_now().await;
        assert!(!waits.is_finished(), "a key alone is no port");
        session.share(Box::new(NoPort));
        waits.await.expect("no panic");
        let came = session.accept(Duration::from_secs(8)).expect("it is open");
        assert!(came.is_some(), "the session has a channel");
        drop(near);
    }

    #[tokio::test]
    async fn a_clients_connection_that_no_transfer_wants_is_its_own() {
        let listeners = Arc::new(DataListeners::default());
        let [key, other] = [(); 2].map(|()| Key::random().expect("random bytes"));
        let within = Duration::from_millis(50);
        // A session that says its key and asks for no port; one of a client elsewhere.
        let session = opened(&listeners, key.clone());
        let client = IpAddr::from([127, 0, 0, 2]);
        let _elsewhere =
            listeners.open((other.clone(), client), None, Box::new(|_, _| {}), Box::new(|| true));
        let (_near, far) = connection().await;
        assert!(!listeners.admit_within(&other.preamble(), far, within).await, "from elsewhere");
        let (_near, far) = connection().await;
        let (preamble, shared) = (key.preamble(), Arc::clone(&listeners));
        let waits = tokio::spawn(async move { shared.admit_within(&preamble, far, within).await });
        tokio::task::yield_now().await;
        drop(session);
        assert!(waits.await.expect("no panic"), "its session was there");
        let (_near, far) = connection().await;
        assert!(!listeners.admit_within(&preamble, far, within).await, "it is over");
    }

    #[tokio::test]
    async fn a_connection_of_no_session_is_closed_after_a_while() {
        let listeners = Arc::new(DataListeners::default());
        let (mut near, far) = connection().await;
        let other = Key::random().expect("random bytes");
        let key = Key::random().expect("random bytes");
        let mut session = opened(&listeners, key);
        session.share(Box::new(NoPort));
        let preamble = other.preamble();
        assert!(!listeners.admit_within(&preamble, far, Duration::from_millis(50)).await);
        let none = session.accept(Duration::ZERO).expect("it is open");
        assert!(none.is_none(), "another's key opens nothing");
        near.set_read_timeout(Some(Duration::from_secs(8))).expect("a timeout");
        assert_eq!(std::io::Read::read(&mut near, &mut [0]).expect("closed"), 0);
    }
}

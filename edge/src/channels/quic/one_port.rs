//! A node's one UDP port: control channels and the data of their sessions, each a stream of a QUIC
//! connection (docs/protocol.md, Q-5 to Q-8).

use super::congestion::{Meter, QuicControl};
use super::control::ControlDuplex;
use super::endpoint::{bind, endpoint, fit, server, settings, shake_hands, unproven, watched};
use super::stream::QuicStream;
use super::tasks::Tasks;
use super::{ALPN, CONTROL_ALPN, MOST_BEGINNING, NOTHING_SHOWN, greeting, next_stream};
use crate::channels::arrivals::{Arrivals, PREAMBLE_TIMEOUT};
use crate::channels::driver::{Listen, Listener};
use crate::channels::handshake_places::HandshakePlaces;
use crate::channels::key::Token;
use crate::channels::ordered::OrderedChannel;
use crate::channels::pending::Steps;
use crate::channels::trust::{Duplex, ServerConfig, ShownCertificate};
use crate::sys::lock::lock;
use farline_core::units::{Error, Span};
use quinn::crypto::rustls::HandshakeData;
use quinn::{Connection, Endpoint, Incoming, RecvStream, SendStream};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, Weak};
use tokio::sync::{mpsc, watch};

/// Of [`MOST_BEGINNING`], those of one address: who goes on beginning them keeps out nobody else,
/// and itself no longer than until its own oldest has gone.
const MOST_OF_ADDRESS: usize = 128;

/// A control channel that came in.
pub(crate) struct ControlArrival {
    /// Its bytes, both ways.
    pub(crate) stream: Box<dyn Duplex>,
    /// What the client showed.
    pub(crate) certificates: Vec<ShownCertificate>,
    /// The address that it reached, and its own.
    pub(crate) ends: (SocketAddr, SocketAddr),
    /// The path's round trip, as the handshake measured it.
    pub(crate) rtt: Span,
}

/// The driver of such a port's sessions.
pub(crate) const DRIVER: &str = super::NAME;

/// The port; what came in goes on once it is dropped, and nothing else comes.
pub(crate) struct OnePort {
    address: SocketAddr,
    sessions: Arc<PortSessions>,
    came: mpsc::Receiver<ControlArrival>,
    task: tokio::task::AbortHandle,
}

/// The sessions whose data comes in through the port.
pub(crate) struct PortSessions {
    port: u16,
    keys: Mutex<HashMap<Token, KnownSession>>,
    /// Control channels by address: whose address is proven.
    clients: Mutex<HashMap<IpAddr, usize>>,
}

struct KnownSession {
    arrivals: Weak<Arrivals>,
    control: QuicControl,
}

/// One session's place at the port.
struct Place {
    sessions: Arc<PortSessions>,
    token: Token,
    address: SocketAddr,
}

/// A control channel's claim that its address is proven.
struct ProvenAddress(Arc<PortSessions>, IpAddr);

/// What the port shows to who connects now; nothing when nobody is let in any more.
pub(crate) type Shows = Arc<dyn Fn() -> Option<Arc<ServerConfig>> + Send + Sync>;

#[derive(Clone)]
struct Inside {
    shows: Shows,
    sessions: Arc<PortSessions>,
    tasks: Arc<Tasks>,
    arrived: mpsc::Sender<ControlArrival>,
}

impl OnePort {
    /// Listens at `address`, and shows each connection what it is to be shown then.
    ///
    /// # Errors
    /// When the port cannot be had.
    pub(crate) fn open(address: SocketAddr, shows: Shows) -> io::Result<OnePort> {
        let tasks = Arc::<Tasks>::default();
        let identity = shows().ok_or(io::ErrorKind::NotConnected)?;
        let socket = bind(address)?;
        let address = socket.local_addr()?;
        let usual = watched(settings(QuicControl::default(), &Arc::default(), None));
        let config = server(&identity, usual, &[CONTROL_ALPN, ALPN])?;
        let endpoint = endpoint(&tasks, socket, Some(config))?;
        let sessions = PortSessions {
            port: address.port(),
            keys: Mutex::default(),
            clients: Mutex::default(),
        };
        let sessions = Arc::new(sessions);
        let (arrived, came) = mpsc::channel(MOST_BEGINNING);
        let inside =
            Inside { shows, sessions: Arc::clone(&sessions), tasks: Arc::clone(&tasks), arrived };
        let task = tasks.handle()?.spawn(accept(endpoint, inside)).abort_handle();
        Ok(OnePort { address, sessions, came, task })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where sessions have their data come in.
    pub(crate) fn sessions(&self) -> Arc<PortSessions> {
        Arc::clone(&self.sessions)
    }

    /// The next control channel; none when the port is gone.
    pub(crate) async fn accept(&mut self) -> Option<ControlArrival> {
        self.came.recv().await
    }
}

impl fmt::Debug for OnePort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OnePort({})", self.address)
    }
}

impl Drop for OnePort {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for PortSessions {
    /// Without keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PortSessions({})", self.port)
    }
}

impl PortSessions {
    /// Has the data connections of a session come in through the port, as `listen` has it, in
    /// place of a port of its own.
    ///
    /// # Errors
    /// For a congestion control that is a kernel's alone, and a session whose data is in the clear.
    pub(crate) fn listen(
        self: &Arc<PortSessions>,
        listen: &Listen,
    ) -> Result<Box<dyn Listener>, Error> {
        listen.arrivals.identity().ok_or_else(super::not_private)?;
        let control = QuicControl::of(&listen.sockets)?;
        let token = listen.arrivals.key().token();
        let known = KnownSession { arrivals: Arc::downgrade(&listen.arrivals), control };
        lock(&self.keys).insert(token, known);
        let address = SocketAddr::new(listen.ip, self.port);
        Ok(Box::new(Place { sessions: Arc::clone(self), token, address }))
    }

    fn is_proven(&self, ip: IpAddr) -> bool {
        lock(&self.clients).contains_key(&ip.to_canonical())
    }

    fn prove(self: &Arc<PortSessions>, ip: IpAddr) -> ProvenAddress {
        let ip = ip.to_canonical();
        *lock(&self.clients).entry(ip).or_default() += 1;
        ProvenAddress(Arc::clone(self), ip)
    }

    /// The session that `token` is of.
    fn session(&self, token: Token) -> Option<(Arc<Arrivals>, QuicControl)> {
        let keys = lock(&self.keys);
        let known = keys.get(&token)?;
        Some((known.arrivals.upgrade()?, known.control))
    }
}

impl Drop for ProvenAddress {
    fn drop(&mut self) {
        let mut clients = lock(&self.0.clients);
        if let Some(count) = clients.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                clients.remove(&self.1);
            }
        }
    }
}

impl Listener for Place {
    fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.sessions.keys).remove(&self.token);
    }
}

/// Takes connections until the port is dropped.
async fn accept(endpoint: Endpoint, inside: Inside) {
    let places = HandshakePlaces::new(MOST_BEGINNING).with_most_of_address(MOST_OF_ADDRESS);
    let places = Arc::new(places);
    while let Some(incoming) = endpoint.accept().await {
        let peer = incoming.remote_address();
        if !incoming.remote_address_validated() && !inside.sessions.is_proven(peer.ip()) {
            // Who has not shown that this address is theirs gets no more than they sent: Q-4.
            let _ = incoming.retry();
            continue;
        }
        tokio::spawn(carry(incoming, Arc::clone(&places), inside.clone()));
    }
}

/// Takes one connection: a control channel, or channels of sessions.
async fn carry(incoming: Incoming, places: Arc<HandshakePlaces>, inside: Inside) {
    let steps = Steps::default();
    let Some(mut place) = places.take(Some(incoming.remote_address()), None, &steps) else {
        return incoming.ignore();
    };
    let begun = tokio::select! {
        begun = begin(incoming, &steps, &inside) => begun,
        () = place.lost() => return,
    };
    drop(place);
    let Some((connection, meter, mut lives)) = begun else { return };
    // Further streams are channels of the session; one that shows no key is dropped (K-3). Once the
    // session is over the connection ends with the last of them, when what was sent has arrived.
    while let Some(stream) = next_stream(&connection, &mut lives).await {
        let shown = greet(stream, &connection, &meter, &inside);
        let _ = tokio::time::timeout(PREAMBLE_TIMEOUT, shown).await;
    }
}

/// The connection, once it has shown what it is for, and what errs once that is over.
async fn begin(
    incoming: Incoming,
    steps: &Steps,
    inside: &Inside,
) -> Option<(Connection, Arc<Meter>, watch::Receiver<()>)> {
    let (meter, peer) = (Meter::unproven(None), Some(incoming.remote_address()));
    let usual = unproven(watched(settings(QuicControl::default(), &meter, peer)));
    let config = server(&*(inside.shows)()?, usual, &[CONTROL_ALPN, ALPN]).ok()?;
    let connection = shake_hands(incoming, config).await?;
    steps.step();
    let protocol = connection
        .handshake_data()
        .and_then(|data| data.downcast::<HandshakeData>().ok()?.protocol);
    let begun = async {
        match protocol.as_deref() {
            Some(CONTROL_ALPN) => take_control(&connection, &meter, inside).await,
            _ => greet(connection.accept_bi().await.ok()?, &connection, &meter, inside).await,
        }
    };
    let begun = tokio::time::timeout(PREAMBLE_TIMEOUT, begun).await;
    if let Ok(Some(lives)) = begun {
        return Some((connection, meter, lives));
    }
    connection.close(NOTHING_SHOWN, b"");
    None
}

/// Hands a control channel on: the one stream of its connection. What is returned errs once that
/// is over.
async fn take_control(
    connection: &Connection,
    meter: &Arc<Meter>,
    inside: &Inside,
) -> Option<watch::Receiver<()>> {
    let stream = connection.accept_bi().await.ok()?;
    let certificates = connection
        .peer_identity()
        .and_then(|shown| shown.downcast::<Vec<ShownCertificate>>().ok())
        .map_or_else(Vec::new, |shown| *shown);
    let peer = connection.remote_address();
    let local = connection.local_ip().unwrap_or(match peer {
        SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    });
    let (alive, lives) = watch::channel(());
    let held = Box::new((inside.sessions.prove(peer.ip()), alive));
    let rtt = meter.least_rtt().unwrap_or_else(|| Span::from(connection.rtt()));
    let stream = ControlDuplex::new(connection.clone(), stream, Arc::clone(&inside.tasks), held);
    let arrival = ControlArrival {
        stream: Box::new(stream),
        certificates,
        ends: (SocketAddr::new(local, inside.sessions.port), peer),
        rtt,
    };
    inside.arrived.send(arrival).await.ok()?;
    Some(lives)
}

/// Makes a channel of a stream, if it shows the key of a session here. What is returned errs once
/// that is over.
async fn greet(
    (send, mut recv): (SendStream, RecvStream),
    connection: &Connection,
    meter: &Arc<Meter>,
    inside: &Inside,
) -> Option<watch::Receiver<()>> {
    let (token, proof) = greeting(&mut recv).await.ok()?;
    let (arrivals, control) = inside.sessions.session(token?)?;
    if !arrivals.key().proves(proof) {
        return None;
    }
    meter.choose(control);
    meter.join(arrivals.buffers());
    fit(connection, meter);
    let (tasks, meter) = (Arc::clone(&inside.tasks), Arc::clone(meter));
    let stream = QuicStream::new(connection.clone(), (send, recv), tasks, meter, control.algorithm);
    let lives = arrivals.lives();
    arrivals.deliver(Box::new(OrderedChannel::over(stream))).then_some(lives)
}

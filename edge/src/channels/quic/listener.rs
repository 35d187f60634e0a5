//! The node's end: a UDP port for one session, whose connections carry the session's channels.

use super::congestion::{Meter, QuicControl};
use super::endpoint::{bind, endpoint, fit, server, settings, shake_hands, unproven};
use super::stream::QuicStream;
use super::tasks::Tasks;
use super::{ALPN, MOST_BEGINNING, NOTHING_SHOWN, greeting, next_stream, not_private};
use crate::channels::arrivals::{Arrivals, NO_KEY, PREAMBLE_TIMEOUT};
use crate::channels::driver::{Listen, Listener};
use crate::channels::handshake_places::HandshakePlaces;
use crate::channels::ordered::OrderedChannel;
use crate::channels::pending::{NO_PLACE, Steps};
use crate::channels::socket::{at_free_port, no_port};
use farline_core::units::{Bytes, Error};
use quinn::{Connection, Endpoint, Incoming, RecvStream, SendStream};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

/// A session's port; no connection comes in once it is dropped, and those that did go on.
pub(super) struct QuicPort {
    address: SocketAddr,
    task: AbortHandle,
}

/// What every connection of a port needs.
#[derive(Clone)]
struct Inside {
    arrivals: Weak<Arrivals>,
    tasks: Arc<Tasks>,
    identity: Arc<rustls::ServerConfig>,
    control: QuicControl,
    /// The address that the session's client has, for certain.
    client: IpAddr,
    /// What the user wants each connection to keep.
    buffer: Option<Bytes>,
    /// For connections that have not shown the key yet.
    places: Arc<HandshakePlaces>,
}

impl QuicPort {
    /// Listens as `listen` has it.
    ///
    /// # Errors
    /// When the control connection is in the clear, or no port can be had.
    pub(super) fn open(listen: &Listen, tasks: Arc<Tasks>) -> Result<QuicPort, Error> {
        QuicPort::with_places(listen, tasks, MOST_BEGINNING)
    }

    /// The same with so many places for connections that have not shown the key yet.
    fn with_places(listen: &Listen, tasks: Arc<Tasks>, most: usize) -> Result<QuicPort, Error> {
        let identity = Arc::clone(listen.arrivals.identity().ok_or_else(not_private)?);
        let control = QuicControl::of(&listen.sockets)?;
        let wanted = SocketAddr::new(listen.ip, 0);
        let failed = |error: io::Error| no_port(wanted, &error);
        let socket = at_free_port(wanted, listen.ports, bind).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        let config =
            server(&identity, settings(control, &Arc::default(), None), &[ALPN]).map_err(failed)?;
        let endpoint = endpoint(&tasks, socket, Some(config)).map_err(failed)?;
        let handle = tasks.handle().map_err(failed)?;
        let arrivals = Arc::downgrade(&listen.arrivals);
        let (client, buffer) = (listen.client.to_canonical(), listen.sockets.buffer);
        let places = Arc::new(HandshakePlaces::new(most));
        let inside = Inside { arrivals, tasks, identity, control, client, buffer, places };
        let task = handle.spawn(accept(endpoint, inside)).abort_handle();
        Ok(QuicPort { address, task })
    }
}

impl Listener for QuicPort {
    fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for QuicPort {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Takes connections until the session is gone.
async fn accept(endpoint: Endpoint, inside: Inside) {
    while let Some(incoming) = endpoint.accept().await {
        if inside.arrivals.strong_count() == 0 {
            return;
        }
        let is_client = incoming.remote_address().ip().to_canonical() == inside.client;
        if !is_client && !incoming.remote_address_validated() {
            // Who has not shown that this address is theirs gets no more than they sent: Q-4. One
            // that cannot be told is dropped.
            let _ = incoming.retry();
            continue;
        }
        tokio::spawn(carry(incoming, inside.clone()));
    }
}

/// Takes one connection, and the streams in it as channels. Until one of them has shown the
/// session's key it has one of the places for those that have not.
async fn carry(incoming: Incoming, inside: Inside) {
    let (steps, from) = (Steps::default(), incoming.remote_address());
    let refuse = |why: &str| {
        if let Some(arrivals) = inside.arrivals.upgrade() {
            arrivals.refuse(Some(from), why);
        }
    };
    let Some(mut place) = inside.places.take(Some(from), Some(inside.client), &steps) else {
        incoming.ignore();
        return refuse(NO_PLACE);
    };
    let meter = Meter::unproven(inside.buffer);
    let usual = settings(inside.control, &meter, Some(from));
    let Ok(config) = server(&inside.identity, unproven(usual), &[ALPN]) else { return };
    let shaken = tokio::select! {
        shaken = shake_hands(incoming, config) => shaken,
        () = place.lost() => return refuse(NO_PLACE),
    };
    let Some(connection) = shaken else { return refuse("did no handshake, or none in time") };
    steps.step();
    let (shown, mut first) = mpsc::channel(1);
    tokio::spawn(streams(connection.clone(), meter, inside.clone(), shown));
    let why = tokio::select! {
        shown = tokio::time::timeout(PREAMBLE_TIMEOUT, first.recv()) => match shown {
            // A client that has all it wanted may be gone before it has shown anything.
            Ok(Some(true) | None) => return,
            Ok(Some(false)) | Err(_) => NO_KEY,
        },
        () = place.lost() => NO_PLACE,
    };
    connection.close(NOTHING_SHOWN, b"");
    refuse(why);
}

/// Takes the streams of a connection, each of which shows the key by itself, for as long as the
/// session lives: the connection then ends with the last of its channels.
async fn streams(
    connection: Connection,
    meter: Arc<Meter>,
    inside: Inside,
    shown: mpsc::Sender<bool>,
) {
    let lives = inside.arrivals.upgrade().map(|arrivals| arrivals.lives());
    let Some(mut lives) = lives else { return };
    while let Some(stream) = next_stream(&connection, &mut lives).await {
        let meter = Arc::clone(&meter);
        tokio::spawn(greet(connection.clone(), stream, inside.clone(), meter, shown.clone()));
    }
}

/// Makes a channel of a stream that shows the session's key.
async fn greet(
    connection: Connection,
    (send, mut recv): (SendStream, RecvStream),
    inside: Inside,
    meter: Arc<Meter>,
    shown: mpsc::Sender<bool>,
) {
    let read = tokio::time::timeout(PREAMBLE_TIMEOUT, greeting(&mut recv)).await;
    let Some(arrivals) = inside.arrivals.upgrade() else { return };
    let stranger = || {
        // Of a first one the connection says it.
        if shown.try_send(false).is_err() {
            arrivals.refuse(Some(connection.remote_address()), NO_KEY);
        }
    };
    let (token, proof) = match read {
        Ok(Ok(said)) => said,
        // A client that has all it wanted may be gone before its last stream has shown anything.
        Ok(Err(_)) => return,
        Err(_) => return stranger(),
    };
    let key = arrivals.key();
    if token != Some(key.token()) || !key.proves(proof) {
        return stranger();
    }
    meter.join(arrivals.buffers());
    fit(&connection, &meter);
    // Nobody waits for more than the first.
    let _ = shown.try_send(true);
    let Inside { tasks, control, .. } = inside;
    let stream = QuicStream::new(connection, (send, recv), tasks, meter, control.algorithm);
    arrivals.deliver(Box::new(OrderedChannel::over(stream)));
}

#[cfg(test)]
mod tests {
    use super::super::GREETING_LEN;
    use super::super::endpoint::client;
    use super::*;
    use crate::channels::Channel;
    use crate::channels::arrivals::{Deliver, RefusedConnection};
    use crate::channels::driver::{Dialer, Session, Slots};
    use crate::channels::key::Key;
    use crate::channels::registry::Registry;
    use crate::channels::socket::TcpOptions;
    use crate::channels::trust::{NodeCertificate, pinned};
    use farline_core::units::Span;
    use std::net::{Ipv4Addr, UdpSocket};
    use std::sync::mpsc as threads;
    use std::time::Duration;

    const PLACES: usize = 4;
    /// Strangers at the client's own address, more than there are places.
    const STRANGERS: usize = 12;
    const SOON: Duration = Duration::from_secs(30);
    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    /// How a node listens for the session of a client at an address, which has the key.
    fn listen(
        (identity, key, client): (&NodeCertificate, &Key, IpAddr),
        deliver: Deliver,
        refused: RefusedConnection,
    ) -> Listen {
        let registry = Registry::builtin();
        let layer = registry.encrypting_layer().and_then(|driver| driver.layer()).expect("TLS");
        let layer = Some((Arc::clone(layer), Arc::clone(&identity.config)));
        let arrivals = Arc::new(Arrivals::new(key.clone(), layer, deliver, refused));
        let slots = Slots { slot_len: Bytes(1 << 20), begin: 1, most: None };
        let (sockets, rtt) = (TcpOptions::default(), Span::from_millis(1));
        Listen { ip: HERE, ports: None, sockets, slots, client, rtt, arrivals }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn who_is_not_the_sessions_client_gets_a_retry_alone() {
        let identity = NodeCertificate::fresh().expect("a key");
        let (key, tasks) = (Key::random().expect("random bytes"), Arc::<Tasks>::default());
        let trust = pinned(identity.fingerprint).expect("a fingerprint");
        // The first packet that a client sends, whoever sends it.
        let seen = UdpSocket::bind((HERE, 0)).expect("a port");
        seen.set_read_timeout(Some(SOON)).expect("a timeout");
        let at = seen.local_addr().expect("bound");
        let usual = settings(QuicControl::default(), &Meter::of(&Arc::default(), None), Some(at));
        let config = client(&trust, usual, &[ALPN].concat()).expect("TLS");
        let endpoint = endpoint(&tasks, bind(SocketAddr::new(HERE, 0)).expect("a port"), None);
        let endpoint = endpoint.expect("an end");
        let connecting = endpoint.connect_with(config, at, "n").expect("an end");
        let mut first = vec![0; 9_000];
        let len = seen.recv(&mut first).expect("a packet");
        first.truncate(len);
        drop(connecting);

        let replies = |session: IpAddr| {
            let deliver: Deliver = Box::new(|_| true);
            let refused: RefusedConnection = Box::new(|_, _| {});
            let listen = listen((&identity, &key, session), deliver, refused);
            let port = QuicPort::open(&listen, Arc::clone(&tasks)).expect("a port");
            let sender = UdpSocket::bind((HERE, 0)).expect("a port");
            sender.send_to(&first, port.address()).expect("sent");
            let (mut said, mut packet) = (Vec::new(), [0; 9_000]);
            sender.set_read_timeout(Some(SOON)).expect("a timeout");
            while let Ok(len) = sender.recv(&mut packet) {
                said.push((len, packet[0]));
                sender.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout");
            }
            said
        };
        // RFC 9000, section 17.2.5.
        let is_retry = |kind: u8| kind & 0xf0 == 0xf0;
        let stranger = replies([127, 0, 0, 2].into());
        assert_eq!(stranger.len(), 1, "{stranger:?} for {len} bytes");
        assert!(is_retry(stranger[0].1) && stranger[0].0 < len, "{stranger:?} for {len} bytes");
        let own = replies(HERE);
        assert!(!own.is_empty() && own.iter().all(|&(_, kind)| !is_retry(kind)), "{own:?}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn who_shows_no_key_has_a_place_for_a_while() {
        let identity = NodeCertificate::fresh().expect("a key");
        let (key, tasks) = (Key::random().expect("random bytes"), Arc::<Tasks>::default());
        let (sender, arrived) = threads::channel();
        let deliver: Deliver = Box::new(move |channel| sender.send(channel).is_ok());
        let (tell, told) = threads::channel();
        let refused: RefusedConnection = Box::new(move |_, why| {
            let _ = tell.send(why.to_owned());
        });
        let listen = listen((&identity, &key, HERE), deliver, refused);
        let (slots, rtt) = (listen.slots, listen.rtt);
        let buffers = Arc::clone(listen.arrivals.buffers());
        let port = QuicPort::with_places(&listen, Arc::clone(&tasks), PLACES).expect("a port");
        let address = port.address();
        let trust = pinned(identity.fingerprint).expect("a fingerprint");

        let meter = Meter::of(&Arc::default(), None);
        let usual = settings(QuicControl::default(), &meter, Some(address));
        let config = client(&trust, usual, &[ALPN].concat()).expect("TLS");
        let endpoint = endpoint(&tasks, bind(SocketAddr::new(HERE, 0)).expect("a port"), None);
        let endpoint = endpoint.expect("an end");
        let stranger = async || {
            let connecting = endpoint.connect_with(config.clone(), address, "n").expect("an end");
            connecting.await.expect("a handshake")
        };
        let mut strangers = Vec::new();
        for _ in 0..STRANGERS {
            strangers.push(stranger().await);
        }
        // One that has said all but the last byte of what it should, with what is to follow.
        let (mut send, _) = strangers[STRANGERS - 1].open_bi().await.expect("a stream");
        send.write_all(&[7; GREETING_LEN - 1]).await.expect("sent");

        let session = Session {
            key: Some(key.clone()),
            rtt,
            sockets: TcpOptions::default(),
            slots,
            trust: Some(trust),
            tunnel: None,
            shared: None,
            grid: None,
        };
        let dialer = super::super::dialer::QuicDialer::new(&session, 1, Arc::clone(&tasks));
        let dialer = dialer.expect("a dialer");
        let own = tokio::task::spawn_blocking(move || dialer.open(address, SOON).map(drop));
        own.await.expect("a thread").expect("its client comes in");
        let next = |arrived: threads::Receiver<Box<dyn Channel>>| {
            tokio::task::spawn_blocking(move || (arrived.recv_timeout(SOON), arrived))
        };
        let (channel, arrived) = next(arrived).await.expect("a thread");
        let channel = channel.expect("a channel");
        assert_eq!(buffers.connections(), 1, "strangers take no part of what its session has");
        drop(channel);
        for stranger in strangers {
            tokio::time::timeout(SOON, stranger.closed()).await.expect("it goes");
        }
        let why: Vec<String> = told.try_iter().collect();
        let count = |of: &str| why.iter().filter(|why| *why == of).count();
        let no_place = STRANGERS - PLACES..STRANGERS;
        assert!(no_place.contains(&count(NO_PLACE)), "{why:?}");
        assert_eq!(count(NO_PLACE) + count(NO_KEY), STRANGERS, "{why:?}");

        // One of the session's own goes with it, though its peer would stay.
        let own = stranger().await;
        let (mut send, _recv) = own.open_bi().await.expect("a stream");
        send.write_all(&key.preamble()).await.expect("sent");
        send.write_all(&key.proof()).await.expect("sent");
        let (channel, _) = next(arrived).await.expect("a thread");
        drop((channel.expect("a channel"), listen));
        tokio::time::timeout(SOON, own.closed()).await.expect("it goes too");
    }
}

//! The node's end: a UDP port for one session, whose connections carry the session's channels.

use super::congestion::{Meter, QuicControl};
use super::endpoint::{bind, endpoint, fit, known, server, settings};
use super::stream::QuicStream;
use super::tasks::Tasks;
use super::{ALPN, GREETING_LEN, not_private};
use crate::channels::arrivals::{Arrivals, NO_KEY, PREAMBLE_TIMEOUT};
use crate::channels::driver::{Listen, Listener};
use crate::channels::key::{PREAMBLE_LEN, PROOF_LEN, Token};
use crate::channels::ordered::OrderedChannel;
use crate::channels::session_buffers::SessionBuffers;
use crate::channels::socket::{at_free_port, no_port};
use farline_core::units::{Bytes, Error, Span};
use quinn::{Connection, Endpoint, Incoming, RecvStream, SendStream};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::task::AbortHandle;

/// How long a handshake may take: P-2.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

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
    /// The least round trip to it.
    rtt: Span,
    /// What the session's connections share, and what each is to keep.
    buffers: Arc<SessionBuffers>,
    buffer: Option<Bytes>,
}

impl QuicPort {
    /// Listens as `listen` has it.
    ///
    /// # Errors
    /// When the control connection is in the clear, or no port can be had.
    pub(super) fn open(listen: &Listen, tasks: Arc<Tasks>) -> Result<QuicPort, Error> {
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
        let Listen { client, rtt, .. } = *listen;
        let buffers = SessionBuffers::telling(listen.arrivals.struck());
        let buffer = listen.sockets.buffer;
        let inside = Inside { arrivals, tasks, identity, control, client, rtt, buffers, buffer };
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
        tokio::spawn(carry(incoming, is_client, inside.clone()));
    }
}

/// Takes one connection, and the streams in it as channels.
async fn carry(incoming: Incoming, is_client: bool, inside: Inside) {
    let (meter, from) = (Meter::of(&inside.buffers, inside.buffer), incoming.remote_address());
    let usual = settings(inside.control, &meter, Some(from));
    let settings = if is_client { known(usual, inside.rtt, &meter) } else { usual };
    let Ok(config) = server(&inside.identity, settings, &[ALPN]) else { return };
    let Ok(connecting) = incoming.accept_with(Arc::new(config)) else { return };
    let connected = tokio::time::timeout(HANDSHAKE_TIMEOUT, connecting).await;
    let Ok(Ok(connection)) = connected else {
        if let Some(arrivals) = inside.arrivals.upgrade() {
            arrivals.refuse(Some(from), "did no handshake, or none in time");
        }
        return;
    };
    fit(&connection, &meter);
    while let Ok(stream) = connection.accept_bi().await {
        let greeted = greet(connection.clone(), stream, inside.clone(), Arc::clone(&meter));
        tokio::spawn(greeted);
    }
}

/// Makes a channel of a stream that shows the session's key.
async fn greet(
    connection: Connection,
    (send, mut recv): (SendStream, RecvStream),
    inside: Inside,
    meter: Arc<Meter>,
) {
    let mut greeting = [0; GREETING_LEN];
    let read = tokio::time::timeout(PREAMBLE_TIMEOUT, recv.read_exact(&mut greeting)).await;
    let Some(arrivals) = inside.arrivals.upgrade() else { return };
    let stranger = || arrivals.refuse(Some(connection.remote_address()), NO_KEY);
    match read {
        Ok(Ok(())) => {}
        // A client that has all it wanted may be gone before its last stream has shown anything.
        Ok(Err(_)) => return,
        Err(_) => return stranger(),
    }
    let (mut preamble, mut proof) = ([0; PREAMBLE_LEN], [0; PROOF_LEN]);
    preamble.copy_from_slice(&greeting[..PREAMBLE_LEN]);
    proof.copy_from_slice(&greeting[PREAMBLE_LEN..]);
    let key = arrivals.key();
    if Token::of(&preamble) != Some(key.token()) || !key.proves(proof) {
        return stranger();
    }
    let Inside { tasks, control, .. } = inside;
    let stream = QuicStream::new(connection, (send, recv), tasks, meter, control.algorithm);
    arrivals.deliver(Box::new(OrderedChannel::over(stream)));
}

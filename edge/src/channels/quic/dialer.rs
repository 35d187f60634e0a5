//! The client's end: opens a session's QUIC connections, each when a channel first needs it, and a
//! stream for each channel.

use super::congestion::{Meter, QuicControl};
use super::endpoint::{bind, client, endpoint, fit, known, settings};
use super::stream::{QuicStream, gone};
use super::tasks::Tasks;
use super::{ALPN, GREETING_LEN, not_private};
use crate::channels::driver::{Dialer, Opened, Session};
use crate::channels::key::{Key, PREAMBLE_LEN};
use crate::channels::session_buffers::SessionBuffers;
use crate::channels::socket::unreachable;
use farline_core::plan::ChannelLimits;
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Span};
use quinn::Connection;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Mutex;

/// The name that the handshake asks for: nobody looks at it, since the certificate is known by its
/// fingerprint.
const NAME: &str = "farline";

/// A connection with what is measured of it.
type Measured = (Connection, Arc<Meter>);

/// Opens the channels of one session.
pub(super) struct QuicDialer {
    key: Key,
    trust: Arc<rustls::ClientConfig>,
    control: QuicControl,
    /// The session's least round trip.
    rtt: Span,
    /// What its connections share, and what the user wants each to keep.
    buffers: Arc<SessionBuffers>,
    buffer: Option<Bytes>,
    tasks: Arc<Tasks>,
    /// The connections; none where none was needed yet.
    connections: Vec<Mutex<Option<Measured>>>,
    /// Channels that were opened.
    opened: AtomicUsize,
}

impl QuicDialer {
    /// Of `session`, over so many connections; where it holds a rate, over one for each channel.
    ///
    /// # Errors
    /// When the session has no key or no encrypted control connection, or asks for a congestion
    /// control that is a kernel's alone.
    pub(super) fn new(
        session: &Session,
        connections: usize,
        tasks: Arc<Tasks>,
    ) -> Result<QuicDialer, Error> {
        let no_key =
            || Error::new(Fault::There, ErrorCode::Unsupported, "QUIC needs a session with a key");
        let key = session.key.clone().ok_or_else(no_key)?;
        let trust = session.trust.clone().ok_or_else(not_private)?;
        let control = QuicControl::of(&session.sockets)?;
        // A connection has one congestion control, and that holds the rate of one channel (O-8).
        let connections = match session.sockets.held {
            Some(_) => ChannelLimits::NODE as usize,
            None => connections.max(1),
        };
        let mut places: Vec<Mutex<Option<Measured>>> =
            (0..connections).map(|_| Mutex::default()).collect();
        // Nothing has to be connected for channels of a connection that is there.
        if let (Some(shared), Some(first)) = (&session.shared, places.first_mut()) {
            shared.meter.choose(control);
            *first.get_mut() = Some((shared.connection.clone(), Arc::clone(&shared.meter)));
        }
        let tasks = session.shared.as_ref().map_or(tasks, |shared| Arc::clone(&shared.tasks));
        Ok(QuicDialer {
            key,
            trust,
            control,
            rtt: session.rtt,
            buffers: Arc::default(),
            buffer: session.sockets.buffer,
            tasks,
            connections: places,
            opened: AtomicUsize::new(0),
        })
    }

    /// A connection to `address`, of those that there may be.
    async fn connection(&self, address: SocketAddr) -> io::Result<Measured> {
        let turn = self.opened.fetch_add(1, Ordering::Relaxed) % self.connections.len();
        let mut place = self.connections[turn].lock().await;
        if let Some((connection, meter)) = &*place
            && connection.close_reason().is_none()
            && connection.remote_address() == address
        {
            return Ok((connection.clone(), Arc::clone(meter)));
        }
        let meter = Meter::of(&self.buffers, self.buffer);
        let known = known(settings(self.control, &meter, Some(address)), self.rtt, &meter);
        let config = client(&self.trust, known, ALPN)?;
        // A port for each: what comes in on one wakes one task.
        let own: IpAddr = match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let endpoint = endpoint(&self.tasks, bind(SocketAddr::new(own, 0))?, None)?;
        let connecting = endpoint.connect_with(config, address, NAME).map_err(io::Error::other)?;
        let connection = connecting.await.map_err(gone)?;
        fit(&connection, &meter);
        *place = Some((connection.clone(), Arc::clone(&meter)));
        Ok((connection, meter))
    }

    /// A channel's stream, in which the session was shown.
    async fn stream(&self, address: SocketAddr) -> io::Result<QuicStream> {
        let (connection, meter) = self.connection(address).await?;
        let (mut send, recv) = connection.open_bi().await.map_err(gone)?;
        let mut greeting = [0; GREETING_LEN];
        greeting[..PREAMBLE_LEN].copy_from_slice(&self.key.preamble());
        greeting[PREAMBLE_LEN..].copy_from_slice(&self.key.proof());
        send.write_all(&greeting).await.map_err(io::Error::other)?;
        let tasks = Arc::clone(&self.tasks);
        Ok(QuicStream::new(connection, (send, recv), tasks, meter, self.control.algorithm))
    }
}

impl Dialer for QuicDialer {
    fn open(&self, address: SocketAddr, timeout: Duration) -> Result<Opened, Error> {
        let opening = async {
            tokio::time::timeout(timeout, self.stream(address))
                .await
                .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        };
        let opened = self.tasks.wait(opening).flatten();
        opened
            .map(|stream| Opened::Entered(Box::new(stream)))
            .map_err(|error| unreachable(address, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::super::listener::QuicPort;
    use super::*;
    use crate::channels::arrivals::Arrivals;
    use crate::channels::driver::{Listen, Listener, Slots};
    use crate::channels::registry::Registry;
    use crate::channels::socket::TcpOptions;
    use crate::channels::trust::{NodeCertificate, pinned};
    use farline_core::units::Rate;
    use std::collections::BTreeSet;

    const SOON: Duration = Duration::from_secs(30);

    #[test]
    fn channels_that_hold_a_rate_share_no_connection() {
        let identity = NodeCertificate::fresh().expect("a key");
        let (key, tasks) = (Key::random().expect("random bytes"), Arc::<Tasks>::default());
        let registry = Registry::builtin();
        let layer = registry.encrypting_layer().and_then(|driver| driver.layer()).expect("TLS");
        let layer = Some((Arc::clone(layer), Arc::clone(&identity.config)));
        let arrivals = Arrivals::new(key.clone(), layer, Box::new(|_| true), Box::new(|_, _| {}));
        let (ip, rtt) = (IpAddr::from([127, 0, 0, 1]), Span::from_millis(1));
        let slots = Slots { slot_len: Bytes(1 << 20), begin: 1, most: None };
        let (sockets, arrivals) = (TcpOptions::default(), Arc::new(arrivals));
        let listen = Listen { ip, ports: None, sockets, slots, client: ip, rtt, arrivals };
        let port = QuicPort::open(&listen, Arc::clone(&tasks)).expect("a port");
        for (held, expected) in [(None, 1), (Some(Rate::from_bps(8_000_000)), 3)] {
            let session = Session {
                key: Some(key.clone()),
                rtt,
                sockets: TcpOptions { held, ..TcpOptions::default() },
                slots,
                trust: Some(pinned(identity.fingerprint).expect("a fingerprint")),
                tunnel: None,
                shared: None,
                grid: None,
            };
            let dialer = QuicDialer::new(&session, 1, Arc::clone(&tasks)).expect("a dialer");
            let stream = || match dialer.open(port.address(), SOON).expect("a channel") {
                Opened::Entered(stream) => stream,
                _ => panic!("it encrypts by itself"),
            };
            let channels: Vec<_> = (0..3).map(|_| stream()).collect();
            let mut connections = BTreeSet::new();
            for channel in &channels {
                let sample = channel.handle().expect("a handle").sample();
                connections.insert(sample.flow.expect("it counts").connection);
            }
            assert_eq!(connections.len(), expected, "{held:?}");
        }
    }
}

//! UDP ports and the settings of their connections: windows, packet sizes, idle time.

use super::congestion::{LEAST_SEND_WINDOW, Meter, QuicControl, controls};
use super::tasks::Tasks;
use crate::channels::session_buffers::UNPROVEN_BUFFER;
use crate::channels::socket::longest_datagram;
use farline_core::units::Span;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    AckFrequencyConfig, ClientConfig, Connection, Endpoint, EndpointConfig, IdleTimeout, Incoming,
    MtuDiscoveryConfig, ServerConfig, TokioRuntime, TransportConfig, VarInt,
};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

/// Without a word for so long a connection is gone; the copy's own time-out is usually shorter.
const IDLE: Duration = Duration::from_secs(120);
/// The same where nothing else tells that a peer is gone.
const WATCHED_IDLE: Duration = Duration::from_secs(30);
/// A word now and then keeps what stands between the ends (firewalls, NAT) from forgetting them.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// How long a node has a handshake take: P-2.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The rate whose bandwidth-delay product windows hold, in bytes a second: 10 Gbit/s.
const WINDOW_RATE: f64 = 10e9 / 8.0;
/// Bytes that a receive window holds at least and at most: it bounds what a connection may take of
/// memory, together with its part of what its session may. What a connection keeps of what it sends
/// follows its congestion window ([`Meter::new_send_window`]).
const LEAST_WINDOW: u32 = 16 << 20;
const MOST_WINDOW: u32 = 256 << 20;

/// Bytes of a socket's buffers, so that a burst of the other end's is not lost here.
const SOCKET_BUFFER: usize = 8 << 20;

/// The largest UDP payload that is tried: quinn hands the kernel ten packets at once, which do not
/// leave at all where they are together longer than an IP packet can be.
const LARGEST_PAYLOAD: u16 = 6_500;

/// Acknowledgements for each so many packets (draft-ietf-quic-ack-frequency): fewer cost less, and
/// a window of data still brings many.
const PACKETS_PER_ACK: u32 = 10;

/// What every connection begins with, to `peer` where that is known: each length that the way there
/// does not take costs the search for longer packets three of them.
pub(super) fn settings(
    control: QuicControl,
    meter: &Arc<Meter>,
    peer: Option<SocketAddr>,
) -> TransportConfig {
    let mut settings = TransportConfig::default();
    let longest = peer.and_then(|peer| u16::try_from(longest_datagram(peer).ok()?).ok());
    let mut mtu = MtuDiscoveryConfig::default();
    mtu.upper_bound(longest.map_or(LARGEST_PAYLOAD, |longest| longest.min(LARGEST_PAYLOAD)));
    let mut acks = AckFrequencyConfig::default();
    acks.ack_eliciting_threshold(VarInt::from_u32(PACKETS_PER_ACK));
    settings
        .stream_receive_window(VarInt::from_u32(MOST_WINDOW))
        .receive_window(VarInt::from_u32(LEAST_WINDOW))
        .send_window(LEAST_SEND_WINDOW)
        .max_concurrent_bidi_streams(VarInt::from_u32(128))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None)
        .max_idle_timeout(IdleTimeout::try_from(IDLE).ok())
        .keep_alive_interval(Some(KEEP_ALIVE))
        .mtu_discovery_config(Some(mtu))
        .ack_frequency_config(Some(acks))
        .congestion_controller_factory(controls(control, meter));
    settings
}

/// The same for a connection that has a control channel, whose peer is given up sooner: Q-4 of
/// silence.
pub(super) fn watched(mut settings: TransportConfig) -> TransportConfig {
    settings.max_idle_timeout(IdleTimeout::try_from(WATCHED_IDLE).ok());
    settings
}

/// The same for a node, which does not know yet who comes: nobody keeps much of its memory before
/// it does.
pub(super) fn unproven(mut settings: TransportConfig) -> TransportConfig {
    settings.receive_window(VarInt::from_u32(UNPROVEN_BUFFER)).send_window(UNPROVEN_BUFFER.into());
    settings
}

/// The connection that comes in, once its handshake is through; nothing where that fails, or takes
/// too long.
pub(super) async fn shake_hands(incoming: Incoming, config: ServerConfig) -> Option<Connection> {
    let connecting = incoming.accept_with(Arc::new(config)).ok()?;
    tokio::time::timeout(HANDSHAKE_TIMEOUT, connecting).await.ok()?.ok()
}

/// Bytes that a path with this round trip takes, of those that the connection may keep.
fn window(rtt: Duration, meter: &Meter) -> VarInt {
    let product = 2.0 * WINDOW_RATE * rtt.as_secs_f64();
    let window = meter.as_shared((product as u32).clamp(LEAST_WINDOW, MOST_WINDOW).into());
    VarInt::from_u32(u32::try_from(window).unwrap_or(MOST_WINDOW))
}

/// [`settings`] for a connection of a session whose control connection has this round trip: it need
/// not wait for its own to be measured before the other end may send as much.
pub(super) fn known(mut settings: TransportConfig, rtt: Span, meter: &Meter) -> TransportConfig {
    settings.receive_window(window(rtt.into(), meter));
    settings
}

/// Gives `connection`, whose handshake measured its path, the receive window that the path takes.
pub(super) fn fit(connection: &Connection, meter: &Meter) {
    connection.set_receive_window(window(connection.rtt(), meter));
}

/// The client's end: takes whom `trust` takes, and speaks `protocol`.
///
/// # Errors
/// When the TLS settings do not suit QUIC.
pub(super) fn client(
    trust: &rustls::ClientConfig,
    settings: TransportConfig,
    protocol: &[u8],
) -> io::Result<ClientConfig> {
    let mut trust = trust.clone();
    trust.alpn_protocols = vec![protocol.to_vec()];
    let crypto = QuicClientConfig::try_from(trust).map_err(io::Error::other)?;
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(Arc::new(settings));
    Ok(config)
}

/// The node's end: shows what `identity` has, speaks `protocols`, and takes no data before the
/// handshake is done.
///
/// # Errors
/// When the TLS settings do not suit QUIC.
pub(super) fn server(
    identity: &rustls::ServerConfig,
    settings: TransportConfig,
    protocols: &[&[u8]],
) -> io::Result<ServerConfig> {
    let mut identity = identity.clone();
    identity.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    identity.max_early_data_size = 0;
    let crypto = QuicServerConfig::try_from(identity).map_err(io::Error::other)?;
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(Arc::new(settings));
    // A session's client stays where it is.
    config.migration(false);
    Ok(config)
}

/// A UDP port at `address`.
///
/// # Errors
/// When it cannot be had.
pub(super) fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    // Only wishes: the system grants what its limits allow.
    let _ = socket.set_recv_buffer_size(SOCKET_BUFFER);
    let _ = socket.set_send_buffer_size(SOCKET_BUFFER);
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// What carries connections over `socket`; with `server`, also those that come in.
///
/// # Errors
/// When the system gives no threads, or the socket is not usable.
pub(super) fn endpoint(
    tasks: &Tasks,
    socket: UdpSocket,
    server: Option<ServerConfig>,
) -> io::Result<Endpoint> {
    let handle = tasks.handle()?;
    let _inside = handle.enter();
    // What each end says that it takes ends the other's search for longer packets, whatever the
    // path has; unsaid it is an Ethernet's 1,472.
    let mut config = EndpointConfig::default();
    config.max_udp_payload_size(LARGEST_PAYLOAD).map_err(io::Error::other)?;
    Endpoint::new(config, server, socket, Arc::new(TokioRuntime))
}

//! A control channel over QUIC: the one bidirectional stream of a connection of its own.

use super::CONTROL_ALPN;
use super::congestion::{Meter, QuicControl};
use super::endpoint::{bind, client, endpoint, fit, settings, watched};
use super::stream::gone;
use super::tasks::Tasks;
use crate::channels::trust::{ClientConfig, Duplex};
use farline_core::units::Span;
use quinn::{
    Connection, ConnectionError, Endpoint, RecvStream, SendStream, Side, TransportErrorCode, VarInt,
};
use std::any::Any;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::JoinHandle;

/// How long a last word may take to arrive after its end was dropped.
const LINGER: Duration = Duration::from_secs(2);

/// How long a farewell may take to leave this host, and how often that is looked at.
const LEAVES_WITHIN: Duration = Duration::from_millis(20);
const LOOK_AGAIN: Duration = Duration::from_micros(200);

/// What a client's connection is closed with.
const DONE: VarInt = VarInt::from_u32(0);

/// Both directions; the connection ends with it: a client's at once, for it has heard all that it
/// waited for, a node's when what it said last has arrived.
pub(super) struct ControlDuplex {
    halves: Option<(SendStream, RecvStream)>,
    connection: Connection,
    tasks: Arc<Tasks>,
    /// What is to live as long.
    held: Option<Box<dyn Any + Send + Sync>>,
}

/// A client's control channel.
pub(crate) struct ConnectedControl {
    /// Its bytes, both ways.
    pub(crate) stream: Box<dyn Duplex>,
    /// This end's port, and the node's address.
    pub(crate) ends: (u16, SocketAddr),
    /// The connection, for what else goes over it.
    pub(crate) shared: SharedConnection,
}

/// A control channel's connection, whose further streams are data channels.
#[derive(Clone)]
pub struct SharedConnection {
    pub(super) connection: Connection,
    pub(super) meter: Arc<Meter>,
    pub(super) tasks: Arc<Tasks>,
}

impl SharedConnection {
    /// The least round trip; `None` before there was one.
    pub(crate) fn least_rtt(&self) -> Option<Span> {
        self.meter.least_rtt()
    }
}

/// Connects to the node's one port at `address`, which `trust` must take for `name`. No byte goes
/// out before the handshake is done: there is no 0-RTT.
///
/// # Errors
/// When nothing replies, or what replies is not the node.
pub(crate) async fn connect(
    address: SocketAddr,
    name: &str,
    trust: &ClientConfig,
) -> io::Result<ConnectedControl> {
    let tasks = Arc::<Tasks>::default();
    let meter = Meter::of(&Arc::default(), None);
    let config = client(
        trust,
        watched(settings(QuicControl::default(), &meter, Some(address))),
        CONTROL_ALPN,
    )?;
    let own: IpAddr = match address.ip() {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let endpoint: Endpoint = endpoint(&tasks, bind(SocketAddr::new(own, 0))?, None)?;
    let port = endpoint.local_addr()?.port();
    // What carries the connection is a task of the runtime that it was begun in: not of the
    // caller's, who does other work, and ends before the last word has left.
    let (name, begun) = (name.to_owned(), endpoint.clone());
    let measured = Arc::clone(&meter);
    let connecting = tasks.handle()?.spawn(async move {
        let connecting = begun.connect_with(config, address, &name).map_err(io::Error::other)?;
        let connection = connecting.await.map_err(turned_away)?;
        fit(&connection, &measured);
        let halves = connection.open_bi().await.map_err(gone)?;
        Ok::<_, io::Error>((connection, halves))
    });
    let (connection, halves) = Cancelled(connecting).await?;
    let shared = SharedConnection { connection, meter, tasks: Arc::clone(&tasks) };
    let connection = shared.connection.clone();
    let ends = (port, connection.remote_address());
    let stream = ControlDuplex::new(connection, halves, tasks, Box::new(endpoint));
    Ok(ConnectedControl { stream: Box::new(stream), ends, shared })
}

/// How a handshake ended. A node whose places for handshakes are taken closes one before it is
/// through, by no alert of TLS: [`io::ErrorKind::ConnectionRefused`], which nothing else is.
fn turned_away(lost: ConnectionError) -> io::Error {
    let is_turned_away = match &lost {
        ConnectionError::ApplicationClosed(_) => true,
        ConnectionError::ConnectionClosed(close) => matches!(
            close.error_code,
            TransportErrorCode::APPLICATION_ERROR | TransportErrorCode::CONNECTION_REFUSED
        ),
        _ => false,
    };
    match is_turned_away {
        true => io::Error::new(io::ErrorKind::ConnectionRefused, lost),
        false => gone(lost),
    }
}

/// A task that ends with whoever waits for it.
struct Cancelled<T>(JoinHandle<io::Result<T>>);

impl<T> Future for Cancelled<T> {
    type Output = io::Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        Pin::new(&mut self.0).poll(context).map(|done| done.map_err(io::Error::other).flatten())
    }
}

impl<T> Drop for Cancelled<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl ControlDuplex {
    /// Of the one stream of `connection`, for as long as which `held` is kept.
    pub(super) fn new(
        connection: Connection,
        halves: (SendStream, RecvStream),
        tasks: Arc<Tasks>,
        held: Box<dyn Any + Send + Sync>,
    ) -> ControlDuplex {
        ControlDuplex { halves: Some(halves), connection, tasks, held: Some(held) }
    }

    fn send(&mut self) -> io::Result<Pin<&mut SendStream>> {
        let halves = self.halves.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        Ok(Pin::new(&mut halves.0))
    }
}

impl AsyncRead for ControlDuplex {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.halves.as_mut() {
            Some((_, recv)) => AsyncRead::poll_read(Pin::new(recv), context, into),
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

impl AsyncWrite for ControlDuplex {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        AsyncWrite::poll_write(self.send()?, context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_flush(self.send()?, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_shutdown(self.send()?, context)
    }
}

/// Closes a client's connection, and waits until that has left: a process that ends at once would
/// take it along, and the node would keep the session until it takes its client for dead.
fn farewell(connection: &Connection) {
    connection.close(DONE, b"");
    let began = Instant::now();
    while connection.stats().frame_tx.connection_close == 0 && began.elapsed() < LEAVES_WITHIN {
        std::thread::sleep(LOOK_AGAIN);
    }
    // What was counted is being handed to the kernel.
    std::thread::sleep(LOOK_AGAIN);
}

impl Drop for ControlDuplex {
    fn drop(&mut self) {
        if self.connection.side() == Side::Client {
            return farewell(&self.connection);
        }
        let (Some((mut send, recv)), Ok(handle)) = (self.halves.take(), self.tasks.handle()) else {
            return;
        };
        let (connection, tasks, held) =
            (self.connection.clone(), Arc::clone(&self.tasks), self.held.take());
        // A connection that is dropped says nothing more: what was said last has to arrive first.
        handle.spawn(async move {
            let _ = send.finish();
            let _ = tokio::time::timeout(LINGER, send.stopped()).await;
            drop((recv, connection, held, tasks));
        });
    }
}
